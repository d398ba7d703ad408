//! This computer's interfaces, addresses and routes, as `ip -json` and /sys tell them.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::arp::Mac;
use crate::fault::{Fault, Outcome};

/// An IPv4 prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    network: u32,
    pub length: u8,
}

impl Prefix {
    pub fn new(address: Ipv4Addr, length: u8) -> Self {
        Self {
            network: u32::from(address) & mask(length),
            length,
        }
    }

    /// Reads "a.b.c.d/len".
    pub fn parse(text: &str) -> Option<Self> {
        let (address, length) = text.split_once('/')?;
        let length = length.parse().ok().filter(|it| *it <= 32)?;
        Some(Self::new(address.parse().ok()?, length))
    }

    pub fn contains(self, address: Ipv4Addr) -> bool {
        u32::from(address) & mask(self.length) == self.network
    }

    pub fn overlaps(self, other: Self) -> bool {
        let shorter = mask(self.length.min(other.length));
        self.network & shorter == other.network & shorter
    }

    /// The first address: the network's own.
    pub fn first(self) -> Ipv4Addr {
        Ipv4Addr::from(self.network)
    }

    /// RFC 3927: no router passes such packets on.
    pub fn is_link_local(self) -> bool {
        self.first().is_link_local()
    }

    /// The addresses of hosts, if they are at most `most`.
    pub fn hosts(self, most: u32) -> Vec<Ipv4Addr> {
        let count = !mask(self.length);
        if count > most {
            return Vec::new();
        }
        (1..count)
            .map(|it| Ipv4Addr::from(self.network | it))
            .collect()
    }
}

impl std::fmt::Display for Prefix {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}/{}", Ipv4Addr::from(self.network), self.length)
    }
}

fn mask(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
}

/// An address with the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address {
    pub ip: Ipv4Addr,
    pub length: u8,
}

impl Address {
    pub fn parse(text: &str) -> Option<Self> {
        let (ip, length) = text.split_once('/')?;
        Some(Self {
            ip: ip.parse().ok()?,
            length: length.parse().ok().filter(|it| *it <= 32)?,
        })
    }

    pub fn prefix(self) -> Prefix {
        Prefix::new(self.ip, self.length)
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, to: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(to, "{}/{}", self.ip, self.length)
    }
}

/// An IPv6 address with the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Address6 {
    pub ip: Ipv6Addr,
    pub length: u8,
}

impl Address6 {
    /// The network's prefix, as nftables reads it.
    pub fn prefix(self) -> String {
        let mask = u128::MAX
            .checked_shl(128 - u32::from(self.length))
            .unwrap_or(0);
        format!(
            "{}/{}",
            Ipv6Addr::from(u128::from(self.ip) & mask),
            self.length
        )
    }
}

#[derive(Clone, Debug)]
pub struct Interface {
    pub name: String,
    pub index: i32,
    pub mac: Mac,
    pub mtu: u32,
    pub up: bool,
    pub carrier: bool,
    /// Part of a bridge or bond.
    pub enslaved: bool,
    /// The kernel's own IPv4 addresses there.
    pub addresses: Vec<Address>,
    /// Its global IPv6 addresses that stay: no temporary ones (RFC 8981), nor deprecated ones.
    pub addresses6: Vec<Address6>,
    /// Whether the kernel forwards packets from there.
    pub forwards: bool,
}

#[derive(Clone, Debug)]
pub struct Network {
    pub interfaces: Vec<Interface>,
    /// The next hops of the kernel's default routes, by interface.
    pub default_routes: BTreeMap<String, Ipv4Addr>,
    /// The same for IPv6; routers are named by link-local addresses mostly.
    pub default_routes6: BTreeMap<String, Ipv6Addr>,
    /// The prefixes of the kernel's routes, with their interfaces.
    pub routes: Vec<(Prefix, String)>,
    /// The kernel's neighbours, by interface and address.
    pub neighbours: BTreeMap<(String, Ipv4Addr), Mac>,
}

impl Network {
    pub fn read() -> Outcome<Self> {
        let interfaces = rows(&["-4", "address", "show"])?
            .iter()
            .map(|row| (text(row, "ifname"), addresses(row)))
            .collect::<BTreeMap<_, _>>();
        // A kernel without IPv6 fails here, and has none.
        let six = rows(&["-6", "address", "show"]).unwrap_or_default();
        let six: BTreeMap<String, Vec<Address6>> = six
            .iter()
            .map(|row| (text(row, "ifname"), addresses6(row)))
            .collect();
        let mut found = Vec::new();
        for row in rows(&["link", "show"])? {
            if text(&row, "link_type") != "ether" {
                continue;
            }
            let name = text(&row, "ifname");
            let Some(mac) = parse_mac(&text(&row, "address")) else {
                continue;
            };
            found.push(Interface {
                index: row["ifindex"]
                    .as_i64()
                    .and_then(|it| it.try_into().ok())
                    .unwrap_or_default(),
                mtu: row["mtu"]
                    .as_u64()
                    .and_then(|it| it.try_into().ok())
                    .unwrap_or(1500),
                up: flagged(&row, "UP"),
                carrier: flagged(&row, "LOWER_UP"),
                enslaved: row["master"].is_string(),
                addresses: interfaces.get(&name).cloned().unwrap_or_default(),
                addresses6: six.get(&name).cloned().unwrap_or_default(),
                forwards: forwards(&name),
                mac,
                name,
            });
        }
        let mut network = Self {
            interfaces: found,
            default_routes: BTreeMap::new(),
            default_routes6: BTreeMap::new(),
            routes: Vec::new(),
            neighbours: BTreeMap::new(),
        };
        for row in rows(&["-6", "route", "show", "default"]).unwrap_or_default() {
            if let Ok(via) = text(&row, "gateway").parse() {
                let device = text(&row, "dev");
                network.default_routes6.entry(device).or_insert(via);
            }
        }
        for row in rows(&["-4", "route", "show"])? {
            let (to, via, device) = (text(&row, "dst"), text(&row, "gateway"), text(&row, "dev"));
            if to == "default" {
                if let Ok(via) = via.parse() {
                    network.default_routes.entry(device).or_insert(via);
                }
            } else if let Some(prefix) =
                Prefix::parse(&to).or_else(|| Prefix::parse(&format!("{to}/32")))
            {
                network.routes.push((prefix, device));
            }
        }
        for row in rows(&["-4", "neighbour", "show"])? {
            if let (Ok(address), Some(mac)) =
                (text(&row, "dst").parse(), parse_mac(&text(&row, "lladdr")))
            {
                network.neighbours.insert((text(&row, "dev"), address), mac);
            }
        }
        Ok(network)
    }

    /// The kernel's networks and routes, each with its interface.
    pub fn prefixes(&self) -> impl Iterator<Item = (Prefix, &str)> {
        let own = self.interfaces.iter().flat_map(|it| {
            let of = it.addresses.iter().map(|at| at.prefix());
            of.map(|at| (at, it.name.as_str()))
        });
        own.chain(self.routes.iter().map(|(to, by)| (*to, by.as_str())))
    }

    /// The interface through which packets to this prefix leave, by its first address.
    pub fn way(&self, to: Prefix) -> Option<String> {
        let by = self
            .prefixes()
            .filter(|(it, _)| it.contains(to.first()))
            .max_by_key(|(it, _)| it.length)
            .map(|(_, by)| by.to_owned());
        by.or_else(|| self.default_routes.keys().next().cloned())
    }

    pub fn find(&self, name: &str) -> Option<&Interface> {
        self.interfaces.iter().find(|it| it.name == name)
    }
}

/// The interface through which packets to this address leave. None: there is no route.
pub fn way_to(address: IpAddr) -> Option<String> {
    let found = rows(&["route", "get", &address.to_string()]).ok()?;
    found.first().map(|row| text(row, "dev"))
}

/// Runs `ip` with these arguments. None of them is secret.
pub fn ip(arguments: &[&str]) -> Outcome<String> {
    let said = format!("ip {}", arguments.join(" "));
    let run = Command::new("ip").args(arguments).output();
    let run = run.map_err(|cause| {
        Fault::of_system("The program ip (package iproute2) cannot be run", &cause)
    })?;
    if run.status.success() {
        return Ok(String::from_utf8_lossy(&run.stdout).into_owned());
    }
    let why = String::from_utf8_lossy(&run.stderr).trim().to_owned();
    Err(Fault::new(
        format!("{said} failed: {why}."),
        "Run this as root, and check the interface's name.",
    ))
}

fn rows(arguments: &[&str]) -> Outcome<Vec<Value>> {
    let mut all = vec!["-json"];
    all.extend_from_slice(arguments);
    let whole = ip(&all)?;
    let whole = if whole.trim().is_empty() {
        "[]"
    } else {
        whole.trim()
    };
    serde_json::from_str(whole).map_err(|_| {
        Fault::new(
            "The program ip does not answer with JSON.",
            "Install iproute2 4.18 or newer.",
        )
    })
}

fn flagged(row: &Value, flag: &str) -> bool {
    row["flags"]
        .as_array()
        .is_some_and(|it| it.iter().any(|it| it == flag))
}

fn text(row: &Value, field: &str) -> String {
    row[field].as_str().unwrap_or_default().to_owned()
}

fn addresses(row: &Value) -> Vec<Address> {
    let found = row["addr_info"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default();
    let of = |it: &Value| {
        let length = it["prefixlen"].as_u64()?.try_into().ok()?;
        Some(Address {
            ip: it["local"].as_str()?.parse().ok()?,
            length,
        })
    };
    found.iter().filter_map(of).collect()
}

fn addresses6(row: &Value) -> Vec<Address6> {
    let passing = ["temporary", "deprecated", "tentative", "dadfailed"];
    let of = |it: &Value| {
        let stays = it["scope"] == "global" && !passing.iter().any(|flag| it[*flag] == true);
        let length = it["prefixlen"].as_u64()?.try_into().ok()?;
        let ip = it["local"].as_str()?.parse().ok()?;
        stays.then_some(Address6 { ip, length })
    };
    let found = row["addr_info"].as_array();
    found.into_iter().flatten().filter_map(of).collect()
}

/// Whether the kernel forwards packets from this interface.
pub fn forwards(name: &str) -> bool {
    fs::read_to_string(forwarding_file(name)).is_ok_and(|it| it.trim() == "1")
}

pub fn forwarding_file(name: &str) -> PathBuf {
    Path::new("/proc/sys/net/ipv4/conf")
        .join(name)
        .join("forwarding")
}

fn parse_mac(text: &str) -> Option<Mac> {
    let parts: Option<Vec<u8>> = text
        .split(':')
        .map(|it| u8::from_str_radix(it, 16).ok())
        .collect();
    parts?.try_into().ok().filter(|it| *it != [0; 6])
}

pub fn write_mac(mac: Mac) -> String {
    mac.map(|it| format!("{it:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(text: &str) -> Prefix {
        Prefix::parse(text).unwrap_or(Prefix {
            network: 0,
            length: 0,
        })
    }

    #[test]
    fn prefixes_overlap_when_one_contains_the_other() {
        assert!(prefix("10.0.0.0/8").overlaps(prefix("10.99.0.0/24")));
        assert!(prefix("10.99.0.0/24").overlaps(prefix("10.0.0.0/8")));
        assert!(!prefix("10.98.0.0/24").overlaps(prefix("10.99.0.0/24")));
        assert!(prefix("0.0.0.0/0").overlaps(prefix("10.99.0.0/24")));
        assert!(prefix("192.0.2.7/24").contains(Ipv4Addr::new(192, 0, 2, 200)));
    }

    #[test]
    fn a_prefix_lists_its_hosts_up_to_a_limit() {
        assert_eq!(prefix("192.0.2.0/30").hosts(255).len(), 2);
        assert!(prefix("10.0.0.0/8").hosts(1024).is_empty());
        assert!(prefix("192.0.2.1/32").hosts(255).is_empty());
    }

    #[test]
    fn a_mac_address_survives_its_text() {
        let mac = [2, 0, 0, 0xab, 1, 2];
        assert_eq!(parse_mac(&write_mac(mac)), Some(mac));
        assert_eq!(parse_mac("02:00:00"), None);
        assert_eq!(parse_mac("00:00:00:00:00:00"), None);
    }
}
