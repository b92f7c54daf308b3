//! Counts and times webhook calls.

use super::calls::Failure;
use crate::deadline;
use pintle_admission::webhook::Webhook;
use pintle_metrics::families;
use std::time::{Duration, Instant};

/// Response codes above this one are counted as this one.
const CODE_MAX: u16 = 600;
/// The code of a call without an answer.
const UNAVAILABLE: u16 = 503;

/// The webhook that was called, as metric labels.
#[derive(Clone, Copy)]
pub(super) struct WebhookCall<'a> {
    pub(super) webhook: &'a Webhook,
    /// `admit` or `validating`.
    pub(super) step: &'static str,
    pub(super) operation: &'static str,
}

/// A call in progress. If it is dropped, the request ended before the webhook answered: at its deadline, which is a failure
/// of the call, or because the client left.
pub(super) struct CallInProgress<'a> {
    call: WebhookCall<'a>,
    began: Instant,
    deadline: Option<Instant>,
    is_finished: bool,
}

impl<'a> CallInProgress<'a> {
    pub(super) fn begin(call: WebhookCall<'a>) -> Self {
        CallInProgress { call, began: Instant::now(), deadline: deadline::current(), is_finished: false }
    }

    /// Counts the call.
    pub(super) fn finish(mut self, failure: Option<&Failure>) {
        self.is_finished = true;
        let fails_open = self.call.webhook.fails_open;
        let (code, error) = match failure {
            None => (200, None),
            Some(Failure::Calling { code, .. }) => (*code, (!fails_open).then_some("calling_webhook_error")),
            Some(Failure::Denied(status)) => (status.code, Some("no_error")),
            Some(Failure::Internal(_)) => (0, Some("apiserver_internal_error")),
        };
        match error {
            Some(error) => self.count_rejection(error, code),
            None if failure.is_some() => self.count_failing_open(),
            None => {}
        }
        self.count_call(code, error.is_some());
    }

    fn count_call(&self, code: u16, is_rejected: bool) {
        let WebhookCall { webhook, step, operation } = self.call;
        let name = webhook.name.as_str();
        let rejected = if is_rejected { "true" } else { "false" };
        families::WEBHOOK_REQUESTS.inc(&[&code_label(code), name, operation, rejected, step]);
        let seconds = self.began.elapsed().as_secs_f64();
        families::WEBHOOK_DURATION.observe(&[name, operation, rejected, step], seconds);
    }

    fn count_rejection(&self, error: &str, code: u16) {
        let WebhookCall { webhook, step, operation } = self.call;
        families::WEBHOOK_REJECTIONS.inc(&[error, &webhook.name, operation, &code_label(code), step]);
    }

    fn count_failing_open(&self) {
        families::WEBHOOK_FAIL_OPEN.inc(&[&self.call.webhook.name, self.call.step]);
    }
}

impl Drop for CallInProgress<'_> {
    fn drop(&mut self) {
        if self.is_finished {
            return;
        }
        let fails_open = self.call.webhook.fails_open;
        if self.deadline.is_some_and(|deadline| deadline <= Instant::now()) {
            if fails_open {
                self.count_failing_open()
            } else {
                self.count_rejection("calling_webhook_error", UNAVAILABLE)
            }
        }
        self.count_call(UNAVAILABLE, !fails_open);
    }
}

fn code_label(code: u16) -> String {
    code.min(CODE_MAX).to_string()
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
