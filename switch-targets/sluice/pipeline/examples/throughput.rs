//! Packets a second through the gateway program on one core, with a toy engine in place of ESP and 1, 1,000 and 65,000
//! tunnels: `cargo run --release -p sluice-pipeline --example throughput`. One JSON object a line.

#![allow(clippy::unwrap_used, clippy::panic)]

#[path = "../tests/gateway_lab/mod.rs"]
mod gateway_lab;

use std::time::{Duration, Instant};

use gateway_lab::*;
use sluice_pipeline::Outcome;

fn main() {
    for tunnels in [1_u32, 1_000, 65_000] {
        let mut gateway = gateway();
        for tunnel in 1..tunnels {
            gateway.tunnel(
                SPI + tunnel,
                1000 + 2 * tunnel,
                1001 + 2 * tunnel,
                INNER + tunnel,
                PEER,
            );
        }
        let tcp = [0; 1000];
        let last = tunnels - 1;
        let inner = ipv4(INNER + last, WEB, 6, 64, &tcp);
        measure(
            &mut gateway,
            "open",
            tunnels,
            WAN,
            &esp_in_udp(&esp(SPI + last, 0, &inner)),
            1,
        );
        measure(
            &mut gateway,
            "seal",
            tunnels,
            LAN,
            &from_web(INNER + last, 64, &tcp),
            1,
        );
        measure(
            &mut gateway,
            "drop bad SPI",
            tunnels,
            WAN,
            &esp_in_udp(&esp(1, 0, &inner)),
            0,
        );
    }
}

fn measure(gateway: &mut Gateway, name: &str, tunnels: u32, port: u16, packet: &[u8], sent: usize) {
    let mut out = Outcome::new();
    let mut fastest = f64::MAX;
    for _ in 0..5 {
        let (count, start) = (50_000, Instant::now());
        for _ in 0..count {
            gateway
                .switch
                .process(port, packet, Duration::ZERO, &mut out);
            assert_eq!(out.sent.len(), sent);
        }
        fastest = fastest.min(start.elapsed().as_secs_f64() / f64::from(count));
    }
    let rate = 1.0 / fastest;
    println!(
        r#"{{"name": "pipeline: {name}, {tunnels} tunnels", "value": {rate:.0}, "unit": "packet/s", "nanoseconds": {:.0}}}"#,
        fastest * 1e9
    );
}
