//! The placement inline: the two ports' neighbours, and what the controller and the person are told.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use serde_json::{Value, json};

use crate::arp::{Mac, probe};
use crate::fault::{Fault, Outcome};
use crate::network::{Network, write_mac};
use crate::plan::{MTU_MAX, Plan, Port};

pub struct Inline {
    pub plan: Plan,
    next_hop: Mac,
    neighbours: BTreeMap<Ipv4Addr, Mac>,
    pub had_route: bool,
}

impl Inline {
    pub fn find(network: &Network, plan: Plan) -> Outcome<Self> {
        let (next_hop, neighbours) = find_neighbours(network, &plan)?;
        let had_route =
            network.default_routes.get(&plan.wan.interface.name) == Some(&plan.next_hop);
        Ok(Self {
            plan,
            next_hop,
            neighbours,
            had_route,
        })
    }

    /// The ports and the address, as the controller takes them.
    pub fn facts(&self) -> Value {
        let (wan, lan) = (&self.plan.wan, &self.plan.lan);
        let neighbours: BTreeMap<String, String> = self
            .neighbours
            .iter()
            .map(|(at, mac)| (at.to_string(), write_mac(*mac)))
            .collect();
        json!({
            "address": wan.address.ip.to_string(), "next_hop": self.plan.next_hop.to_string(),
            "wan": {
                "port": 1, "mac": write_mac(wan.interface.mac), "next_hop_mac": write_mac(self.next_hop),
                "mtu": wan.interface.mtu.min(MTU_MAX),
            },
            "lan": {
                "port": 2, "mac": write_mac(lan.interface.mac), "address": lan.address.ip.to_string(),
                "prefix": lan.address.prefix().to_string(), "neighbours": neighbours,
                "mtu": lan.interface.mtu.min(MTU_MAX),
            },
        })
    }

    /// The lines that say what was found, and those that say what will be done.
    pub fn describe(&self, pool: &str) -> (Vec<String>, Vec<String>) {
        let (wan, lan) = (&self.plan.wan, &self.plan.lan);
        let taken: Vec<String> = self
            .taken()
            .iter()
            .map(|(at, it)| format!("{it} on {at}"))
            .collect();
        let found = vec![
            format!(
                "WAN          {}: {}, next hop {} ({})",
                wan.interface.name,
                wan.address,
                self.plan.next_hop,
                write_mac(self.next_hop)
            ),
            format!(
                "LAN          {}: {}, {} neighbours found",
                lan.interface.name,
                lan.address,
                self.neighbours.len()
            ),
            format!(
                "Pool         {pool}: the LAN's router must send packets for it to {}",
                lan.address.ip
            ),
        ];
        let mut acts = Vec::new();
        if !taken.is_empty() {
            acts.push(format!(
                "take {} from the kernel: the switch has them from then on",
                taken.join(" and ")
            ));
        }
        (found, acts)
    }

    /// The kernel's addresses on the two ports: interface and ADDRESS/LENGTH.
    pub fn taken(&self) -> Vec<(String, String)> {
        [&self.plan.wan, &self.plan.lan]
            .into_iter()
            .flat_map(|port| {
                port.interface
                    .addresses
                    .iter()
                    .map(|it| (port.interface.name.clone(), it.to_string()))
            })
            .collect()
    }
}

/// Asks the neighbours themselves; the kernel's table answers for those that ignore probes.
fn find_neighbours(network: &Network, plan: &Plan) -> Outcome<(Mac, BTreeMap<Ipv4Addr, Mac>)> {
    let ask = |port: &Port, targets: &[Ipv4Addr]| -> Outcome<BTreeMap<Ipv4Addr, Mac>> {
        let of = &port.interface;
        let mut found = probe(of.index, of.mac, targets)
            .map_err(|cause| Fault::of_system(format!("{} cannot be asked", of.name), &cause))?;
        for target in targets {
            if let Some(mac) = network.neighbours.get(&(of.name.clone(), *target)) {
                found.entry(*target).or_insert(*mac);
            }
        }
        Ok(found)
    };
    for port in [&plan.wan, &plan.lan] {
        let of = &port.interface;
        let own = probe(of.index, of.mac, &[port.address.ip])
            .map_err(|cause| Fault::of_system(format!("{} cannot be asked", of.name), &cause))?;
        if let Some(mac) = own.get(&port.address.ip) {
            return Err(Fault::new(
                format!(
                    "Another computer has the address {} on {}: {}.",
                    port.address.ip,
                    of.name,
                    write_mac(*mac)
                ),
                "Free that address, or choose another one with --wan-address or --lan-address.",
            ));
        }
    }
    let next_hop = ask(&plan.wan, &[plan.next_hop])?.get(&plan.next_hop).copied().ok_or_else(|| {
        Fault::new(
            format!("The next hop {} does not answer on {}.", plan.next_hop, plan.wan.interface.name),
            "Check the cable, the interface (--wan), the VLAN, and the router's address (--next-hop).",
        )
    })?;
    Ok((next_hop, ask(&plan.lan, &plan.neighbours)?))
}
