//! Service account tokens: their claims, how they are issued, and when they are accepted.

mod legacy;

pub use legacy::LAST_USED;

use super::cache::{self, Cache};
use super::jwt::{self, Token};
use super::token_keys::{IssueError, TokenKeys};
use super::{Remarks, TokenUser};
use crate::UserInfo;
use pintle_metrics::{Handle, families};
use pintle_value::{Map, Value};
use std::sync::{Arc, LazyLock, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The allowed clock skew, and how long a token is accepted after its bound object was deleted.
const LEEWAY_SECONDS: i64 = 60;
/// The issuer of tokens in Secrets.
const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
/// Prefix of the claims in such tokens.
const LEGACY_PREFIX: &str = "kubernetes.io/serviceaccount/";
/// Audit annotations of requests with tokens that should be replaced.
const LEGACY_TOKEN: &str = "authentication.k8s.io/legacy-token";
const STALE_TOKEN: &str = "authentication.k8s.io/stale-token";
/// How long a verified signature is cached, and the size of that cache.
const SIGNATURE_CACHE_LIFE: Duration = Duration::from_secs(300);
const SIGNATURE_CACHE_BYTES_MAX: usize = 16 << 20;

/// The types of objects that tokens refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum BoundKind {
    ServiceAccount,
    Pod,
    Secret,
    Node,
}

/// The state of an object that a token refers to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundObject {
    /// The bound object's current uid.
    pub uid: String,
    /// The deletion time in seconds since 1970, if it is being deleted.
    pub deleted_at: Option<i64>,
}

/// Looks up the objects that tokens refer to. `namespace` is "" for nodes.
pub trait BoundObjects: Send + Sync {
    /// The object of this name, if there is one.
    fn get(&self, kind: BoundKind, namespace: &str, name: &str) -> Option<BoundObject>;
    /// The tree of a Secret.
    fn secret(&self, namespace: &str, name: &str) -> Option<Value>;
    /// Returns whether a service account lists this Secret.
    fn account_names_secret(&self, namespace: &str, account: &str, secret: &str) -> bool;
    /// Records the date of last use in the Secret with this uid, asynchronously.
    fn record_use(&self, namespace: &str, secret: &str, uid: &str, day: &str);
}

/// Name and uid of an object, as claimed by a token.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectRef {
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
}

/// The contents of a token to issue.
#[derive(Clone, Debug, Default)]
pub struct TokenSpec {
    /// Namespace of the service account.
    pub namespace: String,
    /// The service account.
    pub account: ObjectRef,
    /// The pod that the token is bound to.
    pub pod: Option<ObjectRef>,
    /// The secret that the token is bound to.
    pub secret: Option<ObjectRef>,
    /// The node that the token is bound to, or on which its pod runs.
    pub node: Option<ObjectRef>,
    /// The audiences.
    pub audiences: Vec<String>,
    /// The lifetime in seconds.
    pub seconds: i64,
    /// After how many seconds its use logs a warning; 0 means never.
    pub warn_after_seconds: i64,
    /// The token's unique id (`jti`).
    pub id: String,
}

/// A token is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum TokenError {
    #[error("invalid signature, no keys found")]
    NoKey,
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Signature,
    #[error("{0} claim is missing")]
    Missing(&'static str),
    #[error("sub claim is invalid")]
    Subject,
    #[error(
        "token audiences {} is invalid for the target audiences {}",
        go_list_text(token),
        go_list_text(requested)
    )]
    Audience { token: Vec<String>, requested: Vec<String> },
    #[error("go-jose/go-jose/jwt: expected number value to unmarshal NumericDate")]
    NotATime,
    #[error("go-jose/go-jose/jwt: expected string or array value to unmarshal to Audience")]
    NotAnAudience,
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYet,
    #[error("service account token is issued in the future")]
    Future,
    #[error("{0}")]
    Object(String),
}

/// A list of strings in Go's `%q` format.
fn go_list_text(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| pintle_meta::field::quoted(text)).collect();
    format!("[{}]", texts.join(" "))
}

/// Issues and verifies service account tokens.
pub struct ServiceAccountTokens {
    /// The accepted issuers; the first one issues new tokens.
    pub issuers: Vec<String>,
    /// Audiences of this server.
    pub audiences: Vec<String>,
    /// Keys that sign tokens and check their signatures.
    pub keys: TokenKeys,
    /// Looks up the objects that tokens refer to; `None` trusts the token alone.
    pub objects: Option<Arc<dyn BoundObjects>>,
    /// Whether tokens of Secrets are only accepted while their Secret contains them.
    pub lookup: bool,
    /// Tokens with a verified signature. Everything else about a token is checked each time.
    pub signatures: SignatureCache,
}

/// Tokens whose signature was verified, by the hash of the token. They are valid as long as the keys do not change.
pub struct SignatureCache(Cache<(u64, Arc<VerifiedToken>)>);

/// A token whose signature was verified.
struct VerifiedToken {
    claims: Value,
    /// What a token that is not a legacy one names, read on first use.
    bound: OnceLock<BoundToken>,
}

/// The objects that a token names, and its user.
struct BoundToken {
    namespace: String,
    account: ObjectRef,
    pod: Option<ObjectRef>,
    secret: Option<ObjectRef>,
    node: Option<ObjectRef>,
    /// When the token's use begins to be counted as late, in seconds since 1970. Only tokens that were issued with an extended
    /// lifetime contain the time at which they should have been refreshed.
    warn_after: Option<i64>,
    user: Arc<UserInfo>,
}

impl Default for SignatureCache {
    fn default() -> Self {
        SignatureCache(Cache::new(SIGNATURE_CACHE_BYTES_MAX))
    }
}

impl ServiceAccountTokens {
    /// Authenticates a token for these audiences (`None` means the audiences of this server). `Ok(None)` means that
    /// the text is not a service account token.
    pub async fn authenticate(
        &self,
        text: &str,
        audiences: Option<&[String]>,
        now: SystemTime,
    ) -> Result<Option<TokenUser>, TokenError> {
        let Some(token) = self.verified(text).await? else { return Ok(None) };
        let claims = &token.claims;
        let audiences = self.check_audience(claims, audiences)?;
        let mut remarks = Remarks::default();
        if jwt::audiences(claims).is_some_and(|audiences| audiences.is_empty()) {
            remarks.annotations.push((LEGACY_TOKEN, claims.str_at(&["sub"]).to_string()));
        }
        let user = match claims.str_at(&["iss"]) {
            LEGACY_ISSUER => {
                let user = self.legacy_user(claims, text, now, &mut remarks)?;
                Arc::new(user.with_authenticated_group())
            }
            _ => {
                let now = unix_seconds(now);
                check_times(claims, now)?;
                let bound = token.bound.get_or_init(|| BoundToken::of(claims));
                self.check_objects(bound, now)?;
                count_age(bound, now, claims, &mut remarks);
                Arc::clone(&bound.user)
            }
        };
        Ok(Some(TokenUser { user, audiences, remarks }))
    }

    /// Returns the token if one of our keys signed it for one of our issuers. A verified signature is cached until the keys
    /// change.
    async fn verified(&self, text: &str) -> Result<Option<Arc<VerifiedToken>>, TokenError> {
        let (key, now) = (cache::key(text, None), Instant::now());
        let generation = self.keys.generation();
        if let Some((verified_in, verified)) = self.signatures.0.get(&key, now)
            && verified_in == generation
        {
            return Ok(Some(verified));
        }
        let Ok(mut token) = Token::parse(text) else { return Ok(None) };
        let issuer = token.claims.str_at(&["iss"]);
        if issuer != LEGACY_ISSUER && !self.issuers.iter().any(|i| i == issuer) {
            return Ok(None);
        }
        self.check_signature(&token).await?;
        let claims = std::mem::take(&mut token.claims);
        let verified = Arc::new(VerifiedToken { claims, bound: OnceLock::new() });
        // A tree takes a few times as much memory as its text, and the user repeats a part of it.
        self.signatures.0.insert(
            key,
            (generation, Arc::clone(&verified)),
            text.len().saturating_mul(6),
            SIGNATURE_CACHE_LIFE,
            now,
        );
        Ok(Some(verified))
    }

    /// Makes a token.
    pub async fn issue(&self, spec: &TokenSpec, now: SystemTime) -> Result<String, IssueError> {
        let issuer = self.issuers.first().map_or("", String::as_str);
        self.keys.sign(&token_claims(spec, issuer, unix_seconds(now))).await
    }

    async fn check_signature(&self, token: &Token<'_>) -> Result<(), TokenError> {
        let candidates = self.keys.verifying(&token.kid).await;
        if candidates.is_empty() {
            return Err(TokenError::NoKey);
        }
        if candidates.iter().any(|key| token.verified_by(key)) { Ok(()) } else { Err(TokenError::Signature) }
    }

    fn check_audience(
        &self,
        claims: &Value,
        requested: Option<&[String]>,
    ) -> Result<Vec<String>, TokenError> {
        let mut token = jwt::audiences(claims).ok_or(TokenError::NotAnAudience)?;
        if token.is_empty() {
            families::LEGACY_TOKENS.inc(&[]);
            token = self.audiences.clone();
        }
        let requested = requested.unwrap_or(&self.audiences);
        let good: Vec<String> = token.iter().filter(|a| requested.contains(a)).cloned().collect();
        if good.is_empty() && !self.audiences.is_empty() {
            return Err(TokenError::Audience { token, requested: requested.to_vec() });
        }
        Ok(good)
    }

    /// Checks that the objects of a token exist and are those that it was issued for.
    fn check_objects(&self, token: &BoundToken, now: i64) -> Result<(), TokenError> {
        let BoundToken { namespace, account, pod, secret, node, .. } = token;
        self.check_account(namespace, account, now)?;
        if let Some(secret) = secret {
            self.check_bound(BoundKind::Secret, namespace, secret, now)?;
        }
        if let Some(pod) = pod {
            self.check_bound(BoundKind::Pod, namespace, pod, now)?;
        } else if let Some(node) = node {
            self.check_bound(BoundKind::Node, "", node, now)?;
        }
        Ok(())
    }

    fn check_account(&self, namespace: &str, account: &ObjectRef, now: i64) -> Result<(), TokenError> {
        let Some(objects) = &self.objects else { return Ok(()) };
        let Some(live) = objects.get(BoundKind::ServiceAccount, namespace, &account.name) else {
            return Err(TokenError::Object(format!("serviceaccounts \"{}\" not found", account.name)));
        };
        if live.uid != account.uid {
            return Err(TokenError::Object(format!(
                "service account UID ({}) does not match claim ({})",
                live.uid, account.uid
            )));
        }
        if gone(&live, now) {
            return Err(TokenError::Object(format!(
                "service account {namespace}/{} has been deleted",
                account.name
            )));
        }
        Ok(())
    }

    fn check_bound(
        &self,
        kind: BoundKind,
        namespace: &str,
        named: &ObjectRef,
        now: i64,
    ) -> Result<(), TokenError> {
        let Some(objects) = &self.objects else { return Ok(()) };
        let invalidated = || TokenError::Object("service account token has been invalidated".into());
        let live = objects.get(kind, namespace, &named.name).ok_or_else(invalidated)?;
        if live.uid != named.uid {
            let word = match kind {
                BoundKind::Pod => "pod",
                BoundKind::Secret => "secret",
                BoundKind::Node => "node",
                BoundKind::ServiceAccount => "service account",
            };
            return Err(TokenError::Object(format!(
                "{word} UID ({}) does not match service account {word} ref claim ({})",
                live.uid, named.uid
            )));
        }
        if gone(&live, now) { Err(invalidated()) } else { Ok(()) }
    }
}

impl BoundToken {
    fn of(claims: &Value) -> Self {
        let bound_object = |key: &str| -> Option<ObjectRef> {
            let claimed = claims.at(&["kubernetes.io", key])?;
            Some(ObjectRef {
                name: claimed.str_at(&["name"]).to_string(),
                uid: claimed.str_at(&["uid"]).to_string(),
            })
        };
        let namespace = claims.str_at(&["kubernetes.io", "namespace"]).to_string();
        let account = bound_object("serviceaccount").unwrap_or_default();
        let (pod, secret, node) = (bound_object("pod"), bound_object("secret"), bound_object("node"));
        let mut user = account_user(&namespace, &account);
        let mut extra = |key: &str, value: &str| {
            if !value.is_empty() {
                user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_string()]);
            }
        };
        if let Some(pod) = pod.as_ref().filter(|p| !p.name.is_empty() && !p.uid.is_empty()) {
            extra("pod-name", &pod.name);
            extra("pod-uid", &pod.uid);
        }
        if let Some(node) = node.as_ref().filter(|n| !n.name.is_empty()) {
            extra("node-name", &node.name);
            extra("node-uid", &node.uid);
        }
        let id = claims.str_at(&["jti"]);
        if !id.is_empty() {
            extra("credential-id", &format!("JTI={id}"));
        }
        let warn_after = claims.at(&["kubernetes.io", "warnafter"]).and_then(Value::as_int);
        let warn_after = warn_after.filter(|at| *at != 0);
        let user = Arc::new(user.with_authenticated_group());
        BoundToken { namespace, account, pod, secret, node, warn_after, user }
    }
}

/// Counts whether a token with an extended lifetime is used after the time at which it should have been refreshed.
fn count_age(token: &BoundToken, now: i64, claims: &Value, remarks: &mut Remarks) {
    static VALID: LazyLock<Handle> = LazyLock::new(|| families::VALID_TOKENS.with(&[]));
    match token.warn_after {
        None => {}
        Some(warn_after) if now > warn_after => {
            families::STALE_TOKENS.inc(&[]);
            let (subject, late) = (claims.str_at(&["sub"]), now.saturating_sub(warn_after));
            let text = format!("subject: {subject}, seconds after warning threshold: {late}");
            remarks.annotations.push((STALE_TOKEN, text));
        }
        Some(_) => VALID.add(1),
    }
}

fn gone(object: &BoundObject, now: i64) -> bool {
    object.deleted_at.is_some_and(|at| at < now.saturating_sub(LEEWAY_SECONDS))
}

fn check_times(claims: &Value, now: i64) -> Result<(), TokenError> {
    // A time that is not a number must not count as absent: the token would never expire.
    let time = |key: &str| match claims.get(key) {
        Some(Value::Int(at)) => Ok(Some(*at)),
        #[expect(clippy::cast_possible_truncation, reason = "whole seconds are enough; floats saturate")]
        Some(Value::Float(at)) => Ok(Some(*at as i64)),
        Some(Value::Null) | None => Ok(None),
        Some(_) => Err(TokenError::NotATime),
    };
    let (not_before, expiry, issued) = (time("nbf")?, time("exp")?, time("iat")?);
    if not_before.is_some_and(|at| now.saturating_add(LEEWAY_SECONDS) < at) {
        return Err(TokenError::NotYet);
    }
    if expiry.is_some_and(|at| now.saturating_sub(LEEWAY_SECONDS) > at) {
        return Err(TokenError::Expired);
    }
    if issued.is_some_and(|at| now.saturating_add(LEEWAY_SECONDS) < at) {
        return Err(TokenError::Future);
    }
    Ok(())
}

fn account_user(namespace: &str, account: &ObjectRef) -> UserInfo {
    let mut user = UserInfo::new(&format!("system:serviceaccount:{namespace}:{}", account.name), &[]);
    user.uid = account.uid.clone();
    user.groups = vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}")];
    user
}

fn token_claims(spec: &TokenSpec, issuer: &str, now: i64) -> Value {
    let object = |r: &ObjectRef| -> Value {
        [("name", r.name.as_str()), ("uid", r.uid.as_str())]
            .into_iter()
            .map(|(k, v)| (k, Value::from(v)))
            .collect::<Map>()
            .into()
    };
    let mut own = Map::new();
    own.insert("namespace", spec.namespace.clone().into());
    own.insert("serviceaccount", object(&spec.account));
    for (key, bound) in [("pod", &spec.pod), ("secret", &spec.secret), ("node", &spec.node)] {
        if let Some(bound) = bound {
            own.insert(key, object(bound));
        }
    }
    if spec.warn_after_seconds != 0 {
        own.insert("warnafter", Value::Int(now.saturating_add(spec.warn_after_seconds)));
    }
    let mut claims = Map::new();
    claims.insert("iss", issuer.into());
    claims.insert("sub", format!("system:serviceaccount:{}:{}", spec.namespace, spec.account.name).into());
    claims.insert("aud", Value::Array(spec.audiences.iter().map(|a| a.as_str().into()).collect()));
    claims.insert("exp", Value::Int(now.saturating_add(spec.seconds)));
    claims.insert("nbf", Value::Int(now));
    claims.insert("iat", Value::Int(now));
    if !spec.id.is_empty() {
        claims.insert("jti", spec.id.clone().into());
    }
    claims.insert("kubernetes.io", Value::Object(own));
    Value::Object(claims)
}

fn unix_seconds(time: SystemTime) -> i64 {
    time.duration_since(UNIX_EPOCH).ok().and_then(|d| i64::try_from(d.as_secs()).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authn::jwt;
    use crate::authn::keys::SigningKey;
    use crate::ready;
    use std::time::Duration;

    struct Live;

    impl BoundObjects for Live {
        fn get(&self, kind: BoundKind, _namespace: &str, name: &str) -> Option<BoundObject> {
            let deleted_at = (name == "dying").then_some(1_000);
            (kind != BoundKind::Secret).then(|| BoundObject { uid: format!("{name}-uid"), deleted_at })
        }

        fn secret(&self, _namespace: &str, name: &str) -> Option<Value> {
            let mut secret = Value::object();
            let token = HELD.lock().unwrap().clone();
            secret.set_at(&["data", "token"], pintle_value::base64::encode(token.as_bytes()).as_str().into());
            (name == "held").then_some(secret)
        }

        fn account_names_secret(&self, _namespace: &str, account: &str, _secret: &str) -> bool {
            account == "auto"
        }

        fn record_use(&self, _namespace: &str, _secret: &str, _uid: &str, day: &str) {
            assert_eq!(day, "1970-01-01");
        }
    }

    /// The token that the Secret `held` holds.
    static HELD: std::sync::Mutex<String> = std::sync::Mutex::new(String::new());

    fn tokens() -> ServiceAccountTokens {
        let pair = rcgen::KeyPair::generate().unwrap();
        let signer = SigningKey::from_der(&pair.serialize_der()).unwrap();
        ServiceAccountTokens {
            issuers: vec!["https://issuer".into()],
            audiences: vec!["api".into()],
            keys: {
                let verifying = vec![signer.verifying.clone()];
                TokenKeys::local(signer, verifying)
            },
            objects: Some(Arc::new(Live)),
            lookup: true,
            signatures: SignatureCache::default(),
        }
    }

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn named(name: &str) -> ObjectRef {
        ObjectRef { name: name.into(), uid: format!("{name}-uid") }
    }

    fn spec() -> TokenSpec {
        TokenSpec {
            namespace: "ns".into(),
            account: named("sa"),
            audiences: vec!["api".into()],
            seconds: 600,
            id: "id1".into(),
            ..TokenSpec::default()
        }
    }

    #[test]
    fn a_token_names_its_account_until_it_expires() {
        let tokens = tokens();
        let text = ready(tokens.issue(&TokenSpec { pod: Some(named("p")), ..spec() }, at(10_000))).unwrap();
        let TokenUser { user, audiences, .. } =
            ready(tokens.authenticate(&text, None, at(10_100))).unwrap().unwrap();
        assert_eq!(user.name, "system:serviceaccount:ns:sa");
        assert_eq!(
            user.groups,
            ["system:serviceaccounts", "system:serviceaccounts:ns", UserInfo::AUTHENTICATED]
        );
        assert_eq!(user.extra.len(), 3);
        assert_eq!(audiences, ["api"]);
        assert_eq!(ready(tokens.authenticate(&text, None, at(20_000))), Err(TokenError::Expired));
        assert_eq!(ready(tokens.authenticate(&text, None, at(9_000))), Err(TokenError::NotYet));
        let other = ["other".to_string()];
        assert!(matches!(
            ready(tokens.authenticate(&text, Some(&other), at(10_100))),
            Err(TokenError::Audience { .. })
        ));
    }

    #[test]
    fn uses_of_extended_tokens_are_counted() {
        let tokens = tokens();
        let extended = TokenSpec { warn_after_seconds: 100, ..spec() };
        let text = ready(tokens.issue(&extended, at(10_000))).unwrap();
        for (now, family) in [(10_050, "valid"), (10_200, "stale")] {
            ready(tokens.authenticate(&text, None, at(now))).unwrap().unwrap();
            let metrics: String = pintle_metrics::Text::default().collect();
            assert!(metrics.contains(&format!("\nserviceaccount_{family}_tokens_total 1\n")), "{family}");
        }
    }

    #[test]
    fn times_that_are_no_numbers_are_refused() {
        for (claims, expected) in [
            (r#"{"exp":"99999999999"}"#, Err(TokenError::NotATime)),
            (r#"{"exp":[1]}"#, Err(TokenError::NotATime)),
            (r#"{"nbf":"0"}"#, Err(TokenError::NotATime)),
            (r#"{"iat":{}}"#, Err(TokenError::NotATime)),
            (r#"{"exp":-9223372036854775808}"#, Err(TokenError::Expired)),
            (r#"{"exp":1.5e3,"nbf":null}"#, Ok(())),
            ("{}", Ok(())),
        ] {
            let tree = pintle_value::json::parse(claims.as_bytes()).unwrap().value;
            assert_eq!(check_times(&tree, 1000), expected, "{claims}");
        }
    }

    #[test]
    fn a_token_falls_with_what_it_is_bound_to() {
        let tokens = tokens();
        let ask = |spec: TokenSpec| {
            let text = ready(tokens.issue(&spec, at(10_000))).unwrap();
            ready(tokens.authenticate(&text, None, at(10_000))).map(|found| found.unwrap().user.name.clone())
        };
        assert!(ask(spec()).is_ok());
        for bad in [
            TokenSpec { secret: Some(named("s")), ..spec() },
            TokenSpec { pod: Some(named("dying")), ..spec() },
            TokenSpec { node: Some(ObjectRef { name: "n".into(), uid: "old".into() }), ..spec() },
            TokenSpec { account: ObjectRef { name: "sa".into(), uid: "old".into() }, ..spec() },
        ] {
            assert!(matches!(ask(bad), Err(TokenError::Object(_))));
        }
    }

    #[test]
    fn strangers_and_forgeries_are_refused() {
        let ours = tokens();
        let theirs = tokens();
        let text = ready(theirs.issue(&spec(), at(10_000))).unwrap();
        assert_eq!(ready(ours.authenticate(&text, None, at(10_000))), Err(TokenError::NoKey));
        let text = ready(ours.issue(&spec(), at(10_000))).unwrap();
        let (signed, _) = text.rsplit_once('.').unwrap();
        let forged = format!("{signed}.{}", "A".repeat(86));
        assert_eq!(ready(ours.authenticate(&forged, None, at(10_000))), Err(TokenError::Signature));
        for text in ["", "a.b.c", "eyJhbGciOiJub25lIn0.e30.x", "admintoken"] {
            assert_eq!(ready(ours.authenticate(text, None, at(0))), Ok(None));
        }
    }

    #[test]
    fn a_token_of_a_secret_counts_while_the_secret_holds_it() {
        let tokens = tokens();
        let sign = |secret: &str, account: &str| {
            let mut claims = Value::object();
            claims.set_at(&["iss"], LEGACY_ISSUER.into());
            claims.set_at(&["sub"], format!("system:serviceaccount:ns:{account}").into());
            for (key, value) in [
                ("namespace", "ns"),
                ("secret.name", secret),
                ("service-account.name", account),
                ("service-account.uid", &format!("{account}-uid")),
            ] {
                claims.set_at(&[&format!("{LEGACY_PREFIX}{key}")], value.into());
            }
            let TokenKeys::Local(keys) = &tokens.keys else { panic!("a key of this process") };
            jwt::sign(keys.signer.as_ref().unwrap(), &claims).unwrap()
        };
        let ask = |text: &str| {
            ready(tokens.authenticate(text, None, at(10_000))).map(|found| {
                let found = found.unwrap();
                (found.user.name.clone(), found.audiences.join(" "), found.remarks.warning.is_some())
            })
        };
        let object = |why: &str| Err(TokenError::Object(why.into()));
        let text = sign("held", "auto");
        HELD.lock().unwrap().clone_from(&text);
        assert_eq!(ask(&text), Ok(("system:serviceaccount:ns:auto".into(), "api".into(), true)));
        assert_eq!(ask(&sign("held", "other")), object("Token does not match server's copy"));
        assert_eq!(ask(&sign("gone", "auto")), object("Token has been invalidated"));
        let text = sign("held", "dying");
        HELD.lock().unwrap().clone_from(&text);
        assert_eq!(ask(&text), object("ServiceAccount ns/dying has been deleted"));
    }
}
