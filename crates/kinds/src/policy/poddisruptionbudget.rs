//! PodDisruptionBudget.

use crate::error_text::Internal;
use crate::fields::member;
use crate::{Hooks, Scope, check, facts, workload};
use pintle_meta::selector::label_validation::{Leniency, validate_label_selector};
use pintle_meta::{FieldErrors, conditions};
use pintle_value::{Path, Value};

pub(crate) struct PodDisruptionBudget;

impl Hooks for PodDisruptionBudget {
    fn validates_metadata(&self) -> bool {
        false
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(workload::spec_of(object), Leniency::default(), errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Sub("status") {
            return validate_status(workload::status(object), errors);
        }
        let leniency = Leniency::after(old.at(&["spec", "selector"]));
        validate_spec(workload::spec_of(object), leniency, errors);
    }
}

fn validate_spec(spec: &Value, leniency: Leniency, errors: &mut FieldErrors) {
    let path = Path::of("spec");
    if member(spec, "minAvailable").is_some() && member(spec, "maxUnavailable").is_some() {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.invalid(&path, Internal(Some(spec), "policy/v1.PodDisruptionBudgetSpec"), detail);
    }
    for key in ["minAvailable", "maxUnavailable"] {
        let Some(value) = member(spec, key) else { continue };
        check::nonnegative_int_or_percent(&path.field(key), value, errors);
        check::not_above_hundred_percent(&path.field(key), value, errors);
    }
    validate_label_selector(spec.get("selector"), leniency, &path.field("selector"), errors);
    facts::check(spec, "policy/v1.PodDisruptionBudgetSpec", &path, errors);
}

fn validate_status(status: &Value, errors: &mut FieldErrors) {
    let path = Path::of("status");
    conditions::validate_conditions(status.items_at(&["conditions"]), &path.field("conditions"), errors);
    facts::check(status, "policy/v1.PodDisruptionBudgetStatus", &path, errors);
}
