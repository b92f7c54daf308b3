//! TLS: versions, cipher suites, serving certificates, and client certificates, which are requested but never fail a
//! handshake.

mod certificates;

pub use certificates::{NamedCertificate, ServingCertificates};

use pintle_auth::authn::x509_v1::OldCertificate;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, verify_tls12_signature, verify_tls13_signature, verify_tls13_signature_with_raw_key,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{
    CertificateError, CipherSuite, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme, SupportedProtocolVersion, version,
};
use std::sync::Arc;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

/// A certificate chain, leaf first, and the key of the leaf.
pub struct ServingCertificate {
    /// The chain.
    pub chain: Vec<CertificateDer<'static>>,
    /// The key.
    pub key: PrivateKeyDer<'static>,
}

/// The values of `--tls-min-version`, `--tls-cipher-suites` and `--tls-curve-preferences`.
#[derive(Clone, Debug, Default)]
pub struct TlsSettings {
    /// Whether TLS 1.2 is refused.
    pub only_tls13: bool,
    /// The allowed cipher suites of TLS 1.2, by Go's names; empty means all. Those of TLS 1.3 cannot be chosen, as in
    /// Go.
    pub cipher_suites: Vec<String>,
    /// The numbers of the allowed key exchanges; empty means all.
    pub curves: Vec<u16>,
}

/// The TLS configuration of a listener. `hints` are the names of the trusted client CAs.
pub fn server_config(
    certificates: Arc<ServingCertificates>,
    hints: Vec<DistinguishedName>,
    http2: bool,
    settings: &TlsSettings,
) -> Result<Arc<ServerConfig>, Error> {
    let provider = Arc::new(restricted_provider(settings));
    let verifier = Arc::new(AnyCertificate { provider: Arc::clone(&provider), hints });
    let has_tls12 = provider.cipher_suites.iter().any(|suite| suite.tls13().is_none());
    let versions: &[&SupportedProtocolVersion] = if settings.only_tls13 || !has_tls12 {
        &[&version::TLS13]
    } else {
        &[&version::TLS13, &version::TLS12]
    };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(versions)?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(certificates);
    // Without this, the client's order of preference would decide.
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

/// Suites with 128-bit keys come first, as in Go: they cost a quarter less than those with 256 bits.
pub(crate) fn provider() -> CryptoProvider {
    let mut provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| !SHORT_KEYS.contains(&suite.suite()));
    provider
}

fn restricted_provider(settings: &TlsSettings) -> CryptoProvider {
    let mut provider = provider();
    if !settings.cipher_suites.is_empty() {
        provider.cipher_suites.retain(|suite| {
            let name = suite.suite().as_str().unwrap_or("");
            let is_named = |given: &String| {
                // Two suites also have an older name without the hash.
                given == name || name.strip_suffix("_SHA256") == Some(given) && given.ends_with("POLY1305")
            };
            suite.tls13().is_some() || settings.cipher_suites.iter().any(is_named)
        });
    }
    if !settings.curves.is_empty() {
        provider.kx_groups.retain(|group| settings.curves.contains(&u16::from(group.name())));
    }
    provider
}

/// The first bytes of a handshake: record header, message header and the highest version of legacy clients.
const HELLO_BYTES: usize = 11;
/// A fatal alert `protocol_version`.
const PROTOCOL_VERSION_ALERT: [u8; 7] = [21, 3, 1, 0, 2, 2, 70];

/// Waits for the first bytes of a client and returns whether they begin a handshake. Sends an alert to clients that support
/// at most TLS 1.1; the TLS library would report another reason.
pub(crate) async fn greeting(stream: &mut TcpStream) -> std::io::Result<bool> {
    let mut hello = [0; HELLO_BYTES];
    let length = stream.peek(&mut hello).await?;
    // A handshake record with a ClientHello; from TLS 1.2 on the version is 3.3.
    if length == HELLO_BYTES
        && let [22, 3, _, _, _, 1, _, _, _, 3, 0..=2] = hello
    {
        stream.write_all(&PROTOCOL_VERSION_ALERT).await?;
        stream.shutdown().await?;
        return Err(std::io::Error::other("tls: client offered only unsupported versions"));
    }
    // Clients send the whole message at once, so its first bytes are there, too.
    Ok(matches!(hello, [22, 3, _, _, _, 1, _, _, _, 3, 3..=u8::MAX]))
}

/// Accepts any client certificate whose key the client has. Trust is checked per request: a client with an untrusted
/// certificate gets a 401 with the reason, not a failed handshake.
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
        if let Some(old) = OldCertificate::read(cert) {
            let algorithms = &self.provider.signature_verification_algorithms;
            return if old.has_signed_tls12(message, dss.scheme, dss.signature(), algorithms) {
                Ok(HandshakeSignatureValid::assertion())
            } else {
                Err(CertificateError::BadSignature.into())
            };
        }
        verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        if let Some(old) = OldCertificate::read(cert) {
            let key = SubjectPublicKeyInfoDer::from(old.public_key());
            let algorithms = &self.provider.signature_verification_algorithms;
            return verify_tls13_signature_with_raw_key(message, &key, dss, algorithms);
        }
        verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
