//! The header that the kernel puts before a frame on a packet socket with PACKET_VNET_HDR (`struct virtio_net_hdr`; virtio 1.2,
//! section 5.1.6), in the byte order of this machine.

/// Bytes of the header.
pub(super) const LEN: usize = 10;

/// The checksum at `csum_start + csum_offset` holds the sum of the pseudo-header alone.
pub(super) const NEEDS_CSUM: u8 = 1;

/// All checksums have been found right.
pub(super) const DATA_VALID: u8 = 2;

pub(super) const GSO_NONE: u8 = 0;
pub(super) const GSO_TCPV4: u8 = 1;
pub(super) const GSO_TCPV6: u8 = 4;
pub(super) const GSO_UDP_L4: u8 = 5;
/// Beside a TCP type: CWR is for the first segment alone.
pub(super) const GSO_ECN: u8 = 0x80;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Vnet {
    pub flags: u8,
    pub gso_type: u8,
    /// A hint: bytes of all headers, or more.
    pub hdr_len: u16,
    /// Payload bytes of each segment but the last.
    pub gso_size: u16,
    pub csum_start: u16,
    pub csum_offset: u16,
}

impl Vnet {
    pub fn parse(bytes: [u8; LEN]) -> Self {
        let [flags, gso_type, a, b, c, d, e, f, g, h] = bytes;
        Self {
            flags,
            gso_type,
            hdr_len: u16::from_ne_bytes([a, b]),
            gso_size: u16::from_ne_bytes([c, d]),
            csum_start: u16::from_ne_bytes([e, f]),
            csum_offset: u16::from_ne_bytes([g, h]),
        }
    }

    pub fn emit(&self) -> [u8; LEN] {
        let [a, b] = self.hdr_len.to_ne_bytes();
        let [c, d] = self.gso_size.to_ne_bytes();
        let [e, f] = self.csum_start.to_ne_bytes();
        let [g, h] = self.csum_offset.to_ne_bytes();
        [self.flags, self.gso_type, a, b, c, d, e, f, g, h]
    }

    /// The frame stands for several packets, or says so.
    pub fn is_super(&self) -> bool {
        self.gso_type != GSO_NONE
    }
}
