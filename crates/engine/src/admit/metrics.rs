//! Counts and times webhook calls, in the text format of Prometheus.

use super::calls::Failure;
use crate::metrics::{Counters, Histograms};
use pintle_admission::webhook::Webhook;
use std::time::Duration;

/// Upper bounds of the buckets of webhook call durations, in seconds.
const CALL_BUCKETS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
/// Upper bounds of the buckets of match condition durations, in seconds.
const CONDITION_BUCKETS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];
/// Response codes above this one are counted as this one.
const CODE_MAX: u16 = 600;

/// Counters of admission webhook calls.
#[derive(Default)]
pub(super) struct WebhookMetrics {
    durations: Histograms,
    requests: Counters,
    rejections: Counters,
    failed_open: Counters,
    condition_seconds: Histograms,
    condition_errors: Counters,
    condition_exclusions: Counters,
}

/// The webhook that was called, as metric labels.
#[derive(Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) webhook: &'a Webhook,
    /// `admit` or `validating`.
    pub(super) step: &'static str,
    pub(super) operation: &'static str,
}

impl WebhookMetrics {
    pub(super) fn observe(&self, asked: Asked<'_>, failure: Option<&Failure>, took: Duration) {
        let Asked { webhook, step, operation } = asked;
        let name = &webhook.name;
        let (code, error) = match failure {
            None => (200, None),
            Some(Failure::Calling { code, .. }) => {
                (*code, (!webhook.fails_open).then_some("calling_webhook_error"))
            }
            Some(Failure::Denied(status)) => (status.code, Some("no_error")),
            Some(Failure::Internal(_)) => (0, Some("apiserver_internal_error")),
        };
        let code = code.min(CODE_MAX);
        let rejected = error.is_some();
        if let Some(error) = error {
            self.rejections.add(format!(
                "error_type=\"{error}\",name=\"{name}\",operation=\"{operation}\",rejection_code=\"{code}\",type=\"{step}\""
            ));
        } else if failure.is_some() {
            self.failed_open.add(format!("name=\"{name}\",type=\"{step}\""));
        }
        self.requests.add(format!(
            "code=\"{code}\",name=\"{name}\",operation=\"{operation}\",rejected=\"{rejected}\",type=\"{step}\""
        ));
        let labels =
            format!("name=\"{name}\",operation=\"{operation}\",rejected=\"{rejected}\",type=\"{step}\"");
        self.durations.add(CALL_BUCKETS, labels, took);
    }

    pub(super) fn observe_conditions(&self, asked: Asked<'_>, met: &Result<bool, String>, took: Duration) {
        let Asked { webhook, step, operation } = asked;
        let step = if step == "admit" { step } else { "validate" };
        let labels =
            format!("kind=\"webhook\",name=\"{}\",operation=\"{operation}\",type=\"{step}\"", webhook.name);
        match met {
            Err(_) => self.condition_errors.add(labels.clone()),
            Ok(false) => self.condition_exclusions.add(labels.clone()),
            Ok(true) => {}
        }
        self.condition_seconds.add(CONDITION_BUCKETS, labels, took);
    }

    pub(super) fn render(&self, out: &mut String) {
        self.condition_errors.render(
            out,
            "apiserver_admission_match_condition_evaluation_errors_total",
            "Admission match condition evaluation errors count, identified by name of resource containing the match \
             condition and broken out for each kind containing matchConditions (webhook or policy), operation and \
             admission type (validate or admit).",
        );
        self.condition_seconds.render(
            out,
            "apiserver_admission_match_condition_evaluation_seconds",
            "Admission match condition evaluation time in seconds, identified by name and broken out for each kind \
             containing matchConditions (webhook or policy), operation and type (validate or admit).",
            CONDITION_BUCKETS,
        );
        self.condition_exclusions.render(
            out,
            "apiserver_admission_match_condition_exclusions_total",
            "Admission match condition evaluation exclusions count, identified by name of resource containing the \
             match condition and broken out for each kind containing matchConditions (webhook or policy), operation \
             and admission type (validate or admit).",
        );
        self.durations.render(
            out,
            "apiserver_admission_webhook_admission_duration_seconds",
            "Admission webhook latency histogram in seconds, identified by name and broken out for each operation \
             and API resource and type (validate or admit).",
            CALL_BUCKETS,
        );
        self.failed_open.render(
            out,
            "apiserver_admission_webhook_fail_open_count",
            "Admission webhook fail open count, identified by name and broken out for each admission type \
             (validating or admit).",
        );
        self.rejections.render(
            out,
            "apiserver_admission_webhook_rejection_count",
            "Admission webhook rejection count, identified by name and broken out for each admission type \
             (validating or admit) and operation. Additional labels specify an error type (calling_webhook_error or \
             apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection \
             code if the webhook rejects the request with an HTTP status code (honored by the apiserver when the \
             code is greater or equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics \
             cardinality bounded.",
        );
        self.requests.render(
            out,
            "apiserver_admission_webhook_request_total",
            "Admission webhook request total, identified by name and broken out for each admission type (validating \
             or admit) and operation. Additional labels specify whether the request was rejected or not and an HTTP \
             status code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.",
        );
    }
}
