//! The P4 extern `PacketHash` (p4include/packet_hash.p4): cryptographic hashes over the whole packet.

mod key;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use aws_lc_rs::{digest, hmac};
use blake2::{Blake2b512, Digest as _};
use esp::KekRing;
use sluice_pipeline::{Extern, ExternArg, ExternRegistry, Packet};

pub use key::HashKey;
use key::{Key, Keys};

/// The type's name in P4.
const TYPE: &str = "PacketHash";
/// The longest digest, in bytes.
const LONGEST: usize = 64;

/// Make `PacketHash` known to programs. Returns the count of packets whose key did not open.
pub fn register(registry: &mut ExternRegistry, keks: Arc<KekRing>) -> Arc<AtomicU64> {
    let refused = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&refused);
    registry.register(TYPE, move |_, _| {
        Ok(Box::new(PacketHash::new(
            Arc::clone(&keks),
            Arc::clone(&count),
        )))
    });
    refused
}

/// An extern object, with the keys that it has seen.
pub struct PacketHash {
    keys: Keys,
    refused: Arc<AtomicU64>,
}

impl PacketHash {
    /// `refused` counts the packets whose key does not open.
    pub fn new(keks: Arc<KekRing>, refused: Arc<AtomicU64>) -> Self {
        Self {
            keys: Keys::new(keks),
            refused,
        }
    }
}

/// Methods by index; those with a key first.
const KEYED: [(&str, HashKey); 3] = [
    ("siphash_2_4", HashKey::SipHash24),
    ("hmac_sha256", HashKey::HmacSha256),
    ("hmac_sha512", HashKey::HmacSha512),
];
const BLAKE2B: usize = 3;
const SHA3_512: usize = 4;

/// `HashVerdict` in P4.
mod verdict {
    pub const OK: u128 = 0;
    pub const KEY: u128 = 1;
}

impl Extern for PacketHash {
    fn method(&self, name: &str, arity: usize) -> Option<usize> {
        match (name, arity) {
            (name, 3) => KEYED.iter().position(|(keyed, _)| *keyed == name),
            ("blake2b", 1) => Some(BLAKE2B),
            ("sha3_512", 1) => Some(SHA3_512),
            _ => None,
        }
    }

    fn sees_headers(&self) -> bool {
        true
    }

    fn call(&self, method: usize, args: &mut [ExternArg], packet: &mut Packet<'_>, _now: Duration) {
        match (method, args) {
            (BLAKE2B, [out]) => set_first_bits(out, &Blake2b512::digest(packet.whole())),
            (SHA3_512, [out]) => set_first_bits(
                out,
                digest::digest(&digest::SHA3_512, packet.whole()).as_ref(),
            ),
            (keyed, [wrapped, out, verdict]) => {
                let hashed = KEYED.get(keyed).and_then(|(_, kind)| {
                    self.keys.with(*kind, wrapped.bytes(), |key| match key {
                        Key::SipHash24(key) => {
                            let hash = siphasher::sip::SipHasher24::new_with_key(key);
                            set_first_bits(out, &hash.hash(packet.whole()).to_le_bytes());
                        }
                        Key::Hmac(key) => {
                            set_first_bits(out, hmac::sign(key, packet.whole()).as_ref());
                        }
                    })
                });
                if hashed.is_none() {
                    self.refused.fetch_add(1, Ordering::Relaxed);
                    out.set(0);
                    return verdict.set(verdict::KEY);
                }
                verdict.set(verdict::OK);
            }
            _ => {}
        }
    }
}

/// Sets as many of the first bits as there is room for; in more room, the whole digest stands at the right.
fn set_first_bits(out: &mut ExternArg, digest: &[u8]) {
    let width = out.width() as usize;
    let Some(first) = digest.get(..width.div_ceil(8)) else {
        return out.set_bytes(digest);
    };
    let spare = first.len() * 8 - width;
    if spare == 0 {
        return out.set_bytes(first);
    }
    let mut cut = [0; LONGEST];
    let mut above = 0;
    for (to, byte) in cut.iter_mut().zip(first) {
        *to = above << (8 - spare) | byte >> spare;
        above = *byte;
    }
    out.set_bytes(&cut[..first.len()]);
}
