//! Frames on their way out: packets of one flow that leave in a row become one super-frame, which the kernel or the interface
//! splits again. What is merged here and split by the rules of `segment.rs` is the same packets, but for the ids of IPv4 packets that
//! must not be fragmented (which say nothing then: RFC 6864, section 4.1) and a UDP checksum that its sender left out.
//!
//! ```text
//!   flow  A A A B A A      packets in the order that the program sent them in
//!         └─┬─┘ │ └┬┘
//!         train │ train    a message each
//! ```

use super::checksum::{fold, sum};
use super::layers::{Ip, Layers, MAX_HEADERS, Transport, put, word};
use super::vnet::{GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, LEN, NEEDS_CSUM, Vnet};

/// Bytes of the longest IP packet.
const MAX_LENGTH: usize = 65535;
/// Packets of one train: UDP_MAX_SEGMENTS of older kernels.
const MAX_SEGMENTS: usize = 64;

const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
/// DF (RFC 791), in the byte that it is in.
const DONT_FRAGMENT: u8 = 0x40;
/// IANA's ipsec-nat-t.
const ESP_IN_UDP: u16 = 4500;

/// What may be merged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mergeable {
    /// The longest IP packet that the interface sends, in bytes.
    pub mtu: usize,
    pub tcp: bool,
    pub udp: bool,
}

/// Frames that go out as one.
pub(super) struct Train {
    /// Among the frames.
    pub first: usize,
    pub count: usize,
    /// Bytes of each frame that `head` stands for.
    pub headers: usize,
    head: [u8; LEN + MAX_HEADERS],
    pub protocol: Option<Transport>,
}

impl Train {
    /// What goes before the frames' payloads: the header that says what the frame is, and the headers that it has.
    pub fn head(&self) -> &[u8] {
        &self.head[..LEN + self.headers]
    }

    /// A frame as it is.
    fn single(first: usize) -> Self {
        Self {
            first,
            count: 1,
            headers: 0,
            head: [0; LEN + MAX_HEADERS],
            protocol: None,
        }
    }
}

/// Says how `frames[from..]` go out. `trains` is written over.
pub(super) fn trains(
    frames: &[Vec<u8>],
    from: usize,
    may: Option<Mergeable>,
    trains: &mut Vec<Train>,
) {
    trains.clear();
    let Some(may) = may else {
        return trains.extend((from..frames.len()).map(Train::single));
    };
    let mut open: Option<Run> = None;
    for index in from..frames.len() {
        let candidate =
            Layers::of(&frames[index]).filter(|layers| may.merge(&frames[index], layers));
        let extended = match (&mut open, &candidate) {
            (Some(run), Some(layers)) => run.extend(frames, index, layers),
            _ => false,
        };
        if extended {
            continue;
        }
        if let Some(run) = open.take() {
            trains.push(run.train(frames));
        }
        match candidate {
            Some(layers) => open = Some(Run::new(index, layers)),
            None => trains.push(Train::single(index)),
        }
    }
    trains.extend(open.map(|run| run.train(frames)));
}

impl Mergeable {
    pub fn forbid(&mut self, protocol: Option<Transport>) {
        match protocol {
            Some(Transport::Tcp) => self.tcp = false,
            Some(Transport::Udp) => self.udp = false,
            None => {}
        }
    }

    /// The packet may be one of a train.
    fn merge(&self, frame: &[u8], layers: &Layers) -> bool {
        let length = layers.end - layers.ip;
        let protocol = match layers.protocol {
            Transport::Tcp => {
                let flags = frame[layers.transport + 13];
                self.tcp && flags & !(PSH | ECE) == ACK
            }
            Transport::Udp => {
                let claimed = word(frame, layers.transport + 4).map(usize::from);
                self.udp && claimed == Some(layers.end - layers.transport)
            }
        };
        protocol
            && length <= self.mtu
            && layers.end == frame.len()
            && layers.payload < layers.end
            && (layers.version == Ip::V6 || layers.transport - layers.ip == 20)
    }
}

/// Packets in a row that belong together.
struct Run {
    first: usize,
    count: usize,
    layers: Layers,
    /// Payload bytes of each packet but the last, and of all.
    size: usize,
    payload: usize,
    /// From one IPv4 id to the next.
    step: u16,
    /// No packet can follow.
    ended: bool,
    verified: bool,
}

impl Run {
    fn new(first: usize, layers: Layers) -> Self {
        let size = layers.end - layers.payload;
        Self {
            first,
            count: 1,
            layers,
            size,
            payload: size,
            step: 1,
            ended: false,
            verified: false,
        }
    }

    /// Takes the next packet in, if it is one of these.
    fn extend(&mut self, frames: &[Vec<u8>], index: usize, layers: &Layers) -> bool {
        let (first, next) = (&frames[self.first], &frames[index]);
        let size = layers.end - layers.payload;
        if self.ended
            || self.is_tcp() && frames[index - 1][self.layers.transport + 13] & PSH != 0
            || (layers.ip, layers.transport, layers.payload)
                != (self.layers.ip, self.layers.transport, self.layers.payload)
            || (layers.version, layers.protocol) != (self.layers.version, self.layers.protocol)
            || size > self.size
            || self.count >= MAX_SEGMENTS
            || layers.payload - layers.ip + self.payload + size > MAX_LENGTH
            || !self.same_flow(first, next)
        {
            return false;
        }
        // The merged frame gets a right checksum, so a wrong one must not get in.
        if !self.verified && !is_sound(first, &self.layers) || !is_sound(next, layers) {
            return false;
        }
        self.verified = true;
        self.count += 1;
        self.payload += size;
        self.ended = size < self.size;
        true
    }

    fn is_tcp(&self) -> bool {
        self.layers.protocol == Transport::Tcp
    }

    /// All headers are the same, but for what runs from packet to packet.
    fn same_flow(&mut self, first: &[u8], next: &[u8]) -> bool {
        let Layers {
            ip,
            transport,
            payload,
            ..
        } = self.layers;
        let same = |from: usize, to: usize| first[from..to] == next[from..to];
        same(0, ip)
            && match self.layers.version {
                Ip::V4 => same(ip, ip + 2) && same(ip + 6, ip + 10) && same(ip + 12, transport),
                Ip::V6 => same(ip, ip + 4) && same(ip + 6, transport),
            }
            && match self.layers.protocol {
                Transport::Tcp => {
                    same(transport, transport + 4)
                        && number(next, transport + 4)
                            == number(first, transport + 4).wrapping_add(self.payload as u32)
                        && same(transport + 8, transport + 13)
                        && (first[transport + 13] ^ next[transport + 13]) & !PSH == 0
                        && same(transport + 14, transport + 16)
                        && same(transport + 18, payload)
                }
                Transport::Udp => same(transport, transport + 4),
            }
            && (self.layers.version == Ip::V6 || self.ids_go_on(first, next))
    }

    /// The ids count up, or are all the same in packets that must not be fragmented.
    fn ids_go_on(&mut self, first: &[u8], next: &[u8]) -> bool {
        let ip = self.layers.ip;
        let (Some(from), Some(to)) = (word(first, ip + 4), word(next, ip + 4)) else {
            return false;
        };
        if self.count == 1 && to == from && first[ip + 6] & DONT_FRAGMENT != 0 {
            self.step = 0;
        }
        to == from.wrapping_add(self.step.wrapping_mul(self.count as u16))
    }

    fn train(&self, frames: &[Vec<u8>]) -> Train {
        let mut train = Train::single(self.first);
        if self.count == 1 {
            return train;
        }
        let Layers {
            version,
            protocol,
            ip,
            transport,
            payload,
            ..
        } = self.layers;
        let vnet = Vnet {
            flags: NEEDS_CSUM,
            gso_type: match (protocol, version) {
                (Transport::Tcp, Ip::V4) => GSO_TCPV4,
                (Transport::Tcp, Ip::V6) => GSO_TCPV6,
                (Transport::Udp, _) => GSO_UDP_L4,
            },
            hdr_len: payload as u16,
            gso_size: self.size as u16,
            csum_start: transport as u16,
            csum_offset: protocol.checksum() as u16,
        };
        train.count = self.count;
        train.headers = payload;
        train.protocol = Some(protocol);
        train.head[..LEN].copy_from_slice(&vnet.emit());
        let headers = &mut train.head[LEN..LEN + payload];
        headers.copy_from_slice(&frames[self.first][..payload]);
        let length = payload - transport + self.payload;
        match version {
            Ip::V4 => {
                put(headers, ip + 2, (transport - ip + length) as u16);
                put(headers, ip + 10, 0);
                let checksum = !fold(sum(&headers[ip..transport]));
                put(headers, ip + 10, checksum);
            }
            Ip::V6 => put(headers, ip + 4, length as u16),
        }
        match protocol {
            Transport::Tcp => {
                headers[transport + 13] |=
                    frames[self.first + self.count - 1][transport + 13] & PSH;
            }
            Transport::Udp => put(headers, transport + 4, length as u16),
        }
        let pseudo_header = self.layers.pseudo_header(headers) + length as u32;
        put(
            headers,
            transport + protocol.checksum(),
            fold(pseudo_header),
        );
        train
    }
}

/// The packet may get fresh checksums: its own are right. The kernel gives every datagram of a train a checksum. ESP's may have one
/// over IPv4 (RFC 3948, section 2.1: its sender should leave it out, its receiver must not depend on that); others stay without.
fn is_sound(frame: &[u8], layers: &Layers) -> bool {
    let left_out = layers.protocol == Transport::Udp && layers.has_no_checksum(frame);
    if !left_out {
        return layers.is_right(frame);
    }
    let ports = [
        word(frame, layers.transport),
        word(frame, layers.transport + 2),
    ];
    layers.version == Ip::V4 && ports.contains(&Some(ESP_IN_UDP)) && layers.has_right_header(frame)
}

fn number(frame: &[u8], at: usize) -> u32 {
    frame[at..]
        .first_chunk()
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}
