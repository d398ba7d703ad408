//! What keys that left their SAs have spent. A key that comes back must not start again: that would reuse IVs on the way
//! out and accept replays on the way in.

use std::collections::VecDeque;

use crate::limits::Usage;

/// What an SA has used of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent {
    /// The highest sequence number sent or accepted.
    pub(crate) sequence: u64,
    pub(crate) used: Usage,
}

/// An SA that can go on where another one of the same key stopped.
pub trait Resumable {
    fn spent(&self) -> Spent;
    /// No sequence number that is spent is used or accepted again.
    fn resume(&mut self, spent: Spent);
}

/// The last `capacity` retired keys, each named by a `K` (never the key itself) and with what it spent.
pub struct Retired<K> {
    capacity: usize,
    keys: VecDeque<(K, Spent)>,
}

impl<K: PartialEq> Retired<K> {
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            keys: VecDeque::new(),
        }
    }

    pub fn retire(&mut self, key: K, spent: Spent) {
        self.keys.push_back((key, spent));
        if self.keys.len() > self.capacity {
            self.keys.pop_front();
        }
    }

    /// The key comes back.
    pub fn take(&mut self, key: &K) -> Option<Spent> {
        let index = self.keys.iter().position(|(retired, _)| retired == key)?;
        self.keys.remove(index).map(|(_, spent)| spent)
    }
}
