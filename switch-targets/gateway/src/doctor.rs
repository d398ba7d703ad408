//! `culvert-gateway doctor`: checks each part of the gateway, with the remedy of what is wrong.

use std::fs;
use std::net::Ipv4Addr;
use std::os::unix::fs::MetadataExt as _;

use crate::arp::probe;
use crate::beside::{Beside, End};
use crate::certificate::dates;
use crate::clock;
use crate::fault::{Fault, Outcome};
use crate::host::{CERTIFICATE, CONTROLLER_CA, Host, Joined, KEK, KEY};
use crate::kernel;
use crate::leave::{no_key, state};
use crate::network::{Interface, Network, way_to};
use crate::nftables;
use crate::return_route::{self, ReturnRoute};
use crate::status::silent;
use crate::watch::asked_by;

/// Prints each check with its verdict; returns whether all are good.
pub fn doctor(host: &Host, joined: &Joined) -> bool {
    let of_placement = match &joined.beside {
        None => vec![
            ("the two ports are the switch's alone", check_ports(joined)),
            ("the next hop answers", check_next_hop(joined)),
            (
                "the MAC addresses of the neighbours are followed, and all of them answer",
                check_neighbours(host, joined),
            ),
        ],
        Some(beside) => vec![
            (
                "the kernel sends ESP to the switch, and the pool's packets",
                check_kernel(host, joined, beside),
            ),
            (
                "the address is this computer's, and the next hop answers",
                check_address(&joined.gateway, beside),
            ),
            (
                "the kernel forwards what comes out of tunnels",
                check_forwarding(beside),
            ),
        ],
    };
    let mut unknown = Vec::new();
    let of_router = joined
        .beside
        .as_ref()
        .and_then(|it| check_return_route(it, &mut unknown));
    let mut checks = vec![
        (
            "the switch is installed, and its user exists",
            check_installed(host),
        ),
        ("the keys are the switch's alone", check_files(host, joined)),
        ("the certificate is good", check_certificate(host, joined)),
    ];
    checks.extend(of_placement);
    checks
        .extend(of_router.map(|it| ("the router sends packets for the pool to this computer", it)));
    checks.extend([
        ("the switch runs", check_runs(host, joined)),
        (
            "the controller is reached, its clock agrees, and it sees the gateway online",
            check_controller(host, joined),
        ),
    ]);
    let mut good = true;
    println!("{}", joined.gateway);
    for (what, outcome) in checks {
        match outcome {
            Ok(()) => println!("  ok    {what}"),
            Err(Fault { what: why, remedy }) => {
                good = false;
                println!("  FAIL  {what}\n        {why}\n        Remedy: {remedy}");
            }
        }
    }
    unknown.extend(joined.beside.as_ref().map(notes).unwrap_or_default());
    for note in unknown {
        println!("  note  {note}");
    }
    good
}

fn check_installed(host: &Host) -> Outcome<()> {
    host.owner()?;
    if host.switch().is_file() {
        return Ok(());
    }
    Err(Fault::new(
        format!("{} is not there.", host.switch().display()),
        "Install the package culvert-gateway again.",
    ))
}

fn check_files(host: &Host, joined: &Joined) -> Outcome<()> {
    let owner = host.owner()?;
    for file in [KEY, CERTIFICATE, CONTROLLER_CA, KEK] {
        let path = host.keys(&joined.gateway).join(file);
        let shown = path.display();
        let found = fs::metadata(&path)
            .map_err(|cause| Fault::of_system(format!("{shown} cannot be read"), &cause))?;
        if (found.uid(), found.mode() & 0o777) != (owner.0, 0o600) {
            return Err(Fault::new(
                format!("{shown} is not readable by the user sluice alone."),
                format!("Run: chown sluice:sluice {shown} && chmod 600 {shown}"),
            ));
        }
    }
    Ok(())
}

fn check_certificate(host: &Host, joined: &Joined) -> Outcome<()> {
    let (from, until) = dates(&host.read_key(&joined.gateway, CERTIFICATE)?).ok_or_else(no_key)?;
    let now = clock::now();
    if now < from {
        return Err(Fault::new(
            format!(
                "The certificate is good from {} on: this computer's clock is behind.",
                clock::date(from)
            ),
            "Set the clock: timedatectl set-ntp true",
        ));
    }
    if now >= until {
        return Err(Fault::new(
            format!("The certificate was good until {}.", clock::date(until)),
            format!("Run: culvert-gateway renew {} --now", joined.gateway),
        ));
    }
    Ok(())
}

fn check_ports(joined: &Joined) -> Outcome<()> {
    let network = Network::read()?;
    for name in [&joined.wan, &joined.lan] {
        let found = network.find(name).ok_or_else(|| {
            Fault::new(
                format!("The interface {name} is gone."),
                "Join again with the interface's new name.",
            )
        })?;
        if !found.up {
            return Err(Fault::new(
                format!("{name} is down."),
                format!("Run: ip link set {name} up"),
            ));
        }
        if let Some(address) = found.addresses.first() {
            return Err(Fault::new(
                format!("The kernel has the address {address} on {name}, beside the switch."),
                format!(
                    "Remove it from the network's settings, and run: ip address del {address} dev {name}"
                ),
            ));
        }
        if found.forwards {
            return Err(Fault::new(
                format!("The kernel forwards packets from {name}, around the switch."),
                format!(
                    "Run: sysctl -w net.ipv4.conf.{name}.forwarding=0, and set it in /etc/sysctl.d."
                ),
            ));
        }
    }
    Ok(())
}

fn check_next_hop(joined: &Joined) -> Outcome<()> {
    let network = Network::read()?;
    let at = network.find(&joined.wan).ok_or_else(no_key)?;
    let next_hop = joined.next_hop.parse().map_err(|_| no_key())?;
    next_hop_answers(at, next_hop)
}

fn check_neighbours(host: &Host, joined: &Joined) -> Outcome<()> {
    let name = &joined.gateway;
    if !host.watches(name) {
        return Err(Fault::new(
            format!(
                "The unit culvert-gateway-watch@{name} does not run: a neighbour with a new MAC address is not found."
            ),
            format!(
                "Run: systemctl restart culvert-gateway-watch@{name}; its log: journalctl -u culvert-gateway-watch@{name}"
            ),
        ));
    }
    let silent: Vec<String> = silent(Some(&state(host, joined)?))
        .into_iter()
        .map(|at| format!("{at} does not answer {}", asked_by(at)))
        .collect();
    if silent.is_empty() {
        return Ok(());
    }
    Err(Fault::new(
        format!("{}.", silent.join(", ")),
        "Check that these hosts are on, their cables and their addresses. One that is gone for good: remove it from the \
         gateway's neighbours in the console.",
    ))
}

fn next_hop_answers(at: &Interface, next_hop: Ipv4Addr) -> Outcome<()> {
    let found = probe(at.index, at.mac, &[next_hop])
        .map_err(|cause| Fault::of_system(format!("{} cannot be asked", at.name), &cause))?;
    if found.contains_key(&next_hop) {
        return Ok(());
    }
    Err(Fault::new(
        format!(
            "The next hop {next_hop} does not answer ARP on {}.",
            at.name
        ),
        "Check the cable and the router. If the router's address has changed, set it in the console, or join again.",
    ))
}

fn check_kernel(host: &Host, joined: &Joined, beside: &Beside) -> Outcome<()> {
    let name = &joined.gateway;
    match kernel::difference(host, name, beside)? {
        None => Ok(()),
        Some(what) => Err(Fault::new(
            format!("The kernel's part of the gateway is not whole: {what}."),
            format!(
                "Run: systemctl restart sluice@{name}; see why culvert-gateway-watch@{name} did not mend it: journalctl -u culvert-gateway-watch@{name}"
            ),
        )),
    }
}

fn check_address(name: &str, beside: &Beside) -> Outcome<()> {
    let network = Network::read()?;
    let Beside {
        interface, address, ..
    } = beside;
    let at = network.find(interface).ok_or_else(|| {
        Fault::new(
            format!("The interface {interface} is gone."),
            "Leave, and join again with the interface's new name.",
        )
    })?;
    // The watch takes a new address over within seconds; what it cannot take over stays.
    if let Some(moved) = beside.moved(&network)? {
        return Err(Fault::new(
            format!(
                "{interface} has the address {} in place of {address}, which devices and tables have.",
                moved.address
            ),
            format!(
                "See why culvert-gateway-watch@{name} has not told the controller: journalctl -u culvert-gateway-watch@{name}. Or give the interface its address of before again."
            ),
        ));
    }
    if let Some(six) = beside.outer6
        && !at.addresses6.iter().any(|it| it.ip == six.address)
    {
        return Err(Fault::new(
            format!("{interface} has the IPv6 address {} no more.", six.address),
            "Give it that address again, or leave and join again: devices and tables have the old one.",
        ));
    }
    if at.addresses.is_empty() {
        return Err(Fault::new(
            format!("{interface} has the address {address} no more, and no other."),
            "Give it an address; its network service (DHCP) may say why it has none.",
        ));
    }
    next_hop_answers(at, beside.next_hop_of(&network))
}

fn check_forwarding(beside: &Beside) -> Outcome<()> {
    match nftables::counted(beside) {
        Some([_, came, 0]) if came > 0 => {
            let lan = beside.name(End::KernelLan);
            let closed = nftables::closed_firewalls().join(", ");
            let by = if closed.is_empty() {
                "unknown".to_owned()
            } else {
                closed
            };
            Err(Fault::new(
                format!(
                    "A firewall of this computer drops what comes out of tunnels: {came} packets came, none was forwarded (nftables: {by})."
                ),
                format!(
                    "Let it accept forwarded packets from and to {lan}. ufw: ufw route allow in on {lan} && ufw route allow out on {lan}; firewalld: firewall-cmd --permanent                      --zone=trusted --add-interface={lan} && firewall-cmd --reload"
                ),
            ))
        }
        _ => Ok(()),
    }
}

/// Whether the router of the default route leads the pool here; None if none need, or if it cannot be told.
fn check_return_route(beside: &Beside, notes: &mut Vec<String>) -> Option<Outcome<()>> {
    if beside.masquerade {
        return None;
    }
    match return_route::ask(beside) {
        Ok(ReturnRoute::Leads) => Some(Ok(())),
        Ok(ReturnRoute::Missing) => Some(Err(return_route::missing(beside))),
        Ok(ReturnRoute::Unknown) => {
            notes.push(format!(
                "whether the router {} has the route {} via {} cannot be told: it answers nothing",
                beside.next_hop, beside.pool, beside.address
            ));
            None
        }
        Err(fault) => Some(Err(fault)),
    }
}

/// Notes for a person where nothing is wrong for certain.
fn notes(beside: &Beside) -> Vec<String> {
    let mut notes = Vec::new();
    let counted = nftables::counted(beside);
    let lan = beside.name(End::KernelLan);
    for table in nftables::closed_firewalls() {
        notes.push(format!(
            "nftables' table {table} drops forwarded packets that it does not know: it must accept those from and to {lan}"
        ));
    }
    if let Some([_, came, forwarded]) = counted
        && forwarded > 0
        && came > forwarded
    {
        notes.push(format!(
            "{} of {came} packets out of tunnels were dropped by a firewall of this computer",
            came - forwarded
        ));
    }
    if let Some([0, ..]) = counted {
        notes.push(format!(
            "no packet of a device has come yet, and only a device can tell whether its packets arrive. Firewalls and port-forwards before this computer must lead ESP and UDP 4500 to {}",
            beside.address
        ));
    }
    notes
}

fn check_runs(host: &Host, joined: &Joined) -> Outcome<()> {
    if host.runs(&joined.gateway) {
        return Ok(());
    }
    let name = &joined.gateway;
    Err(Fault::new(
        format!("The unit sluice@{name} does not run."),
        format!("Run: systemctl restart sluice@{name}; its log: journalctl -u sluice@{name}"),
    ))
}

fn check_controller(host: &Host, joined: &Joined) -> Outcome<()> {
    let seen = state(host, joined)?;
    clock::check(&seen)?;
    let host = joined.controller.rsplit_once(':').map_or("", |it| it.0);
    if let Ok(address) = host.parse()
        && way_to(address).is_some_and(|it| it == joined.wan || it == joined.lan)
    {
        return Err(Fault::new(
            "The route to the controller leads through a port of the switch.",
            "Give this computer a route to the controller through its third interface.",
        ));
    }
    if seen["state"] == "online" {
        return Ok(());
    }
    Err(Fault::new(
        format!(
            "The controller sees the gateway offline: {}.",
            seen["reason"].as_str().unwrap_or_default()
        ),
        "Check the switch's log, and that the controller can reach it.",
    ))
}
