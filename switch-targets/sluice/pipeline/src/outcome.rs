//! What one packet led to.

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
    /// In the order of [`crate::DigestSpec::fields`].
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
