//! Keys and certificates: the server's own CA, its serving certificate, the administrator's certificate and the key of
//! service account tokens. They are stored in the data folder, and created if missing.

use crate::data_dir::{DataDir, DataDirError};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa;
use aws_lc_rs::signature::KeyPair as _;
use pintle_auth::authn::keys::{Algorithm, KeyError, SigningKey, VerifyingKey};
use pintle_http::tls::ServingCertificate;
use pintle_value::base64;
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

/// The lifetime of certificates, and how long before their end they are renewed.
const LIFE: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
const RENEW_BEFORE: Duration = Duration::from_secs(30 * 24 * 3600);
/// How far the clocks of clients may be behind.
const BACKDATED: Duration = Duration::from_secs(3600);

/// A key or certificate cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PkiError {
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error("cannot make a certificate: {0}")]
    Make(#[from] rcgen::Error),
    #[error("{}", crate::config_file::go_text(.0, .1))]
    File(PathBuf, std::io::Error),
    #[error("{0}")]
    Text(String),
    #[error("{0}: {1}")]
    Pem(PathBuf, String),
    #[error("service-account key: {0}")]
    AccountKey(#[from] KeyError),
}

/// A certificate and its key in PEM.
#[derive(Clone)]
pub(crate) struct Pair {
    pub(crate) certificate: String,
    pub(crate) key: String,
}

/// The server's own CA.
pub(crate) struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub(crate) certificate: String,
}

/// The storage of keys: a folder, or none.
#[derive(Clone, Copy)]
pub(crate) struct KeyFolder<'a>(pub(crate) Option<&'a DataDir>);

impl KeyFolder<'_> {
    fn read(self, name: &str) -> Result<Option<String>, PkiError> {
        match self.0 {
            Some(dir) => Ok(dir.read(name)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())),
            None => Ok(None),
        }
    }

    fn write(self, name: &str, text: &str) -> Result<(), PkiError> {
        if let Some(dir) = self.0 {
            dir.write(name, text.as_bytes())?;
        }
        Ok(())
    }

    fn read_pair(self, name: &str) -> Result<Option<Pair>, PkiError> {
        let certificate = self.read(&format!("pki/{name}.crt"))?;
        let key = self.read(&format!("pki/{name}.key"))?;
        Ok(certificate.zip(key).map(|(certificate, key)| Pair { certificate, key }))
    }

    fn write_pair(self, name: &str, pair: &Pair) -> Result<(), PkiError> {
        self.write(&format!("pki/{name}.key"), &pair.key)?;
        self.write(&format!("pki/{name}.crt"), &pair.certificate)
    }
}

impl Authority {
    /// Loads the CA of a data folder, if it has one.
    pub(crate) fn load(key_folder: KeyFolder<'_>) -> Result<Option<Self>, PkiError> {
        let Some(pair) = key_folder.read_pair("ca")? else { return Ok(None) };
        let issuer = Issuer::new(authority_params(), KeyPair::from_pem(&pair.key)?);
        Ok(Some(Authority { issuer, certificate: pair.certificate }))
    }

    /// Loads the stored CA, or creates one.
    pub(crate) fn load_or_make(key_folder: KeyFolder<'_>) -> Result<Self, PkiError> {
        if let Some(kept) = Authority::load(key_folder)? {
            return Ok(kept);
        }
        let params = authority_params();
        let key = KeyPair::generate()?;
        let certificate = params.self_signed(&key)?.pem();
        key_folder.write_pair("ca", &Pair { certificate: certificate.clone(), key: key.serialize_pem() })?;
        Ok(Authority { issuer: Issuer::new(params, key), certificate })
    }

    /// The serving certificate for these names: the stored one, or a new one.
    pub(crate) fn serving(&self, key_folder: KeyFolder<'_>, names: &[SanType]) -> Result<Pair, PkiError> {
        if let Some(pair) = key_folder.read_pair("apiserver")?
            && is_reusable(&pair.certificate, names)
        {
            return Ok(pair);
        }
        let mut params = certificate_params("pintle", &[]);
        params.subject_alt_names = names.to_vec();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.issue_pair(key_folder, "apiserver", params)
    }

    /// The administrator's certificate: the stored one, or a new one.
    pub(crate) fn admin(&self, key_folder: KeyFolder<'_>) -> Result<Pair, PkiError> {
        if let Some(pair) = key_folder.read_pair("admin")?
            && is_reusable(&pair.certificate, &[])
        {
            return Ok(pair);
        }
        let mut params = certificate_params("kubernetes-admin", &["system:masters"]);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue_pair(key_folder, "admin", params)
    }

    /// Issues a client certificate, which is not stored.
    #[cfg_attr(
        not(test),
        expect(
            clippy::arithmetic_side_effects,
            reason = "the clock plus years, whatever it says, is within the range of a time"
        )
    )]
    pub(crate) fn issue_client(&self, user: &str, groups: &[&str], life: Duration) -> Result<Pair, PkiError> {
        let mut params = certificate_params(user, groups);
        params.not_after = (SystemTime::now() + life).into();
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue_pair(KeyFolder(None), "", params)
    }

    fn issue_pair(
        &self,
        key_folder: KeyFolder<'_>,
        name: &str,
        mut params: CertificateParams,
    ) -> Result<Pair, PkiError> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
        params.use_authority_key_identifier_extension = true;
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?.pem();
        let pair = Pair { certificate, key: key.serialize_pem() };
        key_folder.write_pair(name, &pair)?;
        Ok(pair)
    }
}

/// The key that signs service account tokens: the stored one, or a new one. It is an RSA key, which every verifier of tokens
/// supports. An ECDSA key of an older build becomes one of [`older_account_keys`].
pub(crate) fn account_key(key_folder: KeyFolder<'_>) -> Result<SigningKey, PkiError> {
    if let Some(pem) = key_folder.read("pki/sa.key")? {
        let key = SigningKey::from_pem(pem.as_bytes())?;
        if key.verifying.algorithm == Algorithm::RS256 {
            return Ok(key);
        }
        if let Some(public) = key_folder.read("pki/sa.pub")? {
            key_folder.write(OLDER_ACCOUNT_KEYS, &public)?;
        }
    }
    let (private, public) = generate_rsa()?;
    key_folder.write("pki/sa.pub", &public)?;
    key_folder.write("pki/sa.key", &private)?;
    Ok(SigningKey::from_pem(private.as_bytes())?)
}

/// A new key that signs service account tokens, for a server that stores nothing.
pub(crate) fn generate_account_key() -> Result<SigningKey, KeyError> {
    SigningKey::from_pem(generate_rsa()?.0.as_bytes())
}

/// A new RSA key: the private and the public key in PEM.
fn generate_rsa() -> Result<(String, String), KeyError> {
    let key = rsa::KeyPair::generate(rsa::KeySize::Rsa2048).map_err(|_| KeyError::Unusable)?;
    let private: Pkcs8V1Der<'_> = key.as_der().map_err(|_| KeyError::Unusable)?;
    let public: PublicKeyX509Der<'_> = key.public_key().as_der().map_err(|_| KeyError::Unusable)?;
    Ok((to_pem("PRIVATE KEY", private.as_ref()), to_pem("PUBLIC KEY", public.as_ref())))
}

/// Keys that signed service account tokens before; those tokens remain valid.
pub(crate) fn older_account_keys(key_folder: KeyFolder<'_>) -> Result<Vec<VerifyingKey>, PkiError> {
    match key_folder.read(OLDER_ACCOUNT_KEYS)? {
        Some(pem) => Ok(VerifyingKey::all_from_pem(pem.as_bytes())?),
        None => Ok(Vec::new()),
    }
}

const OLDER_ACCOUNT_KEYS: &str = "pki/sa-older.pub";

fn to_pem(label: &str, der: &[u8]) -> String {
    const LINE: usize = 64;
    let text = base64::encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in text.as_bytes().chunks(LINE) {
        out.push_str(&String::from_utf8_lossy(line));
        out.push('\n');
    }
    out.push_str(&format!("-----END {label}-----\n"));
    out
}

/// The parameters of the CA certificate. Certificates that it signs repeat only its name and key id, so a stored CA can
/// be used with fresh parameters.
fn authority_params() -> CertificateParams {
    let mut params = certificate_params("pintle-ca", &[]);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    params
}

#[cfg_attr(
    not(test),
    expect(
        clippy::arithmetic_side_effects,
        reason = "the clock plus years, whatever it says, is within the range of a time"
    )
)]
fn certificate_params(name: &str, organizations: &[&str]) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    for organization in organizations {
        params.distinguished_name.push(DnType::OrganizationName, *organization);
    }
    params.distinguished_name.push(DnType::CommonName, name);
    let now = SystemTime::now();
    params.not_before = (now - BACKDATED).into();
    params.not_after = (now + LIFE).into();
    params
}

/// The names under which clients may reach the server.
pub(crate) fn serving_names(addresses: &[IpAddr], hosts: &[String]) -> Result<Vec<SanType>, PkiError> {
    let mut names = Vec::new();
    let domain = [
        "localhost",
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        "kubernetes.default.svc.cluster.local",
    ];
    for host in domain.iter().map(ToString::to_string).chain(hosts.iter().cloned()) {
        names.push(SanType::DnsName(host.try_into()?));
    }
    for address in addresses {
        let name = SanType::IpAddress(*address);
        if !names.contains(&name) {
            names.push(name);
        }
    }
    Ok(names)
}

/// Whether a stored certificate has all these names and does not expire soon.
#[cfg_attr(
    not(test),
    expect(
        clippy::arithmetic_side_effects,
        reason = "the clock plus years, whatever it says, is within the range of a time"
    )
)]
fn is_reusable(pem: &str, names: &[SanType]) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(pem.as_bytes()) else { return false };
    let Ok((_, certificate)) = X509Certificate::from_der(&der) else { return false };
    let renew = SystemTime::now() + RENEW_BEFORE;
    let renew = renew.duration_since(SystemTime::UNIX_EPOCH).map_or(i64::MAX, |d| d.as_secs().cast_signed());
    if certificate.validity().not_after.timestamp() < renew {
        return false;
    }
    let extension = certificate.subject_alternative_name().ok().flatten();
    let has = |wanted: &SanType| {
        extension.as_ref().is_some_and(|e| e.value.general_names.iter().any(|name| same_name(name, wanted)))
    };
    names.iter().all(has)
}

fn same_name(name: &GeneralName<'_>, wanted: &SanType) -> bool {
    match (name, wanted) {
        (GeneralName::DNSName(name), SanType::DnsName(wanted)) => *name == wanted.as_str(),
        (GeneralName::IPAddress(bytes), SanType::IpAddress(IpAddr::V4(v4))) => *bytes == v4.octets(),
        (GeneralName::IPAddress(bytes), SanType::IpAddress(IpAddr::V6(v6))) => *bytes == v6.octets(),
        _ => false,
    }
}

/// The bytes of a file.
pub(crate) fn read_file(path: &Path) -> Result<Vec<u8>, PkiError> {
    std::fs::read(path).map_err(|e| PkiError::File(path.to_path_buf(), e))
}

/// A certificate and its key from two files.
pub(crate) fn read_pair(certificate: &Path, key: &Path) -> Result<Pair, PkiError> {
    let text = |path: &Path| read_file(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(Pair { certificate: text(certificate)?, key: text(key)? })
}

/// Parses all certificates of a PEM text; errors name `source`.
pub(crate) fn certificates(pem: &[u8], source: &Path) -> Result<Vec<CertificateDer<'static>>, PkiError> {
    let bad = |why: String| PkiError::Pem(source.to_path_buf(), why);
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match all {
        Ok(none) if none.is_empty() => Err(bad("no certificate found".into())),
        Ok(all) => Ok(all),
        Err(e) => Err(bad(e.to_string())),
    }
}

/// Converts a pair for TLS. The errors are those of Go's `tls.X509KeyPair`.
pub(crate) fn serving_certificate(pair: &Pair, source: &Path) -> Result<ServingCertificate, PkiError> {
    let fault =
        certificate_fault(&pem_labels(&pair.certificate)).or_else(|| key_fault(&pem_labels(&pair.key)));
    if let Some(why) = fault {
        return Err(PkiError::Text(format!("tls: {why}")));
    }
    let chain = certificates(pair.certificate.as_bytes(), source)?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.as_bytes())
        .map_err(|e| PkiError::Pem(source.to_path_buf(), format!("private key: {e}")))?;
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    let together = rustls::sign::CertifiedKey::from_der(chain.clone(), key.clone_key(), &provider);
    match together {
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(PkiError::Text("tls: private key does not match public key".to_string()))
        }
        // Other errors are reported where the certificate is used.
        _ => Ok(ServingCertificate { chain, key }),
    }
}

/// The types of the PEM blocks of a text.
fn pem_labels(text: &str) -> Vec<&str> {
    let begins =
        text.lines().filter_map(|line| line.trim_end().strip_prefix("-----BEGIN ")?.strip_suffix("-----"));
    begins.filter(|label| text.contains(&format!("-----END {label}-----"))).collect()
}

fn certificate_fault(labels: &[&str]) -> Option<String> {
    match labels {
        [] => Some("failed to find any PEM data in certificate input".to_string()),
        _ if labels.contains(&"CERTIFICATE") => None,
        [one] if one.ends_with("PRIVATE KEY") => Some(
            "failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have \
             been switched"
                .to_string(),
        ),
        others => Some(format!(
            "failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following \
             types: [{}]",
            others.join(" ")
        )),
    }
}

fn key_fault(labels: &[&str]) -> Option<String> {
    match labels {
        [] => Some("failed to find any PEM data in key input".to_string()),
        _ if labels.iter().any(|label| label.ends_with("PRIVATE KEY")) => None,
        ["CERTIFICATE"] => {
            Some("found a certificate rather than a key in the PEM for the private key".to_string())
        }
        others => Some(format!(
            "failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the \
             following types: [{}]",
            others.join(" ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_serving_files_have_gos_words() {
        let block = |label: &str| format!("-----BEGIN {label}-----\nAAAA\n-----END {label}-----\n");
        for (certificate, key, want) in [
            ("x".to_string(), String::new(), "failed to find any PEM data in certificate input"),
            (
                block("EC PRIVATE KEY"),
                String::new(),
                "failed to find certificate PEM data in certificate input, but did find a private key; PEM inputs may have been \
                 switched",
            ),
            (
                block("A") + &block("B"),
                String::new(),
                "failed to find \"CERTIFICATE\" PEM block in certificate input after skipping PEM blocks of the following types: \
                 [A B]",
            ),
            (block("CERTIFICATE"), String::new(), "failed to find any PEM data in key input"),
            (
                block("CERTIFICATE"),
                block("CERTIFICATE"),
                "found a certificate rather than a key in the PEM for the private key",
            ),
            (
                block("CERTIFICATE"),
                block("PUBLIC KEY"),
                "failed to find PEM block with type ending in \"PRIVATE KEY\" in key input after skipping PEM blocks of the \
                 following types: [PUBLIC KEY]",
            ),
        ] {
            let error = serving_certificate(&Pair { certificate, key }, Path::new("x")).err();
            assert_eq!(error.map(|error| error.to_string()), Some(format!("tls: {want}")));
        }
    }

    #[test]
    fn a_certificate_is_good_for_its_names_only() {
        let authority = Authority::load_or_make(KeyFolder(None)).unwrap();
        let names = serving_names(&["127.0.0.1".parse().unwrap()], &[]).unwrap();
        let pair = authority.serving(KeyFolder(None), &names).unwrap();
        assert!(is_reusable(&pair.certificate, &names));
        let more = serving_names(&["127.0.0.1".parse().unwrap(), "10.0.0.1".parse().unwrap()], &[]).unwrap();
        assert!(!is_reusable(&pair.certificate, &more));
        assert!(!is_reusable("nonsense", &names));
    }

    #[test]
    fn certificates_are_renewed_before_they_end() {
        let path = std::env::temp_dir().join(format!("pintle-pki-renewal-{}", std::process::id()));
        let folder = DataDir::open(&path).unwrap();
        let key_folder = KeyFolder(Some(&folder));
        let authority = Authority::load_or_make(key_folder).unwrap();
        let names = serving_names(&["127.0.0.1".parse().unwrap()], &[]).unwrap();
        let get = || {
            let serving = authority.serving(key_folder, &names).unwrap().certificate;
            (serving, authority.admin(key_folder).unwrap().certificate)
        };
        let first = get();
        assert_eq!(get(), first, "they are stored");
        for name in ["apiserver", "admin"] {
            let mut soon = certificate_params("pintle", &[]);
            soon.subject_alt_names = names.clone();
            soon.not_after = (SystemTime::now() + RENEW_BEFORE - Duration::from_secs(60)).into();
            authority.issue_pair(key_folder, name, soon).unwrap();
        }
        let ending: Vec<String> = ["apiserver", "admin"]
            .map(|name| key_folder.read_pair(name).unwrap().unwrap().certificate)
            .to_vec();
        let renewed = get();
        assert!(!ending.contains(&renewed.0) && !ending.contains(&renewed.1));
        assert!(is_reusable(&renewed.0, &names) && is_reusable(&renewed.1, &[]));
        drop(folder);
        std::fs::remove_dir_all(path).unwrap();
    }

    #[test]
    fn an_ecdsa_account_key_is_replaced_and_stays_good_for_verification() {
        let path = std::env::temp_dir().join(format!("pintle-pki-{}", std::process::id()));
        let folder = DataDir::open(&path).unwrap();
        let key_folder = KeyFolder(Some(&folder));
        let old = KeyPair::generate().unwrap();
        key_folder.write("pki/sa.key", &old.serialize_pem()).unwrap();
        key_folder.write("pki/sa.pub", &old.public_key_pem()).unwrap();
        let first = account_key(key_folder).unwrap();
        assert_eq!(first.verifying.algorithm, Algorithm::RS256);
        assert_eq!(account_key(key_folder).unwrap().verifying.kid, first.verifying.kid, "it is kept");
        let older = older_account_keys(key_folder).unwrap();
        assert_eq!(older.iter().map(|key| key.algorithm).collect::<Vec<_>>(), [Algorithm::ES256]);
        drop(folder);
        std::fs::remove_dir_all(path).unwrap();
    }
}
