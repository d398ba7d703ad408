//! Keys: the material of one SA, and the gateway's key-encryption key that wraps it (RFC 5649, AES-KWP).

use std::fmt;

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::hmac::{self, HMAC_SHA256};
use aws_lc_rs::key_wrap::{AES_256, AesKek, KeyWrapPadded};
use zeroize::Zeroizing;

use crate::contract::{KEK_LEN, MAX_KEY_MATERIAL_LEN, Suite, WRAPPED_KEY_LEN};
use crate::suite::AdmittedSuite;

/// A key as it stands in a table entry: wrapped, right-aligned. The suite tells its length.
pub type WrappedKey = [u8; WRAPPED_KEY_LEN];

/// The text whose MAC is a key-encryption key's fingerprint; `service/culvert_service/gateways/key_wrap.py` has the same text.
const FINGERPRINT_TEXT: &[u8] = b"culvert key-encryption key";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// Key material of another length than this suite's.
    Length(Suite),
    /// A wrapped key that fails its integrity check: another key-encryption key, another suite, or damaged.
    Integrity,
    /// The crypto library refuses the key.
    Refused,
}

/// The keys of one SA, for one suite.
pub struct KeyMaterial {
    suite: Suite,
    /// `suite.key_material_len()` bytes, then zeros.
    bytes: Zeroizing<[u8; MAX_KEY_MATERIAL_LEN]>,
}

/// The key-encryption key of one gateway.
pub struct Kek(Zeroizing<[u8; KEK_LEN]>);

impl KeyMaterial {
    pub fn new(suite: AdmittedSuite, bytes: &[u8]) -> Result<Self, KeyError> {
        let suite = suite.suite();
        if bytes.len() != suite.key_material_len() {
            return Err(KeyError::Length(suite));
        }
        let mut own = Zeroizing::new([0; MAX_KEY_MATERIAL_LEN]);
        own.get_mut(..bytes.len())
            .ok_or(KeyError::Length(suite))?
            .copy_from_slice(bytes);
        Ok(Self { suite, bytes: own })
    }

    pub fn suite(&self) -> Suite {
        self.suite
    }

    /// Names the key without telling it: SHA-256.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest(&SHA256, self.bytes()).as_ref());
        fingerprint
    }

    /// The cipher's key, its salt or nonce, and the integrity key.
    pub(crate) fn parts(&self) -> (&[u8], &[u8], &[u8]) {
        let shape = self.suite.shape();
        let (key, rest) = self.bytes().split_at(shape.key);
        let (salt, integrity) = rest.split_at(shape.salt);
        (key, salt, integrity)
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.suite.key_material_len()]
    }
}

impl Kek {
    pub fn from_bytes(bytes: &[u8; KEK_LEN]) -> Self {
        Self(Zeroizing::new(*bytes))
    }

    pub(crate) fn bytes(&self) -> &[u8; KEK_LEN] {
        &self.0
    }

    pub fn unwrap(
        &self,
        suite: AdmittedSuite,
        wrapped: &WrappedKey,
    ) -> Result<KeyMaterial, KeyError> {
        let len = suite.suite().shape().wrapped();
        let (zeros, wrapped) = wrapped.split_at(WRAPPED_KEY_LEN - len);
        // With other bytes there, the same key would have a second name, and would start again under it.
        if zeros.iter().any(|byte| *byte != 0) {
            return Err(KeyError::Integrity);
        }
        let mut plain = Zeroizing::new([0; WRAPPED_KEY_LEN]);
        let len = self.unwrap_into(wrapped, plain.as_mut())?;
        KeyMaterial::new(suite, plain.get(..len).ok_or(KeyError::Integrity)?)
    }

    /// Unwraps into `room`, which must be 8 bytes longer than the content. Returns the content's length.
    pub fn unwrap_into(&self, wrapped: &[u8], room: &mut [u8]) -> Result<usize, KeyError> {
        let content = self.aes()?.unwrap_with_padding(wrapped, room);
        content
            .map(|content| content.len())
            .map_err(|_| KeyError::Integrity)
    }

    /// Identifies the key without revealing it: HMAC-SHA-256, under the key, of a text with no other use.
    pub fn fingerprint(&self) -> [u8; 32] {
        let key = hmac::Key::new(HMAC_SHA256, self.0.as_ref());
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(hmac::sign(&key, FINGERPRINT_TEXT).as_ref());
        fingerprint
    }

    pub fn wrap(&self, material: &KeyMaterial) -> Result<WrappedKey, KeyError> {
        // aws-lc asks for 15 bytes of room beyond the input.
        let mut room = [0; MAX_KEY_MATERIAL_LEN + 15];
        let wrapped = self
            .aes()?
            .wrap_with_padding(material.bytes(), &mut room)
            .map_err(|_| KeyError::Refused)?;
        let mut aligned = [0; WRAPPED_KEY_LEN];
        let start = WRAPPED_KEY_LEN - material.suite.shape().wrapped();
        aligned[start..].copy_from_slice(wrapped);
        Ok(aligned)
    }

    fn aes(&self) -> Result<AesKek, KeyError> {
        AesKek::new(&AES_256, self.0.as_ref()).map_err(|_| KeyError::Refused)
    }
}

impl fmt::Debug for KeyMaterial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyMaterial(redacted)")
    }
}

impl fmt::Debug for Kek {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Kek(redacted)")
    }
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length(suite) => {
                let len = suite.key_material_len();
                write!(f, "{suite} needs key material of {len} bytes")
            }
            Self::Integrity => {
                f.write_str("the wrapped key does not open under this key-encryption key")
            }
            Self::Refused => f.write_str("the crypto library refuses the key"),
        }
    }
}

impl std::error::Error for KeyError {}
