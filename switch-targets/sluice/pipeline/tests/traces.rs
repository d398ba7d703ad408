//! Traces do what the interpreter does.

#![allow(clippy::unwrap_used, clippy::panic)]

mod gateway_lab;
mod twins;

use std::time::Duration;

use gateway_lab::*;
use proptest::prelude::*;
use sluice_pipeline::Switch;
use twins::Twins;

/// Cases of a test: each begins with a new gateway, and has some hundred packets.
const CASES: u32 = 40;

type Step = (
    prop::sample::Index,
    Vec<(usize, u32)>,
    bool,
    Option<usize>,
    usize,
    u8,
    u64,
);

fn gateways() -> Twins {
    let mut twins = Twins::new(&json(), registry).unwrap();
    twins.both(|switch| with_gateway(switch, |gateway| gateway.fill()));
    twins
}

/// Lends a switch to the lab's helpers.
fn with_gateway(switch: &mut Switch, change: impl FnOnce(&mut Gateway)) {
    thread_local!(static LENT: std::cell::RefCell<Gateway> = empty_gateway().into());
    LENT.with_borrow_mut(|gateway| {
        std::mem::swap(&mut gateway.switch, switch);
        change(gateway);
        std::mem::swap(&mut gateway.switch, switch);
    });
}

/// Makes the checksum of a packet's IPv4 header right.
fn finish(packet: &mut [u8]) {
    if let Some(header) = packet.get_mut(14..34) {
        header[10..12].fill(0);
        let sum = checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

fn templates() -> Vec<(u16, Vec<u8>)> {
    let inner = ipv4(INNER, WEB, 6, 64, &[0; 40]);
    let long = ipv4(INNER, WEB, 17, 9, &udp(1000, 53, &[7; 700]));
    let icmp = ipv4(INNER, WEB, 1, 64, &[8, 0, 0xf7, 0xff, 0, 0, 0, 0]);
    vec![
        (WAN, esp_in_udp(&esp(SPI, 0, &inner))),
        (WAN, esp_in_udp(&esp(SPI, 0, &long))),
        (WAN, esp_in_udp(&esp(SPI, 0, &icmp))),
        (WAN, esp_in_udp(&esp(SPI, 4, &inner))),
        (WAN, esp_in_udp(&esp(SPI + 9, 0, &inner))),
        (LAN, from_web(INNER, 64, &[0; 30])),
        (LAN, from_web(INNER, 1, &[0; 30])),
        (LAN, from_web(INNER, 64, &[0x50; 900])),
        (LAN, from_web(INNER + 1, 64, &[0; 30])),
        (LAN, vec![0; 60]),
    ]
}

#[test]
fn a_flow_is_replayed_from_its_second_packet_on() {
    let mut twins = gateways();
    let (port, packet) = &templates()[0];
    for _ in 0..5 {
        let out = twins.process(*port, packet, Duration::from_millis(5));
        assert_eq!(out.sent.len(), 1);
    }
    assert_eq!(twins.recorded.traces(), 2, "one for each of its passes");
    twins.compare(&[]);
}

#[test]
fn packets_that_differ_where_nothing_looks_share_a_path() {
    let mut twins = gateways();
    let send = |twins: &mut Twins, fill: u8| {
        let packet = from_web(INNER, 64, &[fill; 30]);
        twins.process(LAN, &packet, Duration::ZERO).sent.len()
    };
    for fill in 0..4 {
        assert_eq!(send(&mut twins, fill & 1), 1);
    }
    let traces = twins.recorded.traces();
    for fill in 0..40 {
        let mut packet = from_web(INNER, 64, &[0; 30]);
        packet[14 + 20 + 24] = fill;
        twins.process(LAN, &packet, Duration::ZERO);
    }
    assert_eq!(twins.recorded.traces(), traces);
}

#[test]
fn a_changed_table_changes_the_way_at_once() {
    let mut twins = gateways();
    let packet = from_web(INNER, 64, &[0; 30]);
    for _ in 0..3 {
        assert_eq!(twins.process(LAN, &packet, Duration::ZERO).sent.len(), 1);
    }
    twins.both(|switch| {
        with_gateway(switch, |gateway| {
            let key = gateway.key("sad_out", &[SA_OUT.into()]);
            let table = gateway.table("sad_out");
            gateway.switch.delete(table, &key, 0).unwrap();
        });
    });
    let out = twins.process(LAN, &packet, Duration::ZERO);
    assert_eq!((out.sent.len(), out.digests.len()), (0, 1));
}

#[test]
fn random_packets_and_writes_find_no_difference() {
    let steps = prop::collection::vec(
        (
            any::<prop::sample::Index>(),
            prop::collection::vec((0_usize..70, 0_u32..8), 0..2),
            prop::bool::weighted(0.7),
            prop::option::weighted(0.1, 0_usize..90),
            1_usize..4,
            0_u8..40,
            0_u64..3_000,
        ),
        100..300,
    );
    let mut runner = proptest::test_runner::TestRunner::new(ProptestConfig::with_cases(CASES));
    let check = |steps: Vec<Step>| {
        let (mut twins, templates, mut now) = (gateways(), templates(), 0);
        for (which, flips, repair, cut, times, write, later) in steps {
            let (port, mut packet) = which.get(&templates).clone();
            for (at, bit) in flips {
                let at = at % packet.len();
                packet[at] ^= 1 << bit;
            }
            if repair {
                finish(&mut packet);
            }
            packet.truncate(cut.unwrap_or(packet.len()));
            for _ in 0..times {
                now += later;
                twins.process(port, &packet, Duration::from_millis(now));
            }
            let tunnel = u32::from(write) + 20;
            match write {
                0..5 => twins.both(|switch| {
                    with_gateway(switch, |gateway| {
                        let key = gateway.key("sad_in", &[mapped(GATEWAY), u128::from(SPI)]);
                        let table = gateway.table("sad_in");
                        if gateway.switch.delete(table, &key, 0).is_err() {
                            let open = [&[SA_IN.into(), 0, 1, 0, 1, 1024][..], &[0; 8]].concat();
                            let exact = [mapped(GATEWAY), SPI.into()];
                            gateway.add("sad_in", &exact, "open", &open);
                        }
                    });
                }),
                5..8 => twins.both(|switch| {
                    with_gateway(switch, |gateway| {
                        let key =
                            gateway.key("sad_in", &[mapped(GATEWAY), u128::from(SPI + tunnel)]);
                        let table = gateway.table("sad_in");
                        if gateway.switch.delete(table, &key, 0).is_err() {
                            gateway.add(
                                "sad_in",
                                &[mapped(GATEWAY), u128::from(SPI + tunnel)],
                                "open",
                                &[&[SA_IN.into(), 0, 1, 0, 1, 1024][..], &[0; 8]].concat(),
                            );
                        }
                    });
                }),
                _ => {}
            }
        }
        twins.compare(&[]);
        Ok(())
    };
    runner.run(&(steps,), |(steps,)| check(steps)).unwrap();
}
