//! The choice of the SA that stays when a state is applied: the running one with that key, or a new one.

use std::collections::HashMap;

use esp::{InboundSa, Limits, OutboundSa, Resumable, Retired, Spi, Suite};

/// An SA and what tells it from others: the same key, SPI and algorithm is the same SA.
pub struct Keyed<S> {
    pub spi: Spi,
    pub fingerprint: [u8; 32],
    pub suite: Suite,
    pub esn: bool,
    pub soft: Limits,
    pub hard: Limits,
    pub sa: S,
}

impl<S> Keyed<S> {
    fn identity(&self) -> (Spi, Suite, bool) {
        (self.spi, self.suite, self.esn)
    }
}

pub(crate) struct Live<S> {
    pub(crate) keyed: Keyed<S>,
    pub(crate) told: bool,
}

pub(crate) trait Limited: Resumable {
    fn set_limits(&mut self, soft: Limits, hard: Limits);
}

impl Limited for InboundSa {
    fn set_limits(&mut self, soft: Limits, hard: Limits) {
        InboundSa::set_limits(self, soft, hard);
    }
}

impl Limited for OutboundSa {
    fn set_limits(&mut self, soft: Limits, hard: Limits) {
        OutboundSa::set_limits(self, soft, hard);
    }
}

/// The running SA of that key, or the new one, which goes on where its key stopped.
pub(crate) fn keep<S: Limited>(
    mut new: Keyed<S>,
    running: &mut HashMap<[u8; 32], Live<S>>,
    retired: &mut Retired<[u8; 32]>,
) -> Live<S> {
    match running.remove(&new.fingerprint) {
        Some(mut live) if live.keyed.identity() == new.identity() => {
            live.keyed.sa.set_limits(new.soft, new.hard);
            return live;
        }
        Some(live) => new.sa.resume(live.keyed.sa.spent()),
        None => {
            if let Some(spent) = retired.take(&new.fingerprint) {
                new.sa.resume(spent);
            }
        }
    }
    Live {
        keyed: new,
        told: false,
    }
}
