//! Validates tolerations and scheduling gates.

use super::options::Options;
use crate::check;
use crate::fields::{list, member, opt_text, text};
use pintle_meta::field::Named;
use pintle_meta::selector::label_validation::validate_label_name;
use pintle_meta::{FieldErrors, names, strconv};
use pintle_value::{Path, Value};
use std::collections::HashSet;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Validates tolerations outside of a pod.
pub fn validate_tolerations(all: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    validate_tolerations_with(all, path, &Options::of_features(), errors);
}

/// Checks tolerations.
pub(crate) fn validate_tolerations_with(
    tolerations: &[Value],
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    for (at, toleration) in tolerations.iter().enumerate() {
        validate_toleration(toleration, &path.index(at), options, errors);
    }
}

fn validate_toleration(toleration: &Value, path: &Path<'_>, options: &Options, errors: &mut FieldErrors) {
    let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
    let effect = text(toleration, "effect");
    if !key.is_empty() {
        validate_label_name(key, &path.field("key"), errors);
    }
    if key.is_empty() && operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.invalid(&path.field("operator"), Named(operator), detail);
    }
    if member(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(&path.field("effect"), Named(effect), detail);
    }
    validate_operator_and_value(operator, text(toleration, "value"), path, options, errors);
    if !effect.is_empty() {
        check::supported(&path.field("effect"), Some(effect), &EFFECTS, errors);
    }
}

fn validate_operator_and_value(
    operator: &str,
    value: &str,
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    let field = path.field("operator");
    match operator {
        "Equal" | "" => {
            let complaints = names::is_label_value(value);
            if !complaints.is_empty() {
                errors.invalid(&field, value, &complaints.join(";"));
            }
        }
        "Exists" => {
            if !value.is_empty() {
                errors.invalid(&field, value, "value must be empty when `operator` is 'Exists'");
            }
        }
        "Lt" | "Gt" if !options.toleration_comparisons => {
            errors.not_supported(&field, Named(operator), &["Equal", "Exists", "Lt", "Gt"]);
        }
        "Lt" | "Gt" => {
            let field = path.field("value");
            check::each(names::is_decimal_integer(value), &field, value, errors);
            if let Err(error) = strconv::parse_int(value) {
                errors.invalid(&field, value, &error.to_string());
            }
        }
        other => errors.not_supported(&field, Named(other), &["Equal", "Exists"]),
    }
}

/// Existing tolerations may only change their seconds; new ones must be valid.
pub(crate) fn require_only_additions(
    new: &[Value],
    old: &[Value],
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    let without_seconds =
        |toleration| ["key", "operator", "value", "effect"].map(|field| opt_text(toleration, field));
    let present: HashSet<_> = new.iter().map(without_seconds).collect();
    if !old.iter().all(|old| present.contains(&without_seconds(old))) {
        return errors
            .forbidden(path, "existing toleration can not be modified except its tolerationSeconds");
    }
    validate_tolerations_with(new, path, options, errors);
}

/// Checks scheduling gates.
pub(crate) fn validate_gates(gates: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    let mut seen = check::Unique::default();
    for (at, gate) in gates.iter().enumerate() {
        let name = text(gate, "name");
        check::qualified_name(&path.index(at), name, errors);
        seen.check(name, &path.index(at), name, errors);
    }
}

/// Scheduling gates of an existing pod can only be removed.
pub(crate) fn require_only_removed_gates(
    new: &Value,
    old: &Value,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let old: HashSet<&str> = list(old, "schedulingGates").iter().map(|g| text(g, "name")).collect();
    for (at, gate) in list(new, "schedulingGates").iter().enumerate() {
        let name = text(gate, "name");
        if !old.contains(name) {
            let detail = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.forbidden(&path.index(at).field("name"), &detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn tolerations_may_only_be_added() {
        let old = tree(r#"[{"key":"a","operator":"Exists","tolerationSeconds":5,"effect":"NoExecute"}]"#);
        for (new, expected) in [
            (
                r#"[{"key":"a","operator":"Exists","tolerationSeconds":9,"effect":"NoExecute"},{"operator":"Exists"}]"#,
                None,
            ),
            (
                "[]",
                Some("t: Forbidden: existing toleration can not be modified except its tolerationSeconds"),
            ),
        ] {
            let mut errors = FieldErrors::new();
            let (new, old) = (tree(new), old.as_array().unwrap());
            require_only_additions(
                new.as_array().unwrap(),
                old,
                &Path::of("t"),
                &Options::default(),
                &mut errors,
            );
            assert_eq!(errors.0.first().map(ToString::to_string).as_deref(), expected, "{new:?}");
        }
    }
}
