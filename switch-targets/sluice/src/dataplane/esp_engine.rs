//! The P4 extern `EspEngine` (p4/gateway/esp_engine.p4) on the ESP engine of the crate `esp`.
//!
//! Sequence numbers and replay windows belong to the switch, not to the program: an engine is found again by its instance's
//! name when a program is pushed, and lives as long as the process, or goes on in the one that takes over. To start it anew
//! would repeat IVs under living keys.

mod handover;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use esp::engine::{Engine, SaEntry, Verdict};
use esp::{AllowedSuites, KekRing, Limits, MAX_OVERHEAD, Suite};
use parking_lot::Mutex;
use sluice_pipeline::{Attributes, Extern, ExternArg, ExternRegistry, Packet, Payload};

pub use handover::GivenEngine;

/// The type's name in P4.
const TYPE: &str = "EspEngine";
/// Engines that all programs pushed so far may name together.
const MAX_ENGINES: usize = 16;
/// Slots of one engine; what a program asks for is at most this. A slot takes memory once a packet has used it.
const MAX_SLOTS: u32 = 131_072;

/// The engines of this process, by instance name.
pub struct Engines {
    keks: Arc<KekRing>,
    allowed: AllowedSuites,
    by_name: Mutex<BTreeMap<String, Arc<Engine>>>,
}

/// Make `EspEngine` known to programs.
pub fn register(
    registry: &mut ExternRegistry,
    keks: Arc<KekRing>,
    allowed: AllowedSuites,
) -> Arc<Engines> {
    let engines = Arc::new(Engines {
        keks,
        allowed,
        by_name: Mutex::default(),
    });
    let own = Arc::clone(&engines);
    registry.register(TYPE, move |name, attributes| {
        Ok(Box::new(engines.instance(name, attributes)?))
    });
    own
}

impl Engines {
    fn engine(&self, name: &str) -> Result<Arc<Engine>, String> {
        let mut by_name = self.by_name.lock();
        if !by_name.contains_key(name) && by_name.len() >= MAX_ENGINES {
            return Err(format!(
                "{MAX_ENGINES} engines of other names exist: restart the switch to forget them"
            ));
        }
        let new = || {
            let keks = Arc::clone(&self.keks);
            Arc::new(Engine::new(keks, MAX_SLOTS, self.allowed))
        };
        Ok(Arc::clone(
            by_name.entry(name.to_owned()).or_insert_with(new),
        ))
    }

    fn instance(&self, name: &str, attributes: &Attributes) -> Result<Instance, String> {
        let slots = attributes
            .get("slots")
            .and_then(|slots| slots.to_u64())
            .and_then(|slots| u32::try_from(slots).ok());
        let slots = slots.filter(|slots| (1..=MAX_SLOTS).contains(slots));
        let slots = slots.ok_or_else(|| format!("the number of slots must be 1 to {MAX_SLOTS}"))?;
        let engine = self.engine(name)?;
        Ok(Instance { engine, slots })
    }
}

struct Instance {
    engine: Arc<Engine>,
    slots: u32,
}

const OPEN: usize = 0;
const SEAL: usize = 1;

impl Extern for Instance {
    fn method(&self, name: &str, arity: usize) -> Option<usize> {
        match (name, arity) {
            ("open", 15) => Some(OPEN),
            ("seal", 13) => Some(SEAL),
            _ => None,
        }
    }

    fn call(&self, method: usize, args: &mut [ExternArg], packet: &mut Packet<'_>, now: Duration) {
        let payload = &mut *packet.payload;
        match (method, args) {
            (
                OPEN,
                [
                    slot,
                    suite,
                    key,
                    spi,
                    esn,
                    window,
                    limits @ ..,
                    len,
                    newest,
                    verdict,
                ],
            ) => {
                let entry = self.entry([slot, suite, key, spi, esn], limits);
                let (done, is_newest) = match entry {
                    Some(entry) => self.open(&entry, window, len, payload, now),
                    None => (Verdict::Key, false),
                };
                if !matches!(done, Verdict::Ok | Verdict::SoftLimit) {
                    payload.truncate(0);
                }
                newest.set(is_newest.into());
                verdict.set(done as u128);
            }
            (SEAL, [slot, suite, key, spi, esn, limits @ .., len, verdict]) => {
                let entry = self.entry([slot, suite, key, spi, esn], limits);
                let (done, length) = match entry {
                    Some(entry) => self.seal(&entry, payload, now),
                    None => (Verdict::Key, 0),
                };
                // An unsealed packet becomes empty: no action of the program can send it in clear.
                payload.truncate(usize::from(length));
                len.set(u128::from(length));
                verdict.set(done as u128);
            }
            _ => {}
        }
    }
}

impl Instance {
    fn open(
        &self,
        entry: &SaEntry<'_>,
        window: &ExternArg,
        len: &ExternArg,
        payload: &mut Payload,
        now: Duration,
    ) -> (Verdict, bool) {
        let len = usize::try_from(len.as_u64())
            .ok()
            .filter(|len| *len <= payload.len());
        let Some(len) = len else {
            return (Verdict::Malformed, false);
        };
        payload.truncate(len);
        let window = window.as_u64() as u16;
        let opened = self.engine.open(entry, window, payload.bytes_mut(), now);
        payload.truncate(opened.range.end);
        payload.trim_front(opened.range.start);
        (opened.verdict, opened.newest)
    }

    fn seal(&self, entry: &SaEntry<'_>, payload: &mut Payload, now: Duration) -> (Verdict, u16) {
        let Ok(suite) = Suite::try_from(entry.suite) else {
            return (Verdict::Key, 0);
        };
        let len = payload.len();
        payload.grow_front(suite.inner_at());
        payload.grow_back(MAX_OVERHEAD);
        let sealed = self
            .engine
            .seal_in_place(entry, len, payload.bytes_mut(), now);
        match u16::try_from(sealed.len) {
            Ok(length) => (sealed.verdict, length),
            Err(_) => (Verdict::Malformed, 0),
        }
    }

    fn entry<'a>(
        &self,
        [slot, suite, key, spi, esn]: [&'a ExternArg; 5],
        limits: &[ExternArg],
    ) -> Option<SaEntry<'a>> {
        let [soft_packets, soft_bytes, soft_seconds, hard @ ..] = limits else {
            return None;
        };
        let [hard_packets, hard_bytes, hard_seconds] = hard else {
            return None;
        };
        let limits = |packets: &ExternArg, bytes: &ExternArg, seconds: &ExternArg| Limits {
            packets: packets.as_u64(),
            bytes: bytes.as_u64(),
            seconds: seconds.as_u64(),
        };
        Some(SaEntry {
            slot: u32::try_from(slot.as_u64())
                .ok()
                .filter(|slot| *slot < self.slots)?,
            suite: suite.as_u64() as u8,
            wrapped_key: key.bytes().try_into().ok()?,
            spi: spi.as_u64() as u32,
            esn: esn.as_u64() == 1,
            soft: limits(soft_packets, soft_bytes, soft_seconds),
            hard: limits(hard_packets, hard_bytes, hard_seconds),
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use esp::{Kek, KeyMaterial};
    use sluice_pipeline::Bits;

    use super::*;

    const KEK: [u8; 32] = [7; 32];

    fn engines() -> Engines {
        Engines {
            keks: Arc::new(Kek::from_bytes(&KEK).into()),
            allowed: AllowedSuites::MODERN.with(Suite::AesCbcHmacSha1),
            by_name: Mutex::default(),
        }
    }

    fn slots(count: u128) -> Attributes {
        Attributes::from([("slots".into(), Bits::from_u128(32, count))])
    }

    fn wrapped(suite: Suite) -> Bits {
        let admitted = AllowedSuites::MODERN.with(suite).admit(suite).unwrap();
        let bytes = vec![9; suite.key_material_len()];
        let material = KeyMaterial::new(admitted, &bytes).unwrap();
        Bits::new(576, &Kek::from_bytes(&KEK).wrap(&material).unwrap()).unwrap()
    }

    struct Call {
        slot: u128,
        suite: Suite,
        hard_seconds: u128,
    }

    const CALL: Call = Call {
        slot: 3,
        suite: Suite::AesGcm256,
        hard_seconds: 0,
    };

    /// The arguments of `open`, with the length of the packet; of `seal`, without.
    fn args(call: &Call, len: Option<usize>) -> Vec<ExternArg> {
        let mut values = vec![
            Bits::from_u128(32, call.slot),
            Bits::from_u128(8, call.suite as u128),
            wrapped(call.suite),
            Bits::from_u128(32, 0x1234),
            Bits::from_u128(1, 1),
        ];
        values.extend(len.map(|_| Bits::from_u128(16, 1024)));
        for seconds in [0, call.hard_seconds] {
            values.extend([Bits::zero(64), Bits::zero(64), Bits::from_u128(32, seconds)]);
        }
        values.push(Bits::from_u128(16, len.unwrap_or(0) as u128));
        values.extend(len.map(|_| Bits::zero(1)));
        values.push(Bits::zero(8));
        values.iter().map(ExternArg::new).collect()
    }

    fn packet() -> Vec<u8> {
        let mut packet = vec![
            0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        packet.resize(40, 0xaa);
        packet
    }

    fn seal(instance: &Instance, call: &Call, now: Duration) -> (u64, Vec<u8>) {
        let (mut args, mut payload) = (args(call, None), Payload::from_bytes(&packet()));
        instance.call(SEAL, &mut args, &mut Packet::of(&mut payload), now);
        assert_eq!(args[11].as_u64(), payload.len() as u64);
        (args[12].as_u64(), payload.bytes().to_vec())
    }

    fn open(
        instance: &Instance,
        call: &Call,
        sealed: &[u8],
        padding: usize,
    ) -> (u64, bool, Vec<u8>) {
        let mut args = args(call, Some(sealed.len()));
        let mut payload = Payload::from_bytes(sealed);
        payload.grow_back(padding);
        instance.call(
            OPEN,
            &mut args,
            &mut Packet::of(&mut payload),
            Duration::ZERO,
        );
        (
            args[14].as_u64(),
            args[13].as_u64() == 1,
            payload.bytes().to_vec(),
        )
    }

    #[test]
    fn what_is_sealed_opens_and_link_padding_is_cut() {
        let engines = engines();
        let sealer = engines.instance("sealer", &slots(8)).unwrap();
        let opener = engines.instance("opener", &slots(8)).unwrap();
        let [first, second] = [0, 1].map(|_| {
            let (verdict, sealed) = seal(&sealer, &CALL, Duration::ZERO);
            assert_eq!(verdict, Verdict::Ok as u64);
            sealed
        });
        let ok = Verdict::Ok as u64;
        assert_eq!(open(&opener, &CALL, &second, 6), (ok, true, packet()));
        assert_eq!(open(&opener, &CALL, &first, 0), (ok, false, packet()));
        let replay = Verdict::Replay as u64;
        assert_eq!(open(&opener, &CALL, &first, 0), (replay, false, vec![]));
    }

    #[test]
    fn a_legacy_suite_works_only_where_it_is_allowed() {
        let sealer = engines().instance("sealer", &slots(8)).unwrap();
        let verdicts = [Suite::AesCbcHmacSha1, Suite::AesCbcHmacSha256].map(|suite| {
            let call = Call { suite, ..CALL };
            seal(&sealer, &call, Duration::ZERO).0
        });
        assert_eq!(verdicts, [Verdict::Ok as u64, Verdict::Key as u64]);
    }

    #[test]
    fn seconds_count_from_the_first_packet() {
        let sealer = engines().instance("sealer", &slots(8)).unwrap();
        let call = Call {
            hard_seconds: 5,
            ..CALL
        };
        let verdicts = [100, 104, 105].map(|now| seal(&sealer, &call, Duration::from_secs(now)).0);
        let [ok, hard] = [Verdict::Ok as u64, Verdict::HardLimit as u64];
        assert_eq!(verdicts, [ok, ok, hard]);
    }

    #[test]
    fn an_engine_goes_on_where_it_was_when_a_program_is_pushed_again() {
        let engines = engines();
        let seal_with = |count| {
            let sealer = engines.instance("sealer", &slots(count)).unwrap();
            seal(&sealer, &CALL, Duration::ZERO).1[7]
        };
        let numbers = [seal_with(8), seal_with(16)];
        assert_eq!(numbers, [1, 2], "the sequence number's last byte");
    }

    #[test]
    fn a_packet_that_is_not_sealed_does_not_stay_in_clear() {
        let sealer = engines().instance("sealer", &slots(8)).unwrap();
        let call = Call { slot: 8, ..CALL };
        let key = (Verdict::Key as u64, Vec::new());
        assert_eq!(seal(&sealer, &call, Duration::ZERO), key);
        let mut short = Payload::from_bytes(&packet()[..30]);
        let mut args = args(&CALL, None);
        sealer.call(SEAL, &mut args, &mut Packet::of(&mut short), Duration::ZERO);
        let malformed = Verdict::Malformed as u64;
        assert_eq!((args[12].as_u64(), short.len()), (malformed, 0));
    }

    #[test]
    fn a_length_beyond_the_packet_is_malformed() {
        let opener = engines().instance("opener", &slots(8)).unwrap();
        let mut args = args(&CALL, Some(100));
        let mut payload = Payload::from_bytes(&[0; 60]);
        opener.call(
            OPEN,
            &mut args,
            &mut Packet::of(&mut payload),
            Duration::ZERO,
        );
        let malformed = Verdict::Malformed as u64;
        assert_eq!((args[14].as_u64(), payload.len()), (malformed, 0));
    }

    #[test]
    fn engines_and_slots_are_bounded() {
        let engines = engines();
        assert!(engines.instance("e", &slots(0)).is_err());
        assert!(
            engines
                .instance("e", &slots(u128::from(MAX_SLOTS) + 1))
                .is_err()
        );
        assert!(engines.instance("e", &Attributes::new()).is_err());
        for n in 0..MAX_ENGINES {
            engines.instance(&format!("e{n}"), &slots(1)).unwrap();
        }
        assert!(engines.instance("another", &slots(1)).is_err());
        assert!(engines.instance("e0", &slots(1)).is_ok());
    }
}
