//! Where the headers of a TCP or UDP packet lie in its frame.
//!
//! ```text
//!   │ Ethernet, up to two VLAN tags │ IPv4 or IPv6 │ TCP or UDP │ payload │ padding │
//!   0                               ip             transport    payload   end
//! ```

use super::checksum::{fold, sum};

const TPIDS: [u16; 2] = [libc::ETH_P_8021Q as u16, libc::ETH_P_8021AD as u16];
const MAX_TAGS: usize = 2;
const IPV6_LEN: usize = 40;
/// More fragments, and the offset (RFC 791).
const FRAGMENT: u16 = 0x3fff;

/// The longest headers: two tags, IPv4 and TCP with all their options.
pub(super) const MAX_HEADERS: usize = 14 + 4 * MAX_TAGS + 60 + 60;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ip {
    V4,
    V6,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    /// Of the checksum, in the header.
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
pub(super) struct Layers {
    pub version: Ip,
    pub protocol: Transport,
    pub ip: usize,
    pub transport: usize,
    pub payload: usize,
    /// Where the IP packet ends, as its header says.
    pub end: usize,
}

impl Layers {
    /// None: neither TCP nor UDP, a fragment, IPv6 with extension headers, or not whole.
    pub fn of(frame: &[u8]) -> Option<Self> {
        let ip = link_header(frame);
        let (version, transport, next, end) = match word(frame, ip - 2)? {
            0x0800 => {
                let first = *frame.get(ip)?;
                let length = usize::from(first & 0xf) * 4;
                if first >> 4 != 4 || length < 20 || word(frame, ip + 6)? & FRAGMENT != 0 {
                    return None;
                }
                let end = ip + usize::from(word(frame, ip + 2)?);
                (Ip::V4, ip + length, *frame.get(ip + 9)?, end)
            }
            0x86dd => {
                if frame.get(ip)? >> 4 != 6 {
                    return None;
                }
                let transport = ip + IPV6_LEN;
                let end = transport + usize::from(word(frame, ip + 4)?);
                (Ip::V6, transport, *frame.get(ip + 6)?, end)
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
        (payload <= end && end <= frame.len()).then_some(Self {
            version,
            protocol,
            ip,
            transport,
            payload,
            end,
        })
    }

    /// The sum of the pseudo-header without its length (RFC 9293, section 3.1; RFC 8200, section 8.1).
    pub fn pseudo_header(&self, frame: &[u8]) -> u32 {
        let addresses = match self.version {
            Ip::V4 => &frame[self.ip + 12..self.ip + 20],
            Ip::V6 => &frame[self.ip + 8..self.ip + 40],
        };
        sum(addresses) + u32::from(self.protocol.protocol())
    }

    /// The checksum of the IPv4 header is right, or there is none.
    pub fn has_right_header(&self, frame: &[u8]) -> bool {
        self.version == Ip::V6 || fold(sum(&frame[self.ip..self.transport])) == 0xffff
    }

    /// All checksums are there, and right.
    pub fn is_right(&self, frame: &[u8]) -> bool {
        let length = (self.end - self.transport) as u32;
        let body = sum(&frame[self.transport..self.end]);
        self.has_right_header(frame)
            && fold(self.pseudo_header(frame) + length + body) == 0xffff
            && !(self.protocol == Transport::Udp && self.has_no_checksum(frame))
    }

    /// A UDP datagram whose sender left the checksum out (RFC 768).
    pub fn has_no_checksum(&self, frame: &[u8]) -> bool {
        word(frame, self.transport + 6) == Some(0)
    }
}

/// Bytes of the Ethernet header, with its VLAN tags.
pub(super) fn link_header(frame: &[u8]) -> usize {
    let mut length = 14;
    while length < 14 + 4 * MAX_TAGS
        && word(frame, length - 2).is_some_and(|kind| TPIDS.contains(&kind))
    {
        length += 4;
    }
    length
}

pub(super) fn word(frame: &[u8], at: usize) -> Option<u16> {
    let (word, _) = frame.get(at..)?.split_first_chunk::<2>()?;
    Some(u16::from_be_bytes(*word))
}

pub(super) fn put(frame: &mut [u8], at: usize, word: u16) {
    frame[at..at + 2].copy_from_slice(&word.to_be_bytes());
}
