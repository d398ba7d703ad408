//! Offsets of the headers of a TCP or UDP packet in its frame.
//!
//! ```text
//!   │ Ethernet, up to two VLAN tags │ IPv4 or IPv6 │ TCP or UDP │ payload │ padding │
//!   0                               ip             transport    payload   end
//! ```

use crate::checksum::{fold, sum};

/// TPIDs of IEEE 802.1Q and 802.1ad.
const TPIDS: [u16; 2] = [0x8100, 0x88a8];
const MAX_TAGS: usize = 2;
const ETHERNET_LEN: usize = 14;
const IPV6_LEN: usize = 40;
/// The bits "more fragments" and fragment offset (RFC 791).
const FRAGMENT: u16 = 0x3fff;
/// Extension headers of IPv6 that a packet may have without being another's part or having another destination.
const HOP_BY_HOP: u8 = 0;
const DESTINATION_OPTIONS: u8 = 60;
/// IANA's ipsec-nat-t.
const ESP_IN_UDP: u16 = 4500;

/// The longest headers that are known: two tags, IPv4 and TCP with all their options, or IPv6 with some.
pub(crate) const MAX_HEADERS: usize = ETHERNET_LEN + 4 * MAX_TAGS + 60 + 60;

/// The outermost header of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The IP header.
    None,
    Ethernet,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ip {
    V4,
    V6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    /// The checksum's offset in the header, in bytes.
    pub const fn checksum(self) -> usize {
        match self {
            Self::Tcp => 16,
            Self::Udp => 6,
        }
    }

    const fn protocol(self) -> u8 {
        match self {
            Self::Tcp => 6,
            Self::Udp => 17,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layers {
    pub version: Ip,
    pub protocol: Transport,
    pub ip: usize,
    pub transport: usize,
    pub payload: usize,
    /// The end of the IP packet, as its header says.
    pub end: usize,
}

impl Layers {
    /// Returns `None` for a packet that is neither TCP nor UDP, is a fragment, has too long headers, or is not whole.
    pub fn of(frame: &[u8], link: Link) -> Option<Self> {
        let (ip, kind) = match link {
            Link::None => (0, None),
            Link::Ethernet => {
                let ip = link_header(frame);
                (ip, Some(word(frame, ip - 2)?))
            }
        };
        let first = *frame.get(ip)?;
        let (version, transport, next, end) = match (first >> 4, kind) {
            (4, None | Some(0x0800)) => {
                let length = usize::from(first & 0xf) * 4;
                if length < 20 || word(frame, ip + 6)? & FRAGMENT != 0 {
                    return None;
                }
                let end = ip + usize::from(word(frame, ip + 2)?);
                (Ip::V4, ip + length, *frame.get(ip + 9)?, end)
            }
            (6, None | Some(0x86dd)) => {
                let (mut at, mut next) = (ip + IPV6_LEN, *frame.get(ip + 6)?);
                let end = at + usize::from(word(frame, ip + 4)?);
                while matches!(next, HOP_BY_HOP | DESTINATION_OPTIONS) {
                    next = *frame.get(at)?;
                    at += 8 + 8 * usize::from(*frame.get(at + 1)?);
                }
                (Ip::V6, at, next, end)
            }
            _ => return None,
        };
        let (protocol, payload) = match next {
            6 => {
                let length = usize::from(frame.get(transport + 12)? >> 4) * 4;
                if length < 20 {
                    return None;
                }
                (Transport::Tcp, transport + length)
            }
            17 => (Transport::Udp, transport + 8),
            _ => return None,
        };
        let whole = payload <= MAX_HEADERS && payload <= end && end <= frame.len();
        whole.then_some(Self {
            version,
            protocol,
            ip,
            transport,
            payload,
            end,
        })
    }

    /// IP has neither options nor extension headers.
    pub(crate) fn is_plain(&self) -> bool {
        self.transport - self.ip
            == match self.version {
                Ip::V4 => 20,
                Ip::V6 => IPV6_LEN,
            }
    }

    pub(crate) fn addresses<'a>(&self, frame: &'a [u8]) -> &'a [u8] {
        match self.version {
            Ip::V4 => &frame[self.ip + 12..self.ip + 20],
            Ip::V6 => &frame[self.ip + 8..self.ip + 40],
        }
    }

    /// The sum of the pseudo-header without its length (RFC 9293, section 3.1; RFC 8200, section 8.1).
    pub fn pseudo_header(&self, frame: &[u8]) -> u32 {
        sum(self.addresses(frame)) + u32::from(self.protocol.protocol())
    }

    /// The checksum of the IPv4 header is right, or there is none.
    fn has_right_header(&self, frame: &[u8]) -> bool {
        self.version == Ip::V6 || sum(&frame[self.ip..self.transport]) == 0xffff
    }

    /// Returns whether all checksums are there and right.
    pub fn is_right(&self, frame: &[u8]) -> bool {
        let length = (self.end - self.transport) as u32;
        let body = sum(&frame[self.transport..self.end]);
        self.has_right_header(frame)
            && fold(self.pseudo_header(frame) + length + body) == 0xffff
            && !self.has_no_checksum(frame)
    }

    /// The packet may get fresh checksums: its own are right, or it needs none.
    pub(crate) fn is_sound(&self, frame: &[u8]) -> bool {
        if self.has_no_checksum(frame) {
            return self.needs_no_checksum(frame) && self.has_right_header(frame);
        }
        self.is_right(frame)
    }

    /// A UDP datagram whose sender left the checksum out (RFC 768).
    fn has_no_checksum(&self, frame: &[u8]) -> bool {
        self.protocol == Transport::Udp && word(frame, self.transport + 6) == Some(0)
    }

    /// ESP in UDP over IPv4: its sender should leave the checksum out, its receiver must not depend on it (RFC 3948, section 2.1).
    pub(crate) fn needs_no_checksum(&self, frame: &[u8]) -> bool {
        let port = |at| word(frame, self.transport + at) == Some(ESP_IN_UDP);
        (self.version, self.protocol) == (Ip::V4, Transport::Udp) && (port(0) || port(2))
    }
}

/// Bytes of the Ethernet header, with its VLAN tags.
pub fn link_header(frame: &[u8]) -> usize {
    let mut length = ETHERNET_LEN;
    while length < ETHERNET_LEN + 4 * MAX_TAGS
        && word(frame, length - 2).is_some_and(|kind| TPIDS.contains(&kind))
    {
        length += 4;
    }
    length
}

pub(crate) fn word(frame: &[u8], at: usize) -> Option<u16> {
    let word = frame.get(at..)?.first_chunk()?;
    Some(u16::from_be_bytes(*word))
}

pub(crate) fn put(frame: &mut [u8], at: usize, word: u16) {
    frame[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

pub(crate) fn number(frame: &[u8], at: usize) -> u32 {
    frame[at..]
        .first_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
