//! What a tunnel carries: the far side of its selectors (RFC 4301 section 4.4.1.1). No I/O.

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

    /// Whether a packet may come out of the tunnel.
    pub fn permits(&self, flow: &Flow) -> bool {
        self.prefix.contains(flow.source) && self.carries(flow.protocol, flow.ports.map(|it| it.0))
    }

    fn carries(&self, protocol: u8, port: Option<u16>) -> bool {
        let (first, last) = self.ports;
        self.protocol.is_none_or(|only| only == protocol)
            && (self.ports == ALL_PORTS || port.is_some_and(|port| (first..=last).contains(&port)))
    }
}

/// What selectors look at. `ports` are source and destination, of TCP and UDP, and not in later fragments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flow {
    pub source: Address,
    pub destination: Address,
    protocol: u8,
    ports: Option<(u16, u16)>,
}

impl Flow {
    /// From an IP packet, or its headers. An IPv6 extension header other than a fragment's is the protocol.
    pub fn of(packet: &[u8]) -> Option<Self> {
        let (source, destination) = ends(packet)?;
        let first = *packet.first()?;
        let (protocol, transport) = match first >> 4 {
            4 => {
                let fragment = u16::from_be_bytes(*packet.get(6..)?.first_chunk()?);
                let at = usize::from(first & 0xf) * 4;
                (*packet.get(9)?, (fragment & 0x1fff == 0).then_some(at))
            }
            _ => match *packet.get(6)? {
                IPV6_FRAGMENT => {
                    let fragment = u16::from_be_bytes(*packet.get(42..)?.first_chunk()?);
                    (*packet.get(40)?, (fragment >> 3 == 0).then_some(48))
                }
                protocol => (protocol, Some(40)),
            },
        };
        let ports = transport
            .filter(|_| matches!(protocol, TCP | UDP))
            .and_then(|at| packet.get(at..)?.first_chunk::<4>())
            .map(|[a, b, c, d]| (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d])));
        Some(Self {
            source,
            destination,
            protocol,
            ports,
        })
    }
}

/// Which tunnel carries a packet: of the prefixes that cover its destination, the longest with a selector for it.
#[derive(Default)]
pub struct Routes {
    prefixes: PrefixMap<usize>,
    groups: Vec<Vec<(Selector, usize)>>,
}

impl Routes {
    /// Of two tunnels with a selector for the same packet, the first carries it.
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
