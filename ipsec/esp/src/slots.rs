//! Which SA a slot holds, and what the keys that left their slots have spent.

use std::collections::HashMap;

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
    live: HashMap<u32, Held<S>>,
    /// Where each live key is.
    slots: HashMap<WrappedKey, u32>,
    retired: Retired<WrappedKey>,
}

struct Held<S> {
    identity: Identity,
    sa: S,
}

impl<S: Resumable> Slots<S> {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            live: HashMap::new(),
            slots: HashMap::new(),
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
        let held = self.live.get(&slot);
        if !held.is_some_and(|held| held.identity == *identity) {
            let sa = make()?;
            let identity = identity.clone();
            self.install(slot, Held { identity, sa });
        }
        self.live
            .get_mut(&slot)
            .map(|held| &mut held.sa)
            .ok_or(KeyError::Refused)
    }

    fn install(&mut self, slot: u32, mut new: Held<S>) {
        if let Some(spent) = self.forget(&new.identity.wrapped) {
            new.sa.resume(spent);
        }
        self.slots.insert(new.identity.wrapped, slot);
        if let Some(old) = self.live.insert(slot, new) {
            self.slots.remove(&old.identity.wrapped);
            self.retired.retire(old.identity.wrapped, old.sa.spent());
        }
    }

    /// Takes a key out of whatever holds it: a slot, or the memory of retired keys.
    fn forget(&mut self, wrapped: &WrappedKey) -> Option<Spent> {
        let held = self
            .slots
            .remove(wrapped)
            .and_then(|slot| self.live.remove(&slot));
        match held {
            Some(held) => Some(held.sa.spent()),
            None => self.retired.take(wrapped),
        }
    }
}
