//! Encryption at rest: encrypts values for the store, and decrypts them.
//!
//! The formats are those of kube-apiserver: a prefix (`k8s:enc:…`) with the provider and the key, then the encrypted
//! value. The first provider of a resource encrypts, all of them decrypt. This crate handles keys and bytes, never
//! objects, and never logs a secret.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod aes;
mod config;
mod kms;
mod measure;
mod provider;
mod rules;
mod secretbox;

pub use config::{ConfigError, Connect, parse};
pub use kms::{Decrypted, Kms, KmsService, KmsV1, KmsVersion, Sealed, Status, connect};
pub use measure::{configuration_loaded, configuration_reloaded};
pub use provider::TransformError;
pub use rules::{Configuration, Encryption, Opened};

/// The prefix of every encrypted value.
pub(crate) const PREFIX: &[u8] = b"k8s:enc:";

/// Fills `out` with random bytes. The generator seeds itself from the system; without it no key or nonce is safe.
pub(crate) fn random(out: &mut [u8]) -> Result<(), TransformError> {
    aws_lc_rs::rand::fill(out).map_err(|_| TransformError::new("the system has no random bytes"))
}
