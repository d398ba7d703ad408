//! The ESP packet (RFC 4303 section 2).
//!
//! ```text
//!  0      4          8      8+iv                                              len-icv    len
//!  ├ SPI ─┼ seq low ─┼─ IV ──┼ inner IP ─ 0… ─ 1,2,3… ─ pad len ─ next header ┼── ICV ──┤
//!  └── authenticated, with ──┘└──── encrypted ── traffic flow padding: 0… ────┘
//!      the high half of seq
//! ```
//!
//! The lengths of IV, block and ICV are the suite's.

use std::fmt;

use crate::contract::{FIRST_SPI, Shape, Suite};

pub(crate) const SEQUENCE: usize = 4;
pub(crate) const IV: usize = 8;
/// No suite adds more to an inner packet: CBC with its IV, 15 bytes of padding, and a 16-byte ICV.
pub const MAX_OVERHEAD: usize = IV + 16 + 15 + TRAILER_LEN + 16;
/// Pad length and next header.
pub(crate) const TRAILER_LEN: usize = 2;

pub(crate) const NEXT_HEADER_IPV4: u8 = 4;
pub(crate) const NEXT_HEADER_IPV6: u8 = 41;
/// RFC 4303 section 2.6: a dummy packet.
pub(crate) const NEXT_HEADER_NONE: u8 = 59;

const IPV4_HEADER_LEN: usize = 20;
const IPV6_HEADER_LEN: usize = 40;

/// A Security Parameters Index that names an SA.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spi(u32);

/// A value that names no SA (RFC 4303 section 2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReservedSpi(pub u32);

impl Spi {
    pub fn new(value: u32) -> Result<Self, ReservedSpi> {
        if value >= FIRST_SPI {
            Ok(Self(value))
        } else {
            Err(ReservedSpi(value))
        }
    }

    pub fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u32> for Spi {
    type Error = ReservedSpi;

    fn try_from(value: u32) -> Result<Self, ReservedSpi> {
        Self::new(value)
    }
}

impl fmt::Display for ReservedSpi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "SPI {} is reserved: an SA needs one above 255 (RFC 4303 section 2.1)",
            self.0
        )
    }
}

impl std::error::Error for ReservedSpi {}

impl Shape {
    /// Bytes before the encrypted part.
    pub(crate) const fn header(&self) -> usize {
        IV + self.iv
    }

    /// Could this be an ESP packet at all: a whole header, whole blocks with a trailer in them, an ICV.
    pub(crate) fn plausible_len(&self, len: usize) -> bool {
        let around = self.header() + self.icv;
        len >= around + self.block && (len - around) & (self.block - 1) == 0
    }
}

impl Suite {
    /// Length of the ESP packet around an inner packet of `inner_len` bytes, without traffic flow padding.
    pub const fn sealed_len(self, inner_len: usize) -> usize {
        sealed_len(&self.shape(), inner_len)
    }

    /// The offset of the encrypted part in an ESP packet, and with it of the inner packet.
    pub const fn inner_at(self) -> usize {
        self.shape().header()
    }
}

pub(crate) const fn sealed_len(shape: &Shape, payload_len: usize) -> usize {
    shape.header() + payload_len + pad_len(shape, payload_len) + TRAILER_LEN + shape.icv
}

/// A block is a power of two, so no division is needed.
const fn pad_len(shape: &Shape, payload_len: usize) -> usize {
    (payload_len + TRAILER_LEN).wrapping_neg() & (shape.block - 1)
}

/// The SPI of an ESP packet, before anything is known of it.
pub fn packet_spi(packet: &[u8]) -> Option<u32> {
    packet.first_chunk().map(|spi| u32::from_be_bytes(*spi))
}

pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes
        .get(at..)?
        .first_chunk()
        .map(|value| u32::from_be_bytes(*value))
}

/// Reads an IP packet's own header: the next header value that announces it, and its total length. Bytes behind that
/// length are link or TFC padding (RFC 4303 section 2.7).
pub(crate) fn inner_packet(bytes: &[u8]) -> Option<(u8, usize)> {
    let be16 = |at: usize| {
        Some(usize::from(u16::from_be_bytes([
            *bytes.get(at)?,
            *bytes.get(at + 1)?,
        ])))
    };
    let first = *bytes.first()?;
    let (next_header, header_len, total_len) = match first >> 4 {
        4 => (NEXT_HEADER_IPV4, usize::from(first & 0x0f) * 4, be16(2)?),
        6 => (
            NEXT_HEADER_IPV6,
            IPV6_HEADER_LEN,
            IPV6_HEADER_LEN + be16(4)?,
        ),
        _ => return None,
    };
    let sound =
        header_len >= IPV4_HEADER_LEN && header_len <= total_len && total_len <= bytes.len();
    sound.then_some((next_header, total_len))
}

/// After the payload: zeros up to `pad_to` bytes, then 1,2,3…, the pad length and the next header (RFC 4303 sections
/// 2.4 and 2.7). `plain` is as long as `sealed_len` says.
pub(crate) fn write_trailer(plain: &mut [u8], payload_len: usize, pad_to: usize, next_header: u8) {
    let Some((_, rest)) = plain.split_at_mut_checked(payload_len) else {
        return;
    };
    let zeros = pad_to.saturating_sub(payload_len).min(rest.len());
    let (zeros, trailer) = rest.split_at_mut(zeros);
    zeros.fill(0);
    let pad = trailer.len().saturating_sub(TRAILER_LEN);
    // Less than a block, so that no number wraps around.
    for (at, byte) in trailer.iter_mut().enumerate() {
        *byte = at as u8 + 1;
    }
    if let Some([length, next]) = trailer.last_chunk_mut() {
        *length = pad as u8;
        *next = next_header;
    }
}

/// Splits a decrypted payload into what it carries and its next header; `None` if the padding is not 1,2,3….
pub(crate) fn split_trailer(plain: &[u8]) -> Option<(&[u8], u8)> {
    let (rest, [pad_len, next_header]) = plain.split_last_chunk()?;
    let (inner, padding) = rest.split_at_checked(rest.len().checked_sub(usize::from(*pad_len))?)?;
    (1..=u8::MAX)
        .zip(padding)
        .all(|(value, byte)| value == *byte)
        .then_some((inner, *next_header))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::contract::SUITES;

    #[test]
    fn padding_fills_the_block_and_no_more() {
        for suite in SUITES {
            let shape = suite.shape();
            for inner in 0..1600 {
                let encrypted = inner + pad_len(&shape, inner) + TRAILER_LEN;
                assert_eq!(encrypted % shape.block, 0);
                assert!(pad_len(&shape, inner) < shape.block);
                assert!(shape.plausible_len(suite.sealed_len(inner)));
            }
        }
        // RFC 4301 section 8 with GCM-16 on a 1500-byte link: 1446 inner bytes fit, 1447 do not.
        let sealed_len = |inner| Suite::AesGcm256.sealed_len(inner);
        assert_eq!(20 + sealed_len(1446), 1500);
        assert!(20 + sealed_len(1447) > 1500);
        assert_eq!(28 + sealed_len(1438), 1500);
    }

    #[test]
    fn the_longest_padding_is_accepted_and_a_wrong_byte_is_not() {
        let mut plain: Vec<u8> = (1..=255).collect();
        plain.extend([255, 4]);
        assert_eq!(split_trailer(&plain), Some((&[][..], 4)));
        plain[254] = 0;
        assert_eq!(split_trailer(&plain), None);
        assert_eq!(split_trailer(&[1, 2, 3, 4]), None);
        assert_eq!(split_trailer(&[4]), None);
    }

    #[test]
    fn reserved_spis_are_refused() {
        assert_eq!(Spi::new(0), Err(ReservedSpi(0)));
        assert_eq!(Spi::new(255), Err(ReservedSpi(255)));
        assert_eq!(Spi::new(256).map(Spi::get), Ok(256));
    }
}
