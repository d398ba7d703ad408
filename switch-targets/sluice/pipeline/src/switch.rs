//! A program with all that changes while it runs.

use std::time::Duration;

use crate::entry::{ActionCall, CounterValue, Entry, EntryView, MatchValue, Replica};
use crate::error::{LoadError, TableError};
use crate::externs::ExternRegistry;
use crate::outcome::Outcome;
use crate::program::Program;
use crate::spec::{CounterId, TableId};

/// Packets that the switch itself gave up, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Resubmitted or recirculated more often than a packet may be.
    pub too_many_passes: u64,
    /// One packet asked for more copies than a packet may have.
    pub too_many_copies: u64,
}

/// One thread's switch: program, tables, counters, extern objects.
pub struct Switch {
    program: Program,
    faults: Faults,
}

impl Switch {
    pub fn new(program: Program, externs: &ExternRegistry) -> Result<Switch, LoadError> {
        let _ = externs;
        Ok(Switch {
            program,
            faults: Faults::default(),
        })
    }

    pub fn program(&self) -> &Program {
        &self.program
    }

    pub fn faults(&self) -> Faults {
        self.faults
    }

    pub fn insert(&mut self, _table: TableId, _entry: Entry) -> Result<(), TableError> {
        Err(TableError::NoSuchObject)
    }

    /// Gives the entry of the same key another action. Its direct counter goes on.
    pub fn modify(&mut self, _table: TableId, _entry: Entry) -> Result<(), TableError> {
        Err(TableError::NoSuchObject)
    }

    pub fn delete(
        &mut self,
        _table: TableId,
        _key: &[MatchValue],
        _priority: i32,
    ) -> Result<(), TableError> {
        Err(TableError::NoSuchObject)
    }

    pub fn set_default(&mut self, _table: TableId, _action: ActionCall) -> Result<(), TableError> {
        Err(TableError::NoSuchObject)
    }

    /// Back to what the program says.
    pub fn reset_default(&mut self, _table: TableId) -> Result<(), TableError> {
        Err(TableError::NoSuchObject)
    }

    pub fn default_entry(&self, _table: TableId) -> Result<Option<&ActionCall>, TableError> {
        Err(TableError::NoSuchObject)
    }

    /// In no particular order. An unknown table has none.
    pub fn entries(&self, _table: TableId) -> impl Iterator<Item = EntryView<'_>> {
        std::iter::empty()
    }

    pub fn direct_counter_read(
        &self,
        _table: TableId,
        _key: &[MatchValue],
        _priority: i32,
    ) -> Result<CounterValue, TableError> {
        Err(TableError::NoSuchObject)
    }

    pub fn direct_counter_write(
        &mut self,
        _table: TableId,
        _key: &[MatchValue],
        _priority: i32,
        _value: CounterValue,
    ) -> Result<(), TableError> {
        Err(TableError::NoSuchObject)
    }

    pub fn counter_read(
        &self,
        _counter: CounterId,
        _index: usize,
    ) -> Result<CounterValue, TableError> {
        Err(TableError::NoSuchObject)
    }

    pub fn counter_write(
        &mut self,
        _counter: CounterId,
        _index: usize,
        _value: CounterValue,
    ) -> Result<(), TableError> {
        Err(TableError::NoSuchObject)
    }

    /// The copies that multicast group `group` makes; none deletes it. Group 0 does not exist.
    pub fn set_multicast_group(&mut self, _group: u16, _replicas: Vec<Replica>) {}

    /// The copies that clone session `session` makes; none deletes it.
    pub fn set_clone_session(&mut self, _session: u16, _replicas: Vec<Replica>) {}

    /// Runs one packet to its end: all passes, all copies. `now` is the time since the switch started.
    pub fn process(&mut self, ingress_port: u16, packet: &[u8], now: Duration, out: &mut Outcome) {
        let _ = (ingress_port, packet, now);
        out.clear();
        out.dropped = true;
    }
}
