//! Super-frames on their way in: what the sender left to hardware is done here.
//!
//! ```text
//!   │ headers │ payload 1 │ payload 2 │ payload 3 │      each packet is built where its payload lies: its headers are
//!             │  headers  │ payload 2 │                  written over the end of the payload before it, which has been
//!                         │  headers  │ payload 3 │      handed over already
//! ```

use thiserror::Error;

use super::checksum::{fold, sum};
use super::layers::{Ip, Layers, MAX_HEADERS, Transport, put, word};
use super::vnet::{DATA_VALID, GSO_ECN, GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, NEEDS_CSUM, Vnet};

/// Packets that one super-frame may stand for: 64 KiB in the smallest segments that TCP on Linux makes (48 bytes) are 1,365.
const MAX_SEGMENTS: usize = 2048;

/// Of a checksum in an SCTP header (RFC 9260): a CRC, which is no sum.
const SCTP_CHECKSUM: u16 = 8;

const FIN: u8 = 1;
const PSH: u8 = 8;
const CWR: u8 = 0x80;

/// Why a frame is not what the header before it says.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum Malformed {
    #[error("its checksum is not where it says")]
    Checksum,
    #[error("its checksum is not one of the Internet's")]
    ForeignChecksum,
    #[error("segments of type {0} are not known")]
    Type(u8),
    #[error("its segments have no size")]
    NoSize,
    #[error("its headers are not those that its segments need")]
    Headers,
    #[error("it stands for more than {MAX_SEGMENTS} packets")]
    TooMany,
}

/// Hands over the packets that the frame stands for, finished. Returns how many there were.
///
/// # Errors
/// With the reason, before a packet has been handed over.
pub(super) fn packets(
    frame: &mut [u8],
    vnet: &Vnet,
    mut each: impl FnMut(&[u8]),
) -> Result<usize, Malformed> {
    if vnet.is_super() {
        return Segments::of(frame, vnet).map(|segments| segments.split(frame, each));
    }
    if vnet.flags & NEEDS_CSUM != 0 {
        finish(frame, vnet)?;
    }
    each(frame);
    Ok(1)
}

/// Completes the checksum of a packet that holds the sum of its pseudo-header.
fn finish(frame: &mut [u8], vnet: &Vnet) -> Result<(), Malformed> {
    let start = usize::from(vnet.csum_start);
    let at = start + usize::from(vnet.csum_offset);
    if start < 14 || at + 2 > frame.len() {
        return Err(Malformed::Checksum);
    }
    if vnet.csum_offset == SCTP_CHECKSUM {
        return Err(Malformed::ForeignChecksum);
    }
    let checksum = never_zero(!fold(sum(&frame[start..])));
    put(frame, at, checksum);
    Ok(())
}

/// 0 would say that there is no checksum (RFC 768); both stand for the same sum.
fn never_zero(checksum: u16) -> u16 {
    if checksum == 0 { 0xffff } else { checksum }
}

/// A super-frame that has been checked.
struct Segments {
    layers: Layers,
    /// Payload bytes of each packet but the last.
    size: usize,
    count: usize,
    ecn: bool,
}

impl Segments {
    fn of(frame: &[u8], vnet: &Vnet) -> Result<Self, Malformed> {
        let ecn = vnet.gso_type & GSO_ECN != 0;
        let (version, protocol) = match vnet.gso_type & !GSO_ECN {
            GSO_TCPV4 => (Some(Ip::V4), Transport::Tcp),
            GSO_TCPV6 => (Some(Ip::V6), Transport::Tcp),
            GSO_UDP_L4 if !ecn => (None, Transport::Udp),
            _ => return Err(Malformed::Type(vnet.gso_type)),
        };
        let layers = Layers::of(frame).ok_or(Malformed::Headers)?;
        if version.is_some_and(|version| version != layers.version)
            || layers.protocol != protocol
            || layers.end != frame.len()
            || usize::from(vnet.hdr_len) > frame.len()
        {
            return Err(Malformed::Headers);
        }
        if protocol == Transport::Udp
            && word(frame, layers.transport + 4).map(usize::from)
                != Some(layers.end - layers.transport)
        {
            return Err(Malformed::Headers);
        }
        // The packets get fresh checksums, so what they replace must have been right, or not made yet.
        let place = (usize::from(vnet.csum_start), usize::from(vnet.csum_offset));
        let unfinished =
            vnet.flags & NEEDS_CSUM != 0 && place == (layers.transport, protocol.checksum());
        if !unfinished && vnet.flags & (NEEDS_CSUM | DATA_VALID) != DATA_VALID {
            return Err(Malformed::Checksum);
        }
        let size = usize::from(vnet.gso_size);
        if size == 0 {
            return Err(Malformed::NoSize);
        }
        let count = (layers.end - layers.payload).div_ceil(size).max(1);
        if count > MAX_SEGMENTS {
            return Err(Malformed::TooMany);
        }
        Ok(Self {
            layers,
            size,
            count,
            ecn,
        })
    }

    fn split(&self, frame: &mut [u8], mut each: impl FnMut(&[u8])) -> usize {
        let Layers { payload, end, .. } = self.layers;
        let mut headers = [0; MAX_HEADERS];
        let headers = &mut headers[..payload];
        headers.copy_from_slice(&frame[..payload]);
        // The pseudo-header and the checksum's own field.
        put(
            headers,
            self.layers.transport + self.layers.protocol.checksum(),
            0,
        );
        let pseudo_header = self.layers.pseudo_header(headers);
        for index in 0..self.count {
            let start = index * self.size;
            let stop = (start + payload + self.size).min(end);
            let packet = &mut frame[start..stop];
            packet[..payload].copy_from_slice(headers);
            self.finish(packet, index, pseudo_header);
            each(packet);
        }
        self.count
    }

    /// Makes the headers those of packet `index`.
    fn finish(&self, packet: &mut [u8], index: usize, pseudo_header: u32) {
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
            Ip::V6 => put(packet, ip + 4, (packet.len() - transport) as u16),
        }
        let length = packet.len() - transport;
        match self.layers.protocol {
            Transport::Tcp => self.finish_tcp(&mut packet[transport..], index),
            Transport::Udp => put(packet, transport + 4, length as u16),
        }
        let body = sum(&packet[transport..]);
        let checksum = never_zero(!fold(pseudo_header + length as u32 + body));
        let at = transport + self.layers.protocol.checksum();
        put(packet, at, checksum);
    }

    fn finish_tcp(&self, tcp: &mut [u8], index: usize) {
        if let Some(sequence) = tcp[4..].first_chunk_mut::<4>() {
            let offset = (index * self.size) as u32;
            *sequence = u32::from_be_bytes(*sequence)
                .wrapping_add(offset)
                .to_be_bytes();
        }
        if index + 1 < self.count {
            tcp[13] &= !(FIN | PSH);
        }
        if index > 0 && self.ecn {
            tcp[13] &= !CWR;
        }
    }
}
