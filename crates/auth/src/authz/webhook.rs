//! A webhook that decides: SubjectAccessReviews in version v1 or v1beta1.

use super::{Attributes, Authorizer, Authorizing, Decision, Failure};
use crate::authn::cache::{self, Cache};
use pintle_value::{Map, Value, json};
use pintle_webhook::ReviewClient;
use std::time::{Duration, Instant};

/// How much room answers may take, and the largest question whose answer is kept.
const CACHE_BYTES_MAX: usize = 16 << 20;
const CACHED_QUESTION_BYTES_MAX: usize = 10_000;

/// A webhook that decides.
pub struct WebhookAuthorizer {
    client: ReviewClient,
    api_version: String,
    /// v1beta1 has another name for groups.
    groups_key: &'static str,
    allowed_life: Duration,
    refused_life: Duration,
    /// Whether a webhook that fails denies, whatever others would say.
    denies_on_failure: bool,
    cache: Cache<Decision>,
}

/// How a webhook is asked.
pub struct WebhookSettings {
    /// `v1` or `v1beta1`.
    pub version: String,
    /// How long an answer counts that allows.
    pub allowed_life: Duration,
    /// How long another answer counts.
    pub refused_life: Duration,
    /// Whether a webhook that fails denies, whatever others would say.
    pub denies_on_failure: bool,
}

impl WebhookAuthorizer {
    /// A webhook that is asked through `client`.
    pub fn new(client: ReviewClient, settings: &WebhookSettings) -> Result<Self, String> {
        let groups_key = match settings.version.as_str() {
            "v1" => "groups",
            "v1beta1" => "group",
            other => {
                return Err(format!(
                    "unsupported webhook authorizer version \"{other}\", supported versions are \"v1\", \"v1beta1\""
                ));
            }
        };
        Ok(WebhookAuthorizer {
            client,
            api_version: format!("authorization.k8s.io/{}", settings.version),
            groups_key,
            allowed_life: settings.allowed_life,
            refused_life: settings.refused_life,
            denies_on_failure: settings.denies_on_failure,
            cache: Cache::new(CACHE_BYTES_MAX),
        })
    }

    async fn ask(&self, spec: Value, key: cache::Key, bytes: usize) -> Decision {
        let mut review = Value::object();
        review.set_at(&["kind"], "SubjectAccessReview".into());
        review.set_at(&["apiVersion"], self.api_version.as_str().into());
        review.set_at(&["metadata"], Value::object());
        review.set_at(&["spec"], spec);
        review.set_at(&["status", "allowed"], Value::Bool(false));
        let mut body = Vec::new();
        json::print(&review, &mut body);
        let answer = self.client.post(body.into()).await.and_then(|answer| self.read(&answer));
        let decision = match answer {
            Ok(decision) => decision,
            Err(error) => {
                tracing::warn!("the authorization webhook failed: {error}");
                let reason = String::new();
                return Decision::Failed(Failure { error, denied: self.denies_on_failure, reason });
            }
        };
        if bytes <= CACHED_QUESTION_BYTES_MAX {
            let life = if decision.is_allowed() { self.allowed_life } else { self.refused_life };
            let bytes = bytes.saturating_add(decision.reason().len());
            self.cache.insert(key, decision.clone(), bytes, life, Instant::now());
        }
        decision
    }

    fn read(&self, answer: &[u8]) -> Result<Decision, String> {
        let answer = json::parse(answer).map_err(|error| error.to_string())?.value;
        let (kind, version) = (answer.str_at(&["kind"]), answer.str_at(&["apiVersion"]));
        let fits = |found: &str, wanted: &str| found.is_empty() || found == wanted;
        if !matches!(answer, Value::Object(_)) {
            return Err("couldn't get version/kind; json parse error".to_string());
        }
        if !fits(kind, "SubjectAccessReview") || !fits(version, &self.api_version) {
            return Err(format!("no kind \"{kind}\" is registered for version \"{version}\""));
        }
        let says = |key: &str| answer.at(&["status", key]).and_then(Value::as_bool).unwrap_or(false);
        let reason = answer.str_at(&["status", "reason"]).to_string();
        Ok(match (says("allowed"), says("denied")) {
            (true, true) => Decision::Failed(Failure {
                error: "webhook subject access review returned both allow and deny response".into(),
                denied: true,
                reason,
            }),
            (false, true) => Decision::Deny(reason),
            (true, false) => Decision::Allow(reason),
            (false, false) => Decision::NoOpinion(reason),
        })
    }
}

impl Authorizer for WebhookAuthorizer {
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a> {
        let spec = spec(attributes, self.groups_key);
        let mut text = Vec::new();
        json::print(&spec, &mut text);
        let key = cache::key(&String::from_utf8_lossy(&text), None);
        match self.cache.get(&key, Instant::now()) {
            Some(decision) => decision.into(),
            None => Authorizing::Pending(Box::pin(self.ask(spec, key, text.len()))),
        }
    }
}

/// What is asked, as the `spec` of a review. What is empty is left out.
fn spec(a: &Attributes, groups_key: &str) -> Value {
    let texts = |all: &[String]| Value::Array(all.iter().map(|text| text.as_str().into()).collect());
    let present = |pairs: &[(&str, &str)]| -> Value {
        let pairs = pairs.iter().filter(|(_, text)| !text.is_empty());
        Value::Object(pairs.map(|(key, text)| (*key, Value::from(*text))).collect::<Map>())
    };
    let mut out = present(&[("user", &a.user.name), ("uid", &a.user.uid)]);
    if !a.user.groups.is_empty() {
        out.set_at(&[groups_key], texts(&a.user.groups));
    }
    for (key, values) in &a.user.extra {
        out.set_at(&["extra", key], texts(values));
    }
    let (key, asked) = match a.resource_request {
        true => (
            "resourceAttributes",
            present(&[
                ("namespace", &a.namespace),
                ("verb", &a.verb),
                ("group", &a.group),
                ("version", &a.version),
                ("resource", &a.resource),
                ("subresource", &a.subresource),
                ("name", &a.name),
            ]),
        ),
        false => ("nonResourceAttributes", present(&[("path", &a.path), ("verb", &a.verb)])),
    };
    out.set_at(&[key], asked);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::UserInfo;

    #[test]
    fn questions_leave_out_what_is_empty() {
        let pods = Attributes {
            user: UserInfo::new("alice", &["dev"]),
            verb: "list".into(),
            resource_request: true,
            version: "v1".into(),
            resource: "pods".into(),
            ..Attributes::default()
        };
        let path = Attributes { verb: "get".into(), path: "/version".into(), ..Attributes::default() };
        for (attributes, want) in [
            (
                pods,
                r#"{"groups":["dev"],"resourceAttributes":{"resource":"pods","verb":"list","version":"v1"},"user":"alice"}"#,
            ),
            (path, r#"{"nonResourceAttributes":{"path":"/version","verb":"get"}}"#),
        ] {
            assert_eq!(spec(&attributes, "groups"), json::parse(want.as_bytes()).unwrap().value);
        }
    }
}
