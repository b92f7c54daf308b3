//! Counts and times webhook calls.

use super::calls::Failure;
use pintle_admission::webhook::Webhook;
use pintle_metrics::families;
use std::time::Duration;

/// Response codes above this one are counted as this one.
const CODE_MAX: u16 = 600;

/// The webhook that was called, as metric labels.
#[derive(Clone, Copy)]
pub(super) struct WebhookCall<'a> {
    pub(super) webhook: &'a Webhook,
    /// `admit` or `validating`.
    pub(super) step: &'static str,
    pub(super) operation: &'static str,
}

/// Counts a call.
pub(super) fn observe(call: WebhookCall<'_>, failure: Option<&Failure>, took: Duration) {
    let WebhookCall { webhook, step, operation } = call;
    let name = webhook.name.as_str();
    let (code, error) = match failure {
        None => (200, None),
        Some(Failure::Calling { code, .. }) => {
            (*code, (!webhook.fails_open).then_some("calling_webhook_error"))
        }
        Some(Failure::Denied(status)) => (status.code, Some("no_error")),
        Some(Failure::Internal(_)) => (0, Some("apiserver_internal_error")),
    };
    let code = code.min(CODE_MAX).to_string();
    if let Some(error) = error {
        families::WEBHOOK_REJECTIONS.inc(&[error, name, operation, &code, step]);
    } else if failure.is_some() {
        families::WEBHOOK_FAIL_OPEN.inc(&[name, step]);
    }
    let rejected = if error.is_some() { "true" } else { "false" };
    families::WEBHOOK_REQUESTS.inc(&[&code, name, operation, rejected, step]);
    families::WEBHOOK_DURATION.observe(&[name, operation, rejected, step], took.as_secs_f64());
}

/// Counts an evaluation of match conditions, as kube-apiserver does it: those that are all met are not timed, and
/// exclusions name the step differently.
pub(super) fn observe_conditions(call: WebhookCall<'_>, met: &Result<bool, String>, took: Duration) {
    let WebhookCall { webhook, step, operation } = call;
    let labels = ["webhook", webhook.name.as_str(), operation, step];
    if met == &Ok(true) {
        return;
    }
    if met.is_err() {
        families::CONDITION_ERRORS.inc(&labels);
    }
    if met.is_ok() || webhook.fails_open {
        let step = if step == "admit" { step } else { "validate" };
        families::CONDITION_EXCLUSIONS.inc(&["webhook", &webhook.name, operation, step]);
    }
    families::CONDITION_DURATION.observe(&labels, took.as_secs_f64());
}
