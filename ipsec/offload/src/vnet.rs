//! The header before each packet of a TUN device or packet socket that has offloads (virtio 1.2 section 5.1.6).
//!
//! ```text
//!  0       1          2         4          6            8             10
//!  ├ flags ┼ gso type ┼ hdr len ┼ gso size ┼ csum start ┼ csum offset ┤     in the machine's byte order
//! ```

pub const VNET_HEADER_LEN: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCP4: u8 = 1;
const GSO_TCP6: u8 = 4;
const GSO_UDP: u8 = 5;
/// The super-frame has CWR set, for its first segment alone.
const GSO_ECN: u8 = 0x80;

/// What a super-frame is to be cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Segmentation {
    Tcp4,
    Tcp6,
    Udp,
}

/// How far a packet is from one that may go out. The default: it is one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VnetHeader {
    /// Of a super-frame, with the payload bytes of each segment.
    pub segmentation: Option<(Segmentation, u16)>,
    /// Length of all headers. Advice: a reader finds it from the packet itself.
    pub header_len: u16,
    /// Where the checksummed part begins, and where in it the checksum stands, which holds the pseudo-header's sum.
    pub checksum: Option<(u16, u16)>,
}

impl VnetHeader {
    /// `None` for a segmentation that is not known.
    pub fn parse(bytes: &[u8; VNET_HEADER_LEN]) -> Option<Self> {
        let [flags, gso, a, b, c, d, e, f, g, h] = *bytes;
        let segmentation = match gso & !GSO_ECN {
            GSO_NONE => None,
            GSO_TCP4 => Some(Segmentation::Tcp4),
            GSO_TCP6 => Some(Segmentation::Tcp6),
            GSO_UDP => Some(Segmentation::Udp),
            _ => return None,
        };
        let size = u16::from_ne_bytes([c, d]);
        let checksum = (u16::from_ne_bytes([e, f]), u16::from_ne_bytes([g, h]));
        Some(Self {
            segmentation: segmentation.map(|kind| (kind, size)),
            header_len: u16::from_ne_bytes([a, b]),
            checksum: (flags & NEEDS_CHECKSUM != 0).then_some(checksum),
        })
    }

    pub fn emit(&self) -> [u8; VNET_HEADER_LEN] {
        let flags = self.checksum.map_or(0, |_| NEEDS_CHECKSUM);
        let (gso, size) = match self.segmentation {
            None => (GSO_NONE, 0),
            Some((Segmentation::Tcp4, size)) => (GSO_TCP4, size),
            Some((Segmentation::Tcp6, size)) => (GSO_TCP6, size),
            Some((Segmentation::Udp, size)) => (GSO_UDP, size),
        };
        let (start, offset) = self.checksum.unwrap_or_default();
        let [[a, b], [c, d], [e, f], [g, h]] =
            [self.header_len, size, start, offset].map(u16::to_ne_bytes);
        [flags, gso, a, b, c, d, e, f, g, h]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_parsed_is_emitted_and_parsed_again(bytes in any::<[u8; VNET_HEADER_LEN]>()) {
            if let Some(header) = VnetHeader::parse(&bytes) {
                prop_assert_eq!(VnetHeader::parse(&header.emit()), Some(header));
            }
        }
    }

    #[test]
    fn a_finished_packet_is_all_zeros() {
        assert_eq!(VnetHeader::default().emit(), [0; VNET_HEADER_LEN]);
        assert_eq!(
            VnetHeader::parse(&[0; VNET_HEADER_LEN]),
            Some(VnetHeader::default())
        );
    }

    #[test]
    fn fragments_of_udp_were_never_agreed_on() {
        assert_eq!(VnetHeader::parse(&[0, 3, 0, 0, 0, 0, 0, 0, 0, 0]), None);
    }
}
