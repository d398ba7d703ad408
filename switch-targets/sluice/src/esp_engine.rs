//! The P4 extern `EspEngine` (p4/gateway/esp_engine.p4) on the ESP engine of the crate `esp`.
//!
//! Sequence numbers and replay windows belong to the switch, not to the program: an engine is found again by its instance's
//! name when a program is pushed, and lives as long as the process. To start it anew would repeat IVs under living keys.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use esp::engine::{Engine, Verdict};
use esp::{Kek, Limits, WRAPPED_KEY_LEN, sealed_len};
use parking_lot::Mutex;
use sluice_pipeline::{Attributes, Extern, ExternArg, ExternRegistry, Payload};
use zeroize::Zeroizing;

/// The type's name in P4.
const TYPE: &str = "EspEngine";
/// Engines that all programs pushed so far may name together.
const MAX_ENGINES: usize = 16;
/// Slots of one engine; what a program asks for is at most this.
const MAX_SLOTS: u32 = 65536;

/// Every engine of this process, by instance name.
struct Engines {
    kek: Zeroizing<[u8; 32]>,
    by_name: Mutex<BTreeMap<String, Arc<Mutex<Engine>>>>,
}

/// Make `EspEngine` known to programs.
pub fn register(registry: &mut ExternRegistry, kek: Zeroizing<[u8; 32]>) {
    let engines = Engines {
        kek,
        by_name: Mutex::default(),
    };
    registry.register(TYPE, move |name, attributes| {
        Ok(Box::new(engines.instance(name, attributes)?))
    });
}

impl Engines {
    fn instance(&self, name: &str, attributes: &Attributes) -> Result<Instance, String> {
        let slots = attributes
            .get("slots")
            .and_then(|slots| slots.to_u64())
            .and_then(|slots| u32::try_from(slots).ok());
        let slots = slots.filter(|slots| (1..=MAX_SLOTS).contains(slots));
        let slots = slots.ok_or_else(|| format!("the number of slots must be 1 to {MAX_SLOTS}"))?;
        let mut by_name = self.by_name.lock();
        if !by_name.contains_key(name) && by_name.len() >= MAX_ENGINES {
            return Err(format!(
                "{MAX_ENGINES} engines of other names exist: restart the switch to forget them"
            ));
        }
        let new = || {
            Arc::new(Mutex::new(Engine::new(
                Kek::from_bytes(&self.kek),
                MAX_SLOTS,
            )))
        };
        let engine = Arc::clone(by_name.entry(name.to_owned()).or_insert_with(new));
        Ok(Instance {
            engine,
            slots,
            sealed: Vec::new(),
        })
    }
}

struct Instance {
    engine: Arc<Mutex<Engine>>,
    slots: u32,
    sealed: Vec<u8>,
}

const OPEN: usize = 0;
const SEAL: usize = 1;

impl Extern for Instance {
    fn method(&self, name: &str, arity: usize) -> Option<usize> {
        match (name, arity) {
            ("open", 12) => Some(OPEN),
            ("seal", 11) => Some(SEAL),
            _ => None,
        }
    }

    fn call(
        &mut self,
        method: usize,
        args: &mut [ExternArg],
        payload: &mut Payload,
        _now: Duration,
    ) {
        match (method, args) {
            (OPEN, [sa @ .., len, verdict]) => {
                verdict.set(self.open(sa, len.as_u64(), payload) as u128)
            }
            (SEAL, [sa @ .., len, verdict]) => {
                let (done, length) = self.seal(sa, payload);
                // Not sealed: whatever the program does next, the clear packet is gone.
                payload.truncate(usize::from(length));
                len.set(u128::from(length));
                verdict.set(done as u128);
            }
            _ => {}
        }
    }
}

impl Instance {
    fn open(&mut self, sa: &[ExternArg], len: u64, payload: &mut Payload) -> Verdict {
        let [
            slot,
            suite,
            key,
            spi,
            esn,
            window,
            soft_packets,
            soft_bytes,
            hard_packets,
            hard_bytes,
        ] = sa
        else {
            return Verdict::Key;
        };
        let Some((slot, key)) = self.slot_and_key(slot, key) else {
            return Verdict::Key;
        };
        let len = usize::try_from(len)
            .ok()
            .filter(|len| *len <= payload.len());
        let Some(len) = len else {
            return Verdict::Malformed;
        };
        payload.truncate(len);
        let (verdict, inner) = self.engine.lock().open(
            slot,
            suite.as_u64() as u8,
            &key,
            spi.as_u64() as u32,
            esn.as_u64() == 1,
            window.as_u64() as u16,
            limits(soft_packets, soft_bytes),
            limits(hard_packets, hard_bytes),
            payload.bytes_mut(),
        );
        payload.truncate(inner.end);
        payload.trim_front(inner.start);
        verdict
    }

    fn seal(&mut self, sa: &[ExternArg], payload: &mut Payload) -> (Verdict, u16) {
        let [
            slot,
            suite,
            key,
            spi,
            esn,
            soft_packets,
            soft_bytes,
            hard_packets,
            hard_bytes,
        ] = sa
        else {
            return (Verdict::Key, 0);
        };
        let Some((slot, key)) = self.slot_and_key(slot, key) else {
            return (Verdict::Key, 0);
        };
        let room = sealed_len(payload.len());
        if u16::try_from(room).is_err() {
            return (Verdict::Malformed, 0);
        }
        self.sealed.resize(room, 0);
        let (verdict, length) = self.engine.lock().seal(
            slot,
            suite.as_u64() as u8,
            &key,
            spi.as_u64() as u32,
            esn.as_u64() == 1,
            limits(soft_packets, soft_bytes),
            limits(hard_packets, hard_bytes),
            payload.bytes(),
            &mut self.sealed,
        );
        payload.truncate(length);
        payload.grow_back(length - payload.len());
        payload.bytes_mut().copy_from_slice(&self.sealed[..length]);
        (verdict, length as u16)
    }

    fn slot_and_key(
        &self,
        slot: &ExternArg,
        key: &ExternArg,
    ) -> Option<(u32, [u8; WRAPPED_KEY_LEN])> {
        let slot = u32::try_from(slot.as_u64())
            .ok()
            .filter(|slot| *slot < self.slots)?;
        Some((slot, key.bytes().try_into().ok()?))
    }
}

fn limits(packets: &ExternArg, bytes: &ExternArg) -> Limits {
    Limits {
        packets: packets.as_u64(),
        bytes: bytes.as_u64(),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use esp::KeyMaterial;
    use sluice_pipeline::Bits;

    use super::*;

    const KEK: [u8; 32] = [7; 32];

    fn engines() -> Engines {
        Engines {
            kek: Zeroizing::new(KEK),
            by_name: Mutex::default(),
        }
    }

    fn slots(count: u128) -> Attributes {
        Attributes::from([("slots".into(), Bits::from_u128(32, count))])
    }

    fn wrapped() -> Bits {
        let material = KeyMaterial::from_bytes(&[9; 36]).unwrap();
        Bits::new(384, &Kek::from_bytes(&KEK).wrap(&material).unwrap()).unwrap()
    }

    fn args(slot: u128, window: bool, len: usize) -> Vec<ExternArg> {
        let mut values = vec![Bits::from_u128(32, slot), Bits::from_u128(8, 1), wrapped()];
        values.extend([Bits::from_u128(32, 0x1234), Bits::from_u128(1, 1)]);
        values.extend(window.then(|| Bits::from_u128(16, 1024)));
        values.extend(vec![Bits::zero(64); 4]);
        values.extend([Bits::from_u128(16, len as u128), Bits::zero(8)]);
        values.iter().map(ExternArg::new).collect()
    }

    fn packet() -> Vec<u8> {
        let mut packet = vec![
            0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        packet.resize(40, 0xaa);
        packet
    }

    fn seal(instance: &mut Instance, slot: u128) -> (u64, Vec<u8>) {
        let (mut args, mut payload) = (args(slot, false, 0), Payload::from_bytes(&packet()));
        instance.call(SEAL, &mut args, &mut payload, Duration::ZERO);
        assert_eq!(args[9].as_u64(), payload.len() as u64);
        (args[10].as_u64(), payload.bytes().to_vec())
    }

    fn open(instance: &mut Instance, sealed: &[u8], padding: usize) -> (u64, Vec<u8>) {
        let (mut args, mut payload) = (args(3, true, sealed.len()), Payload::from_bytes(sealed));
        payload.grow_back(padding);
        instance.call(OPEN, &mut args, &mut payload, Duration::ZERO);
        (args[11].as_u64(), payload.bytes().to_vec())
    }

    #[test]
    fn what_is_sealed_opens_and_link_padding_is_cut() {
        let engines = engines();
        let mut sealer = engines.instance("sealer", &slots(8)).unwrap();
        let mut opener = engines.instance("opener", &slots(8)).unwrap();
        let (verdict, sealed) = seal(&mut sealer, 3);
        assert_eq!(verdict, Verdict::Ok as u64);
        assert_eq!(
            open(&mut opener, &sealed, 6),
            (Verdict::Ok as u64, packet())
        );
        assert_eq!(open(&mut opener, &sealed, 0).0, Verdict::Replay as u64);
    }

    #[test]
    fn an_engine_goes_on_where_it_was_when_a_program_is_pushed_again() {
        let engines = engines();
        let (_, first) = seal(&mut engines.instance("sealer", &slots(8)).unwrap(), 3);
        let (_, second) = seal(&mut engines.instance("sealer", &slots(16)).unwrap(), 3);
        assert_eq!(
            (first[7], second[7]),
            (1, 2),
            "the sequence number's last byte"
        );
    }

    #[test]
    fn a_packet_that_is_not_sealed_does_not_stay_in_clear() {
        let engines = engines();
        let mut sealer = engines.instance("sealer", &slots(8)).unwrap();
        assert_eq!(seal(&mut sealer, 8), (Verdict::Key as u64, Vec::new()));
        let mut short = Payload::from_bytes(&packet()[..30]);
        let mut args = args(3, false, 0);
        sealer.call(SEAL, &mut args, &mut short, Duration::ZERO);
        assert_eq!(
            (args[10].as_u64(), short.len()),
            (Verdict::Malformed as u64, 0)
        );
    }

    #[test]
    fn a_length_beyond_the_packet_is_malformed() {
        let mut opener = engines().instance("opener", &slots(8)).unwrap();
        let (mut args, mut payload) = (args(3, true, 100), Payload::from_bytes(&[0; 60]));
        opener.call(OPEN, &mut args, &mut payload, Duration::ZERO);
        assert_eq!(args[11].as_u64(), Verdict::Malformed as u64);
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
