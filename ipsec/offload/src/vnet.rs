//! The header before each frame of a TUN device or packet socket that has offloads (`struct virtio_net_hdr`; virtio 1.2, section 5.1.6).
//!
//! ```text
//!  0       1          2         4          6            8             10
//!  ├ flags ┼ gso type ┼ hdr len ┼ gso size ┼ csum start ┼ csum offset ┤     in the machine's byte order
//! ```

pub const VNET_LEN: usize = 10;

/// The work that is left before a packet may go out. The default: none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vnet {
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
    /// The checksum at `csum_start + csum_offset` holds the sum of the pseudo-header alone.
    pub const NEEDS_CSUM: u8 = 1;
    /// The receiver found all checksums right.
    pub const DATA_VALID: u8 = 2;

    pub const GSO_NONE: u8 = 0;
    pub const GSO_TCPV4: u8 = 1;
    pub const GSO_TCPV6: u8 = 4;
    pub const GSO_UDP_L4: u8 = 5;
    /// Beside a TCP type: CWR is for the first segment alone.
    pub const GSO_ECN: u8 = 0x80;

    pub fn parse(bytes: [u8; VNET_LEN]) -> Self {
        let [flags, gso_type, a, b, c, d, e, f, g, h] = bytes;
        let [hdr_len, gso_size, csum_start, csum_offset] =
            [[a, b], [c, d], [e, f], [g, h]].map(u16::from_ne_bytes);
        Self {
            flags,
            gso_type,
            hdr_len,
            gso_size,
            csum_start,
            csum_offset,
        }
    }

    pub fn emit(&self) -> [u8; VNET_LEN] {
        let words = [
            self.hdr_len,
            self.gso_size,
            self.csum_start,
            self.csum_offset,
        ];
        let [[a, b], [c, d], [e, f], [g, h]] = words.map(u16::to_ne_bytes);
        [self.flags, self.gso_type, a, b, c, d, e, f, g, h]
    }

    /// The frame stands for several packets, or says so.
    pub fn is_super(&self) -> bool {
        self.gso_type != Self::GSO_NONE
    }
}
