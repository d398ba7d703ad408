//! The placement beside the kernel: one interface, one address, shared with this computer's other services.
//!
//! ```text
//!                ┌ ESP and UDP 4500 to the address ─► culvert-w0 ══ sluice-w0 ┐
//!  wire ── eth0 ─┤                                                            ├ sluice
//!                └ all else ─► kernel ─── pool ────► culvert-l0 ══ sluice-l0 ┘
//! ```
//! `beside_plan.rs` chooses it, and `kernel.rs` makes it. Each ══ is a veth pair. All MAC
//! addresses in sluice's tables are constants: the kernel knows its neighbours' and writes them (docs/decisions, 67).

use std::net::{Ipv4Addr, Ipv6Addr};

use serde_json::{Value, json};

use crate::arp::Mac;
use crate::fault::{Fault, Outcome};
use crate::network::{Network, Prefix, write_mac};

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

    pub fn link_prefix(&self) -> Prefix {
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
