//! Which SA a slot holds, and what the keys that left their slots have spent.

use std::collections::{HashMap, VecDeque};

use crate::key::{KeyError, WRAPPED_KEY_LEN};
use crate::limits::Spent;
use crate::wire::Spi;

pub(crate) type WrappedKey = [u8; WRAPPED_KEY_LEN];

pub(crate) trait Resumable {
    fn spent(&self) -> Spent;
    /// No sequence number up to `spent.sequence` is used or accepted again.
    fn resume(&mut self, spent: Spent);
}

pub(crate) struct Slots<S> {
    capacity: u32,
    live: HashMap<u32, Held<S>>,
    retired: VecDeque<(WrappedKey, Spent)>,
}

struct Held<S> {
    wrapped: WrappedKey,
    spi: Spi,
    sa: S,
}

impl<S: Resumable> Slots<S> {
    pub(crate) fn new(capacity: u32) -> Self {
        Self {
            capacity,
            live: HashMap::new(),
            retired: VecDeque::new(),
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
            self.retired.push_back((old.wrapped, old.sa.spent()));
            if self.retired.len() > self.capacity as usize {
                self.retired.pop_front();
            }
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
        let index = self.retired.iter().position(|(key, _)| key == wrapped)?;
        self.retired.remove(index).map(|(_, spent)| spent)
    }
}
