//! Encryption and integrity of one ESP packet, for every suite.
//!
//! ```text
//!  AEAD       seal: encrypt and tag at once           AAD: SPI, sequence (64 bits with ESN)
//!             open: verify, then decrypt              nonce: salt, IV
//!  separate   seal: encrypt, then MAC                 MAC: SPI, sequence (low half), IV, ciphertext, and with ESN
//!             open: verify the MAC, then decrypt           the high half (RFC 4303 section 2.2.1)
//! ```

use aws_lc_rs::aead::{AES_128_GCM, AES_256_GCM, Aad, CHACHA20_POLY1305};
use aws_lc_rs::aead::{Algorithm, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::cipher::{AES_128, AES_256, UnboundCipherKey};
use aws_lc_rs::cipher::{DecryptingKey, DecryptionContext, EncryptingKey, EncryptionContext};
use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::hmac;
use aws_lc_rs::iv::FixedLength;

use crate::contract::{Shape, Suite};
use crate::key::{KeyError, KeyMaterial};
use crate::mac::Mac;
use crate::random::RandomIvs;
use crate::wire::{IV, SEQUENCE};

const AES_BLOCK_LEN: usize = 16;

/// The numbers that identify one packet of an SA.
#[derive(Clone, Copy)]
pub(crate) struct Numbers {
    pub(crate) spi: u32,
    pub(crate) sequence: u64,
    pub(crate) esn: bool,
}

/// Forged or damaged; or, when sealing, a length that no packet has.
pub(crate) struct Failed;

pub(crate) struct Cipher {
    pub(crate) shape: Shape,
    keys: Keys,
}

enum Keys {
    Aead {
        key: LessSafeKey,
        salt: [u8; 4],
    },
    /// Boxed: most SAs are not legacy, and it is a hundred times larger.
    Separate(Box<Separate>),
}

struct Separate {
    crypt: Crypt,
    mac: Mac,
}

#[allow(clippy::large_enum_variant, reason = "it is in a box already")]
enum Crypt {
    Null,
    Ctr {
        key: EncryptingKey,
        nonce: [u8; 4],
    },
    Cbc {
        encrypting: EncryptingKey,
        decrypting: DecryptingKey,
        ivs: RandomIvs,
    },
}

impl Cipher {
    pub(crate) fn new(material: &KeyMaterial) -> Result<Self, KeyError> {
        let (key, salt, integrity) = material.parts();
        let keys = match material.suite() {
            Suite::AesGcm256 => aead(&AES_256_GCM, key, salt)?,
            Suite::AesGcm128 => aead(&AES_128_GCM, key, salt)?,
            Suite::ChaCha20Poly1305 => aead(&CHACHA20_POLY1305, key, salt)?,
            Suite::NullHmacSha256 => separate(Crypt::Null, Mac::sha(hmac::HMAC_SHA256, integrity)),
            Suite::AesCtrHmacMd5 => separate(ctr(key, salt)?, Mac::md5(integrity)?),
            Suite::AesCbcHmacSha1 => separate(
                cbc(key)?,
                Mac::sha(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, integrity),
            ),
            Suite::AesCbcHmacSha256 => separate(cbc(key)?, Mac::sha(hmac::HMAC_SHA256, integrity)),
        };
        Ok(Self {
            shape: material.suite().shape(),
            keys,
        })
    }

    /// `packet` holds the plain payload and its trailer between header and ICV; the rest of it is written here. Its
    /// length must be one of the suite's.
    pub(crate) fn seal(&mut self, numbers: Numbers, packet: &mut [u8]) -> Result<(), Failed> {
        let icv_at = packet.len().checked_sub(self.shape.icv).ok_or(Failed)?;
        let (rest, icv) = packet.split_at_mut(icv_at);
        let (header, plain) = rest
            .split_at_mut_checked(self.shape.header())
            .ok_or(Failed)?;
        numbers.write(header);
        let iv = header.get_mut(IV..).ok_or(Failed)?;
        match &mut self.keys {
            Keys::Aead { key, salt } => {
                let sequence = numbers.sequence.to_be_bytes();
                iv.copy_from_slice(&sequence);
                let (aad, len) = numbers.aad();
                let tag = key
                    .seal_in_place_separate_tag(
                        nonce(*salt, sequence),
                        Aad::from(&aad[..len]),
                        plain,
                    )
                    .map_err(|_| Failed)?;
                icv.copy_from_slice(tag.as_ref());
            }
            Keys::Separate(separate) => {
                let Separate { crypt, mac } = &mut **separate;
                crypt.encrypt(numbers.sequence, iv, plain)?;
                icv.copy_from_slice(&mac.tag(rest, numbers.high_half())[..self.shape.icv]);
            }
        }
        Ok(())
    }

    /// Verifies and decrypts in place, and gives the plain payload with its trailer.
    pub(crate) fn open<'a>(
        &self,
        numbers: Numbers,
        packet: &'a mut [u8],
    ) -> Result<&'a mut [u8], Failed> {
        let icv_at = packet.len().checked_sub(self.shape.icv).ok_or(Failed)?;
        let (rest, icv) = packet.split_at_mut(icv_at);
        match &self.keys {
            Keys::Aead { key, salt } => {
                let (header, sealed) = rest
                    .split_at_mut_checked(self.shape.header())
                    .ok_or(Failed)?;
                let iv = *header.last_chunk().ok_or(Failed)?;
                let (aad, len) = numbers.aad();
                key.open_in_place_separate_tag(
                    nonce(*salt, iv),
                    Aad::from(&aad[..len]),
                    icv,
                    sealed,
                )
                .map_err(|_| Failed)
            }
            Keys::Separate(separate) => {
                let Separate { crypt, mac } = &**separate;
                let tag = mac.tag(rest, numbers.high_half());
                verify_slices_are_equal(&tag[..self.shape.icv], icv).map_err(|_| Failed)?;
                let (header, sealed) = rest
                    .split_at_mut_checked(self.shape.header())
                    .ok_or(Failed)?;
                crypt.decrypt(header.get(IV..).ok_or(Failed)?, sealed)?;
                Ok(sealed)
            }
        }
    }
}

impl Crypt {
    fn encrypt(&mut self, sequence: u64, iv: &mut [u8], plain: &mut [u8]) -> Result<(), Failed> {
        let (key, block) = match self {
            Self::Null => return Ok(()),
            Self::Ctr { key, nonce } => {
                iv.copy_from_slice(&sequence.to_be_bytes());
                (&*key, counter_block(*nonce, sequence.to_be_bytes()))
            }
            Self::Cbc {
                encrypting, ivs, ..
            } => {
                let block = ivs.next().ok_or(Failed)?;
                iv.copy_from_slice(&block);
                (&*encrypting, block)
            }
        };
        let context = EncryptionContext::Iv128(FixedLength::from(block));
        key.less_safe_encrypt(plain, context)
            .map(|_| ())
            .map_err(|_| Failed)
    }

    fn decrypt(&self, iv: &[u8], sealed: &mut [u8]) -> Result<(), Failed> {
        match self {
            Self::Null => Ok(()),
            Self::Ctr { key, nonce } => {
                let block = counter_block(*nonce, *iv.first_chunk().ok_or(Failed)?);
                let context = EncryptionContext::Iv128(FixedLength::from(block));
                // Counter mode encrypts and decrypts by the same operation.
                key.less_safe_encrypt(sealed, context)
                    .map(|_| ())
                    .map_err(|_| Failed)
            }
            Self::Cbc { decrypting, .. } => {
                let iv: [u8; AES_BLOCK_LEN] = *iv.first_chunk().ok_or(Failed)?;
                let context = DecryptionContext::Iv128(FixedLength::from(iv));
                decrypting
                    .decrypt(sealed, context)
                    .map(|_| ())
                    .map_err(|_| Failed)
            }
        }
    }
}

impl Numbers {
    fn write(self, header: &mut [u8]) {
        if let Some((first, _)) = header.split_first_chunk_mut::<IV>() {
            first[..SEQUENCE].copy_from_slice(&self.spi.to_be_bytes());
            first[SEQUENCE..].copy_from_slice(&(self.sequence as u32).to_be_bytes());
        }
    }

    /// RFC 4106 section 5: SPI and sequence number, of which the first `.1` bytes count.
    fn aad(self) -> ([u8; 12], usize) {
        let mut aad = [0; 12];
        aad[..4].copy_from_slice(&self.spi.to_be_bytes());
        if self.esn {
            aad[4..].copy_from_slice(&self.sequence.to_be_bytes());
            (aad, 12)
        } else {
            aad[4..8].copy_from_slice(&(self.sequence as u32).to_be_bytes());
            (aad, 8)
        }
    }

    fn high_half(self) -> Option<[u8; 4]> {
        self.esn
            .then(|| ((self.sequence >> 32) as u32).to_be_bytes())
    }
}

fn aead(algorithm: &'static Algorithm, key: &[u8], salt: &[u8]) -> Result<Keys, KeyError> {
    let key = UnboundKey::new(algorithm, key).map_err(|_| KeyError::Refused)?;
    Ok(Keys::Aead {
        key: LessSafeKey::new(key),
        salt: salt.try_into().map_err(|_| KeyError::Refused)?,
    })
}

fn separate(crypt: Crypt, mac: Mac) -> Keys {
    Keys::Separate(Box::new(Separate { crypt, mac }))
}

fn ctr(key: &[u8], nonce: &[u8]) -> Result<Crypt, KeyError> {
    Ok(Crypt::Ctr {
        key: EncryptingKey::ctr(aes(key)?).map_err(|_| KeyError::Refused)?,
        nonce: nonce.try_into().map_err(|_| KeyError::Refused)?,
    })
}

fn cbc(key: &[u8]) -> Result<Crypt, KeyError> {
    Ok(Crypt::Cbc {
        encrypting: EncryptingKey::cbc(aes(key)?).map_err(|_| KeyError::Refused)?,
        decrypting: DecryptingKey::cbc(aes(key)?).map_err(|_| KeyError::Refused)?,
        ivs: RandomIvs::default(),
    })
}

fn aes(key: &[u8]) -> Result<UnboundCipherKey, KeyError> {
    let algorithm = if key.len() == 16 { &AES_128 } else { &AES_256 };
    UnboundCipherKey::new(algorithm, key).map_err(|_| KeyError::Refused)
}

fn nonce(salt: [u8; 4], iv: [u8; 8]) -> Nonce {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&salt);
    nonce[4..].copy_from_slice(&iv);
    Nonce::assume_unique_for_key(nonce)
}

/// RFC 3686 section 4.
fn counter_block(nonce: [u8; 4], iv: [u8; 8]) -> [u8; AES_BLOCK_LEN] {
    let mut block = [0; AES_BLOCK_LEN];
    block[..4].copy_from_slice(&nonce);
    block[4..12].copy_from_slice(&iv);
    block[15] = 1;
    block
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::AllowedSuites;
    use crate::vectors::{bytes, cases};

    #[test]
    fn published_packets_open_to_the_published_plaintext() {
        for case in cases("cipher") {
            let suite: Suite = case["suite"].as_str().unwrap().parse().unwrap();
            let admitted = AllowedSuites::MODERN.with(suite).admit(suite).unwrap();
            let key = KeyMaterial::new(admitted, &bytes(&case, "key")).unwrap();
            let numbers = Numbers {
                spi: case["spi"].as_u64().unwrap() as u32,
                sequence: case["sequence"].as_u64().unwrap(),
                esn: case["esn"].as_bool().unwrap(),
            };
            let cipher = Cipher::new(&key).unwrap();
            let mut packet = bytes(&case, "packet");
            let plain = cipher.open(numbers, &mut packet).ok().unwrap();
            assert_eq!(plain, bytes(&case, "plain"), "{}", case["name"]);
        }
    }
}
