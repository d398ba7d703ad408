//! Packets between two ends of a tunnel, for every suite.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use esp::{
    AllowedSuites, InboundSa, KeyMaterial, Limits, OpenError, OpenJob, OutboundSa, SUITES,
    SealError, SealJob, Sealed, Spi, Suite,
};
use proptest::prelude::*;

const NOW: Duration = Duration::ZERO;

#[derive(Clone, Copy, Debug)]
struct Kind {
    suite: Suite,
    esn: bool,
}

const MODERN: Kind = Kind {
    suite: Suite::AesGcm256,
    esn: true,
};

fn kinds() -> impl Iterator<Item = Kind> {
    let both = |suite| [true, false].map(|esn| Kind { suite, esn });
    SUITES.into_iter().flat_map(both)
}

fn any_kind() -> impl Strategy<Value = Kind> {
    prop::sample::select(kinds().collect::<Vec<_>>())
}

fn limited_ends(kind: Kind, soft: Limits, hard: Limits) -> (OutboundSa, InboundSa) {
    let Kind { suite, esn } = kind;
    let admitted = AllowedSuites::MODERN.with(suite).admit(suite).unwrap();
    let key = KeyMaterial::new(admitted, &vec![9; suite.key_material_len()]).unwrap();
    let spi = Spi::new(0xc001).unwrap();
    (
        OutboundSa::new(spi, &key, esn, soft, hard).unwrap(),
        InboundSa::new(spi, &key, esn, 1024, soft, hard).unwrap(),
    )
}

fn ends(kind: Kind) -> (OutboundSa, InboundSa) {
    limited_ends(kind, Limits::NONE, Limits::NONE)
}

fn ipv4(len: u16) -> Vec<u8> {
    let mut packet: Vec<u8> = (0..len).map(|at| at as u8).collect();
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&len.to_be_bytes());
    packet
}

fn try_seal(sa: &mut OutboundSa, inner: &[u8]) -> Result<Sealed, SealError> {
    sa.seal(inner, &mut [0; 200], NOW)
}

fn sealed(sa: &mut OutboundSa, inner: &[u8]) -> Vec<u8> {
    let mut out = vec![0xaa; sa.sealed_len(inner.len())];
    let len = sa.seal(inner, &mut out, NOW).unwrap().len;
    out[..len].to_vec()
}

fn opened(sa: &mut InboundSa, packet: &[u8]) -> Result<Vec<u8>, OpenError> {
    let mut packet = packet.to_vec();
    sa.open(&mut packet, NOW)
        .map(|opened| packet[opened.range].to_vec())
}

proptest! {
    #[test]
    fn a_packet_sealed_where_it_stands_comes_through(kind in any_kind(), len in 20u16..=9000, padding in 0usize..100) {
        let (mut out, mut inbound) = ends(kind);
        let inner = ipv4(len);
        let written = inner.len() + padding;
        let mut room = vec![0xee; out.sealed_len(written)];
        room[out.inner_at()..][..inner.len()].copy_from_slice(&inner);
        let sealed = out.seal_in_place(written, &mut room, NOW).unwrap();
        prop_assert_eq!(opened(&mut inbound, &room[..sealed.len]), Ok(inner));
        let short = out.seal_in_place(usize::from(len) - 1, &mut ipv4(len + 100), NOW);
        prop_assert_eq!(short, Err(SealError::Malformed));
        prop_assert_eq!(out.seal_in_place(usize::MAX, &mut [], NOW), Err(SealError::BufferTooSmall));
    }

    #[test]
    fn every_length_comes_through(kind in any_kind(), len in 20u16..=9000, padding in 0usize..100) {
        let (mut out, mut inbound) = ends(kind);
        let mut inner = ipv4(len);
        inner.resize(inner.len() + padding, 0xee);
        let packet = sealed(&mut out, &inner);
        prop_assert_eq!(packet.len(), kind.suite.sealed_len(len.into()), "link padding is not carried");
        prop_assert_eq!(opened(&mut inbound, &packet), Ok(ipv4(len)));
    }

    #[test]
    fn any_bytes_are_an_error_and_never_a_panic(
        kind in any_kind(), mut packet in prop::collection::vec(any::<u8>(), 0..200), known_spi: bool
    ) {
        let (mut out, mut inbound) = ends(kind);
        let _ = out.seal(&packet.clone(), &mut [0; 300], NOW);
        if known_spi && packet.len() >= 4 {
            packet[..4].copy_from_slice(&0xc001u32.to_be_bytes());
        }
        prop_assert!(inbound.open(&mut packet, NOW).is_err());
    }

    #[test]
    fn in_any_order_each_packet_opens_once(
        kind in any_kind(), order in prop::collection::vec(0usize..40, 1..120)
    ) {
        let (mut out, mut inbound) = ends(kind);
        let packets: Vec<_> = (0..40).map(|_| sealed(&mut out, &ipv4(40))).collect();
        let mut seen = [false; 40];
        for at in order {
            let fresh = !std::mem::replace(&mut seen[at], true);
            let expected = if fresh { Ok(ipv4(40)) } else { Err(OpenError::Replay) };
            prop_assert_eq!(opened(&mut inbound, &packets[at]), expected);
        }
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_is_refused() {
    for kind in kinds() {
        let (mut out, mut inbound) = ends(kind);
        let packet = sealed(&mut out, &ipv4(61));
        for len in 0..packet.len() {
            let cut = opened(&mut inbound, &packet[..len]);
            assert!(cut.is_err(), "{kind:?} cut to {len}");
        }
        for bit in 0..packet.len() * 8 {
            let mut damaged = packet.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let result = opened(&mut inbound, &damaged);
            assert!(result.is_err(), "{kind:?} bit {bit}");
        }
        let moved = "none of them moved the window";
        assert_eq!(opened(&mut inbound, &packet), Ok(ipv4(61)), "{moved}");
    }
}

#[test]
fn the_high_half_turns_without_a_packet_lost() {
    for kind in kinds().filter(|kind| kind.esn) {
        let (mut out, mut inbound) = ends(kind);
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
}

#[test]
fn the_high_half_is_authenticated() {
    for kind in kinds().filter(|kind| kind.esn) {
        let (mut out, mut inbound) = ends(kind);
        out.resume_after(1 << 32);
        let packet = sealed(&mut out, &ipv4(40));
        assert_eq!(opened(&mut inbound, &packet), Err(OpenError::Icv));
    }
}

#[test]
fn the_sequence_ends_and_never_wraps() {
    for kind in kinds() {
        let (mut out, _) = ends(kind);
        let last = if kind.esn { u64::MAX } else { u32::MAX.into() };
        out.resume_after(last - 1);
        sealed(&mut out, &ipv4(40));
        assert_eq!(try_seal(&mut out, &ipv4(40)), Err(SealError::HardLimit));
        out.resume_after(5);
        let back = try_seal(&mut out, &ipv4(40));
        assert_eq!(back, Err(SealError::HardLimit), "nor does it go back");
    }
}

#[test]
fn both_ends_enforce_limits() {
    let packets = |packets| Limits {
        packets,
        ..Limits::NONE
    };
    let bytes = |bytes| Limits {
        bytes,
        ..Limits::NONE
    };
    let (mut out, _) = limited_ends(MODERN, packets(1), bytes(100));
    assert!(!try_seal(&mut out, &ipv4(40)).unwrap().soft_limit);
    assert!(try_seal(&mut out, &ipv4(40)).unwrap().soft_limit);
    assert_eq!(try_seal(&mut out, &ipv4(40)), Err(SealError::HardLimit));

    let (mut out, _) = ends(MODERN);
    let (_, mut inbound) = limited_ends(MODERN, Limits::NONE, bytes(100));
    let mut open_next = || opened(&mut inbound, &sealed(&mut out, &ipv4(40))).err();
    let results: Vec<_> = (0..3).map(|_| open_next()).collect();
    assert_eq!(results, [None, None, Some(OpenError::HardLimit)]);
}

#[test]
fn a_failed_seal_spends_no_sequence_number() {
    let (mut out, mut inbound) = ends(MODERN);
    assert_eq!(try_seal(&mut out, b"no packet"), Err(SealError::Malformed));
    let small = out.seal(&ipv4(40), &mut [0; 10], NOW);
    assert_eq!(small, Err(SealError::BufferTooSmall));
    let packet = sealed(&mut out, &ipv4(40));
    assert_eq!(packet[4..8], [0, 0, 0, 1]);
    assert!(opened(&mut inbound, &packet).is_ok());
}

#[test]
fn a_dummy_is_genuine_and_dropped() {
    for kind in kinds() {
        let (mut out, mut inbound) = ends(kind);
        let mut room = [0; 600];
        let len = out.seal_dummy(500, &mut room, NOW).unwrap().len;
        let dummy = &room[..len];
        assert_eq!(len, kind.suite.sealed_len(500));
        assert_eq!(opened(&mut inbound, dummy), Err(OpenError::Dummy));
        assert_eq!(opened(&mut inbound, dummy), Err(OpenError::Replay));
        let long = out.seal_dummy(5000, &mut [0; 6000], NOW);
        assert_eq!(long, Err(SealError::Malformed));
    }
}

#[test]
fn padded_packets_look_alike_and_open_as_they_were() {
    for kind in kinds() {
        let (mut out, mut inbound) = ends(kind);
        out.pad_to(1000);
        for len in [20, 500, 999, 1000] {
            let packet = sealed(&mut out, &ipv4(len));
            assert_eq!(packet.len(), kind.suite.sealed_len(1000));
            assert_eq!(opened(&mut inbound, &packet), Ok(ipv4(len)));
        }
        let longer = sealed(&mut out, &ipv4(1001));
        assert_eq!(opened(&mut inbound, &longer), Ok(ipv4(1001)));
    }
}

#[test]
fn ivs_of_cbc_do_not_repeat_and_do_not_count() {
    for suite in [Suite::AesCbcHmacSha1, Suite::AesCbcHmacSha256] {
        let (mut out, _) = ends(Kind { suite, esn: false });
        let mut ivs: Vec<_> = (0..500)
            .map(|_| sealed(&mut out, &ipv4(40))[8..24].to_vec())
            .collect();
        // A bit of a random IV is set in half of the packets; of a counter's upper bytes, in none or all.
        for bit in 0..128 {
            let set = ivs.iter().filter(|iv| iv[bit / 8] >> (bit % 8) & 1 == 1);
            assert!((100..400).contains(&set.count()), "bit {bit}");
        }
        ivs.sort();
        ivs.dedup();
        assert_eq!(ivs.len(), 500);
    }
}

#[test]
fn a_batch_is_many_packets_each_with_its_own_result() {
    for kind in kinds() {
        let (mut out, mut inbound) = ends(kind);
        let inners = [ipv4(40), b"no packet".to_vec(), ipv4(1400)];
        let mut rooms = [[0; 1500]; 3];
        let mut jobs: Vec<_> = inners
            .iter()
            .zip(&mut rooms)
            .map(|(inner, room)| SealJob::new(inner, room))
            .collect();
        out.seal_batch(&mut jobs, NOW);
        assert_eq!(jobs[1].result, Err(SealError::Malformed));
        let lens = [0, 2].map(|at| jobs[at].result.unwrap().len);

        let [first, _, second] = &mut rooms;
        let mut twice = first[..lens[0]].to_vec();
        let packets = [&mut first[..lens[0]], &mut twice, &mut second[..lens[1]]];
        let mut jobs = packets.map(OpenJob::new);
        inbound.open_batch(&mut jobs, NOW);
        let results = jobs.map(|job| job.result.map(|opened| job.packet[opened.range].to_vec()));
        assert_eq!(
            results,
            [Ok(ipv4(40)), Err(OpenError::Replay), Ok(ipv4(1400))]
        );
    }
}

#[test]
fn nothing_shows_a_key() {
    let admitted = AllowedSuites::MODERN.admit(Suite::AesGcm256).unwrap();
    let key = KeyMaterial::new(admitted, &[0x42; 36]).unwrap();
    assert_eq!(format!("{key:?}"), "KeyMaterial(redacted)");
    let kek = esp::Kek::from_bytes(&[0x42; 32]);
    assert_eq!(format!("{kek:?}"), "Kek(redacted)");
}
