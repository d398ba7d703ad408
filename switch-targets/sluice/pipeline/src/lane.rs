//! A lane: the buffers with which one thread runs packets through a switch that several threads share.
//!
//! ```text
//!   lane 0: buffers, traces, tallies ─┐      ┌─ tables, profiles, registers, meters, extern objects
//!   lane 1: the same of its own ──────────────┴─ all ┴─ counters, which a tally reaches before they are read
//! ```
//! Packets of one flow stay in their order as long as they stay in one lane.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::externs::ExternArg;
use crate::interpreter::{Interpreter, LaneScratch};
use crate::journal::{Journal, Step};
use crate::outcome::{Faults, Outcome};
use crate::packet_run::{Buffers, PacketRun};
use crate::packet_state::PacketState;
use crate::phv::Phv;
use crate::program::Program;
use crate::queue::{Queue, Queues};
use crate::switch::Switch;
use crate::trace_cache::{Log, TraceCache};

/// A lane's state from packet to packet.
pub struct LaneState {
    pub packet: PacketState,
    pub buffers: Buffers,
    pub traces: TraceCache,
    pub log: Log,
    pub queues: Queues,
    pub lane_scratch: LaneScratch,
    pub faults: Faults,
}

impl LaneState {
    pub fn new(program: &Program) -> LaneState {
        let (ir, layout) = (&program.ir, &program.ir.layout);
        let args = ir.calls.iter();
        let args = args.map(|call| vec![ExternArg::default(); call.args.len()]);
        LaneState {
            packet: PacketState::new(layout),
            buffers: Buffers {
                previous: Phv::new(layout),
                ..Buffers::default()
            },
            traces: TraceCache::default(),
            log: Log::default(),
            queues: Queues::default(),
            lane_scratch: LaneScratch {
                args: args.collect(),
                args_of: vec![0; ir.calls.len()],
                ..LaneScratch::default()
            },
            faults: Faults::default(),
        }
    }
}

/// A lane that a thread has taken. While it has it, it reads nothing else of the switch: that would wait for itself.
pub struct Lane<'a> {
    switch: &'a Switch,
    state: MutexGuard<'a, LaneState>,
}

impl<'a> Lane<'a> {
    pub(crate) fn take(switch: &'a Switch, state: &'a Mutex<LaneState>) -> Lane<'a> {
        Lane {
            switch,
            state: state.lock(),
        }
    }

    /// Tells the program of the packets that wait at a port now: none, at a port that is never observed. Needed where
    /// [`Switch::reads_queues`].
    pub fn observe(&mut self, port: u16, queue: Queue) {
        self.state.queues.observe(port, queue);
    }

    /// Runs one packet to its end: all passes, all copies. `now` is the time since the switch started.
    #[inline]
    pub fn process(&mut self, ingress_port: u16, bytes: &[u8], now: Duration, out: &mut Outcome) {
        self.run(ingress_port, bytes, now, out, false);
    }

    /// Runs a packet as [`Lane::process`] does, and returns the program's steps.
    pub fn explain(
        &mut self,
        ingress_port: u16,
        bytes: &[u8],
        now: Duration,
        out: &mut Outcome,
    ) -> Vec<Step> {
        self.run(ingress_port, bytes, now, out, true)
    }

    #[inline]
    fn run(
        &mut self,
        ingress_port: u16,
        bytes: &[u8],
        now: Duration,
        out: &mut Outcome,
        explain: bool,
    ) -> Vec<Step> {
        let LaneState {
            packet,
            buffers,
            traces,
            log,
            queues,
            lane_scratch,
            faults,
        } = &mut *self.state;
        let switch = self.switch;
        out.clear();
        packet.payload.load(bytes);
        let interpreter = Interpreter {
            ir: &switch.program.ir,
            objects: &switch.objects,
            lane_scratch,
            is_alone: switch.lanes() == 1,
            holds: &[],
            out,
            faults,
            now,
            log,
            journal: explain.then(|| Box::new(Journal::new(&switch.program))),
        };
        let mut run = PacketRun {
            interpreter,
            tables: &switch.tables,
            version: switch.version,
            profiles: &switch.profiles,
            replication: &switch.replication,
            buffers,
            traces,
            queues,
            none: &switch.none,
        };
        run.packet(ingress_port, packet);
        let steps = run.interpreter.journal.take().map(|journal| journal.steps);
        out.dropped = out.sent.is_empty();
        steps.unwrap_or_default()
    }
}
