//! Chooses the two ports and their addresses, and refuses what cannot work. Pure.
//!
//! ```text
//!   kept: the way to the controller      WAN: --wan, or the other one with a default route      LAN: --lan, or the last one
//! ```
//! Both ports are the switch's alone (placement inline): the kernel keeps no address there and forwards nothing from there.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::fault::{Fault, Outcome};
use crate::network::{Address, Interface, Network, Prefix, write_mac};

/// Settings from the command line; what is absent is found.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    pub wan: Option<String>,
    pub lan: Option<String>,
    pub wan_address: Option<Address>,
    pub lan_address: Option<Address>,
    pub next_hop: Option<Ipv4Addr>,
    pub neighbours: Vec<Ipv4Addr>,
    /// Placement beside the kernel; the inner value names the interface.
    #[expect(clippy::option_option, reason = "absent, without a name, with a name")]
    pub beside: Option<Option<String>>,
    pub intranet: Vec<Prefix>,
    pub masquerade: bool,
    pub ipv6: Ipv6Choice,
}

/// Beside the kernel: the IPv6 address that devices may send to.
#[derive(Clone, Copy, Debug, Default)]
pub enum Ipv6Choice {
    /// The interface's, if it has one only and a default route.
    #[default]
    Found,
    Named(Ipv6Addr),
    Without,
}

#[derive(Clone, Debug)]
pub struct Port {
    pub interface: Interface,
    pub address: Address,
}

#[derive(Clone, Debug)]
pub struct Plan {
    pub wan: Port,
    pub lan: Port,
    pub next_hop: Ipv4Addr,
    /// The LAN's hosts to look for.
    pub neighbours: Vec<Ipv4Addr>,
}

/// The controller's limit (proto/contract.toml).
pub const MTU_MAX: u32 = 9216;
/// The largest LAN whose hosts are all looked for.
const LAN_MAX: u32 = 1023;
const IPV6_MIN_MTU: u32 = 1280;

/// `to_controller`: the interfaces through which this computer reaches the controller.
pub fn choose(
    network: &Network,
    choice: &Choice,
    to_controller: &BTreeSet<String>,
) -> Outcome<Plan> {
    let wan = pick(network, choice.wan.as_deref(), "wan", to_controller, |it| {
        Some(it.name.as_str()) != choice.lan.as_deref()
            && network.default_routes.contains_key(&it.name)
    })?;
    let lan = pick(network, choice.lan.as_deref(), "lan", to_controller, |it| {
        it.name != wan.name
    })?;
    if wan.name == lan.name {
        return Err(Fault::new(
            format!("--wan and --lan are both {}.", wan.name),
            "Name two interfaces: one towards the Internet, one towards the intranet.",
        ));
    }
    for port in [wan, lan] {
        check(port, to_controller)?;
    }
    let next_hop = choice
        .next_hop
        .or_else(|| network.default_routes.get(&wan.name).copied())
        .ok_or_else(|| {
            Fault::new(
                format!(
                    "{} has no next hop: the kernel has no default route there.",
                    wan.name
                ),
                "Name the router towards the Internet: --next-hop ADDRESS.",
            )
        })?;
    let wan = port(wan, choice.wan_address, "wan")?;
    let lan = port(lan, choice.lan_address, "lan")?;
    if !wan.address.prefix().contains(next_hop) || next_hop == wan.address.ip {
        return Err(Fault::new(
            format!(
                "The next hop {next_hop} is not a neighbour of {} on {}.",
                wan.address, wan.interface.name
            ),
            "Name the router's address in the WAN's own network (--next-hop), or the WAN's address (--wan-address).",
        ));
    }
    if wan.address.prefix().overlaps(lan.address.prefix()) {
        return Err(Fault::new(
            format!(
                "The networks of {} and {} overlap: {} and {}.",
                wan.interface.name,
                lan.interface.name,
                wan.address.prefix(),
                lan.address.prefix()
            ),
            "Choose the two interfaces and their addresses with --wan, --lan, --wan-address and --lan-address.",
        ));
    }
    if let Some(outside) = choice
        .neighbours
        .iter()
        .find(|it| !lan.address.prefix().contains(**it))
    {
        return Err(Fault::new(
            format!(
                "The neighbour {outside} is not in the LAN's network {}.",
                lan.address.prefix()
            ),
            "Name hosts of the LAN itself with --neighbour.",
        ));
    }
    let mut neighbours: BTreeSet<Ipv4Addr> =
        lan.address.prefix().hosts(LAN_MAX).into_iter().collect();
    neighbours.extend(&choice.neighbours);
    neighbours.remove(&lan.address.ip);
    Ok(Plan {
        wan,
        lan,
        next_hop,
        neighbours: neighbours.into_iter().collect(),
    })
}

/// Refuses a pool that this computer already uses or reaches otherwise. `ports`: those that the switch will have.
pub fn check_pool(network: &Network, ports: &[&Port], pool: Prefix) -> Outcome<()> {
    let of_ports = ports
        .iter()
        .map(|it| (it.address.prefix(), it.interface.name.as_str()));
    let used = of_ports
        .chain(network.prefixes())
        .find(|(it, _)| it.overlaps(pool));
    used.map_or(Ok(()), |(it, by)| {
        Err(Fault::new(
            format!("The pool {pool} for devices overlaps {it}, which is behind {by}."),
            "Make a new link with a pool that no network here uses.",
        ))
    })
}

fn pick<'a>(
    network: &'a Network,
    named: Option<&str>,
    role: &str,
    to_controller: &BTreeSet<String>,
    fits: impl Fn(&Interface) -> bool,
) -> Outcome<&'a Interface> {
    if let Some(name) = named {
        return network.find(name).ok_or_else(|| {
            Fault::new(
                format!("There is no Ethernet interface {name}."),
                format!("Name one of these with --{role}: {}.", list(network)),
            )
        });
    }
    let free: Vec<&Interface> = network
        .interfaces
        .iter()
        .filter(|it| it.up && !to_controller.contains(&it.name) && fits(it))
        .collect();
    match free.as_slice() {
        [only] => Ok(*only),
        [] => Err(Fault::new(
            format!(
                "No interface is left for the {} beside the way to the controller ({}).",
                role.to_uppercase(),
                to_controller.iter().cloned().collect::<Vec<_>>().join(", "),
            ),
            format!(
                "This placement needs two interfaces of its own, and a third one for this computer. If there are, name it with --{role}; if not, share one with --beside INTERFACE. Here are: {}.",
                list(network)
            ),
        )),
        several => Err(Fault::new(
            format!("Several interfaces could be the {}.", role.to_uppercase()),
            format!(
                "Name one with --{role}: {}.",
                several
                    .iter()
                    .map(|it| it.name.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            ),
        )),
    }
}

fn check(port: &Interface, to_controller: &BTreeSet<String>) -> Outcome<()> {
    let name = &port.name;
    if to_controller.contains(name) {
        return Err(Fault::new(
            format!(
                "This computer reaches the controller through {name}, which the switch would take for itself."
            ),
            "Give this computer a third interface with a route to the controller, or choose other interfaces with --wan and --lan.",
        ));
    }
    check_usable(port)?;
    if port.forwards {
        return Err(Fault::new(
            format!(
                "The kernel forwards packets from {name}: they would go around the switch, in clear."
            ),
            format!(
                "Run: sysctl -w net.ipv4.conf.{name}.forwarding=0, and set it in /etc/sysctl.d."
            ),
        ));
    }
    Ok(())
}

pub fn check_usable(port: &Interface) -> Outcome<()> {
    let name = &port.name;
    if !port.up {
        return Err(Fault::new(
            format!("The interface {name} is down."),
            format!("Run: ip link set {name} up"),
        ));
    }
    if port.mtu < IPV6_MIN_MTU {
        return Err(Fault::new(
            format!(
                "The interface {name} has an MTU of {}, which is below {IPV6_MIN_MTU}.",
                port.mtu
            ),
            format!("Run: ip link set {name} mtu 1500"),
        ));
    }
    Ok(())
}

fn port(interface: &Interface, named: Option<Address>, role: &str) -> Outcome<Port> {
    let address = match (named, interface.addresses.as_slice()) {
        (Some(address), _) => address,
        (None, [only]) => *only,
        (None, []) => {
            return Err(Fault::new(
                format!(
                    "{} has no IPv4 address for the switch to take.",
                    interface.name
                ),
                format!("Name it: --{role}-address ADDRESS/LENGTH."),
            ));
        }
        (None, several) => {
            let all = several
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join(", ");
            return Err(Fault::new(
                format!("{} has several IPv4 addresses: {all}.", interface.name),
                format!("Name the switch's: --{role}-address ADDRESS/LENGTH."),
            ));
        }
    };
    Ok(Port {
        interface: interface.clone(),
        address,
    })
}

pub fn list(network: &Network) -> String {
    let said = network
        .interfaces
        .iter()
        .map(|it| format!("{} ({})", it.name, write_mac(it.mac)));
    said.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn interface(name: &str, address: Option<&str>) -> Interface {
        Interface {
            name: name.to_owned(),
            index: 1,
            mac: [2, 0, 0, 0, 0, 1],
            mtu: 1500,
            up: true,
            carrier: true,
            enslaved: false,
            addresses: address.and_then(Address::parse).into_iter().collect(),
            addresses6: vec![],
            forwards: false,
        }
    }

    fn network() -> Network {
        Network {
            interfaces: vec![
                interface("mgmt", Some("10.255.0.2/30")),
                interface("wan", Some("198.51.100.2/24")),
                interface("lan", Some("10.20.0.1/24")),
            ],
            default_routes: BTreeMap::from([("wan".to_owned(), Ipv4Addr::new(198, 51, 100, 1))]),
            default_routes6: BTreeMap::new(),
            routes: vec![],
            neighbours: BTreeMap::new(),
        }
    }

    fn by_mgmt() -> BTreeSet<String> {
        BTreeSet::from(["mgmt".to_owned()])
    }

    fn why(network: &Network, choice: &Choice, to_controller: &BTreeSet<String>) -> String {
        choose(network, choice, to_controller)
            .err()
            .map(|it| it.what)
            .unwrap_or_default()
    }

    #[test]
    fn the_ports_are_found() {
        let plan = choose(&network(), &Choice::default(), &by_mgmt()).ok();
        let found = plan.map(|it| {
            (
                it.wan.interface.name,
                it.lan.interface.name,
                it.neighbours.len(),
            )
        });
        assert_eq!(found, Some(("wan".to_owned(), "lan".to_owned(), 253)));
    }

    #[test]
    fn wrong_interfaces_are_refused() {
        let named = |wan: &str, lan: &str| Choice {
            wan: Some(wan.to_owned()),
            lan: Some(lan.to_owned()),
            ..Choice::default()
        };
        let mut net = network();
        assert!(
            why(&net, &named("eth9", "lan"), &by_mgmt()).contains("no Ethernet interface eth9")
        );
        assert!(why(&net, &named("wan", "wan"), &by_mgmt()).contains("both wan"));
        assert!(
            why(&net, &named("mgmt", "lan"), &by_mgmt())
                .contains("reaches the controller through mgmt")
        );
        assert!(why(&net, &named("lan", "wan"), &by_mgmt()).contains("no default route"));
        net.interfaces[1].forwards = true;
        assert!(why(&net, &Choice::default(), &by_mgmt()).contains("forwards packets from wan"));
        net.interfaces[1].forwards = false;
        net.interfaces[2].up = false;
        assert!(
            why(&net, &Choice::default(), &by_mgmt()).contains("No interface is left for the LAN")
        );
        net.interfaces.truncate(1);
        assert!(
            why(&net, &Choice::default(), &by_mgmt()).contains("No interface is left for the WAN")
        );
    }

    #[test]
    fn addresses_that_do_not_fit_are_refused() {
        let mut net = network();
        let far = Choice {
            next_hop: Some(Ipv4Addr::new(192, 0, 2, 1)),
            ..Choice::default()
        };
        assert!(why(&net, &far, &by_mgmt()).contains("not a neighbour"));
        let outside = Choice {
            neighbours: vec![Ipv4Addr::new(192, 0, 2, 1)],
            ..Choice::default()
        };
        assert!(why(&net, &outside, &by_mgmt()).contains("not in the LAN's network"));
        let same = Choice {
            lan_address: Address::parse("198.51.100.9/25"),
            ..Choice::default()
        };
        assert!(why(&net, &same, &by_mgmt()).contains("overlap"));
        net.interfaces[2].addresses.clear();
        assert!(why(&net, &Choice::default(), &by_mgmt()).contains("no IPv4 address"));
    }

    #[test]
    fn a_pool_that_is_used_here_is_refused() {
        let mut net = network();
        net.routes.push((
            Prefix::new(Ipv4Addr::new(10, 50, 0, 0), 16),
            "mgmt".to_owned(),
        ));
        for (pool, fits) in [
            ("10.99.0.0/24", true),
            ("10.20.0.128/25", false),
            ("10.255.0.0/24", false),
            ("10.50.7.0/24", false),
            ("198.51.0.0/16", false),
        ] {
            let pool = Prefix::parse(pool).unwrap_or(Prefix::new(Ipv4Addr::UNSPECIFIED, 0));
            assert_eq!(check_pool(&net, &[], pool).is_ok(), fits, "{pool}");
        }
    }
}
