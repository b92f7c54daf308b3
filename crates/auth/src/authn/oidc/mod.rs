//! Tokens of OpenID providers: one authenticator for each issuer of the authentication configuration.

mod claims;
mod distributed;
mod jwks;
mod mapping;
mod measure;
mod provider;
mod rules;
mod shared_fetch;

pub use jwks::ALGORITHMS;
pub(super) use rules::{invalid_conditions, validate};

use super::cache::{self, Cache};
use super::config::JwtConfig;
use crate::UserInfo;
use aws_lc_rs::digest;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use distributed::Distributed;
use mapping::Mapping;
use measure::KeySetMetrics;
use pintle_metrics::families;
use pintle_value::{Value, hex, json};
use pintle_webhook::{Dialer, Egress, HttpsClient, Identity};
use provider::{Expected, GOOGLE, GOOGLE_WITHOUT_SCHEME, Provider};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};
use tokio::task::JoinHandle;

/// How long an accepted token is cached, and the size of that cache.
const CACHE_LIFE: Duration = Duration::from_secs(10);
const CACHE_BYTES_MAX: usize = 16 << 20;

/// The authenticators of all issuers of one configuration. Their tasks end when they are dropped.
#[derive(Default)]
pub struct Issuers(Vec<Issuer>);

struct Issuer {
    url: String,
    /// The hash of the issuer, which labels its metrics.
    hash: String,
    provider: Arc<Provider>,
    mapping: Mapping,
    distributed: Option<Distributed>,
    cache: Cache<Arc<UserInfo>>,
    discovery: JoinHandle<()>,
}

impl Drop for Issuer {
    fn drop(&mut self) {
        self.discovery.abort();
    }
}

impl Issuers {
    /// Starts discovery of the providers. Must be called within a runtime. The configuration must be valid. `egress`
    /// has the dialers of `--egress-selector-config-file`, if the flag is given.
    pub fn start(
        configs: &[JwtConfig],
        algorithms: &[String],
        egress: Option<&Egress>,
    ) -> Result<Self, String> {
        let started = configs.iter().map(|config| Issuer::start(config, algorithms, egress));
        started.collect::<Result<_, _>>().map(Issuers)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Removes the metrics of the issuers that `next`, which replaces these, does not have.
    pub fn forget_missing_in(&self, next: &Issuers) {
        let is_missing = |issuer: &&Issuer| next.0.iter().all(|other| other.url != issuer.url);
        self.0.iter().filter(is_missing).for_each(|issuer| issuer.provider.forget_metrics());
    }

    /// Waits until all providers are discovered, at most for `timeout`.
    pub async fn wait_until_ready(&self, timeout: Duration) -> bool {
        let started = Instant::now();
        while !self.0.iter().all(|issuer| issuer.provider.is_ready()) {
            if started.elapsed() >= timeout {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        true
    }

    /// The user of a token; `None` if it is from another issuer.
    pub(super) async fn authenticate(
        &self,
        token: &str,
        now: SystemTime,
    ) -> Result<Option<Arc<UserInfo>>, String> {
        let Some(issuer) = untrusted_issuer(token) else { return Ok(None) };
        let Some(known) = self.0.iter().find(|known| known.url == issuer) else { return Ok(None) };
        known.authenticate(token, now).await.map(Some)
    }
}

/// The dialer of an `egressSelectorType`. Unlike for webhooks, the file must have a selection of that type.
fn dialer(type_: &str, egress: Option<&Egress>) -> Result<Dialer, String> {
    if type_.is_empty() {
        return Ok(Dialer::Direct);
    }
    let Some(egress) = egress else {
        return Err(format!("oidc: egress lookup required with egress selector type {type_:?}"));
    };
    let dialer = if type_ == "cluster" { &egress.cluster } else { &egress.control_plane };
    dialer.clone().ok_or_else(|| format!("oidc: egress lookup for {type_:?} is not configured"))
}

impl Issuer {
    fn start(config: &JwtConfig, algorithms: &[String], egress: Option<&Egress>) -> Result<Self, String> {
        let authorities = config.certificate_authority.clone().into_bytes();
        let client = HttpsClient::new(&Identity { authorities, ..Identity::default() })?;
        let client = Arc::new(client.with_dialer(dialer(&config.egress, egress)?));
        let expected = |issuer: String, discovery_url| Expected {
            issuer,
            discovery_url,
            audiences: config.audiences.clone(),
            algorithms: algorithms.to_vec(),
        };
        let discovery_url = Some(config.discovery_url.clone()).filter(|url| !url.is_empty());
        let metrics = KeySetMetrics::new(&sha256_text(config.url.as_bytes()));
        let expected = expected(config.url.clone(), discovery_url);
        let provider = Arc::new(Provider::new(expected, client.clone(), Some(metrics)));
        let looked_for = provider.clone();
        let groups = &config.groups.claim;
        Ok(Issuer {
            url: config.url.clone(),
            hash: sha256_text(config.url.as_bytes()),
            mapping: rules::mapping(config)?,
            distributed: (!groups.is_empty()).then(|| {
                let (audiences, algorithms) = (config.audiences.clone(), algorithms.to_vec());
                Distributed::new(groups.clone(), audiences, algorithms, client)
            }),
            provider,
            cache: Cache::new(CACHE_BYTES_MAX),
            discovery: tokio::spawn(async move { looked_for.discover().await }),
        })
    }

    async fn authenticate(&self, token: &str, now: SystemTime) -> Result<Arc<UserInfo>, String> {
        let (key, instant) = (cache::key(token, None), Instant::now());
        if let Some(user) = self.cache.get(&key, instant) {
            return Ok(user);
        }
        let found = self.authenticate_anew(token, key, instant, now).await;
        let result = if found.is_ok() { "success" } else { "failure" };
        families::JWT_SECONDS.observe(&[&self.hash, result], instant.elapsed().as_secs_f64());
        found
    }

    /// Authenticates a token that is not cached, and caches its user.
    async fn authenticate_anew(
        &self,
        token: &str,
        key: cache::Key,
        instant: Instant,
        now: SystemTime,
    ) -> Result<Arc<UserInfo>, String> {
        if !self.provider.is_ready() {
            return Err("oidc: authenticator not initialized".to_string());
        }
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
        let seconds = i64::try_from(seconds).unwrap_or(i64::MAX);
        let verified = self.provider.verify(token, seconds).await;
        let mut claims = verified.map_err(|why| format!("oidc: verify token: {why}"))?;
        if let Some(distributed) = &self.distributed {
            let expanded = distributed.expand(&mut claims, seconds).await;
            expanded.map_err(|why| format!("oidc: could not expand distributed claims: {why}"))?;
        }
        let user = Arc::new(self.mapping.user(&claims)?.with_authenticated_group());
        let expiry = claims.get("exp").and_then(Value::as_int).unwrap_or(0);
        let left = Duration::from_secs(u64::try_from(expiry.saturating_sub(seconds)).unwrap_or(0));
        self.cache.insert(key, Arc::clone(&user), user.bytes(), CACHE_LIFE.min(left), instant);
        Ok(user)
    }
}

/// The hash of an issuer or a key set in metrics.
fn sha256_text(bytes: &[u8]) -> String {
    let hash = digest::digest(&digest::SHA256, bytes);
    format!("sha256:{}", hex::encode(hash.as_ref()))
}

/// The claimed issuer of a token; nothing is verified.
fn untrusted_issuer(token: &str) -> Option<String> {
    let mut parts = token.split('.');
    let (_, payload, _, None) = (parts.next()?, parts.next()?, parts.next()?, parts.next()) else {
        return None;
    };
    // Go's decoder skips line breaks.
    let payload: String = payload.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    let claims = json::parse(&URL_SAFE_NO_PAD.decode(payload).ok()?).ok()?.value;
    let claims = claims.as_object()?;
    let issuer = claims.iter().find(|(key, _)| key.eq_ignore_ascii_case("iss"))?.1.as_str()?;
    Some(if issuer == GOOGLE_WITHOUT_SCHEME { GOOGLE } else { issuer }.to_string())
}
