//! How often webhooks converted objects, how long it took and what went wrong, in the text format of Prometheus.

use pintle_kinds::Kind;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::time::Duration;

/// What went wrong, as the metrics name it.
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

/// Upper bounds of the buckets of calls.
const CALL_BUCKETS: &[f64] =
    &[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];
/// Upper bounds of the buckets of each definition's conversions.
const DEFINITION_BUCKETS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
/// Most label sets that are kept.
const SERIES_MAX: usize = 10_000;

/// Counters of conversions.
#[derive(Default)]
pub struct ConversionMetrics {
    calls: Mutex<BTreeMap<String, Histogram>>,
    definitions: Mutex<BTreeMap<String, Histogram>>,
}

#[derive(Default)]
struct Histogram {
    buckets: Vec<u64>,
    sum_seconds: f64,
    count: u64,
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
        add(&self.calls, CALL_BUCKETS, format!("failure_type=\"{failure_type}\",result=\"{result}\""), took);
        let name = |at: usize| kind.versions.get(at).map(|v| v.name.as_str()).unwrap_or("");
        let labels = format!(
            "crd_name=\"{}.{}\",from_version=\"{}\",succeeded=\"{}\",to_version=\"{}\"",
            kind.plural,
            kind.group,
            name(from),
            failure.is_none(),
            name(to)
        );
        add(&self.definitions, DEFINITION_BUCKETS, labels, took);
    }

    /// Appends the text.
    pub fn render(&self, out: &mut String) {
        let total = "apiserver_conversion_webhook_request_total";
        if let Ok(all) = self.calls.lock()
            && !all.is_empty()
        {
            head(
                out,
                total,
                "counter",
                "Counter for conversion webhook requests with success/failure and failure error type",
            );
            for (labels, histogram) in all.iter() {
                _ = writeln!(out, "{total}{{{labels}}} {}", histogram.count);
            }
            let name = "apiserver_conversion_webhook_duration_seconds";
            head(out, name, "histogram", "Conversion webhook request latency");
            all.iter().for_each(|(labels, h)| write_histogram(out, name, labels, h, CALL_BUCKETS));
        }
        if let Ok(all) = self.definitions.lock()
            && !all.is_empty()
        {
            let name = "apiserver_crd_conversion_webhook_duration_seconds";
            head(out, name, "histogram", "CRD webhook conversion duration in seconds");
            all.iter().for_each(|(labels, h)| write_histogram(out, name, labels, h, DEFINITION_BUCKETS));
        }
    }
}

fn add(all: &Mutex<BTreeMap<String, Histogram>>, bounds: &[f64], labels: String, took: Duration) {
    let Ok(mut all) = all.lock() else { return };
    if all.len() >= SERIES_MAX && !all.contains_key(&labels) {
        return;
    }
    let histogram = all.entry(labels).or_default();
    let seconds = took.as_secs_f64();
    histogram.buckets.resize(bounds.len(), 0);
    for (bucket, bound) in histogram.buckets.iter_mut().zip(bounds) {
        *bucket += u64::from(seconds <= *bound);
    }
    histogram.sum_seconds += seconds;
    histogram.count += 1;
}

fn head(out: &mut String, name: &str, type_: &str, help: &str) {
    _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {type_}");
}

fn write_histogram(out: &mut String, name: &str, labels: &str, histogram: &Histogram, bounds: &[f64]) {
    for (bound, count) in bounds.iter().zip(&histogram.buckets) {
        _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
    }
    _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", histogram.count);
    _ = writeln!(out, "{name}_sum{{{labels}}} {}", histogram.sum_seconds);
    _ = writeln!(out, "{name}_count{{{labels}}} {}", histogram.count);
}
