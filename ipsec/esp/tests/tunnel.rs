//! Two ends of a tunnel, and what happens to packets between them.
#![allow(clippy::unwrap_used)]

use esp::{InboundSa, KeyMaterial, Limits, OpenError, OutboundSa, SealError, Spi, sealed_len};
use proptest::prelude::*;

const NONE: Limits = Limits {
    packets: 0,
    bytes: 0,
};

fn ends(soft: Limits, hard: Limits) -> (OutboundSa, InboundSa) {
    let key = KeyMaterial::from_bytes(&[9; 36]).unwrap();
    let spi = Spi::new(0xc001).unwrap();
    let outbound = OutboundSa::new(spi, &key, soft, hard).unwrap();
    (
        outbound,
        InboundSa::new(spi, &key, 1024, soft, hard).unwrap(),
    )
}

fn ipv4(len: u16) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..len).map(|at| at as u8).collect();
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet
}

fn sealed(sa: &mut OutboundSa, inner: &[u8]) -> Vec<u8> {
    let mut out = vec![0; sealed_len(inner.len())];
    let len = sa.seal(inner, &mut out).unwrap().len;
    out[..len].to_vec()
}

fn opened(sa: &mut InboundSa, packet: &[u8]) -> Result<Vec<u8>, OpenError> {
    let mut packet = packet.to_vec();
    sa.open(&mut packet)
        .map(|opened| packet[opened.range].to_vec())
}

proptest! {
    #[test]
    fn every_length_comes_through(len in 20u16..=9000, padding in 0usize..100) {
        let (mut out, mut inbound) = ends(NONE, NONE);
        let mut inner = ipv4(len);
        inner.resize(inner.len() + padding, 0xee);
        let packet = sealed(&mut out, &inner);
        prop_assert_eq!(packet.len(), sealed_len(len.into()), "link padding is not carried");
        prop_assert_eq!(opened(&mut inbound, &packet), Ok(ipv4(len)));
    }

    #[test]
    fn any_bytes_are_an_error_and_never_a_panic(mut packet in prop::collection::vec(any::<u8>(), 0..200), known_spi: bool) {
        let (mut out, mut inbound) = ends(NONE, NONE);
        let _ = out.seal(&packet.clone(), &mut [0; 300]);
        if known_spi && packet.len() >= 4 {
            packet[..4].copy_from_slice(&0xc001u32.to_be_bytes());
        }
        prop_assert!(inbound.open(&mut packet).is_err());
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_is_refused() {
    let (mut out, mut inbound) = ends(NONE, NONE);
    let packet = sealed(&mut out, &ipv4(61));
    for len in 0..packet.len() {
        assert!(
            opened(&mut inbound, &packet[..len]).is_err(),
            "cut to {len}"
        );
    }
    for bit in 0..packet.len() * 8 {
        let mut damaged = packet.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(opened(&mut inbound, &damaged).is_err(), "bit {bit}");
    }
    assert_eq!(
        opened(&mut inbound, &packet),
        Ok(ipv4(61)),
        "none of them moved the window"
    );
}

#[test]
fn the_high_half_turns_without_a_packet_lost() {
    let (mut out, mut inbound) = ends(NONE, NONE);
    out.resume_after((1 << 32) - 3);
    inbound.resume_after((1 << 32) - 3);
    let packets: Vec<_> = (0..6).map(|_| sealed(&mut out, &ipv4(40))).collect();
    for at in [0, 3, 1, 2, 5, 4] {
        assert_eq!(opened(&mut inbound, &packets[at]), Ok(ipv4(40)));
    }
    for packet in &packets {
        assert_eq!(opened(&mut inbound, packet), Err(OpenError::Replay));
    }
}

#[test]
fn the_sequence_ends_and_never_wraps() {
    let (mut out, _) = ends(NONE, NONE);
    out.resume_after(u64::MAX - 1);
    sealed(&mut out, &ipv4(40));
    assert_eq!(
        out.seal(&ipv4(40), &mut [0; 100]),
        Err(SealError::HardLimit)
    );
    out.resume_after(5);
    assert_eq!(
        out.seal(&ipv4(40), &mut [0; 100]),
        Err(SealError::HardLimit),
        "nor does it go back"
    );
}

#[test]
fn both_ends_enforce_limits() {
    let hard = Limits {
        packets: 0,
        bytes: 100,
    };
    let (mut out, _) = ends(
        Limits {
            packets: 1,
            bytes: 0,
        },
        hard,
    );
    assert!(!out.seal(&ipv4(40), &mut [0; 100]).unwrap().soft_limit);
    assert!(out.seal(&ipv4(40), &mut [0; 100]).unwrap().soft_limit);
    assert_eq!(
        out.seal(&ipv4(40), &mut [0; 100]),
        Err(SealError::HardLimit)
    );

    let ((mut out, _), (_, mut inbound)) = (ends(NONE, NONE), ends(NONE, hard));
    let results: Vec<_> = (0..3)
        .map(|_| opened(&mut inbound, &sealed(&mut out, &ipv4(40))).err())
        .collect();
    assert_eq!(results, [None, None, Some(OpenError::HardLimit)]);
}

#[test]
fn a_failed_seal_spends_no_sequence_number() {
    let (mut out, mut inbound) = ends(NONE, NONE);
    assert_eq!(
        out.seal(b"no packet", &mut [0; 100]),
        Err(SealError::Malformed)
    );
    assert_eq!(
        out.seal(&ipv4(40), &mut [0; 10]),
        Err(SealError::BufferTooSmall)
    );
    let packet = sealed(&mut out, &ipv4(40));
    assert_eq!(packet[4..8], [0, 0, 0, 1]);
    assert!(opened(&mut inbound, &packet).is_ok());
}

#[test]
fn nothing_shows_a_key() {
    let key = KeyMaterial::from_bytes(&[0x42; 36]).unwrap();
    assert_eq!(format!("{key:?}"), "KeyMaterial(redacted)");
    assert_eq!(
        format!("{:?}", esp::Kek::from_bytes(&[0x42; 32])),
        "Kek(redacted)"
    );
}
