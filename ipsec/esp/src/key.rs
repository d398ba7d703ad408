//! Keys: the material of one SA, and the gateway's key-encryption key that wraps it (RFC 5649, AES-KWP).

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, LessSafeKey, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::key_wrap::{AES_256, AesKek, KeyWrapPadded};
use zeroize::Zeroizing;

const KEY_LEN: usize = 32;
const SALT_LEN: usize = 4;
/// RFC 4106 section 8.1: the key, then the salt.
pub const KEY_MATERIAL_LEN: usize = KEY_LEN + SALT_LEN;
/// RFC 5649 section 4.1: padded to 8 bytes, and 8 more.
pub const WRAPPED_KEY_LEN: usize = 48;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// Key material that is not 36 bytes.
    Length,
    /// A wrapped key that fails its integrity check: another key-encryption key, or damaged.
    Integrity,
}

/// AES-256-GCM key and salt of one SA.
pub struct KeyMaterial(Zeroizing<[u8; KEY_MATERIAL_LEN]>);

/// The key-encryption key of one gateway.
pub struct Kek(Zeroizing<[u8; 32]>);

impl KeyMaterial {
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, KeyError> {
        Ok(Self(Zeroizing::new(
            bytes.try_into().map_err(|_| KeyError::Length)?,
        )))
    }

    /// Names the key without telling it: SHA-256.
    pub fn fingerprint(&self) -> [u8; 32] {
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(digest(&SHA256, self.0.as_ref()).as_ref());
        fingerprint
    }

    pub(crate) fn cipher(&self) -> Result<Cipher, KeyError> {
        let (key, salt) = self.0.split_last_chunk().ok_or(KeyError::Length)?;
        let key = UnboundKey::new(&AES_256_GCM, key).map_err(|_| KeyError::Length)?;
        Ok(Cipher {
            key: LessSafeKey::new(key),
            salt: *salt,
        })
    }
}

impl Kek {
    pub fn from_bytes(bytes: &[u8; 32]) -> Self {
        Self(Zeroizing::new(*bytes))
    }

    pub fn unwrap(&self, wrapped: &[u8; WRAPPED_KEY_LEN]) -> Result<KeyMaterial, KeyError> {
        let mut plain = Zeroizing::new([0; WRAPPED_KEY_LEN]);
        let material = self
            .aes()?
            .unwrap_with_padding(wrapped, plain.as_mut())
            .map_err(|_| KeyError::Integrity)?;
        KeyMaterial::from_bytes(material)
    }

    pub fn wrap(&self, material: &KeyMaterial) -> Result<[u8; WRAPPED_KEY_LEN], KeyError> {
        // aws-lc asks for 15 bytes of room beyond the input.
        let mut room = [0; KEY_MATERIAL_LEN + 15];
        let wrapped = self
            .aes()?
            .wrap_with_padding(material.0.as_ref(), &mut room)
            .map_err(|_| KeyError::Length)?;
        (&*wrapped).try_into().map_err(|_| KeyError::Length)
    }

    fn aes(&self) -> Result<AesKek, KeyError> {
        AesKek::new(&AES_256, self.0.as_ref()).map_err(|_| KeyError::Length)
    }
}

/// The expanded key and the salt.
pub(crate) struct Cipher {
    pub(crate) key: LessSafeKey,
    pub(crate) salt: [u8; SALT_LEN],
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
        f.write_str(match self {
            Self::Length => "an AES-GCM-256 key has 36 bytes: 32 of key, 4 of salt",
            Self::Integrity => "the wrapped key does not open under this key-encryption key",
        })
    }
}

impl std::error::Error for KeyError {}
