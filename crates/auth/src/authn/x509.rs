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

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, SystemTime};
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};
use x509_parser::prelude::{FromDer, X509Certificate};

/// The user of a client certificate, groups completed (`None`: no certificate), or the reason why it is refused.
pub type CertificateIdentity = Result<Option<Arc<UserInfo>>, String>;

/// How long a verification result is cached, and how long a refusal.
const VERIFIED_SECONDS_MAX: u64 = 60;
const REFUSED_SECONDS: u64 = 5;
/// How many intermediate certificates a chain may have, and how many of them with the same subject. The library tries every
/// path from the leaf to a CA: without a limit, a client without credentials could send a chain that takes a second.
const INTERMEDIATES_MAX: usize = 16;
const SAME_SUBJECT_MAX: usize = 2;

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
        // A refusal does not end with the validity of a certificate.
        let until = match &*identity {
            Ok(_) => {
                let expiry = expiry.unwrap_or(0).min(verifier.next_expiry(seconds));
                expiry.min(seconds.saturating_add(VERIFIED_SECONDS_MAX))
            }
            Err(_) => seconds.saturating_add(REFUSED_SECONDS),
        };
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

    /// When the next of the CAs expires: those that have expired already verified nothing.
    fn next_expiry(&self, now: u64) -> u64 {
        let expiries = self.authorities.iter().filter_map(validity).map(|(_, until)| until);
        expiries.filter(|until| *until >= now).min().unwrap_or(u64::MAX)
    }

    /// The user of a certificate chain (leaf first).
    fn identify(&self, chain: &[CertificateDer<'_>], now: u64) -> CertificateIdentity {
        let Some((leaf, intermediates)) = chain.split_first() else { return Ok(None) };
        check_number(intermediates)?;
        // The library accepts expired trust anchors; Go checks their dates as well.
        let valid = |der: &&CertificateDer<'static>| {
            validity(der).is_some_and(|(from, until)| (from..=until).contains(&now))
        };
        let current: Vec<_> = self.authorities.iter().filter(valid).cloned().collect();
        let partial;
        let verifier = if current.len() == self.authorities.len() {
            &self.verifier
        } else {
            partial = Verifier::new(current).map_err(|e| format!("client certificate: {e}"))?.verifier;
            &partial
        };
        if let Some(old) = OldCertificate::read(leaf) {
            let algorithms = rustls::crypto::aws_lc_rs::default_provider().signature_verification_algorithms;
            let authorities: Vec<_> = self.authorities.iter().filter(valid).cloned().collect();
            return if old.is_signed_by(leaf, &authorities, now, &algorithms) {
                user_of(leaf)
            } else {
                Err("client certificate of X.509 version 1: not signed by a trusted CA".into())
            };
        }
        let time = UnixTime::since_unix_epoch(Duration::from_secs(now));
        verifier
            .verify_client_cert(leaf, intermediates, time)
            .map_err(|e| format!("client certificate: {e}"))?;
        user_of(leaf)
    }
}

/// Refuses chains whose paths would take long to try.
fn check_number(intermediates: &[CertificateDer<'_>]) -> Result<(), String> {
    let mut subjects: HashMap<Vec<u8>, usize> = HashMap::new();
    for der in intermediates.iter().take(INTERMEDIATES_MAX) {
        let Ok((_, certificate)) = X509Certificate::from_der(der) else { continue };
        let count = subjects.entry(certificate.subject().as_raw().to_vec()).or_default();
        *count = count.saturating_add(1);
    }
    if intermediates.len() > INTERMEDIATES_MAX || subjects.values().any(|count| *count > SAME_SUBJECT_MAX) {
        return Err("client certificate: too many intermediate certificates".to_string());
    }
    Ok(())
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

    pub(crate) fn issue_client_certificate<G: Into<rcgen::DnValue> + Clone>(
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
    use super::testing::{authority, issue_client_certificate, now};
    use super::*;

    #[test]
    fn a_certificate_names_user_group_and_uid() {
        let (issuer, certificate) = authority();
        let authorities = ClientAuthorities::new([certificate]).unwrap();
        let peer = PeerCertificates::new(vec![issue_client_certificate(&issuer, "alice", &["dev"], "u1")]);
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
            let peer = PeerCertificates::new(vec![issue_client_certificate(&issuer, "alice", &[group], "")]);
            let user = (*peer.identity(&authorities, now())).clone().unwrap().unwrap();
            assert_eq!(user.groups, ["devs", UserInfo::AUTHENTICATED]);
        }
    }

    #[test]
    fn a_stranger_is_not_accepted_and_authorities_can_change() {
        let (_, certificate) = authority();
        let (other, others) = authority();
        let authorities = ClientAuthorities::new([certificate]).unwrap();
        let peer = PeerCertificates::new(vec![issue_client_certificate::<&str>(&other, "alice", &[], "")]);
        assert!(peer.identity(&authorities, now()).is_err());
        assert_eq!(*PeerCertificates::default().identity(&authorities, now()), Ok(None));
        authorities.set([others]).unwrap();
        assert!(peer.identity(&authorities, now()).is_ok());
    }

    /// A certificate of a CA with this name, whose issuer has the same name.
    fn intermediate(name: &str) -> CertificateDer<'static> {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.self_signed(&rcgen::KeyPair::generate().unwrap()).unwrap().der().clone()
    }

    #[test]
    fn a_chain_with_many_paths_is_refused_at_once() {
        let (issuer, certificate) = authority();
        let authorities = ClientAuthorities::new([certificate]).unwrap();
        let leaf = issue_client_certificate::<&str>(&issuer, "alice", &[], "");
        let identity = |intermediates: Vec<CertificateDer<'static>>| {
            let chain = [vec![leaf.clone()], intermediates].concat();
            (*PeerCertificates::new(chain).identity(&authorities, now())).clone()
        };
        let other = |number: usize| intermediate(&format!("ca-{number}"));
        assert!(identity((0..INTERMEDIATES_MAX).map(other).collect()).is_ok());
        let refused = Err("client certificate: too many intermediate certificates".to_string());
        assert_eq!(identity((0..=INTERMEDIATES_MAX).map(other).collect()), refused);
        assert_eq!(identity((0..=SAME_SUBJECT_MAX).map(|_| other(0)).collect()), refused);
    }

    #[test]
    fn a_refusal_is_cached_whatever_the_validity_of_the_certificates() {
        let (issuer, certificate) = authority();
        let authorities = ClientAuthorities::new([certificate.clone()]).unwrap();
        let peer = PeerCertificates::new(vec![issue_client_certificate::<&str>(&issuer, "alice", &[], "")]);
        let late = SystemTime::UNIX_EPOCH + Duration::from_secs(validity(&certificate).unwrap().1 + 1);
        let refusal = peer.identity(&authorities, late);
        assert!(refusal.is_err());
        assert!(Arc::ptr_eq(&refusal, &peer.identity(&authorities, late)));
    }

    #[test]
    fn a_connection_is_refused_once_its_authority_expires() {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let expiry = now() + Duration::from_secs(10);
        params.not_after = expiry.into();
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap().der().clone();
        let authorities = ClientAuthorities::new([certificate]).unwrap();
        let issuer = rcgen::Issuer::new(params, key);
        let peer = PeerCertificates::new(vec![issue_client_certificate::<&str>(&issuer, "alice", &[], "")]);
        assert!(peer.identity(&authorities, now()).is_ok());
        assert!(peer.identity(&authorities, expiry).is_ok());
        assert!(peer.identity(&authorities, expiry + Duration::from_secs(1)).is_err());
    }

    #[test]
    fn an_expired_authority_is_not_accepted() {
        let (issuer, certificate) = authority();
        let authorities = ClientAuthorities::new([certificate.clone()]).unwrap();
        let peer = PeerCertificates::new(vec![issue_client_certificate::<&str>(&issuer, "alice", &[], "")]);
        assert!(peer.identity(&authorities, now()).is_ok());
        let late = SystemTime::UNIX_EPOCH + Duration::from_secs(validity(&certificate).unwrap().1 + 1);
        assert!(peer.identity(&authorities, late).is_err());
    }
}
