//! Cycles of each hash of `PacketHash` over a whole packet, without ports:
//! `cargo run --release -p sluice --example packet_hash_cycles`. One JSON object, by hash.
//!
//! They are the extern's own: key found, packet hashed, digest set. The cost of the call in the program comes on top.
//! Cycles are those of the time-stamp counter, which runs at a constant rate; a core whose clock is boosted does more of its own in one of them.

#![allow(clippy::unwrap_used)]

#[cfg(target_arch = "x86_64")]
mod cycles {
    use std::sync::Arc;
    use std::time::Duration;

    use aws_lc_rs::key_wrap::{AES_256, AesKek, KeyWrapPadded as _};
    use esp::Kek;
    use sluice::dataplane::packet_hash::{HashKey, PacketHash};
    use sluice_pipeline::{Bits, Extern as _, ExternArg, Packet, Payload};

    const KEK: [u8; 32] = [7; 32];
    const SHORT: usize = 64;
    const LONG: usize = 1500;
    const ROUNDS: usize = 500;
    const PACKETS: u64 = 50;
    const HASHES: [(&str, Option<HashKey>); 5] = [
        ("siphash_2_4", Some(HashKey::SipHash24)),
        ("blake2b", None),
        ("hmac_sha256", Some(HashKey::HmacSha256)),
        ("hmac_sha512", Some(HashKey::HmacSha512)),
        ("sha3_512", None),
    ];

    pub fn print() {
        let lines = HASHES.map(|(name, key)| {
            let [short, long] = [SHORT, LONG].map(|len| called(name, key, len));
            let slope = (long - short) / (LONG - SHORT) as f64;
            format!(r#""{name}": {{"cycles_byte": {slope:.3}, "cycles_64": {short:.1}}}"#)
        });
        println!("{{{}}}", lines.join(", "));
    }

    fn called(name: &str, key: Option<HashKey>, len: usize) -> f64 {
        let hasher = PacketHash::new(Arc::new(Kek::from_bytes(&KEK).into()), Arc::default());
        let mut args: Vec<_> = key
            .map(|key| ExternArg::new(&wrapped(key)))
            .into_iter()
            .collect();
        args.push(ExternArg::new(&Bits::zero(if name == "siphash_2_4" {
            64
        } else {
            512
        })));
        args.extend(key.map(|_| ExternArg::new(&Bits::zero(8))));
        let method = hasher.method(name, args.len()).unwrap();
        let mut payload = Payload::from_bytes(&vec![0x5a; len]);
        median(|| {
            let mut packet = Packet::of(std::hint::black_box(&mut payload));
            hasher.call(method, &mut args, &mut packet, Duration::ZERO);
        })
    }

    fn median(mut work: impl FnMut()) -> f64 {
        let mut rounds = [0; ROUNDS];
        for spent in &mut rounds {
            let began = counter();
            (0..PACKETS).for_each(|_| work());
            *spent = counter() - began;
        }
        rounds.sort_unstable();
        rounds[ROUNDS / 2] as f64 / PACKETS as f64
    }

    fn counter() -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    fn wrapped(kind: HashKey) -> Bits {
        let mut plain = vec![0x42; 1 + kind.key_len()];
        plain[0] = kind as u8;
        let mut room = [0; 96];
        let kek = AesKek::new(&AES_256, &KEK).unwrap();
        let wrapped = kek.wrap_with_padding(&plain, &mut room).unwrap();
        Bits::new(8 * wrapped.len() as u32, wrapped).unwrap()
    }
}

fn main() {
    #[cfg(target_arch = "x86_64")]
    cycles::print();
    #[cfg(not(target_arch = "x86_64"))]
    eprintln!("cycles are counted on x86-64 only");
}
