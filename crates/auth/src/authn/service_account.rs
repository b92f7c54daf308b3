//! Tokens of service accounts: what they claim, how they are made, and when they are believed.

use super::jwt::{self, Token};
use super::keys::{KeyError, SigningKey, VerifyingKey};
use crate::UserInfo;
use pintle_value::{Map, Value};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// How far clocks may differ, and how long after the deletion of what it is bound to a token is still good.
const LEEWAY_SECONDS: i64 = 60;

/// What a token may be bound to, and what it is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum BoundKind {
    ServiceAccount,
    Pod,
    Secret,
    Node,
}

/// What is known of an object that a token names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundObject {
    /// Its uid now.
    pub uid: String,
    /// When it is to be gone, in seconds since 1970, where it is being deleted.
    pub deleted_at: Option<i64>,
}

/// Looks up the objects that tokens name. `namespace` is "" for nodes.
pub trait BoundObjects: Send + Sync {
    /// The object of this name, if there is one.
    fn get(&self, kind: BoundKind, namespace: &str, name: &str) -> Option<BoundObject>;
}

/// Name and uid of an object, as a token claims them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObjectRef {
    /// Name.
    pub name: String,
    /// Uid.
    pub uid: String,
}

/// What a token is to say.
#[derive(Clone, Debug, Default)]
pub struct TokenSpec {
    /// Namespace of the service account.
    pub namespace: String,
    /// The service account.
    pub account: ObjectRef,
    /// Pod that it is bound to.
    pub pod: Option<ObjectRef>,
    /// Secret that it is bound to.
    pub secret: Option<ObjectRef>,
    /// Node that it is bound to, or that its pod runs on.
    pub node: Option<ObjectRef>,
    /// Whom it is for.
    pub audiences: Vec<String>,
    /// How long it is good.
    pub seconds: i64,
    /// After how many seconds its use is remarkable; 0 is never.
    pub warn_after_seconds: i64,
    /// Its unique id (`jti`).
    pub id: String,
}

/// A token is not believed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum TokenError {
    #[error("invalid bearer token")]
    NotOurs,
    #[error("invalid signature, no keys found")]
    NoKey,
    #[error("invalid signature")]
    Signature,
    #[error("token audiences {} is invalid for the target audiences {}", shown(token), shown(asked))]
    Audience { token: Vec<String>, asked: Vec<String> },
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYet,
    #[error("service account token is issued in the future")]
    Future,
    #[error("{0}")]
    Object(String),
}

/// A list of texts as Go's `%q` writes it.
fn shown(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| pintle_meta::field::quoted(text)).collect();
    format!("[{}]", texts.join(" "))
}

/// Makes and checks the tokens of service accounts.
pub struct ServiceAccountTokens {
    /// Issuers that are believed; the first one is written into new tokens.
    pub issuers: Vec<String>,
    /// Audiences of this server.
    pub audiences: Vec<String>,
    /// Keys that signatures are checked with.
    pub keys: Vec<VerifyingKey>,
    /// Key that new tokens are signed with.
    pub signer: Option<Arc<SigningKey>>,
    /// Where the objects that tokens name are looked up; `None` believes the token alone.
    pub objects: Option<Arc<dyn BoundObjects>>,
}

impl ServiceAccountTokens {
    /// Whose token this is, and for which of the audiences it is good (`None`: those of this server).
    pub fn authenticate(
        &self,
        text: &str,
        audiences: Option<&[String]>,
        now: SystemTime,
    ) -> Result<(UserInfo, Vec<String>), TokenError> {
        let token = Token::parse(text).ok_or(TokenError::NotOurs)?;
        if !self.issuers.iter().any(|i| i == token.claims.str_at(&["iss"])) {
            return Err(TokenError::NotOurs);
        }
        self.check_signature(&token)?;
        let good_for = self.check_audience(&token.claims, audiences)?;
        let now = unix_seconds(now);
        check_times(&token.claims, now)?;
        let user = if token.claims.get("kubernetes.io").is_some() {
            self.bound_user(&token.claims, now)?
        } else {
            self.legacy_user(&token.claims, now)?
        };
        Ok((user, good_for))
    }

    /// Makes a token.
    pub fn issue(&self, spec: &TokenSpec, now: SystemTime) -> Result<String, KeyError> {
        let signer = self.signer.as_ref().ok_or(KeyError::None)?;
        let issuer = self.issuers.first().map_or("", String::as_str);
        jwt::sign(signer, &claims(spec, issuer, unix_seconds(now)))
    }

    fn check_signature(&self, token: &Token<'_>) -> Result<(), TokenError> {
        let mut candidates =
            self.keys.iter().filter(|k| token.kid.is_empty() || k.kid == token.kid).peekable();
        if candidates.peek().is_none() {
            return Err(TokenError::NoKey);
        }
        if candidates.any(|key| token.verified_by(key)) { Ok(()) } else { Err(TokenError::Signature) }
    }

    fn check_audience(&self, claims: &Value, asked: Option<&[String]>) -> Result<Vec<String>, TokenError> {
        let mut token: Vec<String> = match claims.get("aud") {
            Some(Value::String(one)) => vec![one.to_string()],
            Some(Value::Array(all)) => all.iter().filter_map(Value::as_str).map(str::to_string).collect(),
            _ => Vec::new(),
        };
        if token.is_empty() {
            token = self.audiences.clone();
        }
        let asked = asked.unwrap_or(&self.audiences);
        let good: Vec<String> = token.iter().filter(|a| asked.contains(a)).cloned().collect();
        if good.is_empty() && !self.audiences.is_empty() {
            return Err(TokenError::Audience { token, asked: asked.to_vec() });
        }
        Ok(good)
    }

    fn bound_user(&self, claims: &Value, now: i64) -> Result<UserInfo, TokenError> {
        let of = |key: &str| -> Option<ObjectRef> {
            let claimed = claims.at(&["kubernetes.io", key])?;
            Some(ObjectRef {
                name: claimed.str_at(&["name"]).to_string(),
                uid: claimed.str_at(&["uid"]).to_string(),
            })
        };
        let namespace = claims.str_at(&["kubernetes.io", "namespace"]);
        let account = of("serviceaccount").unwrap_or_default();
        let (pod, secret, node) = (of("pod"), of("secret"), of("node"));
        self.check_account(namespace, &account, now)?;
        if let Some(secret) = &secret {
            self.check_bound(BoundKind::Secret, namespace, secret, now)?;
        }
        if let Some(pod) = &pod {
            self.check_bound(BoundKind::Pod, namespace, pod, now)?;
        } else if let Some(node) = &node {
            self.check_bound(BoundKind::Node, "", node, now)?;
        }
        let mut user = account_user(namespace, &account);
        let mut extra = |key: &str, value: &str| {
            if !value.is_empty() {
                user.extra.insert(format!("authentication.kubernetes.io/{key}"), vec![value.to_string()]);
            }
        };
        if let Some(pod) = pod.filter(|p| !p.name.is_empty() && !p.uid.is_empty()) {
            extra("pod-name", &pod.name);
            extra("pod-uid", &pod.uid);
        }
        if let Some(node) = node.filter(|n| !n.name.is_empty()) {
            extra("node-name", &node.name);
            extra("node-uid", &node.uid);
        }
        let id = claims.str_at(&["jti"]);
        if !id.is_empty() {
            extra("credential-id", &format!("JTI={id}"));
        }
        Ok(user)
    }

    /// A token as the secrets of old hold them: no expiry, no audience, flat claims.
    fn legacy_user(&self, claims: &Value, now: i64) -> Result<UserInfo, TokenError> {
        let claim = |key: &str| claims.str_at(&[&format!("kubernetes.io/serviceaccount/{key}")]).to_string();
        let namespace = claim("namespace");
        let account = ObjectRef { name: claim("service-account.name"), uid: claim("service-account.uid") };
        if namespace.is_empty() || account.name.is_empty() || account.uid.is_empty() {
            return Err(TokenError::NotOurs);
        }
        if claims.str_at(&["sub"]) != format!("system:serviceaccount:{namespace}:{}", account.name) {
            return Err(TokenError::NotOurs);
        }
        self.check_account(&namespace, &account, now)?;
        Ok(account_user(&namespace, &account))
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

fn gone(object: &BoundObject, now: i64) -> bool {
    object.deleted_at.is_some_and(|at| at < now - LEEWAY_SECONDS)
}

fn check_times(claims: &Value, now: i64) -> Result<(), TokenError> {
    let time = |key: &str| match claims.get(key) {
        Some(Value::Int(at)) => Some(*at),
        #[expect(clippy::cast_possible_truncation, reason = "whole seconds are enough; floats saturate")]
        Some(Value::Float(at)) => Some(*at as i64),
        _ => None,
    };
    if time("nbf").is_some_and(|at| now + LEEWAY_SECONDS < at) {
        return Err(TokenError::NotYet);
    }
    if time("exp").is_some_and(|at| now - LEEWAY_SECONDS > at) {
        return Err(TokenError::Expired);
    }
    if time("iat").is_some_and(|at| now + LEEWAY_SECONDS < at) {
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

fn claims(spec: &TokenSpec, issuer: &str, now: i64) -> Value {
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
        own.insert("warnafter", Value::Int(now + spec.warn_after_seconds));
    }
    let mut claims = Map::new();
    claims.insert("iss", issuer.into());
    claims.insert("sub", format!("system:serviceaccount:{}:{}", spec.namespace, spec.account.name).into());
    claims.insert("aud", Value::Array(spec.audiences.iter().map(|a| a.as_str().into()).collect()));
    claims.insert("exp", Value::Int(now + spec.seconds));
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
    use std::time::Duration;

    struct Live;

    impl BoundObjects for Live {
        fn get(&self, kind: BoundKind, _namespace: &str, name: &str) -> Option<BoundObject> {
            let deleted_at = (name == "dying").then_some(1_000);
            (kind != BoundKind::Secret).then(|| BoundObject { uid: format!("{name}-uid"), deleted_at })
        }
    }

    fn tokens() -> ServiceAccountTokens {
        let pair = rcgen::KeyPair::generate().unwrap();
        let signer = SigningKey::from_der(&pair.serialize_der()).unwrap();
        ServiceAccountTokens {
            issuers: vec!["https://issuer".into()],
            audiences: vec!["api".into()],
            keys: vec![signer.verifying.clone()],
            signer: Some(Arc::new(signer)),
            objects: Some(Arc::new(Live)),
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
        let text = tokens.issue(&TokenSpec { pod: Some(named("p")), ..spec() }, at(10_000)).unwrap();
        let (user, audiences) = tokens.authenticate(&text, None, at(10_100)).unwrap();
        assert_eq!(user.name, "system:serviceaccount:ns:sa");
        assert_eq!(user.groups, ["system:serviceaccounts", "system:serviceaccounts:ns"]);
        assert_eq!(user.extra.len(), 3);
        assert_eq!(audiences, ["api"]);
        assert_eq!(tokens.authenticate(&text, None, at(20_000)), Err(TokenError::Expired));
        assert_eq!(tokens.authenticate(&text, None, at(9_000)), Err(TokenError::NotYet));
        let other = ["other".to_string()];
        assert!(matches!(
            tokens.authenticate(&text, Some(&other), at(10_100)),
            Err(TokenError::Audience { .. })
        ));
    }

    #[test]
    fn a_token_falls_with_what_it_is_bound_to() {
        let tokens = tokens();
        let ask = |spec: TokenSpec| {
            let text = tokens.issue(&spec, at(10_000)).unwrap();
            tokens.authenticate(&text, None, at(10_000)).map(|(user, _)| user.name)
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
        let text = theirs.issue(&spec(), at(10_000)).unwrap();
        assert_eq!(ours.authenticate(&text, None, at(10_000)), Err(TokenError::NoKey));
        let text = ours.issue(&spec(), at(10_000)).unwrap();
        let (signed, _) = text.rsplit_once('.').unwrap();
        let forged = format!("{signed}.{}", "A".repeat(86));
        assert_eq!(ours.authenticate(&forged, None, at(10_000)), Err(TokenError::Signature));
        for text in ["", "a.b.c", "eyJhbGciOiJub25lIn0.e30.x", "admintoken"] {
            assert_eq!(ours.authenticate(text, None, at(0)), Err(TokenError::NotOurs));
        }
    }
}
