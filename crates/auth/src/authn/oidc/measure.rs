//! Metrics of the key sets of OpenID providers.

use super::sha256_text;
use pintle_kinds::features;
use pintle_metrics::{families, server_id_hash};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// The metrics of one issuer's key set.
pub(super) struct KeySetMetrics {
    /// The hash of the issuer.
    issuer: String,
    /// The hash of the last key set.
    current: Mutex<Option<String>>,
}

impl KeySetMetrics {
    /// The metrics of an issuer, by its hash.
    pub(super) fn new(issuer: &str) -> KeySetMetrics {
        KeySetMetrics { issuer: issuer.to_string(), current: Mutex::default() }
    }

    /// Records a fetch: the document of a valid key set, or `None`.
    pub(super) fn fetched(&self, document: Option<&[u8]>) {
        if !features::is_enabled("StructuredAuthenticationConfigurationJWKSMetrics") {
            return;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        let result = if document.is_some() { "success" } else { "failure" };
        families::KEY_SET_FETCHED_AT.set(&[server_id_hash(), &self.issuer, result], now);
        let Some(document) = document else { return };
        self.forget_key_set();
        let hash = sha256_text(document);
        families::KEY_SET_INFO.set(&[server_id_hash(), &hash, &self.issuer], 1.0);
        *self.current.lock().unwrap_or_else(PoisonError::into_inner) = Some(hash);
    }

    /// Removes the series of an issuer that is no longer configured.
    pub(super) fn forget(&self) {
        self.forget_key_set();
        for result in ["success", "failure"] {
            families::KEY_SET_FETCHED_AT.remove(&[server_id_hash(), &self.issuer, result]);
        }
    }

    fn forget_key_set(&self) {
        let last = self.current.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(hash) = last {
            families::KEY_SET_INFO.remove(&[server_id_hash(), &hash, &self.issuer]);
        }
    }
}
