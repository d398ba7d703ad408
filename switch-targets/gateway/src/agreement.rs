//! The key-encryption key (KEK) that this gateway and the controller agree on (docs/decisions, 63).
//!
//! `service/culvert_service/joining/agreement.py` is the other half and has the formula; both are tested with
//! `tests/vectors/gateway_kek.json`, which OpenSSL computed.

use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Salt};
use aws_lc_rs::hmac;
use zeroize::Zeroizing;

use crate::fault::{Fault, Outcome};
use crate::link::TOKEN_LEN;

const LABEL: &[u8] = b"culvert gateway key-encryption key 1\0";
/// The message of a KEK's fingerprint, as in `ipsec/esp/src/key.rs`.
const FINGERPRINT_TEXT: &[u8] = b"culvert key-encryption key";
pub const KEK_LEN: usize = 32;
pub type Kek = Zeroizing<[u8; KEK_LEN]>;

/// The gateway's half of one agreement.
pub struct Half {
    private: PrivateKey,
    public: [u8; 32],
}

struct KekLen;

impl KeyType for KekLen {
    fn len(&self) -> usize {
        KEK_LEN
    }
}

impl Half {
    pub fn new() -> Outcome<Self> {
        PrivateKey::generate(&X25519)
            .ok()
            .and_then(Self::of)
            .ok_or_else(no_crypto)
    }

    fn of(private: PrivateKey) -> Option<Self> {
        let public = private
            .compute_public_key()
            .ok()?
            .as_ref()
            .try_into()
            .ok()?;
        Some(Self { private, public })
    }

    pub fn public(&self) -> &[u8; 32] {
        &self.public
    }

    /// Derives the KEK. None for a controller's key that gives every peer the same secret (RFC 7748 section 6.1).
    pub fn agree(&self, theirs: &[u8; 32], token: &[u8; TOKEN_LEN]) -> Option<Kek> {
        let info: [&[u8]; 3] = [LABEL, &self.public, theirs];
        agree(
            &self.private,
            UnparsedPublicKey::new(&X25519, theirs),
            (),
            |shared| {
                if shared.iter().all(|byte| *byte == 0) {
                    return Err(());
                }
                let mut kek = Zeroizing::new([0; KEK_LEN]);
                let extracted = Salt::new(HKDF_SHA256, token).extract(shared);
                let expanded = extracted.expand(&info, KekLen).map_err(drop)?;
                expanded.fill(kek.as_mut_slice()).map_err(drop)?;
                Ok(kek)
            },
        )
        .ok()
    }
}

/// Whether the controller has derived this KEK, too. Compares in constant time.
pub fn confirms(kek: &Kek, fingerprint: &[u8]) -> bool {
    let key = hmac::Key::new(hmac::HMAC_SHA256, kek.as_slice());
    hmac::verify(&key, FINGERPRINT_TEXT, fingerprint).is_ok()
}

fn no_crypto() -> Fault {
    Fault::new(
        "This computer's random numbers cannot be used.",
        "Restart the computer, and try again.",
    )
}

#[cfg(test)]
mod tests {
    use data_encoding::{BASE32_NOPAD, HEXLOWER};
    use serde_json::Value;

    use super::*;

    fn bytes<const N: usize>(case: &Value, field: &str) -> [u8; N] {
        let text = case[field].as_str().unwrap_or_default().as_bytes();
        HEXLOWER
            .decode(text)
            .ok()
            .and_then(|it| it.try_into().ok())
            .unwrap_or([0; N])
    }

    #[test]
    fn the_kek_is_the_one_that_openssl_computes() {
        let vectors: Value =
            serde_json::from_str(include_str!("../../../tests/vectors/gateway_kek.json"))
                .unwrap_or_default();
        let cases = vectors["cases"].as_array().cloned().unwrap_or_default();
        assert_eq!(cases.len(), 3);
        for case in cases {
            let private =
                PrivateKey::from_private_key(&X25519, &bytes::<32>(&case, "gateway_private"));
            let half = private.ok().and_then(Half::of);
            assert_eq!(
                half.as_ref().map(|it| it.public),
                Some(bytes(&case, "gateway_public"))
            );
            let token = case["token"]
                .as_str()
                .unwrap_or_default()
                .to_ascii_uppercase();
            let token: Option<[u8; TOKEN_LEN]> = BASE32_NOPAD
                .decode(token.as_bytes())
                .ok()
                .and_then(|it| it.try_into().ok());
            let theirs = bytes(&case, "controller_public");
            let kek = half
                .zip(token)
                .and_then(|(half, token)| half.agree(&theirs, &token));
            assert_eq!(kek.as_deref(), Some(&bytes::<32>(&case, "kek")));
            let said = bytes::<32>(&case, "fingerprint");
            assert!(kek.as_ref().is_some_and(|kek| confirms(kek, &said)));
            assert!(!kek.is_some_and(|kek| confirms(&kek, &[0; 32])));
        }
    }

    #[test]
    fn a_key_that_gives_every_peer_the_same_secret_is_refused() {
        let mut one = [0; 32];
        for first in [0, 1] {
            one[0] = first;
            let kek = Half::new()
                .ok()
                .and_then(|half| half.agree(&one, &[7; TOKEN_LEN]));
            assert!(kek.is_none());
        }
    }
}
