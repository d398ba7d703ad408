//! Chooses the placement beside the kernel: interface, address, next hops and intranet. Pure.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use crate::beside::{Beside, Outer6};
use crate::fault::{Fault, Outcome};
use crate::network::{Interface, Network, Prefix};
use crate::plan::{Choice, Ipv6Choice, MTU_MAX, check_usable, list};

const NUMBERS: u8 = 64;
/// The controller's limit is 256 routes.
const INTRANET_MAX: usize = 200;

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
