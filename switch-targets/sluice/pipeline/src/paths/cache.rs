//! The recorded paths, found by the bits that decide between them.
//!
//! ```text
//!   entrance ─► the path taken last ─► its bits?
//!            └► shapes, those in use first ─► hash of the packet's bits under the shape ─► paths of these bits
//! ```
//! A candidate still has requirements of its own, which its replay checks.

use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

use foldhash::fast::FixedState;
use hashbrown::HashTable;

use super::path::{Path, Shape};
use super::{Entrance, Input};
use crate::table::Table;

/// Paths at once. When there are more, all are forgotten: those in use come back soon.
const MAX_PATHS: usize = 4096;
/// Shapes of one entrance, each of which may have to be tried.
const MAX_SHAPES: usize = 32;
/// Paths of the same bits, which differ in what they require.
const MAX_ALIKE: usize = 8;
/// A path that is left so often in the middle is forgotten, and may be recorded anew.
const MAX_EXITS: u32 = 64;

/// A path with the values of its shape's bits.
#[derive(Debug)]
struct Kept {
    entrance: usize,
    shape: Shape,
    hash: u64,
    /// As the shape's.
    words: Box<[Word]>,
    initial: Box<[(u32, u128, u128)]>,
    path: Path,
    /// The state of the tables when the path was last known to hold.
    checked: u64,
    exits: u32,
    tally: Tally,
}

/// Packets that have taken a path to its end and that its tables do not know of yet.
#[derive(Debug, Default)]
struct Tally {
    packets: u64,
    bytes: u64,
    last: Duration,
}

impl Kept {
    fn settle(&mut self, tables: &[Table]) {
        let Tally {
            packets,
            bytes,
            last,
        } = std::mem::take(&mut self.tally);
        for (table, found) in &self.path.counted {
            tables[*table].count(*found, packets, bytes, last);
        }
    }

    /// Whether the packet has the path's bits.
    #[inline]
    fn fits(&self, entrance: &Entrance, input: &Input, len: usize) -> bool {
        let word = |it: &Word| load(input, it.at.into()) & it.mask == it.value;
        let initial = |(index, mask, value): &(u32, u128, u128)| {
            entrance.initial[*index as usize] & mask == *value
        };
        self.path.min_len <= len && self.words.iter().all(word) && self.initial.iter().all(initial)
    }
}

/// What eight bytes of a packet are under a mask.
#[derive(Debug)]
struct Word {
    at: u8,
    mask: u64,
    value: u64,
}

#[derive(Debug)]
struct Group {
    shape: Shape,
    paths: HashTable<u32>,
}

#[derive(Debug, Default)]
struct Door {
    groups: Vec<Group>,
    /// The path taken last.
    recent: u32,
}

/// A path's number, and where the search for others goes on.
#[derive(Clone, Copy, Debug)]
pub struct At {
    index: u32,
    group: usize,
    nth: usize,
}

#[derive(Debug, Default)]
pub struct PathCache {
    /// By [`Entrance::index`].
    doors: Vec<Door>,
    kept: Vec<Option<Kept>>,
    free: Vec<u32>,
    /// Paths with a tally.
    tallied: Vec<u32>,
    every: u32,
    missed: u32,
}

impl PathCache {
    /// One in `every` packets that no path takes is recorded; 0: none is, and no path is kept. None has a tally.
    pub fn record_every(&mut self, every: u32) {
        self.every = every;
        if every == 0 {
            self.clear();
        }
    }

    pub fn is_on(&self) -> bool {
        self.every > 0
    }

    /// Whether to record the packet that no path takes.
    pub fn is_due(&mut self) -> bool {
        self.missed += 1;
        let due = self.missed >= self.every;
        if due {
            self.missed = 0;
        }
        due
    }

    /// Has the tables count what paths have found in them. It comes before every read and write of a table, so that a path
    /// with a tally holds.
    #[inline]
    pub fn settle(&mut self, tables: &[Table]) {
        while let Some(index) = self.tallied.pop() {
            if let Some(Some(kept)) = self.kept.get_mut(index as usize) {
                kept.settle(tables);
            }
        }
    }

    pub fn len(&self) -> usize {
        self.kept.len() - self.free.len()
    }

    pub fn path(&self, at: At) -> Option<&Path> {
        let kept = self.kept.get(at.index as usize)?.as_ref();
        kept.map(|kept| &kept.path)
    }

    /// The next candidate for a packet behind `last`. Paths whose tables have changed since are forgotten on the way.
    #[inline]
    pub fn find(
        &mut self,
        entrance: &Entrance,
        input: &Input,
        len: usize,
        (tables, version): (&[Table], u64),
        last: Option<At>,
    ) -> Option<At> {
        if last.is_none() {
            let index = self.doors.get(entrance.index())?.recent;
            let recent = self.kept.get(index as usize).and_then(Option::as_ref);
            if recent.is_some_and(|kept| {
                kept.checked == version
                    && kept.entrance == entrance.index()
                    && kept.fits(entrance, input, len)
            }) {
                let (group, nth) = (0, 0);
                return Some(At { index, group, nth });
            }
        }
        self.search(entrance, input, len, (tables, version), last)
    }

    fn search(
        &mut self,
        entrance: &Entrance,
        input: &Input,
        len: usize,
        (tables, version): (&[Table], u64),
        last: Option<At>,
    ) -> Option<At> {
        // The path taken last has no place in the order: the search behind it begins at the front.
        let (from, skip) = last.map_or((0, 0), |at| (at.group, at.nth));
        let mut stale = None;
        let mut found = None;
        let door = self.doors.get(entrance.index())?;
        for (group, it) in door.groups.iter().enumerate().skip(from) {
            let hash = hash(&it.shape, entrance, input);
            let mut nth = 0;
            for index in it.paths.iter_hash(hash).copied() {
                nth += 1;
                if group == from && nth <= skip {
                    continue;
                }
                let Some(kept) = self.kept.get(index as usize).and_then(Option::as_ref) else {
                    continue;
                };
                if kept.hash != hash || !kept.fits(entrance, input, len) {
                    continue;
                }
                let holds = |(table, seen): &(usize, u64)| tables[*table].version() == *seen;
                let at = At { index, group, nth };
                if kept.checked == version || kept.path.tables.iter().all(holds) {
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
            return self.search(entrance, input, len, (tables, version), last);
        }
        let at = found?;
        if let Some(Some(kept)) = self.kept.get_mut(at.index as usize) {
            kept.checked = version;
        }
        Some(at)
    }

    /// A packet of `len` bytes has taken a path to its end: it and its shape are tried earlier from now on.
    #[inline]
    pub fn used(&mut self, entrance: usize, at: At, len: usize, now: Duration) {
        if let Some(Some(kept)) = self.kept.get_mut(at.index as usize) {
            let tally = &mut kept.tally;
            if tally.packets == 0 && !kept.path.counted.is_empty() {
                self.tallied.push(at.index);
            }
            tally.packets += 1;
            tally.bytes += len as u64;
            tally.last = now;
        }
        let Some(door) = self.doors.get_mut(entrance) else {
            return;
        };
        if door.recent != at.index {
            door.recent = at.index;
            if at.group > 0 && at.group < door.groups.len() {
                door.groups.swap(at.group, at.group - 1);
            }
        }
    }

    /// A path has been left in the middle.
    pub fn exited(&mut self, at: At, tables: &[Table]) {
        if let Some(Some(kept)) = self.kept.get_mut(at.index as usize) {
            kept.exits += 1;
            if kept.exits > MAX_EXITS {
                self.forget(at.index, tables);
            }
        }
    }

    pub fn insert(
        &mut self,
        entrance: &Entrance,
        input: &Input,
        shape: Shape,
        path: Path,
        (tables, version): (&[Table], u64),
    ) {
        if self.len() >= MAX_PATHS {
            self.settle(tables);
            self.clear();
        }
        let number = entrance.index();
        if self.doors.len() <= number {
            self.doors.resize_with(number + 1, Door::default);
        }
        let groups = &mut self.doors[number].groups;
        if groups.iter().all(|group| group.shape != shape) {
            if groups.len() >= MAX_SHAPES {
                self.settle(tables);
                self.forget_shape(number);
            }
            self.doors[number].groups.push(Group {
                shape: shape.clone(),
                paths: HashTable::new(),
            });
        }
        let hash = hash(&shape, entrance, input);
        let groups = &mut self.doors[number].groups;
        let Some(group) = groups.iter_mut().find(|group| group.shape == shape) else {
            return;
        };
        let kept = &self.kept;
        let alike = group.paths.iter_hash(hash).copied();
        let alike = alike.filter(|index| hash_of(kept, *index) == hash);
        let crowd: Vec<u32> = alike.collect();
        if let [first, ..] = crowd.as_slice()
            && crowd.len() >= MAX_ALIKE
        {
            self.forget(*first, tables);
        }
        let words = shape.words.iter();
        let initial = shape.initial.iter();
        let kept = Kept {
            entrance: number,
            hash,
            words: words
                .map(|(at, mask)| Word {
                    at: *at as u8,
                    mask: *mask,
                    value: load(input, *at) & mask,
                })
                .collect(),
            initial: initial
                .map(|(index, mask)| (*index, *mask, entrance.initial[*index as usize] & mask))
                .collect(),
            shape,
            path,
            checked: version,
            exits: 0,
            tally: Tally::default(),
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.kept.push(None);
            self.kept.len() as u32 - 1
        });
        let groups = &mut self.doors[number].groups;
        if let Some(group) = groups.iter_mut().find(|group| group.shape == kept.shape) {
            let all = &self.kept;
            group
                .paths
                .insert_unique(hash, index, |other| hash_of(all, *other));
        }
        self.kept[index as usize] = Some(kept);
    }

    fn forget(&mut self, index: u32, tables: &[Table]) {
        self.settle(tables);
        let Some(kept) = self.kept.get_mut(index as usize).and_then(Option::take) else {
            return;
        };
        self.free.push(index);
        let groups = self.doors.get_mut(kept.entrance).map(|it| &mut it.groups);
        let group = groups.and_then(|it| it.iter_mut().find(|group| group.shape == kept.shape));
        if let Some(group) = group
            && let Ok(entry) = group.paths.find_entry(kept.hash, |other| *other == index)
        {
            entry.remove();
        }
    }

    /// Forgets the shape of a door that was of use least, with its paths, which have no tally.
    fn forget_shape(&mut self, door: usize) {
        if let Some(group) = self.doors[door].groups.pop() {
            for index in group.paths {
                self.kept[index as usize] = None;
                self.free.push(index);
            }
        }
    }

    fn clear(&mut self) {
        self.doors.clear();
        self.kept.clear();
        self.free.clear();
    }
}

#[inline]
fn load(input: &Input, at: u32) -> u64 {
    let word = input.get(at as usize..).and_then(|rest| rest.first_chunk());
    word.map_or(0, |word| u64::from_be_bytes(*word))
}

fn hash_of(kept: &[Option<Kept>], index: u32) -> u64 {
    let kept = kept.get(index as usize).and_then(Option::as_ref);
    kept.map_or(0, |kept| kept.hash)
}

/// The hash of the packet's bits under a shape.
fn hash(shape: &Shape, entrance: &Entrance, input: &Input) -> u64 {
    let mut hasher = FixedState::with_seed(0).build_hasher();
    for (at, mask) in &shape.words {
        hasher.write_u64(load(input, *at) & mask);
    }
    for (index, mask) in &shape.initial {
        hasher.write_u128(entrance.initial[*index as usize] & mask);
    }
    hasher.finish()
}
