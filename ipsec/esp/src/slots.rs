//! Which SA a slot holds, and what the keys that left their slots have spent.

use std::collections::HashMap;

use crate::key::{KeyError, WRAPPED_KEY_LEN};
use crate::retired::{Resumable, Retired, Spent};
use crate::wire::Spi;

pub(crate) type WrappedKey = [u8; WRAPPED_KEY_LEN];

pub(crate) struct Slots<S> {
    live: HashMap<u32, Held<S>>,
    retired: Retired<WrappedKey>,
}

struct Held<S> {
    wrapped: WrappedKey,
    spi: Spi,
    sa: S,
}

impl<S: Resumable> Slots<S> {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            live: HashMap::new(),
            retired: Retired::new(capacity as usize),
        }
    }

    /// The SA in `slot`; `make` builds it when the slot holds another one, or none.
    pub(crate) fn sa(
        &mut self,
        slot: u32,
        wrapped: &WrappedKey,
        spi: Spi,
        make: impl FnOnce() -> Result<S, KeyError>,
    ) -> Result<&mut S, KeyError> {
        if !self
            .live
            .get(&slot)
            .is_some_and(|held| held.wrapped == *wrapped && held.spi == spi)
        {
            let sa = make()?;
            self.install(
                slot,
                Held {
                    wrapped: *wrapped,
                    spi,
                    sa,
                },
            );
        }
        self.live
            .get_mut(&slot)
            .map(|held| &mut held.sa)
            .ok_or(KeyError::Length)
    }

    fn install(&mut self, slot: u32, mut new: Held<S>) {
        if let Some(spent) = self.forget(&new.wrapped) {
            new.sa.resume(spent);
        }
        if let Some(old) = self.live.insert(slot, new) {
            self.retired.retire(old.wrapped, old.sa.spent());
        }
    }

    /// Takes a key out of whatever holds it: a slot, or the memory of retired keys.
    fn forget(&mut self, wrapped: &WrappedKey) -> Option<Spent> {
        let slot = self
            .live
            .iter()
            .find(|(_, held)| held.wrapped == *wrapped)
            .map(|(slot, _)| *slot);
        if let Some(held) = slot.and_then(|slot| self.live.remove(&slot)) {
            return Some(held.sa.spent());
        }
        self.retired.take(wrapped)
    }
}
