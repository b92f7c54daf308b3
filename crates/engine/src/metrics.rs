//! Counters and histograms in the text format of Prometheus. A series appears with its first observation.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::time::Duration;

/// How many label sets one metric has at most.
const SERIES_MAX: usize = 10_000;

/// Durations by labels.
#[derive(Default)]
pub(crate) struct Histograms(Mutex<BTreeMap<String, Histogram>>);

#[derive(Default)]
struct Histogram {
    buckets: Vec<u64>,
    sum_seconds: f64,
    count: u64,
}

impl Histograms {
    pub(crate) fn add(&self, bounds: &[f64], labels: String, took: Duration) {
        let Ok(mut all) = self.0.lock() else { return };
        if all.len() >= SERIES_MAX && !all.contains_key(&labels) {
            return;
        }
        let histogram = all.entry(labels).or_default();
        let seconds = took.as_secs_f64();
        histogram.buckets.resize(bounds.len(), 0);
        for (bucket, bound) in histogram.buckets.iter_mut().zip(bounds) {
            *bucket = bucket.saturating_add(u64::from(seconds <= *bound));
        }
        histogram.sum_seconds += seconds;
        histogram.count = histogram.count.saturating_add(1);
    }

    pub(crate) fn render(&self, out: &mut String, name: &str, help: &str, bounds: &[f64]) {
        let Ok(all) = self.0.lock() else { return };
        if !all.is_empty() {
            head(out, name, "histogram", help);
        }
        for (labels, histogram) in all.iter() {
            for (bound, count) in bounds.iter().zip(&histogram.buckets) {
                _ = writeln!(out, "{name}_bucket{{{labels},le=\"{bound}\"}} {count}");
            }
            _ = writeln!(out, "{name}_bucket{{{labels},le=\"+Inf\"}} {}", histogram.count);
            _ = writeln!(out, "{name}_sum{{{labels}}} {}", histogram.sum_seconds);
            _ = writeln!(out, "{name}_count{{{labels}}} {}", histogram.count);
        }
    }

    /// Appends the counter with the number of observations of each label set.
    pub(crate) fn render_counts(&self, out: &mut String, name: &str, help: &str) {
        let Ok(all) = self.0.lock() else { return };
        if !all.is_empty() {
            head(out, name, "counter", help);
        }
        for (labels, histogram) in all.iter() {
            _ = writeln!(out, "{name}{{{labels}}} {}", histogram.count);
        }
    }
}

/// Counts by labels.
#[derive(Default)]
pub(crate) struct Counters(Mutex<BTreeMap<String, u64>>);

impl Counters {
    pub(crate) fn add(&self, labels: String) {
        let Ok(mut all) = self.0.lock() else { return };
        if all.len() < SERIES_MAX || all.contains_key(&labels) {
            let count = all.entry(labels).or_default();
            *count = count.saturating_add(1);
        }
    }

    pub(crate) fn render(&self, out: &mut String, name: &str, help: &str) {
        let Ok(all) = self.0.lock() else { return };
        if !all.is_empty() {
            head(out, name, "counter", help);
        }
        for (labels, count) in all.iter() {
            _ = writeln!(out, "{name}{{{labels}}} {count}");
        }
    }
}

fn head(out: &mut String, name: &str, type_: &str, help: &str) {
    _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {type_}");
}
