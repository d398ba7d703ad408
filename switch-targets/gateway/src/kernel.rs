//! The kernel's part of a gateway beside it: links, a route, nftables tables, forwarding. `apply` makes the whole of it, and
//! again makes no difference; `remove` leaves nothing, also after a crash.
//!
//! ```text
//!  apply:   links ─► address ─► tables ─► route of the pool ─► forwarding        remove: in reverse
//! ```
//! /run/culvert-gateway/NAME holds the interfaces from which the kernel forwarded nothing before.

use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::beside::{Beside, End};
use crate::fault::{Fault, Outcome};
use crate::host::Host;
use crate::network::{Network, forwarding_file, forwards, ip, way_to, write_mac};
use crate::nftables;

const PAIRS: [(End, End); 2] = [
    (End::KernelWan, End::SwitchWan),
    (End::KernelLan, End::SwitchLan),
];
/// UDP port 4500 (RFC 3948), as /proc/net/udp writes it.
const ESP_IN_UDP: &str = "1194";

pub fn apply(host: &Host, gateway: &str, beside: &Beside) -> Outcome<()> {
    for (kernel, switch) in PAIRS {
        make_pair(beside, kernel, switch)?;
    }
    let lan = beside.name(End::KernelLan);
    ip(&["address", "replace", &beside.link_address(), "dev", &lan])?;
    let network = Network::read()?;
    let closed = closed(host, gateway, beside)?;
    nftables::run(&beside.rules(&network, &closed), &[])?;
    let (_, switch) = beside.link();
    ip(&[
        "route",
        "replace",
        &beside.pool.to_string(),
        "via",
        &switch.to_string(),
        "dev",
        &lan,
    ])?;
    // Its chain drops all that is not the switch's. A router's kernel forwards from each new interface, and a container's
    // setting cannot be changed.
    if !forwards_everywhere() {
        set_forwarding(&beside.name(End::KernelWan), false)?;
    }
    for name in beside.inward.iter().chain([&lan]) {
        set_forwarding(name, true)?;
    }
    Ok(())
}

pub fn remove(host: &Host, gateway: &str, beside: &Beside) -> Outcome<()> {
    let kept = record(host, gateway);
    if !forwards_everywhere() {
        for name in fs::read_to_string(&kept).unwrap_or_default().lines() {
            // An interface that is gone forwards nothing.
            if forwarding_file(name).exists() {
                set_forwarding(name, false)?;
            }
        }
    }
    nftables::run(&beside.no_rules(), &[])?;
    for (kernel, _) in PAIRS {
        let name = beside.name(kernel);
        if exists(&name) {
            ip(&["link", "delete", &name])?;
        }
    }
    match fs::remove_file(&kept) {
        Err(cause) if cause.kind() != std::io::ErrorKind::NotFound => Err(Fault::of_system(
            format!("{} cannot be removed", kept.display()),
            &cause,
        )),
        _ => Ok(()),
    }
}

/// Refuses what cannot work here, before anything is changed.
pub fn check(network: &Network, beside: &Beside) -> Outcome<()> {
    if let Some(user) = user_of_esp_in_udp() {
        return Err(Fault::new(
            format!("{user} has UDP port 4500 of this computer, which devices send to."),
            "Stop that program (an IPsec service such as strongSwan or Libreswan), or take another computer.",
        ));
    }
    // A kernel without IPsec fails here, and has none.
    let sas = ip(&["xfrm", "state", "count"]).unwrap_or_default();
    if sas.contains("SAD count") && !sas.contains("SAD count 0") {
        return Err(Fault::new(
            "The kernel of this computer has IPsec SAs of another program, whose ESP the switch would take.",
            "Stop that program (see: ip xfrm state), or take another computer.",
        ));
    }
    for name in beside.inward.iter().filter(|it| !forwards(it)) {
        let file = forwarding_file(name);
        fs::OpenOptions::new().write(true).open(&file).map_err(|cause| {
            Fault::new(
                format!("The kernel's forwarding cannot be set here: {}: {cause}.", file.display()),
                "Run this where root may change /proc/sys, as on a virtual machine. A container needs this option at its start: --sysctl net.ipv4.ip_forward=1",
            )
        })?;
    }
    // The same tables with the interface alone, as the links are not there yet: the kernel checks them and keeps nothing.
    let at = &beside.interface;
    let [wan, lan] = [End::KernelWan, End::KernelLan].map(|it| format!("\"{}\"", beside.name(it)));
    let trial = beside
        .rules(network, &beside.inward)
        .replace(&wan, &format!("\"{at}\""))
        .replace(&format!("device {lan}"), &format!("device \"{at}\""));
    nftables::run(&trial, &["--check"]).map_err(|fault| {
        let remedy = if fault.what.contains("cannot be run") {
            fault.remedy
        } else {
            "This needs a kernel with nft_fwd_netdev (Linux 5.10 or newer, as Debian's), and the capability CAP_NET_ADMIN."
                .to_owned()
        };
        Fault::new(fault.what, remedy)
    })
}

/// The first difference from the desired state, if there is one.
pub fn difference(host: &Host, gateway: &str, beside: &Beside) -> Outcome<Option<String>> {
    if lost_links(beside) {
        return Ok(Some("an interface of the gateway is gone".to_owned()));
    }
    let network = Network::read()?;
    let closed = closed(host, gateway, beside)?;
    let desired = beside.rules(&network, &closed);
    let state = desired
        .lines()
        .map(str::trim)
        .find(|it| it.starts_with("comment "));
    let table = beside.table();
    for family in ["netdev", "inet"] {
        if nftables::list(family, beside).is_err() {
            return Ok(Some(format!("nftables' table {family} {table} is gone")));
        }
    }
    let found = nftables::list("netdev", beside)?;
    if !found.contains("chain from-wire") {
        // Linux before 6.16 forgets the chain with its interface.
        return Ok(Some(format!("{} was taken away", beside.interface)));
    }
    if !found.contains(state.unwrap_or_default()) {
        return Ok(Some(
            "addresses, the default route or forwarding have changed".to_owned(),
        ));
    }
    let lan = beside.name(End::KernelLan);
    if way_to(IpAddr::V4(beside.pool.first())).as_ref() != Some(&lan) {
        return Ok(Some(format!(
            "the route of the pool {} does not lead to {lan}",
            beside.pool
        )));
    }
    let closed = beside.inward.iter().chain([&lan]).find(|it| !forwards(it));
    Ok(closed.map(|it| format!("the kernel forwards nothing from {it}")))
}

/// Whether a veth pair is not there.
pub fn lost_links(beside: &Beside) -> bool {
    let all = [
        End::KernelWan,
        End::SwitchWan,
        End::KernelLan,
        End::SwitchLan,
    ];
    all.into_iter().any(|it| !exists(&beside.name(it)))
}

fn make_pair(beside: &Beside, kernel: End, switch: End) -> Outcome<()> {
    let (near, far) = (beside.name(kernel), beside.name(switch));
    let mtu = beside.mtu.to_string();
    if !exists(&near) {
        ip(&[
            "link",
            "add",
            &near,
            "mtu",
            &mtu,
            "address",
            &write_mac(beside.mac(kernel)),
            "type",
            "veth",
            "peer",
            "name",
            &far,
            "mtu",
            &mtu,
        ])?;
    }
    for name in [near, far] {
        // A kernel without IPv6 has no such setting.
        let _ = ip(&["link", "set", &name, "addrgenmode", "none"]);
        ip(&["link", "set", &name, "mtu", &mtu, "up"])?;
    }
    Ok(())
}

fn exists(name: &str) -> bool {
    Path::new("/sys/class/net").join(name).exists()
}

fn record(host: &Host, gateway: &str) -> PathBuf {
    host.root.join("run/culvert-gateway").join(gateway)
}

/// The interfaces from which the kernel forwarded nothing before this gateway, and forwards for its pool alone.
fn closed(host: &Host, gateway: &str, beside: &Beside) -> Outcome<Vec<String>> {
    if forwards_everywhere() {
        return Ok(Vec::new());
    }
    let kept = record(host, gateway);
    if let Ok(text) = fs::read_to_string(&kept) {
        return Ok(text.lines().map(str::to_owned).collect());
    }
    let found: Vec<String> = beside
        .inward
        .iter()
        .filter(|it| !forwards(it))
        .cloned()
        .collect();
    let done = fs::create_dir_all(kept.parent().unwrap_or(&kept))
        .and_then(|()| fs::write(&kept, found.join("\n")));
    done.map_err(|cause| {
        Fault::of_system(format!("{} cannot be written", kept.display()), &cause)
    })?;
    Ok(found)
}

/// Whether the administrator has made this computer a router (net.ipv4.ip_forward).
fn forwards_everywhere() -> bool {
    forwards("all")
}

fn set_forwarding(name: &str, on: bool) -> Outcome<()> {
    if forwards(name) == on {
        return Ok(());
    }
    let file = forwarding_file(name);
    fs::write(&file, if on { "1" } else { "0" })
        .map_err(|cause| Fault::of_system(format!("{} cannot be written", file.display()), &cause))
}

/// The program that has UDP port 4500, if one has.
fn user_of_esp_in_udp() -> Option<String> {
    let inode = ["udp", "udp6"].iter().find_map(|it| {
        let table = fs::read_to_string(Path::new("/proc/net").join(it)).ok()?;
        table.lines().skip(1).find_map(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (_, port) = fields.get(1)?.rsplit_once(':')?;
            (port == ESP_IN_UDP).then(|| (*fields.get(9).unwrap_or(&"")).to_owned())
        })
    })?;
    let link = format!("socket:[{inode}]");
    let has = |process: &Path| {
        fs::read_dir(process.join("fd")).is_ok_and(|all| {
            all.flatten()
                .any(|it| fs::read_link(it.path()).is_ok_and(|to| to.as_os_str() == link.as_str()))
        })
    };
    let name = fs::read_dir("/proc").ok()?.flatten().find_map(|it| {
        let process = it.path();
        has(&process).then(|| fs::read_to_string(process.join("comm")).ok())?
    });
    Some(name.map_or("Another program".to_owned(), |it| {
        format!("The program {}", it.trim())
    }))
}
