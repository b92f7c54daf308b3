//! Which families and label values are exported: `--disabled-metrics`, `--allow-metric-labels` and
//! `--show-hidden-metrics-for-version`.

use crate::families;
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

/// The value of a label whose own value is not allowed.
const UNEXPECTED: &str = "unexpected";

static SELECTION: OnceLock<Selection> = OnceLock::new();

/// The values of the flags that disable metrics or allow label values. Without them, everything is exported.
#[derive(Default)]
pub struct Selection {
    /// Names of families that are not exported.
    pub disabled: BTreeSet<String>,
    /// Allowed values by family and label.
    pub allowed: BTreeMap<String, BTreeMap<String, BTreeSet<String>>>,
    /// Whether families are also exported under their deprecated names.
    pub shows_hidden: bool,
}

impl Selection {
    /// Puts the selection into effect, once and before anything is counted.
    pub fn apply(self) {
        families::DISABLED_METRICS.add(&[], u64::try_from(self.disabled.len()).unwrap_or(u64::MAX));
        let hidden = if self.shows_hidden { 0 } else { families::HIDDEN.len() };
        families::HIDDEN_METRICS.add(&[], u64::try_from(hidden).unwrap_or(u64::MAX));
        _ = SELECTION.set(self);
    }

    fn constrain_labels<'a>(
        &self,
        family: &str,
        labels: &[&str],
        values: &'a [&'a str],
    ) -> Cow<'a, [&'a str]> {
        let Some(allowed) = self.allowed.get(family) else { return Cow::Borrowed(values) };
        let constrained = labels.iter().zip(values).map(|(label, value)| match allowed.get(*label) {
            Some(allowed) if !allowed.contains(*value) => {
                families::UNEXPECTED_LABEL_VALUES.inc(&[]);
                UNEXPECTED
            }
            _ => value,
        });
        Cow::Owned(constrained.collect())
    }
}

/// Returns whether a family is exported.
pub(crate) fn is_exported(family: &str) -> bool {
    SELECTION.get().is_none_or(|selection| !selection.disabled.contains(family))
}

/// Returns whether families are also exported under their deprecated names.
pub(crate) fn shows_hidden() -> bool {
    SELECTION.get().is_some_and(|selection| selection.shows_hidden)
}

/// Replaces label values that are not allowed.
pub(crate) fn constrain_labels<'a>(
    family: &str,
    labels: &[&str],
    values: &'a [&'a str],
) -> Cow<'a, [&'a str]> {
    match SELECTION.get() {
        None => Cow::Borrowed(values),
        Some(selection) => selection.constrain_labels(family, labels, values),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_are_not_allowed_are_replaced() {
        let verbs: BTreeMap<_, _> = [("verb".to_string(), BTreeSet::from(["GET".to_string()]))].into();
        let selection =
            Selection { allowed: [("requests".to_string(), verbs)].into(), ..Selection::default() };
        for (family, values, want) in [
            ("requests", ["200", "GET"], ["200", "GET"]),
            ("requests", ["200", "POST"], ["200", UNEXPECTED]),
            ("others", ["200", "POST"], ["200", "POST"]),
        ] {
            assert_eq!(*selection.constrain_labels(family, &["code", "verb"], &values), want);
        }
    }
}
