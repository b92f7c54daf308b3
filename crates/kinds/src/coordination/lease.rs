//! Lease: validates durations, transitions and the fields of coordinated leader election.

use crate::{Hooks, check, facts};
use pintle_meta::FieldErrors;
use pintle_meta::field::Named;
use pintle_meta::names;
use pintle_value::{Path, Value};

const STRATEGY: &str = "OldestEmulationVersion";

pub(crate) struct Lease;

impl Hooks for Lease {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let path = Path::of("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        facts::check(spec, "coordination/v1.LeaseSpec", &path, errors);
        let strategy = object.at(&["spec", "strategy"]).and_then(Value::as_str);
        if let Some(strategy) = strategy {
            validate_strategy(strategy, &path.field("strategy"), errors);
        }
        let preferred = object.str_at(&["spec", "preferredHolder"]);
        if !preferred.is_empty() && strategy.unwrap_or("").is_empty() {
            let detail = "may only be specified if `strategy` is defined";
            errors.forbidden(&path.field("preferredHolder"), detail);
        }
    }
}

pub(super) fn validate_strategy(strategy: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let path = path.field("strategy");
    if !strategy.contains('/') {
        if strategy != STRATEGY {
            errors.not_supported(&path, Named(strategy), &[STRATEGY]);
        }
        return;
    }
    check::each(names::is_qualified_name(strategy), &path, Named(strategy), errors);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::created;

    #[test]
    fn numbers_are_in_range() {
        assert_eq!(
            created(&Lease, r#"{"spec":{"leaseDurationSeconds":0,"leaseTransitions":-1}}"#),
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"
            ]
        );
    }
}
