//! The placement beside the kernel: one interface, one address, shared with this computer's other services.
//!
//! ```text
//!                ┌ ESP and UDP 4500 to the address ─► culvert-w0 ══ sluice-w0 ┐
//!  wire ── eth0 ─┤                                                            ├ sluice
//!                └ all else ─► kernel ─── pool ────► culvert-l0 ══ sluice-l0 ┘
//! ```
//! `choose` (pure) finds interface, address, next hop and intranet; `kernel.rs` makes it. Each ══ is a veth pair. All MAC
//! addresses in sluice's tables are constants: the kernel knows its neighbours' and writes them (docs/decisions, 67).

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use crate::arp::Mac;
use crate::fault::{Fault, Outcome};
use crate::network::{Interface, Network, Prefix, write_mac};
use crate::plan::{Choice, Ipv6Choice, MTU_MAX, check_usable, list};

/// The placement, as `NAME.json` keeps it: the kernel's part follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beside {
    /// Tells the gateways of one computer apart: of links, addresses and tables.
    pub number: u8,
    pub interface: String,
    pub address: Ipv4Addr,
    pub next_hop: Ipv4Addr,
    pub mtu: u32,
    pub pool: Prefix,
    /// The networks that the kernel's routes lead to, for packets out of tunnels.
    pub intranet: Vec<Prefix>,
    /// The interfaces from which the kernel must forward packets for the pool.
    pub inward: Vec<String>,
    pub masquerade: bool,
    /// The address for packets of devices over IPv6.
    pub outer6: Option<Outer6>,
}

/// An IPv6 address of the interface, and the router of its default route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer6 {
    pub address: Ipv6Addr,
    pub next_hop: Ipv6Addr,
}

/// The end of a veth pair: the kernel's, or the switch's.
#[derive(Clone, Copy)]
pub enum End {
    KernelWan,
    SwitchWan,
    KernelLan,
    SwitchLan,
}

/// RFC 3927. The pair of gateway 0 has 169.254.77.1 and .2, of gateway 1 .5 and .6, and so on.
const LINK: Ipv4Addr = Ipv4Addr::new(169, 254, 77, 0);
const LINK_LENGTH: u8 = 30;
const NUMBERS: u8 = 64;
/// The controller's limit is 256 routes.
const INTRANET_MAX: usize = 200;

impl Beside {
    pub fn name(&self, end: End) -> String {
        let stem = match end {
            End::KernelWan => "culvert-w",
            End::SwitchWan => "sluice-w",
            End::KernelLan => "culvert-l",
            End::SwitchLan => "sluice-l",
        };
        format!("{stem}{}", self.number)
    }

    /// The MAC address in sluice's tables: locally administered. The kernel's own of the switch's ends are others.
    pub fn mac(&self, end: End) -> Mac {
        [0x02, 0x63, 0x76, 0, self.number, end as u8]
    }

    /// The two addresses of the LAN's pair: the kernel's and the switch's.
    pub fn link(&self) -> (Ipv4Addr, Ipv4Addr) {
        let first = u32::from(LINK) + 4 * u32::from(self.number);
        (Ipv4Addr::from(first + 1), Ipv4Addr::from(first + 2))
    }

    fn link_prefix(&self) -> Prefix {
        Prefix::new(self.link().0, LINK_LENGTH)
    }

    pub fn link_address(&self) -> String {
        format!("{}/{LINK_LENGTH}", self.link().0)
    }

    /// The placement with the interface's present address, if that is another than before, as after a new DHCP lease.
    pub fn moved(&self, network: &Network) -> Outcome<Option<Self>> {
        let Self {
            interface, address, ..
        } = self;
        let now = network
            .find(interface)
            .map_or(&[][..], |it| it.addresses.as_slice());
        let moved = match now {
            all if all.iter().any(|it| it.ip == *address) => return Ok(None),
            // A lease that has ended, and a new one that may come.
            [] => return Ok(None),
            [only] => only.ip,
            several => {
                let all: Vec<String> = several.iter().map(ToString::to_string).collect();
                return Err(Fault::new(
                    format!(
                        "{interface} has the address {address} no more, and several others: {}.",
                        all.join(", ")
                    ),
                    "Give it that address again, or leave, and join again with the one that packets arrive at: --wan-address ADDRESS/LENGTH.",
                ));
            }
        };
        let left = |it: &&Prefix| it.contains(*address) && !it.contains(moved);
        if let Some(network) = self.intranet.iter().find(left) {
            return Err(Fault::new(
                format!(
                    "{interface} has the address {moved}, which is not in the intranet's network {network}, as {address} was."
                ),
                "Give it an address of that network again, or leave and join again: the networks that tunnels lead to are others now.",
            ));
        }
        Ok(Some(Self {
            address: moved,
            next_hop: self.next_hop_of(network),
            ..self.clone()
        }))
    }

    /// The present default route's next hop, or the one of the join.
    pub fn next_hop_of(&self, network: &Network) -> Ipv4Addr {
        let found = network.default_routes.get(&self.interface);
        found.copied().unwrap_or(self.next_hop)
    }

    /// The IPv6 address, with the present default route's next hop.
    pub fn outer6_of(&self, network: &Network) -> Option<Outer6> {
        let outer = self.outer6?;
        let found = network.default_routes6.get(&self.interface);
        let next_hop = found.copied().unwrap_or(outer.next_hop);
        Some(Outer6 { next_hop, ..outer })
    }

    /// The ports and the address, as the controller takes them.
    pub fn facts(&self) -> Value {
        let (kernel, switch) = self.link();
        let mac = |end| write_mac(self.mac(end));
        let routes: serde_json::Map<String, Value> = self
            .intranet
            .iter()
            .map(|it| (it.to_string(), json!(kernel.to_string())))
            .collect();
        let neighbour = (kernel.to_string(), json!(mac(End::KernelLan)));
        json!({
            "address": self.address.to_string(), "address6": self.outer6.map(|it| it.address.to_string()),
            "wan": {
                "port": 1, "mac": mac(End::SwitchWan), "next_hop_mac": mac(End::KernelWan), "mtu": self.mtu,
            },
            "lan": {
                "port": 2, "mac": mac(End::SwitchLan), "address": switch.to_string(),
                "prefix": self.link_prefix().to_string(), "mtu": self.mtu, "routes": routes,
                "neighbours": Value::Object([neighbour].into_iter().collect()),
            },
        })
    }

    /// The lines that say what was found, and those that say what will be done.
    pub fn describe(&self, why: &str, public: Option<Ipv4Addr>) -> (Vec<String>, Vec<String>) {
        let Self {
            interface,
            address,
            pool,
            ..
        } = self;
        let lan = self.name(End::KernelLan);
        let networks: Vec<String> = self.intranet.iter().map(ToString::to_string).collect();
        let told = match public {
            Some(public) => format!(", which devices know as {public}"),
            None if address.is_private() => {
                ", which only private networks reach (another one for devices: --public-address)"
                    .to_owned()
            }
            None => String::new(),
        };
        let found = vec![
            format!("Placement    beside the kernel, {why}"),
            format!(
                "Address      {address}{} on {interface}{told}",
                self.outer6
                    .map_or(String::new(), |it| format!(" and {}", it.address))
            ),
            format!(
                "Intranet     {}, by the kernel's routes",
                networks.join(", ")
            ),
            format!(
                "Pool         {pool}{}",
                if self.masquerade {
                    format!(": intranet hosts see {address} in place of it")
                } else {
                    format!(": the intranet's router needs the route {pool} via {address}")
                }
            ),
        ];
        let acts = vec![
            format!(
                "add two pairs of interfaces: {} and {}, {lan} and {}",
                self.name(End::KernelWan),
                self.name(End::SwitchWan),
                self.name(End::SwitchLan)
            ),
            format!(
                "add the tables netdev {table} and inet {table} to nftables: ESP and UDP 4500 to {address}{} go to the switch{}",
                if self.outer6.is_some() {
                    " (and by IPv6)"
                } else {
                    ""
                },
                if self.masquerade {
                    ", and the pool is masqueraded"
                } else {
                    ""
                },
                table = self.table(),
            ),
            format!("add the route {pool} through {lan}"),
            format!(
                "have the kernel forward packets between {lan} and {} (net.ipv4.conf.*.forwarding), for the pool alone",
                self.inward.join(", ")
            ),
        ];
        (found, acts)
    }

    pub fn write(&self) -> Value {
        let intranet: Vec<String> = self.intranet.iter().map(ToString::to_string).collect();
        json!({
            "number": self.number, "interface": self.interface, "address": self.address.to_string(),
            "next_hop": self.next_hop.to_string(), "mtu": self.mtu, "pool": self.pool.to_string(),
            "intranet": intranet, "inward": self.inward, "masquerade": self.masquerade,
            "address6": self.outer6.map(|it| it.address.to_string()),
            "next_hop6": self.outer6.map(|it| it.next_hop.to_string()),
        })
    }

    pub fn parse(value: &Value) -> Option<Self> {
        let text = |name: &str| value[name].as_str();
        let texts = |name: &str| -> Option<Vec<&str>> {
            value[name].as_array()?.iter().map(Value::as_str).collect()
        };
        Some(Self {
            number: value["number"].as_u64()?.try_into().ok()?,
            interface: text("interface")?.to_owned(),
            address: text("address")?.parse().ok()?,
            next_hop: text("next_hop")?.parse().ok()?,
            mtu: value["mtu"].as_u64()?.try_into().ok()?,
            pool: Prefix::parse(text("pool")?)?,
            intranet: texts("intranet")?
                .into_iter()
                .map(Prefix::parse)
                .collect::<Option<_>>()?,
            inward: texts("inward")?.into_iter().map(str::to_owned).collect(),
            masquerade: value["masquerade"].as_bool()?,
            outer6: match text("address6") {
                Some(address) => Some(Outer6 {
                    address: address.parse().ok()?,
                    next_hop: text("next_hop6")?.parse().ok()?,
                }),
                None => None,
            },
        })
    }
}

/// A computer's interfaces that may carry a gateway: up, with carrier, and part of no bridge or bond.
fn usable(network: &Network) -> Vec<&Interface> {
    let ours = |name: &str| name.starts_with("culvert-") || name.starts_with("sluice-");
    network
        .interfaces
        .iter()
        .filter(|it| it.up && it.carrier && !it.enslaved && !ours(&it.name))
        .collect()
}

/// Why this placement is chosen. None: inline.
pub fn reason(network: &Network, choice: &Choice) -> Option<&'static str> {
    if choice.beside.is_some() {
        Some("as --beside says")
    } else if choice.wan.is_none() && choice.lan.is_none() && usable(network).len() == 1 {
        Some("because this computer has one interface")
    } else {
        None
    }
}

/// `taken`: the gateways that are here already.
pub fn choose(
    network: &Network,
    choice: &Choice,
    pool: Prefix,
    taken: &[Beside],
) -> Outcome<Beside> {
    let at = interface(network, choice)?;
    check_usable(at)?;
    let address = address(at, choice)?;
    if let Some(other) = taken.iter().find(|it| it.address == address) {
        return Err(Fault::new(
            format!(
                "Another gateway of this computer has the address {}.",
                other.address
            ),
            "Leave with that gateway first (culvert-gateway status), or choose another interface: --beside INTERFACE.",
        ));
    }
    let next_hop = choice
        .next_hop
        .or_else(|| network.default_routes.get(&at.name).copied())
        .ok_or_else(|| {
            Fault::new(
                format!("{} has no default route.", at.name),
                "Name the interface towards the Internet (--beside INTERFACE), or its router (--next-hop ADDRESS).",
            )
        })?;
    let routes = intranet(network, choice, pool)?;
    let inward: BTreeSet<String> = routes.iter().map(|(_, by)| by.clone()).collect();
    let mut found = Beside {
        number: 0,
        interface: at.name.clone(),
        address,
        next_hop,
        mtu: at.mtu.min(MTU_MAX),
        pool,
        intranet: routes.into_iter().map(|(it, _)| it).collect(),
        inward: inward.into_iter().collect(),
        masquerade: choice.masquerade,
        outer6: outer6(network, at, choice.ipv6)?,
    };
    let free = (0..NUMBERS).find(|number| {
        found.number = *number;
        let link = found.link_prefix();
        !taken.iter().any(|it| it.number == *number)
            && !network.prefixes().any(|(it, _)| it.overlaps(link))
    });
    free.map(|_| found).ok_or_else(|| {
        Fault::new(
            format!("All networks of 169.254.77.0/24 are in use, {NUMBERS} for gateways."),
            "Free one of them.",
        )
    })
}

fn interface<'a>(network: &'a Network, choice: &Choice) -> Outcome<&'a Interface> {
    match &choice.beside {
        Some(Some(name)) => network.find(name).ok_or_else(|| {
            Fault::new(
                format!("There is no Ethernet interface {name}."),
                format!("Name one of these with --beside: {}. An interface without Ethernet, as of PPP or WireGuard, cannot carry a gateway.", list(network)),
            )
        }),
        _ => {
            let with_route: Vec<&Interface> = usable(network)
                .into_iter()
                .filter(|it| network.default_routes.contains_key(&it.name))
                .collect();
            match with_route.as_slice() {
                [only] => Ok(*only),
                [] => Err(Fault::new(
                    "No interface has a default route.",
                    format!("Name the interface with --beside, and its router with --next-hop; here are: {}.", list(network)),
                )),
                _ => Err(Fault::new(
                    "Several interfaces have a default route.",
                    format!("Name the one that devices' packets arrive at: --beside INTERFACE; here are: {}.", list(network)),
                )),
            }
        }
    }
}

fn address(at: &Interface, choice: &Choice) -> Outcome<Ipv4Addr> {
    match (choice.wan_address, at.addresses.as_slice()) {
        (Some(named), several) if several.iter().any(|it| it.ip == named.ip) => Ok(named.ip),
        (Some(named), _) => Err(Fault::new(
            format!("The kernel has no address {} on {}.", named.ip, at.name),
            "Name an address that packets to this computer have (--wan-address). The one that devices send to, if another, is --public-address.",
        )),
        (None, [only]) => Ok(only.ip),
        (None, []) => Err(Fault::new(
            format!("{} has no IPv4 address.", at.name),
            "Give it one, and run the same command again.",
        )),
        (None, several) => {
            let all: Vec<String> = several.iter().map(ToString::to_string).collect();
            Err(Fault::new(
                format!(
                    "{} has several IPv4 addresses: {}.",
                    at.name,
                    all.join(", ")
                ),
                "Name the one that devices' packets arrive at: --wan-address ADDRESS/LENGTH.",
            ))
        }
    }
}

fn outer6(network: &Network, at: &Interface, choice: Ipv6Choice) -> Outcome<Option<Outer6>> {
    let router = network.default_routes6.get(&at.name).copied();
    let address = match choice {
        Ipv6Choice::Without => return Ok(None),
        Ipv6Choice::Named(named) if at.addresses6.iter().any(|it| it.ip == named) => named,
        Ipv6Choice::Named(named) => {
            return Err(Fault::new(
                format!("The kernel has no lasting address {named} on {}.", at.name),
                "Name a global IPv6 address of that interface, and no temporary one: --ipv6 ADDRESS. Or do without: --ipv6 none.",
            ));
        }
        Ipv6Choice::Found => match (at.addresses6.as_slice(), router) {
            ([only], Some(_)) => only.ip,
            _ => return Ok(None),
        },
    };
    let next_hop = router.ok_or_else(|| {
        Fault::new(
            format!("{} has no default route for IPv6.", at.name),
            "Give it one, or do without IPv6: --ipv6 none.",
        )
    })?;
    Ok(Some(Outer6 { address, next_hop }))
}

/// The intranet's networks, each with the interface that leads there.
fn intranet(network: &Network, choice: &Choice, pool: Prefix) -> Outcome<Vec<(Prefix, String)>> {
    let mut found: Vec<(Prefix, String)> = if choice.intranet.is_empty() {
        let usable: BTreeSet<&str> = usable(network).iter().map(|it| it.name.as_str()).collect();
        network
            .prefixes()
            .filter(|(it, by)| it.length < 32 && !it.is_link_local() && usable.contains(by))
            .map(|(it, by)| (it, by.to_owned()))
            .collect()
    } else {
        let by = |it: &Prefix| {
            let by = network.way(*it).ok_or_else(|| {
                Fault::new(
                    format!("This computer has no route to {it}."),
                    "Give it one, or name the networks that it reaches: --intranet PREFIX.",
                )
            })?;
            Ok((*it, by))
        };
        choice.intranet.iter().map(by).collect::<Outcome<_>>()?
    };
    if let Some((it, _)) = found.iter().find(|(it, _)| it.overlaps(pool)) {
        return Err(Fault::new(
            format!("The pool {pool} for devices overlaps the intranet's network {it}."),
            "Make a new link with a pool that no network here uses.",
        ));
    }
    found.sort_by_key(|(it, _)| it.length);
    let mut kept: Vec<(Prefix, String)> = Vec::new();
    for (it, by) in found {
        if !kept.iter().any(|(wide, _)| wide.overlaps(it)) {
            kept.push((it, by));
        }
    }
    if kept.is_empty() || kept.len() > INTRANET_MAX {
        return Err(Fault::new(
            format!("This computer has routes to {} networks.", kept.len()),
            "Name the intranet's networks, which tunnels may lead to: --intranet PREFIX (repeat it).",
        ));
    }
    Ok(kept)
}
