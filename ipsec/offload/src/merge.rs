//! Merges packets of one flow into super-frames, which the kernel or the interface splits again.
//!
//! ```text
//!   packets    A A B A C B      as they were sent
//!              ├─┼─┼─┘ │ │
//!   trains     A A A   │ │      in the order of their first packets, so that packets of one flow keep theirs
//!                  B ──┼─B
//!                      C
//! ```
//! A packet joins the train of its flow when it goes on where that one ends, and every header field that a segment does not change is
//! equal (traffic class and ECN among them, and TCP's options, window and acknowledgement). Checksums are verified before. A shorter
//! segment, PSH or FIN ends a train. Packets that are merged here and split again are the same, but for the ids of IPv4 packets that must
//! not be fragmented (which say nothing then: RFC 6864, section 4.1) and the checksum of ESP in UDP (RFC 3948, section 2.1).

use crate::checksum::{fold, sum};
use crate::layers::{Ip, Layers, Link, MAX_HEADERS, Transport, number, put, word};
use crate::vnet::{VNET_LEN, Vnet};

/// Bytes of the longest IP packet.
const MAX_LENGTH: usize = 65535;
/// Packets of one train, so that a writer knows how many vectors it needs: 64 KiB of the smallest usual segments, 536 bytes.
pub const MAX_PACKETS: usize = 127;
/// Linux's UDP_MAX_SEGMENTS, in its older form.
const MAX_DATAGRAMS: usize = 64;
/// Flows that are merged side by side.
const MAX_OPEN: usize = 8;

const FIN: u8 = 0x01;
const PSH: u8 = 0x08;
const ACK: u8 = 0x10;
const ECE: u8 = 0x40;
/// DF (RFC 791), in the byte that it is in.
const DONT_FRAGMENT: u8 = 0x40;

/// The packets that an interface takes merged.
#[derive(Clone, Copy, Debug)]
pub struct Mergeable {
    pub link: Link,
    /// The longest IP packet that the interface sends, in bytes.
    pub mtu: usize,
    pub tcp: bool,
    pub udp: bool,
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
    fn allows(&self, packet: &[u8], layers: &Layers) -> bool {
        let protocol = match layers.protocol {
            Transport::Tcp => {
                let flags = packet[layers.transport + 13];
                self.tcp && flags & !(PSH | FIN | ECE) == ACK
            }
            Transport::Udp => {
                let claimed = word(packet, layers.transport + 4).map(usize::from);
                self.udp && claimed == Some(layers.end - layers.transport)
            }
        };
        protocol
            && layers.end - layers.ip <= self.mtu
            && layers.end == packet.len()
            && layers.payload < layers.end
            && layers.is_plain()
    }
}

/// Makes trains of the packets of one batch.
#[derive(Default)]
pub struct Merger {
    trains: Vec<Train>,
    /// Number of the trains in this batch, the first ones; the others keep their memory for the next batch.
    used: usize,
    /// Indices of trains that can grow, oldest first.
    open: Vec<usize>,
}

impl Merger {
    /// `packets` are the numbers of this batch's, of which `packet` gives the bytes. Without `may` each is a train.
    pub fn merge<'a>(
        &mut self,
        packets: impl IntoIterator<Item = usize>,
        may: Option<&Mergeable>,
        packet: impl Fn(usize) -> &'a [u8],
    ) {
        self.used = 0;
        self.open.clear();
        for number in packets {
            let Some(may) = may else {
                self.begin(number);
                continue;
            };
            let bytes = packet(number);
            let Some(layers) = Layers::of(bytes, may.link) else {
                // The packet may belong to any flow, so no packet may overtake it.
                self.open.clear();
                self.begin(number);
                continue;
            };
            let allowed = may.allows(bytes, &layers);
            let (open, trains) = (&mut self.open, &mut self.trains);
            let of_flow = |train: &usize| {
                let train = &trains[*train];
                train.is_of_flow(packet(train.packets[0]), bytes, &layers)
            };
            if let Some(slot) = open.iter().position(of_flow) {
                let train = &mut trains[open[slot]];
                let joins = allowed && train.takes(packet(train.packets[0]), bytes, &layers);
                if joins {
                    train.join(number, bytes, &layers);
                }
                if !joins || train.ended {
                    open.remove(slot);
                }
                if joins {
                    continue;
                }
            }
            let index = self.begin(number);
            if allowed && self.trains[index].open(bytes, layers) {
                if self.open.len() == MAX_OPEN {
                    self.open.remove(0);
                }
                self.open.push(index);
            }
        }
        for train in self.trains.iter_mut().take(self.used) {
            train.complete(packet(train.packets[0]));
        }
    }

    /// The trains of the last batch.
    pub fn trains(&self) -> &[Train] {
        &self.trains[..self.used]
    }

    fn begin(&mut self, packet: usize) -> usize {
        let index = self.used;
        if index == self.trains.len() {
            self.trains.push(Train::default());
        }
        self.trains[index].begin(packet);
        self.used += 1;
        index
    }
}

/// Packets that go out as one.
pub struct Train {
    packets: Vec<usize>,
    /// Bytes of each packet that `head` stands for.
    headers: usize,
    head: [u8; VNET_LEN + MAX_HEADERS],
    /// The first packet's layers, if other packets may be merged with it.
    layers: Option<Layers>,
    /// Payload bytes of each packet but the last, and of all.
    size: usize,
    payload: usize,
    /// Difference between one IPv4 id and the next.
    step: u16,
    /// PSH and FIN of the last packet.
    ending: u8,
    ended: bool,
    verified: bool,
}

impl Default for Train {
    fn default() -> Self {
        Self {
            packets: Vec::new(),
            headers: 0,
            head: [0; VNET_LEN + MAX_HEADERS],
            layers: None,
            size: 0,
            payload: 0,
            step: 1,
            ending: 0,
            ended: false,
            verified: false,
        }
    }
}

impl Train {
    /// The numbers of its packets.
    pub fn packets(&self) -> &[usize] {
        &self.packets
    }

    /// Bytes at the start of each packet that [`Train::head`] stands for: the rest of each goes behind it.
    pub fn headers(&self) -> usize {
        self.headers
    }

    /// The [`Vnet`] header, and the headers of the whole.
    pub fn head(&self) -> &[u8] {
        &self.head[..VNET_LEN + self.headers]
    }

    /// The protocol of a train of several packets.
    pub fn protocol(&self) -> Option<Transport> {
        self.layers
            .filter(|_| self.packets.len() > 1)
            .map(|layers| layers.protocol)
    }

    fn begin(&mut self, packet: usize) {
        self.packets.clear();
        self.packets.push(packet);
        self.headers = 0;
        self.head[..VNET_LEN].fill(0);
        self.layers = None;
    }

    /// Begins a train. Returns whether other packets may follow its first one.
    fn open(&mut self, first: &[u8], layers: Layers) -> bool {
        self.size = layers.end - layers.payload;
        self.payload = self.size;
        self.step = 1;
        self.verified = false;
        self.layers = Some(layers);
        self.ending = ending(first, &layers);
        self.ended = self.ending != 0;
        !self.ended
    }

    fn is_of_flow(&self, first: &[u8], next: &[u8], layers: &Layers) -> bool {
        self.layers.is_some_and(|own| {
            let ports = |packet: &[u8], layers: &Layers| number(packet, layers.transport);
            (own.version, own.protocol, own.ip) == (layers.version, layers.protocol, layers.ip)
                && ports(first, &own) == ports(next, layers)
                && own.addresses(first) == layers.addresses(next)
                && first[..own.ip] == next[..own.ip]
        })
    }

    /// The next packet, which is of this flow, is one of these.
    fn takes(&mut self, first: &[u8], next: &[u8], layers: &Layers) -> bool {
        let Some(own) = self.layers else {
            return false;
        };
        let size = layers.end - layers.payload;
        let most = match own.protocol {
            Transport::Tcp => MAX_PACKETS,
            Transport::Udp => MAX_DATAGRAMS,
        };
        (own.transport, own.payload) == (layers.transport, layers.payload)
            && size <= self.size
            && self.packets.len() < most
            && own.payload - own.ip + self.payload + size <= MAX_LENGTH
            && self.goes_on(first, next, &own)
            // The merged frame gets a right checksum, so a wrong one must not get in.
            && (self.verified || own.is_sound(first))
            && layers.is_sound(next)
    }

    /// Returns whether all headers are the same, but for the fields that change from packet to packet.
    fn goes_on(&mut self, first: &[u8], next: &[u8], own: &Layers) -> bool {
        let Layers {
            ip,
            transport,
            payload,
            ..
        } = *own;
        let same = |from: usize, to: usize| first[from..to] == next[from..to];
        let ip_goes_on = match own.version {
            Ip::V4 => same(ip, ip + 2) && same(ip + 6, ip + 10) && self.ids_go_on(first, next, ip),
            Ip::V6 => same(ip, ip + 4) && same(ip + 6, ip + 8),
        };
        ip_goes_on
            && match own.protocol {
                Transport::Tcp => {
                    number(next, transport + 4)
                        == number(first, transport + 4).wrapping_add(self.payload as u32)
                        && same(transport + 8, transport + 13)
                        && (first[transport + 13] ^ next[transport + 13]) & !(PSH | FIN) == 0
                        && same(transport + 14, transport + 16)
                        && same(transport + 18, payload)
                }
                Transport::Udp => true,
            }
    }

    /// The ids count up, or are all the same in packets that must not be fragmented.
    fn ids_go_on(&mut self, first: &[u8], next: &[u8], ip: usize) -> bool {
        let (Some(from), Some(to)) = (word(first, ip + 4), word(next, ip + 4)) else {
            return false;
        };
        let count = self.packets.len() as u16;
        if count == 1 && to == from && first[ip + 6] & DONT_FRAGMENT != 0 {
            self.step = 0;
        }
        to == from.wrapping_add(self.step.wrapping_mul(count))
    }

    fn join(&mut self, number: usize, packet: &[u8], layers: &Layers) {
        let size = layers.end - layers.payload;
        self.packets.push(number);
        self.payload += size;
        self.verified = true;
        self.ending = ending(packet, layers);
        self.ended = size < self.size || self.ending != 0;
    }

    /// Makes the headers of several packets those of one.
    fn complete(&mut self, first: &[u8]) {
        let Some(layers) = self.layers.filter(|_| self.packets.len() > 1) else {
            return;
        };
        let Layers {
            version,
            protocol,
            ip,
            transport,
            payload,
            ..
        } = layers;
        let vnet = Vnet {
            flags: Vnet::NEEDS_CSUM,
            gso_type: match (protocol, version) {
                (Transport::Tcp, Ip::V4) => Vnet::GSO_TCPV4,
                (Transport::Tcp, Ip::V6) => Vnet::GSO_TCPV6,
                (Transport::Udp, _) => Vnet::GSO_UDP_L4,
            },
            hdr_len: payload as u16,
            gso_size: self.size as u16,
            csum_start: transport as u16,
            csum_offset: protocol.checksum() as u16,
        };
        self.headers = payload;
        self.head[..VNET_LEN].copy_from_slice(&vnet.emit());
        let headers = &mut self.head[VNET_LEN..VNET_LEN + payload];
        headers.copy_from_slice(&first[..payload]);
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
            Transport::Tcp => headers[transport + 13] |= self.ending,
            Transport::Udp => put(headers, transport + 4, length as u16),
        }
        let pseudo_header = fold(layers.pseudo_header(headers) + length as u32);
        put(headers, transport + protocol.checksum(), pseudo_header);
    }
}

/// PSH and FIN.
fn ending(packet: &[u8], layers: &Layers) -> u8 {
    match layers.protocol {
        Transport::Tcp => packet[layers.transport + 13] & (PSH | FIN),
        Transport::Udp => 0,
    }
}
