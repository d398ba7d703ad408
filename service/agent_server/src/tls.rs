//! Mutual TLS. A device's certificate is verified in every handshake; sessions are not resumed.

use std::sync::Arc;

use rustls::pki_types::pem::{self, PemObject as _};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::{RootCertStore, ServerConfig};

/// `chain`, `key`, `devices`: PEM of the server's certificate and what leads to its CA, of its key, and of the CAs that
/// devices' certificates are of.
///
/// # Errors
/// What is wrong with them; nothing of a key is in it.
pub fn config(chain: &[u8], key: &[u8], devices: &[u8]) -> Result<Arc<ServerConfig>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    for certificate in certificates(devices)? {
        roots.add(certificate).map_err(said)?;
    }
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|_| "no PEM private key")?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS13])
        .map_err(said)?
        .with_client_cert_verifier(verifier.build().map_err(said)?)
        .with_single_cert(certificates(chain)?, key)
        .map_err(said)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    Ok(Arc::new(config))
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(pem).collect();
    found.map_err(said)
}

fn said(error: impl ToString) -> String {
    error.to_string()
}
