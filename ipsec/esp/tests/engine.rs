//! What a P4 target sees of the engine.
#![allow(clippy::unwrap_used)]

use esp::engine::{Engine, SUITE_AES_GCM_256, Verdict};
use esp::{Kek, KeyMaterial, Limits, sealed_len};

const KEK: [u8; 32] = [7; 32];
const NONE: Limits = Limits {
    packets: 0,
    bytes: 0,
};
const SPI: u32 = 0x1000_0001;

fn wrapped(fill: u8) -> [u8; 48] {
    let material = KeyMaterial::from_bytes(&[fill; 36]).unwrap();
    Kek::from_bytes(&KEK).wrap(&material).unwrap()
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
        Self(Engine::new(Kek::from_bytes(&KEK), slots))
    }

    fn seal(&mut self, slot: u32, key: &[u8; 48], spi: u32) -> (Verdict, Vec<u8>) {
        let mut out = vec![0; sealed_len(84)];
        let (verdict, len) = self.0.seal(
            slot,
            SUITE_AES_GCM_256,
            key,
            spi,
            true,
            NONE,
            NONE,
            &inner(),
            &mut out,
        );
        (verdict, out[..len].to_vec())
    }

    fn open(&mut self, slot: u32, key: &[u8; 48], packet: &[u8]) -> (Verdict, Vec<u8>) {
        let mut packet = packet.to_vec();
        let (verdict, range) = self.0.open(
            slot,
            SUITE_AES_GCM_256,
            key,
            SPI,
            true,
            1024,
            NONE,
            NONE,
            &mut packet,
        );
        (verdict, packet[range].to_vec())
    }
}

fn sequence(packet: &[u8]) -> u64 {
    u64::from_be_bytes(packet[8..16].try_into().unwrap())
}

#[test]
fn what_one_gateway_seals_another_opens_once() {
    let (mut a, mut b) = (Gateway::new(4), Gateway::new(4));
    let (verdict, packet) = a.seal(0, &wrapped(1), SPI);
    assert_eq!(verdict, Verdict::Ok);
    assert_eq!(b.open(3, &wrapped(1), &packet), (Verdict::Ok, inner()));
    assert_eq!(b.open(3, &wrapped(1), &packet).0, Verdict::Replay);
}

#[test]
fn a_key_never_starts_again() {
    let mut gateway = Gateway::new(4);
    let mut next = |slot, key, spi| sequence(&gateway.seal(slot, &wrapped(key), spi).1);
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
fn a_replay_is_refused_after_the_slot_had_another_key() {
    let (mut sender, mut gateway) = (Gateway::new(1), Gateway::new(1));
    let packets: Vec<_> = (0..3).map(|_| sender.seal(0, &wrapped(1), SPI).1).collect();
    assert_eq!(gateway.open(0, &wrapped(1), &packets[1]).0, Verdict::Ok);
    assert_eq!(gateway.open(0, &wrapped(2), &packets[2]).0, Verdict::Icv);
    assert_eq!(gateway.open(0, &wrapped(1), &packets[1]).0, Verdict::Replay);
    assert_eq!(gateway.open(0, &wrapped(1), &packets[2]).0, Verdict::Ok);
}

#[test]
fn limits_follow_the_table_entry() {
    let mut engine = Engine::new(Kek::from_bytes(&KEK), 1);
    let mut out = vec![0; sealed_len(84)];
    let mut seal = |soft, hard| {
        let limits = |packets| Limits { packets, bytes: 0 };
        engine
            .seal(
                0,
                1,
                &wrapped(1),
                SPI,
                true,
                limits(soft),
                limits(hard),
                &inner(),
                &mut out,
            )
            .0
    };
    assert_eq!(seal(1, 3), Verdict::Ok);
    assert_eq!(seal(1, 3), Verdict::SoftLimit);
    assert_eq!(
        seal(1, 3),
        Verdict::Ok,
        "the notice is not repeated for every packet"
    );
    assert_eq!(seal(1, 3), Verdict::HardLimit);
    assert_eq!(seal(0, 0), Verdict::Ok, "the entry was modified");
}

#[test]
fn what_is_not_supported_is_a_key_error() {
    let mut gateway = Gateway::new(2);
    assert_eq!(gateway.seal(2, &wrapped(1), SPI), (Verdict::Key, vec![]));
    assert_eq!(gateway.seal(0, &wrapped(1), 255), (Verdict::Key, vec![]));
    let mut damaged = wrapped(1);
    damaged[20] ^= 1;
    assert_eq!(gateway.seal(0, &damaged, SPI), (Verdict::Key, vec![]));
    let mut out = [0; 200];
    let Gateway(engine) = &mut gateway;
    let seal = |engine: &mut Engine, suite, esn, out: &mut [u8]| {
        engine
            .seal(0, suite, &wrapped(1), SPI, esn, NONE, NONE, &inner(), out)
            .0
    };
    assert_eq!(seal(engine, 2, true, &mut out), Verdict::Key);
    assert_eq!(seal(engine, 1, false, &mut out), Verdict::Key);
    assert_eq!(seal(engine, 1, true, &mut out[..10]), Verdict::Malformed);
    assert_eq!(seal(engine, 1, true, &mut out), Verdict::Ok);
}
