//! Counts of carried packets, and of dropped ones by cause.

pub use crate::cause::Cause;
use crate::cause::{CAUSES, NAMES};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; CAUSES]);

impl Drops {
    pub fn count(&mut self, cause: Cause, packets: usize) {
        self.0[cause as usize] += packets as u64;
    }

    pub fn add(&mut self, other: &Self) {
        for (count, more) in self.0.iter_mut().zip(other.0) {
            *count += more;
        }
    }

    pub fn get(&self, cause: Cause) -> u64 {
        self.0[cause as usize]
    }

    pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
        NAMES.into_iter().zip(self.0)
    }
}

/// Packets in one direction of one tunnel. `last` is in seconds of the monotonic clock.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowCount {
    pub packets: u64,
    pub bytes: u64,
    pub last: Option<f64>,
}

impl FlowCount {
    pub fn count(&mut self, bytes: usize, now: f64) {
        self.packets += 1;
        self.bytes += bytes as u64;
        self.last = Some(now);
    }
}

/// Inner packets of one tunnel, over all its SAs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Traffic {
    pub inbound: FlowCount,
    pub outbound: FlowCount,
    pub drops: Drops,
}

/// The whole datapath. `drops` includes those that belong to a tunnel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub drops: Drops,
    /// RFC 3948 section 2.3.
    pub keepalives_in: u64,
    pub keepalives_out: u64,
    /// RFC 3948 section 2.2: IKE, which we do not speak.
    pub non_esp: u64,
}
