//! A loaded program: immutable, indexed by everything.

use crate::entry::Entry;
use crate::error::LoadError;
use crate::ir::Ir;
use crate::load;
use crate::spec::{
    ActionId, ActionSpec, CounterId, CounterSpec, DigestSpec, MeterId, MeterSpec, ProfileId,
    ProfileSpec, RegisterId, RegisterSpec, TableId, TableSpec, ValueSetId, ValueSetSpec,
};

/// A program that is known to be executable, but for its externs (see [`crate::Switch::new`]).
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) ir: Ir,
    /// The entries that the program fixes, for each table.
    pub(crate) entries: Vec<Vec<Entry>>,
    pub(crate) labels: load::Labels,
    tables: Vec<TableSpec>,
    actions: Vec<ActionSpec>,
    counters: Vec<CounterSpec>,
    digests: Vec<DigestSpec>,
    meters: Vec<MeterSpec>,
    profiles: Vec<ProfileSpec>,
}

impl Program {
    /// Loads the output of p4c's bmv2 back end for v1model.
    pub fn load(json: &[u8]) -> Result<Program, LoadError> {
        let load::Loaded {
            ir,
            tables,
            actions,
            counters,
            digests,
            meters,
            profiles,
            entries,
            labels,
        } = load::load(json)?;
        Ok(Program {
            ir,
            entries,
            labels,
            tables,
            actions,
            counters,
            digests,
            meters,
            profiles,
        })
    }

    pub fn tables(&self) -> &[TableSpec] {
        &self.tables
    }

    pub fn actions(&self) -> &[ActionSpec] {
        &self.actions
    }

    /// Indexed counter arrays.
    pub fn counters(&self) -> &[CounterSpec] {
        &self.counters
    }

    /// Register arrays.
    pub fn registers(&self) -> &[RegisterSpec] {
        &self.ir.registers
    }

    /// Parser value sets.
    pub fn value_sets(&self) -> &[ValueSetSpec] {
        &self.ir.parser.value_sets
    }

    /// Learn lists, one for each call site.
    pub fn digests(&self) -> &[DigestSpec] {
        &self.digests
    }

    /// Indexed meter arrays.
    pub fn meters(&self) -> &[MeterSpec] {
        &self.meters
    }

    /// Action profiles, with and without selectors.
    pub fn profiles(&self) -> &[ProfileSpec] {
        &self.profiles
    }

    pub fn table(&self, name: &str) -> Option<TableId> {
        self.tables
            .iter()
            .position(|table| table.name == name)
            .map(TableId)
    }

    /// The action of that name that `table` lists: p4c may repeat an action that several tables use.
    pub fn action(&self, table: TableId, name: &str) -> Option<ActionId> {
        let listed = &self.tables.get(table.0)?.actions;
        listed.iter().copied().find(|id| {
            self.actions
                .get(id.0)
                .is_some_and(|action| action.name == name)
        })
    }

    pub fn counter(&self, name: &str) -> Option<CounterId> {
        self.counters
            .iter()
            .position(|counter| counter.name == name)
            .map(CounterId)
    }

    pub fn meter(&self, name: &str) -> Option<MeterId> {
        self.meters
            .iter()
            .position(|meter| meter.name == name)
            .map(MeterId)
    }

    pub fn profile(&self, name: &str) -> Option<ProfileId> {
        self.profiles
            .iter()
            .position(|profile| profile.name == name)
            .map(ProfileId)
    }

    pub fn register(&self, name: &str) -> Option<RegisterId> {
        self.ir
            .registers
            .iter()
            .position(|register| register.name == name)
            .map(RegisterId)
    }

    pub fn value_set(&self, name: &str) -> Option<ValueSetId> {
        self.value_sets()
            .iter()
            .position(|set| set.name == name)
            .map(ValueSetId)
    }
}
