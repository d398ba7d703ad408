//! A program with all that changes while it runs.

mod meters;
mod profiles;

use std::time::Duration;

use parking_lot::Mutex;

use crate::bits::Bits;
use crate::bitstream::mask;
use crate::cells::{Counter, Register};
use crate::entry::{ActionCall, CounterValue, Entry, EntryView, MatchValue, Replica};
use crate::error::{LoadError, TableError};
use crate::expr::Args;
use crate::externs::ExternRegistry;
use crate::journal::Step;
use crate::lane::{Lane, State};
use crate::machine::Objects;
use crate::meter::Meter;
use crate::outcome::{Faults, Outcome};
use crate::process::{CloneSession, Replication};
use crate::profile::Profile;
use crate::program::Program;
use crate::spec::{CounterId, ProfileSpec, RegisterId, TableId, TableSpec, ValueSetId};
use crate::table::Table;
use crate::value_set::ValueSet;

/// One in so many packets that no recorded path takes is recorded: a recording costs as much as interpreting some tens.
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
    lanes: Vec<Mutex<State>>,
    seed: u64,
    record_every: u32,
}

impl Switch {
    /// Makes the program's extern objects and installs the entries that it fixes.
    pub fn new(program: Program, externs: &ExternRegistry) -> Result<Switch, LoadError> {
        let objects = objects(&program, externs)?;
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

    pub fn faults(&self) -> Faults {
        let faults = self.lanes.iter().map(|lane| lane.lock().faults);
        faults.fold(Faults::default(), Faults::and)
    }

    /// Starts P4's `random` from here.
    pub fn seed(&mut self, seed: u64) {
        self.seed = seed;
        for (number, lane) in self.lanes.iter_mut().enumerate() {
            lane.get_mut().own.random = seed.wrapping_add((number as u64) << 56);
        }
    }

    /// One in `every` packets that no recorded path takes is recorded (see `paths`); 0: every packet is interpreted.
    pub fn record_paths(&mut self, every: u32) {
        self.settle();
        self.record_every = every;
        for lane in &mut self.lanes {
            lane.get_mut().paths.record_every(every);
        }
    }

    /// Recorded paths in use.
    pub fn paths(&self) -> usize {
        self.lanes.iter().map(|lane| lane.lock().paths.len()).sum()
    }

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
        // What is not refused by now is not refused at all in a table with a profile.
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
            // It is NoAction (P4Runtime section 9.1.3).
            _ if spec.profile.is_some() => Err(TableError::ConstDefault),
            _ => table.set_default(spec, program.actions(), &program.ir, action),
        }
    }

    /// Back to what the program says.
    pub fn reset_default(&mut self, table: TableId) -> Result<(), TableError> {
        self.changes();
        let (table, spec, program) = parts(&mut self.tables, &self.program, table)?;
        table.reset_default(spec, program.actions(), &program.ir)
    }

    /// How many entries each table holds.
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

    /// In no particular order. An unknown table has none.
    pub fn entries(&self, table: TableId) -> impl Iterator<Item = EntryView> {
        self.entries_from(table, 0).map(|(_, entry)| entry)
    }

    /// Those from row `from` on, each with its row: a table can be read in pieces while nothing is written.
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

    /// What the default entry has counted: misses.
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

    pub fn counter_read(
        &self,
        counter: CounterId,
        index: usize,
    ) -> Result<CounterValue, TableError> {
        let cells = self
            .objects
            .counters
            .get(counter.0)
            .ok_or(TableError::NoSuchObject)?;
        cells
            .get(index)
            .map(Counter::value)
            .ok_or(TableError::BadIndex {
                index,
                size: cells.len(),
            })
    }

    pub fn counter_write(
        &mut self,
        counter: CounterId,
        index: usize,
        value: CounterValue,
    ) -> Result<(), TableError> {
        let cells = self
            .objects
            .counters
            .get_mut(counter.0)
            .ok_or(TableError::NoSuchObject)?;
        let size = cells.len();
        *cells
            .get_mut(index)
            .ok_or(TableError::BadIndex { index, size })? = value.into();
        Ok(())
    }

    pub fn register_read(&self, register: RegisterId, index: usize) -> Result<Bits, TableError> {
        let cells = self
            .objects
            .registers
            .get(register.0)
            .ok_or(TableError::NoSuchObject)?;
        let value = cells.read(index).ok_or(TableError::BadIndex {
            index,
            size: cells.len(),
        })?;
        Ok(Bits::from_u128(
            self.program.ir.registers[register.0].width,
            value,
        ))
    }

    /// `value` is cut to the register's width.
    pub fn register_write(
        &mut self,
        register: RegisterId,
        index: usize,
        value: &Bits,
    ) -> Result<(), TableError> {
        let cells = self.objects.registers.get(register.0);
        let cells = cells.ok_or(TableError::NoSuchObject)?;
        let size = cells.len();
        if index >= size {
            return Err(TableError::BadIndex { index, size });
        }
        let value = value.low_u128() & mask(self.program.ir.registers[register.0].width);
        cells.write(index, value, false);
        Ok(())
    }

    /// An unknown set has none.
    pub fn value_set(&self, set: ValueSetId) -> &[Vec<MatchValue>] {
        let found = self.objects.value_sets.get(set.0);
        found.map(ValueSet::members).unwrap_or_default()
    }

    /// Replaces all members, and returns what they were.
    pub fn set_value_set(
        &mut self,
        set: ValueSetId,
        members: Vec<Vec<MatchValue>>,
    ) -> Result<Vec<Vec<MatchValue>>, TableError> {
        let own = self.objects.value_sets.get_mut(set.0);
        let (Some(own), Some(spec)) = (own, self.program.value_sets().get(set.0)) else {
            return Err(TableError::NoSuchObject);
        };
        let new = ValueSet::new(spec, members)?;
        Ok(std::mem::replace(own, new).into_members())
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

    /// One for each thread that runs packets; at first there is one. What those before had recorded is forgotten.
    pub fn set_lanes(&mut self, count: usize) {
        self.settle();
        let faults = self.faults();
        let (seed, every) = (self.seed, self.record_every);
        self.lanes.clear();
        for _ in 0..count.max(1) {
            self.lanes.push(Mutex::new(State::new(&self.program)));
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
        Lane::take(self, &self.lanes[number % self.lanes.len()])
    }

    /// As [`Lane::process`], in the first lane.
    pub fn process(&self, ingress_port: u16, packet: &[u8], now: Duration, out: &mut Outcome) {
        self.lane(0).process(ingress_port, packet, now, out);
    }

    /// As [`Lane::explain`], in the first lane.
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
            (own.faults, own.own.random) = (other.faults, other.own.random);
        }
    }

    /// Has the tables count what lanes have kept back. It waits for threads that have lanes.
    pub(crate) fn settle(&self) {
        for lane in &self.lanes {
            lane.lock().paths.settle(&self.tables);
        }
    }

    /// Before a table changes.
    fn changes(&mut self) {
        self.version += 1;
        for lane in &mut self.lanes {
            lane.get_mut().paths.settle(&self.tables);
        }
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

fn objects(program: &Program, registry: &ExternRegistry) -> Result<Objects, LoadError> {
    let ir = &program.ir;
    let mut externs = Vec::new();
    for instance in &ir.instances {
        let made = registry.make(&instance.type_name, &instance.name, &instance.attributes);
        externs.push(made.map_err(|cause| LoadError {
            place: instance.place.clone(),
            cause,
        })?);
    }
    let mut methods = Vec::new();
    for call in &ir.calls {
        let method = externs[call.instance]
            .method(&call.method, call.args.len())
            .ok_or_else(|| {
                let type_name = &ir.instances[call.instance].type_name;
                let cause = format!(
                    "{type_name} has no method {} with {} arguments",
                    call.method,
                    call.args.len()
                );
                LoadError {
                    place: call.place.clone(),
                    cause,
                }
            })?;
        methods.push(method);
    }
    let is_updated = |register| {
        let actions = ir.actions.iter();
        actions.flat_map(|it| &it.updates).any(|it| *it == register)
    };
    Ok(Objects {
        counters: program
            .counters()
            .iter()
            .map(|counter| (0..counter.size).map(|_| Counter::default()).collect())
            .collect(),
        registers: ir
            .registers
            .iter()
            .enumerate()
            .map(|(at, register)| Register::new(register.width, register.size, is_updated(at)))
            .collect(),
        meters: program
            .meters()
            .iter()
            .map(|meter| Mutex::new(vec![Meter::default(); meter.size]))
            .collect(),
        externs,
        methods,
        value_sets: ir
            .parser
            .value_sets
            .iter()
            .map(|_| ValueSet::default())
            .collect(),
    })
}
