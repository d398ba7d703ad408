//! Which SA a slot holds, and what the keys that left their slots have spent.

use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use crate::key::{KeyError, WrappedKey};
use crate::retired::{Resumable, Retired, Spent};
use crate::suite::Suite;
use crate::wire::Spi;

/// What makes an SA another one. The wrapped key alone names the key.
#[derive(Clone, PartialEq)]
pub(crate) struct Identity {
    pub(crate) wrapped: WrappedKey,
    pub(crate) spi: Spi,
    pub(crate) suite: Suite,
    pub(crate) esn: bool,
}

pub(crate) struct Slots<S> {
    /// By slot, up to the highest that was ever used. Boxed: a slot that is not used costs a pointer.
    live: Vec<Option<Box<Held<S>>>>,
    /// The slots that hold something, by their wrapped keys.
    slots: HashTable<u32>,
    hasher: RandomState,
    retired: Retired<WrappedKey>,
}

struct Held<S> {
    identity: Identity,
    sa: S,
}

impl<S: Resumable> Slots<S> {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            live: Vec::new(),
            slots: HashTable::new(),
            hasher: RandomState::new(),
            retired: Retired::new(capacity as usize),
        }
    }

    /// The SA in `slot`; `make` builds it when the slot holds another one, or none.
    pub(crate) fn sa(
        &mut self,
        slot: u32,
        identity: &Identity,
        make: impl FnOnce() -> Result<S, KeyError>,
    ) -> Result<&mut S, KeyError> {
        let held = held(&self.live, slot);
        if !held.is_some_and(|held| held.identity == *identity) {
            let sa = make()?;
            let identity = identity.clone();
            self.install(slot, Held { identity, sa });
        }
        match self.live.get_mut(slot as usize) {
            Some(Some(held)) => Ok(&mut held.sa),
            _ => Err(KeyError::Refused),
        }
    }

    fn install(&mut self, slot: u32, mut new: Held<S>) {
        if let Some(spent) = self.forget(&new.identity.wrapped) {
            new.sa.resume(spent);
        }
        if let Some(old) = self.take(slot) {
            self.retired.retire(old.identity.wrapped, old.sa.spent());
        }
        if self.live.len() <= slot as usize {
            self.live.resize_with(slot as usize + 1, || None);
        }
        let hash = self.hasher.hash_one(new.identity.wrapped);
        self.live[slot as usize] = Some(Box::new(new));
        let (live, hasher) = (&self.live, &self.hasher);
        self.slots.insert_unique(hash, slot, |slot| {
            held(live, *slot).map_or(0, |held| hasher.hash_one(held.identity.wrapped))
        });
    }

    /// Takes a key out of whatever holds it: a slot, or the memory of retired keys.
    fn forget(&mut self, wrapped: &WrappedKey) -> Option<Spent> {
        let hash = self.hasher.hash_one(wrapped);
        let slot = self.slots.find(hash, |slot| {
            held(&self.live, *slot).is_some_and(|held| held.identity.wrapped == *wrapped)
        });
        match slot.copied().and_then(|slot| self.take(slot)) {
            Some(held) => Some(held.sa.spent()),
            None => self.retired.take(wrapped),
        }
    }

    fn take(&mut self, slot: u32) -> Option<Box<Held<S>>> {
        let held = self.live.get_mut(slot as usize)?.take()?;
        let hash = self.hasher.hash_one(held.identity.wrapped);
        if let Ok(entry) = self.slots.find_entry(hash, |other| *other == slot) {
            entry.remove();
        }
        Some(held)
    }
}

fn held<S>(live: &[Option<Box<Held<S>>>], slot: u32) -> Option<&Held<S>> {
    live.get(slot as usize)?.as_deref()
}
