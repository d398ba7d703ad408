//! Token buckets, one for each key.

use std::collections::HashMap;
use std::hash::Hash;
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct Rate {
    pub per_second: f64,
    /// The amount that may be taken at once from a full bucket.
    pub burst: f64,
}

pub struct Buckets<K> {
    rate: Rate,
    /// The time at which each bucket will be full: a bucket needs no other state, and a full one needs no entry.
    full_at: HashMap<K, Instant>,
    sweep_at: usize,
}

/// Full buckets are removed each time when the map has grown by this many entries.
const SWEEP: usize = 4096;

impl<K: Eq + Hash> Buckets<K> {
    pub fn new(rate: Rate) -> Self {
        Self {
            rate,
            full_at: HashMap::new(),
            sweep_at: SWEEP,
        }
    }

    /// Takes `amount` from the bucket. Returns false, and takes nothing, when the bucket holds less.
    pub fn take(&mut self, key: K, amount: f64, now: Instant) -> bool {
        let full_at = self.full_at.get(&key).map_or(now, |at| *at).max(now);
        let later = full_at + self.seconds(amount);
        // Tolerates rounding: a thousandth of `amount`.
        let excess = (later - now).saturating_sub(self.seconds(self.rate.burst));
        if excess > self.seconds(amount) / 1000 {
            return false;
        }
        self.put(key, later, now);
        true
    }

    /// Takes `amount` even when the bucket holds less. The debt is at most one full bucket.
    pub fn charge(&mut self, key: K, amount: f64, now: Instant) {
        let full_at = self.full_at.get(&key).map_or(now, |at| *at).max(now);
        let most = now + self.seconds(2.0 * self.rate.burst);
        let later = (full_at + self.seconds(amount)).min(most);
        self.put(key, later, now);
    }

    pub fn give_back(&mut self, key: &K, amount: f64) {
        let amount = self.seconds(amount);
        if let Some(at) = self.full_at.get_mut(key) {
            *at = at.checked_sub(amount).unwrap_or(*at);
        }
    }

    fn put(&mut self, key: K, full_at: Instant, now: Instant) {
        self.full_at.insert(key, full_at);
        if self.full_at.len() > self.sweep_at {
            self.full_at.retain(|_, at| *at > now);
            self.sweep_at = self.full_at.len() + SWEEP;
        }
    }

    fn seconds(&self, amount: f64) -> Duration {
        Duration::from_secs_f64(amount / self.rate.per_second)
    }
}
