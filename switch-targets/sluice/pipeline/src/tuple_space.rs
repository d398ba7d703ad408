//! One index for every match kind: tuple space search.
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

use std::collections::{BTreeMap, HashMap};

use foldhash::fast::RandomState;

/// What an entry matches, over the packed key.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    /// Zero outside the mask.
    pub value: Box<[u8]>,
    pub mask: Box<[u8]>,
    pub ranges: Box<[RangeCheck]>,
}

/// Both ends belong to the range; big-endian bytes of one length compare as the numbers do.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RangeCheck {
    pub offset: usize,
    pub low: Box<[u8]>,
    pub high: Box<[u8]>,
}

impl RangeCheck {
    fn holds(&self, key: &[u8]) -> bool {
        let field = &key[self.offset..self.offset + self.low.len()];
        *self.low <= *field && *field <= *self.high
    }
}

#[derive(Debug)]
struct Rule {
    priority: i32,
    row: usize,
    ranges: Box<[RangeCheck]>,
}

/// The rules of one masked value, best first. Most have one.
#[derive(Debug)]
struct Bucket {
    first: Rule,
    rest: Vec<Rule>,
}

#[derive(Debug)]
struct Tuple {
    mask: Box<[u8]>,
    /// Every bit of the key counts: no masking is needed.
    full: bool,
    buckets: HashMap<Box<[u8]>, Bucket, RandomState>,
    /// How many rules have each priority.
    priorities: BTreeMap<i32, usize>,
    /// The best priority.
    rank: i32,
}

#[derive(Debug, Default)]
pub struct TupleSpace {
    /// By falling rank.
    tuples: Vec<Tuple>,
    masked: Vec<u8>,
    /// Bits of the key that a rule looks at, or that one has looked at since the space was last empty.
    significant: Vec<u8>,
}

impl TupleSpace {
    /// The row of the best rule for `key`.
    #[inline]
    pub fn lookup(&mut self, key: &[u8]) -> Option<usize> {
        let mut best: Option<(i32, usize)> = None;
        for tuple in &self.tuples {
            if best.is_some_and(|(priority, _)| priority >= tuple.rank) {
                break;
            }
            let bucket = if tuple.full {
                tuple.buckets.get(key)
            } else {
                self.masked.clear();
                self.masked
                    .extend(key.iter().zip(&tuple.mask).map(|(byte, mask)| byte & mask));
                tuple.buckets.get(self.masked.as_slice())
            };
            let Some(bucket) = bucket else { continue };
            for rule in std::iter::once(&bucket.first).chain(&bucket.rest) {
                if best.is_some_and(|(priority, _)| priority >= rule.priority) {
                    break;
                }
                if rule.ranges.iter().all(|range| range.holds(key)) {
                    best = Some((rule.priority, rule.row));
                    break;
                }
            }
        }
        best.map(|(_, row)| row)
    }

    /// The row of exactly this rule.
    pub fn find(&self, pattern: &Pattern, priority: i32) -> Option<usize> {
        let tuple = self
            .tuples
            .iter()
            .find(|tuple| tuple.mask == pattern.mask)?;
        let bucket = tuple.buckets.get(&pattern.value)?;
        let is_it = |rule: &&Rule| rule.priority == priority && rule.ranges == pattern.ranges;
        std::iter::once(&bucket.first)
            .chain(&bucket.rest)
            .find(is_it)
            .map(|rule| rule.row)
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

    /// Adds a rule that is not there yet.
    pub fn insert(&mut self, pattern: Pattern, priority: i32, row: usize) {
        self.look_at(&pattern);
        let at = self
            .tuples
            .iter()
            .position(|tuple| tuple.mask == pattern.mask)
            .unwrap_or_else(|| {
                self.tuples.push(Tuple {
                    full: pattern.mask.iter().all(|byte| *byte == 0xff),
                    mask: pattern.mask,
                    buckets: HashMap::default(),
                    priorities: BTreeMap::new(),
                    rank: i32::MIN,
                });
                self.tuples.len() - 1
            });
        let tuple = &mut self.tuples[at];
        *tuple.priorities.entry(priority).or_default() += 1;
        let mut rule = Rule {
            priority,
            row,
            ranges: pattern.ranges,
        };
        match tuple.buckets.get_mut(&pattern.value) {
            None => {
                tuple.buckets.insert(
                    pattern.value,
                    Bucket {
                        first: rule,
                        rest: Vec::new(),
                    },
                );
            }
            Some(bucket) => {
                if rule.priority > bucket.first.priority {
                    std::mem::swap(&mut rule, &mut bucket.first);
                }
                let at = bucket
                    .rest
                    .partition_point(|other| other.priority >= rule.priority);
                bucket.rest.insert(at, rule);
            }
        }
        self.sort();
    }

    /// Removes exactly this rule and returns its row.
    pub fn remove(&mut self, pattern: &Pattern, priority: i32) -> Option<usize> {
        let row = self.find(pattern, priority)?;
        let at = self
            .tuples
            .iter()
            .position(|tuple| tuple.mask == pattern.mask)?;
        let tuple = &mut self.tuples[at];
        let bucket = tuple.buckets.get_mut(&pattern.value)?;
        if bucket.first.row != row {
            bucket.rest.retain(|rule| rule.row != row);
        } else if bucket.rest.is_empty() {
            tuple.buckets.remove(&pattern.value);
        } else {
            bucket.first = bucket.rest.remove(0);
        }
        if let Some(count) = tuple.priorities.get_mut(&priority) {
            *count -= 1;
            if *count == 0 {
                tuple.priorities.remove(&priority);
            }
        }
        if tuple.buckets.is_empty() {
            self.tuples.remove(at);
        }
        self.sort();
        Some(row)
    }

    fn sort(&mut self) {
        for tuple in &mut self.tuples {
            let best = tuple.priorities.last_key_value();
            tuple.rank = best.map_or(i32::MIN, |(priority, _)| *priority);
        }
        self.tuples
            .sort_by_key(|tuple| std::cmp::Reverse(tuple.rank));
    }
}
