//! `/.well-known/openid-configuration` and `/openid/v1/jwks`: what relying parties need to verify service account
//! tokens.

use crate::api::ApiResponse;
use arc_swap::ArcSwap;
use pintle_auth::authn::keys::{VerifyingKey, key_set};
use pintle_auth::authn::token_keys::TokenKeys;
use pintle_value::json;
use std::sync::Arc;

/// The media type of the keys.
pub(crate) const KEYS_MEDIA_TYPE: &str = "application/jwk-set+json";

/// The two documents, rendered when the keys change.
pub struct OpenId {
    issuer: String,
    jwks_uri: String,
    keys: TokenKeys,
    documents: ArcSwap<Documents>,
}

struct Documents {
    configuration: String,
    keys: Vec<u8>,
    /// The generation of the keys that the documents were rendered from.
    generation: u64,
}

impl OpenId {
    /// The documents of an issuer; `None` if the issuer is not an https URL, as the standard requires.
    pub fn new(issuer: &str, jwks_uri: &str, keys: TokenKeys) -> Option<Self> {
        if !issuer.starts_with("https://") || issuer.contains(['?', '#']) {
            return None;
        }
        let documents = render_document(issuer, jwks_uri, &keys.published(), keys.generation())?;
        Some(OpenId {
            issuer: issuer.to_string(),
            jwks_uri: jwks_uri.to_string(),
            keys,
            documents: ArcSwap::from_pointee(documents),
        })
    }

    pub(crate) fn configuration(&self) -> ApiResponse {
        let body = self.current().configuration.clone();
        self.with_cache_header(ApiResponse::new(200, "application/json", body))
    }

    pub(crate) fn keys(&self) -> ApiResponse {
        let body = self.current().keys.clone();
        self.with_cache_header(ApiResponse::new(200, KEYS_MEDIA_TYPE, body))
    }

    /// The documents for the current keys. If there are no keys to publish, the previous documents stay, as in
    /// kube-apiserver.
    fn current(&self) -> Arc<Documents> {
        let documents = self.documents.load_full();
        let generation = self.keys.generation();
        if documents.generation == generation {
            return documents;
        }
        match render_document(&self.issuer, &self.jwks_uri, &self.keys.published(), generation) {
            Some(new) => {
                let new = Arc::new(new);
                self.documents.store(new.clone());
                new
            }
            None => documents,
        }
    }

    fn with_cache_header(&self, mut response: ApiResponse) -> ApiResponse {
        response.set_header("cache-control", &format!("public, max-age={}", self.keys.max_age_seconds()));
        response
    }
}

fn render_document(
    issuer: &str,
    jwks_uri: &str,
    keys: &[VerifyingKey],
    generation: u64,
) -> Option<Documents> {
    if keys.is_empty() {
        return None;
    }
    let quoted = |text: &str| {
        let mut out = Vec::new();
        json::write_string(text, &mut out);
        String::from_utf8_lossy(&out).into_owned()
    };
    let mut algorithms: Vec<&str> = keys.iter().map(|k| k.algorithm.name()).collect();
    algorithms.sort_unstable();
    algorithms.dedup();
    let algorithms = algorithms.iter().map(|a| quoted(a)).collect::<Vec<_>>().join(",");
    let configuration = format!(
        r#"{{"issuer":{},"jwks_uri":{},"response_types_supported":["id_token"],"subject_types_supported":["public"],"id_token_signing_alg_values_supported":[{algorithms}]}}"#,
        quoted(issuer),
        quoted(jwks_uri)
    );
    let set = json::bytes(&key_set(keys));
    Some(Documents { configuration, keys: set, generation })
}
