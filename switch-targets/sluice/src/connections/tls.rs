//! Mutual TLS: whom the switch lets in, and as whom it answers.
//!
//! A certificate follows the role in P4Runtime, not the role in TLS: a controller that the switch dials shows the certificate of a
//! P4Runtime client, as one that connects does, and the switch shows its own. So the certificate of a controller's other servers
//! programs no switch.
//!
//! A client's certificate must chain to the client CA, be meant for clients (extended key usage), and carry the name that
//! the controller has, or the one of those who only read. All three are checked in every handshake; sessions are not resumed.
//!
//! ```text
//!   files ── looked at every few seconds ──► changed, and whole? ──► the next handshakes; what is connected goes on
//! ```

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{NoServerSessionStorage, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, OtherError,
    RootCertStore, ServerConfig, SignatureScheme,
};
use thiserror::Error;
use tokio::sync::watch;
use tracing::{info, warn};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer as _, X509Certificate};

/// The files of the certificates, and the names of clients that may connect.
#[derive(Clone, Debug)]
pub struct Identity {
    pub certificate: PathBuf,
    pub key: PathBuf,
    pub client_ca: PathBuf,
    pub names: ClientNames,
}

/// dNSNames in a client's subject alternative name, compared exactly.
#[derive(Clone, Debug)]
pub struct ClientNames {
    pub controller: String,
    /// Name of clients that only read; without it no such client may connect.
    pub reader: Option<String>,
}

/// The kind of certificate that a client has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Caller {
    Controller,
    /// Reads everything, is primary of nothing, changes nothing.
    Reader,
}

/// Interval at which the files are checked for a change.
const LOOK: Duration = Duration::from_secs(2);
/// The protocol of a connection that the switch has dialled: HTTP/2 whose server is the end that dialled.
pub const DIALLED_ALPN: &[u8] = b"culvert-p4runtime";

/// Returns the reason for which a verified controller's certificate is refused.
pub type Admit = Box<dyn Fn(&CertificateDer<'_>) -> Result<(), String> + Send + Sync>;

#[derive(Debug, Error)]
pub enum TlsError {
    #[error("cannot use {what} in {}: {cause}", path.display())]
    File {
        what: &'static str,
        path: PathBuf,
        cause: String,
    },
    #[error("the certificate in {} and the key in {} do not work together: {cause}", certificate.display(), key.display())]
    KeyPair {
        certificate: PathBuf,
        key: PathBuf,
        cause: rustls::Error,
    },
    #[error("cannot verify clients with {}: {cause}", path.display())]
    ClientCa {
        path: PathBuf,
        cause: VerifierBuilderError,
    },
}

impl Identity {
    /// For clients that connect.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn server_config(&self) -> Result<ServerConfig, TlsError> {
        let verifier = self.verifier(self.names.clone())?;
        let (own, key) = self.own()?;
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|cause| self.key_pair(cause))?
            .with_client_cert_verifier(Arc::new(verifier))
            .with_single_cert(own, key)
            .map_err(|cause| self.key_pair(cause))?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        // A resumed session would skip the verifier.
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        Ok(config)
    }

    /// For controllers that the switch dials. `admit` gets the certificate of a verified controller, and can refuse it before the
    /// switch has shown its own.
    ///
    /// # Errors
    /// As [`Self::server_config`].
    pub fn client_config(&self, admit: Admit) -> Result<ClientConfig, TlsError> {
        let names = ClientNames {
            reader: None,
            ..self.names.clone()
        };
        let verifier = Dialled {
            verifier: self.verifier(names)?,
            admit,
        };
        let (own, key) = self.own()?;
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&rustls::version::TLS13])
            .map_err(|cause| self.key_pair(cause))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_auth_cert(own, key)
            .map_err(|cause| self.key_pair(cause))?;
        config.alpn_protocols = vec![DIALLED_ALPN.to_vec()];
        config.resumption = Resumption::disabled();
        Ok(config)
    }

    fn verifier(&self, names: ClientNames) -> Result<NamedOnly, TlsError> {
        let mut roots = RootCertStore::empty();
        for certificate in certificates("the client CA's certificate", &self.client_ca)? {
            roots
                .add(certificate)
                .map_err(file_error("the client CA's certificate", &self.client_ca))?;
        }
        let chain =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider()).build();
        let chain = chain.map_err(|cause| TlsError::ClientCa {
            path: self.client_ca.clone(),
            cause,
        })?;
        Ok(NamedOnly { chain, names })
    }

    fn own(&self) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
        let own = certificates("the switch's certificate", &self.certificate)?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(file_error("the switch's key", &self.key))?;
        Ok((own, key))
    }

    fn key_pair(&self, cause: rustls::Error) -> TlsError {
        TlsError::KeyPair {
            certificate: self.certificate.clone(),
            key: self.key.clone(),
            cause,
        }
    }

    /// Serves the content of the files, as they are replaced, until nobody takes handshakes any more. Unusable content is logged, and
    /// the content before it stays: files that are replaced one after the other do not fit for a moment.
    pub async fn follow(self, serving: watch::Sender<Arc<ServerConfig>>) {
        let mut seen = self.stamps();
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = serving.closed() => return,
            }
            let stamps = self.stamps();
            if stamps == seen {
                continue;
            }
            seen = stamps;
            match self.server_config() {
                Ok(config) => {
                    info!("new connections see the certificates that are in the files now");
                    serving.send_replace(Arc::new(config));
                }
                Err(error) => {
                    warn!(%error, "new connections go on with the certificates of before")
                }
            }
        }
    }

    /// Differ when a file was replaced or written; `None` for one that is not there.
    fn stamps(&self) -> [Option<(u64, i64, i64, u64)>; 3] {
        [&self.certificate, &self.key, &self.client_ca].map(|path| {
            let found = std::fs::metadata(path).ok()?;
            Some((found.ino(), found.mtime(), found.mtime_nsec(), found.len()))
        })
    }
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn certificates(what: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    let certificates = read.map_err(file_error(what, path))?;
    match certificates.is_empty() {
        true => Err(file_error(what, path)("no PEM certificate in it")),
        false => Ok(certificates),
    }
}

fn file_error<E: ToString>(what: &'static str, path: &Path) -> impl Fn(E) -> TlsError {
    move |cause| TlsError::File {
        what,
        path: path.to_owned(),
        cause: cause.to_string(),
    }
}

/// The cause for which a certificate of the right authority is refused.
#[derive(Debug, Error)]
#[error("a certificate of the right authority: {0}")]
struct NotAdmitted(String);

/// WebPKI's verifier, and what it does not ask of a client.
#[derive(Debug)]
struct NamedOnly {
    chain: Arc<dyn ClientCertVerifier>,
    names: ClientNames,
}

impl ClientNames {
    /// # Errors
    /// Why it is nobody's who may come.
    pub fn caller(&self, certificate: &CertificateDer<'_>) -> Result<Caller, String> {
        let (_, certificate) =
            X509Certificate::from_der(certificate).map_err(|error| error.to_string())?;
        let usage = certificate
            .extended_key_usage()
            .map_err(|error| error.to_string())?;
        if !usage.is_some_and(|usage| usage.value.client_auth) {
            return Err("it lacks the extended key usage clientAuth".into());
        }
        let names = certificate
            .subject_alternative_name()
            .map_err(|error| error.to_string())?;
        let names = names
            .iter()
            .flat_map(|names| &names.value.general_names)
            .filter_map(|name| match name {
                GeneralName::DNSName(name) => Some(*name),
                _ => None,
            });
        let mut caller = None;
        for name in names {
            if name == self.controller {
                return Ok(Caller::Controller);
            }
            if self.reader.as_deref() == Some(name) {
                caller = Some(Caller::Reader);
            }
        }
        caller.ok_or_else(|| {
            let reader = self.reader.as_ref();
            let reader = reader.map_or_else(String::new, |name| format!(" or '{name}'"));
            let controller = &self.controller;
            format!("its subject alternative names lack the dNSName '{controller}'{reader}")
        })
    }
}

impl ClientCertVerifier for NamedOnly {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chain.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        let verified = self
            .chain
            .verify_client_cert(end_entity, intermediates, now)?;
        self.names.caller(end_entity).map_err(not_admitted)?;
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.chain
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chain.supported_verify_schemes()
    }
}

fn not_admitted(reason: String) -> rustls::Error {
    let reason = OtherError(Arc::new(NotAdmitted(reason)));
    rustls::Error::InvalidCertificate(CertificateError::Other(reason))
}

/// Verifies a controller that the switch dials as one that connects: by its name as a P4Runtime client, not by the host that was
/// dialled.
struct Dialled {
    verifier: NamedOnly,
    admit: Admit,
}

impl std::fmt::Debug for Dialled {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.verifier.fmt(formatter)
    }
}

impl ServerCertVerifier for Dialled {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _host: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        self.verifier
            .verify_client_cert(end_entity, intermediates, now)?;
        (self.admit)(end_entity).map_err(not_admitted)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.verifier
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.verifier.supported_verify_schemes()
    }
}
