//! Packets of one flow to super-frames.
//!
//! ```text
//!  buffer   [ headers │ payload ] [ headers │ payload ] [ other flow ] [ headers │ payload ]
//!  frame      part 0 ───────────►            part 1 ──►                            part 2 ──►
//! ```
//! A packet joins the frame of its flow when it goes on where that one ends: sequence number, IPv4 identification, and
//! every header field that a segment does not change is equal (traffic class and ECN among them, and TCP's options,
//! window and acknowledgement). Checksums are verified before. A shorter segment, PSH or FIN ends the frame. Frames
//! come out in the order of their first packets, so packets of one flow keep theirs.

use std::ops::Range;

use crate::checksum::{add, sum};
use crate::packet::{
    IPV4_HEADER_LEN, IPV6_HEADER_LEN, TCP, TCP_HEADER_LEN, be16, be32, ipv4, ipv6, pseudo_sum,
    put16, tcp, tcp_header_len, write_ipv4_checksum,
};
use crate::vnet::{Segmentation, VnetHeader};

/// The largest IP packet that IPv4 has a length for.
const MAX_LEN: usize = 65535;
/// Parts of one frame, so that a writer knows how many vectors it needs: 64 KiB of the smallest usual segments, 536 bytes.
pub const MAX_PARTS: usize = 127;
/// Flows that are merged side by side.
const MAX_OPEN: usize = 8;

/// A packet as it came, or several of one flow as one. Ranges are of the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuperFrame<'a> {
    pub header: VnetHeader,
    /// The first packet whole, and the payloads of the others.
    pub parts: &'a [Range<usize>],
}

/// Collects the packets of one batch, which lie in one buffer.
#[derive(Default)]
pub struct Merger {
    frames: Vec<Frame>,
    /// Of `frames`, those of this batch; the others keep their memory for the next.
    used: usize,
    /// Indices of frames that can grow, oldest first.
    open: Vec<usize>,
}

#[derive(Default)]
struct Frame {
    parts: Vec<Range<usize>>,
    headers: Headers,
    /// Payload bytes of its first segment.
    size: usize,
    len: usize,
    next_sequence: u32,
    last_id: u16,
    /// What the IPv4 identification goes up by: 1, or 0 where it means nothing (RFC 6864 section 4.1).
    id_step: Option<u16>,
    /// PSH and FIN of the last segment.
    ending: u8,
}

/// Of a TCP packet without IP options or extension headers.
#[derive(Clone, Copy, Default)]
struct Headers {
    ip: usize,
    all: usize,
}

enum Fit {
    OtherFlow,
    /// Of this flow, but it does not go on where the frame ends.
    Apart,
    Joins {
        id_step: Option<u16>,
    },
}

impl Merger {
    pub fn new() -> Self {
        Self::default()
    }

    /// Begins a batch.
    pub fn clear(&mut self) {
        self.used = 0;
        self.open.clear();
    }

    /// The packet at `at` comes next. A range outside of `buffer` is left out.
    pub fn push(&mut self, buffer: &[u8], at: Range<usize>) {
        let Some(packet) = buffer.get(at.clone()) else {
            return;
        };
        let Some(headers) = Headers::of(packet) else {
            self.begin(at, packet.len(), Headers::default());
            return;
        };
        let whole = headers.can_join(packet);
        for slot in 0..self.open.len() {
            let frame = &mut self.frames[self.open[slot]];
            let head = frame
                .parts
                .first()
                .and_then(|head| buffer.get(head.clone()));
            match frame.fit(head.unwrap_or_default(), packet, headers) {
                Fit::OtherFlow => continue,
                Fit::Joins { id_step } if whole => {
                    if frame.join(packet, at, headers, id_step) {
                        self.open.remove(slot);
                    }
                    return;
                }
                _ => {
                    self.open.remove(slot);
                    break;
                }
            }
        }
        let index = self.begin(at, packet.len(), headers);
        if whole && self.frames[index].start(packet) {
            if self.open.len() == MAX_OPEN {
                self.open.remove(0);
            }
            self.open.push(index);
        }
    }

    /// The packet at `at` comes next, and nothing joins it.
    pub fn push_alone(&mut self, at: Range<usize>) {
        self.begin(at, 0, Headers::default());
    }

    /// Ends the batch: completes the headers of each super-frame in `buffer`. What is in it comes from `frames`.
    pub fn finish(&mut self, buffer: &mut [u8]) {
        self.open.clear();
        for frame in self
            .frames
            .iter()
            .take(self.used)
            .filter(|frame| frame.parts.len() > 1)
        {
            if let Some(head) = frame
                .parts
                .first()
                .and_then(|head| buffer.get_mut(head.clone()))
            {
                frame.complete(head);
            }
        }
    }

    pub fn frames(&self) -> impl Iterator<Item = SuperFrame<'_>> {
        self.frames.iter().take(self.used).map(|frame| SuperFrame {
            header: frame.vnet_header(),
            parts: &frame.parts,
        })
    }

    fn begin(&mut self, at: Range<usize>, len: usize, headers: Headers) -> usize {
        let index = self.used;
        if index == self.frames.len() {
            self.frames.push(Frame::default());
        }
        let frame = &mut self.frames[index];
        frame.parts.clear();
        frame.parts.push(at);
        (frame.len, frame.headers) = (len, headers);
        (frame.id_step, frame.ending) = (None, 0);
        self.used += 1;
        index
    }
}

impl Frame {
    /// Takes the first packet's numbers; can the frame grow?
    fn start(&mut self, packet: &[u8]) -> bool {
        let payload = packet.len() - self.headers.all;
        let sequence = be32(packet, self.headers.ip + tcp::SEQUENCE).unwrap_or(0);
        self.size = payload;
        self.next_sequence = sequence.wrapping_add(payload as u32);
        self.last_id = be16(packet, ipv4::ID).unwrap_or(0);
        self.ending = self.headers.ending(packet);
        self.ending == 0
    }

    fn fit(&self, head: &[u8], packet: &[u8], headers: Headers) -> Fit {
        let Headers { ip, all } = headers;
        let equal = |range: Range<usize>| {
            head.get(range.clone())
                .is_some_and(|part| packet.get(range) == Some(part))
        };
        let addresses = if ip == IPV4_HEADER_LEN {
            ipv4::ADDRESSES
        } else {
            ipv6::ADDRESSES
        };
        if self.headers.ip != ip || !equal(addresses) || !equal(ip..ip + 4) {
            return Fit::OtherFlow;
        }
        let ip_equal = if ip == IPV4_HEADER_LEN {
            // Version to traffic class, fragmentation to protocol.
            equal(0..ipv4::TOTAL_LEN) && equal(ipv4::FRAGMENT..ipv4::CHECKSUM)
        } else {
            equal(0..ipv6::PAYLOAD_LEN) && equal(ipv6::NEXT_HEADER..ipv6::ADDRESSES.start)
        };
        let tcp_equal = self.headers.all == all
            && equal(ip + tcp::SEQUENCE + 4..ip + tcp::FLAGS)
            && equal(ip + tcp::FLAGS + 1..ip + tcp::CHECKSUM)
            && equal(ip + tcp::CHECKSUM + 2..all);
        let kept = |bytes: &[u8]| {
            bytes
                .get(ip + tcp::FLAGS)
                .map(|flags| flags & !(tcp::PSH | tcp::FIN))
        };
        let payload = packet.len() - all;
        let goes_on = be32(packet, ip + tcp::SEQUENCE) == Some(self.next_sequence)
            && payload <= self.size
            && self.len + payload <= MAX_LEN
            && self.parts.len() < MAX_PARTS;
        match self.id_step(packet, ip) {
            Some(id_step) if ip_equal && tcp_equal && kept(head) == kept(packet) && goes_on => {
                Fit::Joins { id_step }
            }
            _ => Fit::Apart,
        }
    }

    /// By what the identification goes up when this packet joins; `None` if it can't be told from its number again.
    fn id_step(&self, packet: &[u8], ip: usize) -> Option<Option<u16>> {
        if ip != IPV4_HEADER_LEN {
            return Some(None);
        }
        let step = be16(packet, ipv4::ID)?.wrapping_sub(self.last_id);
        let atomic = be16(packet, ipv4::FRAGMENT)? == ipv4::DONT_FRAGMENT;
        let allowed = step == 1 || (step == 0 && atomic);
        (allowed && self.id_step.is_none_or(|before| before == step)).then_some(Some(step))
    }

    /// Whether the frame is full with it.
    fn join(
        &mut self,
        packet: &[u8],
        at: Range<usize>,
        headers: Headers,
        id_step: Option<u16>,
    ) -> bool {
        let payload = packet.len() - headers.all;
        self.parts.push(at.start + headers.all..at.end);
        self.len += payload;
        self.next_sequence = self.next_sequence.wrapping_add(payload as u32);
        self.last_id = be16(packet, ipv4::ID).unwrap_or(0);
        self.id_step = id_step;
        self.ending = headers.ending(packet);
        payload < self.size || self.ending != 0
    }

    /// Makes the first packet's headers those of the whole frame.
    fn complete(&self, head: &mut [u8]) {
        let Headers { ip, .. } = self.headers;
        let len = (self.len - ip) as u16;
        let addresses = if ip == IPV4_HEADER_LEN {
            put16(head, ipv4::TOTAL_LEN, self.len as u16);
            write_ipv4_checksum(head, ip);
            ipv4::ADDRESSES
        } else {
            put16(head, ipv6::PAYLOAD_LEN, len);
            ipv6::ADDRESSES
        };
        if let Some(flags) = head.get_mut(ip + tcp::FLAGS) {
            *flags |= self.ending;
        }
        let pseudo = head
            .get(addresses)
            .map_or(0, |addresses| pseudo_sum(addresses, TCP));
        put16(head, ip + tcp::CHECKSUM, add(&[pseudo, len]));
    }

    fn vnet_header(&self) -> VnetHeader {
        if self.parts.len() < 2 {
            return VnetHeader::default();
        }
        let kind = if self.headers.ip == IPV4_HEADER_LEN {
            Segmentation::Tcp4
        } else {
            Segmentation::Tcp6
        };
        VnetHeader {
            segmentation: Some((kind, self.size as u16)),
            header_len: self.headers.all as u16,
            checksum: Some((self.headers.ip as u16, tcp::CHECKSUM as u16)),
        }
    }
}

impl Headers {
    /// `None` for what is not one whole TCP packet, or has options or extension headers of IP.
    fn of(packet: &[u8]) -> Option<Self> {
        let (ip, len, protocol) = match packet.first()? {
            0x45 => {
                let fragmented = be16(packet, ipv4::FRAGMENT)? & !ipv4::DONT_FRAGMENT != 0;
                let len = be16(packet, ipv4::TOTAL_LEN)?.into();
                (
                    IPV4_HEADER_LEN,
                    len,
                    packet.get(ipv4::PROTOCOL).filter(|_| !fragmented)?,
                )
            }
            0x60..=0x6f => {
                let len = IPV6_HEADER_LEN + usize::from(be16(packet, ipv6::PAYLOAD_LEN)?);
                (IPV6_HEADER_LEN, len, packet.get(ipv6::NEXT_HEADER)?)
            }
            _ => return None,
        };
        let own = tcp_header_len(packet.get(ip..)?)?;
        let sound =
            *protocol == TCP && len == packet.len() && own >= TCP_HEADER_LEN && ip + own <= len;
        sound.then_some(Self { ip, all: ip + own })
    }

    /// Verified data, with no flag that stands for more than data.
    fn can_join(self, packet: &[u8]) -> bool {
        let plain = tcp::ACK | tcp::ECE | tcp::PSH | tcp::FIN;
        let flags = packet.get(self.ip + tcp::FLAGS).copied().unwrap_or(0);
        let (header, transport) = packet.split_at(self.ip);
        let v4 = self.ip == IPV4_HEADER_LEN;
        let addresses = header.get(if v4 { ipv4::ADDRESSES } else { ipv6::ADDRESSES });
        let pseudo = pseudo_sum(addresses.unwrap_or_default(), TCP);
        packet.len() > self.all
            && flags & !plain == 0
            && flags & tcp::ACK != 0
            && (!v4 || sum(header) == 0xffff)
            && add(&[pseudo, transport.len() as u16, sum(transport)]) == 0xffff
    }

    fn ending(self, packet: &[u8]) -> u8 {
        packet
            .get(self.ip + tcp::FLAGS)
            .map_or(0, |flags| flags & (tcp::PSH | tcp::FIN))
    }
}
