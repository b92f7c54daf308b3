//! Verifies server certificates: with a caBundle, with the system's CAs if there is none, or not at all.

use crate::flaw::{AcceptedFlaws, Explained, explain};
use pintle_meta::Timestamp;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;

/// The CA bundles of common systems; the first that exists is used.
const SYSTEM_BUNDLES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// The CAs of a bundle, or of the system.
fn authorities(ca_bundle: &[u8]) -> Result<(Vec<CertificateDer<'static>>, RootCertStore), String> {
    let own;
    let bundle = if !ca_bundle.trim_ascii().is_empty() {
        ca_bundle
    } else {
        own = SYSTEM_BUNDLES.iter().find_map(|path| std::fs::read(path).ok()).unwrap_or_default();
        &own
    };
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_slice_iter(bundle).filter_map(Result::ok).collect();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates.iter().cloned());
    if roots.is_empty() && !ca_bundle.trim_ascii().is_empty() {
        return Err("unable to load root certificates: unable to parse bytes as PEM block".to_string());
    }
    Ok((certificates, roots))
}

/// Which certificates are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust<'a> {
    /// Certificates signed by the CAs of a PEM bundle; if it is empty, by the system's CAs.
    Bundle(&'a [u8]),
    /// Any certificate (`insecureSkipTLSVerify`).
    Anyone,
}

/// The TLS configuration of a client, with its own certificate if it has one. The error has Go's text. `flaws`
/// records the flaws of certificates that are accepted without verification.
pub(crate) fn config(
    trust: Trust<'_>,
    identity: Option<Identity>,
    flaws: &Arc<AcceptedFlaws>,
) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let rule = match trust {
        Trust::Anyone => Rule::AcceptAll(Arc::clone(flaws)),
        Trust::Bundle(bundle) => match authorities(bundle)? {
            (_, roots) if roots.is_empty() => Rule::RejectAll,
            (certificates, roots) => {
                let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
                    .build()
                    .map_err(|error| error.to_string())?;
                Rule::Authorities { chains, certificates }
            }
        },
    };
    let verifier = Arc::new(Verifier { provider: provider.clone(), rule });
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match identity {
        Some(Identity { chain, key }) => {
            builder.with_client_auth_cert(chain, key).map_err(|error| format!("tls: {error}"))?
        }
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols.push(b"http/1.1".to_vec());
    Ok(config)
}

/// The certificate of a client and its key.
pub struct Identity {
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
}

impl Identity {
    /// Reads certificate and key from PEM.
    pub fn from_pem(certificate: &[u8], key: &[u8]) -> Result<Self, String> {
        let chain: Vec<_> = CertificateDer::pem_slice_iter(certificate).filter_map(Result::ok).collect();
        if chain.is_empty() {
            return Err("tls: failed to find any PEM data in certificate input".to_string());
        }
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| "tls: failed to find any PEM data in key input".to_string())?;
        Ok(Identity { chain, key })
    }
}

/// Verifies certificates by a rule. Whatever the rule, the server must prove that it has the certificate's key.
#[derive(Debug)]
struct Verifier {
    provider: Arc<CryptoProvider>,
    rule: Rule,
}

/// Which certificates a [`Verifier`] accepts.
#[derive(Debug)]
enum Rule {
    /// All of them, without verification (`insecureSkipTLSVerify`).
    AcceptAll(Arc<AcceptedFlaws>),
    /// None, because neither a bundle nor the system has CAs.
    RejectAll,
    /// Certificates that the CAs signed and, like Go, a certificate that is itself in the bundle: many webhooks have
    /// self-signed certificates.
    Authorities { chains: Arc<WebPkiServerVerifier>, certificates: Vec<CertificateDer<'static>> },
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let (chains, certificates) = match &self.rule {
            Rule::AcceptAll(flaws) => {
                flaws.record_flaws(end_entity);
                return Ok(ServerCertVerified::assertion());
            }
            Rule::RejectAll => return Err(Error::InvalidCertificate(CertificateError::UnknownIssuer)),
            Rule::Authorities { chains, certificates } => (chains, certificates),
        };
        let signed = chains.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now);
        let explained = |error| explain(error, end_entity, server_name, certificates);
        match signed {
            Err(error) if certificates.iter().any(|known| known == end_entity) => {
                if matches!(
                    error,
                    Error::InvalidCertificate(CertificateError::Expired | CertificateError::NotValidYet)
                ) {
                    return Err(error);
                }
                let named = ParsedCertificate::try_from(end_entity)
                    .and_then(|parsed| verify_server_name(&parsed, server_name));
                named.map(|()| ServerCertVerified::assertion()).map_err(explained)
            }
            other => other.map_err(explained),
        }
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

/// Go's error for a failed handshake. `first` are the first bytes of the server's answer.
pub(crate) fn handshake_error_text(error: &std::io::Error, name: &str, first: &[u8]) -> String {
    let found = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let why = match found {
        Some(Error::InvalidCertificate(certificate)) => of_certificate(certificate, name),
        Some(Error::InvalidMessage(_)) if first == b"HTTP/" => {
            return "http: server gave HTTP response to HTTPS client".to_string();
        }
        Some(Error::InvalidMessage(_)) => {
            return "tls: first record does not look like a TLS handshake".to_string();
        }
        Some(other) => return format!("remote error: tls: {other}"),
        None if error.kind() == std::io::ErrorKind::UnexpectedEof => return "EOF".to_string(),
        None => return error.to_string(),
    };
    format!("tls: failed to verify certificate: x509: {why}")
}

fn of_certificate(error: &CertificateError, name: &str) -> String {
    const EXPIRED: &str = "certificate has expired or is not yet valid";
    let at = |time: &UnixTime| {
        let seconds = i64::try_from(time.as_secs()).unwrap_or(0);
        Timestamp { seconds, nanos: 0 }.rfc3339().to_string()
    };
    match error {
        CertificateError::UnknownIssuer => UNKNOWN_AUTHORITY.to_string(),
        CertificateError::Expired | CertificateError::NotValidYet => EXPIRED.to_string(),
        CertificateError::ExpiredContext { time, not_after } => {
            format!("{EXPIRED}: current time {} is after {}", at(time), at(not_after))
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            format!("{EXPIRED}: current time {} is before {}", at(time), at(not_before))
        }
        CertificateError::Other(other) if other.0.is::<Explained>() => other.0.to_string(),
        CertificateError::NotValidForName => wrong_name(name, &[]),
        CertificateError::NotValidForNameContext { presented, .. } => wrong_name(name, presented),
        // Certificates without extensions have no names; a CA's own certificate has no other issuer.
        other if other.to_string().contains("UnsupportedCertVersion") => wrong_name(name, &[]),
        other if other.to_string().contains("CaUsedAsEndEntity") => UNKNOWN_AUTHORITY.to_string(),
        other => other.to_string(),
    }
}

const UNKNOWN_AUTHORITY: &str = "certificate signed by unknown authority";

/// Go's error for a certificate with other names: `presented` has them as `DnsName("a")` or `IpAddress(1.2.3.4)`.
fn wrong_name(name: &str, presented: &[String]) -> String {
    let names_of_kind = |kind: &str| -> Vec<&str> {
        let inner = presented.iter().filter_map(|text| text.strip_prefix(kind)?.strip_prefix('('));
        inner.map(|text| text.trim_end_matches(')').trim_matches('"')).collect()
    };
    let is_address = name.parse::<std::net::IpAddr>().is_ok();
    let valid = if is_address { names_of_kind("IpAddress") } else { names_of_kind("DnsName") };
    match (valid.is_empty(), is_address) {
        (true, true) => {
            format!("cannot validate certificate for {name} because it doesn't contain any IP SANs")
        }
        (true, false) => format!("certificate is not valid for any names, but wanted to match {name}"),
        (false, _) => format!("certificate is valid for {}, not {name}", valid.join(", ")),
    }
}
