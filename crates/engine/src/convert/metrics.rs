//! Counts and times webhook conversions.

use pintle_kinds::Kind;
use pintle_metrics::families;
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

/// Counts a conversion.
pub(super) fn observe(kind: &Kind, from: usize, to: usize, failure: Option<Failure>, took: Duration) {
    let seconds = took.as_secs_f64();
    let (result, succeeded) = if failure.is_some() { ("failure", "false") } else { ("success", "true") };
    let labels = [failure.map_or("", Failure::name), result];
    families::CONVERSION_REQUESTS.inc(&labels);
    families::CONVERSION_DURATION.observe(&labels, seconds);
    let version = |at: usize| kind.versions.get(at).map(|v| v.name.as_str()).unwrap_or("");
    let definition = format!("{}.{}", kind.plural, kind.group);
    let labels = [definition.as_str(), version(from), succeeded, version(to)];
    families::DEFINITION_CONVERSION.observe(&labels, seconds);
}
