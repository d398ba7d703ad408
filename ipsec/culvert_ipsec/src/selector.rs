//! Selectors of a tunnel: the far side alone (RFC 4301 section 4.4.1.1). No I/O.

use crate::address::{Address, Prefix, PrefixMap, ends};

// IANA protocol numbers.
const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV6_FRAGMENT: u8 = 44;

const ALL_PORTS: (u16, u16) = (0, u16::MAX);

/// `protocol` is IANA's number, `None` for all; `ports` are the first and the last one of the far side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    pub prefix: Prefix,
    pub protocol: Option<u8>,
    pub ports: (u16, u16),
}

impl Selector {
    pub fn all(prefix: Prefix) -> Self {
        Self {
            prefix,
            protocol: None,
            ports: ALL_PORTS,
        }
    }

    /// Returns whether a packet may come out of the tunnel.
    pub fn permits(&self, flow: &Flow) -> bool {
        self.prefix.contains(flow.source) && self.carries(flow.protocol, flow.ports.map(|it| it.0))
    }

    fn carries(&self, protocol: u8, port: Option<u16>) -> bool {
        let (first, last) = self.ports;
        self.protocol.is_none_or(|only| only == protocol)
            && (self.ports == ALL_PORTS || port.is_some_and(|port| (first..=last).contains(&port)))
    }
}

/// Source and destination port of TCP or UDP.
pub type Ports = (u16, u16);

/// The fields that all fragments of a datagram share (RFC 791 section 2.3, RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DatagramId {
    source: Address,
    destination: Address,
    protocol: u8,
    identification: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Whole,
    FirstFragment(DatagramId),
    /// A fragment without a transport header.
    LaterFragment(DatagramId),
}

/// The fields of a packet that selectors compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub source: Address,
    pub destination: Address,
    /// `None` in a later fragment, unless it was given those of its datagram.
    pub ports: Option<Ports>,
    pub part: Part,
    pub protocol: u8,
}

impl Flow {
    /// Reads an IP packet, or its headers. An IPv6 extension header other than a fragment's is the protocol.
    pub fn of(packet: &[u8]) -> Option<Self> {
        let (source, destination) = ends(packet)?;
        let first = *packet.first()?;
        // `fragment`: offset, identification.
        let (protocol, transport, fragment) = match first >> 4 {
            4 => {
                let [a, b, c, d] = *packet.get(4..)?.first_chunk()?;
                let flags = u16::from_be_bytes([c, d]);
                let (offset, more) = (flags & 0x1fff, flags & 0x2000 != 0);
                let identification = u32::from(u16::from_be_bytes([a, b]));
                let at = usize::from(first & 0xf) * 4;
                let fragment = (offset > 0 || more).then_some((offset, identification));
                (*packet.get(9)?, at, fragment)
            }
            _ => match *packet.get(6)? {
                IPV6_FRAGMENT => {
                    let offset = u16::from_be_bytes(*packet.get(42..)?.first_chunk()?) >> 3;
                    let identification = u32::from_be_bytes(*packet.get(44..)?.first_chunk()?);
                    (*packet.get(40)?, 48, Some((offset, identification)))
                }
                protocol => (protocol, 40, None),
            },
        };
        let part = fragment.map_or(Part::Whole, |(offset, identification)| {
            let datagram = DatagramId {
                source,
                destination,
                protocol,
                identification,
            };
            if offset == 0 {
                Part::FirstFragment(datagram)
            } else {
                Part::LaterFragment(datagram)
            }
        });
        let ports = packet
            .get(transport..)
            .filter(|_| matches!(protocol, TCP | UDP) && !matches!(part, Part::LaterFragment(_)))
            .and_then(|transport| transport.first_chunk::<4>())
            .map(|[a, b, c, d]| (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])));
        Some(Self {
            source,
            destination,
            ports,
            part,
            protocol,
        })
    }
}

/// Chooses the tunnel of a packet: of the prefixes that cover its destination, the longest with a selector for it.
#[derive(Default)]
pub struct Routes {
    prefixes: PrefixMap<usize>,
    groups: Vec<Vec<(Selector, usize)>>,
}

impl Routes {
    /// Adds a selector. When selectors of two tunnels match one packet, the tunnel that was added first carries it.
    pub fn insert(&mut self, selector: Selector, tunnel: usize) {
        let group = self.prefixes.get(selector.prefix).unwrap_or_else(|| {
            self.groups.push(Vec::new());
            let group = self.groups.len() - 1;
            self.prefixes.insert(selector.prefix, group);
            group
        });
        self.groups[group].push((selector, tunnel));
    }

    pub fn find(&self, flow: &Flow) -> Option<usize> {
        let port = flow.ports.map(|it| it.1);
        self.prefixes.matches(flow.destination).find_map(|group| {
            let carries =
                |(selector, _): &&(Selector, usize)| selector.carries(flow.protocol, port);
            self.groups[group].iter().find(carries).map(|it| it.1)
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use std::net::IpAddr;

    use super::*;
    use proptest::prelude::*;

    fn ipv4(protocol: u8, fragment: u16, ports: [u8; 4]) -> Vec<u8> {
        let mut packet = vec![0; 20];
        packet[0] = 0x45;
        packet[6..8].copy_from_slice(&fragment.to_be_bytes());
        packet[9] = protocol;
        packet.extend(ports);
        packet
    }

    #[test]
    fn ports_are_those_of_tcp_and_udp_and_of_first_fragments() {
        let ports = |packet: &[u8]| Flow::of(packet).unwrap().ports;
        assert_eq!(ports(&ipv4(TCP, 0, [1, 2, 0, 80])), Some((258, 80)));
        assert_eq!(ports(&ipv4(UDP, 0x2000, [0, 1, 0, 53])), Some((1, 53)));
        assert_eq!(ports(&ipv4(UDP, 0x2001, [0, 1, 0, 53])), None);
        assert_eq!(ports(&ipv4(1, 0, [8, 0, 0, 0])), None);
        assert_eq!(ports(&ipv4(TCP, 0, [0; 4])[..22]), None);
        let mut options = ipv4(TCP, 0, [0; 4]);
        options[0] = 0x46;
        options.extend([0, 7, 0, 9]);
        assert_eq!(ports(&options), Some((7, 9)));
    }

    #[test]
    fn fragments_match_by_addresses_protocol_and_identification() {
        let part = |identification: u8, flags: u16| {
            let mut packet = ipv4(UDP, flags, [0, 1, 0, 53]);
            packet[5] = identification;
            Flow::of(&packet).unwrap().part
        };
        assert_eq!([part(1, 0), part(1, 0x4000)], [Part::Whole; 2]);
        let datagram = DatagramId {
            source: Address::from(IpAddr::from([0, 0, 0, 0])),
            destination: Address::from(IpAddr::from([0, 0, 0, 0])),
            protocol: UDP,
            identification: 1,
        };
        assert_eq!(part(1, 0x2000), Part::FirstFragment(datagram));
        assert_eq!(part(1, 185), Part::LaterFragment(datagram));
        assert_eq!(part(1, 0x2000 | 185), Part::LaterFragment(datagram));
        assert_ne!(part(2, 185), Part::LaterFragment(datagram));
    }

    #[test]
    fn an_ipv6_fragment_tells_its_protocol() {
        let mut packet = vec![0; 52];
        packet[0] = 0x60;
        packet[6] = IPV6_FRAGMENT;
        packet[40] = UDP;
        packet[51] = 53;
        let flow = Flow::of(&packet).unwrap();
        assert_eq!((flow.protocol, flow.ports), (UDP, Some((0, 53))));
        packet[43] = 8;
        let flow = Flow::of(&packet).unwrap();
        assert_eq!((flow.protocol, flow.ports), (UDP, None));
        assert_eq!(Flow::of(&packet[..42]), None);
        packet[6] = TCP;
        assert_eq!(
            Flow::of(&packet).unwrap().ports,
            Some((u16::from(UDP) << 8, 8))
        );
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_flow_or_none(packet in prop::collection::vec(any::<u8>(), 0..80)) {
            let _ = Flow::of(&packet);
        }
    }
}
