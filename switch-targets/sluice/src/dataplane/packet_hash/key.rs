//! Keys of the hashes: unwrapped once, then found by what they came wrapped in.

use std::sync::Arc;

use aws_lc_rs::hmac;
use esp::KekRing;
use parking_lot::{RwLock, RwLockWriteGuard};
use zeroize::Zeroizing;

/// Keys that one extern object keeps. A program that uses more unwraps some of them again and again.
const PLACES: usize = 256;
/// Room for the longest wrapped key, and the first block that RFC 5649 adds.
const ROOM: usize = 88;

/// Purpose of a key: `HashKey` in P4, and the first of the wrapped bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum HashKey {
    SipHash24 = 1,
    HmacSha256 = 2,
    HmacSha512 = 3,
}

impl HashKey {
    /// Bytes of the key.
    pub fn key_len(self) -> usize {
        match self {
            Self::SipHash24 => 16,
            Self::HmacSha256 => 32,
            Self::HmacSha512 => 64,
        }
    }

    /// Bytes of the key as it comes in P4: its number before it, filled up to 8 and wrapped.
    pub fn wrapped_len(self) -> usize {
        (1 + self.key_len()).next_multiple_of(8) + 8
    }
}

/// A key, ready for packets.
pub enum Key {
    SipHash24(Zeroizing<[u8; 16]>),
    /// The HMAC states after the inner and the outer pad.
    Hmac(Box<hmac::Key>),
}

/// The latest keys. A key that failed to unwrap is remembered until the key-encryption keys change.
pub struct Keys {
    keks: Arc<KekRing>,
    places: Box<[RwLock<Option<CachedKey>>]>,
}

struct CachedKey {
    kind: HashKey,
    wrapped: Box<[u8]>,
    key: Option<Key>,
    /// [`KekRing::changes`] when the key was unwrapped.
    changes: u64,
}

impl Keys {
    pub fn new(keks: Arc<KekRing>) -> Self {
        let places = (0..PLACES).map(|_| RwLock::default()).collect();
        Self { keks, places }
    }

    /// Returns the result of `work` on the key. `None`: damaged, or wrapped under another key-encryption key or for another purpose.
    pub fn with<R>(
        &self,
        kind: HashKey,
        wrapped: &[u8],
        work: impl FnOnce(&Key) -> R,
    ) -> Option<R> {
        // Ciphertext is spread evenly by itself.
        let at = wrapped.first().map_or(0, |byte| usize::from(*byte)) % PLACES;
        let place = self.places.get(at)?;
        let is_known = |place: &CachedKey| {
            place.kind == kind
                && *place.wrapped == *wrapped
                && (place.key.is_some() || place.changes == self.keks.changes())
        };
        let mut held = place.read();
        if !held.as_ref().is_some_and(is_known) {
            drop(held);
            let changes = self.keks.changes();
            let key = unwrap(&self.keks, kind, wrapped);
            let mut empty = place.write();
            *empty = Some(CachedKey {
                kind,
                wrapped: wrapped.into(),
                key,
                changes,
            });
            held = RwLockWriteGuard::downgrade(empty);
        }
        held.as_ref()?.key.as_ref().map(work)
    }
}

fn unwrap(keks: &KekRing, kind: HashKey, wrapped: &[u8]) -> Option<Key> {
    if wrapped.len() != kind.wrapped_len() {
        return None;
    }
    let mut room = Zeroizing::new([0; ROOM]);
    let len = keks.unwrap_into(wrapped, room.as_mut())?;
    let plain = room.get(..len)?;
    let (number, key) = plain.split_first()?;
    if *number != kind as u8 || key.len() != kind.key_len() {
        return None;
    }
    Some(match kind {
        HashKey::SipHash24 => Key::SipHash24(Zeroizing::new(key.try_into().ok()?)),
        HashKey::HmacSha256 => Key::Hmac(Box::new(hmac::Key::new(hmac::HMAC_SHA256, key))),
        HashKey::HmacSha512 => Key::Hmac(Box::new(hmac::Key::new(hmac::HMAC_SHA512, key))),
    })
}
