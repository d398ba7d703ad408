//! A match-action table: its entries, its default action, its direct counters.

use std::time::Duration;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use crate::bits::{self, Bits};
use crate::cells::Counter;
use crate::entry::{ActionCall, CounterValue, Entry, EntryAction, EntryView, MatchValue};
use crate::error::TableError;
use crate::expr::{Args, Scope};
use crate::idle::Idle;
use crate::ir::{self, Ir, Next, ParamHome};
use crate::meter::Meter;
use crate::pattern;
use crate::profile::Reference;
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
    /// It has direct counters or idle timeouts.
    counts: bool,
    /// By row; empty when the table does not count.
    counters: Vec<Counter>,
    /// Of the default entry: misses.
    misses: Counter,
    idle: Idle,
    /// By row; empty when the table has no meter.
    meters: Mutex<Vec<Meter>>,
    /// By row; empty when the table has no action profile.
    pointers: Vec<Option<(Reference, EntryAction)>>,
    default: Option<(ActionCall, Bound)>,
    miss: Next,
    key_len: usize,
    /// Grows with every change of what a lookup can lead to.
    version: u64,
}

/// What a lookup needs room for: the key of the last one, packed.
#[derive(Debug, Default)]
pub struct KeyBuffer {
    key: Vec<u8>,
    masked: Vec<u8>,
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
            counts: spec.direct_counter || spec.idle_timeout,
            counters: Vec::new(),
            misses: Counter::default(),
            idle: Idle::default(),
            meters: Mutex::default(),
            pointers: Vec::new(),
            default: None,
            miss: ir.tables[id].after_miss(None),
            key_len: ir.tables[id].key_len,
            version: 0,
        };
        table.reset_default(spec, actions, ir)?;
        Ok(table)
    }

    /// Finds the entry for the packet.
    #[inline]
    pub fn lookup(&self, keys: &[ir::Key], scope: &Scope, buffer: &mut KeyBuffer) -> Found {
        let KeyBuffer {
            key: packed,
            masked,
        } = buffer;
        packed.resize(self.key_len, 0);
        for key in keys {
            let field = &mut packed[key.offset..key.offset + key.len];
            key.source.write(scope, key.width, field);
            if let Some(mask) = &key.mask {
                field
                    .iter_mut()
                    .zip(mask)
                    .for_each(|(byte, mask)| *byte &= mask);
            }
        }
        let row = self.index.lookup(packed, masked);
        row.map_or(Found::Miss, Found::Hit)
    }

    /// The same for a key that is packed already.
    pub fn find_packed(&self, key: &[u8]) -> Found {
        let row = self.index.lookup(key, &mut Vec::new());
        row.map_or(Found::Miss, Found::Hit)
    }

    /// The bits of the packed key that an entry may look at; beyond its end, none.
    pub fn significant(&self) -> &[u8] {
        self.index.significant()
    }

    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether [`Table::count`] does anything.
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// So many packets and bytes have found this, the last one `now`.
    #[inline]
    pub fn count(&self, found: Found, packets: u64, bytes: u64, now: Duration) {
        let counter = match found {
            Found::Hit(row) => {
                self.idle.hit(row, now);
                self.counters.get(row)
            }
            Found::Miss => Some(&self.misses),
        };
        if let Some(counter) = counter {
            counter.add(packets, bytes);
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

    /// What the default entry has counted.
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

    pub fn reference(&self, row: usize) -> Option<Reference> {
        let pointer = self.pointers.get(row)?.as_ref();
        pointer.map(|(reference, _)| *reference)
    }

    /// What an entry points to in the table's action profile.
    pub fn reference_of(
        &self,
        spec: &TableSpec,
        key: &[MatchValue],
        priority: i32,
    ) -> Result<Option<Reference>, TableError> {
        self.find(spec, key, priority)
            .map(|row| self.reference(row))
    }

    pub fn meter(&self, row: usize) -> Option<MappedMutexGuard<'_, Meter>> {
        MutexGuard::try_map(self.meters.lock(), |meters| meters.get_mut(row)).ok()
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
            // For packets that find no member.
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

impl KeyBuffer {
    /// The key of the last lookup, by the names of its fields.
    pub fn looked_up(&self, keys: &[ir::Key], spec: &TableSpec) -> Vec<(String, Bits)> {
        let fields = keys.iter().zip(&spec.keys);
        let value =
            |key: &ir::Key| Bits::cut(key.width, &self.key[key.offset..key.offset + key.len]);
        fields
            .map(|(key, spec)| (spec.name.clone(), value(key)))
            .collect()
    }
}

/// The call that was bound.
pub fn call_of(ir: &Ir, action: usize, args: &Args) -> ActionCall {
    let Args { narrow, wide } = args;
    let args = ir.actions[action].params.iter();
    let args = args.map(|param| match param.home {
        ParamHome::Narrow(at) => Bits::from_u128(param.width, narrow[at]),
        ParamHome::Wide { offset, len } => Bits::cut(param.width, &wide[offset..offset + len]),
    });
    ActionCall {
        action: ActionId(action),
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
