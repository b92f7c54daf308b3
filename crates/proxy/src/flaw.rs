//! Flaws of server certificates that kube-apiserver counts: no alternative names, and signatures with SHA-1.

use rustls::client::verify_server_name;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, Error, OtherError};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use x509_parser::certificate::X509Certificate;
use x509_parser::prelude::FromDer;
use x509_parser::x509::X509Name;

/// A flaw of a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateFlaw {
    /// The certificate has no alternative names.
    MissingSan,
    /// The certificate is signed with SHA-1.
    InsecureSha1,
}

const LEGACY_NAME: &str = "certificate relies on legacy Common Name field, use SANs instead";
const INSECURE: &str = "x509: cannot verify signature: insecure algorithm";

impl CertificateFlaw {
    const ALL: [CertificateFlaw; 2] = [CertificateFlaw::MissingSan, CertificateFlaw::InsecureSha1];

    /// The flaw that made a connection fail, by the text of its error.
    pub fn of_error(text: &str) -> Option<Self> {
        if text.contains(LEGACY_NAME) {
            return Some(CertificateFlaw::MissingSan);
        }
        let (_, rest) = text.split_once(INSECURE)?;
        rest.contains("SHA1").then_some(CertificateFlaw::InsecureSha1)
    }

    /// The key of the audit annotation about a host.
    pub fn annotation(self, host: &str) -> String {
        let id = match self {
            CertificateFlaw::MissingSan => "missing-san",
            CertificateFlaw::InsecureSha1 => "insecure-sha1",
        };
        format!("{id}.invalid-cert.kubernetes.io/{host}")
    }

    /// The value of that annotation.
    pub fn reason(self) -> &'static str {
        match self {
            CertificateFlaw::MissingSan => {
                "relies on a legacy Common Name field instead of the SAN extension for subject validation"
            }
            CertificateFlaw::InsecureSha1 => "uses an insecure SHA-1 signature",
        }
    }

    const fn bit(self) -> u8 {
        match self {
            CertificateFlaw::MissingSan => 1,
            CertificateFlaw::InsecureSha1 => 2,
        }
    }
}

/// The flaws of the certificate that was last accepted without verification.
#[derive(Debug, Default)]
pub(crate) struct AcceptedFlaws(AtomicU8);

impl AcceptedFlaws {
    pub(crate) fn record_flaws(&self, leaf: &[u8]) {
        let Ok((_, leaf)) = X509Certificate::from_der(leaf) else { return };
        let names = if has_alternative_names(&leaf) { 0 } else { CertificateFlaw::MissingSan.bit() };
        let is_self_signed = leaf.issuer().as_raw() == leaf.subject().as_raw();
        let is_sha1 = sha1_algorithm(&leaf).is_some() && !is_self_signed;
        let signature = if is_sha1 { CertificateFlaw::InsecureSha1.bit() } else { 0 };
        self.0.store(names | signature, Ordering::Relaxed);
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = CertificateFlaw> + use<> {
        let noted = self.0.load(Ordering::Relaxed);
        CertificateFlaw::ALL.into_iter().filter(move |flaw| noted & flaw.bit() != 0)
    }
}

/// A verification error with Go's text, for errors that rustls does not have.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Explained(pub(crate) String);

/// Go's error for a certificate that was rejected: the name is checked before the chain, but after the validity.
pub(crate) fn explain(
    error: Error,
    leaf: &CertificateDer<'_>,
    name: &ServerName<'_>,
    authorities: &[CertificateDer<'static>],
) -> Error {
    use CertificateError::{Expired, ExpiredContext, NotValidYet, NotValidYetContext};
    let Error::InvalidCertificate(why) = &error else { return error };
    if matches!(why, Expired | ExpiredContext { .. } | NotValidYet | NotValidYetContext { .. }) {
        return error;
    }
    let Ok((_, parsed)) = X509Certificate::from_der(leaf) else { return error };
    if !has_alternative_names(&parsed) {
        return if names_host(parsed.subject(), &name.to_str()) {
            explained(LEGACY_NAME.to_string())
        } else {
            Error::InvalidCertificate(CertificateError::NotValidForName)
        };
    }
    if let Err(wrong_name) =
        ParsedCertificate::try_from(leaf).and_then(|parsed| verify_server_name(&parsed, name))
    {
        return wrong_name;
    }
    match (sha1_algorithm(&parsed), candidate(&parsed, authorities)) {
        (Some(algorithm), Some(candidate)) => explained(format!(
            "certificate signed by unknown authority (possibly because of \"{INSECURE} {algorithm}\" while trying to verify \
             candidate authority certificate \"{candidate}\")"
        )),
        _ => error,
    }
}

fn explained(text: String) -> Error {
    Error::InvalidCertificate(CertificateError::Other(OtherError(Arc::new(Explained(text)))))
}

fn has_alternative_names(certificate: &X509Certificate<'_>) -> bool {
    let is_present = |extension: &x509_parser::extensions::X509Extension<'_>| {
        extension.oid == x509_parser::oid_registry::OID_X509_EXT_SUBJECT_ALT_NAME
    };
    certificate.extensions().iter().any(is_present)
}

/// Go's name of the certificate's signature algorithm, if that uses SHA-1.
fn sha1_algorithm(certificate: &X509Certificate<'_>) -> Option<&'static str> {
    match certificate.signature_algorithm.algorithm.to_id_string().as_str() {
        "1.2.840.113549.1.1.5" => Some("SHA1-RSA"),
        "1.2.840.10045.4.1" => Some("ECDSA-SHA1"),
        _ => None,
    }
}

fn common_name<'a>(name: &'a X509Name<'_>) -> Option<&'a str> {
    name.iter_common_name().next().and_then(|name| name.as_str().ok())
}

/// Whether the common name of a certificate is that of a host, with a wildcard for its first label.
fn names_host(subject: &X509Name<'_>, host: &str) -> bool {
    let Some(pattern) = common_name(subject) else { return false };
    let (pattern, host) = (pattern.to_ascii_lowercase(), host.trim_end_matches('.').to_ascii_lowercase());
    let (patterns, labels): (Vec<&str>, Vec<&str>) =
        (pattern.split('.').collect(), host.split('.').collect());
    let fits =
        |(at, (pattern, label)): (usize, (&&str, &&str))| at == 0 && *pattern == "*" || pattern == label;
    !pattern.is_empty()
        && patterns.len() == labels.len()
        && patterns.iter().zip(&labels).enumerate().all(fits)
}

/// The name of the authority that has the name of the certificate's issuer.
fn candidate(leaf: &X509Certificate<'_>, authorities: &[CertificateDer<'static>]) -> Option<String> {
    let parsed = authorities.iter().filter_map(|der| X509Certificate::from_der(der).ok());
    let mut issuers = parsed.filter(|(_, known)| known.subject().as_raw() == leaf.issuer().as_raw());
    let (_, found) = issuers.next()?;
    let organization = || found.subject().iter_organization().next().and_then(|name| name.as_str().ok());
    let name = common_name(found.subject()).or_else(organization);
    Some(name.map_or_else(|| format!("serial:{}", found.tbs_certificate.serial), str::to_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flaws_are_told_by_the_words_of_the_error() {
        for (text, want) in [
            (LEGACY_NAME.to_string(), Some(CertificateFlaw::MissingSan)),
            (format!("… because of \"{INSECURE} SHA1-RSA\" …"), Some(CertificateFlaw::InsecureSha1)),
            (format!("… because of \"{INSECURE} MD5-RSA\" …"), None),
            ("x509: certificate signed by unknown authority".to_string(), None),
        ] {
            assert_eq!(CertificateFlaw::of_error(&text), want, "{text}");
        }
    }
}
