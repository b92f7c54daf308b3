//! Calls one webhook and interprets its answer.

use crate::Admission;
use crate::answer::{self, Review};
use crate::deadline::webhook_timeout;
use bytes::Bytes;
use pintle_admission::matching::Matched;
use pintle_admission::webhook::Webhook;
use pintle_admission::webhook::review::{self, ReviewVersion, Verdict};
use pintle_admission::{Attributes, admission_request};
use pintle_meta::Status;
use pintle_meta::field::quoted;
use pintle_schema::typed::Strict;
use pintle_value::Value;
use pintle_webhook::CallError;

/// A request to a webhook.
pub(super) struct WebhookRequest<'a> {
    pub(super) webhook: &'a Webhook,
    pub(super) request: &'a Attributes<'a>,
    pub(super) matched: &'a Matched,
    pub(super) object: Option<&'a Value>,
    pub(super) old: Option<&'a Value>,
    /// Whether the webhook may change the object.
    pub(super) mutating: bool,
}

/// The reason why a webhook stops a request.
pub(super) enum Failure {
    /// The webhook could not be called or its answer is unusable. Its failure policy decides what happens to the
    /// request.
    Calling { why: String, code: u16 },
    /// The webhook denied the request.
    Denied(Status),
    /// The server cannot go on.
    Internal(Status),
}

impl Failure {
    /// Builds the error for an answer that is unusable.
    pub(super) fn unusable_answer(why: String) -> Self {
        Failure::Calling { why, code: 503 }
    }

    /// The message for the client.
    pub(super) fn status(self, webhook: &Webhook) -> Status {
        match self {
            Failure::Calling { why, .. } => Status::internal(&calling(webhook, &why)),
            Failure::Denied(status) | Failure::Internal(status) => status,
        }
    }
}

/// The error message for a webhook that could not be called.
pub(super) fn calling(webhook: &Webhook, why: &str) -> String {
    format!("failed calling webhook {}: {why}", quoted(&webhook.name))
}

impl Admission {
    /// Calls a webhook. Its warnings are passed to the client whatever its verdict.
    pub(super) async fn call_webhook(
        &self,
        call: &WebhookRequest<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Verdict, Failure> {
        let webhook = call.webhook;
        if call.request.dry_run {
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
        let uid = crate::environment::new_uid(&*self.storage.random);
        let request = admission_request(call.request, call.matched, &uid);
        let body = review::body(version, request, call.object, call.old);
        let name = if call.mutating { "Call mutating webhook" } else { "Call validating webhook" };
        let caller = if call.mutating { &self.hooks.mutating_caller } else { &self.hooks.validating_caller };
        let span = pintle_trace::concurrent_span(name);
        let http_span = span.as_ref().map(|span| span.child("HTTP POST"));
        let timeout = webhook_timeout(webhook.timeout);
        let answer = caller.call(&*self.storage, endpoint, Bytes::from(body), timeout).await;
        drop((http_span, span));
        let answer = answer.inspect_err(answer::audit_flaw).map_err(not_called)?;
        let review = self
            .read_review(version, &answer)
            .map_err(|why| Failure::Calling { why: format!("failed to call webhook: {why}"), code: 503 })?;
        let verdict = review::verdict(version, &uid, call.mutating, &review)
            .map_err(|why| Failure::unusable_answer(format!("received invalid webhook response: {why}")))?;
        warnings.extend(verdict.warnings.iter().cloned());
        annotate(webhook, &verdict);
        if verdict.allowed { Ok(verdict) } else { Err(Failure::Denied(webhook.denial(&verdict.result))) }
    }

    /// Decodes the AdmissionReview in an answer.
    fn read_review(&self, version: ReviewVersion, answer: &[u8]) -> Result<Value, String> {
        let review = Review { group: GROUP, version: version.name(), kind: KIND };
        let tree = answer::read(review, answer)?;
        let schema = self.storage.types.by_kind(version.api_version(), KIND);
        let schema = schema.ok_or_else(|| "reviews have no type".to_string())?;
        let review = pintle_schema::decode(&schema, tree, &mut Strict::default());
        review.map_err(|error| error.message().to_string())
    }
}

/// Adds the webhook's audit annotations to the audit event. Keys that are not qualified names are dropped.
fn annotate(webhook: &Webhook, verdict: &Verdict) {
    for (key, value) in &verdict.audit_annotations {
        let key = format!("{}/{key}", webhook.name);
        if key.matches('/').count() == 1 && pintle_meta::names::is_qualified_name(&key).is_empty() {
            pintle_audit::annotate(&key, || value.clone());
        }
    }
}

const GROUP: &str = "admission.k8s.io";
const KIND: &str = "AdmissionReview";

fn not_called(error: CallError) -> Failure {
    match error {
        CallError::Unusable(why) => {
            Failure::Calling { why: format!("could not get REST client: {why}"), code: 500 }
        }
        CallError::Unreachable { .. } | CallError::Late { .. } => {
            Failure::Calling { why: format!("failed to call webhook: {error}"), code: 503 }
        }
        CallError::Refused { code, .. } => {
            let code = if code == 0 { 503 } else { code };
            Failure::Calling { why: format!("failed to call webhook: {error}"), code }
        }
    }
}
