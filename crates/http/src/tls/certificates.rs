//! The serving certificates: the default one, and those for certain names (`--tls-sni-cert-key`). They can be replaced
//! at run time; open connections keep theirs.

use super::{ServingCertificate, provider};
use arc_swap::ArcSwap;
use rustls::Error;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use std::sync::Arc;
use x509_parser::prelude::{FromDer, GeneralName, X509Certificate};

/// A certificate for certain names.
pub struct NamedCertificate {
    /// The certificate.
    pub certificate: ServingCertificate,
    /// The names it is used for, including `*.example.com`; empty means those in the certificate.
    pub names: Vec<String>,
}

/// All certificates of a server.
#[derive(Debug)]
pub struct ServingCertificates {
    current: ArcSwap<Chosen>,
}

#[derive(Debug)]
struct Chosen {
    usual: Known,
    named: Vec<Known>,
}

#[derive(Debug)]
struct Known {
    key: Arc<CertifiedKey>,
    /// The names given on the command line.
    names: Vec<String>,
    /// The subject's common name, if it is a host name.
    common_name: Option<String>,
    /// Names in the certificate.
    dns_names: Vec<String>,
}

impl ServingCertificates {
    /// The default certificate and those for names. Keys must match their certificates.
    pub fn new(usual: ServingCertificate, named: Vec<NamedCertificate>) -> Result<Self, Error> {
        Ok(ServingCertificates { current: ArcSwap::from_pointee(Chosen::new(usual, named)?) })
    }

    /// Replaces the certificates for new connections. On an error the old ones stay.
    pub fn replace(&self, usual: ServingCertificate, named: Vec<NamedCertificate>) -> Result<(), Error> {
        self.current.store(Arc::new(Chosen::new(usual, named)?));
        Ok(())
    }
}

impl ResolvesServerCert for ServingCertificates {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let chosen = self.current.load();
        let name = hello.server_name().map(str::to_ascii_lowercase);
        Some(Arc::clone(&chosen.of(name.as_deref()).key))
    }
}

impl Chosen {
    fn new(usual: ServingCertificate, named: Vec<NamedCertificate>) -> Result<Self, Error> {
        let usual = Known::new(usual, Vec::new())?;
        let named: Result<Vec<Known>, Error> =
            named.into_iter().map(|named| Known::new(named.certificate, named.names)).collect();
        Ok(Chosen { usual, named: named? })
    }

    /// The certificate for a name, in Go's order: given names, names in certificates without given ones, then any
    /// certificate that is valid for the name.
    fn of(&self, name: Option<&str>) -> &Known {
        let Some(name) = name else { return &self.usual };
        let wildcard = name.split_once('.').map(|(_, rest)| format!("*.{rest}"));
        for name in [Some(name), wildcard.as_deref()].into_iter().flatten() {
            let has_given = |known: &&Known| known.names.iter().any(|given| given == name);
            let has_own = |known: &&Known| {
                let mut own = known.common_name.iter().chain(&known.dns_names);
                known.names.is_empty() && own.any(|own| own == name)
            };
            let found = self.named.iter().find(has_given).or_else(|| self.named.iter().find(has_own));
            if let Some(found) = found {
                return found;
            }
        }
        let is_valid = |known: &&Known| {
            known.dns_names.iter().any(|own| own == name || wildcard.as_deref() == Some(own))
        };
        std::iter::once(&self.usual).chain(&self.named).find(is_valid).unwrap_or(&self.usual)
    }
}

impl Known {
    fn new(certificate: ServingCertificate, names: Vec<String>) -> Result<Self, Error> {
        let (common_name, dns_names) =
            certificate.chain.first().map(|leaf| names_of(leaf)).unwrap_or_default();
        let key = Arc::new(CertifiedKey::from_der(certificate.chain, certificate.key, &provider())?);
        Ok(Known { key, names, common_name, dns_names })
    }
}

/// The subject's common name, if it could be a host name, and the subject alternative names.
fn names_of(der: &[u8]) -> (Option<String>, Vec<String>) {
    let Ok((_, certificate)) = X509Certificate::from_der(der) else { return Default::default() };
    let common = certificate.subject().iter_common_name().next().and_then(|name| name.as_str().ok());
    let is_host = |name: &&str| {
        let rest = name.strip_prefix("*.").unwrap_or(name);
        name.parse::<std::net::IpAddr>().is_err()
            && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b".-".contains(&b))
    };
    let mut names = Vec::new();
    if let Ok(Some(extension)) = certificate.subject_alternative_name() {
        for name in &extension.value.general_names {
            if let GeneralName::DNSName(name) = name {
                names.push(name.to_ascii_lowercase());
            }
        }
    }
    (common.filter(is_host).map(str::to_string), names)
}
