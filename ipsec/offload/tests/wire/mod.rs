//! Packets as a host sends them, made and checked by another arithmetic than the crate's: RFC 1071, word by word.

use offload::{Ip, Link, Transport, Vnet};

pub const FIN: u8 = 0x01;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;
pub const ECE: u8 = 0x40;
pub const CWR: u8 = 0x80;
pub const DF: u16 = 0x4000;

#[derive(Clone, Debug)]
pub struct Packet {
    pub link: Link,
    pub tagged: bool,
    pub version: Ip,
    pub protocol: Transport,
    pub class: u8,
    /// Bytes of options between IPv6 and its payload; a multiple of 8.
    pub extension: usize,
    pub id: u16,
    pub fragment: u16,
    pub port: u16,
    pub sequence: u32,
    pub flags: u8,
    pub window: u16,
    /// Bytes of TCP's; a multiple of 4.
    pub options: usize,
    pub payload: Vec<u8>,
}

pub fn packet(version: Ip, protocol: Transport, payload: usize) -> Packet {
    Packet {
        link: Link::Ethernet,
        tagged: false,
        version,
        protocol,
        class: 0,
        extension: 0,
        id: 0xfffe,
        fragment: 0,
        port: 80,
        sequence: 0xffff_ff00,
        flags: ACK,
        window: 500,
        options: 12,
        payload: (0..payload).map(|at| (at * 7 + at / 256) as u8).collect(),
    }
}

impl Packet {
    pub fn ip(&self) -> usize {
        match self.link {
            Link::None => 0,
            Link::Ethernet => 14 + 4 * usize::from(self.tagged),
        }
    }

    pub fn transport(&self) -> usize {
        self.ip()
            + match self.version {
                Ip::V4 => 20,
                Ip::V6 => 40 + self.extension,
            }
    }

    pub fn headers(&self) -> usize {
        self.transport()
            + match self.protocol {
                Transport::Tcp => 20 + self.options,
                Transport::Udp => 8,
            }
    }

    /// The frame with right checksums.
    pub fn frame(&self) -> Vec<u8> {
        let mut frame = self.unfinished();
        let at = self.transport();
        let checksum = match !ones_sum(&frame[at..]) {
            0 => 0xffff,
            other => other,
        };
        put(&mut frame, at + self.protocol.checksum(), checksum);
        frame
    }

    /// The frame with the sum of the pseudo-header in the checksum field, as the kernel gives it when it leaves the checksum to us.
    pub fn unfinished(&self) -> Vec<u8> {
        let mut transport = vec![0x13, 0x37];
        transport.extend(self.port.to_be_bytes());
        match self.protocol {
            Transport::Tcp => {
                transport.extend(self.sequence.to_be_bytes());
                let offset = ((20 + self.options) / 4) as u8;
                transport.extend([1, 2, 3, 4, offset << 4, self.flags]);
                transport.extend(self.window.to_be_bytes());
                transport.extend([0; 4]);
                transport.resize(20 + self.options, 1);
            }
            Transport::Udp => {
                transport.extend((8 + self.payload.len() as u16).to_be_bytes());
                transport.extend([0; 2]);
            }
        }
        transport.extend(&self.payload);
        let mut frame = vec![];
        if self.link == Link::Ethernet {
            frame.extend([2; 12]);
            if self.tagged {
                frame.extend([0x81, 0, 0, 5]);
            }
            frame.extend(match self.version {
                Ip::V4 => [0x08, 0x00],
                Ip::V6 => [0x86, 0xdd],
            });
        }
        let protocol = match self.protocol {
            Transport::Tcp => 6,
            Transport::Udp => 17,
        };
        let (ip, length) = (frame.len(), transport.len() as u16);
        let addresses = match self.version {
            Ip::V4 => {
                frame.extend([0x45, self.class]);
                for word in [20 + length, self.id, self.fragment] {
                    frame.extend(word.to_be_bytes());
                }
                frame.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
                let checksum = !ones_sum(&frame[ip..]);
                put(&mut frame, ip + 10, checksum);
                frame[ip + 12..].to_vec()
            }
            Ip::V6 => {
                frame.extend([0x60 | self.class >> 4, self.class << 4, 0, 9]);
                frame.extend((length + self.extension as u16).to_be_bytes());
                frame.extend([if self.extension > 0 { 60 } else { protocol }, 64]);
                frame.extend([[0xfd; 16], [0xfc; 16]].concat());
                if self.extension > 0 {
                    frame.extend([protocol, (self.extension / 8 - 1) as u8]);
                    frame.resize(frame.len() + self.extension - 2, 0);
                }
                frame[ip + 8..ip + 40].to_vec()
            }
        };
        let pseudo = [&addresses[..], &[0, protocol], &length.to_be_bytes()].concat();
        put(&mut transport, self.protocol.checksum(), ones_sum(&pseudo));
        frame.extend(transport);
        frame
    }

    /// The header of a super-frame of `size` bytes a segment.
    pub fn vnet(&self, size: u16) -> Vnet {
        Vnet {
            flags: Vnet::NEEDS_CSUM,
            gso_type: match (self.protocol, self.version) {
                (Transport::Tcp, Ip::V4) => Vnet::GSO_TCPV4,
                (Transport::Tcp, Ip::V6) => Vnet::GSO_TCPV6,
                (Transport::Udp, _) => Vnet::GSO_UDP_L4,
            },
            hdr_len: self.headers() as u16,
            gso_size: size,
            csum_start: self.transport() as u16,
            csum_offset: self.protocol.checksum() as u16,
        }
    }

    /// Returns this packet, and makes it the next of its flow.
    pub fn step(&mut self) -> Vec<u8> {
        let frame = self.frame();
        self.sequence = self.sequence.wrapping_add(self.payload.len() as u32);
        self.id = self.id.wrapping_add(1);
        frame
    }
}

pub fn put(frame: &mut [u8], at: usize, word: u16) {
    frame[at..at + 2].copy_from_slice(&word.to_be_bytes());
}

fn ones_sum(bytes: &[u8]) -> u16 {
    let mut total = 0u32;
    for pair in bytes.chunks(2) {
        total += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}
