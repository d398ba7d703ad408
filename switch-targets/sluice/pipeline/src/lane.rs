//! A lane: the buffers with which one thread runs packets through a switch that several threads share.
//!
//! ```text
//!   lane 0: buffers, traces, tallies ─┐      ┌─ tables, profiles, registers, meters, extern objects
//!   lane 1: the same of its own ──────────────┴─ all ┴─ counters, which a tally reaches before they are read
//! ```
//! Packets of one flow stay in their order as long as they stay in one lane.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use crate::effects::{EffectLog, Objects};
use crate::expr::Args;
use crate::externs::ExternArg;
use crate::interpreter::{Interpreter, LaneScratch};
use crate::journal::{Journal, Step};
use crate::outcome::{Faults, Outcome};
use crate::packet_run::{Buffers, PacketRun, Replication};
use crate::packet_state::PacketState;
use crate::phv::Phv;
use crate::profile::Profile;
use crate::program::Program;
use crate::queue::{Queue, Queues};
use crate::table::Table;
use crate::trace_cache::TraceCache;

/// A lane's state from packet to packet.
pub struct LaneState {
    pub packet: PacketState,
    pub buffers: Buffers,
    pub traces: TraceCache,
    pub log: EffectLog,
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
            log: EffectLog::default(),
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

/// The parts of a switch that all its lanes share.
pub struct Shared<'a> {
    pub program: &'a Program,
    pub objects: &'a Objects,
    pub tables: &'a [Table],
    /// Version of all tables together.
    pub version: u64,
    pub profiles: &'a [Profile],
    pub replication: &'a Replication,
    pub none: &'a Args,
    /// The switch has one lane.
    pub is_alone: bool,
}

/// A lane that a thread has taken. While it has it, it reads nothing else of the switch: that would wait for itself.
pub struct Lane<'a> {
    shared: Shared<'a>,
    state: MutexGuard<'a, LaneState>,
}

impl<'a> Lane<'a> {
    pub(crate) fn take(shared: Shared<'a>, state: &'a Mutex<LaneState>) -> Lane<'a> {
        Lane {
            shared,
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
        let shared = &self.shared;
        out.clear();
        packet.payload.load(bytes);
        let interpreter = Interpreter {
            ir: &shared.program.ir,
            objects: shared.objects,
            lane_scratch,
            is_alone: shared.is_alone,
            holds: &[],
            out,
            faults,
            now,
            log,
            journal: explain.then(|| Box::new(Journal::new(shared.program))),
        };
        let mut run = PacketRun {
            interpreter,
            tables: shared.tables,
            version: shared.version,
            profiles: shared.profiles,
            replication: shared.replication,
            buffers,
            traces,
            queues,
            none: shared.none,
        };
        run.packet(ingress_port, packet);
        let steps = run.interpreter.journal.take().map(|journal| journal.steps);
        out.dropped = out.sent.is_empty();
        steps.unwrap_or_default()
    }
}
