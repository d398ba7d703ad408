//! The SA of each slot, and the usage of the keys that left their slots.
//!
//! ```text
//!  a packet ──────────────► lock of its slot ─► seal or open
//!  a packet of another SA ► lock of the keys ─► locks of the slots that it changes, one at a time
//! ```
//! So packets of different SAs do not wait for each other, and no slot is locked while waiting for the keys.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::OnceLock;

use hashbrown::HashTable;
use parking_lot::{Mutex, MutexGuard};

use crate::contract::Suite;
use crate::key::WrappedKey;
use crate::limits::Limits;
use crate::retired::{Resumable, Retired, Spent};
use crate::wire::Spi;

/// An SA as a table entry describes it, unchecked.
#[derive(Clone, Copy)]
pub struct SaEntry<'a> {
    pub slot: u32,
    pub suite: u8,
    pub wrapped_key: &'a WrappedKey,
    pub spi: u32,
    pub esn: bool,
    pub soft: Limits,
    pub hard: Limits,
}

/// The fields that distinguish one SA from another. The wrapped key alone names the key.
#[derive(PartialEq)]
pub(crate) struct Identity {
    pub(crate) wrapped: WrappedKey,
    pub(crate) spi: Spi,
    pub(crate) suite: Suite,
    pub(crate) esn: bool,
}

impl Identity {
    fn is_of(&self, entry: &SaEntry<'_>) -> bool {
        self.spi.get() == entry.spi
            && self.suite as u8 == entry.suite
            && self.esn == entry.esn
            && self.wrapped == *entry.wrapped_key
    }
}

/// Slots that are made together.
const PAGE: usize = 256;

pub(crate) struct Slots<S> {
    /// Made when they are first used.
    pages: Box<[OnceLock<Page<S>>]>,
    keys: Mutex<KeyIndex>,
    hasher: RandomState,
}

/// Boxed: a slot that is not used costs a pointer, and neighbours share no cache line.
type Page<S> = Box<[OnceLock<Box<Slot<S>>>]>;
type Slot<S> = Mutex<Option<HeldSa<S>>>;

/// The place of each key. Slots change what they hold under its lock only.
struct KeyIndex {
    live: HashTable<Live>,
    retired: Retired<WrappedKey>,
}

/// A slot that holds something, and the hash of its wrapped key.
struct Live {
    hash: u64,
    slot: u32,
}

struct HeldSa<S> {
    identity: Identity,
    sa: S,
}

impl<S: Resumable> Slots<S> {
    pub(crate) fn new(capacity: u32) -> Self {
        let pages = (capacity as usize).div_ceil(PAGE);
        Self {
            pages: (0..pages).map(|_| OnceLock::new()).collect(),
            keys: Mutex::new(KeyIndex {
                live: HashTable::new(),
                retired: Retired::new(capacity as usize),
            }),
            hasher: RandomState::new(),
        }
    }

    /// Runs `work` on the SA of an entry, alone; `make` builds it when the slot holds another one, or none.
    #[inline]
    pub(crate) fn with<R>(
        &self,
        entry: &SaEntry<'_>,
        make: impl FnOnce() -> Option<(Identity, S)>,
        work: impl FnOnce(&mut S) -> R,
    ) -> Option<R> {
        // The SA in a slot was admitted once; an equal entry needs no second admission.
        if let Some(place) = self.place(entry.slot)
            && let Some(held) = &mut *place.lock()
            && held.identity.is_of(entry)
        {
            return Some(work(&mut held.sa));
        }
        let (identity, sa) = make()?;
        let mut held = self.install(entry.slot, HeldSa { identity, sa })?;
        held.as_mut().map(|held| work(&mut held.sa))
    }

    /// Calls `each` with every slot that holds an SA.
    pub(crate) fn for_each(&self, mut each: impl FnMut(u32, &Identity, &S)) {
        for (at, page) in self.pages.iter().enumerate() {
            for (offset, place) in page.get().into_iter().flatten().enumerate() {
                if let Some(Some(held)) = place.get().map(|place| place.lock()).as_deref() {
                    each((at * PAGE + offset) as u32, &held.identity, &held.sa);
                }
            }
        }
    }

    /// Calls `each` with every retired key, oldest first.
    pub(crate) fn for_each_retired(&self, mut each: impl FnMut(&WrappedKey, Spent)) {
        let keys = self.keys.lock();
        keys.retired
            .by_age()
            .for_each(|(key, spent)| each(key, spent));
    }

    /// Runs `go_on` on the SA of that identity in the slot; `make` builds it when it is not there. Returns whether it is now.
    pub(crate) fn adopt(
        &self,
        slot: u32,
        identity: Identity,
        make: impl FnOnce(&Identity) -> Option<S>,
        go_on: impl FnOnce(&mut S),
    ) -> bool {
        if let Some(place) = self.place(slot)
            && let Some(held) = &mut *place.lock()
            && held.identity == identity
        {
            go_on(&mut held.sa);
            return true;
        }
        let Some(mut sa) = make(&identity) else {
            return false;
        };
        go_on(&mut sa);
        self.install(slot, HeldSa { identity, sa }).is_some()
    }

    /// Remembers a key as retired, with what it has spent.
    pub(crate) fn retire(&self, wrapped: WrappedKey, spent: Spent) {
        let mut keys = self.keys.lock();
        self.forget(&mut keys, &wrapped);
        keys.retired.retire(wrapped, spent);
    }

    /// The slot, locked, with `new` in it.
    fn install(&self, slot: u32, mut new: HeldSa<S>) -> Option<MutexGuard<'_, Option<HeldSa<S>>>> {
        let place = self.place_for(slot)?;
        let wrapped = new.identity.wrapped;
        let mut keys = self.keys.lock();
        let held = place.lock();
        // Another thread may have been faster, and have used the key already.
        if matches!(&*held, Some(held) if held.identity == new.identity) {
            return Some(held);
        }
        drop(held);
        if let Some(spent) = self.forget(&mut keys, &wrapped) {
            new.sa.resume(spent);
        }
        let mut held = place.lock();
        if let Some(old) = held.replace(new) {
            let hash = self.hasher.hash_one(old.identity.wrapped);
            if let Ok(entry) = keys.live.find_entry(hash, |live| live.slot == slot) {
                entry.remove();
            }
            keys.retired.retire(old.identity.wrapped, old.sa.spent());
        }
        let hash = self.hasher.hash_one(wrapped);
        keys.live
            .insert_unique(hash, Live { hash, slot }, |live| live.hash);
        Some(held)
    }

    /// Takes a key out of whatever holds it: a slot, or the memory of retired keys.
    fn forget(&self, keys: &mut KeyIndex, wrapped: &WrappedKey) -> Option<Spent> {
        let hash = self.hasher.hash_one(wrapped);
        let is_there = |live: &Live| {
            let held = self.place(live.slot).map(Mutex::lock);
            matches!(held.as_deref(), Some(Some(held)) if held.identity.wrapped == *wrapped)
        };
        let Ok(entry) = keys.live.find_entry(hash, is_there) else {
            return keys.retired.take(wrapped);
        };
        let (Live { slot, .. }, _) = entry.remove();
        let held = self.place(slot)?.lock().take()?;
        Some(held.sa.spent())
    }

    fn place(&self, slot: u32) -> Option<&Slot<S>> {
        let page = self.pages.get(slot as usize / PAGE)?.get()?;
        page.get(slot as usize % PAGE)?.get().map(Box::as_ref)
    }

    fn place_for(&self, slot: u32) -> Option<&Slot<S>> {
        let page = self.pages.get(slot as usize / PAGE)?;
        let page = page.get_or_init(|| (0..PAGE).map(|_| OnceLock::new()).collect());
        let place = page.get(slot as usize % PAGE)?;
        Some(place.get_or_init(Box::default))
    }
}
