//! Client certificates: the trusted CAs, and the users that certificates name.

use super::x509_v1::OldCertificate;
use crate::UserInfo;
use arc_swap::ArcSwap;
use aws_lc_rs::digest;
use pintle_meta::asn1;
use pintle_value::hex;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};
use x509_parser::prelude::{FromDer, X509Certificate};

/// The user of a client certificate, groups completed (`None`: no certificate), or the reason why it is refused.
pub type CertificateIdentity = Result<Option<Arc<UserInfo>>, String>;

/// How long a verification result is cached.
const VERIFIED_SECONDS_MAX: u64 = 60;

/// The certificates that a connection's client presented, leaf first, and their cached verification. kube-apiserver
/// verifies them for each request; here a chain is verified again after a minute, when one of its certificates expires,
/// or when the CAs change.
#[derive(Debug, Default)]
pub struct PeerCertificates {
    chain: Vec<CertificateDer<'static>>,
    /// The expiry of the leaf in seconds since 1970, determined on first use.
    expiry: OnceLock<Option<u64>>,
    verified: Mutex<Vec<Verified>>,
}

impl Clone for PeerCertificates {
    /// The same chain, to be verified anew.
    fn clone(&self) -> Self {
        PeerCertificates::new(self.chain.clone())
    }
}

/// The verification result of one set of CAs.
#[derive(Debug)]
struct Verified {
    authorities: Arc<Verifier>,
    until: u64,
    identity: Arc<CertificateIdentity>,
}

impl PeerCertificates {
    /// The chain of a connection.
    pub fn new(chain: Vec<CertificateDer<'static>>) -> Self {
        PeerCertificates { chain, expiry: OnceLock::new(), verified: Mutex::default() }
    }

    /// Returns whether the client presented none.
    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }

    /// The remaining validity of the client's certificate in seconds; `None` without one.
    pub fn seconds_left(&self) -> Option<f64> {
        let until = (*self.expiry.get_or_init(|| validity(self.chain.first()?).map(|(_, until)| until)))?;
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Some(until as f64 - now.as_secs_f64())
    }

    /// The user of the leaf, if one of `authorities` signed the chain.
    pub fn identity(&self, authorities: &ClientAuthorities, now: SystemTime) -> Arc<CertificateIdentity> {
        let verifier = authorities.0.load();
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        if let Ok(verified) = self.verified.lock() {
            let fits = |v: &&Verified| Arc::ptr_eq(&v.authorities, &verifier) && seconds < v.until;
            if let Some(known) = verified.iter().find(fits) {
                return known.identity.clone();
            }
        }
        let identity = Arc::new(verifier.identify(&self.chain, seconds));
        let expiry = self.chain.iter().filter_map(|der| validity(der)).map(|(_, until)| until).min();
        let until = expiry.unwrap_or(0).min(seconds.saturating_add(VERIFIED_SECONDS_MAX));
        if let Ok(mut verified) = self.verified.lock() {
            verified.retain(|v| !Arc::ptr_eq(&v.authorities, &verifier) && seconds < v.until);
            verified.push(Verified { authorities: verifier.clone(), until, identity: identity.clone() });
        }
        identity
    }
}

/// The trusted CAs of client certificates. They can be replaced at run time.
#[derive(Debug)]
pub struct ClientAuthorities(ArcSwap<Verifier>);

/// The CAs are unusable.
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
    /// Trusts certificates that one of these CAs signed.
    pub fn new(
        authorities: impl IntoIterator<Item = CertificateDer<'static>>,
    ) -> Result<Self, AuthorityError> {
        Ok(ClientAuthorities(ArcSwap::from_pointee(Verifier::new(authorities.into_iter().collect())?)))
    }

    /// Replaces the trusted CAs.
    pub fn set(
        &self,
        authorities: impl IntoIterator<Item = CertificateDer<'static>>,
    ) -> Result<(), AuthorityError> {
        self.0.store(Arc::new(Verifier::new(authorities.into_iter().collect())?));
        Ok(())
    }

    /// The names of the CAs, for the hint in the TLS handshake.
    pub fn subjects(&self) -> Vec<rustls::DistinguishedName> {
        self.0.load().verifier.root_hint_subjects().to_vec()
    }
}

/// A fixed set of authorities.
#[derive(Debug)]
struct Verifier {
    authorities: Vec<CertificateDer<'static>>,
    verifier: Arc<dyn ClientCertVerifier>,
}

impl Verifier {
    fn new(authorities: Vec<CertificateDer<'static>>) -> Result<Self, AuthorityError> {
        let mut roots = RootCertStore::empty();
        for authority in &authorities {
            roots.add(authority.clone())?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
        Ok(Verifier { authorities, verifier })
    }

    /// The user of a certificate chain (leaf first).
    fn identify(&self, chain: &[CertificateDer<'_>], now: u64) -> CertificateIdentity {
        let Some((leaf, intermediates)) = chain.split_first() else { return Ok(None) };
        // The library accepts expired trust anchors; Go checks their dates as well.
        let valid = |der: &&CertificateDer<'static>| {
            validity(der).is_some_and(|(from, until)| (from..=until).contains(&now))
        };
        let current: Vec<_> = self.authorities.iter().filter(valid).cloned().collect();
        let partial;
        let verifier = match current.len() == self.authorities.len() {
            true => &self.verifier,
            false => {
                partial = Verifier::new(current).map_err(|e| format!("client certificate: {e}"))?.verifier;
                &partial
            }
        };
        if let Some(old) = OldCertificate::read(leaf) {
            let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
            let authorities: Vec<_> = self.authorities.iter().filter(valid).cloned().collect();
            return match old.is_signed_by(leaf, &authorities, now, &algorithms) {
                true => user_of(leaf),
                false => Err("client certificate of X.509 version 1: not signed by a trusted CA".into()),
            };
        }
        let time = UnixTime::since_unix_epoch(Duration::from_secs(now));
        verifier
            .verify_client_cert(leaf, intermediates, time)
            .map_err(|e| format!("client certificate: {e}"))?;
        user_of(leaf)
    }
}

/// The validity of a certificate in seconds since 1970.
fn validity(der: &CertificateDer<'_>) -> Option<(u64, u64)> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let seconds = |time: x509_parser::time::ASN1Time| u64::try_from(time.timestamp()).unwrap_or(0);
    Some((seconds(certificate.validity().not_before), seconds(certificate.validity().not_after)))
}

/// Common name, organisations and UID of a certificate.
fn user_of(der: &CertificateDer<'_>) -> CertificateIdentity {
    let (_, certificate) = X509Certificate::from_der(der).map_err(|e| format!("client certificate: {e}"))?;
    let mut user = UserInfo::default();
    let mut uids = Vec::new();
    for attribute in certificate.subject().iter_attributes() {
        let (value, oid) = (attribute.attr_value(), attribute.attr_type());
        let text = asn1::text(value.tag().0, value.data).ok().flatten();
        let text = text.ok_or("client certificate: the subject has an invalid string")?;
        match oid {
            oid if *oid == OID_X509_COMMON_NAME => user.name = text,
            oid if *oid == OID_X509_ORGANIZATION_NAME => user.groups.push(text),
            oid if oid.to_id_string() == UID_OID => uids.push(text),
            _ => {}
        }
    }
    if user.name.is_empty() {
        return Ok(None);
    }
    match uids.as_slice() {
        [] => {}
        [uid] if !uid.is_empty() => user.uid = uid.clone(),
        _ => return Err("client certificate: exactly one UID that is not empty is expected".into()),
    }
    let id = format!("X509SHA256={}", hex::encode(digest::digest(&digest::SHA256, der).as_ref()));
    user.extra.insert(UserInfo::CREDENTIAL_ID.to_string(), vec![id]);
    Ok(Some(Arc::new(user.with_authenticated_group())))
}

/// Attribute of a subject that carries the uid of a user.
const UID_OID: &str = "1.3.6.1.4.1.57683.2";

#[cfg(test)]
pub(crate) mod testing {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

    pub(crate) fn now() -> SystemTime {
        SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000)
    }

    pub(crate) fn authority() -> (Issuer<'static, KeyPair>, CertificateDer<'static>) {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        (Issuer::new(params, key), certificate)
    }

    pub(crate) fn client<G: Into<rcgen::DnValue> + Clone>(
        issuer: &Issuer<'static, KeyPair>,
        name: &str,
        groups: &[G],
        uid: &str,
    ) -> CertificateDer<'static> {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        for group in groups {
            params.distinguished_name.push(DnType::OrganizationName, group.clone());
        }
        if !uid.is_empty() {
            params.distinguished_name.push(DnType::CustomDnType(vec![1, 3, 6, 1, 4, 1, 57683, 2]), uid);
        }
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        params.signed_by(&KeyPair::generate().unwrap(), issuer).unwrap().der().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::testing::{authority, client, now};
    use super::*;

    #[test]
    fn a_certificate_names_user_group_and_uid() {
        let (issuer, certificate) = authority();
        let authorities = ClientAuthorities::new([certificate]).unwrap();
        let peer = PeerCertificates::new(vec![client(&issuer, "alice", &["dev"], "u1")]);
        let user = (*peer.identity(&authorities, now())).clone().unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("alice", "u1"));
        assert_eq!(user.groups, ["dev", UserInfo::AUTHENTICATED]);
        assert!(user.extra.get(UserInfo::CREDENTIAL_ID).unwrap().first().unwrap().starts_with("X509SHA256="));
    }

    #[test]
    fn groups_are_read_in_every_string_type() {
        use rcgen::string::{BmpString, PrintableString, TeletexString};
        let (issuer, certificate) = authority();
        let authorities = ClientAuthorities::new([certificate]).unwrap();
        for group in [
            rcgen::DnValue::BmpString(BmpString::try_from("devs").unwrap()),
            rcgen::DnValue::PrintableString(PrintableString::try_from("devs").unwrap()),
            rcgen::DnValue::TeletexString(TeletexString::try_from("devs").unwrap()),
        ] {
            let peer = PeerCertificates::new(vec![client(&issuer, "alice", &[group], "")]);
            let user = (*peer.identity(&authorities, now())).clone().unwrap().unwrap();
            assert_eq!(user.groups, ["devs", UserInfo::AUTHENTICATED]);
        }
    }

    #[test]
    fn a_stranger_is_not_accepted_and_authorities_can_change() {
        let (_, certificate) = authority();
        let (other, others) = authority();
        let authorities = ClientAuthorities::new([certificate]).unwrap();
        let peer = PeerCertificates::new(vec![client::<&str>(&other, "alice", &[], "")]);
        assert!(peer.identity(&authorities, now()).is_err());
        assert_eq!(*PeerCertificates::default().identity(&authorities, now()), Ok(None));
        authorities.set([others]).unwrap();
        assert!(peer.identity(&authorities, now()).is_ok());
    }

    #[test]
    fn an_expired_authority_is_not_accepted() {
        let (issuer, certificate) = authority();
        let authorities = ClientAuthorities::new([certificate.clone()]).unwrap();
        let peer = PeerCertificates::new(vec![client::<&str>(&issuer, "alice", &[], "")]);
        assert!(peer.identity(&authorities, now()).is_ok());
        let late = SystemTime::UNIX_EPOCH + Duration::from_secs(validity(&certificate).unwrap().1 + 1);
        assert!(peer.identity(&authorities, late).is_err());
    }
}
