//! Counts how often APIServices became unavailable, for the metric of that name.

use pintle_value::Str;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, PoisonError};

/// Most pairs of name and reason; further ones are not counted.
const SERIES_MAX: usize = 1000;
const NAME: &str = "aggregator_unavailable_apiservice_total";

/// By the name of the APIService and the reason of its condition.
#[derive(Default)]
pub(super) struct Failures(Mutex<BTreeMap<(Str, &'static str), u64>>);

impl Failures {
    /// Counts that an APIService became unavailable.
    pub(super) fn count(&self, name: &str, reason: &'static str) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (Str::from(name), reason);
        if all.len() < SERIES_MAX || all.contains_key(&key) {
            let count = all.entry(key).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Appends the metric; nothing if no APIService ever became unavailable.
    pub(super) fn render(&self, out: &mut String) {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return;
        }
        _ = writeln!(
            out,
            "# HELP {NAME} [ALPHA] Counter of APIServices which are marked as unavailable broken down by APIService name and reason."
        );
        _ = writeln!(out, "# TYPE {NAME} counter");
        for ((name, reason), count) in all.iter() {
            _ = writeln!(out, "{NAME}{{name=\"{name}\",reason=\"{reason}\"}} {count}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_by_name_and_reason_and_their_number_is_bounded() {
        let failures = Failures::default();
        let mut out = String::new();
        failures.render(&mut out);
        assert_eq!(out, "");
        failures.count("v1.a", "FailedDiscoveryCheck");
        failures.count("v1.a", "FailedDiscoveryCheck");
        failures.count("v1.a", "ServiceNotFound");
        (0..2 * SERIES_MAX).for_each(|n| failures.count(&format!("v1.{n}"), "ServiceNotFound"));
        failures.count("v1.a", "ServiceNotFound");
        failures.render(&mut out);
        assert!(out.contains("{name=\"v1.a\",reason=\"FailedDiscoveryCheck\"} 2\n"), "{out}");
        assert!(out.contains("{name=\"v1.a\",reason=\"ServiceNotFound\"} 2\n"), "{out}");
        assert_eq!(out.lines().count(), 2 + SERIES_MAX);
    }
}
