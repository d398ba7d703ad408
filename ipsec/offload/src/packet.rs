//! Where things stand in IPv4 (RFC 791), IPv6 (RFC 8200), TCP (RFC 9293) and UDP (RFC 768) headers.

use crate::checksum::{add, sum};

pub(crate) const IPV4_HEADER_LEN: usize = 20;
pub(crate) const IPV6_HEADER_LEN: usize = 40;
pub(crate) const TCP_HEADER_LEN: usize = 20;
pub(crate) const UDP_HEADER_LEN: usize = 8;

pub(crate) const TCP: u8 = 6;

pub(crate) mod ipv4 {
    use std::ops::Range;

    pub(crate) const TOTAL_LEN: usize = 2;
    pub(crate) const ID: usize = 4;
    pub(crate) const FRAGMENT: usize = 6;
    pub(crate) const PROTOCOL: usize = 9;
    pub(crate) const CHECKSUM: usize = 10;
    pub(crate) const ADDRESSES: Range<usize> = 12..20;
    pub(crate) const DONT_FRAGMENT: u16 = 0x4000;
}

pub(crate) mod ipv6 {
    use std::ops::Range;

    pub(crate) const PAYLOAD_LEN: usize = 4;
    pub(crate) const NEXT_HEADER: usize = 6;
    pub(crate) const ADDRESSES: Range<usize> = 8..40;
}

pub(crate) mod tcp {
    pub(crate) const SEQUENCE: usize = 4;
    pub(crate) const OFFSET: usize = 12;
    pub(crate) const FLAGS: usize = 13;
    pub(crate) const CHECKSUM: usize = 16;
    pub(crate) const FIN: u8 = 0x01;
    pub(crate) const PSH: u8 = 0x08;
    pub(crate) const ACK: u8 = 0x10;
    pub(crate) const ECE: u8 = 0x40;
    pub(crate) const CWR: u8 = 0x80;
}

pub(crate) mod udp {
    pub(crate) const LEN: usize = 4;
    pub(crate) const CHECKSUM: usize = 6;
}

pub(crate) fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|value| u16::from_be_bytes(*value))
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|value| u32::from_be_bytes(*value))
}

/// Does nothing where the packet ends before.
pub(crate) fn put16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(to) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *to = value.to_be_bytes();
    }
}

pub(crate) fn put32(bytes: &mut [u8], at: usize, value: u32) {
    if let Some(to) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *to = value.to_be_bytes();
    }
}

/// Length of a TCP header by its own word; less than 20 if it is wrong.
pub(crate) fn tcp_header_len(tcp: &[u8]) -> Option<usize> {
    Some(usize::from(*tcp.get(tcp::OFFSET)? >> 4) * 4)
}

/// Sum of the pseudo-header without its length (RFC 9293 section 3.1, RFC 8200 section 8.1).
pub(crate) fn pseudo_sum(addresses: &[u8], protocol: u8) -> u16 {
    add(&[sum(addresses), u16::from(protocol)])
}

/// Writes the header checksum of an IPv4 header without options.
pub(crate) fn write_ipv4_checksum(packet: &mut [u8], header_len: usize) {
    put16(packet, ipv4::CHECKSUM, 0);
    let checksum = !packet.get(..header_len).map_or(0, sum);
    put16(packet, ipv4::CHECKSUM, checksum);
}
