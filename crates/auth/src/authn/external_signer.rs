//! An external process that signs the tokens of service accounts (`ExternalJWTSigner` on a unix socket): its public
//! keys, cached and refreshed, and its signatures. The private key never enters this process.

use super::keys::VerifyingKey;
use arc_swap::ArcSwap;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use pintle_grpc::protobuf::{Field, Fields, put_bytes, text};
use pintle_grpc::{Endpoint, RpcError, WaitForReady};
use pintle_metrics::families;
use pintle_value::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Mutex;

const SERVICE: &str = "/v1.ExternalJWTSigner";
/// The time limits of a call for the keys and of a call for a signature.
const KEYS_TIMEOUT: Duration = Duration::from_secs(60);
const SIGN_TIMEOUT: Duration = Duration::from_secs(60);
const METADATA_TIMEOUT: Duration = Duration::from_secs(10);
/// How long a request with a token of an unknown key waits for the signer's keys.
const UNKNOWN_KEY_TIMEOUT: Duration = Duration::from_secs(10);
/// How long to wait before the keys are fetched again after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);
const KEY_ID_BYTES_MAX: usize = 1024;
/// The accepted signature algorithms.
const ALGORITHMS: [&str; 4] = ["RS256", "ES256", "ES384", "ES512"];

/// The reason why a call of the signer failed. The texts are those of kube-apiserver.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignerError {
    /// A call failed.
    #[error("{0}: {1}")]
    Rpc(&'static str, RpcError),
    /// An answer is not acceptable.
    #[error("{0}")]
    Answer(String),
}

impl SignerError {
    fn answer(why: impl Into<String>) -> Self {
        SignerError::Answer(why.into())
    }

    /// Adds a prefix to the error.
    fn within(self, words: &'static str) -> Self {
        match self {
            SignerError::Answer(why) => SignerError::Answer(format!("{words}: {why}")),
            rpc @ SignerError::Rpc(..) => rpc,
        }
    }

    /// The label of metrics.
    fn code(&self) -> &str {
        match self {
            SignerError::Rpc(_, error) => &error.code,
            SignerError::Answer(_) => "unknown-non-grpc",
        }
    }
}

/// The keys of a signer at one moment.
#[derive(Debug)]
struct CachedKeys {
    keys: Vec<ExternalKey>,
    data_timestamp: (u64, u64),
    next_refresh: Instant,
    /// A number that grows with each change of the keys.
    generation: u64,
}

#[derive(Clone, Debug)]
struct ExternalKey {
    key: VerifyingKey,
    /// Whether the key only verifies existing tokens and is not published.
    excluded_from_discovery: bool,
}

/// The signer.
pub struct ExternalSigner {
    endpoint: Endpoint,
    cached: ArcSwap<CachedKeys>,
    /// Held while keys are fetched, so that all callers share one call. It contains the outcome of the last call.
    fetching: Mutex<Result<(), SignerError>>,
}

impl ExternalSigner {
    /// Connects to the signer at `path` and fetches its keys. Waits up to a minute.
    pub async fn connect(path: &str) -> Result<Arc<Self>, SignerError> {
        let none = CachedKeys {
            keys: Vec::new(),
            data_timestamp: (0, 0),
            next_refresh: Instant::now(),
            generation: 0,
        };
        let signer = Arc::new(ExternalSigner {
            endpoint: Endpoint::new(path),
            cached: ArcSwap::from_pointee(none),
            fetching: Mutex::new(Ok(())),
        });
        signer.refresh(KEYS_TIMEOUT).await?;
        Ok(signer)
    }

    /// The maximum lifetime of a token, in seconds.
    pub async fn token_seconds_max(&self) -> Result<i64, SignerError> {
        let answer = self.call("Metadata", &[], METADATA_TIMEOUT).await;
        let answer = answer.map_err(|error| SignerError::Rpc("while getting metadata", error))?;
        let mut seconds = 0;
        for field in Fields(&answer) {
            if let (1, Field::Number(number)) = field.map_err(SignerError::Answer)? {
                seconds = number.cast_signed();
            }
        }
        Ok(seconds)
    }

    /// Fetches the keys again when the refresh interval that the signer gave has passed. Runs until it is dropped.
    pub async fn follow(self: Arc<Self>) {
        loop {
            tokio::time::sleep_until(self.cached.load().next_refresh.into()).await;
            while let Err(error) = self.refresh(KEYS_TIMEOUT).await {
                tracing::error!(
                    "when syncing supported public keys(Stale set of keys will be supported): {error}"
                );
                tokio::time::sleep(RETRY_INTERVAL).await;
            }
        }
    }

    /// The keys that may have signed a token; "" selects all. An unknown key id makes this server fetch the signer's
    /// keys.
    pub(super) async fn verifying_keys(&self, kid: &str) -> Vec<VerifyingKey> {
        let found = self.cached_keys(kid);
        if !found.is_empty() {
            return found;
        }
        if let Err(error) = self.refresh(UNKNOWN_KEY_TIMEOUT).await {
            tracing::error!("Error while syncing keys: {error}");
            return Vec::new();
        }
        self.cached_keys(kid)
    }

    fn cached_keys(&self, kid: &str) -> Vec<VerifyingKey> {
        let cached = self.cached.load();
        cached
            .keys
            .iter()
            .filter(|key| kid.is_empty() || key.key.kid == kid)
            .map(|key| key.key.clone())
            .collect()
    }

    /// The keys that are published for clients that verify tokens.
    pub(super) fn published_keys(&self) -> Vec<VerifyingKey> {
        let cached = self.cached.load();
        cached.keys.iter().filter(|key| !key.excluded_from_discovery).map(|key| key.key.clone()).collect()
    }

    /// A number that changes with the keys.
    pub(super) fn generation(&self) -> u64 {
        self.cached.load().generation
    }

    /// The time for which clients may cache the keys, in seconds.
    pub(super) fn max_age_seconds(&self) -> u64 {
        self.cached.load().next_refresh.saturating_duration_since(Instant::now()).as_secs()
    }

    /// Lets the signer sign claims; returns the token.
    pub(super) async fn sign(&self, claims: &Value) -> Result<String, SignerError> {
        let outcome = self.sign_claims(claims).await;
        families::EXTERNAL_SIGN_REQUESTS.inc(&[outcome.as_ref().map_or_else(SignerError::code, |_| "OK")]);
        outcome
    }

    async fn sign_claims(&self, claims: &Value) -> Result<String, SignerError> {
        let payload = json::bytes(claims);
        let payload = URL_SAFE_NO_PAD.encode(payload);
        let mut request = Vec::new();
        put_bytes(1, payload.as_bytes(), &mut request);
        let answer = self.call("Sign", &request, SIGN_TIMEOUT).await;
        let answer = answer.map_err(|error| SignerError::Rpc("while signing jwt", error))?;
        let (mut header, mut signature) = (String::new(), String::new());
        for field in Fields(&answer) {
            match field.map_err(SignerError::Answer)? {
                (1, Field::Bytes(bytes)) => header = text(bytes),
                (2, Field::Bytes(bytes)) => signature = text(bytes),
                _ => {}
            }
        }
        let kid = key_id_of_header(&header).map_err(|error| error.within("while validating header"))?;
        // A key that is not published must not sign new tokens. Look up a key that is not known yet.
        self.verifying_keys(&kid).await;
        if self.cached.load().keys.iter().any(|key| key.key.kid == kid && key.excluded_from_discovery) {
            return Err(SignerError::Answer(format!(
                "while validating header: key used for signing JWT (kid: {kid}) is excluded from OIDC discovery docs"
            )));
        }
        if signature.is_empty() {
            return Err(SignerError::answer("empty signature returned"));
        }
        Ok(format!("{header}.{payload}.{signature}"))
    }

    /// Fetches the keys. Concurrent callers share the result.
    async fn refresh(&self, timeout: Duration) -> Result<(), SignerError> {
        if let Ok(mut last) = self.fetching.try_lock() {
            *last = self.fetch(timeout).await;
            return last.clone();
        }
        self.fetching.lock().await.clone()
    }

    async fn fetch(&self, timeout: Duration) -> Result<(), SignerError> {
        let fetched = match self.call("FetchKeys", &[], timeout).await {
            Ok(answer) => self.read_keys(&answer),
            Err(error) => Err(SignerError::Rpc(
                "while fetching token verification keys: while getting externally supported jwt signing keys",
                error,
            )),
        };
        let fetched = fetched.map_err(|error| error.within("while fetching token verification keys"));
        families::EXTERNAL_KEY_FETCHES.inc(&[fetched.as_ref().map_or_else(SignerError::code, |_| "OK")]);
        let fetched = fetched?;
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        families::EXTERNAL_KEYS_FETCHED.set(&[], now.as_secs_f64());
        let (seconds, nanos) = fetched.data_timestamp;
        families::EXTERNAL_KEYS_TIMESTAMP.set(&[], seconds as f64 + nanos as f64 / 1e9);
        self.cached.store(Arc::new(fetched));
        Ok(())
    }

    /// Reads a `FetchKeysResponse`.
    fn read_keys(&self, answer: &[u8]) -> Result<CachedKeys, SignerError> {
        let (mut keys, mut timestamp, mut refresh_seconds) = (Vec::new(), None, 0i64);
        for field in Fields(answer) {
            match field.map_err(SignerError::Answer)? {
                (1, Field::Bytes(bytes)) => keys.push(read_key(bytes)?),
                (2, Field::Bytes(bytes)) => timestamp = Some(read_timestamp(bytes)?),
                (3, Field::Number(number)) => refresh_seconds = number.cast_signed(),
                _ => {}
            }
        }
        if refresh_seconds <= 0 {
            return Err(SignerError::Answer(format!("found invalid refresh hint ({refresh_seconds}s)")));
        }
        if keys.is_empty() {
            return Err(SignerError::answer("found no keys"));
        }
        let Some(data_timestamp) = timestamp else {
            return Err(SignerError::answer("invalid data timestamp: proto: invalid nil Timestamp"));
        };
        let cached = self.cached.load();
        let identity = |key: &ExternalKey| (key.key.kid.clone(), key.excluded_from_discovery);
        let changed = cached.data_timestamp != data_timestamp
            || !cached.keys.iter().map(identity).eq(keys.iter().map(identity));
        let wait = Duration::from_secs(refresh_seconds.unsigned_abs());
        let far = Duration::from_secs(365 * 24 * 3600);
        let now = Instant::now();
        Ok(CachedKeys {
            keys,
            data_timestamp,
            next_refresh: now.checked_add(wait.min(far)).unwrap_or(now),
            generation: cached.generation.wrapping_add(u64::from(changed)),
        })
    }

    async fn call(&self, method: &str, request: &[u8], timeout: Duration) -> Result<Vec<u8>, RpcError> {
        let method = format!("{SERVICE}/{method}");
        let began = Instant::now();
        let answer = pintle_grpc::call(&self.endpoint, &method, request, timeout, WaitForReady::Yes).await;
        let code = answer.as_ref().map_or_else(|error| error.code.as_str(), |_| "OK");
        families::EXTERNAL_SIGNER_SECONDS.observe(&[code, &method], began.elapsed().as_secs_f64());
        answer
    }
}

/// Reads a `Key`.
fn read_key(bytes: &[u8]) -> Result<ExternalKey, SignerError> {
    let (mut kid, mut spki, mut excluded_from_discovery) = (String::new(), &[][..], false);
    for field in Fields(bytes) {
        match field.map_err(SignerError::Answer)? {
            (1, Field::Bytes(bytes)) => kid = text(bytes),
            (2, Field::Bytes(bytes)) => spki = bytes,
            (3, Field::Number(number)) => excluded_from_discovery = number != 0,
            _ => {}
        }
    }
    if kid.is_empty() || kid.len() > KEY_ID_BYTES_MAX {
        return Err(SignerError::Answer(format!("found invalid public key id {kid:?}")));
    }
    if spki.is_empty() {
        return Err(SignerError::answer("found empty public key"));
    }
    let unusable = |error| SignerError::Answer(format!("while parsing external public keys: {error}"));
    let mut key = VerifyingKey::from_spki(spki).map_err(unusable)?;
    key.kid = kid;
    Ok(ExternalKey { key, excluded_from_discovery })
}

/// Reads a `google.protobuf.Timestamp`: seconds and nanoseconds since 1970.
fn read_timestamp(bytes: &[u8]) -> Result<(u64, u64), SignerError> {
    let mut timestamp = (0, 0);
    for field in Fields(bytes) {
        match field.map_err(SignerError::Answer)? {
            (1, Field::Number(number)) => timestamp.0 = number,
            (2, Field::Number(number)) => timestamp.1 = number,
            _ => {}
        }
    }
    Ok(timestamp)
}

/// Checks the header of a token from the signer: it must have a type, an accepted algorithm and the id of a key, and
/// no other members. Returns the key id.
fn key_id_of_header(header: &str) -> Result<String, SignerError> {
    let bytes = URL_SAFE_NO_PAD
        .decode(header)
        .map_err(|error| SignerError::Answer(format!("while unwrapping header: {error}")))?;
    let parsed = json::parse(&bytes)
        .map_err(|error| SignerError::Answer(format!("while parsing header JSON: {error}")))?
        .value;
    let Value::Object(fields) = &parsed else {
        return Err(SignerError::answer("while parsing header JSON: not an object"));
    };
    if let Some((unknown, _)) = fields.iter().find(|(key, _)| !matches!(key.as_str(), "alg" | "kid" | "typ"))
    {
        return Err(SignerError::Answer(format!(
            "while parsing header JSON: json: unknown field {}",
            pintle_meta::field::quoted(unknown)
        )));
    }
    let (kid, algorithm) = (parsed.str_at(&["kid"]), parsed.str_at(&["alg"]));
    if parsed.str_at(&["typ"]) != "JWT" {
        return Err(SignerError::answer("bad type"));
    }
    if kid.is_empty() {
        return Err(SignerError::answer("key id missing"));
    }
    if kid.len() > KEY_ID_BYTES_MAX {
        return Err(SignerError::answer("key id longer than 1 kb"));
    }
    if !ALGORITHMS.contains(&algorithm) {
        let quoted = pintle_meta::field::quoted(algorithm);
        return Err(SignerError::Answer(format!("bad signing algorithm {quoted}")));
    }
    Ok(kid.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_grpc::protobuf::put_number;

    #[test]
    fn headers_that_a_signer_may_make() {
        for (header, expected) in [
            (r#"{"alg":"RS256","kid":"a","typ":"JWT"}"#, Ok("a")),
            (r#"{"alg":"RS256","kid":"a"}"#, Err("bad type")),
            (r#"{"alg":"RS256","typ":"JWT"}"#, Err("key id missing")),
            (r#"{"alg":"HS256","kid":"a","typ":"JWT"}"#, Err("bad signing algorithm \"HS256\"")),
            (
                r#"{"alg":"RS256","kid":"a","typ":"JWT","jku":"x"}"#,
                Err("while parsing header JSON: json: unknown field \"jku\""),
            ),
        ] {
            let found = key_id_of_header(&URL_SAFE_NO_PAD.encode(header)).map_err(|e| e.to_string());
            assert_eq!(found, expected.map(str::to_string).map_err(str::to_string), "{header}");
        }
        assert!(key_id_of_header("!").is_err());
    }

    #[test]
    fn answers_with_keys_that_are_not_acceptable() {
        let pem = rcgen::KeyPair::generate().unwrap().public_key_pem();
        let text: String = pem.lines().filter(|line| !line.starts_with('-')).collect();
        let spki = pintle_value::base64::decode(&text).unwrap();
        let answer = |kid: &str, key: &[u8], refresh: u64, timestamp: bool| {
            let (mut out, mut entry, mut time) = (Vec::new(), Vec::new(), Vec::new());
            put_bytes(1, kid.as_bytes(), &mut entry);
            put_bytes(2, key, &mut entry);
            put_bytes(1, &entry, &mut out);
            put_number(1, 5, &mut time);
            if timestamp {
                put_bytes(2, &time, &mut out);
            }
            put_number(3, refresh, &mut out);
            out
        };
        let none =
            CachedKeys { keys: vec![], data_timestamp: (0, 0), next_refresh: Instant::now(), generation: 0 };
        let signer = ExternalSigner {
            endpoint: Endpoint::new("@none"),
            cached: ArcSwap::from_pointee(none),
            fetching: Mutex::new(Ok(())),
        };
        let read = |bytes: &[u8]| {
            signer.read_keys(bytes).map(|keys| keys.keys.len()).map_err(|error| error.to_string())
        };
        assert_eq!(read(&answer("a", &spki, 9, true)), Ok(1));
        for (bytes, expected) in [
            (answer("a", &spki, 0, true), "found invalid refresh hint (0s)"),
            (answer("a", &spki, u64::MAX, true), "found invalid refresh hint (-1s)"),
            (answer("", &spki, 9, true), "found invalid public key id \"\""),
            (answer("a", &[], 9, true), "found empty public key"),
            (answer("a", &spki, 9, false), "invalid data timestamp: proto: invalid nil Timestamp"),
            (vec![24, 9], "found no keys"),
        ] {
            assert_eq!(read(&bytes), Err(expected.to_string()));
        }
    }
}
