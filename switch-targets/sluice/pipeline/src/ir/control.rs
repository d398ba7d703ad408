//! The pipelines as they run.

use crate::cond::Cond;
use crate::expr::Args;
use crate::ir::{Next, Source};

#[derive(Debug, Default)]
pub struct Flow {
    pub start: Next,
    pub nodes: Vec<FlowNode>,
}

#[derive(Debug)]
pub enum FlowNode {
    Branch {
        cond: Cond,
        yes: Next,
        no: Next,
    },
    Apply {
        table: usize,
    },
    /// A table without a key whose default action is fixed and not counted.
    Run {
        action: usize,
        args: Args,
        next: Next,
    },
}

#[derive(Debug)]
pub struct Table {
    pub key: Vec<Key>,
    pub key_len: usize,
    /// As in the table's list of actions.
    pub actions: Vec<usize>,
    pub next: AfterTable,
    /// Where to go when there is no default action.
    pub base_next: Next,
}

#[derive(Debug)]
pub struct Key {
    pub source: Source,
    pub width: u32,
    /// In the packed key.
    pub offset: usize,
    pub len: usize,
    pub mask: Option<Box<[u8]>>,
}

#[derive(Debug)]
pub enum AfterTable {
    HitMiss {
        hit: Next,
        miss: Next,
    },
    /// As in the table's list of actions.
    ByAction(Vec<Next>),
}

impl Table {
    /// Where control goes after a hit that ran `action`.
    pub fn after_hit(&self, action: usize) -> Next {
        match &self.next {
            AfterTable::HitMiss { hit, .. } => *hit,
            AfterTable::ByAction(by_action) => self.by_action(by_action, action),
        }
    }

    /// Where control goes after a miss that ran `action`, the default, if there is one.
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
