//! Client certificates: the authorities that are believed, and whom a certificate names.

use crate::UserInfo;
use aws_lc_rs::digest;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use std::fmt::Write;
use std::sync::Arc;
use x509_parser::prelude::{FromDer, X509Certificate};

/// Whom the certificate of a connection names (`None`: nobody), or why it is not believed.
pub type CertificateIdentity = Result<Option<UserInfo>, String>;

/// The authorities whose client certificates are believed.
#[derive(Debug)]
pub struct ClientAuthorities {
    verifier: Arc<dyn ClientCertVerifier>,
}

/// The authorities cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// A certificate is malformed.
    #[error("bad CA certificate: {0}")]
    Certificate(#[from] rustls::Error),
    /// No verifier can be built from them.
    #[error("no usable CA certificate: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
}

impl ClientAuthorities {
    /// Believes certificates that one of these authorities signed.
    pub fn new(
        authorities: impl IntoIterator<Item = CertificateDer<'static>>,
    ) -> Result<Self, AuthorityError> {
        let mut roots = RootCertStore::empty();
        for authority in authorities {
            roots.add(authority)?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        Ok(ClientAuthorities { verifier })
    }

    /// Names of the authorities, for the hint that clients get in the handshake.
    pub fn subjects(&self) -> Vec<rustls::DistinguishedName> {
        self.verifier.root_hint_subjects().to_vec()
    }

    /// Whom a certificate chain (leaf first) names.
    pub fn identify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> CertificateIdentity {
        let Some((leaf, intermediates)) = chain.split_first() else { return Ok(None) };
        self.verifier
            .verify_client_cert(leaf, intermediates, now)
            .map_err(|e| format!("client certificate: {e}"))?;
        user_of(leaf)
    }
}

/// Common name, organisations and UID of a certificate.
fn user_of(der: &CertificateDer<'_>) -> CertificateIdentity {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|e| format!("client certificate: {e}"))?;
    let subject = certificate.subject();
    let text =
        |value: &x509_parser::x509::AttributeTypeAndValue<'_>| value.as_str().unwrap_or("").to_string();
    let name = subject.iter_common_name().last().map(text).unwrap_or_default();
    if name.is_empty() {
        return Ok(None);
    }
    let mut user = UserInfo { name, ..UserInfo::default() };
    user.groups = subject.iter_organization().map(text).collect();
    let uids: Vec<String> =
        subject.iter_attributes().filter(|a| a.attr_type().to_id_string() == UID_OID).map(text).collect();
    match uids.as_slice() {
        [] => {}
        [uid] if !uid.is_empty() => user.uid = uid.clone(),
        _ => return Err("client certificate: exactly one UID that is not empty is expected".into()),
    }
    let mut id = String::from("X509SHA256=");
    for byte in digest::digest(&digest::SHA256, der).as_ref() {
        _ = write!(id, "{byte:02x}");
    }
    user.extra.insert(UserInfo::CREDENTIAL_ID.to_string(), vec![id]);
    Ok(Some(user))
}

/// Attribute of a subject that carries the uid of a user.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
    use std::time::Duration;

    fn now() -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs(1_800_000_000))
    }

    fn authority() -> (Issuer<'static, KeyPair>, CertificateDer<'static>) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        (Issuer::new(params, key), certificate)
    }

    fn client(
        issuer: &Issuer<'static, KeyPair>,
        name: &str,
        groups: &[&str],
        uid: &str,
    ) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, *group);
        }
        if !uid.is_empty() {
            params.distinguished_name.push(DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), uid);
        }
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap().der().clone()
    }

    #[test]
    fn a_certificate_names_user_group_and_uid() {
        let (issuer, certificate) = authority();
        let authorities = ClientAuthorities::new([certificate]).unwrap();
        let user = authorities.identify(&[client(&issuer, "alice", &["dev"], "u1")], now()).unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("alice", "u1"));
        assert_eq!(user.groups, ["dev"]);
        assert!(user.extra.get(UserInfo::CREDENTIAL_ID).unwrap().first().unwrap().starts_with("X509SHA256="));
    }

    #[test]
    fn a_stranger_is_not_believed() {
        let (_, certificate) = authority();
        let (other, _) = authority();
        let authorities = ClientAuthorities::new([certificate]).unwrap();
        assert!(authorities.identify(&[client(&other, "alice", &[], "")], now()).is_err());
        assert_eq!(authorities.identify(&[], now()), Ok(None));
    }
}
