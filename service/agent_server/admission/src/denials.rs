//! Refused certificates, or other names: each may connect once in a while to be told the reason.

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::time::{Duration, Instant};

/// Denied names, `most` of them. A name that is not met for `keep` is forgotten; over the limit, the name that was met longest ago.
#[derive(Debug)]
pub struct Denials<K> {
    most: usize,
    keep: Duration,
    told_every: Duration,
    denied: HashMap<K, Denied>,
    met: BTreeSet<(Instant, K)>,
}

#[derive(Debug)]
struct Denied {
    since: Instant,
    /// The time at which the name was last allowed to connect.
    told: Option<Instant>,
    /// The time at which the name was denied, or last tried to connect.
    met: Instant,
}

impl<K: Copy + Eq + Hash + Ord> Denials<K> {
    /// A denied name may connect once in `told_every`, and for that time.
    #[must_use]
    pub fn new(most: usize, keep: Duration, told_every: Duration) -> Self {
        Self {
            most,
            keep,
            told_every,
            denied: HashMap::new(),
            met: BTreeSet::new(),
        }
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.denied.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.denied.is_empty()
    }

    pub fn deny(&mut self, name: K, now: Instant) {
        self.denied.entry(name).or_insert(Denied {
            since: now,
            told: None,
            met: now,
        });
        self.meet(name, now);
        while self.denied.len() > self.most {
            let Some((_, oldest)) = self.met.pop_first() else {
                break;
            };
            self.denied.remove(&oldest);
        }
    }

    /// Returns whether a new connection of this name may succeed.
    pub fn may_connect(&mut self, name: K, now: Instant) -> bool {
        self.meet(name, now);
        let told_every = self.told_every;
        let Some(denied) = self.denied.get_mut(&name) else {
            return true;
        };
        if denied.told.is_some() && !denied.over(now, told_every) {
            return false;
        }
        denied.told = Some(now);
        true
    }

    /// Returns whether the connections of this name must end.
    #[must_use]
    pub fn ends(&self, name: K, now: Instant) -> bool {
        let denied = self.denied.get(&name);
        denied.is_some_and(|denied| denied.over(now, self.told_every))
    }

    /// Forgets the names that were not met for `keep`.
    pub fn expire(&mut self, now: Instant) {
        while let Some((met, name)) = self.met.first().copied() {
            if now < met + self.keep {
                return;
            }
            self.met.remove(&(met, name));
            self.denied.remove(&name);
        }
    }

    fn meet(&mut self, name: K, now: Instant) {
        if let Some(denied) = self.denied.get_mut(&name) {
            self.met.remove(&(denied.met, name));
            denied.met = now;
            self.met.insert((now, name));
        }
    }
}

impl Denied {
    /// Returns whether the time of the last permitted connection is over.
    fn over(&self, now: Instant, told_every: Duration) -> bool {
        now >= self.told.unwrap_or(self.since) + told_every
    }
}
