//! The recorded paths, found by the bits that decide between them.
//!
//! ```text
//!   entrance ─► shapes, those in use first ─► hash of the packet's bits under the shape ─► paths ─► requirements
//! ```

use std::collections::HashMap;
use std::hash::{BuildHasher as _, Hasher as _};

use foldhash::fast::{FixedState, RandomState};

use super::path::{Path, Shape};
use super::{Entrance, INPUT};
use crate::table::Table;

/// Paths at once. When there are more, all are forgotten: those in use come back soon.
const MAX_PATHS: usize = 4096;
/// Shapes of one entrance, each of which may have to be tried.
const MAX_SHAPES: usize = 32;
/// Paths of the same bits, which differ in what they require.
const MAX_ALIKE: usize = 8;

/// A path with the values of its shape's bits.
#[derive(Debug)]
struct Kept {
    words: Box<[u64]>,
    initial: Box<[u128]>,
    path: Path,
    /// The state of the tables when the path was last known to hold.
    checked: u64,
    /// Exits beyond what is worth it; see [`PathCache::exited`].
    exits: u32,
}

#[derive(Debug)]
struct Group {
    shape: Shape,
    paths: HashMap<u64, Vec<Kept>, RandomState>,
}

/// Where a path is: until the next change of the cache.
#[derive(Clone, Copy, Debug)]
pub struct At {
    entrance: usize,
    group: usize,
    hash: u64,
    index: usize,
}

#[derive(Debug, Default)]
pub struct PathCache {
    groups: Vec<Vec<Group>>,
    count: usize,
    words: Vec<u64>,
    initial: Vec<u128>,
    /// Grows with every change of a table.
    version: u64,
    every: u32,
    missed: u32,
}

impl PathCache {
    /// One in `every` packets that no path takes is recorded; 0: none is, and no path is kept.
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

    /// A table has been changed.
    pub fn table_changed(&mut self) {
        self.version += 1;
    }

    pub fn clear(&mut self) {
        self.groups.clear();
        self.count = 0;
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// The next candidate for a packet behind `last`. Paths whose tables have changed since are forgotten on the way.
    pub fn find(
        &mut self,
        entrance: &Entrance,
        input: &[u8; INPUT],
        len: usize,
        tables: &[Table],
        last: Option<At>,
    ) -> Option<At> {
        let version = self.version;
        let from = last.map_or((0, 0), |at| (at.group, at.index + 1));
        let groups = self.groups.get_mut(entrance.index())?;
        for (group_at, group) in groups.iter_mut().enumerate().skip(from.0) {
            let hash = key(
                &group.shape,
                entrance,
                input,
                &mut self.words,
                &mut self.initial,
            );
            let Some(paths) = group.paths.get_mut(&hash) else {
                continue;
            };
            let mut index = if group_at == from.0 { from.1 } else { 0 };
            while let Some(kept) = paths.get_mut(index) {
                if kept.checked != version {
                    let holds = |(table, seen): &(usize, u64)| tables[*table].version() == *seen;
                    if !kept.path.tables.iter().all(holds) {
                        paths.swap_remove(index);
                        self.count -= 1;
                        continue;
                    }
                    kept.checked = version;
                }
                if kept.path.min_len <= len
                    && *kept.words == *self.words
                    && *kept.initial == *self.initial
                {
                    return Some(At {
                        entrance: entrance.index(),
                        group: group_at,
                        hash,
                        index,
                    });
                }
                index += 1;
            }
        }
        None
    }

    /// A path was of use: its shape is tried earlier from now on.
    pub fn used(&mut self, at: At) {
        if at.group > 0
            && let Some(groups) = self.groups.get_mut(at.entrance)
        {
            groups.swap(at.group, at.group - 1);
        }
    }

    pub fn path(&self, at: At) -> Option<&Path> {
        let group = self.groups.get(at.entrance)?.get(at.group)?;
        Some(&group.paths.get(&at.hash)?.get(at.index)?.path)
    }

    /// A path has been left: one that is left again and again is forgotten, and may be recorded anew.
    pub fn exited(&mut self, at: At) {
        const TOO_OFTEN: u32 = 64;
        let group = self
            .groups
            .get_mut(at.entrance)
            .and_then(|it| it.get_mut(at.group));
        let Some(paths) = group.and_then(|group| group.paths.get_mut(&at.hash)) else {
            return;
        };
        if let Some(kept) = paths.get_mut(at.index) {
            kept.exits += 1;
            if kept.exits > TOO_OFTEN {
                paths.swap_remove(at.index);
                self.count -= 1;
            }
        }
    }

    pub fn insert(&mut self, entrance: &Entrance, input: &[u8; INPUT], shape: Shape, path: Path) {
        if self.count >= MAX_PATHS {
            self.clear();
        }
        let at = entrance.index();
        if self.groups.len() <= at {
            self.groups.resize_with(at + 1, Vec::new);
        }
        let groups = &mut self.groups[at];
        let group = match groups.iter().position(|group| group.shape == shape) {
            Some(group) => group,
            None => {
                if groups.len() >= MAX_SHAPES
                    && let Some(forgotten) = groups.pop()
                {
                    self.count -= forgotten.paths.values().map(Vec::len).sum::<usize>();
                }
                groups.push(Group {
                    shape,
                    paths: HashMap::default(),
                });
                groups.len() - 1
            }
        };
        let group = &mut groups[group];
        let hash = key(
            &group.shape,
            entrance,
            input,
            &mut self.words,
            &mut self.initial,
        );
        let paths = group.paths.entry(hash).or_default();
        if paths.len() >= MAX_ALIKE {
            paths.remove(0);
            self.count -= 1;
        }
        paths.push(Kept {
            words: self.words.as_slice().into(),
            initial: self.initial.as_slice().into(),
            path,
            checked: self.version,
            exits: 0,
        });
        self.count += 1;
    }
}

/// The bits under a shape, and their hash.
fn key(
    shape: &Shape,
    entrance: &Entrance,
    input: &[u8; INPUT],
    words: &mut Vec<u64>,
    initial: &mut Vec<u128>,
) -> u64 {
    words.clear();
    initial.clear();
    let mut hasher = FixedState::with_seed(0).build_hasher();
    for (at, mask) in &shape.words {
        let mut word = [0; 8];
        word.copy_from_slice(&input[*at as usize..*at as usize + 8]);
        let word = u64::from_be_bytes(word) & mask;
        hasher.write_u64(word);
        words.push(word);
    }
    for (index, mask) in &shape.initial {
        let value = entrance.initial[*index as usize] & mask;
        hasher.write_u128(value);
        initial.push(value);
    }
    hasher.finish()
}
