//! Counts and times webhook conversions, in the text format of Prometheus.

use crate::metrics::Histograms;
use pintle_kinds::Kind;
use std::time::Duration;

/// The cause of a failed conversion, as the metrics name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Failure {
    Call,
    Malformed,
    Partial,
    Invalid,
}

impl Failure {
    fn name(self) -> &'static str {
        match self {
            Failure::Call => "conversion_webhook_call_failure",
            Failure::Malformed => "conversion_webhook_malformed_response_failure",
            Failure::Partial => "conversion_webhook_partial_response_failure",
            Failure::Invalid => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}

/// Upper bounds of the buckets of webhook call durations, in seconds.
const CALL_BUCKETS: &[f64] =
    &[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];
/// Upper bounds of the buckets of the conversion durations of each definition, in seconds.
const DEFINITION_BUCKETS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
/// Counters of conversions.
#[derive(Default)]
pub(crate) struct ConversionMetrics {
    calls: Histograms,
    definitions: Histograms,
}

impl ConversionMetrics {
    pub(super) fn observe(
        &self,
        kind: &Kind,
        from: usize,
        to: usize,
        failure: Option<Failure>,
        took: Duration,
    ) {
        let result = if failure.is_some() { "failure" } else { "success" };
        let failure_type = failure.map_or("", Failure::name);
        self.calls.add(CALL_BUCKETS, format!("failure_type=\"{failure_type}\",result=\"{result}\""), took);
        let name = |at: usize| kind.versions.get(at).map(|v| v.name.as_str()).unwrap_or("");
        let labels = format!(
            "crd_name=\"{}.{}\",from_version=\"{}\",succeeded=\"{}\",to_version=\"{}\"",
            kind.plural,
            kind.group,
            name(from),
            failure.is_none(),
            name(to)
        );
        self.definitions.add(DEFINITION_BUCKETS, labels, took);
    }

    /// Appends the text.
    pub(crate) fn render(&self, out: &mut String) {
        self.calls.render_counts(
            out,
            "apiserver_conversion_webhook_request_total",
            "Counter for conversion webhook requests with success/failure and failure error type",
        );
        self.calls.render(
            out,
            "apiserver_conversion_webhook_duration_seconds",
            "Conversion webhook request latency",
            CALL_BUCKETS,
        );
        self.definitions.render(
            out,
            "apiserver_crd_conversion_webhook_duration_seconds",
            "CRD webhook conversion duration in seconds",
            DEFINITION_BUCKETS,
        );
    }
}
