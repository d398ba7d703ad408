//! Kinds of datagrams on the port of UDP encapsulation (RFC 3948 section 2).

use crate::wire::{Spi, packet_spi};

/// RFC 3948 section 2.3: a datagram of this one byte.
pub const KEEPALIVE: u8 = 0xff;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Datagram {
    /// Section 2.3: to be ignored, it keeps a NAT's mapping.
    Keepalive,
    /// Section 2.2: behind the non-ESP marker stands IKE.
    NonEsp,
    /// Perhaps an ESP packet of this SA.
    Esp(Spi),
    /// Shorter than an SPI, or with an SPI that names no SA.
    Malformed,
}

pub fn demultiplex(datagram: &[u8]) -> Datagram {
    match packet_spi(datagram) {
        None if datagram == [KEEPALIVE] => Datagram::Keepalive,
        None => Datagram::Malformed,
        Some(0) => Datagram::NonEsp,
        Some(spi) => Spi::new(spi).map_or(Datagram::Malformed, Datagram::Esp),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn each_kind_is_told_by_its_first_bytes() {
        for (datagram, kind) in [
            (&[0xff][..], Datagram::Keepalive),
            (&[0xff, 0xff], Datagram::Malformed),
            (&[], Datagram::Malformed),
            (&[0], Datagram::Malformed),
            (&[0, 0, 0, 0], Datagram::NonEsp),
            (&[0, 0, 0, 0, 1, 2], Datagram::NonEsp),
            (&[0, 0, 0, 255], Datagram::Malformed),
            (&[0, 0, 1, 0], Datagram::Esp(Spi::new(256).unwrap())),
            (&[0xff; 4], Datagram::Esp(Spi::new(u32::MAX).unwrap())),
        ] {
            assert_eq!(demultiplex(datagram), kind, "{datagram:x?}");
        }
    }
}
