//! An OpenID provider: discovery, keys and token verification. An unreachable provider is retried with back-off and
//! does not affect others.

use super::jwks::{self, Key};
use crate::authn::jwt::Token;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};
use pintle_meta::Timestamp;
use pintle_meta::field::quoted;
use pintle_value::{Value, json};
use pintle_webhook::{HttpsClient, HttpsRequest};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const WELL_KNOWN: &str = "/.well-known/openid-configuration";
const TIMEOUT: Duration = Duration::from_secs(30);
/// The largest document of a provider.
const DOCUMENT_BYTES_MAX: usize = 1 << 20;
/// The interval between discovery attempts.
const DISCOVERY_PAUSE: Duration = Duration::from_secs(10);
/// The shortest and longest interval between fetches of keys: tokens with made-up key ids must not cause a flood of
/// requests to the provider.
const KEYS_PAUSE_MIN: Duration = Duration::from_millis(200);
const KEYS_PAUSE_MAX: Duration = Duration::from_secs(10);
/// How far in the future a token's `nbf` may be.
const NOT_BEFORE_LEEWAY_SECONDS: i64 = 300;

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
    /// The URL of the keys, once discovery has succeeded.
    keys_url: Mutex<Option<String>>,
    keys: Mutex<Arc<Vec<Key>>>,
    fetch: tokio::sync::Mutex<Fetch>,
}

/// When keys may be fetched next.
struct Fetch {
    next: Option<Instant>,
    pause: Duration,
    /// The number of fetches, so that callers who waited for one do not start another.
    count: u64,
    outcome: Result<(), String>,
}

impl Provider {
    pub(super) fn new(expected: Expected, client: Arc<HttpsClient>) -> Self {
        Provider {
            expected,
            client,
            keys_url: Mutex::default(),
            keys: Mutex::default(),
            fetch: tokio::sync::Mutex::new(Fetch {
                next: None,
                pause: KEYS_PAUSE_MIN,
                count: 0,
                outcome: Ok(()),
            }),
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

    async fn document(&self, url: &str) -> Result<Value, String> {
        let (code, body) = get(&self.client, url, "").await?;
        if code != 200 {
            return Err(format!("{}: {}", status_text(code), String::from_utf8_lossy(&body)));
        }
        Ok(json::parse(&body).map_err(|error| error.to_string())?.value)
    }

    /// The claims of a valid token of this provider.
    pub(super) async fn verify(&self, text: &str, now: i64) -> Result<Value, String> {
        let token = Token::parse(text).ok_or("oidc: malformed jwt")?;
        let claims = &token.claims;
        if let Some(other) = claims.get("sub").filter(|sub| !matches!(sub, Value::String(_) | Value::Null)) {
            let kind = super::mapping::json_kind(other);
            return Err(format!(
                "oidc: failed to unmarshal claims: json: cannot unmarshal {kind} into Go struct field idToken.sub of type string"
            ));
        }
        check_sources(claims)?;
        let issuer = claims.str_at(&["iss"]);
        if issuer != self.expected.issuer {
            return Err(format!(
                "oidc: id token issued by a different provider, expected {} got {}",
                quoted(&self.expected.issuer),
                quoted(issuer)
            ));
        }
        self.check_audience(claims)?;
        check_times(claims, now)?;
        if !self.expected.algorithms.contains(&token.algorithm) {
            return Err(format!(
                "oidc: id token signed with unsupported algorithm, expected {} got {}",
                go_list(&self.expected.algorithms),
                quoted(&token.algorithm)
            ));
        }
        self.check_signature(&token).await.map_err(|why| format!("failed to verify signature: {why}"))?;
        Ok(token.claims)
    }

    fn check_audience(&self, claims: &Value) -> Result<(), String> {
        let got: Vec<String> = match claims.get("aud") {
            Some(Value::String(one)) => vec![one.to_string()],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(str::to_string).collect(),
            _ => Vec::new(),
        };
        let wanted = &self.expected.audiences;
        if wanted.iter().any(|audience| got.contains(audience)) {
            return Ok(());
        }
        match wanted.as_slice() {
            [one] => Err(format!("oidc: expected audience {} got {}", quoted(one), go_list(&got))),
            many => {
                let mut sorted = many.to_vec();
                sorted.sort();
                Err(format!("oidc: expected audience in {} got {}", go_list(&sorted), go_list(&got)))
            }
        }
    }

    async fn check_signature(&self, token: &Token<'_>) -> Result<(), String> {
        let verified = |keys: &[Key]| {
            let (message, signature) = token.signed_parts();
            let mut fitting = keys.iter().filter(|key| key.fits(&token.kid));
            fitting.any(|key| key.verifies(&token.algorithm, message, signature))
        };
        let known = self.keys.lock().map(|keys| keys.clone()).unwrap_or_default();
        if verified(&known) {
            return Ok(());
        }
        let fetched = self.fetch_keys().await.map_err(|why| format!("fetching keys {why}"))?;
        if verified(&fetched) { Ok(()) } else { Err("failed to verify id token signature".to_string()) }
    }

    /// Fetches the current keys. Concurrent callers share one fetch.
    async fn fetch_keys(&self) -> Result<Arc<Vec<Key>>, String> {
        let before = self.fetch.try_lock().map(|fetch| fetch.count).ok();
        let mut fetch = self.fetch.lock().await;
        let is_fresh = before != Some(fetch.count) || fetch.next.is_some_and(|next| Instant::now() < next);
        if !is_fresh || fetch.count == 0 {
            let url = self.keys_url.lock().ok().and_then(|url| url.clone()).unwrap_or_default();
            fetch.outcome = self.document(&url).await.map(|set| {
                if let Ok(mut keys) = self.keys.lock() {
                    *keys = Arc::new(jwks::keys(&set));
                }
            });
            fetch.count = fetch.count.saturating_add(1);
            fetch.pause = match fetch.outcome {
                Ok(()) => KEYS_PAUSE_MIN,
                Err(_) => fetch.pause.saturating_mul(2).min(KEYS_PAUSE_MAX),
            };
            fetch.next = Instant::now().checked_add(fetch.pause);
        }
        fetch.outcome.clone()?;
        Ok(self.keys.lock().map(|keys| keys.clone()).unwrap_or_default())
    }
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

/// Validates the sources of distributed claims.
fn check_sources(claims: &Value) -> Result<(), String> {
    let Some(names) = claims.get("_claim_names").and_then(Value::as_object) else { return Ok(()) };
    for (_, source) in names.iter() {
        let source = source.as_str().unwrap_or("");
        if source.is_empty() {
            return Err("oidc: failed to obtain source from claim name".to_string());
        }
        if claims.at(&["_claim_sources", source]).is_none() {
            return Err("oidc: source does not exist".to_string());
        }
    }
    Ok(())
}

fn check_times(claims: &Value, now: i64) -> Result<(), String> {
    let time = |key: &str| match claims.get(key) {
        Some(Value::Int(at)) => Some(*at),
        #[expect(clippy::cast_possible_truncation, reason = "whole seconds are enough; floats saturate")]
        Some(Value::Float(at)) => Some(*at as i64),
        _ => None,
    };
    let expiry = time("exp");
    if expiry.is_none_or(|at| at < now) {
        let at = expiry.map_or("0001-01-01 00:00:00 +0000 UTC".to_string(), go_time);
        return Err(format!("oidc: token is expired (Token Expiry: {at})"));
    }
    match time("nbf") {
        Some(at) if now.saturating_add(NOT_BEFORE_LEEWAY_SECONDS) < at => Err(format!(
            "oidc: current time {} before the nbf (not before) time: {}",
            go_time(now),
            go_time(at)
        )),
        _ => Ok(()),
    }
}

/// A time as Go prints it.
fn go_time(seconds: i64) -> String {
    let text = Timestamp { seconds, nanos: 0 }.rfc3339().to_string();
    format!("{} +0000 UTC", text.trim_end_matches('Z').replace('T', " "))
}

/// Strings in Go's `%q` list format.
fn go_list(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| quoted(text)).collect();
    format!("[{}]", texts.join(" "))
}
