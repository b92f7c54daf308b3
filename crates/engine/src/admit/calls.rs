//! One question to one webhook, and what its answer means.

use crate::{Engine, decode};
use bytes::Bytes;
use pintle_admission::matching::Matched;
use pintle_admission::webhook::Webhook;
use pintle_admission::webhook::review::{self, ReviewVersion, Verdict};
use pintle_admission::{Attributes, admission_request};
use pintle_meta::Status;
use pintle_meta::field::quoted;
use pintle_schema::typed::Strict;
use pintle_value::{Value, json, yaml};
use pintle_webhook::CallError;

/// What is asked of a webhook.
pub(super) struct Question<'a> {
    pub(super) webhook: &'a Webhook,
    pub(super) request: &'a Attributes<'a>,
    pub(super) matched: &'a Matched,
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
    /// Whether the webhook may change the object.
    pub(super) mutating: bool,
}

/// Why a request does not go on.
pub(super) enum Failure {
    /// The webhook could not be asked, or its answer makes no sense: its failure policy decides.
    Calling { why: String, code: u16 },
    /// The webhook said no.
    Denied(Status),
    /// The server cannot go on.
    Internal(Status),
}

impl Failure {
    /// The answer of a webhook makes no sense.
    pub(super) fn senseless(why: String) -> Self {
        Failure::Calling { why, code: 503 }
    }

    /// What the client is told.
    pub(super) fn status(self, webhook: &Webhook) -> Status {
        match self {
            Failure::Calling { why, .. } => Status::internal(&calling(webhook, &why)),
            Failure::Denied(status) | Failure::Internal(status) => status,
        }
    }
}

/// What is said of a webhook that could not be asked.
pub(super) fn calling(webhook: &Webhook, why: &str) -> String {
    format!("failed calling webhook {}: {why}", quoted(&webhook.name))
}

impl Engine {
    /// Asks a webhook. Its warnings count whatever it says.
    pub(super) async fn ask_webhook(
        &self,
        question: &Question<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Verdict, Failure> {
        let webhook = question.webhook;
        if question.request.dry_run {
            webhook.check_dry_run().map_err(Failure::Internal)?;
        }
        let Some(version) = webhook.review_version else {
            let why = "could not create admission objects: \
                       webhook does not accept known AdmissionReview versions (v1, v1beta1)";
            return Err(Failure::Calling { why: why.to_string(), code: 400 });
        };
        let Some(endpoint) = &webhook.endpoint else {
            let why = calling(webhook, "webhook configuration must have either service or URL");
            return Err(Failure::Calling { why: format!("could not get REST client: {why}"), code: 500 });
        };
        let uid = crate::environment::new_uid(&*self.random);
        let request = admission_request(question.request, question.matched, &uid);
        let body = review::body(version, request, question.object, question.old);
        let answer = self.webhooks.call(self, endpoint, Bytes::from(body), webhook.timeout).await;
        let answer = answer.map_err(not_called)?;
        let review = self
            .read_review(version, &answer)
            .map_err(|why| Failure::Calling { why: format!("failed to call webhook: {why}"), code: 503 })?;
        let verdict = review::verdict(version, &uid, question.mutating, &review)
            .map_err(|why| Failure::senseless(format!("received invalid webhook response: {why}")))?;
        warnings.extend(verdict.warnings.iter().cloned());
        match verdict.allowed {
            true => Ok(verdict),
            false => Err(Failure::Denied(webhook.denial(&verdict.result))),
        }
    }

    /// The review in an answer, typed.
    fn read_review(&self, version: ReviewVersion, answer: &[u8]) -> Result<Value, String> {
        let tree = document(answer)?;
        check_kind(version, tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]))?;
        let schema = self.types.by_kind(version.api_version(), KIND);
        let schema = schema.ok_or_else(|| "reviews have no type".to_string())?;
        let review = pintle_schema::decode(&schema, tree, &mut Strict::default());
        review.map_err(|error| error.message().to_string())
    }
}

const KIND: &str = "AdmissionReview";

/// An answer in JSON or YAML.
fn document(answer: &[u8]) -> Result<Value, String> {
    let unread = |why: String| format!("couldn't get version/kind; json parse error: {why}");
    let tree = match answer.trim_ascii_start().starts_with(b"{") {
        true => json::parse(answer).map_err(|error| unread(error.to_string()))?.value,
        false => yaml::parse(answer).map_err(|error| unread(error.message().to_string()))?.value,
    };
    decode::check_is_object(&tree)?;
    Ok(tree)
}

/// Refuses an answer that says that it is something else. One that does not say what it is may be a review.
fn check_kind(version: ReviewVersion, api_version: &str, kind: &str) -> Result<(), String> {
    let api_version = if api_version.is_empty() { version.api_version() } else { api_version };
    let kind = if kind.is_empty() { KIND } else { kind };
    if kind == KIND && api_version == version.api_version() {
        return Ok(());
    }
    let short = |api_version: &str| api_version.rsplit('/').next().unwrap_or_default().to_string();
    let is_known = match kind {
        KIND => api_version.strip_prefix("admission.k8s.io/").and_then(ReviewVersion::of).is_some(),
        kind => kind == "Status" && api_version == "v1",
    };
    Err(match is_known {
        true => format!(
            "converting ({}.{kind}) to ({}.{KIND}): unknown conversion",
            short(api_version),
            short(version.api_version())
        ),
        false => format!(
            "no kind {} is registered for version {} in scheme \"k8s.io/apiserver/pkg/util/webhook/client.go:71\"",
            quoted(kind),
            quoted(api_version)
        ),
    })
}

fn not_called(error: CallError) -> Failure {
    match error {
        CallError::Unusable(why) => {
            Failure::Calling { why: format!("could not get REST client: {why}"), code: 500 }
        }
        CallError::Unreachable { .. } | CallError::TimedOut { .. } => {
            Failure::Calling { why: format!("failed to call webhook: {error}"), code: 503 }
        }
        CallError::Refused { code, .. } => {
            let code = if code == 0 { 503 } else { code };
            Failure::Calling { why: format!("failed to call webhook: {error}"), code }
        }
    }
}
