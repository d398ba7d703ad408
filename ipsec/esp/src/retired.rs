//! Usage of keys that left their SAs. A key that comes back must not start again: that would reuse IVs on the way
//! out and accept replays on the way in.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use crate::limits::Usage;

/// Usage of a key by its SA.
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
    keys: HashMap<K, (u64, Spent)>,
    by_age: BTreeMap<u64, K>,
    retirements: u64,
}

impl<K: Clone + Eq + Hash> Retired<K> {
    pub fn new(capacity: usize) -> Self {
        Self {
            capacity,
            keys: HashMap::new(),
            by_age: BTreeMap::new(),
            retirements: 0,
        }
    }

    pub fn retire(&mut self, key: K, spent: Spent) {
        self.take(&key);
        self.retirements += 1;
        self.by_age.insert(self.retirements, key.clone());
        self.keys.insert(key, (self.retirements, spent));
        if self.keys.len() > self.capacity
            && let Some((_, oldest)) = self.by_age.pop_first()
        {
            self.keys.remove(&oldest);
        }
    }

    /// The keys, oldest first.
    pub(crate) fn by_age(&self) -> impl Iterator<Item = (&K, Spent)> {
        let keys = self.by_age.values();
        keys.filter_map(|key| Some((key, self.keys.get(key)?.1)))
    }

    /// Takes out the usage of a key that comes back.
    pub fn take(&mut self, key: &K) -> Option<Spent> {
        let (age, spent) = self.keys.remove(key)?;
        self.by_age.remove(&age);
        Some(spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spent(sequence: u64) -> Spent {
        Spent {
            sequence,
            used: Usage::default(),
        }
    }

    #[test]
    fn the_last_retired_are_remembered_and_each_is_taken_once() {
        let mut retired = Retired::new(2);
        for key in 1..=3 {
            retired.retire(key, spent(key));
        }
        assert_eq!(retired.take(&1), None);
        assert_eq!(retired.take(&2), Some(spent(2)));
        assert_eq!(retired.take(&2), None);
        retired.retire(3, spent(30));
        retired.retire(4, spent(4));
        assert_eq!(retired.take(&3), Some(spent(30)));
        assert_eq!(retired.take(&4), Some(spent(4)));
        assert_eq!((retired.keys.len(), retired.by_age.len()), (0, 0));
    }
}
