//! Throughput of the pipeline alone, parse to deparse, on one core: the gateway's LAN side seals with AES-GCM-256. One JSON
//! object for each packet size, in bytes of the IP packet before it is sealed: `cargo run --release -p sluice --example seal`.

#![allow(clippy::unwrap_used)]

mod site;

use std::hint::black_box;
use std::time::{Duration, Instant};

use esp::Suite;
use site::{GATEWAY_A, GATEWAY_B, HOST_A, HOST_B, LAN, ethernet, gateway, ipv4, site};
use sluice_pipeline::Outcome;

/// The sizes of the FPGA gateway's tables. No MTU holds the longest back.
const SIZES: [usize; 3] = [64, 240, 1500];
const PACKETS: usize = 2000;
const ROUNDS: usize = 300;

fn main() {
    for size in SIZES {
        let mut switch = gateway();
        site(
            &mut switch,
            HOST_A,
            HOST_B,
            GATEWAY_A,
            GATEWAY_B,
            Some(Suite::AesGcm256),
            0,
        );
        // 20 bytes each for the headers of IPv4 and TCP.
        let packet = ethernet(&ipv4(HOST_A, HOST_B, &vec![0x5a; size - 40]));
        let (mut lane, mut out) = (switch.lane(0), Outcome::new());
        let mut rounds = [Duration::ZERO; ROUNDS];
        for round in &mut rounds {
            let began = Instant::now();
            for _ in 0..PACKETS {
                lane.process(LAN, black_box(&packet), Duration::ZERO, &mut out);
                assert_eq!(black_box(&out.sent).len(), 1);
            }
            *round = began.elapsed();
        }
        rounds.sort();
        let nanos = rounds[ROUNDS / 2].as_nanos() as f64 / PACKETS as f64;
        let mbit_s = size as f64 * 8.0 / nanos * 1000.0;
        println!("{{\"size\": {size}, \"ns\": {nanos:.1}, \"mbit_s\": {mbit_s:.1}}}");
    }
}
