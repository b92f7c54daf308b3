//! Client certificates: the authorities that are believed, and whom a certificate names.

use crate::UserInfo;
use aws_lc_rs::digest;
use rustls::RootCertStore;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use x509_parser::prelude::{FromDer, X509Certificate};

/// Whom the certificate of a connection names (`None`: nobody), or why it is not believed.
pub type CertificateIdentity = Result<Option<UserInfo>, String>;

/// The authorities whose client certificates are believed.
#[derive(Debug)]
pub struct ClientAuthorities {
    /// Tells these authorities from others.
    id: u64,
    /// All of them.
    roots: Vec<Authority>,
    /// Verifies with all of them.
    verifier: Arc<dyn ClientCertVerifier>,
}

#[derive(Debug)]
struct Authority {
    certificate: CertificateDer<'static>,
    validity: Validity,
}

/// The first and the last second at which a certificate is valid, since 1970.
#[derive(Clone, Copy, Debug)]
struct Validity {
    first: i64,
    last: i64,
}

impl Validity {
    /// `None` for a certificate that cannot be read.
    fn of(der: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = X509Certificate::from_der(der).ok()?;
        let validity = certificate.validity();
        Some(Validity { first: validity.not_before.timestamp(), last: validity.not_after.timestamp() })
    }

    fn contains(self, now: i64) -> bool {
        (self.first..=self.last).contains(&now)
    }

    /// The last second from `now` on at which this certificate is as valid as it is now.
    fn unchanged_until(self, now: i64) -> i64 {
        match now {
            _ if now < self.first => self.first.saturating_sub(1),
            _ if now <= self.last => self.last,
            _ => i64::MAX,
        }
    }
}

/// What verifying a chain of certificates came to.
#[derive(Debug)]
pub struct Verdict {
    /// Whom the chain names, or why it is not believed.
    pub identity: CertificateIdentity,
    /// By whom it was verified.
    authorities: u64,
    /// First and last second at which the verdict is the same.
    from: i64,
    until: i64,
}

impl Verdict {
    /// Whether these authorities would come to the same verdict at this time.
    pub fn holds(&self, authorities: &ClientAuthorities, now: UnixTime) -> bool {
        self.authorities == authorities.id && (self.from..=self.until).contains(&unix_seconds(now))
    }
}

fn unix_seconds(time: UnixTime) -> i64 {
    i64::try_from(time.as_secs()).unwrap_or(i64::MAX)
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
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        // One whose dates cannot be read is never valid.
        let never = Validity { first: i64::MAX, last: i64::MIN };
        let with_validity = |certificate: CertificateDer<'static>| {
            let validity = Validity::of(&certificate).unwrap_or(never);
            Authority { certificate, validity }
        };
        let roots: Vec<Authority> = authorities.into_iter().map(with_validity).collect();
        let verifier = verifier(roots.iter())?;
        Ok(ClientAuthorities { id: NEXT_ID.fetch_add(1, Ordering::Relaxed), roots, verifier })
    }

    /// Names of the authorities, for the hint that clients get in the handshake.
    pub fn subjects(&self) -> Vec<rustls::DistinguishedName> {
        self.verifier.root_hint_subjects().to_vec()
    }

    /// Verifies a certificate chain (leaf first).
    pub fn verify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> Verdict {
        let seconds = unix_seconds(now);
        let ends = chain.iter().filter_map(Validity::of).chain(self.roots.iter().map(|root| root.validity));
        let until = ends.map(|validity| validity.unchanged_until(seconds)).min().unwrap_or(i64::MAX);
        Verdict { identity: self.identify(chain, now), authorities: self.id, from: seconds, until }
    }

    /// Whom a certificate chain (leaf first) names.
    fn identify(&self, chain: &[CertificateDer<'_>], now: UnixTime) -> CertificateIdentity {
        let Some((leaf, intermediates)) = chain.split_first() else { return Ok(None) };
        // The verifier does not look at the dates of authorities; kube-apiserver does.
        let is_valid = |root: &&Authority| root.validity.contains(unix_seconds(now));
        let of_valid_roots;
        let verifier = if self.roots.iter().all(|root| is_valid(&root)) {
            &self.verifier
        } else {
            let valid = verifier(self.roots.iter().filter(is_valid));
            of_valid_roots = valid.map_err(|e| format!("client certificate: no authority is valid: {e}"))?;
            &of_valid_roots
        };
        verifier
            .verify_client_cert(leaf, intermediates, now)
            .map_err(|e| format!("client certificate: {e}"))?;
        user_of(leaf)
    }
}

fn verifier<'a>(
    authorities: impl Iterator<Item = &'a Authority>,
) -> Result<Arc<dyn ClientCertVerifier>, AuthorityError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        roots.add(authority.certificate.clone())?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    Ok(WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?)
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
    fn a_certificate_is_good_as_long_as_it_and_its_authority_are_valid() {
        let at = |seconds: i64| UnixTime::since_unix_epoch(Duration::from_secs(seconds.unsigned_abs()));
        let date =
            |seconds: i64| rcgen::date_time_ymd(2027, 1, 1) + Duration::from_secs(seconds.unsigned_abs());
        let base = date(0).unix_timestamp();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        (params.not_before, params.not_after) = (date(0), date(200));
        let key = KeyPair::generate().unwrap();
        let root = params.self_signed(&key).unwrap().der().clone();
        let issuer = Issuer::new(params, key);
        let client = |last: i64| {
            let mut params = CertificateParams::new(Vec::new()).unwrap();
            params.distinguished_name = rcgen::DistinguishedName::new();
            params.distinguished_name.push(DnType::CommonName, "alice");
            (params.not_before, params.not_after) = (date(10), date(last));
            params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
            params.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap().der().clone()
        };
        let authorities = ClientAuthorities::new([root]).unwrap();
        let (short, long) = ([client(100)], [client(1000)]);
        for (chain, second, is_good, until) in [
            (&short, 5, false, 9),
            (&short, 10, true, 100),
            (&short, 100, true, 100),
            (&short, 101, false, 200),
            (&long, 150, true, 200),
            (&long, 201, false, 1000),
        ] {
            let verdict = authorities.verify(chain, at(base + second));
            let found = (verdict.identity.is_ok(), verdict.until - base);
            assert_eq!(found, (is_good, until), "at {second}: {:?}", verdict.identity);
            assert!(verdict.holds(&authorities, at(base + until)));
            assert!(!verdict.holds(&authorities, at(base + until + 1)));
        }
        let others = ClientAuthorities::new([authority().1]).unwrap();
        assert!(!authorities.verify(&short, at(base + 50)).holds(&others, at(base + 50)));
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
