//! Packets as a host sends them, made and checked by another arithmetic than the crate's: RFC 1071, word by word.
#![allow(dead_code)]

use offload::{Segmentation, VnetHeader};

pub const FIN: u8 = 0x01;
pub const PSH: u8 = 0x08;
pub const ACK: u8 = 0x10;
pub const CWR: u8 = 0x80;

#[derive(Clone, Copy, Debug)]
pub struct Tcp {
    pub v6: bool,
    pub atomic: bool,
    pub class: u8,
    pub id: u16,
    pub port: u16,
    pub sequence: u32,
    pub flags: u8,
    pub window: u16,
    /// In words of 32 bits.
    pub options: usize,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            v6: false,
            atomic: true,
            class: 0,
            id: 0xfffe,
            port: 0,
            sequence: 0xffff_ff00,
            flags: ACK,
            window: 500,
            options: 0,
        }
    }
}

impl Tcp {
    pub fn header_len(&self) -> usize {
        self.ip_len() + 20 + 4 * self.options
    }

    fn ip_len(&self) -> usize {
        if self.v6 { 40 } else { 20 }
    }

    /// As the kernel hands it over: the whole payload, and a checksum left to do.
    pub fn super_frame(&self, size: u16, payload: usize) -> (VnetHeader, Vec<u8>) {
        let payload: Vec<u8> = (0..payload).map(|at| (at * 31 + at / 256) as u8).collect();
        let mut frame = tcp(self, &payload);
        let partial = pseudo_sum(&frame);
        let at = self.ip_len() + 16;
        frame[at..at + 2].copy_from_slice(&partial.to_be_bytes());
        let kind = if self.v6 {
            Segmentation::Tcp6
        } else {
            Segmentation::Tcp4
        };
        let header = VnetHeader {
            segmentation: Some((kind, size)),
            header_len: self.header_len() as u16,
            checksum: Some((self.ip_len() as u16, 16)),
        };
        (header, frame)
    }
}

/// A sender that counts up.
pub struct Flow {
    pub tcp: Tcp,
}

impl Flow {
    pub fn new(v6: bool, atomic: bool, port: u16, options: usize) -> Self {
        Self {
            tcp: Tcp {
                v6,
                atomic,
                port,
                options,
                ..Tcp::default()
            },
        }
    }

    pub fn next(&mut self, flags: u8, len: usize) -> Vec<u8> {
        self.tcp.flags = flags;
        let payload: Vec<u8> = (0..len)
            .map(|at| (self.tcp.sequence as usize + at * 7) as u8)
            .collect();
        let packet = tcp(&self.tcp, &payload);
        self.tcp.sequence = self.tcp.sequence.wrapping_add(len as u32);
        self.tcp.id = self.tcp.id.wrapping_add(1);
        packet
    }
}

pub fn tcp(tcp: &Tcp, payload: &[u8]) -> Vec<u8> {
    let mut segment = vec![];
    segment.extend(443u16.to_be_bytes());
    segment.extend(tcp.port.to_be_bytes());
    segment.extend(tcp.sequence.to_be_bytes());
    segment.extend(0x0102_0304u32.to_be_bytes());
    segment.extend([(5 + tcp.options as u8) << 4, tcp.flags]);
    segment.extend(tcp.window.to_be_bytes());
    segment.extend([0; 4]);
    segment.extend((0..4 * tcp.options).map(|at| at as u8));
    segment.extend(payload);
    ip(tcp, 6, segment, 16)
}

pub fn udp_super_frame(v6: bool, size: u16, payload: usize) -> (VnetHeader, Vec<u8>) {
    let shape = Tcp {
        v6,
        ..Tcp::default()
    };
    let mut datagram = vec![];
    datagram.extend([0x01, 0xbb, 0, 7]);
    datagram.extend(((8 + payload) as u16).to_be_bytes());
    datagram.extend([0; 2]);
    datagram.extend((0..payload).map(|at| (at * 13) as u8));
    let mut frame = ip(&shape, 17, datagram, 6);
    let partial = pseudo_sum(&frame);
    let start = shape.ip_len();
    frame[start + 6..start + 8].copy_from_slice(&partial.to_be_bytes());
    let header = VnetHeader {
        segmentation: Some((Segmentation::Udp, size)),
        header_len: 0,
        checksum: Some((start as u16, 6)),
    };
    (header, frame)
}

fn ip(shape: &Tcp, protocol: u8, transport: Vec<u8>, checksum_at: usize) -> Vec<u8> {
    let mut packet = vec![];
    if shape.v6 {
        packet.extend([0x60 | shape.class >> 4, shape.class << 4, 0, 9]);
        packet.extend((transport.len() as u16).to_be_bytes());
        packet.extend([protocol, 64]);
        packet.extend([0xfd; 16]);
        packet.extend([0xfc; 16]);
    } else {
        packet.extend([0x45, shape.class]);
        packet.extend(((20 + transport.len()) as u16).to_be_bytes());
        packet.extend(shape.id.to_be_bytes());
        packet.extend([if shape.atomic { 0x40 } else { 0 }, 0, 64, protocol, 0, 0]);
        packet.extend([10, 99, 0, 2, 10, 20, 0, 10]);
        let checksum = !ones_sum(&packet);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    let start = packet.len();
    packet.extend(transport);
    let sum = ones_sum(&packet[start..]) as u32 + u32::from(pseudo_sum(&packet));
    let checksum = !((sum & 0xffff) + (sum >> 16)) as u16;
    let at = start + checksum_at;
    packet[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    packet
}

/// Both checksums are right, and the lengths are the packet's.
pub fn assert_valid(packet: &[u8]) {
    let start = if packet[0] >> 4 == 4 {
        assert_eq!(
            usize::from(u16::from_be_bytes([packet[2], packet[3]])),
            packet.len()
        );
        assert_eq!(ones_sum(&packet[..20]), 0xffff);
        20
    } else {
        assert_eq!(
            usize::from(u16::from_be_bytes([packet[4], packet[5]])),
            packet.len() - 40
        );
        40
    };
    if protocol(packet) == 17 {
        assert_eq!(
            usize::from(u16::from_be_bytes([packet[start + 4], packet[start + 5]])),
            packet.len() - start
        );
    }
    let sum = u32::from(ones_sum(&packet[start..])) + u32::from(pseudo_sum(packet));
    assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
}

pub fn flow_of(packet: &[u8]) -> u16 {
    let start = if packet[0] >> 4 == 4 { 20 } else { 40 };
    u16::from_be_bytes([packet[start + 2], packet[start + 3]])
}

pub fn pseudo_sum(packet: &[u8]) -> u16 {
    let (addresses, start) = if packet[0] >> 4 == 4 {
        (12..20, 20)
    } else {
        (8..40, 40)
    };
    let mut header = packet[addresses].to_vec();
    header.extend([0, protocol(packet)]);
    header.extend(((packet.len() - start) as u16).to_be_bytes());
    ones_sum(&header)
}

fn protocol(packet: &[u8]) -> u8 {
    if packet[0] >> 4 == 4 {
        packet[9]
    } else {
        packet[6]
    }
}

fn ones_sum(bytes: &[u8]) -> u16 {
    let mut total = 0u32;
    for pair in bytes.chunks(2) {
        total += u32::from(pair[0]) << 8 | pair.get(1).map_or(0, |low| u32::from(*low));
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}
