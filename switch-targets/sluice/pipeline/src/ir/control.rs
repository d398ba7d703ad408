//! The pipelines as they run.

use crate::cond::Cond;
use crate::expr::Args;
use crate::ir::{Source, Target};
use crate::spec::MeterUnit;

/// The next node of the control flow: an index, or the end.
pub type Next = Option<usize>;

#[derive(Clone, Debug, Default)]
pub struct FlowGraph {
    pub start: Next,
    pub nodes: Vec<FlowNode>,
    /// Index of each node's step of the pipeline in the JSON: tables first, then conditions, then calls.
    pub origins: Vec<usize>,
}

#[derive(Clone, Debug)]
pub enum FlowNode {
    Branch {
        cond: Cond,
        yes: Next,
        no: Next,
    },
    Apply {
        table: usize,
    },
    /// A table that has more to do at a hit than to run the entry's action.
    ApplyExtended {
        table: usize,
    },
    /// A table without a key whose default action is fixed and not counted.
    Run {
        action: usize,
        args: Args,
        next: Next,
    },
}

#[derive(Clone, Debug)]
pub struct Table {
    pub key: Vec<Key>,
    pub key_len: usize,
    /// Actions in the order of the table's list.
    pub actions: Vec<usize>,
    pub next: AfterTable,
    /// The next node when there is no default action.
    pub base_next: Next,
    pub meter: Option<DirectMeter>,
    pub profile: Option<Indirect>,
}

#[derive(Clone, Debug)]
pub struct DirectMeter {
    pub unit: MeterUnit,
    pub target: Target,
}

#[derive(Clone, Debug)]
pub struct Key {
    pub source: Source,
    pub width: u32,
    /// Offset in the packed key.
    pub offset: usize,
    pub len: usize,
    pub mask: Option<Box<[u8]>>,
}

/// Actions come from members of an action profile.
#[derive(Clone, Debug)]
pub struct Indirect {
    pub profile: usize,
    /// The profile's actions, each with the table's own for it.
    pub actions: Vec<(usize, usize)>,
}

impl Indirect {
    /// The table's own action for one of the profile's.
    pub fn own(&self, shared: usize) -> Option<usize> {
        let found = self.actions.iter().find(|(action, _)| *action == shared);
        found.map(|(_, own)| *own)
    }
}

#[derive(Clone, Debug)]
pub enum AfterTable {
    HitMiss {
        hit: Next,
        miss: Next,
    },
    /// Next nodes in the order of the table's list of actions.
    ByAction(Vec<Next>),
}

impl Table {
    /// The next node after a hit that ran `action`.
    pub fn after_hit(&self, action: usize) -> Next {
        match &self.next {
            AfterTable::HitMiss { hit, .. } => *hit,
            AfterTable::ByAction(by_action) => self.by_action(by_action, action),
        }
    }

    /// The next node after a miss that ran `action`, the default, if there is one.
    pub fn after_miss(&self, action: Option<usize>) -> Next {
        match (&self.next, action) {
            (AfterTable::HitMiss { miss, .. }, _) => *miss,
            (AfterTable::ByAction(by_action), Some(action)) => self.by_action(by_action, action),
            (AfterTable::ByAction(_), None) => self.base_next,
        }
    }

    fn by_action(&self, by_action: &[Next], action: usize) -> Next {
        let position = self.actions.iter().position(|listed| *listed == action);
        position
            .and_then(|at| by_action.get(at))
            .map_or(self.base_next, |next| *next)
    }

    /// Everywhere that control can go.
    pub fn successors(&self) -> Vec<Next> {
        match &self.next {
            AfterTable::HitMiss { hit, miss } => vec![*hit, *miss],
            AfterTable::ByAction(by_action) => {
                by_action.iter().copied().chain([self.base_next]).collect()
            }
        }
    }
}
