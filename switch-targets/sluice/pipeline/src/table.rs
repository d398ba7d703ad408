//! A match-action table: its entries, its default action, its direct counters.

mod entries;

use std::time::Duration;

use parking_lot::{MappedMutexGuard, Mutex, MutexGuard};

use crate::bits::{self, Bits};
use crate::cells::Counter;
use crate::entry::{ActionCall, EntryAction};
use crate::error::TableError;
use crate::expr::{Args, Scope};
use crate::idle::Idle;
use crate::ir::{self, Ir, Next, ParamHome};
use crate::meter::Meter;
use crate::profile::Reference;
use crate::spec::{ActionId, ActionSpec, TableSpec};
use crate::tuple_space::TupleSpace;

/// Result of a lookup.
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
    /// Actions by row, as the index numbers them.
    rows: Vec<Option<Bound>>,
    free: Vec<usize>,
    /// The table has direct counters or idle timeouts.
    counts: bool,
    /// Counters by row; empty when the table does not count.
    pub(crate) counters: Vec<Counter>,
    /// Counts misses, as the default entry's direct counter.
    misses: Counter,
    pub(crate) idle: Idle,
    /// Meters by row; empty when the table has no meter.
    pub(crate) meters: Mutex<Vec<Meter>>,
    /// References by row; empty when the table has no action profile.
    pointers: Vec<Option<(Reference, EntryAction)>>,
    default: Option<(ActionCall, Bound)>,
    miss: Next,
    key_len: usize,
    /// Grows with every change of what a lookup can lead to.
    version: u64,
}

/// Buffers of a lookup: the key of the last one, packed.
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

    /// Returns whether [`Table::count`] does anything.
    pub fn counts(&self) -> bool {
        self.counts
    }

    /// Counts packets and bytes whose lookups had this result; the last one was at `now`.
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

    /// The action to run, if any.
    pub fn bound(&self, found: Found) -> Option<&Bound> {
        match found {
            Found::Hit(row) => self.rows.get(row)?.as_ref(),
            Found::Miss => self.default.as_ref().map(|(_, bound)| bound),
        }
    }

    /// The next node after a miss without a default action.
    pub fn miss(&self) -> Next {
        self.miss
    }

    pub fn reference(&self, row: usize) -> Option<Reference> {
        let pointer = self.pointers.get(row)?.as_ref();
        pointer.map(|(reference, _)| *reference)
    }

    pub fn meter(&self, row: usize) -> Option<MappedMutexGuard<'_, Meter>> {
        MutexGuard::try_map(self.meters.lock(), |meters| meters.get_mut(row)).ok()
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

/// An action ready to run, and where control goes after it.
#[derive(Debug)]
pub struct Bound {
    pub action: usize,
    pub args: Args,
    pub next: Next,
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
