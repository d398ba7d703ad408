//! Speed of ESP alone, on one core: `cargo run --release -p esp --example esp_speed [SECONDS [SUITE…]]`.
//!
//! Prints a JSON object: for each suite, Mbit/s of inner packets of 1400 bytes, sealed and opened.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use esp::{
    AllowedSuites, InboundSa, KeyMaterial, Limits, MAX_OVERHEAD, OutboundSa, SUITES, Spi, Suite,
};

const INNER_LEN: usize = 1400;
/// Packets between two looks at the clock, as many as a NIC hands over at once.
const BATCH: usize = 64;
const ROOM: usize = INNER_LEN + MAX_OVERHEAD;

fn main() {
    let mut args = std::env::args().skip(1);
    let seconds = args.next().map_or(2.0, |text| text.parse().unwrap());
    let time = Duration::from_secs_f64(seconds);
    let mut suites: Vec<Suite> = args.map(|name| name.parse().unwrap()).collect();
    if suites.is_empty() {
        suites = SUITES.into();
    }
    let lines = suites.into_iter().map(|suite| {
        let (seal, open) = measure(suite, time);
        format!("  \"{suite}\": {{\"seal_mbit_s\": {seal:.0}, \"open_mbit_s\": {open:.0}}}")
    });
    println!("{{\n{}\n}}", lines.collect::<Vec<_>>().join(",\n"));
}

fn measure(suite: Suite, time: Duration) -> (f64, f64) {
    let admitted = AllowedSuites::MODERN.with(suite).admit(suite).unwrap();
    let key = KeyMaterial::new(admitted, &vec![7; suite.key_material_len()]).unwrap();
    let (spi, none) = (Spi::new(0x1000).unwrap(), Limits::NONE);
    let mut outbound = OutboundSa::new(spi, &key, true, none, none).unwrap();
    let mut inbound = InboundSa::new(spi, &key, true, 1024, none, none).unwrap();
    let mut inner = vec![0xa5; INNER_LEN];
    inner[0] = 0x45;
    inner[2..4].copy_from_slice(&(INNER_LEN as u16).to_be_bytes());
    let mut packets = vec![[0; ROOM]; BATCH];
    let len = suite.sealed_len(INNER_LEN);

    let (mut sealing, mut opening) = (Duration::ZERO, Duration::ZERO);
    let mut batches = 0;
    while sealing < time || opening < time {
        let start = Instant::now();
        for packet in &mut packets {
            outbound.seal(&inner, packet, Duration::ZERO).unwrap();
        }
        let sealed = Instant::now();
        for packet in &mut packets {
            inbound.open(&mut packet[..len], Duration::ZERO).unwrap();
        }
        opening += sealed.elapsed();
        sealing += sealed - start;
        batches += 1;
    }
    let bits = (batches * BATCH * INNER_LEN * 8) as f64;
    let mbit_s = |time: Duration| bits / time.as_secs_f64() / 1e6;
    (mbit_s(sealing), mbit_s(opening))
}
