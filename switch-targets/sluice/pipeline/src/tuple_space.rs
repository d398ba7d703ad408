//! Tuple space search: one index for every match kind.
//!
//! ```text
//!  packed key ─┬─ & mask 1 ─► hash map ─► rules, best first   rank 32 │ tuples in the order of the best
//!              ├─ & mask 2 ─► hash map ─► rules, best first   rank 24 │ priority that they hold; the search
//!              └─ & mask 3 ─► …                                rank 0  │ ends when none can beat what it has
//! ```
//! A tuple holds the rules of one mask over the whole key. An exact table is one tuple; a longest-prefix table is a
//! tuple for each prefix length, whose priority is that length; a policy table has a tuple for each combination of
//! wildcards in use, so that a hundred thousand host-to-host rules cost one probe. Ranges stay outside the mask and
//! are checked rule by rule. Many masks, or many ranges over one masked value, are searched one by one.

use std::collections::BTreeMap;
use std::hash::BuildHasher as _;
use std::sync::Arc;

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// The values that an entry matches, over the packed key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Zero outside the mask.
    pub value: Box<[u8]>,
    pub mask: Box<[u8]>,
    pub ranges: Box<[RangeCheck]>,
}

/// A range that includes both its ends; big-endian bytes of one length compare as the numbers do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RangeCheck {
    pub offset: usize,
    pub low: Box<[u8]>,
    pub high: Box<[u8]>,
}

impl RangeCheck {
    pub fn holds(&self, key: &[u8]) -> bool {
        let field = &key[self.offset..self.offset + self.low.len()];
        *self.low <= *field && *field <= *self.high
    }
}

/// The pattern of an entry as it is kept: the only copy of its key.
#[derive(Debug)]
pub struct Rule {
    pub value: Box<[u8]>,
    /// The tuple's.
    pub mask: Arc<[u8]>,
    pub ranges: Box<[RangeCheck]>,
    pub priority: i32,
}

/// The rows of one masked value, best first. Most have one.
#[derive(Debug)]
struct Bucket {
    first: u32,
    #[allow(
        clippy::box_collection,
        reason = "half as large, and hardly ever there"
    )]
    rest: Option<Box<Vec<u32>>>,
}

#[derive(Debug)]
struct Tuple {
    mask: Arc<[u8]>,
    /// The mask has all bits of the key: no masking is needed.
    full: bool,
    buckets: HashTable<Bucket>,
    /// Number of rules by priority.
    priorities: BTreeMap<i32, usize>,
    /// The best priority.
    rank: i32,
}

#[derive(Debug, Default)]
pub struct TupleSpace {
    /// Tuples by falling rank.
    tuples: Vec<Tuple>,
    /// Rules by row.
    rules: Vec<Option<Rule>>,
    hasher: RandomState,
    /// Bits of the key that a rule looks at, or that one has looked at since the space was last empty.
    significant: Vec<u8>,
}

impl Bucket {
    fn rows(&self) -> impl Iterator<Item = u32> {
        std::iter::once(self.first).chain(self.rest.iter().flat_map(|rest| rest.iter().copied()))
    }
}

impl Tuple {
    fn bucket(&self, hash: u64, rules: &[Option<Rule>], value: &[u8]) -> Option<&Bucket> {
        self.buckets
            .find(hash, |bucket| has_value(rules, bucket, value))
    }
}

fn rule(rules: &[Option<Rule>], row: u32) -> Option<&Rule> {
    rules.get(row as usize)?.as_ref()
}

#[inline]
fn has_value(rules: &[Option<Rule>], bucket: &Bucket, value: &[u8]) -> bool {
    rule(rules, bucket.first).is_some_and(|rule| *rule.value == *value)
}

impl TupleSpace {
    /// Returns the row of the best rule for `key`. `masked` is a buffer; its content is of no account.
    #[inline]
    pub fn lookup(&self, key: &[u8], masked: &mut Vec<u8>) -> Option<usize> {
        let mut best: Option<(i32, u32)> = None;
        for tuple in &self.tuples {
            if best.is_some_and(|(priority, _)| priority >= tuple.rank) {
                break;
            }
            let value = if tuple.full {
                key
            } else {
                masked.clear();
                masked.extend(key.iter().zip(&*tuple.mask).map(|(byte, mask)| byte & mask));
                masked.as_slice()
            };
            let hash = self.hasher.hash_one(value);
            let Some(bucket) = tuple.bucket(hash, &self.rules, value) else {
                continue;
            };
            for row in bucket.rows() {
                let Some(rule) = rule(&self.rules, row) else {
                    continue;
                };
                if best.is_some_and(|(priority, _)| priority >= rule.priority) {
                    break;
                }
                if rule.ranges.iter().all(|range| range.holds(key)) {
                    best = Some((rule.priority, row));
                    break;
                }
            }
        }
        best.map(|(_, row)| row as usize)
    }

    /// The row of exactly this rule.
    pub fn find(&self, pattern: &Pattern, priority: i32) -> Option<usize> {
        let tuple = self
            .tuples
            .iter()
            .find(|tuple| tuple.mask[..] == pattern.mask[..])?;
        let hash = self.hasher.hash_one(&*pattern.value);
        tuple
            .bucket(hash, &self.rules, &pattern.value)?
            .rows()
            .find(|row| {
                rule(&self.rules, *row)
                    .is_some_and(|rule| rule.priority == priority && rule.ranges == pattern.ranges)
            })
            .map(|row| row as usize)
    }

    pub fn significant(&self) -> &[u8] {
        &self.significant
    }

    fn look_at(&mut self, pattern: &Pattern) {
        if self.tuples.is_empty() {
            self.significant.clear();
        }
        self.significant.resize(pattern.mask.len(), 0);
        for (byte, mask) in self.significant.iter_mut().zip(&pattern.mask) {
            *byte |= mask;
        }
        for range in &pattern.ranges {
            self.significant[range.offset..range.offset + range.low.len()].fill(0xff);
        }
    }

    /// The rule of a row.
    pub fn rule(&self, row: usize) -> Option<&Rule> {
        self.rules.get(row)?.as_ref()
    }

    /// Adds a rule that is not there yet, for a row that has none: one below 2³².
    pub fn insert(&mut self, pattern: Pattern, priority: i32, row: usize) {
        self.look_at(&pattern);
        let at = self
            .tuples
            .iter()
            .position(|tuple| tuple.mask[..] == pattern.mask[..])
            .unwrap_or_else(|| {
                self.tuples.push(Tuple {
                    full: pattern.mask.iter().all(|byte| *byte == 0xff),
                    mask: pattern.mask.into(),
                    buckets: HashTable::new(),
                    priorities: BTreeMap::new(),
                    rank: i32::MIN,
                });
                self.tuples.len() - 1
            });
        let (tuple, rules, hasher) = (&mut self.tuples[at], &mut self.rules, &self.hasher);
        *tuple.priorities.entry(priority).or_default() += 1;
        if rules.len() <= row {
            rules.resize_with(row + 1, || None);
        }
        let hash = hasher.hash_one(&*pattern.value);
        let (mut row, own) = (row as u32, row);
        match tuple
            .buckets
            .find_mut(hash, |bucket| has_value(rules, bucket, &pattern.value))
        {
            None => {
                let (first, rest) = (row, None);
                let rehash = |bucket: &Bucket| {
                    rule(rules, bucket.first).map_or(0, |rule| hasher.hash_one(&*rule.value))
                };
                tuple
                    .buckets
                    .insert_unique(hash, Bucket { first, rest }, rehash);
            }
            Some(bucket) => {
                let is_above = |other: u32, priority: i32| {
                    rule(rules, other).is_some_and(|rule| rule.priority >= priority)
                };
                let mut priority = priority;
                if !is_above(bucket.first, priority) {
                    std::mem::swap(&mut row, &mut bucket.first);
                    priority = rule(rules, row).map_or(priority, |rule| rule.priority);
                }
                let rest = bucket.rest.get_or_insert_default();
                let at = rest.partition_point(|other| is_above(*other, priority));
                rest.insert(at, row);
            }
        }
        rules[own] = Some(Rule {
            value: pattern.value,
            mask: Arc::clone(&tuple.mask),
            ranges: pattern.ranges,
            priority,
        });
        self.rank(at);
    }

    /// Removes exactly this rule and returns its row.
    pub fn remove(&mut self, pattern: &Pattern, priority: i32) -> Option<usize> {
        let row = self.find(pattern, priority)?;
        let at = self
            .tuples
            .iter()
            .position(|tuple| tuple.mask[..] == pattern.mask[..])?;
        let (tuple, rules) = (&mut self.tuples[at], &self.rules);
        let hash = self.hasher.hash_one(&*pattern.value);
        let mut found = tuple
            .buckets
            .find_entry(hash, |bucket| has_value(rules, bucket, &pattern.value))
            .ok()?;
        let bucket = found.get_mut();
        match bucket.rest.take() {
            None => drop(found.remove()),
            Some(mut rest) => {
                if bucket.first as usize == row {
                    bucket.first = rest.remove(0);
                } else {
                    rest.retain(|other| *other as usize != row);
                }
                bucket.rest = (!rest.is_empty()).then_some(rest);
            }
        }
        self.rules[row] = None;
        let tuple = &mut self.tuples[at];
        if let Some(count) = tuple.priorities.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                tuple.priorities.remove(&priority);
            }
        }
        if tuple.buckets.is_empty() {
            self.tuples.remove(at);
        } else {
            self.rank(at);
        }
        Some(row)
    }

    /// Puts a tuple where its best priority belongs.
    fn rank(&mut self, at: usize) {
        let tuple = &mut self.tuples[at];
        let best = tuple.priorities.last_key_value();
        let rank = best.map_or(i32::MIN, |(priority, _)| *priority);
        if tuple.rank != rank {
            tuple.rank = rank;
            self.tuples
                .sort_by_key(|tuple| std::cmp::Reverse(tuple.rank));
        }
    }
}
