//! A port of the switch, at which neighbours are asked beside it.

use std::io;
use std::net::IpAddr;

use crate::arp::{self, BROADCAST, Mac};
use crate::nd;
use crate::neighbours::Ask;
use crate::network::Interface;
use crate::packet_socket::{ETH_P_ARP, ETH_P_IPV6, PacketSocket};

pub struct Port {
    mac: Mac,
    arp: PacketSocket,
    nd: PacketSocket,
}

/// A neighbour's frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heard {
    pub address: IpAddr,
    pub mac: Mac,
    /// It is an answer.
    pub answer: bool,
}

impl Port {
    pub fn open(at: &Interface) -> io::Result<Self> {
        Ok(Self {
            mac: at.mac,
            arp: PacketSocket::open(at.index, ETH_P_ARP, None)?,
            nd: PacketSocket::open(at.index, ETH_P_IPV6, Some(nd::ADVERTISEMENTS))?,
        })
    }

    pub fn sockets(&self) -> [&PacketSocket; 2] {
        [&self.arp, &self.nd]
    }

    /// Asks for the MAC address of `target` from the switch's own address there. An interface that is down asks nobody.
    pub fn ask(&self, source: IpAddr, target: IpAddr, ask: Ask) -> io::Result<()> {
        let station = match ask {
            Ask::Station(mac) => Some(mac),
            Ask::All => None,
        };
        let sent = match (source, target) {
            (IpAddr::V4(source), IpAddr::V4(target)) => {
                let to = station.unwrap_or(BROADCAST);
                self.arp.send(&arp::request(self.mac, source, target, to))
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => self
                .nd
                .send(&nd::solicitation(self.mac, source, target, station)),
            _ => Ok(()),
        };
        match sent {
            Err(cause) if cause.raw_os_error() == Some(libc::ENETDOWN) => Ok(()),
            other => other,
        }
    }

    /// The next neighbour's frame that has come.
    pub fn hear(&self) -> io::Result<Option<Heard>> {
        while let Some(frame) = received(&self.arp)? {
            if let Some(it) = arp::sender(&frame)
                && it.mac != self.mac
                && !it.address.is_unspecified()
            {
                return Ok(Some(Heard {
                    address: it.address.into(),
                    mac: it.mac,
                    answer: it.reply,
                }));
            }
        }
        while let Some(frame) = received(&self.nd)? {
            if let Some((address, mac)) = nd::advertised(&frame)
                && mac != self.mac
            {
                return Ok(Some(Heard {
                    address: address.into(),
                    mac,
                    answer: true,
                }));
            }
        }
        Ok(None)
    }
}

/// An interface that went down says so once.
fn received(socket: &PacketSocket) -> io::Result<Option<Vec<u8>>> {
    match socket.receive() {
        Err(cause) if cause.raw_os_error() == Some(libc::ENETDOWN) => Ok(None),
        other => other,
    }
}
