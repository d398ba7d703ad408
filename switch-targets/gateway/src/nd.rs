//! Neighbor Discovery (RFC 4861): solicitations, and the advertisements that answer them.

use std::net::Ipv6Addr;

use crate::arp::{Mac, is_station};
use crate::packet_socket::{ETH_P_IPV6, Filter};

const ETHERNET: usize = 14;
const IPV6: usize = 40;
const ICMPV6: u8 = 58;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Section 7.1: no router has passed the packet on.
const HOP_LIMIT: u8 = 255;
/// Type, code, checksum, reserved, target.
const FIXED: usize = 24;
const SOURCE_LINK_LAYER: u8 = 1;
const TARGET_LINK_LAYER: u8 = 2;

/// Passes ICMPv6 advertisements alone: next header 58, type 136.
pub const ADVERTISEMENTS: &Filter = &[
    (0x30, 0, 0, 20),
    (0x15, 0, 3, ICMPV6 as u32),
    (0x30, 0, 0, 54),
    (0x15, 0, 1, ADVERTISEMENT as u32),
    (0x06, 0, 0, 0xffff),
    (0x06, 0, 0, 0),
];

/// A solicitation for the MAC address of `target`, to the station `to`, or to the target's group (section 7.2.2).
pub fn solicitation(own: Mac, source: Ipv6Addr, target: Ipv6Addr, to: Option<Mac>) -> Vec<u8> {
    let [.., a, b, c] = target.octets();
    let (destination, group) = match to {
        Some(mac) => (target, mac),
        None => (
            Ipv6Addr::from([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, a, b, c]),
            [0x33, 0x33, 0xff, a, b, c],
        ),
    };
    let mut message = vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
    message.extend(target.octets());
    message.extend([SOURCE_LINK_LAYER, 1]);
    message.extend(own);
    let sum = checksum(source, destination, &message).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    let mut frame = Vec::with_capacity(ETHERNET + IPV6 + message.len());
    frame.extend(group);
    frame.extend(own);
    frame.extend(ETH_P_IPV6.to_be_bytes());
    // At most 32 bytes.
    let length = u8::try_from(message.len()).unwrap_or_default();
    frame.extend([0x60, 0, 0, 0, 0, length, ICMPV6, HOP_LIMIT]);
    frame.extend(source.octets());
    frame.extend(destination.octets());
    frame.extend(message);
    frame
}

/// The target of an advertisement, and its MAC address (sections 7.1.2 and 4.4), if the frame is a valid one.
pub fn advertised(frame: &[u8]) -> Option<(Ipv6Addr, Mac)> {
    let packet = frame.get(ETHERNET..)?;
    if frame[12..14] != ETH_P_IPV6.to_be_bytes() || *packet.first()? >> 4 != 6 {
        return None;
    }
    let length = usize::from(u16::from_be_bytes(packet.get(4..6)?.try_into().ok()?));
    let message = packet.get(IPV6..IPV6.checked_add(length)?)?;
    if packet[6..8] != [ICMPV6, HOP_LIMIT] || message.len() < FIXED {
        return None;
    }
    let octets = |from: usize| -> Option<Ipv6Addr> {
        let bytes: [u8; 16] = packet.get(from..from + 16)?.try_into().ok()?;
        Some(Ipv6Addr::from(bytes))
    };
    if message[..2] != [ADVERTISEMENT, 0] || checksum(octets(8)?, octets(24)?, message) != 0 {
        return None;
    }
    let target: [u8; 16] = message[8..FIXED].try_into().ok()?;
    // Without the option, the frame's source is the station.
    let mut mac: Mac = frame[6..12].try_into().ok()?;
    let mut options = &message[FIXED..];
    while let [kind, units, ..] = *options {
        let (option, rest) = options.split_at_checked(8 * usize::from(units))?;
        if units == 0 {
            return None;
        }
        if kind == TARGET_LINK_LAYER {
            mac = option.get(2..8)?.try_into().ok()?;
        }
        options = rest;
    }
    is_station(mac).then_some((Ipv6Addr::from(target), mac))
}

/// The Internet checksum over the pseudo-header and the message (RFC 8200 section 8.1); 0 for a message with a right one.
fn checksum(source: Ipv6Addr, destination: Ipv6Addr, message: &[u8]) -> u16 {
    let length = u32::try_from(message.len()).unwrap_or_default();
    let mut bytes = Vec::with_capacity(IPV6 + message.len() + 1);
    bytes.extend(source.octets());
    bytes.extend(destination.octets());
    bytes.extend(length.to_be_bytes());
    bytes.extend([0, 0, 0, ICMPV6]);
    bytes.extend(message);
    if bytes.len() % 2 == 1 {
        bytes.push(0);
    }
    let mut sum: u32 = bytes
        .chunks_exact(2)
        .map(|it| u32::from(u16::from_be_bytes([it[0], it[1]])))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    // At most 16 bits are left.
    !u16::try_from(sum).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Mac = [2, 0, 0, 0, 0, 1];
    const THEIRS: Mac = [2, 0, 0, 0, 0, 2];
    const SOURCE: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1);
    const TARGET: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0x12, 0x3456);

    fn advertisement(options: &[u8]) -> Vec<u8> {
        let mut message = vec![ADVERTISEMENT, 0, 0, 0, 0x60, 0, 0, 0];
        message.extend(TARGET.octets());
        message.extend(options);
        let sum = checksum(TARGET, SOURCE, &message).to_be_bytes();
        message[2..4].copy_from_slice(&sum);
        let mut frame = [OWN, THEIRS].concat();
        frame.extend(ETH_P_IPV6.to_be_bytes());
        let length = u8::try_from(message.len()).unwrap_or_default();
        frame.extend([0x60, 0, 0, 0, 0, length, ICMPV6, HOP_LIMIT]);
        frame.extend(TARGET.octets());
        frame.extend(SOURCE.octets());
        frame.extend(message);
        frame
    }

    #[test]
    fn a_solicitation_goes_to_the_targets_group_or_to_one_station() {
        let frame = solicitation(OWN, SOURCE, TARGET, None);
        assert_eq!(frame[..6], [0x33, 0x33, 0xff, 0x12, 0x34, 0x56]);
        assert_eq!(
            frame[38..54],
            [
                0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0x12, 0x34, 0x56
            ]
        );
        assert_eq!(frame.len(), 86);
        let frame = solicitation(OWN, SOURCE, TARGET, Some(THEIRS));
        assert_eq!(frame[..6], THEIRS);
        assert_eq!(frame[38..54], TARGET.octets());
        assert_eq!(checksum(SOURCE, TARGET, &frame[54..]), 0);
    }

    #[test]
    fn an_advertisement_is_taken_when_it_is_whole_and_of_this_link() {
        let option = [&[TARGET_LINK_LAYER, 1][..], &[2, 0, 0, 0, 0, 9]].concat();
        assert_eq!(
            advertised(&advertisement(&option)),
            Some((TARGET, [2, 0, 0, 0, 0, 9]))
        );
        assert_eq!(advertised(&advertisement(&[])), Some((TARGET, THEIRS)));
        let good = advertisement(&option);
        for length in 0..good.len() {
            assert_eq!(advertised(&good[..length]), None, "{length}");
        }
        for (at, to) in [(21, 254), (54, 135), (57, 1), (20, 17)] {
            let mut bad = good.clone();
            bad[at] ^= to;
            assert_eq!(advertised(&bad), None, "{at}");
        }
        assert_eq!(
            advertised(&advertisement(&[TARGET_LINK_LAYER, 0, 0, 0, 0, 0, 0, 0])),
            None
        );
        let group = [&[TARGET_LINK_LAYER, 1][..], &[3, 0, 0, 0, 0, 9]].concat();
        assert_eq!(advertised(&advertisement(&group)), None);
    }
}
