//! TLS: the serving certificate, and client certificates that are asked for but never fail a handshake.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{CipherSuite, DigitallySignedStruct, DistinguishedName, Error, ServerConfig, SignatureScheme};
use std::sync::{Arc, PoisonError, RwLock};

/// A certificate chain, leaf first, and the key of the leaf.
pub struct ServingCertificate {
    /// The chain.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key.
    pub key: PrivateKeyDer<'static>,
}

/// The certificate that the server shows. It can be replaced while the server runs; open connections keep theirs.
#[derive(Debug)]
pub struct ServingSlot {
    current: RwLock<Arc<CertifiedKey>>,
}

impl ServingSlot {
    /// A slot that holds `certificate`, whose key must belong to it.
    pub fn new(certificate: ServingCertificate) -> Result<Self, Error> {
        Ok(ServingSlot { current: RwLock::new(certified(certificate)?) })
    }

    /// Shows another certificate to new connections. After an error the old one is still shown.
    pub fn replace(&self, certificate: ServingCertificate) -> Result<(), Error> {
        let next = certified(certificate)?;
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = next;
        Ok(())
    }
}

impl ResolvesServerCert for ServingSlot {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

fn certified(certificate: ServingCertificate) -> Result<Arc<CertifiedKey>, Error> {
    Ok(Arc::new(CertifiedKey::from_der(certificate.chain, certificate.key, &provider())?))
}

/// The TLS side of a listener. `hints` are the names of the authorities whose client certificates are believed.
pub fn server_config(
    certificate: Arc<ServingSlot>,
    hints: Vec<DistinguishedName>,
    http2: bool,
) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(provider());
    let verifier = Arc::new(AnyCertificate { provider: Arc::clone(&provider), hints });
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(certificate);
    // Else the client's order counts.
    config.ignore_client_order = true;
    if http2 {
        config.alpn_protocols.push(b"h2".to_vec());
    }
    config.alpn_protocols.push(b"http/1.1".to_vec());
    Ok(Arc::new(config))
}

const SHORT_KEYS: [CipherSuite; 3] = [
    CipherSuite::TLS13_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
];

/// Keys of 128 bits come first, as in Go: they cost a quarter less than those of 256.
fn provider() -> CryptoProvider {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| !SHORT_KEYS.contains(&suite.suite()));
    provider
}

/// Takes any client certificate as long as the client has its key. Whether an authority that is believed signed it is
/// found out when the connection is there: a stranger is to get a 401 that says so, not a broken handshake.
#[derive(Debug)]
struct AnyCertificate {
    provider: Arc<CryptoProvider>,
    hints: Vec<DistinguishedName>,
}

impl ClientCertVerifier for AnyCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
