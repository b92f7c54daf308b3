//! The keys of service account tokens: keys from files, generated keys, or the keys of an external signer.

use super::external_signer::{ExternalSigner, SignerError};
use super::jwt;
use super::keys::{KeyError, SigningKey, VerifyingKey};
use pintle_value::Value;
use std::sync::{Arc, LazyLock};

/// How long clients may cache the keys, in seconds, if they do not change while the server runs.
const MAX_AGE_SECONDS: u64 = 3600;

/// The location of the token keys.
#[derive(Clone)]
pub enum TokenKeys {
    /// The keys are in this process.
    Local(Arc<LazyLock<LocalKeys, MakeKeys>>),
    /// The keys are in another process.
    External(Arc<ExternalSigner>),
}

/// Generates keys.
type MakeKeys = Box<dyn FnOnce() -> LocalKeys + Send>;

/// Keys in this process.
pub struct LocalKeys {
    /// The key for signing new tokens.
    pub signer: Result<SigningKey, KeyError>,
    /// The keys for verifying signatures.
    pub verifying: Vec<VerifyingKey>,
}

/// The reason why a token cannot be issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The server cannot sign with its own key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The external signer failed.
    #[error(transparent)]
    Signer(#[from] SignerError),
}

impl TokenKeys {
    /// Uses existing keys.
    pub fn local(signer: SigningKey, verifying: Vec<VerifyingKey>) -> Self {
        let keys = LocalKeys { signer: Ok(signer), verifying };
        TokenKeys::Local(Arc::new(LazyLock::new(Box::new(move || keys))))
    }

    /// A key that `generate` creates when it is first needed, or in [`TokenKeys::generate_in_background`].
    pub fn generated(generate: impl FnOnce() -> Result<SigningKey, KeyError> + Send + 'static) -> Self {
        let make = move || {
            let signer = generate();
            let verifying = signer.iter().map(|signer| signer.verifying.clone()).collect();
            LocalKeys { signer, verifying }
        };
        TokenKeys::Local(Arc::new(LazyLock::new(Box::new(make))))
    }

    /// Generates the key on a blocking thread of the runtime, unless it is there. The runtime waits for that thread when it is
    /// dropped: AWS-LC aborts the process if a thread uses it while the process exits.
    pub fn generate_in_background(&self) {
        if let TokenKeys::Local(keys) = self.clone() {
            tokio::task::spawn_blocking(move || {
                LazyLock::force(&keys);
            });
        }
    }

    /// The keys that may have signed a token with this key id; "" selects all.
    pub(super) async fn verifying(&self, kid: &str) -> Vec<VerifyingKey> {
        match self {
            TokenKeys::Local(keys) => {
                keys.verifying.iter().filter(|key| kid.is_empty() || key.kid == kid).cloned().collect()
            }
            TokenKeys::External(signer) => signer.verifying_keys(kid).await,
        }
    }

    /// The keys that are published for clients that verify tokens.
    pub fn published(&self) -> Vec<VerifyingKey> {
        match self {
            TokenKeys::Local(keys) => keys.verifying.clone(),
            TokenKeys::External(signer) => signer.published_keys(),
        }
    }

    /// The time for which clients may cache the keys, in seconds.
    pub fn max_age_seconds(&self) -> u64 {
        match self {
            TokenKeys::Local(_) => MAX_AGE_SECONDS,
            TokenKeys::External(signer) => signer.max_age_seconds(),
        }
    }

    /// A number that changes with the keys.
    pub fn generation(&self) -> u64 {
        match self {
            TokenKeys::Local(_) => 0,
            TokenKeys::External(signer) => signer.generation(),
        }
    }

    pub(super) async fn sign(&self, claims: &Value) -> Result<String, IssueError> {
        match self {
            TokenKeys::Local(keys) => match &keys.signer {
                Ok(signer) => Ok(jwt::sign(signer, claims)?),
                Err(_) => Err(KeyError::Unusable.into()),
            },
            TokenKeys::External(signer) => Ok(signer.sign(claims).await?),
        }
    }
}
