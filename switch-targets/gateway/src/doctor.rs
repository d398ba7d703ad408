//! `culvert-gateway status` and `doctor`: the gateway's parts, each with its state, and the remedy of what is wrong.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use crate::arp::probe;
use crate::certificate::dates;
use crate::clock;
use crate::fault::{Fault, Outcome};
use crate::host::{CERTIFICATE, CONTROLLER_CA, Host, Joined, KEK, KEY};
use crate::leave::{no_key, state};
use crate::network::{Network, way_to};

pub fn status(host: &Host, joined: &Joined) -> bool {
    let Joined {
        gateway,
        controller,
        wan,
        lan,
        ..
    } = joined;
    let runs = host.runs(gateway);
    let seen = state(host, joined);
    let online = seen.as_ref().is_ok_and(|it| it["state"] == "online");
    let said = match &seen {
        Ok(it) if online => format!(
            "online since {}",
            it["since"].as_str().unwrap_or("just now")
        ),
        Ok(it) => format!("offline: {}", it["reason"].as_str().unwrap_or_default()),
        Err(fault) => format!("unknown: {}", fault.what),
    };
    let until = host
        .read_key(gateway, CERTIFICATE)
        .ok()
        .and_then(|it| dates(&it));
    println!("{gateway}");
    println!(
        "  switch       {}",
        if runs { "runs" } else { "does not run" }
    );
    println!("  controller   {controller}: {said}");
    println!(
        "  certificate  {}",
        until.map_or("unreadable".to_owned(), |(_, it)| format!(
            "until {}",
            clock::date(it)
        ))
    );
    println!("  ports        1 {wan} (WAN), 2 {lan} (LAN)");
    runs && online
}

/// Prints each check with its verdict; returns whether all are good.
pub fn doctor(host: &Host, joined: &Joined) -> bool {
    let checks: [(&str, Outcome<()>); 7] = [
        (
            "the switch is installed, and its user exists",
            check_installed(host),
        ),
        ("the keys are the switch's alone", check_files(host, joined)),
        ("the certificate is good", check_certificate(host, joined)),
        ("the two ports are the switch's alone", check_ports(joined)),
        ("the next hop answers", check_next_hop(joined)),
        ("the switch runs", check_runs(host, joined)),
        (
            "the controller is reached, its clock agrees, and it sees the gateway online",
            check_controller(host, joined),
        ),
    ];
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
    let found = probe(at.index, at.mac, &[next_hop])
        .map_err(|cause| Fault::of_system(format!("{} cannot be asked", at.name), &cause))?;
    if found.contains_key(&next_hop) {
        return Ok(());
    }
    Err(Fault::new(
        format!("{next_hop} does not answer on {}.", at.name),
        "Check the cable and the router. If the router's address has changed, join again.",
    ))
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
