//! A port's queue, as the program reads it: what the caller has observed, and what was sent since.

#![allow(clippy::unwrap_used)]

mod twins;

use std::time::Duration;

use serde_json::{Value, json};
use sluice_pipeline::{ExternRegistry, Outcome, Program, Queue, Switch};
use twins::Twins;

const QUEUES: &[u8] = include_bytes!("../../tests/programs/queues.json");
const WIRES: &[u8] = include_bytes!("../../tests/programs/wires.json");

fn observe(switch: &Switch, port: u16, depth: u32, wait: Duration) {
    switch.lane(0).observe(port, Queue { depth, wait });
}

/// The program's report: `enq_qdepth`, `deq_qdepth`, `deq_timedelta`.
fn report(frame: &[u8]) -> [u32; 3] {
    [14, 18, 22].map(|at| u32::from_be_bytes(frame[at..at + 4].try_into().unwrap()))
}

#[test]
fn a_packet_is_told_what_waits_at_its_port() {
    let switch = |json: &[u8]| {
        let program = Program::load(json).unwrap();
        Switch::new(program, &ExternRegistry::new()).unwrap()
    };
    assert!(!switch(WIRES).reads_queues());
    let (switch, mut outcome) = (switch(QUEUES), Outcome::new());
    assert!(switch.reads_queues());
    let mut sent_from = |port: u16| {
        switch.process(port, &[0; 60], Duration::ZERO, &mut outcome);
        report(&outcome.sent[0].bytes)
    };
    assert_eq!(sent_from(1), [0, 0, 0]);
    assert_eq!(sent_from(1), [0, 0, 0], "nobody has observed the port");
    observe(&switch, 2, 17, Duration::from_micros(400));
    assert_eq!(sent_from(1), [17, 17, 400]);
    assert_eq!(sent_from(1), [18, 18, 400]);
    assert_eq!(sent_from(2), [0, 0, 0], "the other port");
    observe(&switch, 2, u32::MAX, Duration::MAX);
    let most = (1 << 19) - 1;
    assert_eq!(sent_from(1), [most, most, u32::MAX]);
    observe(&switch, 2, 0, Duration::ZERO);
    assert_eq!(sent_from(1), [0, 0, 0]);
}

#[test]
fn recorded_paths_tell_the_depth_too() {
    let mut twins = Twins::new(QUEUES, ExternRegistry::new).unwrap();
    for depth in 0..100 {
        twins.both(|switch| observe(switch, 2, depth, Duration::ZERO));
        let outcome = twins.process(1, &[0; 60], Duration::ZERO);
        assert_eq!(report(&outcome.sent[0].bytes), [depth, depth, 0]);
    }
}

#[test]
fn a_field_list_alone_reads_no_queue() {
    let mut program: Value = serde_json::from_slice(WIRES).unwrap();
    let depth = json!(["standard_metadata", "enq_qdepth"]);
    let element = json!({"type": "field", "value": depth});
    let list = json!({"id": 1, "name": "kept", "elements": [element]});
    program["field_lists"] = json!([list]);
    let reads = |program: &Value| {
        let program = Program::load(program.to_string().as_bytes()).unwrap();
        Switch::new(program, &ExternRegistry::new())
            .unwrap()
            .reads_queues()
    };
    assert!(!reads(&program));
    program["learn_lists"] = json!([list]);
    assert!(reads(&program), "a digest carries it");
}
