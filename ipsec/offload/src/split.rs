//! One frame from the kernel to the packets that it stands for.
//!
//! Of the headers, a segment changes: lengths; the IPv4 identification, which counts up; the TCP sequence number;
//! FIN and PSH, which the last one keeps, and CWR, which the first one keeps; checksums.

use std::fmt;

use crate::checksum::{add, sum};
use crate::packet::{
    IPV4_HEADER_LEN, IPV6_HEADER_LEN, TCP_HEADER_LEN, UDP_HEADER_LEN, be16, be32, ipv4, ipv6,
    put16, put32, tcp, tcp_header_len, udp, write_ipv4_checksum,
};
use crate::vnet::{Segmentation, VnetHeader};

/// The header says what the frame is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contradiction;

/// The packets of one frame, in order.
pub struct Segments<'a> {
    kind: Kind,
    /// IP and TCP or UDP headers of each; empty for a packet that is whole already.
    headers: &'a [u8],
    payload: &'a [u8],
    /// Payload bytes of each but the last.
    size: usize,
    /// Payload bytes behind us; `None` when all packets are.
    position: Option<usize>,
    /// Of which the checksum begins, in each.
    transport: usize,
    /// Sum of the pseudo-header without its length.
    pseudo: u16,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// With the place of the checksum that is left to do.
    Whole(Option<usize>),
    Tcp,
    Udp,
}

impl<'a> Segments<'a> {
    pub fn new(header: VnetHeader, frame: &'a [u8]) -> Result<Self, Contradiction> {
        let checksum = header
            .checksum
            .map(|(start, offset)| (usize::from(start), usize::from(offset)));
        match (header.segmentation, checksum) {
            (None, None) => Ok(Self::whole(frame, 0, None)),
            (None, Some((start, offset))) => {
                be16(frame, start + offset).ok_or(Contradiction)?;
                Ok(Self::whole(frame, start, Some(start + offset)))
            }
            // A super-frame's checksum is always left to do: virtio 1.2 section 5.1.6.2.1.
            (Some(_), None) => Err(Contradiction),
            (Some((segmentation, size)), Some((start, offset))) => {
                Self::super_frame(frame, segmentation, size.into(), start, offset)
                    .ok_or(Contradiction)
            }
        }
    }

    fn whole(frame: &'a [u8], transport: usize, checksum_at: Option<usize>) -> Self {
        Self {
            kind: Kind::Whole(checksum_at),
            headers: &[],
            payload: frame,
            size: frame.len().max(1),
            position: Some(0),
            transport,
            pseudo: 0,
        }
    }

    fn super_frame(
        frame: &'a [u8],
        segmentation: Segmentation,
        size: usize,
        start: usize,
        offset: usize,
    ) -> Option<Self> {
        let transport = frame.get(start..)?;
        let (kind, own_len, own_offset) = match segmentation {
            Segmentation::Tcp4 | Segmentation::Tcp6 => {
                (Kind::Tcp, tcp_header_len(transport)?, tcp::CHECKSUM)
            }
            Segmentation::Udp => (Kind::Udp, UDP_HEADER_LEN, udp::CHECKSUM),
        };
        let version_fits = match frame.first()? >> 4 {
            4 => {
                segmentation != Segmentation::Tcp6
                    && start == usize::from(frame[0] & 0x0f) * 4
                    && start >= IPV4_HEADER_LEN
            }
            6 => segmentation != Segmentation::Tcp4 && start >= IPV6_HEADER_LEN,
            _ => false,
        };
        let len_fits = own_len >= TCP_HEADER_LEN || kind == Kind::Udp;
        if !version_fits || !len_fits || offset != own_offset || size == 0 {
            return None;
        }
        let (headers, payload) = frame.split_at_checked(start + own_len)?;
        let whole_len = u16::try_from(transport.len()).ok()?;
        Some(Self {
            kind,
            headers,
            payload,
            size,
            position: Some(0),
            transport: start,
            // The kernel has put the sum of the whole pseudo-header there.
            pseudo: add(&[be16(frame, start + offset)?, !whole_len]),
        })
    }

    /// Headers of the first packet at least, e.g. to look up its addresses.
    pub fn headers(&self) -> &'a [u8] {
        match self.kind {
            Kind::Whole(_) => self.payload,
            _ => self.headers,
        }
    }

    /// Packets not yet written.
    pub fn remaining(&self) -> usize {
        let rest = self.position.map(|at| self.payload.len() - at);
        rest.map_or(0, |rest| rest.div_ceil(self.size).max(1))
    }

    /// Length of the next packet.
    pub fn next_len(&self) -> Option<usize> {
        self.position
            .map(|at| self.headers.len() + self.size.min(self.payload.len() - at))
    }

    /// Writes the next packet to the start of `room`; its length. `None` after the last one, or if `room` is too small.
    pub fn write_next(&mut self, room: &mut [u8]) -> Option<usize> {
        let at = self.position?;
        let packet = room.get_mut(..self.next_len()?)?;
        let end = self.payload.len().min(at + self.size);
        let (headers, payload) = packet.split_at_mut(self.headers.len());
        headers.copy_from_slice(self.headers);
        payload.copy_from_slice(&self.payload[at..end]);
        let last = end == self.payload.len();
        self.position = (!last).then_some(end);
        match self.kind {
            Kind::Whole(None) => {}
            Kind::Whole(Some(checksum_at)) => {
                self.finish(packet, checksum_at, 0);
            }
            Kind::Tcp => {
                self.advance_ip(packet, at);
                self.advance_tcp(packet, at, last);
            }
            Kind::Udp => {
                self.advance_ip(packet, at);
                let len = packet.len() - self.transport;
                put16(packet, self.transport + udp::LEN, len as u16);
                self.finish_segment(packet, self.transport + udp::CHECKSUM);
            }
        }
        Some(packet.len())
    }

    /// Leaves the rest out; how many packets that were.
    pub fn skip_rest(&mut self) -> usize {
        let remaining = self.remaining();
        self.position = None;
        remaining
    }

    fn advance_ip(&self, packet: &mut [u8], at: usize) {
        if self.headers[0] >> 4 == 4 {
            let before = be16(packet, ipv4::ID).unwrap_or(0);
            let id = before.wrapping_add((at / self.size) as u16);
            put16(packet, ipv4::TOTAL_LEN, packet.len() as u16);
            put16(packet, ipv4::ID, id);
            write_ipv4_checksum(packet, self.transport);
        } else {
            put16(
                packet,
                ipv6::PAYLOAD_LEN,
                (packet.len() - IPV6_HEADER_LEN) as u16,
            );
        }
    }

    fn advance_tcp(&self, packet: &mut [u8], at: usize, last: bool) {
        let sequence = be32(packet, self.transport + tcp::SEQUENCE).unwrap_or(0);
        put32(
            packet,
            self.transport + tcp::SEQUENCE,
            sequence.wrapping_add(at as u32),
        );
        if let Some(flags) = packet.get_mut(self.transport + tcp::FLAGS) {
            if !last {
                *flags &= !(tcp::FIN | tcp::PSH);
            }
            if at > 0 {
                *flags &= !tcp::CWR;
            }
        }
        self.finish_segment(packet, self.transport + tcp::CHECKSUM);
    }

    fn finish_segment(&self, packet: &mut [u8], checksum_at: usize) {
        put16(packet, checksum_at, 0);
        let len = packet.len() - self.transport;
        self.finish(packet, checksum_at, add(&[self.pseudo, len as u16]));
    }

    /// `start` is what the sum begins with.
    fn finish(&self, packet: &mut [u8], checksum_at: usize, start: u16) {
        let covered = packet.get(self.transport..).map_or(0, sum);
        let checksum = !add(&[start, covered]);
        // RFC 768: a zero says that there is none. In TCP both zeros are the same.
        let is_udp = checksum_at - self.transport == udp::CHECKSUM;
        put16(
            packet,
            checksum_at,
            if is_udp && checksum == 0 {
                0xffff
            } else {
                checksum
            },
        );
    }
}

impl fmt::Display for Contradiction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the virtio-net header does not fit the frame")
    }
}

impl std::error::Error for Contradiction {}
