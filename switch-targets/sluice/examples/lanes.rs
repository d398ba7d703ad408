//! Packets of 1,500 bytes through the gateway program in memory, by one thread and by two: in clear, and sealed on one SA that both
//! share. One JSON object a line.

#![allow(clippy::unwrap_used)]

mod site;

use std::hint::black_box;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use esp::Suite;
use site::{GATEWAY_A, GATEWAY_B, HOST_A, HOST_B, LAN, ethernet, gateway, ipv4, site};
use sluice_pipeline::{Outcome, Switch};

const PACKETS: u32 = 200_000;
const ROUNDS: usize = 7;
const SIZE: usize = 1500;

/// Packets a second of all threads together.
fn rate(switch: &Switch, threads: usize) -> f64 {
    let packet = ethernet(&ipv4(HOST_A, HOST_B, &vec![0x5a; SIZE - 40]));
    let start = Barrier::new(threads);
    let elapsed = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|number| {
                let (packet, start) = (&packet, &start);
                scope.spawn(move || {
                    let (mut lane, mut out) = (switch.lane(number), Outcome::new());
                    start.wait();
                    let began = Instant::now();
                    for _ in 0..PACKETS {
                        lane.process(LAN, black_box(packet), Duration::ZERO, &mut out);
                        assert_eq!(black_box(&out.sent).len(), 1);
                    }
                    began.elapsed()
                })
            })
            .collect();
        running.into_iter().map(|it| it.join().unwrap()).max()
    });
    threads as f64 * f64::from(PACKETS) / elapsed.unwrap().as_secs_f64()
}

fn main() {
    for (name, suite) in [("bypass", None), ("seal", Some(Suite::AesGcm256))] {
        let mut switch = gateway();
        site(&mut switch, HOST_A, HOST_B, GATEWAY_A, GATEWAY_B, suite, 0);
        switch.set_lanes(2);
        let mut ratios: Vec<f64> = (0..ROUNDS)
            .map(|_| rate(&switch, 2) / rate(&switch, 1))
            .collect();
        ratios.sort_by(f64::total_cmp);
        println!(
            "{{\"what\": \"{name}\", \"ratio\": {:.2}}}",
            ratios[ROUNDS / 2]
        );
    }
}
