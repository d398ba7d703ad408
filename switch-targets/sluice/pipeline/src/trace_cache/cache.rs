//! Finds traces by the packet bits that decide between them: tuple space search, as for megaflows.
//!
//! ```text
//!   start ─► the trace replayed last ─► do its bits match?
//!            └► masks, most used first ─► hash of the packet's bits under the mask ─► traces with these bits
//! ```
//! A trace can have more requirements; its replay checks them.

use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::entry_state::{Input, PassStart};
use super::trace::{MatchMask, Trace};
use crate::table::Table;

/// Traces in the cache at most. Beyond it the cache is emptied; traces in use are recorded again soon.
const MAX_TRACES: usize = 4096;
/// Masks of one start at most: a search may have to try each.
const MAX_MASKS: usize = 32;
/// Traces with the same bits at most; they differ in their requirements.
const MAX_ALIKE: usize = 8;
/// Guard failures after which a trace is removed; it may be recorded again.
const MAX_EXITS: u32 = 64;

/// A trace with the values of the bits under its mask.
#[derive(Debug)]
struct CachedTrace {
    start: usize,
    match_mask: MatchMask,
    hash: u64,
    /// The mask's words with their values.
    words: Box<[Word]>,
    initial: Box<[(u32, u128, u128)]>,
    trace: Trace,
    /// The tables' version at which the trace was last known to be valid.
    checked: u64,
    exits: u32,
    tally: Tally,
}

/// Packets that replayed a trace to its end and are not yet counted in its tables.
#[derive(Debug, Default)]
struct Tally {
    packets: u64,
    bytes: u64,
    last: Duration,
}

impl CachedTrace {
    fn settle(&mut self, tables: &[Table]) {
        let Tally {
            packets,
            bytes,
            last,
        } = std::mem::take(&mut self.tally);
        for (table, found) in &self.trace.counted {
            tables[*table].count(*found, packets, bytes, last);
        }
    }

    /// Returns whether the packet's bits under the mask equal the trace's.
    #[inline]
    fn fits(&self, start: &PassStart, input: &Input, len: usize) -> bool {
        let word = |it: &Word| load(input, it.at.into()) & it.mask == it.value;
        let initial = |(index, mask, value): &(u32, u128, u128)| {
            start.initial[*index as usize] & mask == *value
        };
        self.trace.min_len <= len && self.words.iter().all(word) && self.initial.iter().all(initial)
    }
}

/// Eight bytes of a packet under a mask.
#[derive(Debug)]
struct Word {
    at: u8,
    mask: u64,
    value: u64,
}

#[derive(Debug)]
struct MaskTable {
    match_mask: MatchMask,
    traces: HashTable<u32>,
}

#[derive(Debug, Default)]
struct StartTraces {
    mask_tables: Vec<MaskTable>,
    /// The trace replayed last.
    recent: u32,
}

/// A trace's index, and the position from which a search for other traces continues.
#[derive(Clone, Copy, Debug)]
pub struct TraceRef {
    index: u32,
    mask_table: usize,
    nth: usize,
}

#[derive(Debug, Default)]
pub struct TraceCache {
    /// Traces by [`PassStart::index`].
    starts: Vec<StartTraces>,
    cached: Vec<Option<CachedTrace>>,
    free: Vec<u32>,
    /// Traces with a tally.
    tallied: Vec<u32>,
    every: u32,
    missed: u32,
}

impl TraceCache {
    /// Records one in `every` packets that match no trace; 0 records none and empties the cache. No trace may have a tally.
    pub fn record_every(&mut self, every: u32) {
        self.every = every;
        if every == 0 {
            self.clear();
        }
    }

    pub fn is_on(&self) -> bool {
        self.every > 0
    }

    /// Returns whether to record this packet, which matches no trace.
    pub fn is_due(&mut self) -> bool {
        self.missed += 1;
        let due = self.missed >= self.every;
        if due {
            self.missed = 0;
        }
        due
    }

    /// Adds the traces' tallies to the tables' counters. Call it before each read and write of a table, so that every trace with a
    /// tally is valid.
    #[inline]
    pub fn settle(&mut self, tables: &[Table]) {
        while let Some(index) = self.tallied.pop() {
            if let Some(Some(cached)) = self.cached.get_mut(index as usize) {
                cached.settle(tables);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.cached.len() - self.free.len()
    }

    pub fn trace(&self, at: TraceRef) -> Option<&Trace> {
        let cached = self.cached.get(at.index as usize)?.as_ref();
        cached.map(|cached| &cached.trace)
    }

    /// The next trace after `last` whose bits match the packet. Removes traces whose tables have changed.
    #[inline]
    pub fn find(
        &mut self,
        start: &PassStart,
        input: &Input,
        len: usize,
        (tables, version): (&[Table], u64),
        last: Option<TraceRef>,
    ) -> Option<TraceRef> {
        if last.is_none() {
            let index = self.starts.get(start.index())?.recent;
            let recent = self.cached.get(index as usize).and_then(Option::as_ref);
            if recent.is_some_and(|cached| {
                cached.checked == version
                    && cached.start == start.index()
                    && cached.fits(start, input, len)
            }) {
                let (mask_table, nth) = (0, 0);
                return Some(TraceRef {
                    index,
                    mask_table,
                    nth,
                });
            }
        }
        self.search(start, input, len, (tables, version), last)
    }

    fn search(
        &mut self,
        start: &PassStart,
        input: &Input,
        len: usize,
        (tables, version): (&[Table], u64),
        last: Option<TraceRef>,
    ) -> Option<TraceRef> {
        // The trace replayed last is outside of the search order: a search after it begins at the front.
        let (from, skip) = last.map_or((0, 0), |at| (at.mask_table, at.nth));
        let mut stale = None;
        let mut found = None;
        let start_traces = self.starts.get(start.index())?;
        for (mask_table, it) in start_traces.mask_tables.iter().enumerate().skip(from) {
            let hash = hash(&it.match_mask, start, input);
            let mut nth = 0;
            for index in it.traces.iter_hash(hash).copied() {
                nth += 1;
                if mask_table == from && nth <= skip {
                    continue;
                }
                let Some(cached) = self.cached.get(index as usize).and_then(Option::as_ref) else {
                    continue;
                };
                if cached.hash != hash || !cached.fits(start, input, len) {
                    continue;
                }
                let holds = |(table, seen): &(usize, u64)| tables[*table].version() == *seen;
                let at = TraceRef {
                    index,
                    mask_table,
                    nth,
                };
                if cached.checked == version || cached.trace.tables.iter().all(holds) {
                    found = Some(at);
                } else {
                    stale = Some(at);
                }
                break;
            }
            if found.is_some() || stale.is_some() {
                break;
            }
        }
        if let Some(at) = stale {
            self.forget(at.index, tables);
            return self.search(start, input, len, (tables, version), last);
        }
        let at = found?;
        if let Some(Some(cached)) = self.cached.get_mut(at.index as usize) {
            cached.checked = version;
        }
        Some(at)
    }

    /// Counts a packet of `len` bytes that replayed a trace to its end, and moves the trace and its mask forward in the search.
    #[inline]
    pub fn used(&mut self, start: usize, at: TraceRef, len: usize, now: Duration) {
        if let Some(Some(cached)) = self.cached.get_mut(at.index as usize) {
            let tally = &mut cached.tally;
            if tally.packets == 0 && !cached.trace.counted.is_empty() {
                self.tallied.push(at.index);
            }
            tally.packets += 1;
            tally.bytes += len as u64;
            tally.last = now;
        }
        let Some(start_traces) = self.starts.get_mut(start) else {
            return;
        };
        if start_traces.recent != at.index {
            start_traces.recent = at.index;
            if at.mask_table > 0 && at.mask_table < start_traces.mask_tables.len() {
                start_traces
                    .mask_tables
                    .swap(at.mask_table, at.mask_table - 1);
            }
        }
    }

    /// Counts a failed guard of a trace.
    pub fn exited(&mut self, at: TraceRef, tables: &[Table]) {
        if let Some(Some(cached)) = self.cached.get_mut(at.index as usize) {
            cached.exits += 1;
            if cached.exits > MAX_EXITS {
                self.forget(at.index, tables);
            }
        }
    }

    pub fn insert(
        &mut self,
        start: &PassStart,
        input: &Input,
        match_mask: MatchMask,
        trace: Trace,
        (tables, version): (&[Table], u64),
    ) {
        if self.len() >= MAX_TRACES {
            self.settle(tables);
            self.clear();
        }
        let number = start.index();
        if self.starts.len() <= number {
            self.starts.resize_with(number + 1, StartTraces::default);
        }
        let mask_tables = &mut self.starts[number].mask_tables;
        if mask_tables
            .iter()
            .all(|mask_table| mask_table.match_mask != match_mask)
        {
            if mask_tables.len() >= MAX_MASKS {
                self.settle(tables);
                self.forget_mask(number);
            }
            self.starts[number].mask_tables.push(MaskTable {
                match_mask: match_mask.clone(),
                traces: HashTable::new(),
            });
        }
        let hash = hash(&match_mask, start, input);
        let mask_tables = &mut self.starts[number].mask_tables;
        let Some(mask_table) = mask_tables
            .iter_mut()
            .find(|mask_table| mask_table.match_mask == match_mask)
        else {
            return;
        };
        let cached = &self.cached;
        let alike = mask_table.traces.iter_hash(hash).copied();
        let alike = alike.filter(|index| hash_of(cached, *index) == hash);
        let crowd: Vec<u32> = alike.collect();
        if let [first, ..] = crowd.as_slice()
            && crowd.len() >= MAX_ALIKE
        {
            self.forget(*first, tables);
        }
        let words = match_mask.words.iter();
        let initial = match_mask.initial.iter();
        let cached = CachedTrace {
            start: number,
            hash,
            words: words
                .map(|(at, mask)| Word {
                    at: *at as u8,
                    mask: *mask,
                    value: load(input, *at) & mask,
                })
                .collect(),
            initial: initial
                .map(|(index, mask)| (*index, *mask, start.initial[*index as usize] & mask))
                .collect(),
            match_mask,
            trace,
            checked: version,
            exits: 0,
            tally: Tally::default(),
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.cached.push(None);
            self.cached.len() as u32 - 1
        });
        let mask_tables = &mut self.starts[number].mask_tables;
        if let Some(mask_table) = mask_tables
            .iter_mut()
            .find(|mask_table| mask_table.match_mask == cached.match_mask)
        {
            let all = &self.cached;
            mask_table
                .traces
                .insert_unique(hash, index, |other| hash_of(all, *other));
        }
        self.cached[index as usize] = Some(cached);
    }

    fn forget(&mut self, index: u32, tables: &[Table]) {
        self.settle(tables);
        let Some(cached) = self.cached.get_mut(index as usize).and_then(Option::take) else {
            return;
        };
        self.free.push(index);
        let mask_tables = self
            .starts
            .get_mut(cached.start)
            .map(|it| &mut it.mask_tables);
        let mask_table = mask_tables.and_then(|it| {
            it.iter_mut()
                .find(|mask_table| mask_table.match_mask == cached.match_mask)
        });
        if let Some(mask_table) = mask_table
            && let Ok(entry) = mask_table
                .traces
                .find_entry(cached.hash, |other| *other == index)
        {
            entry.remove();
        }
    }

    /// Removes the least used mask of a start, with its traces, which have no tally.
    fn forget_mask(&mut self, start_traces: usize) {
        if let Some(mask_table) = self.starts[start_traces].mask_tables.pop() {
            for index in mask_table.traces {
                self.cached[index as usize] = None;
                self.free.push(index);
            }
        }
    }

    fn clear(&mut self) {
        self.starts.clear();
        self.cached.clear();
        self.free.clear();
    }
}

#[inline]
fn load(input: &Input, at: u32) -> u64 {
    let word = input.get(at as usize..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from_be_bytes(*word))
}

fn hash_of(cached: &[Option<CachedTrace>], index: u32) -> u64 {
    let cached = cached.get(index as usize).and_then(Option::as_ref);
    cached.map_or(0, |cached| cached.hash)
}

/// The hash of the packet's bits under a mask.
fn hash(match_mask: &MatchMask, start: &PassStart, input: &Input) -> u64 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    for (at, mask) in &match_mask.words {
        hasher.write_u64(load(input, *at) & mask);
    }
    for (index, mask) in &match_mask.initial {
        hasher.write_u128(start.initial[*index as usize] & mask);
    }
    hasher.finish()
}
