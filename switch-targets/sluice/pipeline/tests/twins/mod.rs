//! Two switches of one program: one interprets every packet, the other records every way and replays it. Their results are
//! the same for all packets.

#![allow(dead_code, clippy::unwrap_used, clippy::panic)]

use std::time::Duration;

use sluice_pipeline::{CounterId, ExternRegistry, LoadError, Outcome, Program, RegisterId, Switch};

pub struct Twins {
    pub plain: Switch,
    pub recorded: Switch,
    outcomes: [Outcome; 2],
}

impl Twins {
    /// `registry` is made anew for each: they share no extern object.
    pub fn new(json: &[u8], registry: impl Fn() -> ExternRegistry) -> Result<Twins, LoadError> {
        let switch = || Switch::new(Program::load(json)?, &registry());
        Ok(Twins::of([switch()?, switch()?]))
    }

    /// Makes twins of two switches that are equal and share no extern object.
    pub fn of([mut plain, mut recorded]: [Switch; 2]) -> Twins {
        plain.record_paths(0);
        recorded.record_paths(1);
        Twins {
            plain,
            recorded,
            outcomes: [Outcome::new(), Outcome::new()],
        }
    }

    pub fn both(&mut self, mut change: impl FnMut(&mut Switch)) {
        change(&mut self.plain);
        change(&mut self.recorded);
    }

    /// Runs the packet through both. Returns what came of it.
    pub fn process(&mut self, port: u16, packet: &[u8], now: Duration) -> &Outcome {
        let [plain, recorded] = &mut self.outcomes;
        self.plain.process(port, packet, now, plain);
        self.recorded.process(port, packet, now, recorded);
        assert_eq!(plain.sent, recorded.sent, "port {port}, {packet:02x?}");
        assert_eq!(plain.digests, recorded.digests);
        assert_eq!(plain.dropped, recorded.dropped);
        plain
    }

    /// Compares what packets have left behind. `registers` are those of the P4 program, by name.
    pub fn compare(&self, registers: &[&str]) {
        let (a, b) = (&self.plain, &self.recorded);
        assert_eq!(a.faults(), b.faults());
        for (at, counter) in a.program().counters().iter().enumerate() {
            for index in 0..counter.size.min(64) {
                let read = |switch: &Switch| switch.counter_read(CounterId(at), index).unwrap();
                assert_eq!(read(a), read(b), "{} {index}", counter.name);
            }
        }
        for at in 0..a.program().tables().len() {
            let table = sluice_pipeline::TableId(at);
            let counters = |switch: &Switch| {
                let entries = switch.entries(table);
                let entries: Vec<_> = entries.map(|view| (view.counter, view.idle)).collect();
                (entries, switch.default_counter_read(table).ok())
            };
            assert_eq!(
                counters(a),
                counters(b),
                "{}",
                a.program().tables()[at].name
            );
        }
        for name in registers {
            let register: RegisterId = a.program().register(name).unwrap();
            for index in 0..a.program().registers()[register.0].size.min(16) {
                let read = |switch: &Switch| switch.register_read(register, index).unwrap();
                assert_eq!(read(a), read(b), "{name} {index}");
            }
        }
    }
}
