//! An OpenID provider: discovery, keys and token verification. An unreachable provider is retried with back-off and
//! does not affect others.

use super::claims::{self, Registered, go_list};
use super::jwks::{self, Key};
use super::measure::KeySetMetrics;
use super::shared_fetch::SharedFetch;
use crate::authn::jwt::Token;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use pintle_meta::field::quoted;
use pintle_value::{Value, json};
use pintle_webhook::{HttpsClient, HttpsRequest};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const WELL_KNOWN: &str = "/.well-known/openid-configuration";
const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest document of a provider.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// The interval between discovery attempts.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(10);
/// The shortest interval between fetches of keys: tokens with made-up key ids must not cause a flood of requests to the provider.
const KEYS_PAUSE: Duration = Duration::from_millis(200);

/// The only provider whose tokens omit the scheme.
pub(super) const GOOGLE: &str = "https://accounts.google.com";
pub(super) const GOOGLE_WITHOUT_SCHEME: &str = "accounts.google.com";

/// The expected properties of a provider.
pub(super) struct Expected {
    pub(super) issuer: String,
    /// The discovery URL, if it is not below the issuer.
    pub(super) discovery_url: Option<String>,
    pub(super) audiences: Vec<String>,
    pub(super) algorithms: Vec<String>,
}

/// A provider.
pub(super) struct Provider {
    expected: Expected,
    client: Arc<HttpsClient>,
    /// `None` for providers of distributed claims.
    metrics: Option<KeySetMetrics>,
    /// The URL of the keys, once discovery has succeeded.
    keys_url: Mutex<Option<String>>,
    keys: Mutex<Arc<Vec<Key>>>,
    fetches: SharedFetch<Arc<Vec<Key>>>,
}

impl Provider {
    pub(super) fn new(expected: Expected, client: Arc<HttpsClient>, metrics: Option<KeySetMetrics>) -> Self {
        Provider {
            expected,
            client,
            metrics,
            keys_url: Mutex::default(),
            keys: Mutex::default(),
            fetches: SharedFetch::new(KEYS_PAUSE),
        }
    }

    /// Retries discovery until it succeeds.
    pub(super) async fn discover(&self) {
        while let Err(why) = self.try_discover().await {
            tracing::warn!(issuer = self.expected.issuer, "OpenID discovery: {why}");
            tokio::time::sleep(DISCOVERY_PAUSE).await;
        }
    }

    async fn try_discover(&self) -> Result<(), String> {
        let own = format!("{}{WELL_KNOWN}", self.expected.issuer.trim_end_matches('/'));
        let url = self.expected.discovery_url.as_deref().unwrap_or(&own);
        let document = self.document(url).await?;
        let issuer = document.str_at(&["issuer"]);
        if issuer != self.expected.issuer {
            return Err(format!(
                "oidc: issuer URL provided to client ({}) did not match the issuer URL returned by provider ({})",
                quoted(&self.expected.issuer),
                quoted(issuer)
            ));
        }
        if let Ok(mut keys_url) = self.keys_url.lock() {
            *keys_url = Some(document.str_at(&["jwks_uri"]).to_string());
        }
        Ok(())
    }

    /// Whether discovery succeeded.
    pub(super) fn is_ready(&self) -> bool {
        self.keys_url.lock().is_ok_and(|url| url.is_some())
    }

    /// Removes the metrics of this provider.
    pub(super) fn forget_metrics(&self) {
        self.metrics.iter().for_each(KeySetMetrics::forget);
    }

    async fn document(&self, url: &str) -> Result<Value, String> {
        parse(&self.fetch(url).await?)
    }

    async fn fetch(&self, url: &str) -> Result<Bytes, String> {
        let (code, body) = get(&self.client, url, "").await?;
        if code != 200 {
            return Err(format!("{}: {}", status_text(code), String::from_utf8_lossy(&body)));
        }
        Ok(body)
    }

    /// Fetches the keys and records the outcome.
    async fn key_set(&self, url: &str) -> Result<Vec<Key>, String> {
        let body = self.fetch(url).await;
        let decode =
            |set: Value| jwks::keys(&set).map_err(|why| format!("oidc: failed to decode keys: {why}"));
        let keys = body.as_ref().map_err(Clone::clone).and_then(|body| parse(body)).and_then(decode);
        if let Some(metrics) = &self.metrics {
            metrics.fetched(keys.is_ok().then(|| body.as_deref().unwrap_or_default()));
        }
        keys
    }

    /// The claims of a valid token of this provider.
    pub(super) async fn verify(&self, text: &str, now: i64) -> Result<Value, String> {
        let token = Token::parse(text).map_err(|why| format!("oidc: malformed jwt: {why}"))?;
        if !self.expected.algorithms.contains(&token.algorithm) {
            return Err(format!(
                "oidc: id token signed with unsupported algorithm, expected {} got {}",
                go_list(&self.expected.algorithms),
                quoted(&token.algorithm)
            ));
        }
        self.check_signature(&token).await.map_err(|why| format!("failed to verify signature: {why}"))?;
        let decoded = Registered::decode(&token.claims, &token.repeated);
        let claims = decoded.map_err(|why| format!("oidc: failed to unmarshal claims: {why}"))?;
        claims::check_distributed(&token.claims)?;
        let Expected { issuer, audiences, .. } = &self.expected;
        let is_google = issuer == GOOGLE && claims.issuer == GOOGLE_WITHOUT_SCHEME;
        if claims.issuer != *issuer && !is_google {
            return Err(format!(
                "oidc: id token issued by a different provider, expected {} got {}",
                quoted(issuer),
                quoted(&claims.issuer)
            ));
        }
        // kube-apiserver checks one audience before the times, and several after them.
        if audiences.len() == 1 {
            claims.check_audience(audiences)?;
        }
        claims.check_times(now)?;
        claims.check_audience(audiences)?;
        Ok(token.claims)
    }

    async fn check_signature(&self, token: &Token<'_>) -> Result<(), String> {
        let verified = |keys: &[Key]| {
            let mut fitting = keys.iter().filter(|key| key.fits(&token.kid));
            fitting.any(|key| {
                token.is_signed(|algorithm, message, signature| key.verifies(algorithm, message, signature))
            })
        };
        let known = self.keys.lock().map(|keys| keys.clone()).unwrap_or_default();
        if verified(&known) {
            return Ok(());
        }
        let fetched = self.fetch_keys().await.map_err(|why| format!("fetching keys {why}"))?;
        if verified(&fetched) { Ok(()) } else { Err("failed to verify id token signature".to_string()) }
    }

    /// Fetches the keys that the provider has now.
    async fn fetch_keys(&self) -> Result<Arc<Vec<Key>>, String> {
        let fetch = async {
            let url = self.keys_url.lock().ok().and_then(|url| url.clone()).unwrap_or_default();
            let fetched = Arc::new(self.key_set(&url).await?);
            if let Ok(mut keys) = self.keys.lock() {
                *keys = Arc::clone(&fetched);
            }
            Ok(fetched)
        };
        self.fetches.run(fetch).await
    }
}

fn parse(body: &[u8]) -> Result<Value, String> {
    Ok(json::parse(body).map_err(|error| error.to_string())?.value)
}

/// Fetches a document; returns status code and body. `token` is sent as bearer token, unless it is empty.
pub(super) async fn get(client: &HttpsClient, url: &str, token: &str) -> Result<(u16, Bytes), String> {
    let mut headers: Vec<(HeaderName, HeaderValue)> =
        vec![(header::USER_AGENT, HeaderValue::from_static("Go-http-client/1.1"))];
    if !token.is_empty() {
        let value = HeaderValue::from_str(&format!("Bearer {token}"));
        headers.push((header::AUTHORIZATION, value.map_err(|error| error.to_string())?));
    }
    let request = HttpsRequest {
        method: Method::GET,
        url,
        headers,
        body: Bytes::new(),
        timeout: TIMEOUT,
        answer_bytes_max: DOCUMENT_BYTES_MAX,
    };
    let answer = client.send(request).await?;
    Ok((answer.code, answer.body))
}

/// A status code with its text, such as `404 Not Found`.
pub(super) fn status_text(code: u16) -> String {
    let words = StatusCode::from_u16(code).ok().and_then(|code| code.canonical_reason()).unwrap_or("");
    format!("{code} {words}")
}
