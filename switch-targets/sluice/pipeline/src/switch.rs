//! A program with all that changes while it runs.

mod carry;
pub mod handover;
mod objects;
mod profiles;
mod tables;

use std::time::Duration;

use parking_lot::Mutex;

use crate::effects::Objects;
use crate::entry::Replica;
use crate::error::{LoadError, TableError};
use crate::expr::Args;
use crate::externs::ExternRegistry;
use crate::journal::Step;
use crate::lane::{Lane, LaneState, Shared};
use crate::outcome::{Faults, Outcome};
use crate::packet_run::{CloneSession, Replication};
use crate::profile::Profile;
use crate::program::Program;
use crate::spec::ProfileSpec;
use crate::table::Table;

/// Packets that match no trace for each one that is recorded: a recording costs as much as interpreting some tens of packets.
const RECORD_EVERY: u32 = 16;

/// Program, tables, counters, registers, extern objects, and a lane for each thread that runs packets.
pub struct Switch {
    pub(crate) program: Program,
    pub(crate) tables: Vec<Table>,
    pub(crate) profiles: Vec<Profile>,
    pub(crate) objects: Objects,
    pub(crate) replication: Replication,
    pub(crate) none: Args,
    /// Grows with every change of a table.
    pub(crate) version: u64,
    lanes: Vec<Mutex<LaneState>>,
    seed: u64,
    record_every: u32,
}

impl Switch {
    /// Makes the program's extern objects and installs the entries that it fixes.
    pub fn new(program: Program, externs: &ExternRegistry) -> Result<Switch, LoadError> {
        let objects = Objects::new(&program, externs)?;
        let mut tables = Vec::new();
        for (id, spec) in program.tables().iter().enumerate() {
            let refused = |error: TableError| LoadError {
                place: spec.name.clone(),
                cause: error.to_string(),
            };
            let mut table =
                Table::new(id, spec, program.actions(), &program.ir).map_err(refused)?;
            for entry in &program.entries[id] {
                table
                    .insert(spec, program.actions(), &program.ir, entry.clone(), None)
                    .map_err(refused)?;
            }
            tables.push(table);
        }
        let profiles = program.profiles().iter().map(ProfileSpec::empty).collect();
        let mut switch = Switch {
            lanes: Vec::new(),
            tables,
            profiles,
            objects,
            replication: Replication::default(),
            none: Args::default(),
            version: 0,
            seed: 0,
            record_every: RECORD_EVERY,
            program,
        };
        switch.set_lanes(1);
        Ok(switch)
    }

    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Returns whether the program reads how many packets wait at a port, or how long. Its packets are interpreted.
    pub fn reads_queues(&self) -> bool {
        !self.program.ir.standard.queue.is_empty()
    }

    pub fn faults(&self) -> Faults {
        let faults = self.lanes.iter().map(|lane| lane.lock().faults);
        faults.fold(Faults::default(), Faults::and)
    }

    /// Starts P4's `random` from here.
    pub fn seed(&mut self, seed: u64) {
        self.seed = seed;
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            lane.get_mut().lane_scratch.random = seed.wrapping_add((number as u64) << 56);
        }
    }

    /// Records one in `every` packets that match no trace (see `trace_cache`); 0 interprets every packet.
    pub fn record_paths(&mut self, every: u32) {
        self.settle();
        self.record_every = every;
        for lane in &mut self.lanes {
            lane.get_mut().traces.record_every(every);
        }
    }

    /// The number of traces in all lanes' caches.
    pub fn traces(&self) -> usize {
        self.lanes.iter().map(|lane| lane.lock().traces.len()).sum()
    }

    /// The copies that multicast group `group` makes; none deletes it. Group 0 does not exist.
    pub fn set_multicast_group(&mut self, group: u16, replicas: Vec<Replica>) {
        match replicas.is_empty() {
            true => self.replication.groups.remove(&group),
            false => self.replication.groups.insert(group, replicas),
        };
    }

    /// The copies that clone session `session` makes, none deletes it; each is cut to `packet_length` bytes of the packet.
    pub fn set_clone_session(
        &mut self,
        session: u16,
        replicas: Vec<Replica>,
        packet_length: Option<usize>,
    ) {
        let made = CloneSession {
            replicas,
            packet_length,
        };
        match made.replicas.is_empty() {
            true => self.replication.sessions.remove(&session),
            false => self.replication.sessions.insert(session, made),
        };
    }

    /// Makes a lane for each thread that runs packets; at first there is one. The traces of the lanes before are forgotten.
    pub fn set_lanes(&mut self, count: usize) {
        self.settle();
        let faults = self.faults();
        let (seed, every) = (self.seed, self.record_every);
        self.lanes.clear();
        for _ in 0..count.max(1) {
            self.lanes.push(Mutex::new(LaneState::new(&self.program)));
        }
        self.lanes[0].get_mut().faults = faults;
        self.seed(seed);
        self.record_paths(every);
    }

    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Waits until no thread has the lane.
    pub fn lane(&self, number: usize) -> Lane<'_> {
        let shared = Shared {
            program: &self.program,
            objects: &self.objects,
            tables: &self.tables,
            version: self.version,
            profiles: &self.profiles,
            replication: &self.replication,
            none: &self.none,
            is_alone: self.lanes.len() == 1,
        };
        Lane::take(shared, &self.lanes[number % self.lanes.len()])
    }

    /// Runs a packet as [`Lane::process`] does, in the first lane.
    pub fn process(&self, ingress_port: u16, packet: &[u8], now: Duration, out: &mut Outcome) {
        self.lane(0).process(ingress_port, packet, now, out);
    }

    /// Runs a packet as [`Lane::explain`] does, in the first lane.
    pub fn explain(
        &self,
        ingress_port: u16,
        packet: &[u8],
        now: Duration,
        out: &mut Outcome,
    ) -> Vec<Step> {
        self.lane(0).explain(ingress_port, packet, now, out)
    }

    /// Goes on with the faults and the random numbers of another switch.
    pub(crate) fn go_on_from(&mut self, other: &Switch) {
        for (own, other) in self.lanes.iter_mut().zip(&other.lanes) {
            let (own, other) = (own.get_mut(), other.lock());
            (own.faults, own.lane_scratch.random) = (other.faults, other.lane_scratch.random);
        }
    }

    /// Has the tables count what lanes have kept back. It waits for threads that have lanes.
    pub(crate) fn settle(&self) {
        for lane in &self.lanes {
            lane.lock().traces.settle(&self.tables);
        }
    }

    /// Before a table changes.
    fn changes(&mut self) {
        self.version += 1;
        for lane in &mut self.lanes {
            lane.get_mut().traces.settle(&self.tables);
        }
    }
}
