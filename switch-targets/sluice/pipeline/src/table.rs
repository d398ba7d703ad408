//! A match-action table: its entries, its default action, its direct counters.

use std::time::Duration;

use crate::bits::{self, Bits};
use crate::entry::{ActionCall, CounterValue, Entry, EntryView, MatchValue};
use crate::error::TableError;
use crate::expr::{Args, Scope};
use crate::idle::Idle;
use crate::ir::{self, Ir, Next, ParamHome};
use crate::pattern;
use crate::spec::{ActionId, ActionSpec, TableSpec};
use crate::tuple_space::TupleSpace;

/// An action ready to run, and where control goes after it.
#[derive(Debug)]
pub struct Bound {
    pub action: usize,
    pub args: Args,
    pub next: Next,
}

/// What a lookup found.
#[derive(Clone, Copy, Debug)]
pub enum Found {
    Hit(usize),
    Miss,
}

#[derive(Debug)]
pub struct Table {
    id: usize,
    /// The keys, which are kept nowhere else.
    index: TupleSpace,
    /// By row, as the index numbers them.
    rows: Vec<Option<Bound>>,
    free: Vec<usize>,
    /// By row; empty when the table does not count.
    counters: Vec<CounterValue>,
    /// Of the default entry: misses.
    misses: CounterValue,
    idle: Idle,
    default: Option<(ActionCall, Bound)>,
    miss: Next,
    key: Vec<u8>,
}

impl Table {
    /// An empty table with the default action that the program sets.
    pub fn new(
        id: usize,
        spec: &TableSpec,
        actions: &[ActionSpec],
        ir: &Ir,
    ) -> Result<Table, TableError> {
        let mut table = Table {
            id,
            index: TupleSpace::default(),
            rows: Vec::new(),
            free: Vec::new(),
            counters: Vec::new(),
            misses: CounterValue::default(),
            idle: Idle::default(),
            default: None,
            miss: ir.tables[id].after_miss(None),
            key: vec![0; ir.tables[id].key_len],
        };
        table.reset_default(spec, actions, ir)?;
        Ok(table)
    }

    /// Finds the entry for the packet.
    #[inline]
    pub fn lookup(&mut self, keys: &[ir::Key], scope: &Scope) -> Found {
        for key in keys {
            let field = &mut self.key[key.offset..key.offset + key.len];
            key.source.write(scope, key.width, field);
            if let Some(mask) = &key.mask {
                field
                    .iter_mut()
                    .zip(mask)
                    .for_each(|(byte, mask)| *byte &= mask);
            }
        }
        self.index.lookup(&self.key).map_or(Found::Miss, Found::Hit)
    }

    /// A packet of so many bytes has found this.
    #[inline]
    pub fn count(&mut self, found: Found, bytes: u64, now: Duration) {
        let counter = match found {
            Found::Hit(row) => {
                self.idle.hit(row, now);
                self.counters.get_mut(row)
            }
            Found::Miss => Some(&mut self.misses),
        };
        if let Some(counter) = counter {
            counter.packets = counter.packets.wrapping_add(1);
            counter.bytes = counter.bytes.wrapping_add(bytes);
        }
    }

    /// What to run, if anything.
    pub fn bound(&self, found: Found) -> Option<&Bound> {
        match found {
            Found::Hit(row) => self.rows.get(row)?.as_ref(),
            Found::Miss => self.default.as_ref().map(|(_, bound)| bound),
        }
    }

    /// Where a miss without a default action leads.
    pub fn miss(&self) -> Next {
        self.miss
    }

    pub fn insert(
        &mut self,
        spec: &TableSpec,
        actions: &[ActionSpec],
        ir: &Ir,
        entry: Entry,
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
            self.counters
                .resize(self.rows.len(), CounterValue::default());
            self.counters[row] = CounterValue::default();
        }
        if spec.idle_timeout {
            self.idle.reset(row);
        }
        self.index.insert(identity.pattern, identity.priority, row);
        self.rows[row] = Some(bound);
        Ok(())
    }

    pub fn modify(
        &mut self,
        spec: &TableSpec,
        actions: &[ActionSpec],
        ir: &Ir,
        entry: Entry,
    ) -> Result<(), TableError> {
        let row = self.find(spec, &entry.key, entry.priority)?;
        let bound = self.bind(spec, actions, ir, &entry.action)?;
        self.rows[row] = Some(bound);
        Ok(())
    }

    pub fn delete(
        &mut self,
        spec: &TableSpec,
        key: &[MatchValue],
        priority: i32,
    ) -> Result<(), TableError> {
        let identity = pattern::identify(&spec.keys, key, priority)?;
        let row = self.index.remove(&identity.pattern, identity.priority);
        let row = row.ok_or(TableError::NotFound)?;
        if spec.idle_timeout {
            self.idle.reset(row);
        }
        self.rows[row] = None;
        self.free.push(row);
        Ok(())
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
        self.default = Some((call, Bound { action, args, next }));
        Ok(())
    }

    pub fn reset_default(
        &mut self,
        spec: &TableSpec,
        actions: &[ActionSpec],
        ir: &Ir,
    ) -> Result<(), TableError> {
        self.misses = CounterValue::default();
        match &spec.default {
            Some(default) => {
                let call = ActionCall {
                    action: default.action,
                    args: default.args.clone(),
                };
                self.set_default(spec, actions, ir, call)
            }
            None => {
                self.default = None;
                Ok(())
            }
        }
    }

    pub fn default_call(&self) -> Option<&ActionCall> {
        self.default.as_ref().map(|(call, _)| call)
    }

    /// From row `from` on, each with its row. Rows keep their order while nothing is written.
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

    fn view(&self, spec: &TableSpec, ir: &Ir, row: usize) -> Option<EntryView> {
        let (bound, rule) = (self.rows.get(row)?.as_ref()?, self.index.rule(row)?);
        let entry = Entry {
            key: pattern::key_of(&spec.keys, rule),
            // The index ranks entries of tables without priorities by itself.
            priority: if spec.prioritised { rule.priority } else { 0 },
            action: call_of(ir, bound),
        };
        let counter = self.counters.get(row).copied();
        let idle = self.idle.view(row);
        Some(EntryView {
            entry,
            counter,
            idle,
        })
    }

    pub fn len(&self) -> usize {
        self.rows.len() - self.free.len()
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
            .copied()
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
            .ok_or(TableError::NoDirectCounter)? = value;
        Ok(())
    }

    /// What the default entry has counted.
    pub fn default_counter(&self, spec: &TableSpec) -> Result<CounterValue, TableError> {
        match spec.direct_counter {
            true => Ok(self.misses),
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
        self.misses = value;
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

    /// As [`Idle::sweep`].
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
        call: &ActionCall,
    ) -> Result<Bound, TableError> {
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

/// The call that was bound.
fn call_of(ir: &Ir, bound: &Bound) -> ActionCall {
    let Args { narrow, wide } = &bound.args;
    let args = ir.actions[bound.action].params.iter();
    let args = args.map(|param| match param.home {
        ParamHome::Narrow(at) => Bits::from_u128(param.width, narrow[at]),
        ParamHome::Wide { offset, len } => Bits::cut(param.width, &wide[offset..offset + len]),
    });
    ActionCall {
        action: ActionId(bound.action),
        args: args.collect(),
    }
}

/// The arguments of a call in the form that its action reads.
pub fn bind_args(actions: &[ActionSpec], ir: &Ir, call: &ActionCall) -> Result<Args, TableError> {
    let (Some(spec), Some(action)) = (actions.get(call.action.0), ir.actions.get(call.action.0))
    else {
        return Err(TableError::NoSuchObject);
    };
    let bad = |cause| TableError::BadArguments {
        action: spec.name.clone(),
        cause,
    };
    if call.args.len() != action.params.len() {
        return Err(bad("their number is wrong"));
    }
    let (mut narrow, mut wide) = (Vec::new(), Vec::new());
    for (param, value) in action.params.iter().zip(&call.args) {
        if param.width != value.width() {
            return Err(bad("one has another width"));
        }
        match param.home {
            ParamHome::Narrow(_) => narrow.push(bits::read_low(value.bytes())),
            ParamHome::Wide { .. } => wide.extend_from_slice(value.bytes()),
        }
    }
    Ok(Args {
        narrow: narrow.into(),
        wide: wide.into(),
    })
}
