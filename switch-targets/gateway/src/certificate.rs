//! The gateway's P-256 key, its certificate signing request (RFC 2986), and the dates of its certificate.

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair as _};
use data_encoding::BASE64;
use rustls::pki_types::PrivateKeyDer;
use rustls::pki_types::pem::PemObject as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};
use zeroize::Zeroizing;

use crate::fault::{Fault, Outcome};

/// ecdsa-with-SHA256 (RFC 5758 section 3.2), as an AlgorithmIdentifier.
const ECDSA_WITH_SHA256: &[u8] = &[
    0x30, 0x0a, 0x06, 0x08, 0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03, 0x02,
];
const LEAVES: &[u8] = b"culvert gateway leaves 1\0";
const REPORTS: &[u8] = b"culvert gateway reports 1\0";
const SEQUENCE: u8 = 0x30;
const BIT_STRING: u8 = 0x03;

pub struct GatewayKey {
    pair: EcdsaKeyPair,
    /// PKCS #8, PEM.
    pub pem: Zeroizing<String>,
}

impl GatewayKey {
    pub fn new() -> Outcome<Self> {
        EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &SystemRandom::new())
            .ok()
            .and_then(|der| Self::of(der.as_ref()))
            .ok_or_else(|| {
                Fault::new(
                    "This computer's random numbers cannot be used.",
                    "Restart the computer, and try again.",
                )
            })
    }

    /// Reads the PEM of `new`.
    pub fn parse(pem: &str) -> Option<Self> {
        let PrivateKeyDer::Pkcs8(der) = PrivateKeyDer::from_pem_slice(pem.as_bytes()).ok()? else {
            return None;
        };
        Self::of(der.secret_pkcs8_der())
    }

    fn of(der: &[u8]) -> Option<Self> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, der).ok()?;
        Some(Self {
            pair,
            pem: Zeroizing::new(pem("PRIVATE KEY", der)),
        })
    }

    /// A request without a name: the controller knows the name.
    pub fn request(&self) -> Option<String> {
        let key: PublicKeyX509Der<'_> = self.pair.public_key().as_der().ok()?;
        // CertificationRequestInfo: version 0, an empty subject, the key, no attributes ([0]).
        let info = wrap(
            SEQUENCE,
            &[
                &[0x02, 0x01, 0x00],
                &[SEQUENCE, 0x00],
                key.as_ref(),
                &[0xa0, 0x00],
            ],
        );
        let signature = self.sign(&info)?;
        let signed = wrap(BIT_STRING, &[&[0x00], &signature]);
        Some(pem(
            "CERTIFICATE REQUEST",
            &wrap(SEQUENCE, &[&info, ECDSA_WITH_SHA256, &signed]),
        ))
    }

    /// The signature with which the gateway leaves, base64.
    pub fn sign_leave(&self, gateway: &str) -> Option<String> {
        Some(BASE64.encode(&self.sign(&[LEAVES, gateway.as_bytes()].concat())?))
    }

    /// The signature of a report's lines, base64.
    pub fn sign_report(&self, lines: &str) -> Option<String> {
        Some(BASE64.encode(&self.sign(&[REPORTS, lines.as_bytes()].concat())?))
    }

    fn sign(&self, message: &[u8]) -> Option<Vec<u8>> {
        Some(
            self.pair
                .sign(&SystemRandom::new(), message)
                .ok()?
                .as_ref()
                .to_vec(),
        )
    }
}

/// The seconds since 1970 from which to which a certificate is good. None if it cannot be read.
pub fn dates(chain_pem: &str) -> Option<(i64, i64)> {
    let der = rustls::pki_types::CertificateDer::from_pem_slice(chain_pem.as_bytes()).ok()?;
    let (_, certificate) = X509Certificate::from_der(&der).ok()?;
    let validity = certificate.validity();
    Some((
        validity.not_before.timestamp(),
        validity.not_after.timestamp(),
    ))
}

/// DER: tag, length, content (X.690 section 8.1).
fn wrap(tag: u8, parts: &[&[u8]]) -> Vec<u8> {
    let content = parts.concat();
    let length = content.len().to_be_bytes();
    let mut made = vec![tag];
    if content.len() < 0x80 {
        made.push(length[length.len() - 1]);
    } else {
        let significant: Vec<u8> = length.into_iter().skip_while(|byte| *byte == 0).collect();
        // At most 8.
        made.push(0x80 | u8::try_from(significant.len()).unwrap_or_default());
        made.extend(significant);
    }
    made.extend(content);
    made
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = BASE64.encode(der);
    let lines: Vec<&str> = (0..text.len())
        .step_by(64)
        .map(|at| &text[at..text.len().min(at + 64)])
        .collect();
    format!(
        "-----BEGIN {label}-----\n{}\n-----END {label}-----\n",
        lines.join("\n")
    )
}

#[cfg(test)]
mod tests {
    use x509_parser::certification_request::X509CertificationRequest;
    use x509_parser::pem::{Pem, parse_x509_pem};

    use super::*;

    #[test]
    fn a_request_proves_the_key_and_survives_the_file() {
        let key = GatewayKey::new().ok();
        let again = key.as_ref().and_then(|it| GatewayKey::parse(&it.pem));
        let requests = [key, again].map(|it| it.and_then(|it| it.request()));
        let keys = requests.map(|request| {
            let text = request.unwrap_or_default();
            let (_, pem) = parse_x509_pem(text.as_bytes()).unwrap_or((
                b"",
                Pem {
                    label: String::new(),
                    contents: vec![],
                },
            ));
            let parsed = X509CertificationRequest::from_der(&pem.contents).ok();
            parsed.map(|(rest, request)| {
                assert!(rest.is_empty());
                request.certification_request_info.subject_pki.raw.to_vec()
            })
        });
        assert!(keys[0].is_some());
        assert_eq!(keys[0], keys[1]);
    }
}
