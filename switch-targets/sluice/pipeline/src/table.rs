//! A match-action table: its entries, its default action, its direct counters.

use crate::bits;
use crate::entry::{ActionCall, CounterValue, Entry, EntryAction, EntryView, MatchValue};
use crate::error::TableError;
use crate::expr::{Args, Scope};
use crate::ir::{self, Ir, Next, ParamHome};
use crate::meter::Meter;
use crate::pattern::{self, Identity};
use crate::profile::Reference;
use crate::spec::{ActionSpec, TableSpec};
use crate::tuple_space::TupleSpace;

/// An action ready to run, and where control goes after it.
#[derive(Debug)]
pub struct Bound {
    pub action: usize,
    pub args: Args,
    pub next: Next,
}

#[derive(Debug)]
struct Row {
    entry: Entry,
    identity: Identity,
    bound: Bound,
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
    index: TupleSpace,
    rows: Vec<Option<Row>>,
    free: Vec<usize>,
    /// By row; empty when the table does not count.
    counters: Vec<CounterValue>,
    /// By row; empty when the table has no meter.
    meters: Vec<Meter>,
    /// By row; empty when the table has no action profile.
    references: Vec<Option<Reference>>,
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
            meters: Vec::new(),
            references: Vec::new(),
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

    pub fn count(&mut self, row: usize, bytes: u64) {
        if let Some(counter) = self.counters.get_mut(row) {
            counter.packets = counter.packets.wrapping_add(1);
            counter.bytes = counter.bytes.wrapping_add(bytes);
        }
    }

    /// What to run, if anything.
    pub fn bound(&self, found: Found) -> Option<&Bound> {
        match found {
            Found::Hit(row) => self.rows.get(row)?.as_ref().map(|row| &row.bound),
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
            self.counters
                .resize(self.rows.len(), CounterValue::default());
            self.counters[row] = CounterValue::default();
        }
        if spec.direct_meter.is_some() {
            self.meters.resize(self.rows.len(), Meter::default());
            self.meters[row] = Meter::default();
        }
        if spec.profile.is_some() {
            self.references.resize(self.rows.len(), None);
            self.references[row] = reference;
        }
        self.index
            .insert(identity.pattern.clone(), identity.priority, row);
        self.rows[row] = Some(Row {
            entry,
            identity,
            bound,
        });
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
        if let Some(row) = &mut self.rows[row] {
            row.entry = entry;
            row.bound = bound;
        }
        if let Some(of_row) = self.references.get_mut(row) {
            *of_row = reference;
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
        let row = self.find(spec, key, priority)?;
        if let Some(removed) = self.rows[row].take() {
            self.index
                .remove(&removed.identity.pattern, removed.identity.priority);
            self.free.push(row);
        }
        Ok(self.references.get_mut(row).and_then(Option::take))
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

    pub fn entries(&self) -> impl Iterator<Item = EntryView<'_>> {
        self.rows.iter().enumerate().filter_map(|(at, row)| {
            let counter = self.counters.get(at).copied();
            let meter = self.meters.get(at);
            row.as_ref().map(|row| EntryView {
                entry: &row.entry,
                counter,
                meter,
            })
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

    pub fn reference(&self, row: usize) -> Option<Reference> {
        self.references.get(row).copied().flatten()
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

    pub fn meter(&mut self, row: usize) -> Option<&mut Meter> {
        self.meters.get_mut(row)
    }

    /// The meter of an entry.
    pub fn meter_of(
        &mut self,
        spec: &TableSpec,
        key: &[MatchValue],
        priority: i32,
    ) -> Result<&mut Meter, TableError> {
        let row = self.find(spec, key, priority)?;
        self.meters.get_mut(row).ok_or(TableError::NoDirectMeter)
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
