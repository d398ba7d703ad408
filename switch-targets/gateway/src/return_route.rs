//! Whether the intranet's router sends packets for the pool to this computer: asks the router from an address of the pool.
//!
//! The question is a datagram to a port of the router; an answer of any kind, an ICMP error included, has found its way. The
//! pool's first address is no device's (the network's own), and is this computer's for the second that the question takes.

use std::io::ErrorKind;
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use crate::beside::{Beside, End};
use crate::fault::{Fault, Outcome};
use crate::network::{Network, ip};

#[derive(Debug, PartialEq, Eq)]
pub enum ReturnRoute {
    Leads,
    Missing,
    /// The router answers nothing, not even this computer's own address.
    Unknown,
}

/// DNS, and the port that traceroute begins with.
const PORTS: [u16; 2] = [53, 33434];
const PATIENCE: Duration = Duration::from_millis(700);
/// A DNS query (RFC 1035 section 4.1) for the root's name servers.
const QUERY: [u8; 17] = [0x43, 0x76, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 1];

pub fn ask(beside: &Beside) -> Outcome<ReturnRoute> {
    let router = beside.next_hop_of(&Network::read()?);
    let (source, lan) = (beside.pool.first(), beside.name(End::KernelLan));
    let borrowed = format!("{source}/32");
    ip(&["address", "replace", &borrowed, "dev", &lan])?;
    let leads = answers(source, router);
    ip(&["address", "delete", &borrowed, "dev", &lan])?;
    Ok(match leads {
        true => ReturnRoute::Leads,
        false if answers(beside.address, router) => ReturnRoute::Missing,
        false => ReturnRoute::Unknown,
    })
}

/// The route that the router needs, as a fault.
pub fn missing(beside: &Beside) -> Fault {
    let Beside { pool, address, .. } = beside;
    Fault::new(
        format!(
            "The router {} does not send packets for the pool {pool} to this computer.",
            beside.next_hop
        ),
        format!(
            "Give it the route {pool} via {address} (on Linux: ip route add {pool} via {address}); in a cloud, add it to the network's route table and allow this \
             computer to forward (no source/destination check). Or leave, and join with --masquerade."
        ),
    )
}

fn answers(source: Ipv4Addr, router: Ipv4Addr) -> bool {
    PORTS.iter().any(|port| {
        let asked = || {
            let socket = UdpSocket::bind((source, 0))?;
            socket.set_read_timeout(Some(PATIENCE))?;
            socket.connect((router, *port))?;
            socket.send(&QUERY)?;
            socket.recv(&mut [0; 512])
        };
        match asked() {
            Ok(_) => true,
            // An ICMP error of the router: it has no program at that port.
            Err(cause) => cause.kind() == ErrorKind::ConnectionRefused,
        }
    })
}
