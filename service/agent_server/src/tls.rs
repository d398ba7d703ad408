//! TLS of both ports. A device's certificate is verified in every handshake: TLS sessions of devices are not resumed.

use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::UnixTime;
use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ParsedCertificate, ResolvesServerCert,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig,
    SignatureScheme,
};

use crate::devices::{Devices, fingerprint};
use crate::gateways::{self, Gateways};

/// The protocol that Culvert's own programs offer beside HTTP/1.1: they trust the controller's CA alone, and get its
/// certificate, also where browsers get another one. It is never chosen.
const OWN_CA: &[u8] = b"culvert-ca";
/// The protocol of a certification authority that validates the name (RFC 8737, section 6.2).
pub const CHALLENGE: &[u8] = b"acme-tls/1";

/// PEM of a certificate with what leads to its CA, and of its key.
pub type Pair = (Vec<u8>, Vec<u8>);

/// Makes the REST API's configuration: TLS 1.2 or 1.3 without client certificates, and HTTP/1.1.
///
/// `chain`, `key`: PEM of the controller's own certificate with what leads to its CA, and of its key. `public`: for
/// browsers instead. `challenge`: for a certification authority that validates the name.
///
/// # Errors
/// The fault of the certificate or key; no part of a key is in the text.
pub fn open(
    chain: &[u8],
    key: &[u8],
    public: Option<&Pair>,
    challenge: Option<&Pair>,
) -> Result<Arc<ServerConfig>, String> {
    let pair = |it: &Pair| certified(&it.0, &it.1);
    let choice = Choice {
        own: certified(chain, key)?,
        public: public.map(pair).transpose()?,
        challenge: challenge.map(|it| unread(&it.0, &it.1)).transpose()?,
    };
    let mut protocols = vec![b"http/1.1".to_vec()];
    if choice.challenge.is_some() {
        protocols.push(CHALLENGE.to_vec());
    }
    let mut config = ServerConfig::builder_with_provider(provider())
        .with_safe_default_protocol_versions()
        .map_err(said)?
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(choice));
    config.alpn_protocols = protocols;
    Ok(Arc::new(config))
}

/// The certificates of the REST API's port. The client's protocols select one.
#[derive(Debug)]
struct Choice {
    own: Arc<CertifiedKey>,
    public: Option<Arc<CertifiedKey>>,
    challenge: Option<Arc<CertifiedKey>>,
}

impl ResolvesServerCert for Choice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let offers = |wanted: &[u8]| {
            let mut offered = hello.alpn().into_iter().flatten();
            offered.any(|protocol| protocol == wanted)
        };
        if offers(CHALLENGE) {
            return self.challenge.clone();
        }
        match &self.public {
            Some(public) if !offers(OWN_CA) => Some(Arc::clone(public)),
            _ => Some(Arc::clone(&self.own)),
        }
    }
}

fn certified(chain: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, String> {
    let (chain, key) = (certificates(chain)?, private(key)?);
    let certified = CertifiedKey::from_der(chain, key, &provider()).map_err(said)?;
    Ok(Arc::new(certified))
}

/// As `certified`, for a certificate with a critical extension that the TLS library does not know: it is shown unread.
fn unread(chain: &[u8], key: &[u8]) -> Result<Arc<CertifiedKey>, String> {
    let key = provider()
        .key_provider
        .load_private_key(private(key)?)
        .map_err(said)?;
    Ok(Arc::new(CertifiedKey::new(certificates(chain)?, key)))
}

/// The configurations of the port of devices and gateways.
pub struct Shown {
    pub devices: Arc<ServerConfig>,
    /// None: no gateway may connect.
    pub gateways: Option<Arc<ServerConfig>>,
}

/// Makes the devices' configuration: TLS 1.3 with a certificate, HTTP/2.
///
/// `roots`: PEM of the CAs that sign devices' certificates; `devices` knows which certificates are refused.
///
/// # Errors
/// As [`open`].
pub fn mutual(
    chain: &[u8],
    key: &[u8],
    roots: &[u8],
    devices: &Arc<Devices>,
) -> Result<Arc<ServerConfig>, String> {
    let (provider, key) = (provider(), private(key)?);
    let mut store = RootCertStore::empty();
    for certificate in certificates(roots)? {
        store.add(certificate).map_err(said)?;
    }
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(store), Arc::clone(&provider));
    let verifier = Verifier {
        chains: verifier.build().map_err(said)?,
        devices: Arc::clone(devices),
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(said)?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(certificates(chain)?, key)
        .map_err(said)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

/// Makes the configuration for gateways that connect: TLS 1.3 with a gateway's certificate. A certificate follows the role in
/// P4Runtime, not the role in TLS: gateways show the certificate of a P4Runtime server, with the extended key usage serverAuth, and
/// the controller that of a P4Runtime client. So each end checks what it checks when the controller connects.
///
/// `roots`: PEM of the CAs that sign gateways' certificates.
///
/// # Errors
/// As [`open`].
pub fn dialled(
    chain: &[u8],
    key: &[u8],
    roots: &[u8],
    gateways: &Arc<Gateways>,
) -> Result<Arc<ServerConfig>, String> {
    let provider = provider();
    let mut store = RootCertStore::empty();
    for certificate in certificates(roots)? {
        store.add(certificate).map_err(said)?;
    }
    let verifier = GatewayVerifier {
        hints: store.subjects(),
        roots: store,
        algorithms: provider.signature_verification_algorithms,
        gateways: Arc::clone(gateways),
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(said)?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(certificates(chain)?, private(key)?)
        .map_err(said)?;
    config.alpn_protocols = vec![gateways::ALPN.to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::aws_lc_rs::default_provider())
}

fn private(key: &[u8]) -> Result<PrivateKeyDer<'static>, &'static str> {
    PrivateKeyDer::from_pem_slice(key).map_err(|_| "no PEM private key")
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(pem).collect();
    found.map_err(said)
}

fn said(error: impl ToString) -> String {
    error.to_string()
}

/// Requires a chain to one of the CAs, and a certificate that is not refused.
#[derive(Debug)]
struct Verifier {
    chains: Arc<dyn ClientCertVerifier>,
    devices: Arc<Devices>,
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.chains.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self
            .chains
            .verify_client_cert(certificate, intermediates, now)?;
        match self.devices.may_connect(&fingerprint(certificate)) {
            true => Ok(verified),
            false => Err(CertificateError::Revoked.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.chains
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

/// Requires a chain to one of the CAs, a certificate for servers, and the name of a registered gateway.
#[derive(Debug)]
struct GatewayVerifier {
    roots: RootCertStore,
    hints: Vec<DistinguishedName>,
    algorithms: WebPkiSupportedAlgorithms,
    gateways: Arc<Gateways>,
}

impl ClientCertVerifier for GatewayVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        let algorithms = self.algorithms.all;
        verify_server_cert_signed_by_trust_anchor(
            &parsed,
            &self.roots,
            intermediates,
            now,
            algorithms,
        )?;
        match self.gateways.name(certificate) {
            Ok(_) => Ok(ClientCertVerified::assertion()),
            Err(_) => Err(CertificateError::Revoked.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
