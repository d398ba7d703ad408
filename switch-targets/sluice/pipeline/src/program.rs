//! A loaded program: immutable, shared by nothing, indexed by everything.

use crate::error::LoadError;
use crate::spec::{ActionId, ActionSpec, CounterId, CounterSpec, DigestSpec, TableId, TableSpec};

/// A program that is known to be executable, but for its externs (see [`crate::Switch::new`]).
#[derive(Debug)]
pub struct Program {
    tables: Vec<TableSpec>,
    actions: Vec<ActionSpec>,
    counters: Vec<CounterSpec>,
    digests: Vec<DigestSpec>,
}

impl Program {
    /// From what p4c's bmv2 back end writes for v1model.
    pub fn load(json: &[u8]) -> Result<Program, LoadError> {
        let _ = json;
        Err(LoadError {
            place: String::new(),
            cause: "the loader is not written".to_owned(),
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

    /// Learn lists, one for each call site.
    pub fn digests(&self) -> &[DigestSpec] {
        &self.digests
    }

    pub fn table(&self, name: &str) -> Option<TableId> {
        self.tables
            .iter()
            .position(|table| table.name == name)
            .map(TableId)
    }

    /// p4c repeats an action that several tables use: the one that `table` lists.
    pub fn action(&self, table: TableId, name: &str) -> Option<ActionId> {
        let actions = &self.tables.get(table.0)?.actions;
        actions.iter().map(|listed| listed.action).find(|id| {
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
}
