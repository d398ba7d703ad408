//! Several threads run packets through one switch: nothing is counted twice, and nothing is lost.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::RwLock;
use sluice_pipeline::{
    ActionCall, Bits, Entry, ExternRegistry, MatchValue, Outcome, Program, Switch, TableId,
};

const THREADS: usize = 4;
const PACKETS: u64 = 20_000;
/// Bytes of a frame.
const BYTES: u64 = 100;
/// Packets that a thread runs before the control plane may come in between.
const BATCH: u64 = 50;

fn switch(json: &[u8]) -> Switch {
    let mut switch = Switch::new(Program::load(json).unwrap(), &ExternRegistry::new()).unwrap();
    switch.record_paths(2);
    switch.set_lanes(THREADS);
    switch
}

fn frame(dst: u8) -> Vec<u8> {
    let mut frame = vec![0; BYTES as usize];
    (frame[5], frame[12]) = (dst, 0x88);
    frame
}

/// Runs [`PACKETS`] through each lane, of which `sent` come out, while `meanwhile` changes the switch.
fn run(
    switch: Switch,
    sent: impl Fn(usize, u64, &Outcome) + Sync,
    mut meanwhile: impl FnMut(&mut Switch) + Send,
) -> Switch {
    let (switch, is_over) = (RwLock::new(switch), AtomicBool::new(false));
    thread::scope(|scope| {
        let lanes: Vec<_> = (0..THREADS)
            .map(|number| {
                let (switch, sent) = (&switch, &sent);
                scope.spawn(move || {
                    let mut outcome = Outcome::new();
                    for batch in 0..PACKETS / BATCH {
                        let switch = switch.read();
                        let mut lane = switch.lane(number);
                        for packet in batch * BATCH..(batch + 1) * BATCH {
                            let now = Duration::from_micros(packet);
                            let frame = frame((packet % 3) as u8);
                            lane.process(1, &frame, now, &mut outcome);
                            sent(number, packet, &outcome);
                        }
                    }
                })
            })
            .collect();
        let control = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                meanwhile(&mut switch.write());
            }
        });
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        control.join().unwrap();
    });
    switch.into_inner()
}

fn insert(switch: &mut Switch, table: TableId, dst: u8) {
    let action = ActionCall {
        action: switch.program().action(table, "Forward.to_port").unwrap(),
        args: vec![Bits::from_u128(9, 7)],
    };
    let entry = Entry {
        key: key(dst),
        priority: 0,
        action: action.into(),
    };
    switch.insert(table, entry).unwrap();
}

fn key(dst: u8) -> Vec<MatchValue> {
    vec![MatchValue::Exact(Bits::from_u128(48, dst.into()))]
}

#[test]
fn the_counts_of_all_lanes_add_up_while_entries_come_and_go() {
    let mut switch = switch(include_bytes!("../../tests/programs/exchange.json"));
    let table = switch.program().table("Forward.forward").unwrap();
    insert(&mut switch, table, 1);
    let sent = |_, packet: u64, outcome: &Outcome| {
        let ports: Vec<_> = outcome.sent.iter().map(|sent| sent.port).collect();
        match packet % 3 {
            1 => assert_eq!(ports, [7]),
            2 => assert!(ports.iter().all(|port| *port == 7)),
            _ => {}
        }
    };
    let (mut hits, mut seen, mut is_there) = (0, 0, false);
    let mut switch = run(switch, sent, |switch| {
        let now = switch.direct_counter_read(table, &key(1), 0).unwrap();
        assert!(now.packets >= seen);
        seen = now.packets;
        if is_there {
            let counter = switch.direct_counter_read(table, &key(2), 0);
            hits += counter.unwrap().packets;
            switch.delete(table, &key(2), 0).unwrap();
        } else {
            insert(switch, table, 2);
        }
        is_there = !is_there;
    });
    let left = switch.direct_counter_read(table, &key(2), 0);
    hits += left.map_or(0, |counter| counter.packets);
    let each = |dst: u64| THREADS as u64 * (0..PACKETS).filter(|at| at % 3 == dst).count() as u64;
    let counter = switch.direct_counter_read(table, &key(1), 0).unwrap();
    assert_eq!((counter.packets, counter.bytes), (each(1), each(1) * BYTES));
    let misses = switch.default_counter_read(table).unwrap();
    assert_eq!(misses.packets + hits, each(0) + each(2));
    assert!(switch.traces() > 0, "traces were recorded");
    switch.set_lanes(1);
    let again = switch.direct_counter_read(table, &key(1), 0).unwrap();
    assert_eq!(again, counter);
}

#[test]
fn what_an_action_does_to_a_register_is_one_step() {
    let switch = switch(include_bytes!("../../tests/programs/objects.json"));
    let (program, all) = (switch.program(), THREADS as u128 * u128::from(PACKETS));
    let names = ["ObjectsIngress.seen", "ObjectsIngress.total"];
    let [seen, total] = names.map(|name| program.register(name).unwrap());
    let switch = run(
        switch,
        |_, _, _| {},
        |switch| {
            switch.register_read(total, 0).unwrap();
        },
    );
    let read = |register, index| switch.register_read(register, index).unwrap().low_u128();
    assert_eq!(read(seen, 1), all);
    assert_eq!(read(total, 0), all * u128::from(BYTES));
}
