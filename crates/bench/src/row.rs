//! A row of results, and how rows are printed.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Map, Value};

/// The result of one measurement; values that do not apply are omitted.
#[derive(Debug, Clone, Default)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) clients: usize,
    pub(crate) ops: u64,
    pub(crate) numbers: Vec<(&'static str, f64)>,
}

/// Latencies of many operations, in nanoseconds.
#[derive(Debug, Default)]
pub(crate) struct Latencies(pub(crate) Vec<u64>);

impl Latencies {
    pub(crate) fn add(&mut self, took: Duration) {
        self.0.push(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX));
    }

    /// The latency at this quantile, in milliseconds.
    pub(crate) fn quantile_ms(&mut self, share: f64) -> f64 {
        self.0.sort_unstable();
        let last = self.0.len().saturating_sub(1);
        let at = ((self.0.len() as f64 * share) as usize).min(last);
        self.0.get(at).copied().unwrap_or_default() as f64 / 1e6
    }
}

const COLUMNS: [&str; 6] =
    ["ops_per_s", "p50_ms", "p99_ms", "cpu_us_per_op", "ops_per_cpu_s", "client_cpu_us_per_op"];

impl Row {
    /// A single named number.
    pub(crate) fn single(name: &str, number: &'static str, value: f64) -> Row {
        Row { name: name.to_owned(), numbers: vec![(number, value)], ..Row::default() }
    }

    fn number(&self, name: &str) -> Option<f64> {
        self.numbers.iter().find(|(n, _)| *n == name).map(|(_, value)| *value)
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut map = Map::new();
        map.insert("name".to_owned(), self.name.as_str().into());
        map.insert("clients".to_owned(), self.clients.into());
        map.insert("ops".to_owned(), self.ops.into());
        for (name, value) in &self.numbers {
            map.insert((*name).to_owned(), round(*value).into());
        }
        Value::Object(map)
    }

    /// A line of the table; numbers without a column follow with their names.
    pub(crate) fn to_line(&self) -> String {
        let mut line = format!("{:<24}{:>8}{:>9}", self.name, dash(self.clients as u64), dash(self.ops));
        for column in COLUMNS {
            let text = self.number(column).map_or("-".to_owned(), short);
            let _ = write!(line, "{text:>width$}", width = column.len() + 2);
        }
        for (name, value) in self.numbers.iter().filter(|(name, _)| !COLUMNS.contains(name)) {
            let _ = write!(line, "  {name}={}", short(*value));
        }
        line
    }
}

/// The line above the table.
pub(crate) fn header() -> String {
    let mut line = format!("{:<24}{:>8}{:>9}", "bench", "clients", "ops");
    for column in COLUMNS {
        let _ = write!(line, "{column:>width$}", width = column.len() + 2);
    }
    line
}

fn dash(n: u64) -> String {
    if n == 0 { "-".to_owned() } else { n.to_string() }
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// A number with about three digits.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        v if v >= 100.0 => 0,
        v if v >= 10.0 => 1,
        v if v >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles() {
        let mut latencies = Latencies((1..=1000).rev().map(|ms| ms * 1_000_000).collect());
        assert_eq!(latencies.quantile_ms(0.5), 501.0);
        assert_eq!(latencies.quantile_ms(0.99), 991.0);
        assert_eq!(latencies.quantile_ms(1.0), 1000.0);
        assert_eq!(Latencies::default().quantile_ms(0.5), 0.0);
    }

    #[test]
    fn lines_have_the_width_of_the_header() {
        let row = Row {
            name: "get".into(),
            clients: 1,
            ops: 5,
            numbers: vec![("ops_per_s", 12345.6), ("rss_mib", 3.25)],
        };
        assert!(row.to_line().contains("12346") && row.to_line().ends_with("rss_mib=3.25"));
        assert_eq!(Row::single("x", "p50_ms", 1.0).to_line().len(), header().len());
    }
}
