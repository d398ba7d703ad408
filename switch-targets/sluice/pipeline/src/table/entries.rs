//! A table's entries as a control plane writes and reads them.

use std::time::Duration;

use super::Table;
use crate::cells::{Counter, CounterValue};
use crate::entry::{ActionCall, Entry, EntryAction, EntryView, MatchValue};
use crate::error::TableError;
use crate::expr::Args;
use crate::ir::Ir;
use crate::meter::Meter;
use crate::pattern;
use crate::profile::Reference;
use crate::spec::{ActionSpec, TableSpec};
use crate::table::{Bound, bind_args, call_of};

impl Table {
    /// `reference` is what the entry's action points to in a table with an action profile.
    pub fn insert(
        &mut self,
        spec: &TableSpec,
        actions: &[ActionSpec],
        ir: &Ir,
        entry: Entry,
        reference: Option<Reference>,
    ) -> Result<(), TableError> {
        if spec.keys.is_empty() {
            return Err(TableError::NoKey);
        }
        let identity = pattern::identify(&spec.keys, &entry.key, entry.priority)?;
        let bound = self.bind(spec, actions, ir, &entry.action)?;
        if self
            .index
            .find(&identity.pattern, identity.priority)
            .is_some()
        {
            return Err(TableError::Exists);
        }
        if self.len() >= spec.size {
            return Err(TableError::Full { size: spec.size });
        }
        let row = self.free.pop().unwrap_or_else(|| {
            self.rows.push(None);
            self.rows.len() - 1
        });
        if spec.direct_counter {
            self.counters.resize_with(self.rows.len(), Counter::default);
            self.counters[row] = Counter::default();
        }
        if spec.idle_timeout {
            self.idle.reset(row);
        }
        if spec.direct_meter.is_some() {
            let meters = self.meters.get_mut();
            meters.resize(self.rows.len(), Meter::default());
            meters[row] = Meter::default();
        }
        if spec.profile.is_some() {
            self.pointers.resize(self.rows.len(), None);
            self.pointers[row] = reference.map(|reference| (reference, entry.action));
        }
        self.version += 1;
        self.index.insert(identity.pattern, identity.priority, row);
        self.rows[row] = Some(bound);
        Ok(())
    }

    /// `reference` takes the place of what [`Table::reference_of`] gives.
    pub fn modify(
        &mut self,
        spec: &TableSpec,
        actions: &[ActionSpec],
        ir: &Ir,
        entry: Entry,
        reference: Option<Reference>,
    ) -> Result<(), TableError> {
        let row = self.find(spec, &entry.key, entry.priority)?;
        let bound = self.bind(spec, actions, ir, &entry.action)?;
        self.version += 1;
        self.rows[row] = Some(bound);
        if let Some(pointer) = self.pointers.get_mut(row) {
            *pointer = reference.map(|reference| (reference, entry.action));
        }
        Ok(())
    }

    /// Returns what the entry pointed to in the table's action profile.
    pub fn delete(
        &mut self,
        spec: &TableSpec,
        key: &[MatchValue],
        priority: i32,
    ) -> Result<Option<Reference>, TableError> {
        let identity = pattern::identify(&spec.keys, key, priority)?;
        let row = self.index.remove(&identity.pattern, identity.priority);
        let row = row.ok_or(TableError::NotFound)?;
        if spec.idle_timeout {
            self.idle.reset(row);
        }
        self.version += 1;
        self.rows[row] = None;
        self.free.push(row);
        let pointer = self.pointers.get_mut(row).and_then(Option::take);
        Ok(pointer.map(|(reference, _)| reference))
    }

    pub fn set_default(
        &mut self,
        spec: &TableSpec,
        actions: &[ActionSpec],
        ir: &Ir,
        call: ActionCall,
    ) -> Result<(), TableError> {
        let args = bind_args(actions, ir, &call)?;
        if !spec.actions.contains(&call.action) {
            return Err(TableError::BadAction {
                action: actions[call.action.0].name.clone(),
            });
        }
        let action = call.action.0;
        let next = ir.tables[self.id].after_miss(Some(action));
        self.version += 1;
        self.default = Some((call, Bound { action, args, next }));
        Ok(())
    }

    pub fn reset_default(
        &mut self,
        spec: &TableSpec,
        actions: &[ActionSpec],
        ir: &Ir,
    ) -> Result<(), TableError> {
        self.misses = Counter::default();
        match &spec.default {
            Some(default) => {
                let call = ActionCall {
                    action: default.action,
                    args: default.args.clone(),
                };
                self.set_default(spec, actions, ir, call)
            }
            None => {
                self.version += 1;
                self.default = None;
                Ok(())
            }
        }
    }

    pub fn default_call(&self) -> Option<&ActionCall> {
        self.default.as_ref().map(|(call, _)| call)
    }

    /// Entries from row `from` on, each with its row. Rows keep their order while nothing is written.
    pub fn entries<'a>(
        &'a self,
        spec: &'a TableSpec,
        ir: &'a Ir,
        from: usize,
    ) -> impl Iterator<Item = (usize, EntryView)> + 'a {
        (from..self.rows.len()).filter_map(|row| Some((row, self.view(spec, ir, row)?)))
    }

    /// The entry of exactly this key.
    pub fn entry(
        &self,
        spec: &TableSpec,
        ir: &Ir,
        key: &[MatchValue],
        priority: i32,
    ) -> Result<EntryView, TableError> {
        let row = self.find(spec, key, priority)?;
        self.view(spec, ir, row).ok_or(TableError::NotFound)
    }

    /// `None` for a row without an entry.
    pub fn view(&self, spec: &TableSpec, ir: &Ir, row: usize) -> Option<EntryView> {
        let (bound, rule) = (self.rows.get(row)?.as_ref()?, self.index.rule(row)?);
        let entry = Entry {
            key: pattern::key_of(&spec.keys, rule),
            // The index ranks entries of tables without priorities by itself.
            priority: if spec.prioritised { rule.priority } else { 0 },
            action: match self.pointers.get(row) {
                Some(Some((_, action))) => action.clone(),
                _ => call_of(ir, bound.action, &bound.args).into(),
            },
        };
        let counter = self.counters.get(row).map(Counter::value);
        let (idle, meter) = (self.idle.view(row), self.meters.lock().get(row).cloned());
        Some(EntryView {
            entry,
            counter,
            idle,
            meter,
        })
    }

    pub fn len(&self) -> usize {
        self.rows.len() - self.free.len()
    }

    /// The rows that have an entry, in their order.
    pub(crate) fn used_rows(&self) -> impl Iterator<Item = usize> {
        let rows = self.rows.iter().enumerate();
        rows.filter_map(|(row, bound)| bound.as_ref().map(|_| row))
    }

    /// A number that differs when entries differ, or the order of their rows: FNV-1a of the keys.
    pub(crate) fn fingerprint(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut add = |bytes: &[u8]| {
            for byte in bytes {
                hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for rule in self.used_rows().filter_map(|row| self.index.rule(row)) {
            add(&rule.value);
            add(&rule.mask);
            add(&rule.priority.to_be_bytes());
            for range in &rule.ranges {
                add(&range.low);
                add(&range.high);
            }
        }
        hash
    }

    pub fn counter(
        &self,
        spec: &TableSpec,
        key: &[MatchValue],
        priority: i32,
    ) -> Result<CounterValue, TableError> {
        let row = self.find(spec, key, priority)?;
        self.counters
            .get(row)
            .map(Counter::value)
            .ok_or(TableError::NoDirectCounter)
    }

    pub fn set_counter(
        &mut self,
        spec: &TableSpec,
        key: &[MatchValue],
        priority: i32,
        value: CounterValue,
    ) -> Result<(), TableError> {
        let row = self.find(spec, key, priority)?;
        *self
            .counters
            .get_mut(row)
            .ok_or(TableError::NoDirectCounter)? = value.into();
        Ok(())
    }

    /// The counter of the default entry.
    pub fn default_counter(&self, spec: &TableSpec) -> Result<CounterValue, TableError> {
        match spec.direct_counter {
            true => Ok(self.misses.value()),
            false => Err(TableError::NoDirectCounter),
        }
    }

    /// Returns what it was.
    pub fn set_default_counter(
        &mut self,
        spec: &TableSpec,
        value: CounterValue,
    ) -> Result<CounterValue, TableError> {
        let old = self.default_counter(spec)?;
        self.misses = value.into();
        Ok(old)
    }

    /// Returns what it was.
    pub fn set_idle_timeout(
        &mut self,
        spec: &TableSpec,
        key: &[MatchValue],
        priority: i32,
        timeout: Duration,
        now: Duration,
    ) -> Result<Duration, TableError> {
        let row = self.find(spec, key, priority)?;
        let old = self.idle.set(row, timeout, now);
        old.ok_or(TableError::NoIdleTimeout)
    }

    /// An entry with the timeout of a row of another table has been idle for as long.
    pub fn adopt_idle(
        &mut self,
        spec: &TableSpec,
        key: &[MatchValue],
        priority: i32,
        (other, row): (&Table, usize),
    ) {
        if let Ok(own) = self.find(spec, key, priority) {
            self.idle.adopt(own, &other.idle, row);
        }
    }

    /// Finds expired entries as [`Idle::sweep`] does.
    pub fn expired(
        &mut self,
        spec: &TableSpec,
        ir: &Ir,
        from: usize,
        budget: usize,
        now: Duration,
        found: &mut Vec<EntryView>,
    ) -> Option<usize> {
        let mut rows = Vec::new();
        let next = self.idle.sweep(from, budget, now, |row| rows.push(row));
        found.extend(rows.into_iter().filter_map(|row| self.view(spec, ir, row)));
        next
    }

    /// The reference of an entry to the table's action profile.
    pub fn reference_of(
        &self,
        spec: &TableSpec,
        key: &[MatchValue],
        priority: i32,
    ) -> Result<Option<Reference>, TableError> {
        self.find(spec, key, priority)
            .map(|row| self.reference(row))
    }

    /// The meter of an entry.
    pub fn meter_of(
        &mut self,
        spec: &TableSpec,
        key: &[MatchValue],
        priority: i32,
    ) -> Result<&mut Meter, TableError> {
        let row = self.find(spec, key, priority)?;
        let meters = self.meters.get_mut();
        meters.get_mut(row).ok_or(TableError::NoDirectMeter)
    }

    fn find(
        &self,
        spec: &TableSpec,
        key: &[MatchValue],
        priority: i32,
    ) -> Result<usize, TableError> {
        let identity = pattern::identify(&spec.keys, key, priority)?;
        self.index
            .find(&identity.pattern, identity.priority)
            .ok_or(TableError::NotFound)
    }

    fn bind(
        &self,
        spec: &TableSpec,
        actions: &[ActionSpec],
        ir: &Ir,
        action: &EntryAction,
    ) -> Result<Bound, TableError> {
        let call = match action {
            EntryAction::Run(call) if spec.profile.is_none() => call,
            _ if spec.profile.is_none() => return Err(TableError::NoProfile),
            // Packets that find no member run this action.
            _ => {
                return Ok(Bound {
                    action: ir.nothing,
                    args: Args::default(),
                    next: ir.tables[self.id].after_hit(ir.nothing),
                });
            }
        };
        let args = bind_args(actions, ir, call)?;
        let action = call.action.0;
        match spec.actions.contains(&call.action) {
            true => Ok(Bound {
                action,
                args,
                next: ir.tables[self.id].after_hit(action),
            }),
            false => Err(TableError::BadAction {
                action: actions[action].name.clone(),
            }),
        }
    }
}
