//! Distributed claims: groups that a token does not contain but refers to another endpoint for, which returns them in
//! a token of its own.

use super::provider::{self, Expected, Provider};
use super::untrusted_issuer;
use pintle_value::Value;
use pintle_webhook::HttpsClient;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// The limit of issuers of distributed claims, which tokens name. Beyond it, the one whose keys have been looked for longest
/// without success is given up, so that made-up names cannot take all places for ever.
const ISSUERS_MAX: usize = 64;

/// Resolves one claim.
pub(super) struct Distributed {
    claim: String,
    audiences: Vec<String>,
    algorithms: Vec<String>,
    client: Arc<HttpsClient>,
    /// Providers of such tokens.
    providers: Mutex<BTreeMap<String, DiscoveredProvider>>,
}

/// A provider and the task that looks for its keys.
struct DiscoveredProvider {
    provider: Arc<Provider>,
    discovery: tokio::task::JoinHandle<()>,
    began: Instant,
}

impl Drop for DiscoveredProvider {
    fn drop(&mut self) {
        self.discovery.abort();
    }
}

impl Distributed {
    pub(super) fn new(
        claim: String,
        audiences: Vec<String>,
        algorithms: Vec<String>,
        client: Arc<HttpsClient>,
    ) -> Self {
        Distributed { claim, audiences, algorithms, client, providers: Mutex::default() }
    }

    /// Resolves the distributed claim in `claims`, if there is one.
    pub(super) async fn expand(&self, claims: &mut Value, now: i64) -> Result<(), String> {
        if claims.get(&self.claim).is_some() || claims.get("_claim_names").is_none() {
            return Ok(());
        }
        if claims.get("_claim_sources").is_none() {
            return Err("oidc: no claim sources".to_string());
        }
        let source = claims.str_at(&["_claim_names", &self.claim]);
        if source.is_empty() {
            return Ok(());
        }
        let Some(endpoint) = claims.at(&["_claim_sources", source]) else {
            return Err(format!(
                "id token _claim_names contained a source {source} missing in _claims_sources"
            ));
        };
        let url = endpoint.str_at(&["endpoint"]);
        if url.is_empty() {
            return Ok(());
        }
        let value = self.resolve_claim(url, endpoint.str_at(&["access_token"]), now).await?;
        claims.set_at(&[&self.claim], value);
        Ok(())
    }

    async fn resolve_claim(&self, url: &str, access_token: &str, now: i64) -> Result<Value, String> {
        let claim = &self.claim;
        let token = self.fetch(url, access_token).await;
        let token = token.map_err(|why| format!("while getting distributed claim \"{claim}\": {why}"))?;
        let Some(issuer) = untrusted_issuer(&token) else {
            return Err(format!(
                "getting untrusted issuer from endpoint {url} failed for claim \"{claim}\": malformed token"
            ));
        };
        let provider = self.provider(&issuer).filter(|provider| provider.is_ready());
        let Some(provider) = provider else {
            return Err(format!(
                "verifying untrusted issuer {issuer} failed: verifier not initialized for issuer: \"{issuer}\""
            ));
        };
        let claims = provider.verify(&token, now).await;
        let claims = claims.map_err(|why| format!("verify distributed claim token: {why}"))?;
        claims.get(claim).cloned().ok_or_else(|| {
            format!("jwt returned by distributed claim endpoint \"{url}\" did not contain claim: {claim}")
        })
    }

    async fn fetch(&self, url: &str, access_token: &str) -> Result<String, String> {
        let (code, body) = provider::get(&self.client, url, access_token).await?;
        if !(200..=226).contains(&code) {
            let status = provider::status_text(code);
            return Err(format!("error while getting distributed claim JWT: {status}"));
        }
        Ok(String::from_utf8_lossy(&body).into_owned())
    }

    /// The provider of an issuer; its discovery starts on the first call.
    fn provider(&self, issuer: &str) -> Option<Arc<Provider>> {
        let mut providers = self.providers.lock().ok()?;
        if let Some(known) = providers.get(issuer) {
            return Some(known.provider.clone());
        }
        if providers.len() >= ISSUERS_MAX {
            let not_ready = providers.iter().filter(|(_, known)| !known.provider.is_ready());
            let longest = not_ready.min_by_key(|(_, known)| known.began)?.0.clone();
            providers.remove(&longest);
        }
        let expected = Expected {
            issuer: issuer.to_string(),
            discovery_url: None,
            audiences: self.audiences.clone(),
            algorithms: self.algorithms.clone(),
        };
        let provider = Arc::new(Provider::new(expected, self.client.clone(), None));
        let looked_for = provider.clone();
        let discovery = tokio::spawn(async move { looked_for.discover().await });
        let began = Instant::now();
        let known = DiscoveredProvider { provider: provider.clone(), discovery, began };
        providers.insert(issuer.to_string(), known);
        Some(provider)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_webhook::Identity;

    #[tokio::test]
    async fn issuers_without_keys_do_not_take_all_places() {
        let client = Arc::new(HttpsClient::new(&Identity::default()).unwrap());
        let distributed = Distributed::new("groups".to_string(), Vec::new(), Vec::new(), client);
        for n in 0..=ISSUERS_MAX {
            let issuer = format!("https://127.0.0.1:1/{n}");
            assert!(distributed.provider(&issuer).is_some(), "{issuer}");
        }
        let providers = distributed.providers.lock().unwrap();
        assert_eq!(providers.len(), ISSUERS_MAX);
        assert!(!providers.contains_key("https://127.0.0.1:1/0"), "the first one is given up");
    }
}
