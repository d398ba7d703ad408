//! Cycles of each hash of `PacketHash` over a whole packet, without ports:
//! `cargo run --release -p sluice --example packet_hash_cycles`. One JSON object, by hash.
//!
//! What a packet costs with the hash (deparsed headers, the digest written back) less what it costs without. Cycles are those of
//! the time-stamp counter, which runs at a constant rate; a core whose clock is boosted does more of its own in one of them.

#![allow(clippy::unwrap_used)]

#[cfg(target_arch = "x86_64")]
mod cycles {
    use std::time::Duration;

    use aws_lc_rs::key_wrap::{AES_256, AesKek, KeyWrapPadded as _};
    use sluice::packet_hash::{self, HashKey};
    use sluice_pipeline::{
        ActionCall, Bits, Entry, ExternRegistry, MatchValue, Outcome, Program, Switch,
    };
    use zeroize::Zeroizing;

    const KEK: [u8; 32] = [7; 32];
    const PROGRAM: &[u8] = include_bytes!("../tests/programs/packet_hash.json");
    const PORT: u16 = 1;
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
        let idle = [SHORT, LONG].map(|len| cycles(&mut switch("idle", None), len));
        let lines = HASHES.map(|(name, key)| {
            let mut switch = switch(name, key);
            let [short, long] = [(SHORT, idle[0]), (LONG, idle[1])]
                .map(|(len, idle)| cycles(&mut switch, len) - idle);
            let slope = (long - short) / (LONG - SHORT) as f64;
            format!(r#""{name}": {{"cycles_byte": {slope:.3}, "cycles_64": {short:.1}}}"#)
        });
        println!("{{{}}}", lines.join(", "));
    }

    /// Median of a packet of `len` bytes.
    fn cycles(switch: &mut Switch, len: usize) -> f64 {
        let packet = vec![0x5a; len];
        let mut out = Outcome::new();
        let mut rounds = [0; ROUNDS];
        for spent in &mut rounds {
            let began = counter();
            for _ in 0..PACKETS {
                switch.process(
                    PORT,
                    std::hint::black_box(&packet),
                    Duration::ZERO,
                    &mut out,
                );
            }
            *spent = counter() - began;
        }
        rounds.sort_unstable();
        rounds[ROUNDS / 2] as f64 / PACKETS as f64
    }

    fn counter() -> u64 {
        // SAFETY: every x86-64 processor has the instruction, and it touches no memory.
        unsafe { core::arch::x86_64::_rdtsc() }
    }

    fn switch(action: &str, key: Option<HashKey>) -> Switch {
        let mut externs = ExternRegistry::new();
        packet_hash::register(&mut externs, Zeroizing::new(KEK));
        let program = Program::load(PROGRAM).unwrap();
        let table = program.table("Hash.job").unwrap();
        let action = program.action(table, &format!("Hash.{action}")).unwrap();
        let mut switch = Switch::new(program, &externs).unwrap();
        let args = key.into_iter().map(wrapped).collect();
        let entry = Entry {
            key: vec![MatchValue::Exact(Bits::from_u128(9, u128::from(PORT)))],
            priority: 0,
            action: ActionCall { action, args },
        };
        switch.insert(table, entry).unwrap();
        switch
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
