//! The controller's REST API over TLS, as this computer needs it: JSON by POST, one connection a call.
//!
//! ```text
//!  before the join: the chain must have the CA with the link's fingerprint, and a certificate that this CA issued
//!  after the join:  the CA that the controller gave
//! ```
//! The handshake ends before a request is sent, so a stranger never sees the token.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, ToSocketAddrs as _};
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::digest::{SHA256, digest};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs as provider};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, OtherError,
    RootCertStore, SignatureScheme, StreamOwned,
};
use serde_json::Value;
use thiserror::Error as ThisError;

use crate::fault::{Fault, Outcome};
use crate::link::Place;

const PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_MAX: u64 = 1 << 20;
const PREFIX: &str = "/api/v1";
/// The first is never chosen: it asks for the certificate of the controller's own CA (docs/decisions, 66).
const ALPN: [&[u8]; 2] = [b"culvert-ca", b"http/1.1"];

/// The CA that the controller's certificate must be issued by.
pub enum Trust {
    /// The SHA-256 of the CA's certificate, which the controller's chain contains.
    Pin([u8; 32]),
    /// PEM.
    Authorities(String),
}

pub struct Controller {
    pub place: Place,
    tls: Arc<ClientConfig>,
}

/// A refusal by the controller: its reason, and its words.
pub enum Answer {
    Done(Value),
    Refused { reason: String, fault: Fault },
}

impl Answer {
    pub fn done(self) -> Outcome<Value> {
        match self {
            Self::Done(value) => Ok(value),
            Self::Refused { fault, .. } => Err(fault),
        }
    }
}

impl Controller {
    pub fn new(place: Place, trust: &Trust) -> Outcome<Self> {
        let broken = |_| Fault::new("TLS cannot be set up.", "Install this package again.");
        let crypto = Arc::new(provider::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match trust {
            Trust::Pin(fingerprint) => Arc::new(Pinned {
                fingerprint: *fingerprint,
                crypto: Arc::clone(&crypto),
            }),
            Trust::Authorities(pem) => authority_verifier(pem, &crypto).ok_or_else(|| {
                Fault::new(
                    "The controller's CA in this gateway's folder cannot be read.",
                    "Join again with a new link.",
                )
            })?,
        };
        let mut tls = ClientConfig::builder_with_provider(crypto)
            .with_safe_default_protocol_versions()
            .map_err(broken)?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        tls.alpn_protocols = ALPN.iter().map(|it| it.to_vec()).collect();
        Ok(Self {
            place,
            tls: Arc::new(tls),
        })
    }

    /// The addresses of the controller's name.
    pub fn addresses(&self) -> Outcome<Vec<IpAddr>> {
        let name = (self.place.host.as_str(), self.place.port);
        let found: Vec<IpAddr> = name
            .to_socket_addrs()
            .map_err(|cause| self.unreachable(&format!("its name is not known here ({cause})")))?
            .map(|it| it.ip())
            .collect();
        if found.is_empty() {
            Err(self.unreachable("its name has no address"))
        } else {
            Ok(found)
        }
    }

    pub fn post(&self, path: &str, body: &Value) -> Outcome<Answer> {
        let mut stream = self.connect()?;
        let content = zeroize::Zeroizing::new(body.to_string());
        let head = format!(
            "POST {PREFIX}/{path} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\
             Accept: application/json\r\nConnection: close\r\n\r\n",
            self.place.authority(),
            content.len(),
        );
        let broken =
            |cause: std::io::Error| self.unreachable(&format!("the connection broke: {cause}"));
        stream.write_all(head.as_bytes()).map_err(broken)?;
        stream.write_all(content.as_bytes()).map_err(broken)?;
        stream.flush().map_err(broken)?;
        let (status, content) = read_answer(&mut stream).map_err(broken)?;
        let value: Value = serde_json::from_slice(&content)
            .map_err(|_| self.unreachable(&format!("it answers {status}, and no JSON")))?;
        Ok(if (200..300).contains(&status) {
            Answer::Done(value)
        } else {
            refusal(&value, status)
        })
    }

    fn connect(&self) -> Outcome<StreamOwned<ClientConnection, TcpStream>> {
        let name = ServerName::try_from(self.place.host.clone())
            .map_err(|_| self.unreachable("its name cannot be one"))?;
        let mut why = "no address answers".to_owned();
        for address in self.addresses()? {
            let to = SocketAddr::new(address, self.place.port);
            let mut tcp = match TcpStream::connect_timeout(&to, PATIENCE) {
                Ok(tcp) => tcp,
                Err(cause) => {
                    why = format!("{to}: {cause}");
                    continue;
                }
            };
            let wait = Some(PATIENCE);
            let timed = tcp.set_read_timeout(wait).and(tcp.set_write_timeout(wait));
            timed.map_err(|cause| self.unreachable(&cause.to_string()))?;
            let mut tls = ClientConnection::new(Arc::clone(&self.tls), name.clone())
                .map_err(|cause| self.distrusted(&cause))?;
            while tls.is_handshaking() {
                tls.complete_io(&mut tcp).map_err(|cause| {
                    let tls = cause.get_ref().and_then(|it| it.downcast_ref::<Error>());
                    tls.map_or_else(
                        || self.unreachable(&cause.to_string()),
                        |it| self.distrusted(it),
                    )
                })?;
            }
            return Ok(StreamOwned::new(tls, tcp));
        }
        Err(self.unreachable(&why))
    }

    fn unreachable(&self, why: &str) -> Fault {
        Fault::new(
            format!(
                "The controller at {} cannot be reached: {why}.",
                self.place.authority()
            ),
            "Check this computer's route, DNS and firewall towards the controller; the link's name must lead to it.",
        )
    }

    fn distrusted(&self, why: &Error) -> Fault {
        let at = self.place.authority();
        match why {
            Error::InvalidCertificate(CertificateError::NotValidYetContext { .. })
            | Error::InvalidCertificate(CertificateError::NotValidYet) => Fault::new(
                format!("The certificate of {at} is not good yet by this computer's clock."),
                "Set the clock (timedatectl set-ntp true), and run the same command again.",
            ),
            Error::InvalidCertificate(CertificateError::ExpiredContext { .. })
            | Error::InvalidCertificate(CertificateError::Expired) => Fault::new(
                format!("The certificate of {at} has expired by this computer's clock."),
                "Set the clock (timedatectl set-ntp true), and run the same command again.",
            ),
            Error::InvalidCertificate(CertificateError::Other(other))
                if other.0.downcast_ref::<NotPinned>().is_some() =>
            {
                Fault::new(
                    format!(
                        "{at} is not the controller that made this link: {}. The token was not sent.",
                        NotPinned
                    ),
                    "Copy the whole link again. If a proxy stands before the controller, it must pass TLS through.",
                )
            }
            other => Fault::new(
                format!(
                    "{at} does not show the controller's certificate: {other}. Nothing was sent."
                ),
                "Use the name that the controller's certificate has (server_names), and no proxy that ends TLS.",
            ),
        }
    }
}

fn refusal(value: &Value, status: u16) -> Answer {
    let text = |field: &str| value[field].as_str().unwrap_or_default().to_owned();
    let detail = text("detail");
    let what = if detail.is_empty() {
        format!("The controller refuses, with {status}.")
    } else {
        detail
    };
    let remedy = text("remedy");
    let remedy = if remedy.is_empty() {
        "See the controller's log.".to_owned()
    } else {
        remedy
    };
    Answer::Refused {
        reason: text("reason"),
        fault: Fault::new(what, remedy),
    }
}

/// A field of an answer.
pub fn field(value: &Value, name: &str) -> Outcome<String> {
    value[name]
        .as_str()
        .map(str::to_owned)
        .ok_or_else(|| unexpected(name))
}

pub fn unexpected(what: &str) -> Fault {
    Fault::new(
        format!("The controller's answer cannot be used: {what} is missing or wrong."),
        "Install the package culvert-gateway of the controller's version.",
    )
}

/// Status and content (RFC 9112). The content has a length, or ends with the connection.
fn read_answer(stream: &mut impl Read) -> std::io::Result<(u16, Vec<u8>)> {
    let invalid = || std::io::Error::other("the answer is not HTTP");
    let mut whole = Vec::new();
    let mut limited = stream.take(ANSWER_MAX);
    let mut part = [0; 4096];
    loop {
        if let Some((head, rest)) = split_head(&whole) {
            let status = head
                .split(' ')
                .nth(1)
                .and_then(|it| it.parse().ok())
                .ok_or_else(invalid)?;
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length")
                    .then(|| value.trim().parse::<usize>().ok())?
            });
            if let Some(content) = length.and_then(|length| rest.get(..length)) {
                return Ok((status, content.to_vec()));
            }
        }
        match limited.read(&mut part) {
            Ok(0) => return Err(std::io::Error::other("the answer is not whole")),
            Ok(count) => whole.extend_from_slice(&part[..count]),
            Err(cause) if cause.kind() == std::io::ErrorKind::Interrupted => {}
            Err(cause) => return Err(cause),
        }
    }
}

fn split_head(whole: &[u8]) -> Option<(&str, &[u8])> {
    let end = whole.windows(4).position(|it| it == b"\r\n\r\n")?;
    Some((std::str::from_utf8(&whole[..end]).ok()?, &whole[end + 4..]))
}

fn authority_verifier(
    pem: &str,
    crypto: &Arc<CryptoProvider>,
) -> Option<Arc<dyn ServerCertVerifier>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        roots.add(certificate.ok()?).ok()?;
    }
    let verifier: Arc<dyn ServerCertVerifier> = webpki(roots, crypto).ok()?;
    Some(verifier)
}

fn webpki(
    roots: RootCertStore,
    crypto: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, Error> {
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(crypto))
        .build()
        .map_err(|cause| Error::General(cause.to_string()))
}

#[derive(Debug, ThisError)]
#[error("its certificate does not come from the CA whose fingerprint the link has")]
struct NotPinned;

/// Accepts a certificate that the CA with this fingerprint issued; the chain contains that CA.
#[derive(Debug)]
struct Pinned {
    fingerprint: [u8; 32],
    crypto: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Pinned {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let pinned = intermediates
            .iter()
            .find(|it| digest(&SHA256, it).as_ref() == self.fingerprint)
            .ok_or_else(|| Error::from(CertificateError::Other(OtherError(Arc::new(NotPinned)))))?;
        let mut roots = RootCertStore::empty();
        roots.add(pinned.clone().into_owned())?;
        webpki(roots, &self.crypto)?.verify_server_cert(end_entity, &[], name, ocsp, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.crypto.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.crypto
            .signature_verification_algorithms
            .supported_schemes()
    }
}
