//! Tables as a control plane writes and reads them.

use std::time::Duration;

use super::profiles;
use crate::cells::CounterValue;
use crate::entry::{ActionCall, Entry, EntryView, MatchValue};
use crate::error::TableError;
use crate::meter::Meter;
use crate::profile::Profile;
use crate::program::Program;
use crate::spec::{TableId, TableSpec};
use crate::switch::Switch;
use crate::table::Table;

impl Switch {
    pub fn insert(&mut self, table: TableId, entry: Entry) -> Result<(), TableError> {
        let (table, spec, program, profiles) = self.writable(table)?;
        let reference = profiles::acquire(profiles, program, spec, &entry.action, None)?;
        let inserted = table.insert(spec, program.actions(), &program.ir, entry, reference);
        if inserted.is_err() {
            profiles::release(profiles, spec, reference);
        }
        inserted
    }

    /// Gives the entry of the same key another action. Its direct counter goes on.
    pub fn modify(&mut self, table: TableId, entry: Entry) -> Result<(), TableError> {
        let (table, spec, program, profiles) = self.writable(table)?;
        let before = match spec.profile {
            Some(_) => table.reference_of(spec, &entry.key, entry.priority)?,
            None => None,
        };
        let reference = profiles::acquire(profiles, program, spec, &entry.action, before)?;
        // The table refuses nothing from here on if it has a profile.
        table.modify(spec, program.actions(), &program.ir, entry, reference)
    }

    pub fn delete(
        &mut self,
        table: TableId,
        key: &[MatchValue],
        priority: i32,
    ) -> Result<(), TableError> {
        let (table, spec, _, profiles) = self.writable(table)?;
        let reference = table.delete(spec, key, priority)?;
        profiles::release(profiles, spec, reference);
        Ok(())
    }

    pub fn set_default(&mut self, table: TableId, action: ActionCall) -> Result<(), TableError> {
        self.changes();
        let (table, spec, program) = parts(&mut self.tables, &self.program, table)?;
        match &spec.default {
            Some(default) if default.is_const => Err(TableError::ConstDefault),
            // The default action is NoAction (P4Runtime section 9.1.3).
            _ if spec.profile.is_some() => Err(TableError::ConstDefault),
            _ => table.set_default(spec, program.actions(), &program.ir, action),
        }
    }

    /// Restores the program's default action.
    pub fn reset_default(&mut self, table: TableId) -> Result<(), TableError> {
        self.changes();
        let (table, spec, program) = parts(&mut self.tables, &self.program, table)?;
        table.reset_default(spec, program.actions(), &program.ir)
    }

    /// Numbers of the tables' entries.
    pub fn table_sizes(&self) -> impl Iterator<Item = usize> {
        self.tables.iter().map(Table::len)
    }

    /// `None`: a miss does nothing.
    pub fn default_entry(&self, table: TableId) -> Result<Option<&ActionCall>, TableError> {
        Ok(self
            .tables
            .get(table.0)
            .ok_or(TableError::NoSuchObject)?
            .default_call())
    }

    /// Entries in no particular order. An unknown table has none.
    pub fn entries(&self, table: TableId) -> impl Iterator<Item = EntryView> {
        self.entries_from(table, 0).map(|(_, entry)| entry)
    }

    /// Entries from row `from` on, each with its row: a table can be read in pieces while nothing is written.
    pub fn entries_from(
        &self,
        table: TableId,
        from: usize,
    ) -> impl Iterator<Item = (usize, EntryView)> {
        self.settle();
        let parts = (self.tables.get(table.0)).zip(self.program.tables().get(table.0));
        parts
            .into_iter()
            .flat_map(move |(entries, spec)| entries.entries(spec, &self.program.ir, from))
    }

    /// The entry of exactly this key.
    pub fn entry(
        &self,
        table: TableId,
        key: &[MatchValue],
        priority: i32,
    ) -> Result<EntryView, TableError> {
        self.settle();
        let parts = (self.tables.get(table.0)).zip(self.program.tables().get(table.0));
        let (entries, spec) = parts.ok_or(TableError::NoSuchObject)?;
        entries.entry(spec, &self.program.ir, key, priority)
    }

    pub fn direct_counter_read(
        &self,
        table: TableId,
        key: &[MatchValue],
        priority: i32,
    ) -> Result<CounterValue, TableError> {
        self.settle();
        let (Some(entries), Some(spec)) =
            (self.tables.get(table.0), self.program.tables().get(table.0))
        else {
            return Err(TableError::NoSuchObject);
        };
        entries.counter(spec, key, priority)
    }

    pub fn direct_counter_write(
        &mut self,
        table: TableId,
        key: &[MatchValue],
        priority: i32,
        value: CounterValue,
    ) -> Result<(), TableError> {
        self.settle();
        let (table, spec, _) = parts(&mut self.tables, &self.program, table)?;
        table.set_counter(spec, key, priority, value)
    }

    /// The counter of the default entry, which counts misses.
    pub fn default_counter_read(&self, table: TableId) -> Result<CounterValue, TableError> {
        self.settle();
        let parts = (self.tables.get(table.0)).zip(self.program.tables().get(table.0));
        let (entries, spec) = parts.ok_or(TableError::NoSuchObject)?;
        entries.default_counter(spec)
    }

    /// Returns what it was.
    pub fn default_counter_write(
        &mut self,
        table: TableId,
        value: CounterValue,
    ) -> Result<CounterValue, TableError> {
        self.settle();
        let (table, spec, _) = parts(&mut self.tables, &self.program, table)?;
        table.set_default_counter(spec, value)
    }

    /// Zero: none. Returns what it was. `now` is the time since the switch started; an entry that was never hit counts
    /// from the first call on.
    pub fn set_idle_timeout(
        &mut self,
        table: TableId,
        key: &[MatchValue],
        priority: i32,
        timeout: Duration,
        now: Duration,
    ) -> Result<Duration, TableError> {
        self.settle();
        let (table, spec, _) = parts(&mut self.tables, &self.program, table)?;
        table.set_idle_timeout(spec, key, priority, timeout, now)
    }

    /// Entries that were idle for their timeouts; each is found again when another timeout has passed. Looks at
    /// `budget` rows from row `from` on, and returns the row to go on with, `None` at the end.
    pub fn expired(
        &mut self,
        table: TableId,
        from: usize,
        budget: usize,
        now: Duration,
        found: &mut Vec<EntryView>,
    ) -> Option<usize> {
        self.settle();
        let (table, spec, program) = parts(&mut self.tables, &self.program, table).ok()?;
        table.expired(spec, &program.ir, from, budget, now, found)
    }

    /// The meter of a table's entry.
    pub fn direct_meter_mut(
        &mut self,
        table: TableId,
        key: &[MatchValue],
        priority: i32,
    ) -> Result<&mut Meter, TableError> {
        let (table, spec, _) = parts(&mut self.tables, &self.program, table)?;
        table.meter_of(spec, key, priority)
    }

    fn writable(
        &mut self,
        table: TableId,
    ) -> Result<(&mut Table, &TableSpec, &Program, &mut [Profile]), TableError> {
        self.changes();
        let (table, spec, program) = parts(&mut self.tables, &self.program, table)?;
        if spec.is_const {
            Err(TableError::ConstTable)
        } else {
            Ok((table, spec, program, &mut self.profiles))
        }
    }
}

fn parts<'a>(
    tables: &'a mut [Table],
    program: &'a Program,
    table: TableId,
) -> Result<(&'a mut Table, &'a TableSpec, &'a Program), TableError> {
    match (tables.get_mut(table.0), program.tables().get(table.0)) {
        (Some(entries), Some(spec)) => Ok((entries, spec, program)),
        _ => Err(TableError::NoSuchObject),
    }
}
