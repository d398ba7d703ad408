//! Nanoseconds that one core needs for a packet in each gateway of a site-to-site path, without ports:
//! `cargo run --release -p sluice --example replay [ROUNDS [TREATMENT]]`. One line a treatment and a gateway.
//!
//! ```text
//!   host packet ─► gateway A, LAN ─► frame on the WAN ─► gateway B, WAN ─► host packet
//! ```

#![allow(clippy::unwrap_used)]

mod site;

use std::time::{Duration, Instant};

use esp::Suite;
use site::{GATEWAY_A, GATEWAY_B, HOST_A, HOST_B, LAN, WAN, ethernet, gateway, ipv4, site};
use sluice_pipeline::{Outcome, Switch};

const PACKETS: usize = 200;
const ROUNDS: usize = 500;

fn main() {
    let rounds = std::env::args()
        .nth(1)
        .map_or(ROUNDS, |text| text.parse().unwrap());
    let suites = [None, Some(Suite::NullHmacSha256), Some(Suite::AesGcm256)];
    let only = std::env::args().nth(2);
    for suite in suites {
        let name = suite.map_or("bypass", Suite::name);
        if only.as_ref().is_some_and(|only| only != name) {
            continue;
        }
        let (mut a, mut b) = (gateway(), gateway());
        site(&mut a, HOST_A, HOST_B, GATEWAY_A, GATEWAY_B, suite, 1500);
        site(&mut b, HOST_B, HOST_A, GATEWAY_B, GATEWAY_A, suite, 1500);
        let packet = ethernet(&ipv4(HOST_A, HOST_B, &[0x5a; 1398]));
        let (mut spent_a, mut spent_b) = (Vec::new(), Vec::new());
        for _ in 0..rounds {
            let packets = vec![packet.clone(); PACKETS];
            let (wan, took_a) = run(&mut a, LAN, &packets);
            let (lan, took_b) = run(&mut b, WAN, &wan);
            assert_eq!(lan[0].len(), packet.len());
            spent_a.push(took_a);
            spent_b.push(took_b);
        }
        for (gateway, spent) in [("out", &mut spent_a), ("in", &mut spent_b)] {
            spent.sort();
            let median = spent[rounds / 2].as_nanos() / PACKETS as u128;
            println!("{name:24} {gateway:4} {median:6} ns a packet");
        }
    }
}

fn run(switch: &mut Switch, port: u16, packets: &[Vec<u8>]) -> (Vec<Vec<u8>>, Duration) {
    let mut out = Outcome::new();
    let mut sent: Vec<Vec<u8>> = vec![Vec::with_capacity(2048); packets.len()];
    let began = Instant::now();
    for (packet, to) in packets.iter().zip(&mut sent) {
        switch.process(port, packet, Duration::ZERO, &mut out);
        std::mem::swap(to, &mut out.sent[0].bytes);
    }
    (sent, began.elapsed())
}
