//! `/.well-known/openid-configuration` and `/openid/v1/jwks`: how others check the tokens of service accounts.

use crate::api::ApiResponse;
use pintle_auth::authn::keys::{VerifyingKey, key_set};
use pintle_value::json;

/// The two documents, rendered once.
#[derive(Clone, Debug)]
pub struct OpenId {
    configuration: String,
    keys: Vec<u8>,
}

impl OpenId {
    /// The documents of an issuer; `None` where the issuer is no https URL, as the standard demands.
    pub fn new(issuer: &str, jwks_uri: &str, keys: &[VerifyingKey]) -> Option<Self> {
        if !issuer.starts_with("https://") || issuer.contains(['?', '#']) || keys.is_empty() {
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
        let mut set = Vec::new();
        json::print(&key_set(keys), &mut set);
        Some(OpenId { configuration, keys: set })
    }

    pub(crate) fn configuration(&self) -> ApiResponse {
        cached(ApiResponse::new(200, "application/json", self.configuration.clone()))
    }

    pub(crate) fn keys(&self) -> ApiResponse {
        cached(ApiResponse::new(200, "application/jwk-set+json", self.keys.clone()))
    }
}

fn cached(mut response: ApiResponse) -> ApiResponse {
    response.set_header("cache-control", "public, max-age=3600");
    response
}
