//! The engine, as a P4 target uses it.
#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::time::Duration;

use esp::engine::{Engine, OpenOutcome, SaEntry, Verdict};
use esp::{
    AllowedSuites, ForgetError, Kek, KekRing, KeyMaterial, Limits, MAX_KEKS, MAX_OVERHEAD, SUITES,
    Suite, WrappedKey,
};

const KEK: [u8; 32] = [7; 32];
const SPI: u32 = 0x1000_0001;
const NOW: Duration = Duration::from_secs(1000);

fn ring(kek: &[u8; 32]) -> Arc<KekRing> {
    Arc::new(Kek::from_bytes(kek).into())
}

fn every_suite() -> AllowedSuites {
    SUITES.into_iter().collect()
}

fn wrapped_for(suite: Suite, fill: u8) -> WrappedKey {
    let bytes = vec![fill; suite.key_material_len()];
    let material = KeyMaterial::new(every_suite().admit(suite).unwrap(), &bytes).unwrap();
    Kek::from_bytes(&KEK).wrap(&material).unwrap()
}

fn wrapped(fill: u8) -> WrappedKey {
    wrapped_for(Suite::AesGcm256, fill)
}

fn entry(slot: u32, wrapped_key: &WrappedKey, spi: u32) -> SaEntry<'_> {
    SaEntry {
        slot,
        suite: Suite::AesGcm256 as u8,
        wrapped_key,
        spi,
        esn: true,
        soft: Limits::NONE,
        hard: Limits::NONE,
    }
}

fn inner() -> Vec<u8> {
    let mut packet = vec![0; 84];
    packet[0] = 0x45;
    packet[3] = 84;
    packet
}

struct Gateway(Engine);

impl Gateway {
    fn new(slots: u32) -> Self {
        Self(Engine::new(ring(&KEK), slots, every_suite()))
    }

    fn seal_as(&self, entry: &SaEntry) -> (Verdict, Vec<u8>) {
        let mut out = vec![0; 84 + MAX_OVERHEAD];
        let sealed = self.0.seal(entry, &inner(), &mut out, NOW);
        (sealed.verdict, out[..sealed.len].to_vec())
    }

    fn open_as(&self, entry: &SaEntry, packet: &[u8]) -> (OpenOutcome, Vec<u8>) {
        let mut packet = packet.to_vec();
        let opened = self.0.open(entry, 1024, &mut packet, NOW);
        let inner = packet[opened.range.clone()].to_vec();
        (opened, inner)
    }

    fn seal(&self, slot: u32, key: &WrappedKey, spi: u32) -> (Verdict, Vec<u8>) {
        self.seal_as(&entry(slot, key, spi))
    }

    fn open(&self, slot: u32, key: &WrappedKey, packet: &[u8]) -> (Verdict, Vec<u8>) {
        let (opened, inner) = self.open_as(&entry(slot, key, SPI), packet);
        (opened.verdict, inner)
    }
}

fn sequence(packet: &[u8]) -> u64 {
    u64::from_be_bytes(packet[8..16].try_into().unwrap())
}

#[test]
fn what_one_gateway_seals_another_opens_once() {
    let (a, b) = (Gateway::new(4), Gateway::new(4));
    let (verdict, packet) = a.seal(0, &wrapped(1), SPI);
    assert_eq!(verdict, Verdict::Ok);
    assert_eq!(b.open(3, &wrapped(1), &packet), (Verdict::Ok, inner()));
    assert_eq!(b.open(3, &wrapped(1), &packet).0, Verdict::Replay);
}

#[test]
fn a_key_never_starts_again() {
    let gateway = Gateway::new(4);
    let next = |slot, key, spi| sequence(&gateway.seal(slot, &wrapped(key), spi).1);
    assert_eq!(next(0, 1, SPI), 1);
    assert_eq!(next(0, 1, SPI), 2);
    assert_eq!(next(0, 2, SPI), 1);
    assert_eq!(next(0, 1, SPI), 3, "the slot got its former key back");
    assert_eq!(next(1, 1, SPI), 4, "the key moved to another slot");
    assert_eq!(next(0, 1, SPI), 5, "and back");
    assert_eq!(next(0, 1, SPI + 1), 6, "with another SPI");
    assert_eq!(next(0, 2, SPI), 2);
}

#[test]
fn a_key_never_starts_again_under_another_algorithm() {
    let gateway = Gateway::new(1);
    let key = wrapped(1);
    let algorithms = [
        (Suite::AesGcm256, true),
        (Suite::ChaCha20Poly1305, true),
        (Suite::AesGcm256, false),
        (Suite::AesGcm256, true),
    ];
    for (number, (suite, esn)) in (1..).zip(algorithms) {
        let sa = SaEntry {
            suite: suite as u8,
            esn,
            ..entry(0, &key, SPI)
        };
        let (verdict, packet) = gateway.seal_as(&sa);
        assert_eq!((verdict, sequence(&packet)), (Verdict::Ok, number));
    }
}

#[test]
fn a_replay_is_refused_after_the_slot_had_another_key() {
    let (sender, gateway) = (Gateway::new(1), Gateway::new(1));
    let packets: Vec<_> = (0..3).map(|_| sender.seal(0, &wrapped(1), SPI).1).collect();
    assert_eq!(gateway.open(0, &wrapped(1), &packets[1]).0, Verdict::Ok);
    assert_eq!(gateway.open(0, &wrapped(2), &packets[2]).0, Verdict::Icv);
    assert_eq!(gateway.open(0, &wrapped(1), &packets[1]).0, Verdict::Replay);
    assert_eq!(gateway.open(0, &wrapped(1), &packets[2]).0, Verdict::Ok);
}

#[test]
fn every_suite_passes_between_gateways_with_and_without_esn() {
    let (a, b) = (Gateway::new(1), Gateway::new(1));
    for suite in SUITES {
        for esn in [true, false] {
            let key = wrapped_for(suite, u8::from(esn));
            let sa = SaEntry {
                suite: suite as u8,
                esn,
                ..entry(0, &key, SPI)
            };
            let (verdict, packet) = a.seal_as(&sa);
            assert_eq!((verdict, packet.len()), (Verdict::Ok, suite.sealed_len(84)));
            let (opened, opened_inner) = b.open_as(&sa, &packet);
            assert_eq!((opened.verdict, opened_inner), (Verdict::Ok, inner()));
        }
    }
}

#[test]
fn only_an_authenticated_packet_is_newest() {
    let (a, b) = (Gateway::new(1), Gateway::new(1));
    let key = wrapped(1);
    let sa = entry(0, &key, SPI);
    let packets: Vec<_> = (0..3).map(|_| a.seal_as(&sa).1).collect();
    let newest = |packet: &[u8]| b.open_as(&sa, packet).0.newest;
    let mut forged = packets[2].clone();
    forged[20] ^= 1;
    assert!(newest(&packets[0]));
    assert!(!newest(&forged));
    assert!(newest(&packets[2]));
    assert!(!newest(&packets[2]), "a replay");
    assert!(!newest(&packets[1]), "late");
}

#[test]
fn limits_follow_the_table_entry() {
    let gateway = Gateway::new(1);
    let key = wrapped(1);
    let seal = |soft, hard| {
        let [soft, hard] = [soft, hard].map(|packets| Limits {
            packets,
            ..Limits::NONE
        });
        let sa = entry(0, &key, SPI);
        gateway.seal_as(&SaEntry { soft, hard, ..sa }).0
    };
    assert_eq!(seal(1, 3), Verdict::Ok);
    assert_eq!(seal(1, 3), Verdict::SoftLimit);
    assert_eq!(seal(1, 3), Verdict::Ok, "not told for every packet");
    assert_eq!(seal(1, 3), Verdict::HardLimit);
    assert_eq!(seal(0, 0), Verdict::Ok, "the entry was modified");
}

#[test]
fn what_cannot_be_an_sa_is_a_key_error() {
    let mut gateway = Gateway::new(2);
    let key = wrapped(1);
    let sa = entry(0, &key, SPI);
    let refused = (Verdict::Key, vec![]);
    for suite in [0, 2, 4, 128, 132, 255] {
        assert_eq!(
            gateway.seal_as(&SaEntry { suite, ..sa }),
            refused,
            "suite {suite}"
        );
    }
    assert_eq!(gateway.seal(2, &key, SPI), refused);
    assert_eq!(gateway.seal(0, &key, 255), refused);
    for at in [0, 23, 44] {
        let mut damaged = key;
        damaged[at] ^= 1;
        assert_eq!(gateway.seal(0, &damaged, SPI), refused, "byte {at}");
    }
    let Gateway(engine) = &mut gateway;
    let mut short = [0; 10];
    let sealed = engine.seal(&sa, &inner(), &mut short, NOW);
    assert_eq!(sealed.verdict, Verdict::Malformed);
    assert_eq!(gateway.seal_as(&sa).0, Verdict::Ok);
}

#[test]
fn a_legacy_suite_is_refused_unless_it_is_allowed() {
    for suite in SUITES {
        let key = wrapped_for(suite, 1);
        let suite_number = suite as u8;
        let sa = SaEntry {
            suite: suite_number,
            ..entry(0, &key, SPI)
        };
        let gateway = Gateway(Engine::new(ring(&KEK), 1, AllowedSuites::MODERN));
        let legacy = suite_number > 128;
        assert_eq!(gateway.seal_as(&sa).0 == Verdict::Key, legacy);
        let (opened, _) = gateway.open_as(&sa, &[0; 100]);
        assert_eq!(opened.verdict == Verdict::Key, legacy);
    }
}

fn wrapped_under(kek: &[u8; 32], fill: u8) -> WrappedKey {
    let suite = every_suite().admit(Suite::AesGcm256).unwrap();
    let material = KeyMaterial::new(suite, &[fill; 36]).unwrap();
    Kek::from_bytes(kek).wrap(&material).unwrap()
}

#[test]
fn a_key_wrapped_under_a_former_kek_opens_until_that_is_forgotten() {
    let keks = ring(&KEK);
    let gateway = Gateway(Engine::new(Arc::clone(&keks), 4, every_suite()));
    let [before, unused] = [1, 2].map(|fill| wrapped_under(&KEK, fill));
    let after = wrapped_under(&[8; 32], 3);
    assert_eq!(gateway.seal(0, &before, SPI).0, Verdict::Ok);
    assert_eq!(gateway.seal(2, &after, SPI).0, Verdict::Key);
    assert!(keks.renew(Kek::from_bytes(&[8; 32])));
    for (slot, key) in [(0, &before), (1, &unused), (2, &after)] {
        assert_eq!(gateway.seal(slot, key, SPI).0, Verdict::Ok, "slot {slot}");
    }
    keks.forget(&Kek::from_bytes(&KEK).fingerprint()).unwrap();
    assert_eq!(
        gateway.seal(3, &wrapped_under(&KEK, 4), SPI).0,
        Verdict::Key
    );
    // An SA that packets have used continues to work: its key is already unwrapped.
    assert_eq!(gateway.seal(0, &before, SPI).0, Verdict::Ok);
    assert_eq!(gateway.seal(2, &after, SPI).0, Verdict::Ok);
}

#[test]
fn a_ring_keeps_its_newest_kek_and_no_more_than_it_has_room_for() {
    let keks = KekRing::new(Kek::from_bytes(&[0; 32]));
    let named = |fill: u8| Kek::from_bytes(&[fill; 32]).fingerprint();
    for fill in 1..=MAX_KEKS as u8 {
        assert!(keks.renew(Kek::from_bytes(&[fill; 32])));
    }
    assert_eq!(keks.fingerprints(), [4, 3, 2, 1].map(named));
    assert!(!keks.renew(Kek::from_bytes(&[4; 32])));
    assert!(keks.renew(Kek::from_bytes(&[2; 32])));
    assert_eq!(keks.fingerprints(), [2, 4, 3, 1].map(named));
    assert_eq!(keks.forget(&named(2)), Err(ForgetError::Newest));
    assert_eq!(keks.forget(&named(0)), Err(ForgetError::Unknown));
    assert_eq!(keks.forget(&named(4)), Ok(()));
    assert_eq!(keks.fingerprints(), [2, 3, 1].map(named));
}

const THREADS: usize = 4;
const PACKETS: usize = 500;

#[test]
fn threads_that_seal_on_one_sa_use_each_number_once() {
    let gateway = Gateway::new(2);
    let sealed = |key: &WrappedKey| -> Vec<_> {
        // An entry moves: threads that still see the former entry take its key back and forth.
        let slots = (0..PACKETS).map(|at| (at / 50 % 2) as u32);
        slots
            .map(|slot| sequence(&gateway.seal(slot, key, SPI).1))
            .collect()
    };
    let key = wrapped(1);
    let mut numbers: Vec<u64> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(|| sealed(&key))).collect();
        let all = threads.into_iter().map(|thread| thread.join().unwrap());
        all.flatten().collect()
    });
    numbers.sort_unstable();
    let expected: Vec<u64> = (1..=(THREADS * PACKETS) as u64).collect();
    assert_eq!(numbers, expected);
}

#[test]
fn threads_that_open_one_stream_accept_each_packet_once() {
    let (sender, receiver, key) = (Gateway::new(1), Gateway::new(1), wrapped(1));
    let packets: Vec<_> = (0..1000).map(|_| sender.seal(0, &key, SPI).1).collect();
    let opened = |packet: &Vec<u8>| receiver.open(0, &key, packet).0;
    let verdicts: Vec<_> = std::thread::scope(|scope| {
        let threads = [(); THREADS].map(|()| scope.spawn(|| packets.iter().map(opened).collect()));
        threads
            .map(|thread| -> Vec<_> { thread.join().unwrap() })
            .into()
    });
    for at in 0..packets.len() {
        let of_packet = verdicts.iter().map(|of_thread| of_thread[at]);
        let (accepted, refused): (Vec<_>, _) = of_packet.partition(|it| *it == Verdict::Ok);
        assert_eq!(accepted.len(), 1, "packet {at}");
        assert!(refused.iter().all(|it| *it == Verdict::Replay));
    }
}

#[test]
fn threads_with_sas_of_their_own_share_an_engine() {
    let (sender, receiver) = (Gateway::new(THREADS as u32), Gateway::new(THREADS as u32));
    let pass = |slot: u32| {
        let key = wrapped(slot as u8);
        for number in 1..=PACKETS as u64 {
            let (verdict, packet) = sender.seal(slot, &key, SPI);
            assert_eq!((verdict, sequence(&packet)), (Verdict::Ok, number));
            assert_eq!(receiver.open(slot, &key, &packet), (Verdict::Ok, inner()));
        }
    };
    std::thread::scope(|scope| {
        (0..THREADS as u32).for_each(|slot| drop(scope.spawn(move || pass(slot))));
    });
}
