//! Splits one frame from the kernel into the packets that it stands for, in place or elsewhere.
//!
//! ```text
//!   │ headers │ payload 1 │ payload 2 │ payload 3 │      in place each packet is built where its payload lies: its headers
//!             │  headers  │ payload 2 │                  are written over the end of the payload before it, which has been
//!                         │  headers  │ payload 3 │      handed over already
//! ```
//! Each segment's headers differ in: lengths; the IPv4 identification, which counts up; the TCP sequence number; FIN and PSH, which
//! only the last segment has; CWR, which only the first has; checksums.

use std::fmt;
use std::ops::Range;

use crate::checksum::{fold, sum};
use crate::layers::{Ip, Layers, Link, MAX_HEADERS, Transport, number, put, word};
use crate::vnet::Vnet;

/// Packets that one super-frame may stand for: 64 KiB in the smallest segments that TCP on Linux makes (48 bytes) are 1,365.
const MAX_SEGMENTS: usize = 2048;

/// Offset of the checksum in an SCTP header (RFC 9260): a CRC, which is no sum.
const SCTP_CHECKSUM: u16 = 8;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const CWR: u8 = 0x80;

/// The contradiction between a frame and the header before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    Checksum,
    ForeignChecksum,
    Type(u8),
    NoSize,
    Headers,
    TooMany,
}

/// Hands over the packets that the frame stands for, finished. Returns how many there were.
///
/// # Errors
/// With the reason, before a packet has been handed over.
pub fn packets(
    frame: &mut [u8],
    link: Link,
    vnet: &Vnet,
    mut each: impl FnMut(&[u8]),
) -> Result<usize, Malformed> {
    let plan = Plan::of(frame, link, vnet)?;
    let mut headers = [0; MAX_HEADERS];
    let headers = &mut headers[..plan.headers];
    headers.copy_from_slice(&frame[..plan.headers]);
    for index in 0..plan.count {
        let payload = plan.payload(index);
        let packet = &mut frame[payload.start - plan.headers..payload.end];
        packet[..plan.headers].copy_from_slice(headers);
        plan.finish(packet, index);
        each(packet);
    }
    Ok(plan.count)
}

/// The packets of one frame, in order, each to be written where there is room.
pub struct Segments<'a> {
    frame: &'a [u8],
    plan: Plan,
    next: usize,
}

impl<'a> Segments<'a> {
    /// # Errors
    /// With the reason.
    pub fn new(frame: &'a [u8], link: Link, vnet: &Vnet) -> Result<Self, Malformed> {
        let plan = Plan::of(frame, link, vnet)?;
        Ok(Self {
            frame,
            plan,
            next: 0,
        })
    }

    /// Headers of the first packet at least, e.g. to look up its addresses.
    pub fn headers(&self) -> &'a [u8] {
        match self.plan.left {
            Left::Segments(_) => &self.frame[..self.plan.headers],
            _ => self.frame,
        }
    }

    /// Packets not yet written.
    pub fn remaining(&self) -> usize {
        self.plan.count - self.next
    }

    /// Length of the next packet.
    pub fn next_len(&self) -> Option<usize> {
        let payload = (self.remaining() > 0).then(|| self.plan.payload(self.next));
        Some(self.plan.headers + payload?.len())
    }

    /// Writes the next packet to the start of `room`; its length. `None` after the last one, or if `room` is too small.
    pub fn write_next(&mut self, room: &mut [u8]) -> Option<usize> {
        let packet = room.get_mut(..self.next_len()?)?;
        let (headers, payload) = packet.split_at_mut(self.plan.headers);
        headers.copy_from_slice(&self.frame[..self.plan.headers]);
        payload.copy_from_slice(&self.frame[self.plan.payload(self.next)]);
        self.plan.finish(packet, self.next);
        self.next += 1;
        Some(packet.len())
    }

    /// Leaves the rest out; how many packets that were.
    pub fn skip_rest(&mut self) -> usize {
        let remaining = self.remaining();
        self.next = self.plan.count;
        remaining
    }
}

/// A frame that has been checked.
struct Plan {
    /// Bytes of them that each packet begins with.
    headers: usize,
    /// Payload bytes of each packet but the last.
    size: usize,
    count: usize,
    end: usize,
    left: Left,
}

/// Work that is left for each packet.
enum Left {
    Nothing,
    /// Put the checksum of the bytes from `start` on at `at`.
    Checksum {
        start: usize,
        at: usize,
    },
    Segments(Segmented),
}

struct Segmented {
    layers: Layers,
    ecn: bool,
    /// Sum of the pseudo-header without its length; none where no checksum is needed.
    pseudo_header: Option<u32>,
}

impl Plan {
    fn of(frame: &[u8], link: Link, vnet: &Vnet) -> Result<Self, Malformed> {
        if vnet.is_super() {
            return Self::of_super(frame, link, vnet);
        }
        let left = match vnet.flags & Vnet::NEEDS_CSUM {
            0 => Left::Nothing,
            _ => {
                let start = usize::from(vnet.csum_start);
                let at = start + usize::from(vnet.csum_offset);
                if (link == Link::Ethernet && start < 14) || at + 2 > frame.len() {
                    return Err(Malformed::Checksum);
                }
                if vnet.csum_offset == SCTP_CHECKSUM {
                    return Err(Malformed::ForeignChecksum);
                }
                Left::Checksum { start, at }
            }
        };
        Ok(Self {
            headers: 0,
            size: frame.len(),
            count: 1,
            end: frame.len(),
            left,
        })
    }

    fn of_super(frame: &[u8], link: Link, vnet: &Vnet) -> Result<Self, Malformed> {
        let ecn = vnet.gso_type & Vnet::GSO_ECN != 0;
        let (version, protocol) = match vnet.gso_type & !Vnet::GSO_ECN {
            Vnet::GSO_TCPV4 => (Some(Ip::V4), Transport::Tcp),
            Vnet::GSO_TCPV6 => (Some(Ip::V6), Transport::Tcp),
            Vnet::GSO_UDP_L4 if !ecn => (None, Transport::Udp),
            _ => return Err(Malformed::Type(vnet.gso_type)),
        };
        let layers = Layers::of(frame, link).ok_or(Malformed::Headers)?;
        let Layers {
            transport,
            payload,
            end,
            ..
        } = layers;
        let claimed = || word(frame, transport + 4).map(usize::from);
        if version.is_some_and(|version| version != layers.version)
            || layers.protocol != protocol
            || end != frame.len()
            || usize::from(vnet.hdr_len) > frame.len()
            || protocol == Transport::Udp && claimed() != Some(end - transport)
        {
            return Err(Malformed::Headers);
        }
        // The packets get fresh checksums, so what they replace must have been right, or not made yet.
        let place = (usize::from(vnet.csum_start), usize::from(vnet.csum_offset));
        let unfinished =
            vnet.flags & Vnet::NEEDS_CSUM != 0 && place == (transport, protocol.checksum());
        if !unfinished && vnet.flags & (Vnet::NEEDS_CSUM | Vnet::DATA_VALID) != Vnet::DATA_VALID {
            return Err(Malformed::Checksum);
        }
        let size = usize::from(vnet.gso_size);
        if size == 0 {
            return Err(Malformed::NoSize);
        }
        let count = (end - payload).div_ceil(size).max(1);
        if count > MAX_SEGMENTS {
            return Err(Malformed::TooMany);
        }
        let checksummed = !layers.needs_no_checksum(frame);
        Ok(Self {
            headers: payload,
            size,
            count,
            end,
            left: Left::Segments(Segmented {
                layers,
                ecn,
                pseudo_header: checksummed.then(|| layers.pseudo_header(frame)),
            }),
        })
    }

    /// The range of packet `index`'s payload in the frame.
    fn payload(&self, index: usize) -> Range<usize> {
        let start = self.headers + index * self.size;
        start..(start + self.size).min(self.end)
    }

    /// Makes the headers those of packet `index`.
    fn finish(&self, packet: &mut [u8], index: usize) {
        match &self.left {
            Left::Nothing => {}
            Left::Checksum { start, at } => {
                let checksum = never_zero(!fold(sum(&packet[*start..])));
                put(packet, *at, checksum);
            }
            Left::Segments(segmented) => {
                let offset = (index * self.size) as u32;
                segmented.finish(packet, index, offset, index + 1 == self.count);
            }
        }
    }
}

impl Segmented {
    /// `offset`: of its payload in the frame's.
    fn finish(&self, packet: &mut [u8], index: usize, offset: u32, last: bool) {
        let Layers { ip, transport, .. } = self.layers;
        match self.layers.version {
            Ip::V4 => {
                put(packet, ip + 2, (packet.len() - ip) as u16);
                let id = word(packet, ip + 4).unwrap_or(0);
                put(packet, ip + 4, id.wrapping_add(index as u16));
                put(packet, ip + 10, 0);
                let checksum = !fold(sum(&packet[ip..transport]));
                put(packet, ip + 10, checksum);
            }
            Ip::V6 => put(packet, ip + 4, (packet.len() - ip - 40) as u16),
        }
        let length = packet.len() - transport;
        match self.layers.protocol {
            Transport::Tcp => {
                let tcp = &mut packet[transport..];
                let sequence = number(tcp, 4).wrapping_add(offset);
                tcp[4..8].copy_from_slice(&sequence.to_be_bytes());
                if !last {
                    tcp[13] &= !(FIN | PSH);
                }
                if index > 0 && self.ecn {
                    tcp[13] &= !CWR;
                }
            }
            Transport::Udp => put(packet, transport + 4, length as u16),
        }
        let at = transport + self.layers.protocol.checksum();
        put(packet, at, 0);
        if let Some(pseudo_header) = self.pseudo_header {
            let body = sum(&packet[transport..]);
            let checksum = never_zero(!fold(pseudo_header + length as u32 + body));
            put(packet, at, checksum);
        }
    }
}

/// 0 would say that there is no checksum (RFC 768); both stand for the same sum.
fn never_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Checksum => "its checksum is not where it says",
            Self::ForeignChecksum => "its checksum is not one of the Internet's",
            Self::Type(kind) => return write!(f, "segments of type {kind} are not known"),
            Self::NoSize => "its segments have no size",
            Self::Headers => "its headers are not those that its segments need",
            Self::TooMany => return write!(f, "it stands for more than {MAX_SEGMENTS} packets"),
        })
    }
}

impl std::error::Error for Malformed {}
