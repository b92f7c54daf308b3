//! Metric families, counters that cost a few nanoseconds, and the formats of Prometheus: text and protobuf. [`families`] is the one table
//! of all families; no other place declares one.
//!
//! The memory of a family is bounded by design: label values are cut at [`VALUE_BYTES_MAX`], and a family has at most
//! [`SERIES_MAX`] series. Beyond that everything counts in one series whose label values are `other`.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod families;
mod message;
mod native;
mod process;
mod quantiles;
mod selection;
mod series;

pub use message::{Messages, Notation, sli_messages};
pub use native::enable_native_histograms;
pub use selection::Selection;
pub use series::{Handle, Series};

use quantiles::QUANTILES;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::ops::Bound;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

/// The maximum number of series of one family.
pub const SERIES_MAX: usize = 10_000;
/// The longest label value; longer ones are truncated.
pub const VALUE_BYTES_MAX: usize = 253;
/// The label value of everything beyond [`SERIES_MAX`].
pub const OTHER: &str = "other";
/// The size of the pieces of [`Text`].
const PIECE_BYTES: usize = 64 * 1024;

/// The type of a family: counter, gauge or histogram.
#[derive(Clone, Copy)]
pub enum Type {
    /// A number that only grows.
    Counter,
    /// A number that goes up and down.
    Gauge,
    /// A gauge without labels that exists once it is set; in kube-apiserver it is a vector of gauges.
    LateGauge,
    /// A counter that is exported from its first use on, even without labels.
    LateCounter,
    /// Observations, counted by these upper bounds.
    Histogram(&'static [f64]),
    /// Sum and number of observations.
    Summary,
    /// A gauge whose series are computed when the text is written.
    Read(fn(&mut Samples)),
    /// A counter whose series are computed when the text is written.
    ReadCounter(fn(&mut Samples)),
}

/// Series that are computed when the text is written: label text and value.
#[derive(Default)]
pub struct Samples(Vec<(String, f64)>);

impl Samples {
    /// Adds a value without labels.
    pub fn push(&mut self, value: f64) {
        self.0.push((String::new(), value));
    }
}

/// A family: its name, type, labels and series.
pub struct Family {
    name: &'static str,
    help: &'static str,
    type_: Type,
    labels: &'static [&'static str],
    /// By label text, such as `code="200",verb="GET"`.
    series: RwLock<BTreeMap<Box<str>, Arc<Series>>>,
}

impl Family {
    /// Declares a family; `labels` must be sorted.
    pub const fn new(
        name: &'static str,
        type_: Type,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Family { name, help, type_, labels, series: RwLock::new(BTreeMap::new()) }
    }

    /// The name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The series with these label values, in the order of the labels. Retain it if the same series is counted often.
    pub fn with(&self, values: &[&str]) -> Arc<Series> {
        let values = selection::constrain_labels(self.name, self.labels, values);
        self.with_text(&label_text(self.labels, &values))
    }

    fn with_text(&self, text: &str) -> Arc<Series> {
        if let Some(series) = self.series.read().unwrap_or_else(PoisonError::into_inner).get(text) {
            return Arc::clone(series);
        }
        let mut all = self.series.write().unwrap_or_else(PoisonError::into_inner);
        let key = if all.len() >= SERIES_MAX && !all.contains_key(text) {
            label_text(self.labels, &vec![OTHER; self.labels.len()])
        } else {
            text.to_string()
        };
        Arc::clone(all.entry(key.into()).or_insert_with(|| Arc::new(self.new_series())))
    }

    fn new_series(&self) -> Series {
        match self.type_ {
            Type::Summary => Series::summary(),
            _ => Series::new(self.buckets(), native::is_native(self.name)),
        }
    }

    /// Counts one.
    pub fn inc(&self, values: &[&str]) {
        self.with(values).add(1);
    }

    /// Counts many.
    pub fn add(&self, values: &[&str], count: u64) {
        self.with(values).add(count);
    }

    /// Sets a counter that is counted elsewhere.
    pub fn set_count(&self, values: &[&str], count: u64) {
        self.with(values).set_count(count);
    }

    /// Sets a gauge.
    pub fn set(&self, values: &[&str], value: f64) {
        self.with(values).set(value);
    }

    /// Counts an observation of a histogram or summary.
    pub fn observe(&self, values: &[&str], value: f64) {
        self.with(values).observe(self.buckets(), value);
    }

    /// The bounds of the buckets, without the last one, which has no bound.
    pub fn buckets(&self) -> &'static [f64] {
        match self.type_ {
            Type::Histogram(bounds) => bounds,
            _ => &[],
        }
    }

    /// Removes all series. Series that a caller retains start again at zero.
    pub fn reset(&self) {
        self.series.write().unwrap_or_else(PoisonError::into_inner).retain(|_, series| {
            series.zero();
            Arc::strong_count(series) > 1
        });
    }

    /// Replaces all series of a gauge with one label, so that those of objects that are gone disappear.
    pub fn set_all<'a>(&self, values: impl Iterator<Item = (&'a str, f64)>) {
        let series = values.take(SERIES_MAX).map(|(label, value)| {
            let series = self.new_series();
            series.set(value);
            (label_text(self.labels, &[label]).into(), Arc::new(series))
        });
        let series = series.collect();
        *self.series.write().unwrap_or_else(PoisonError::into_inner) = series;
    }

    /// Removes one series, for example that of a deleted object.
    pub fn remove(&self, values: &[&str]) {
        let text = label_text(self.labels, values);
        self.series.write().unwrap_or_else(PoisonError::into_inner).remove(text.as_str());
    }

    fn write_head(&self, name: &str, out: &mut String) {
        let type_ = match self.type_ {
            Type::Counter | Type::LateCounter | Type::ReadCounter(_) => "counter",
            Type::Gauge | Type::LateGauge | Type::Read(_) => "gauge",
            Type::Histogram(_) => "histogram",
            Type::Summary => "summary",
        };
        _ = writeln!(out, "# HELP {name} {}\n# TYPE {name} {type_}", self.help);
    }

    /// Appends series after `after` under this name, until there is a piece of text; returns where to continue, if there is more.
    fn render(&self, name: &str, after: Option<&str>, out: &mut String) -> Option<Box<str>> {
        if !selection::is_exported(name) {
            return None;
        }
        if let Type::Read(read) | Type::ReadCounter(read) = self.type_ {
            let mut samples = Samples::default();
            read(&mut samples);
            if !samples.0.is_empty() {
                self.write_head(name, out);
            }
            for (labels, value) in samples.0 {
                sample(out, name, "", &labels, value);
            }
            return None;
        }
        let all = self.series.read().unwrap_or_else(PoisonError::into_inner);
        if after.is_none() {
            // A family without labels exists from the start, as in the client library of Prometheus.
            let is_late = matches!(self.type_, Type::LateGauge | Type::LateCounter);
            if all.is_empty() && (!self.labels.is_empty() || is_late) {
                return None;
            }
            self.write_head(name, out);
            if all.is_empty() {
                self.render_series(name, "", &self.new_series(), out);
            }
        }
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        for (labels, series) in all.range::<str, _>((from, Bound::Unbounded)) {
            self.render_series(name, labels, series, out);
            if out.len() >= PIECE_BYTES {
                return Some(labels.clone());
            }
        }
        None
    }

    fn render_series(&self, name: &str, labels: &str, series: &Series, out: &mut String) {
        match self.type_ {
            Type::Histogram(bounds) => {
                let mut count = 0_u64;
                let separator = if labels.is_empty() { "" } else { "," };
                for (bound, in_bucket) in bounds.iter().zip(series.bucket_counts()) {
                    count = count.saturating_add(in_bucket);
                    _ = writeln!(
                        out,
                        "{name}_bucket{{{labels}{separator}le=\"{}\"}} {count}",
                        go_float(*bound)
                    );
                }
                let total = series.count();
                _ = writeln!(out, "{name}_bucket{{{labels}{separator}le=\"+Inf\"}} {total}");
                sample(out, name, "_sum", labels, series.value());
                sample_int(out, name, "_count", labels, total);
            }
            Type::Summary => {
                for (quantile, value) in QUANTILES.iter().zip(series.quantiles().unwrap_or([f64::NAN; 3])) {
                    sample(out, name, "", &format!("{labels},quantile=\"{}\"", go_float(*quantile)), value);
                }
                sample(out, name, "_sum", labels, series.value());
                sample_int(out, name, "_count", labels, series.count());
            }
            Type::Gauge | Type::LateGauge => sample(out, name, "", labels, series.value()),
            _ => sample_int(out, name, "", labels, series.count()),
        }
    }
}

/// The text of all families, piece by piece.
#[derive(Default)]
pub struct Text {
    family: usize,
    after: Option<Box<str>>,
}

impl Iterator for Text {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        let mut out = String::new();
        while out.len() < PIECE_BYTES {
            let Some((name, family)) = families::sorted().get(self.family) else { break };
            self.after = family.render(name, self.after.as_deref(), &mut out);
            if self.after.is_none() {
                self.family = self.family.saturating_add(1);
            }
        }
        (!out.is_empty()).then_some(out)
    }
}

/// The text of `/metrics/slis`.
pub fn sli_text() -> String {
    let mut out = String::new();
    for family in families::SLIS.iter().chain([&&families::START_TIME]) {
        let mut after = None;
        loop {
            after = family.render(family.name, after.as_deref(), &mut out);
            if after.is_none() {
                break;
            }
        }
    }
    out
}

/// The hash of this server's identity, a label of several families.
static SERVER_ID_HASH: OnceLock<String> = OnceLock::new();

/// Sets the hash of this server's identity, once: there is one server per process.
pub fn set_server_id_hash(hash: String) {
    _ = SERVER_ID_HASH.set(hash);
}

/// The hash of this server's identity; "" if none is set.
pub fn server_id_hash() -> &'static str {
    SERVER_ID_HASH.get().map_or("", String::as_str)
}

/// Removes the results of health checks.
pub fn reset_slis() {
    families::SLIS.iter().for_each(|family| family.reset());
}

/// Resets all counters; gauges remain, because they describe the current state.
pub fn reset() {
    families::sorted()
        .iter()
        .filter(|(_, family)| !matches!(family.type_, Type::Gauge | Type::LateGauge))
        .for_each(|(_, family)| family.reset());
}

/// `a="1",b="2"`, with values escaped and truncated.
fn label_text(names: &[&str], values: &[&str]) -> String {
    let mut out = String::with_capacity(names.len().saturating_mul(24));
    for (name, value) in names.iter().zip(values) {
        if !out.is_empty() {
            out.push(',');
        }
        out.push_str(name);
        out.push_str("=\"");
        escape(value, &mut out);
        out.push('"');
    }
    out
}

fn escape(value: &str, out: &mut String) {
    let end = (0..=VALUE_BYTES_MAX.min(value.len())).rev().find(|at| value.is_char_boundary(*at));
    let value = value.get(..end.unwrap_or(0)).unwrap_or("");
    if !value.bytes().any(|byte| matches!(byte, b'\\' | b'"' | b'\n')) {
        return out.push_str(value);
    }
    for c in value.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
}

fn sample(out: &mut String, name: &str, suffix: &str, labels: &str, value: f64) {
    write_sample(out, name, suffix, labels, &go_float(value));
}

fn sample_int(out: &mut String, name: &str, suffix: &str, labels: &str, value: u64) {
    write_sample(out, name, suffix, labels, &value.to_string());
}

fn write_sample(out: &mut String, name: &str, suffix: &str, labels: &str, value: &str) {
    _ = if labels.is_empty() {
        writeln!(out, "{name}{suffix} {value}")
    } else {
        writeln!(out, "{name}{suffix}{{{labels}}} {value}")
    };
}

/// A number as Go's `strconv.FormatFloat(v, 'g', -1, 64)` writes it.
pub fn go_float(value: f64) -> String {
    if value.is_nan() {
        return "NaN".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "+Inf".into() } else { "-Inf".into() };
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if value == 0.0 || (-4..6).contains(&exponent) {
        return format!("{value}");
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(family: &Family) -> String {
        let mut out = String::new();
        let mut after = family.render(family.name, None, &mut out);
        while let Some(at) = after {
            after = family.render(family.name, Some(&at), &mut out);
        }
        out
    }

    #[test]
    fn series_are_written_as_prometheus_reads_them() {
        let counter = Family::new("requests_total", Type::Counter, &["code", "verb"], "Requests.");
        assert_eq!(text(&counter), "");
        counter.inc(&["200", "GET"]);
        counter.add(&["200", "GET"], 2);
        counter.inc(&["404", "a\"b\\c\nd"]);
        assert_eq!(
            text(&counter),
            "# HELP requests_total Requests.\n# TYPE requests_total counter\n\
             requests_total{code=\"200\",verb=\"GET\"} 3\n\
             requests_total{code=\"404\",verb=\"a\\\"b\\\\c\\nd\"} 1\n"
        );
        let histogram = Family::new("seconds", Type::Histogram(&[0.005, 1.0]), &[], "Time.");
        histogram.observe(&[], 0.5);
        histogram.observe(&[], 4.0);
        assert_eq!(
            text(&histogram),
            "# HELP seconds Time.\n# TYPE seconds histogram\n\
             seconds_bucket{le=\"0.005\"} 0\nseconds_bucket{le=\"1\"} 1\nseconds_bucket{le=\"+Inf\"} 2\n\
             seconds_sum 4.5\nseconds_count 2\n"
        );
    }

    #[test]
    fn retained_series_count_on_after_a_reset() {
        let counter = Family::new("c", Type::Counter, &["a"], "Counts.");
        let retained = counter.with(&["x"]);
        retained.add(5);
        counter.inc(&["y"]);
        counter.reset();
        retained.add(2);
        assert_eq!(text(&counter), "# HELP c Counts.\n# TYPE c counter\nc{a=\"x\"} 2\n");
    }

    #[test]
    fn the_series_of_what_is_gone_disappear() {
        let gauge = Family::new("g", Type::Gauge, &["name"], "Names.");
        gauge.set_all([("a", 1.0), ("b", 0.0)].into_iter());
        gauge.set_all([("b", 1.0)].into_iter());
        assert_eq!(text(&gauge), "# HELP g Names.\n# TYPE g gauge\ng{name=\"b\"} 1\n");
    }

    #[test]
    fn the_number_of_series_is_bounded() {
        let counter = Family::new("c", Type::Counter, &["path"], "Paths.");
        for n in 0..SERIES_MAX + 500 {
            counter.inc(&[&n.to_string()]);
        }
        counter.inc(&[&"x".repeat(1 << 20)]);
        assert_eq!(counter.series.read().unwrap().len(), SERIES_MAX + 1);
        assert!(text(&counter).contains("c{path=\"other\"} 501\n"));
        let long = Family::new("c", Type::Counter, &["path"], "Paths.");
        long.inc(&[&"é".repeat(1 << 20)]);
        assert!(text(&long).len() < 2 * VALUE_BYTES_MAX);
    }

    #[test]
    fn every_family_is_declared_once_with_sorted_labels() {
        let mut names: Vec<&str> = families::sorted().iter().map(|(name, _)| *name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for (_, family) in families::sorted() {
            assert!(family.labels.is_sorted(), "{}", family.name);
        }
    }

    #[test]
    fn numbers_are_written_as_go_writes_them() {
        for (value, want) in [
            (0.0, "0"),
            (1e-5, "1e-05"),
            (0.0001, "0.0001"),
            (2.592e6, "2.592e+06"),
            (100.0, "100"),
            (1e9, "1e+09"),
            (f64::INFINITY, "+Inf"),
        ] {
            assert_eq!(go_float(value), want);
        }
    }
}
