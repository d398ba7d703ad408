//! A thread's way through a switch that several threads share.
//!
//! ```text
//!   lane 0: buffers, recorded paths, tallies ─┐      ┌─ tables, profiles, registers, meters, extern objects
//!   lane 1: the same of its own ──────────────┴─ all ┴─ counters, which a tally reaches before they are read
//! ```
//! Packets of one flow stay in their order as long as they stay in one lane.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::externs::ExternArg;
use crate::journal::{Journal, Step};
use crate::machine::{Machine, Own};
use crate::outcome::{Faults, Outcome};
use crate::paths::{Log, PathCache};
use crate::phv::Phv;
use crate::process::{Buffers, Run};
use crate::program::Program;
use crate::switch::Switch;
use crate::work::Work;

/// What a lane keeps from packet to packet.
pub struct State {
    pub work: Work,
    pub buffers: Buffers,
    pub paths: PathCache,
    pub log: Log,
    pub own: Own,
    pub faults: Faults,
}

impl State {
    pub fn new(program: &Program) -> State {
        let (ir, layout) = (&program.ir, &program.ir.layout);
        let args = ir.calls.iter();
        let args = args.map(|call| vec![ExternArg::default(); call.args.len()]);
        State {
            work: Work::new(layout),
            buffers: Buffers {
                previous: Phv::new(layout),
                ..Buffers::default()
            },
            paths: PathCache::default(),
            log: Log::default(),
            own: Own {
                args: args.collect(),
                args_of: vec![0; ir.calls.len()],
                ..Own::default()
            },
            faults: Faults::default(),
        }
    }
}

/// A lane that a thread has taken. While it has it, it reads nothing else of the switch: that would wait for itself.
pub struct Lane<'a> {
    switch: &'a Switch,
    state: MutexGuard<'a, State>,
}

impl<'a> Lane<'a> {
    pub(crate) fn take(switch: &'a Switch, state: &'a Mutex<State>) -> Lane<'a> {
        Lane {
            switch,
            state: state.lock(),
        }
    }

    /// Runs one packet to its end: all passes, all copies. `now` is the time since the switch started.
    #[inline]
    pub fn process(&mut self, ingress_port: u16, packet: &[u8], now: Duration, out: &mut Outcome) {
        self.run(ingress_port, packet, now, out, false);
    }

    /// As [`Lane::process`], with all that it changes, and tells the packet's way.
    pub fn explain(
        &mut self,
        ingress_port: u16,
        packet: &[u8],
        now: Duration,
        out: &mut Outcome,
    ) -> Vec<Step> {
        self.run(ingress_port, packet, now, out, true)
    }

    #[inline]
    fn run(
        &mut self,
        ingress_port: u16,
        packet: &[u8],
        now: Duration,
        out: &mut Outcome,
        explain: bool,
    ) -> Vec<Step> {
        let State {
            work,
            buffers,
            paths,
            log,
            own,
            faults,
        } = &mut *self.state;
        let switch = self.switch;
        out.clear();
        work.payload.load(packet);
        let machine = Machine {
            ir: &switch.program.ir,
            objects: &switch.objects,
            own,
            is_alone: switch.lanes() == 1,
            holds: &[],
            out,
            faults,
            now,
            log,
            journal: explain.then(|| Box::new(Journal::new(&switch.program))),
        };
        let mut run = Run {
            machine,
            tables: &switch.tables,
            version: switch.version,
            profiles: &switch.profiles,
            replication: &switch.replication,
            buffers,
            paths,
            none: &switch.none,
        };
        run.packet(ingress_port, work);
        let steps = run.machine.journal.take().map(|journal| journal.steps);
        out.dropped = out.sent.is_empty();
        steps.unwrap_or_default()
    }
}
