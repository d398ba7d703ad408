//! `culvert-gateway watch`: what a gateway needs while its switch runs, and the switch cannot do.
//!
//! ```text
//!   inline              asks the neighbours, and tells the controller of MAC addresses that have changed
//!   beside the kernel   makes links, routes and tables again that other programs took away without a word, as `nft flush
//!                       ruleset` of a firewall's reload, a network service or `sysctl --system`
//! ```

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use crate::arp;
use crate::beside::Beside;
use crate::fault::{Fault, Outcome};
use crate::host::{Host, Joined};
use crate::kernel;
use crate::neighbours::{Neighbours, Side};
use crate::network::{Network, ip, write_mac};
use crate::packet_socket::wait;
use crate::port::Port;
use crate::report::{self, Answer, Report};

const PERIOD: Duration = Duration::from_secs(5);
/// The longest wait for frames: the controller's answers come meanwhile.
const LONGEST: Duration = Duration::from_millis(500);

pub fn watch(host: &Host, joined: &Joined) -> Outcome<()> {
    match &joined.beside {
        Some(beside) => keep(host, joined, beside),
        None => {
            let ((news, reports), (answer, answers)) = (channel(), channel());
            scope(|threads| {
                threads.spawn(move || report::run(host, joined, &reports, &answer));
                follow(joined, news, &answers)
            })
        }
    }
}

fn follow(joined: &Joined, news: Sender<Report>, answers: &Receiver<Answer>) -> Outcome<()> {
    let network = Network::read()?;
    let mut ports = BTreeMap::new();
    for (side, name) in [(Side::Wan, &joined.wan), (Side::Lan, &joined.lan)] {
        let at = network.find(name).ok_or_else(|| {
            Fault::new(
                format!("The interface {name} is gone."),
                "Join again with the interface's new name.",
            )
        })?;
        let open = Port::open(at);
        let port =
            open.map_err(|cause| Fault::of_system(format!("{name} cannot be asked"), &cause))?;
        ports.insert(side, port);
    }
    let failed = |cause| Fault::of_system("The neighbours cannot be asked", &cause);
    let mut neighbours = Neighbours::default();
    let mut sources: Vec<(Side, IpAddr)> = Vec::new();
    let mut told = Report::default();
    loop {
        while let Ok(answer) = answers.try_recv() {
            neighbours.set(&answer.neighbours, Instant::now());
            sources = answer.sources;
        }
        for ((side, target), ask) in neighbours.due(Instant::now()) {
            let source = sources
                .iter()
                .find(|(at, it)| *at == side && it.is_ipv4() == target.is_ipv4());
            if let Some((_, source)) = source {
                ports[&side].ask(*source, target, ask).map_err(failed)?;
            }
        }
        for (side, port) in &ports {
            while let Some(it) = port.hear().map_err(failed)? {
                let now = Instant::now();
                if it.answer {
                    neighbours.answered((*side, it.address), it.mac, now);
                }
                neighbours.used((*side, it.address), it.mac, now);
            }
        }
        let found = Report {
            address: None,
            found: neighbours.found(),
        };
        if found != told {
            say(&told, &found);
            told = found;
            // The reporter ends after this loop alone.
            let _ = news.send(told.clone());
        }
        let until = neighbours
            .next()
            .map_or(LONGEST, |it| it.saturating_duration_since(Instant::now()));
        wait(ports.values().flat_map(Port::sockets), until.min(LONGEST)).map_err(failed)?;
    }
}

fn say(before: &Report, now: &Report) {
    for (neighbour, mac) in &now.found {
        let (side, at) = neighbour;
        match (before.found.get(neighbour), mac) {
            (Some(was), Some(is)) if *was != Some(*is) => {
                println!("{at} on the {side} has the MAC address {}", write_mac(*is))
            }
            (was, None) if was != Some(&None) => {
                println!("{at} on the {side} does not answer {}", asked_by(*at))
            }
            _ => {}
        }
    }
}

/// The protocol that asks for a MAC address.
pub fn asked_by(address: IpAddr) -> &'static str {
    if address.is_ipv4() {
        "ARP"
    } else {
        "Neighbor Solicitation"
    }
}

fn keep(host: &Host, joined: &Joined, beside: &Beside) -> Outcome<()> {
    let name = &joined.gateway;
    let mut beside = beside.clone();
    let mut said = String::new();
    loop {
        match follow_address(host, joined, &beside) {
            Ok(None) => said.clear(),
            Ok(Some(moved)) => {
                println!(
                    "the address is {} now, and the controller knows it",
                    moved.address
                );
                beside = moved;
            }
            Err(fault) if fault.what != said => {
                println!("{fault}");
                said = fault.what;
            }
            Err(_) => {}
        }
        let beside = &beside;
        renew_router(beside)?;
        let found = kernel::difference(host, name, beside)?;
        if let Some(what) = &found {
            println!("{what}: it is made again");
            let lost = kernel::lost_links(beside);
            kernel::apply(host, name, beside)?;
            if lost {
                // The switch holds the links that are gone.
                return host.restart(name);
            }
        }
        sleep(PERIOD);
    }
}

/// Tells the controller of the interface's new address, if it has one, and keeps it in the record.
fn follow_address(host: &Host, joined: &Joined, beside: &Beside) -> Outcome<Option<Beside>> {
    let Some(moved) = beside.moved(&Network::read()?)? else {
        return Ok(None);
    };
    let report = Report {
        address: Some(moved.address),
        ..Report::default()
    };
    let answer = report::send(host, joined, &report)?;
    if answer.address != Some(moved.address) {
        return Err(refused(&moved, &answer));
    }
    host.write_record(&Joined {
        next_hop: moved.next_hop.to_string(),
        beside: Some(moved.clone()),
        ..joined.clone()
    })?;
    Ok(Some(moved))
}

fn refused(moved: &Beside, answer: &Answer) -> Fault {
    Fault::new(
        format!(
            "The controller does not take the new address {} of {}: {}",
            moved.address, moved.interface, answer.refused
        ),
        "Mend that, or give the interface its address of before again; or leave and join again.",
    )
}

/// Has the kernel ask for its router again, if another station answers for it: by itself, it believes the former one for up to a
/// minute, unless the new one announces itself.
fn renew_router(beside: &Beside) -> Outcome<()> {
    let network = Network::read()?;
    let Some(at) = network.find(&beside.interface) else {
        return Ok(());
    };
    let router = beside.next_hop_of(&network);
    let Some(known) = network.neighbours.get(&(at.name.clone(), router)) else {
        return Ok(());
    };
    // An interface that is down asks nobody. A station that goes on answering is the router, whoever else claims to be.
    if arp::answers(at.index, at.mac, router, *known).unwrap_or(true) {
        return Ok(());
    }
    match arp::probe(at.index, at.mac, &[router])
        .unwrap_or_default()
        .get(&router)
    {
        Some(mac) => {
            println!(
                "the router {router} has the MAC address {}",
                write_mac(*mac)
            );
            let routers = [
                Some(router.to_string()),
                beside.outer6_of(&network).map(|it| it.next_hop.to_string()),
            ];
            for it in routers.into_iter().flatten() {
                // One that the kernel does not know is no fault.
                let _ = ip(&["neighbour", "delete", &it, "dev", &at.name]);
            }
            Ok(())
        }
        _ => Ok(()),
    }
}
