//! The integrity algorithms of the legacy suites: HMAC (RFC 2104). The caller cuts the tag to the suite's ICV.

use aws_lc_rs::hmac::{Algorithm, Context, Key};
use hmac::{Hmac, KeyInit, Mac as _};
use md5::Md5;

use crate::key::KeyError;

/// Bytes of a tag: at least as many as of every ICV.
const TAG_LEN: usize = 16;

#[allow(clippy::large_enum_variant, reason = "it is in the SA's box")]
pub(crate) enum Mac {
    Sha(Key),
    /// aws-lc-rs has no MD5.
    Md5(Hmac<Md5>),
}

impl Mac {
    pub(crate) fn sha(algorithm: Algorithm, key: &[u8]) -> Self {
        Self::Sha(Key::new(algorithm, key))
    }

    pub(crate) fn md5(key: &[u8]) -> Result<Self, KeyError> {
        let key = Hmac::new_from_slice(key).map_err(|_| KeyError::Refused)?;
        Ok(Self::Md5(key))
    }

    /// The tag's first bytes; `high` is the high half of an extended sequence number.
    pub(crate) fn tag(&self, bytes: &[u8], high: Option<[u8; 4]>) -> [u8; TAG_LEN] {
        let mut tag = [0; TAG_LEN];
        match self {
            Self::Sha(key) => {
                let mut context = Context::with_key(key);
                context.update(bytes);
                if let Some(high) = high {
                    context.update(&high);
                }
                cut(&mut tag, context.sign().as_ref());
            }
            Self::Md5(key) => {
                let mut context = key.clone();
                context.update(bytes);
                if let Some(high) = high {
                    context.update(&high);
                }
                cut(&mut tag, &context.finalize().into_bytes());
            }
        }
        tag
    }
}

fn cut(tag: &mut [u8; TAG_LEN], whole: &[u8]) {
    for (to, from) in tag.iter_mut().zip(whole) {
        *to = *from;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use aws_lc_rs::hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256};

    use super::*;
    use crate::vectors::{bytes, cases};

    #[test]
    fn tags_are_those_of_rfc_2202_and_rfc_4231() {
        for case in cases("hmac") {
            let key = bytes(&case, "key");
            let mac = match case["algorithm"].as_str().unwrap() {
                "md5" => Mac::md5(&key).unwrap(),
                "sha1" => Mac::sha(HMAC_SHA1_FOR_LEGACY_USE_ONLY, &key),
                "sha256" => Mac::sha(HMAC_SHA256, &key),
                other => unreachable!("{other}"),
            };
            let (data, tag) = (bytes(&case, "data"), bytes(&case, "tag"));
            assert_eq!(mac.tag(&data, None), tag[..TAG_LEN]);
            let (start, high) = data.split_last_chunk().unwrap();
            assert_eq!(mac.tag(start, Some(*high)), tag[..TAG_LEN]);
        }
    }
}
