//! A list of providers: the first one encrypts; the one with the matching prefix decrypts.

use crate::PREFIX;
use crate::aes::{Cbc, Gcm};
use crate::kms::{Kms, KmsV1};
use crate::measure::{self, FROM_STORAGE, TO_STORAGE};
use crate::secretbox::Secretbox;
use std::sync::Arc;
use std::time::Instant;

/// Why a value could not be transformed, with kube-apiserver's message. It contains nothing of the value.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TransformError(pub String);

impl TransformError {
    pub(crate) fn new(why: &str) -> TransformError {
        TransformError(why.to_string())
    }
}

/// One entry of `providers`.
pub(crate) enum Provider {
    Identity,
    Keyed(Keyed),
    Kms(Arc<Kms>),
    KmsV1(Arc<KmsV1>),
}

/// A provider with its own keys.
pub(crate) struct Keyed {
    /// `k8s:enc:aesgcm:v1:`
    pub(crate) prefix: &'static str,
    /// The error if no key has the name in the value.
    pub(crate) no_key: &'static str,
    /// The keys by name; the first one encrypts.
    pub(crate) keys: Vec<(String, Cipher)>,
}

pub(crate) enum Cipher {
    Gcm(Gcm),
    Cbc(Box<Cbc>),
    Secretbox(Box<Secretbox>),
}

/// A decrypted value.
pub(crate) struct Plain {
    pub(crate) value: Vec<u8>,
    /// Whether the value would be encrypted differently now.
    pub(crate) outdated: bool,
}

impl Provider {
    fn stored_prefix(&self) -> &str {
        match self {
            Provider::Identity => "",
            Provider::Keyed(keyed) => keyed.prefix,
            Provider::Kms(kms) => kms.prefix(),
            Provider::KmsV1(kms) => kms.prefix(),
        }
    }

    fn open(&self, resource: &str, key: &str, data: &[u8]) -> Result<Plain, TransformError> {
        match self {
            Provider::Identity => open_plain(data),
            Provider::Keyed(keyed) => keyed.open(resource, key, data),
            Provider::Kms(kms) => kms.open(key, data),
            Provider::KmsV1(kms) => kms.open(key, data),
        }
    }

    fn seal(&self, resource: &str, key: &str, plain: &[u8]) -> Result<Vec<u8>, TransformError> {
        let mut out = self.stored_prefix().as_bytes().to_vec();
        match self {
            Provider::Identity => out.extend_from_slice(plain),
            Provider::Keyed(keyed) => keyed.seal(resource, key, plain, &mut out)?,
            Provider::Kms(kms) => kms.seal(key, plain, &mut out)?,
            Provider::KmsV1(kms) => kms.seal(key, plain, &mut out)?,
        }
        Ok(out)
    }

    /// Whether a value that this provider decrypts would be encrypted differently now, according to its prefix.
    fn is_outdated(&self, data: &[u8]) -> bool {
        match self {
            Provider::Identity | Provider::KmsV1(_) => false,
            Provider::Keyed(keyed) => {
                let first = keyed.keys.first();
                first.is_none_or(|(name, _)| strip_name(data, name).is_none())
            }
            Provider::Kms(kms) => kms.is_outdated(data),
        }
    }
}

/// The content of a value that is not encrypted.
pub(crate) fn open_plain(data: &[u8]) -> Result<Plain, TransformError> {
    if data.starts_with(PREFIX) {
        return Err(TransformError::new("identity transformer tried to read encrypted data"));
    }
    Ok(Plain { value: data.to_vec(), outdated: false })
}

/// Decrypts a value with the providers whose prefix matches.
pub(crate) fn open(
    providers: &[Provider],
    resource: &str,
    key: &str,
    data: &[u8],
) -> Result<Plain, TransformError> {
    let began = Instant::now();
    let count = |prefix: &str, error: Option<&TransformError>| {
        measure::transformation(resource, FROM_STORAGE, prefix, began.elapsed(), error);
    };
    let mut errors = Vec::new();
    for (at, provider) in providers.iter().enumerate() {
        let Some(body) = data.strip_prefix(provider.stored_prefix().as_bytes()) else { continue };
        let opened = provider.open(resource, key, body);
        let is_identity = matches!(provider, Provider::Identity);
        // Data that the identity provider rejects is left to the next providers, uncounted.
        if !is_identity || opened.is_ok() {
            count(if is_identity { "identity" } else { provider.stored_prefix() }, opened.as_ref().err());
        }
        match opened {
            Ok(plain) => return Ok(Plain { outdated: plain.outdated || at > 0, ..plain }),
            Err(_) if is_identity => {}
            Err(error) => errors.push(error),
        }
    }
    let is_unknown = errors.is_empty();
    let error = all(errors, "no matching prefix found");
    if is_unknown {
        count("unknown", Some(&error));
    }
    Err(error)
}

/// Encrypts a value with the first provider.
pub(crate) fn seal(
    providers: &[Provider],
    resource: &str,
    key: &str,
    plain: &[u8],
) -> Result<Vec<u8>, TransformError> {
    let Some(provider) = providers.first() else { return Ok(plain.to_vec()) };
    let began = Instant::now();
    let sealed = provider.seal(resource, key, plain);
    measure::transformation(
        resource,
        TO_STORAGE,
        provider.stored_prefix(),
        began.elapsed(),
        sealed.as_ref().err(),
    );
    sealed
}

/// Whether a value would be encrypted differently now.
pub(crate) fn is_outdated(providers: &[Provider], data: &[u8]) -> bool {
    match providers.first() {
        None => false,
        Some(Provider::Identity) => data.starts_with(PREFIX),
        Some(first) => {
            data.strip_prefix(first.stored_prefix().as_bytes()).is_none_or(|body| first.is_outdated(body))
        }
    }
}

impl Keyed {
    fn open(&self, resource: &str, key: &str, data: &[u8]) -> Result<Plain, TransformError> {
        let began = Instant::now();
        let count = |prefix: &str, error: Option<&TransformError>| {
            measure::transformation(resource, FROM_STORAGE, prefix, began.elapsed(), error);
        };
        let mut errors = Vec::new();
        for (at, (name, cipher)) in self.keys.iter().enumerate() {
            let Some(body) = strip_name(data, name) else { continue };
            let opened = match cipher {
                Cipher::Gcm(gcm) => gcm.open(key, body),
                Cipher::Cbc(cbc) => cbc.open(body),
                Cipher::Secretbox(secretbox) => secretbox.open(body),
            };
            count(&key_prefix(name), opened.as_ref().err());
            match opened {
                Ok(value) => return Ok(Plain { value, outdated: at > 0 }),
                Err(error) => errors.push(error),
            }
        }
        let is_unknown = errors.is_empty();
        let error = all(errors, self.no_key);
        if is_unknown {
            count("unknown", Some(&error));
        }
        Err(error)
    }

    fn seal(&self, resource: &str, key: &str, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TransformError> {
        let Some((name, cipher)) = self.keys.first() else { return Err(TransformError::new(self.no_key)) };
        let began = Instant::now();
        let prefix = key_prefix(name);
        out.extend_from_slice(prefix.as_bytes());
        let sealed = match cipher {
            Cipher::Gcm(gcm) => gcm.seal(key, plain, out),
            Cipher::Cbc(cbc) => cbc.seal(plain, out),
            Cipher::Secretbox(secretbox) => secretbox.seal(plain, out),
        };
        measure::transformation(resource, TO_STORAGE, &prefix, began.elapsed(), sealed.as_ref().err());
        sealed
    }
}

/// The prefix of a value that was encrypted with this key, after the prefix of its provider. In kube-apiserver each
/// key is a provider within its provider, and counted as one.
fn key_prefix(name: &str) -> String {
    format!("{name}:")
}

/// The part after `name:`.
fn strip_name<'d>(data: &'d [u8], name: &str) -> Option<&'d [u8]> {
    data.strip_prefix(name.as_bytes())?.strip_prefix(b":")
}

/// Several errors in the form of Go's aggregate: each once.
pub(crate) fn all(errors: Vec<TransformError>, none: &str) -> TransformError {
    let mut texts: Vec<String> = Vec::new();
    for TransformError(text) in errors {
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match texts.as_slice() {
        [] => TransformError::new(none),
        [one] => TransformError::new(one),
        many => TransformError(format!("[{}]", many.join(", "))),
    }
}
