//! Authorization webhooks: SubjectAccessReviews in version v1 or v1beta1.

use super::conditions::Conditions;
use super::{Attributes, Authorizer, Authorizing, Decision, Failure, RulesFound};
use crate::UserInfo;
use crate::authn::cache::{self, Cache};
use crate::review::{Field, GoType, Review};
use pintle_meta::selector::Operator;
use pintle_metrics::families;
use pintle_value::{Map, Value, json};
use pintle_webhook::{ReviewClient, ReviewError};
use std::time::{Duration, Instant};

/// The size of the cache in bytes.
const CACHE_BYTES_MAX: usize = 16 << 20;
/// Requests whose own attributes are longer than this are not cached.
const CACHED_ATTRIBUTES_BYTES_MAX: usize = 10_000;

/// A webhook that decides.
pub struct WebhookAuthorizer {
    client: ReviewClient,
    api_version: String,
    /// v1beta1 has another name for groups.
    groups_key: &'static str,
    settings: WebhookSettings,
    conditions: Conditions,
    cache: Cache<Decision>,
}

/// The settings of a webhook.
pub struct WebhookSettings {
    /// The webhook's name in metrics.
    pub name: String,
    /// `v1` or `v1beta1`.
    pub version: String,
    /// How long an answer that allows is cached.
    pub allowed_life: Duration,
    /// How long any other answer is cached.
    pub refused_life: Duration,
    /// Whether a failed call denies the request, whatever other authorizers say.
    pub denies_on_failure: bool,
}

/// The fields of a review that are read.
const FIELDS: &[Field] = &[
    (&["status"], "SubjectAccessReview", GoType::Struct("SubjectAccessReviewStatus")),
    (&["status", "allowed"], "SubjectAccessReviewStatus", GoType::Bool),
    (&["status", "denied"], "SubjectAccessReviewStatus", GoType::Bool),
    (&["status", "reason"], "SubjectAccessReviewStatus", GoType::Text),
    (&["status", "evaluationError"], "SubjectAccessReviewStatus", GoType::Text),
];

impl WebhookAuthorizer {
    /// A webhook that is called through `client` for requests that satisfy `conditions`.
    pub fn new(
        client: ReviewClient,
        settings: WebhookSettings,
        mut conditions: Conditions,
    ) -> Result<Self, String> {
        let groups_key = match settings.version.as_str() {
            "v1" => "groups",
            "v1beta1" => "group",
            other => {
                return Err(format!(
                    "unsupported webhook authorizer version \"{other}\", supported versions are \"v1\", \"v1beta1\""
                ));
            }
        };
        conditions.count_as(&settings.name);
        Ok(WebhookAuthorizer {
            client,
            api_version: format!("authorization.k8s.io/{}", settings.version),
            groups_key,
            settings,
            conditions,
            cache: Cache::new(CACHE_BYTES_MAX),
        })
    }

    async fn decide(&self, attributes: &Attributes) -> Decision {
        match self.conditions.matches(attributes) {
            Ok(true) => {}
            Ok(false) => return Decision::NoOpinion(String::new()),
            Err(error) => return self.failure_decision(error),
        }
        let spec = spec(attributes, self.groups_key);
        let text = json::bytes(&spec);
        let key = cache::key(&String::from_utf8_lossy(&text), None);
        if let Some(decision) = self.cache.get(&key, Instant::now()) {
            return decision;
        }
        let decision = match self.ask_webhook(spec).await {
            Ok(decision) => decision,
            Err(error) => return self.failed_call(&error),
        };
        if is_cacheable(attributes) {
            let life =
                if decision.is_allowed() { self.settings.allowed_life } else { self.settings.refused_life };
            let bytes = text.len().saturating_add(decision.reason().len());
            self.cache.insert(key, decision.clone(), bytes, life, Instant::now());
        }
        decision
    }

    async fn ask_webhook(&self, spec: Value) -> Result<Decision, ReviewError> {
        let mut review = Value::object();
        review.set_at(&["kind"], "SubjectAccessReview".into());
        review.set_at(&["apiVersion"], self.api_version.as_str().into());
        review.set_at(&["metadata"], Value::object());
        review.set_at(&["spec"], spec);
        review.set_at(&["status", "allowed"], Value::Bool(false));
        let body = json::bytes(&review);
        let read = |answer: &[u8]| self.read(answer);
        let observe = |result: &str, seconds: f64| {
            let labels = [self.settings.name.as_str(), result];
            families::AUTHORIZATION_WEBHOOK_EVALUATIONS.inc(&labels);
            families::AUTHORIZATION_WEBHOOK_SECONDS.observe(&labels, seconds);
        };
        self.client.review(body.into(), read, observe).await
    }

    fn failed_call(&self, error: &ReviewError) -> Decision {
        tracing::warn!("the authorization webhook {:?} failed: {}", self.settings.name, error.why);
        if !self.settings.denies_on_failure {
            let labels = [self.settings.name.as_str(), error.result()];
            families::AUTHORIZATION_WEBHOOK_FAIL_OPEN.inc(&labels);
        }
        self.failure_decision(error.why.clone())
    }

    fn failure_decision(&self, error: String) -> Decision {
        let denied = self.settings.denies_on_failure;
        Decision::Failed(Failure { error, denied, reason: String::new() })
    }

    fn read(&self, answer: &[u8]) -> Result<Decision, String> {
        let (group, version) = self.api_version.rsplit_once('/').unwrap_or_default();
        let answer = Review { group, version, kind: "SubjectAccessReview", fields: FIELDS }.read(answer)?;
        let says = |key: &str| answer.at(&["status", key]).and_then(Value::as_bool).unwrap_or(false);
        let reason = answer.str_at(&["status", "reason"]).to_string();
        Ok(match (says("allowed"), says("denied")) {
            (true, true) => Decision::Failed(Failure {
                error: "webhook subject access review returned both allow and deny response".into(),
                denied: true,
                reason,
            }),
            (false, true) => Decision::Deny(reason),
            (true, false) => Decision::Allow(reason.into()),
            (false, false) => Decision::NoOpinion(reason),
        })
    }
}

impl Authorizer for WebhookAuthorizer {
    fn authorize<'a>(&'a self, attributes: &'a Attributes) -> Authorizing<'a> {
        Authorizing::Pending(Box::pin(self.decide(attributes)))
    }

    fn rules_for(&self, _user: &UserInfo, _namespace: &str) -> RulesFound {
        RulesFound::unknown("webhook authorizer does not support user rule resolution")
    }
}

/// Returns whether the attributes that the client chooses are short enough to be cached: long names must not fill the
/// cache.
fn is_cacheable(a: &Attributes) -> bool {
    let all = [&a.namespace, &a.verb, &a.group, &a.version, &a.resource, &a.subresource, &a.name, &a.path];
    all.iter().map(|text| text.len()).sum::<usize>() < CACHED_ATTRIBUTES_BYTES_MAX
}

/// The `spec` of a review. Empty members are omitted.
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
    if !a.resource_request {
        out.set_at(&["nonResourceAttributes"], present(&[("path", &a.path), ("verb", &a.verb)]));
        return out;
    }
    let mut resource = present(&resource_attributes(a));
    for (key, requirements) in
        [("fieldSelector", field_requirements(a)), ("labelSelector", label_requirements(a))]
    {
        if !requirements.is_empty() {
            resource.set_at(&[key, "requirements"], Value::Array(requirements));
        }
    }
    out.set_at(&["resourceAttributes"], resource);
    out
}

/// The strings of `resourceAttributes`.
pub(super) fn resource_attributes(a: &Attributes) -> [(&'static str, &str); 7] {
    [
        ("namespace", &a.namespace),
        ("verb", &a.verb),
        ("group", &a.group),
        ("version", &a.version),
        ("resource", &a.resource),
        ("subresource", &a.subresource),
        ("name", &a.name),
    ]
}

fn selector_requirement<'a>(key: &str, operator: &str, values: impl Iterator<Item = &'a str>) -> Value {
    let values: Vec<Value> = values.map(Value::from).collect();
    let mut out = Value::object();
    out.set_at(&["key"], key.into());
    out.set_at(&["operator"], operator.into());
    if !values.is_empty() {
        out.set_at(&["values"], Value::Array(values));
    }
    out
}

/// The requirements of the field selector, as in reviews.
pub(super) fn field_requirements(a: &Attributes) -> Vec<Value> {
    let terms = a.field_selector.terms().iter();
    let of_term = |term: &pintle_meta::selector::field::Term| {
        let operator = if term.equal { "In" } else { "NotIn" };
        selector_requirement(&term.field, operator, std::iter::once(term.value.as_str()))
    };
    terms.map(of_term).collect()
}

/// The requirements of the label selector, as in reviews. Those without an operator in reviews are omitted: the review
/// then covers more than the request.
pub(super) fn label_requirements(a: &Attributes) -> Vec<Value> {
    let mut out = Vec::new();
    for wanted in &a.label_selector {
        let operator = match wanted.operator() {
            Operator::Equals | Operator::DoubleEquals | Operator::In => "In",
            Operator::NotEquals | Operator::NotIn => "NotIn",
            Operator::Exists => "Exists",
            Operator::DoesNotExist => "DoesNotExist",
            Operator::GreaterThan | Operator::LessThan => continue,
        };
        out.push(selector_requirement(
            wanted.key(),
            operator,
            wanted.values().iter().map(|value| value.as_str()),
        ));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_meta::selector::{FieldSelector, LabelSelector};

    #[test]
    fn questions_leave_out_what_is_empty() {
        let pods = Attributes {
            user: UserInfo::new("alice", &["dev"]).into(),
            verb: "list".into(),
            resource_request: true,
            version: "v1".into(),
            resource: "pods".into(),
            ..Attributes::default()
        };
        let selects = Attributes {
            verb: "list".into(),
            resource_request: true,
            field_selector: FieldSelector::parse("a=b").unwrap(),
            label_selector: LabelSelector::parse("d notin (f,e),c,x>1").unwrap().requirements().to_vec(),
            ..Attributes::default()
        };
        let path = Attributes { verb: "get".into(), path: "/version".into(), ..Attributes::default() };
        for (attributes, want) in [
            (
                pods,
                r#"{"groups":["dev"],"resourceAttributes":{"resource":"pods","verb":"list","version":"v1"},"user":"alice"}"#,
            ),
            (
                selects,
                r#"{"resourceAttributes":{"fieldSelector":{"requirements":[{"key":"a","operator":"In","values":["b"]}]},"labelSelector":{"requirements":[{"key":"c","operator":"Exists"},{"key":"d","operator":"NotIn","values":["e","f"]}]},"verb":"list"}}"#,
            ),
            (path, r#"{"nonResourceAttributes":{"path":"/version","verb":"get"}}"#),
        ] {
            assert_eq!(spec(&attributes, "groups"), json::parse(want.as_bytes()).unwrap().value);
        }
    }
}
