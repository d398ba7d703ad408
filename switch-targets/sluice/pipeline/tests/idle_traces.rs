//! Idle timeouts and counts of entries and misses, where traces are replayed.

#![allow(clippy::unwrap_used)]

mod twins;

use std::time::Duration;

use proptest::prelude::*;
use sluice_pipeline::{
    ActionCall, Bits, CounterValue, Entry, ExternRegistry, MatchValue, Switch, TableId,
};
use twins::Twins;

const MS: Duration = Duration::from_millis(1);
/// Bytes of a frame.
const BYTES: usize = 100;

#[derive(Clone, Debug)]
enum Step {
    Packets { dst: u8, count: usize },
    Insert { dst: u8, timeout: u32 },
    Timeout { dst: u8, timeout: u32 },
    Delete { dst: u8 },
    Default { port: Option<u8> },
    Misses { packets: u64 },
    Later { ms: u32 },
}

/// `exchange.p4`, whose table counts, with idle timeouts in its tables.
fn twins() -> (Twins, TableId) {
    let json = include_str!("../../tests/programs/exchange.json");
    let json = json.replace("\"support_timeout\" : false", "\"support_timeout\" : true");
    let twins = Twins::new(json.as_bytes(), ExternRegistry::new).unwrap();
    let table = twins.plain.program().table("Forward.forward").unwrap();
    (twins, table)
}

fn key(dst: u8) -> Vec<MatchValue> {
    vec![MatchValue::Exact(Bits::from_u128(48, dst.into()))]
}

fn to_port(switch: &Switch, table: TableId, port: u8) -> ActionCall {
    ActionCall {
        action: switch.program().action(table, "Forward.to_port").unwrap(),
        args: vec![Bits::from_u128(9, port.into())],
    }
}

fn insert(switch: &mut Switch, table: TableId, dst: u8, timeout: Duration, now: Duration) {
    let entry = Entry {
        key: key(dst),
        priority: 0,
        action: to_port(switch, table, dst).into(),
    };
    if switch.insert(table, entry).is_ok() {
        let set = switch.set_idle_timeout(table, &key(dst), 0, timeout, now);
        set.unwrap();
    }
}

fn frame(dst: u8) -> Vec<u8> {
    let mut frame = vec![0; BYTES];
    (frame[5], frame[12]) = (dst, 0x88);
    frame
}

/// The last byte of the key of each entry that has expired.
fn expired(switch: &mut Switch, table: TableId, now: Duration) -> Vec<u8> {
    let mut found = Vec::new();
    assert_eq!(switch.expired(table, 0, usize::MAX, now, &mut found), None);
    let dst = |value: &MatchValue| match value {
        MatchValue::Exact(bits) => bits.low_u128() as u8,
        _ => 0,
    };
    found.iter().map(|view| dst(&view.entry.key[0])).collect()
}

#[test]
fn a_flow_that_is_replayed_is_not_idle_and_its_misses_count() {
    let (mut twins, table) = twins();
    twins.both(|switch| {
        insert(switch, table, 1, 10 * MS, MS);
        insert(switch, table, 2, 10 * MS, MS);
    });
    for at in 1..50 {
        twins.process(1, &frame(1), at * MS);
        twins.process(1, &frame(9), at * MS);
    }
    assert_eq!(twins.recorded.traces(), 2, "the hit's and the miss's");
    let now = 50 * MS;
    assert_eq!(expired(&mut twins.recorded, table, now), [2]);
    assert_eq!(expired(&mut twins.plain, table, now), [2]);
    assert_eq!(expired(&mut twins.recorded, table, 59 * MS), [1]);
    let counted = CounterValue {
        packets: 49,
        bytes: 49 * BYTES as u64,
    };
    let view = twins.recorded.entry(table, &key(1), 0).unwrap();
    assert_eq!(view.counter, Some(counted));
    assert_eq!(view.idle.unwrap().last_hit, 49 * MS);
    assert_eq!(twins.recorded.default_counter_read(table), Ok(counted));
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let dst = || 1_u8..5;
    let step = prop_oneof![
        6 => (dst(), 1_usize..5).prop_map(|(dst, count)| Step::Packets { dst, count }),
        2 => (dst(), 0_u32..9).prop_map(|(dst, timeout)| Step::Insert { dst, timeout }),
        1 => (dst(), 0_u32..9).prop_map(|(dst, timeout)| Step::Timeout { dst, timeout }),
        1 => dst().prop_map(|dst| Step::Delete { dst }),
        1 => prop::option::of(dst()).prop_map(|port| Step::Default { port }),
        1 => (0_u64..99).prop_map(|packets| Step::Misses { packets }),
        4 => (1_u32..6).prop_map(|ms| Step::Later { ms }),
    ];
    prop::collection::vec(step, 0..80)
}

proptest! {
    #[test]
    fn nobody_can_tell_a_replay_from_a_run(steps in steps()) {
        let ((mut twins, table), mut now) = (twins(), MS);
        for step in steps {
            if let Step::Packets { dst, count } = step {
                for _ in 0..count {
                    twins.process(1, &frame(dst), now);
                }
            }
            if let Step::Later { ms } = step {
                now += ms * MS;
            }
            twins.both(|switch| match step {
                Step::Insert { dst, timeout } => insert(switch, table, dst, timeout * MS, now),
                Step::Timeout { dst, timeout } => {
                    drop(switch.set_idle_timeout(table, &key(dst), 0, timeout * MS, now));
                }
                Step::Delete { dst } => drop(switch.delete(table, &key(dst), 0)),
                Step::Default { port: Some(port) } => {
                    switch.set_default(table, to_port(switch, table, port)).unwrap();
                }
                Step::Default { port: None } => switch.reset_default(table).unwrap(),
                Step::Misses { packets } => {
                    let value = CounterValue { packets, bytes: 0 };
                    switch.default_counter_write(table, value).unwrap();
                }
                Step::Packets { .. } | Step::Later { .. } => {}
            });
            prop_assert_eq!(
                expired(&mut twins.plain, table, now),
                expired(&mut twins.recorded, table, now)
            );
            twins.compare(&[]);
        }
    }
}
