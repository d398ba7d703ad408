//! The results of one packet.

use crate::bits::Bits;
use crate::spec::DigestId;

/// A packet to transmit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    pub port: u16,
    pub bytes: Vec<u8>,
}

/// A message to the control plane.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Digest {
    pub digest: DigestId,
    /// Values in the order of [`crate::DigestSpec::fields`].
    pub values: Vec<Bits>,
}

/// Filled by [`crate::Switch::process`], which clears it first. Kept between calls, it keeps its buffers.
#[derive(Debug, Default)]
pub struct Outcome {
    pub sent: Vec<Sent>,
    pub digests: Vec<Digest>,
    /// Nothing was sent.
    pub dropped: bool,
    spare: Vec<Vec<u8>>,
}

impl Outcome {
    pub fn new() -> Outcome {
        Outcome::default()
    }

    pub fn clear(&mut self) {
        self.spare
            .extend(self.sent.drain(..).map(|sent| sent.bytes));
        self.digests.clear();
        self.dropped = false;
    }

    pub(crate) fn send(&mut self, port: u16, parts: [&[u8]; 2]) {
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(parts[0]);
        bytes.extend_from_slice(parts[1]);
        self.sent.push(Sent { port, bytes });
    }
}

/// Packets that the switch itself gave up, since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Faults {
    /// Resubmitted or recirculated more often than a packet may be.
    pub too_many_passes: u64,
    /// Packets that asked for more copies than a packet may have.
    pub too_many_copies: u64,
    /// A loop in an action did not end in time.
    pub too_many_steps: u64,
}

impl Faults {
    pub(crate) fn and(self, other: Faults) -> Faults {
        Faults {
            too_many_passes: self.too_many_passes + other.too_many_passes,
            too_many_copies: self.too_many_copies + other.too_many_copies,
            too_many_steps: self.too_many_steps + other.too_many_steps,
        }
    }
}
