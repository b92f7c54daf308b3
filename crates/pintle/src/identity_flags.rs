//! Validates the flags about trust: service account issuers and keys, front proxies. The messages are kube-apiserver's.

use crate::flags::Flags;
use crate::pki::{self, PkiError};
use pintle_auth::authn::keys::{SigningKey, VerifyingKey};
use pintle_auth::authn::x509::ClientAuthorities;
use std::collections::BTreeSet;
use std::path::Path;

/// Lists of header names and common names; blank items are rejected.
const NAME_LISTS: [&str; 5] = [
    "requestheader-username-headers",
    "requestheader-group-headers",
    "requestheader-extra-headers-prefix",
    "requestheader-allowed-names",
    "requestheader-uid-headers",
];

/// Errors of the flags, in kube-apiserver's order.
pub(crate) fn errors(flags: &Flags) -> Vec<String> {
    let mut errors = Vec::new();
    let mut seen = BTreeSet::new();
    for issuer in flags.values("service-account-issuer") {
        if issuer.contains(':')
            && let Err(why) = pintle_auth::check_url(&issuer)
        {
            errors.push(format!(
                "service-account-issuer {issuer:?} contained a ':' but was not a valid URL: {why}"
            ));
        } else if issuer.is_empty() {
            errors.push("service-account-issuer should not be an empty string".to_string());
        } else if !seen.insert(issuer.clone()) {
            errors.push(format!("service-account-issuer {issuer:?} is already specified"));
        }
    }
    let keys_at = flags.text("service-account-jwks-uri");
    if let Err(why) = pintle_auth::check_url(keys_at) {
        errors.push(format!("service-account-jwks-uri must be a valid URL: {why}"));
    } else if !keys_at.is_empty() && !keys_at.starts_with("https:") {
        errors.push(format!("service-account-jwks-uri requires https scheme, parsed as: {keys_at}"));
    }
    for name in NAME_LISTS {
        if flags.raw_list(name).iter().any(|item| item.trim().is_empty()) {
            errors.push(format!("empty value in {name:?}"));
        }
    }
    let uid_headers = flags.list("requestheader-uid-headers");
    if !uid_headers.is_empty() && !uid_headers.iter().any(|name| name.eq_ignore_ascii_case("x-remote-uid")) {
        errors.push(
            "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API aggregation \
             will not work"
                .to_string(),
        );
    }
    if flags.list("requestheader-allowed-names").is_empty() && authorities_overlap(flags) {
        errors.push(
            "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; \
             --requestheader-allowed-names must be specified to ensure regular client certificates cannot set \
             authenticating proxy headers for arbitrary users"
                .to_string(),
        );
    }
    errors
}

/// Returns whether clients and proxies have a CA in common. Unreadable files are reported elsewhere.
fn authorities_overlap(flags: &Flags) -> bool {
    let certificates = |name: &str| {
        let path = Path::new(flags.text(name));
        let text = std::fs::read(path).unwrap_or_default();
        pki::certificates(&text, path).unwrap_or_default()
    };
    let of_proxies = certificates("requestheader-client-ca-file");
    certificates("client-ca-file").iter().any(|certificate| of_proxies.contains(certificate))
}

/// The CAs in a file. `purpose` is kube-apiserver's name for it.
pub(crate) fn authorities(path: &Path, purpose: &str) -> Result<ClientAuthorities, PkiError> {
    let name = format!("{purpose}::{}", path.display());
    let text = pki::read_file(path)?;
    if text.is_empty() {
        return Err(PkiError::Text(format!("missing content for CA bundle {name:?}")));
    }
    let refuse = |why: &str| PkiError::Text(format!("error loading CA bundle for {name:?}: {why}"));
    let none = "data does not contain any valid RSA or ECDSA certificates";
    let all = pki::certificates(&text, path).map_err(|_| refuse(none))?;
    ClientAuthorities::new(all).map_err(|error| refuse(&error.to_string()))
}

/// The public keys of a file of `--service-account-key-file`.
pub(crate) fn verifying_keys(path: &Path) -> Result<Vec<VerifyingKey>, PkiError> {
    VerifyingKey::all_from_pem(&pki::read_file(path)?).map_err(|_| {
        PkiError::Text(format!(
            "error reading public key file {}: data does not contain any valid RSA or ECDSA public keys",
            path.display()
        ))
    })
}

/// The key of `--service-account-signing-key-file`.
pub(crate) fn signing_key(path: &Path) -> Result<SigningKey, PkiError> {
    let refuse =
        |why: String| PkiError::Text(format!("failed to parse service-account-issuer-key-file: {why}"));
    let text = pki::read_file(path).map_err(|error| refuse(error.to_string()))?;
    SigningKey::from_pem(&text).map_err(|_| {
        refuse(format!(
            "error reading private key file {}: data does not contain a valid RSA or ECDSA private key",
            path.display()
        ))
    })
}
