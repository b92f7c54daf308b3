//! Counters for `/metrics`, in the text format that Prometheus reads.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Upper bounds of the buckets of request durations, in seconds.
const BUCKETS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// Most label sets that are kept; what comes after is not counted, so that odd paths cannot fill the memory.
const SERIES_MAX: usize = 10_000;

/// What a request counts under.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Labels {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) resource: String,
    pub(crate) subresource: String,
    pub(crate) scope: &'static str,
}

#[derive(Default)]
struct Series {
    by_code: BTreeMap<u16, u64>,
    buckets: [u64; BUCKETS.len()],
    sum_seconds: f64,
    count: u64,
}

/// A figure that somebody else keeps: name, help, and where to read it.
type Gauge = (&'static str, &'static str, Box<dyn Fn() -> f64 + Send + Sync>);

/// Appends metrics that somebody else keeps.
type Source = Box<dyn Fn(&mut String) + Send + Sync>;

/// All counters.
pub struct Metrics {
    started: Instant,
    started_unix: Duration,
    series: Mutex<BTreeMap<Labels, Series>>,
    inflight: AtomicI64,
    gauges: Mutex<Vec<Gauge>>,
    sources: Mutex<Vec<Source>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Metrics {
            started: Instant::now(),
            started_unix: SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default(),
            series: Mutex::default(),
            inflight: AtomicI64::new(0),
            gauges: Mutex::default(),
            sources: Mutex::default(),
        }
    }
}

impl Metrics {
    /// Adds a figure that is read when somebody asks, such as the size of the store.
    pub fn add_gauge(
        &self,
        name: &'static str,
        help: &'static str,
        read: impl Fn() -> f64 + Send + Sync + 'static,
    ) {
        if let Ok(mut gauges) = self.gauges.lock() {
            gauges.push((name, help, Box::new(read)));
        }
    }

    /// Adds text that somebody else writes when it is asked for.
    pub fn add_source(&self, write: impl Fn(&mut String) + Send + Sync + 'static) {
        if let Ok(mut sources) = self.sources.lock() {
            sources.push(Box::new(write));
        }
    }

    pub(crate) fn request_begins(&self) {
        self.inflight.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn request_ends(&self, labels: Labels, code: u16, took: Duration) {
        self.inflight.fetch_sub(1, Ordering::Relaxed);
        let Ok(mut all) = self.series.lock() else { return };
        if all.len() >= SERIES_MAX && !all.contains_key(&labels) {
            return;
        }
        let series = all.entry(labels).or_default();
        *series.by_code.entry(code).or_default() += 1;
        let seconds = took.as_secs_f64();
        series.sum_seconds += seconds;
        series.count += 1;
        for (bucket, bound) in series.buckets.iter_mut().zip(BUCKETS) {
            *bucket += u64::from(seconds <= *bound);
        }
    }

    /// Forgets what was counted.
    pub(crate) fn reset(&self) {
        if let Ok(mut series) = self.series.lock() {
            series.clear();
        }
    }

    /// The text of `/metrics`.
    pub(crate) fn render(&self) -> String {
        let mut out = String::with_capacity(16 * 1024);
        self.render_requests(&mut out);
        let inflight = self.inflight.load(Ordering::Relaxed);
        head(&mut out, "apiserver_current_inflight_requests", "gauge", "Requests that are being worked on.");
        _ = writeln!(out, "apiserver_current_inflight_requests{{request_kind=\"readOnly\"}} {inflight}");
        if let Ok(gauges) = self.gauges.lock() {
            for (name, help, read) in gauges.iter() {
                head(&mut out, name, "gauge", help);
                _ = writeln!(out, "{name} {}", read());
            }
        }
        if let Ok(sources) = self.sources.lock() {
            sources.iter().for_each(|write| write(&mut out));
        }
        self.render_process(&mut out);
        out
    }

    fn render_requests(&self, out: &mut String) {
        let Ok(all) = self.series.lock() else { return };
        head(out, "apiserver_request_total", "counter", "Requests by verb, resource and status code.");
        for (labels, series) in all.iter() {
            for (code, count) in &series.by_code {
                let base = labels.render();
                _ = writeln!(out, "apiserver_request_total{{code=\"{code}\",{base}}} {count}");
            }
        }
        head(out, "apiserver_request_duration_seconds", "histogram", "Duration of requests.");
        for (labels, series) in all.iter() {
            let base = labels.render();
            let name = "apiserver_request_duration_seconds";
            for (bound, count) in BUCKETS.iter().zip(series.buckets) {
                _ = writeln!(out, "{name}_bucket{{{base},le=\"{bound}\"}} {count}");
            }
            _ = writeln!(out, "{name}_bucket{{{base},le=\"+Inf\"}} {}", series.count);
            _ = writeln!(out, "{name}_sum{{{base}}} {}", series.sum_seconds);
            _ = writeln!(out, "{name}_count{{{base}}} {}", series.count);
        }
    }

    fn render_process(&self, out: &mut String) {
        head(out, "process_start_time_seconds", "gauge", "When the process began, in seconds since 1970.");
        _ = writeln!(out, "process_start_time_seconds {}", self.started_unix.as_secs_f64());
        head(out, "process_uptime_seconds", "gauge", "How long the process has run.");
        _ = writeln!(out, "process_uptime_seconds {}", self.started.elapsed().as_secs_f64());
        if let Some(bytes) = resident_bytes() {
            head(out, "process_resident_memory_bytes", "gauge", "Resident memory.");
            _ = writeln!(out, "process_resident_memory_bytes {bytes}");
        }
    }
}

impl Labels {
    fn render(&self) -> String {
        let Labels { verb, group, version, resource, subresource, scope } = self;
        format!(
            "component=\"apiserver\",group=\"{group}\",resource=\"{resource}\",scope=\"{scope}\",subresource=\"{subresource}\",verb=\"{verb}\",version=\"{version}\""
        )
    }
}

fn head(out: &mut String, name: &str, type_: &str, help: &str) {
    _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {type_}");
}

/// Resident memory, where the system tells.
fn resident_bytes() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_counted_by_label_and_code() {
        let metrics = Metrics::default();
        let labels =
            Labels { verb: "GET".into(), resource: "pods".into(), scope: "namespace", ..Labels::default() };
        for code in [200, 200, 404] {
            metrics.request_begins();
            metrics.request_ends(labels.clone(), code, Duration::from_millis(30));
        }
        let text = metrics.render();
        assert!(text.contains("apiserver_request_total{code=\"200\",component=\"apiserver\",group=\"\",resource=\"pods\",scope=\"namespace\",subresource=\"\",verb=\"GET\",version=\"\"} 2\n"));
        assert!(text.contains("le=\"0.025\"} 0\n"));
        assert!(text.contains("le=\"0.05\"} 3\n"));
        assert!(text.contains("apiserver_current_inflight_requests{request_kind=\"readOnly\"} 0\n"));
    }
}
