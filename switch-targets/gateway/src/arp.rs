//! ARP (RFC 826): the frames, and probes (RFC 5227 section 2.1.1) that find the MAC addresses of IPv4 neighbours.
//!
//! A probe has the sender address 0.0.0.0, so no host learns anything from it, and the kernel needs no address on the
//! interface.

use std::collections::BTreeMap;
use std::io;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use crate::packet_socket::{ETH_P_ARP, PacketSocket, wait};

pub type Mac = [u8; 6];

const FRAME: usize = 42;
pub const BROADCAST: Mac = [0xff; 6];
const REQUEST: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 1];
const REPLY: [u8; 8] = [0, 1, 8, 0, 6, 4, 0, 2];
/// Probes sent without a pause.
const BURST: usize = 32;
const ROUNDS: u32 = 3;
const ROUND: Duration = Duration::from_millis(400);

/// An ARP frame's sender. `reply`: it answers a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sender {
    pub address: Ipv4Addr,
    pub mac: Mac,
    pub reply: bool,
}

/// Asks for each of `targets` at the interface with this index and MAC address; the answers that came.
pub fn probe(index: i32, own: Mac, targets: &[Ipv4Addr]) -> io::Result<BTreeMap<Ipv4Addr, Mac>> {
    let socket = PacketSocket::open(index, ETH_P_ARP, None)?;
    let mut found = BTreeMap::new();
    for _ in 0..ROUNDS {
        let missing: Vec<Ipv4Addr> = targets
            .iter()
            .copied()
            .filter(|it| !found.contains_key(it))
            .collect();
        if missing.is_empty() {
            break;
        }
        for burst in missing.chunks(BURST) {
            for target in burst {
                socket.send(&request(own, Ipv4Addr::UNSPECIFIED, *target, BROADCAST))?;
            }
            receive(&socket, own, targets, &mut found, Duration::from_millis(10))?;
        }
        receive(&socket, own, targets, &mut found, ROUND)?;
    }
    Ok(found)
}

/// Whether the station with this MAC address answers for `target`.
pub fn answers(index: i32, own: Mac, target: Ipv4Addr, station: Mac) -> io::Result<bool> {
    let socket = PacketSocket::open(index, ETH_P_ARP, None)?;
    for _ in 0..ROUNDS {
        socket.send(&request(own, Ipv4Addr::UNSPECIFIED, target, station))?;
        let end = Instant::now() + ROUND;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            wait([&socket], left)?;
            while let Some(frame) = socket.receive()? {
                let it = sender(&frame);
                if it.is_some_and(|it| it.reply && it.address == target && it.mac == station) {
                    return Ok(true);
                }
            }
        }
    }
    Ok(false)
}

/// A request for the MAC address of `target`, to all stations or to one.
pub fn request(own: Mac, source: Ipv4Addr, target: Ipv4Addr, to: Mac) -> [u8; FRAME] {
    let mut frame = [0; FRAME];
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&own);
    frame[12..14].copy_from_slice(&ETH_P_ARP.to_be_bytes());
    frame[14..22].copy_from_slice(&REQUEST);
    frame[22..28].copy_from_slice(&own);
    frame[28..32].copy_from_slice(&source.octets());
    frame[38..42].copy_from_slice(&target.octets());
    frame
}

/// The sender of a request or a reply, if the frame is one and a station sent it.
pub fn sender(frame: &[u8]) -> Option<Sender> {
    let frame: &[u8; FRAME] = frame.get(..FRAME)?.try_into().ok()?;
    let reply = frame[14..22] == REPLY;
    if frame[12..14] != ETH_P_ARP.to_be_bytes() || !(reply || frame[14..22] == REQUEST) {
        return None;
    }
    let address: [u8; 4] = frame[28..32].try_into().ok()?;
    let mac: Mac = frame[22..28].try_into().ok()?;
    is_station(mac).then(|| Sender {
        address: Ipv4Addr::from(address),
        mac,
        reply,
    })
}

/// A group address, and zero, are no station's.
pub fn is_station(mac: Mac) -> bool {
    mac[0] & 1 == 0 && mac != [0; 6]
}

fn receive(
    socket: &PacketSocket,
    own: Mac,
    targets: &[Ipv4Addr],
    found: &mut BTreeMap<Ipv4Addr, Mac>,
    time: Duration,
) -> io::Result<()> {
    let end = Instant::now() + time;
    loop {
        while let Some(frame) = socket.receive()? {
            if let Some(it) = sender(&frame)
                && it.reply
                && it.mac != own
                && targets.contains(&it.address)
            {
                found.entry(it.address).or_insert(it.mac);
            }
        }
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || found.len() == targets.len() {
            return Ok(());
        }
        wait([socket], left)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Mac = [2, 0, 0, 0, 0, 1];
    const THEIRS: Mac = [2, 0, 0, 0, 0, 2];
    const TARGET: Ipv4Addr = Ipv4Addr::new(192, 0, 2, 1);

    #[test]
    fn a_probe_names_no_sender() {
        let frame = request(OWN, Ipv4Addr::UNSPECIFIED, TARGET, BROADCAST);
        assert_eq!(frame[28..32], [0; 4]);
        assert_eq!(sender(&frame).map(|it| it.reply), Some(false));
    }

    #[test]
    fn a_reply_of_one_station_is_taken() {
        let mut frame = request(OWN, Ipv4Addr::UNSPECIFIED, TARGET, BROADCAST);
        frame[14..22].copy_from_slice(&REPLY);
        frame[22..28].copy_from_slice(&THEIRS);
        frame[28..32].copy_from_slice(&TARGET.octets());
        let reply = Sender {
            address: TARGET,
            mac: THEIRS,
            reply: true,
        };
        assert_eq!(sender(&frame), Some(reply));
        assert_eq!(sender(&frame[..41]), None);
        frame[22] |= 1;
        assert_eq!(sender(&frame), None);
    }
}
