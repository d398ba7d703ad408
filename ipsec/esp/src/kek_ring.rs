//! The key-encryption keys of one gateway while they change.
//!
//! ```text
//!   renew(next) ─► wrapped keys open under the newest, or under one before it ─► forget(one before it)
//! ```

use parking_lot::RwLock;
use zeroize::Zeroizing;

use crate::contract::KEK_LEN;
use crate::key::{Kek, KeyError, KeyMaterial, WrappedKey};
use crate::suite::AdmittedSuite;

/// Keys that a ring holds at most. A renewal beyond that drops the oldest key.
pub const MAX_KEKS: usize = 4;

/// A refusal to forget a key-encryption key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForgetError {
    /// The ring does not hold a key of that fingerprint.
    Unknown,
    /// The newest key cannot be forgotten: without it no new key could be unwrapped.
    Newest,
}

/// Key-encryption keys, at least one, newest first. Threads share the ring.
pub struct KekRing(RwLock<HeldKeks>);

struct HeldKeks {
    keks: Vec<Kek>,
    changes: u64,
}

impl KekRing {
    pub fn new(kek: Kek) -> Self {
        Self(RwLock::new(HeldKeks {
            keks: vec![kek],
            changes: 0,
        }))
    }

    /// Makes `kek` the newest key. Returns false when it is the newest already.
    pub fn renew(&self, kek: Kek) -> bool {
        let fingerprint = kek.fingerprint();
        let mut held = self.0.write();
        if held.keks.first().map(Kek::fingerprint) == Some(fingerprint) {
            return false;
        }
        held.keks.retain(|known| known.fingerprint() != fingerprint);
        held.keks.insert(0, kek);
        held.keks.truncate(MAX_KEKS);
        held.changes += 1;
        true
    }

    /// Takes the keys of another process's ring, newest first. Returns false, and changes nothing, unless there are 1 to
    /// [`MAX_KEKS`].
    pub fn replace(&self, keks: Vec<Kek>) -> bool {
        let fits = (1..=MAX_KEKS).contains(&keks.len());
        if fits {
            let mut held = self.0.write();
            held.keks = keks;
            held.changes += 1;
        }
        fits
    }

    /// The keys one behind the other, newest first, for another process alone.
    pub fn reveal(&self) -> Zeroizing<Vec<u8>> {
        let held = self.0.read();
        let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_KEKS * KEK_LEN));
        held.keks
            .iter()
            .for_each(|kek| bytes.extend_from_slice(kek.bytes()));
        bytes
    }

    /// The [`Kek::fingerprint`] of each key, newest first.
    pub fn fingerprints(&self) -> Vec<[u8; 32]> {
        self.0.read().keks.iter().map(Kek::fingerprint).collect()
    }

    /// # Errors
    /// An error leaves the ring unchanged.
    pub fn forget(&self, fingerprint: &[u8]) -> Result<(), ForgetError> {
        let mut held = self.0.write();
        let at = held
            .keks
            .iter()
            .position(|kek| kek.fingerprint() == fingerprint);
        match at {
            None => Err(ForgetError::Unknown),
            Some(0) => Err(ForgetError::Newest),
            Some(at) => {
                held.keks.remove(at);
                held.changes += 1;
                Ok(())
            }
        }
    }

    /// The number of changes of the ring: a key that failed to unwrap before a change may unwrap after it.
    pub fn changes(&self) -> u64 {
        self.0.read().changes
    }

    /// Unwraps with the first key of the ring that opens `wrapped`.
    ///
    /// # Errors
    /// `Integrity` when no key opens it.
    pub fn unwrap(
        &self,
        suite: AdmittedSuite,
        wrapped: &WrappedKey,
    ) -> Result<KeyMaterial, KeyError> {
        let held = self.0.read();
        let mut opened = held.keks.iter().map(|kek| kek.unwrap(suite, wrapped));
        opened
            .find(Result::is_ok)
            .unwrap_or(Err(KeyError::Integrity))
    }

    /// Unwraps into `room`, which must be 8 bytes longer than the content. Returns the content's length.
    pub fn unwrap_into(&self, wrapped: &[u8], room: &mut [u8]) -> Option<usize> {
        let held = self.0.read();
        held.keks
            .iter()
            .find_map(|kek| kek.unwrap_into(wrapped, room).ok())
    }
}

impl From<Kek> for KekRing {
    fn from(kek: Kek) -> Self {
        Self::new(kek)
    }
}
