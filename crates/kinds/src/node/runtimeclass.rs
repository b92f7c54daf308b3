//! RuntimeClass: its handler, the overhead of pods and the nodes that have it.

use super::labels::deprecation;
use crate::check;
use crate::core::resources::{amounts, is_huge_pages, validate_amount, validate_container_name};
use crate::fields::{entries, list, member, opt_int, text};
use crate::shown::{Field, Internal, NULL, TEXT};
use crate::{Hooks, Scope, metadata};
use pintle_meta::field::Named;
use pintle_meta::selector::label_validation::{validate_label_name, validate_labels};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};
use std::collections::HashSet;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
/// A toleration as Go's internal type has it.
const TOLERATION: [Field; 5] = [
    Field("key", "Key", TEXT),
    Field("operator", "Operator", TEXT),
    Field("value", "Value", TEXT),
    Field("effect", "Effect", TEXT),
    Field("tolerationSeconds", "TolerationSeconds", NULL),
];

pub(crate) struct RuntimeClass;

impl Hooks for RuntimeClass {
    fn prepare_update(&self, _scope: Scope<'_>, _object: &mut Value, _old: &Value) {}

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_class(object, errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        metadata::validate_as_new(self, false, object, errors);
        validate_class(object, errors);
        check::immutable(object.get("handler"), old.get("handler"), &Path::of("handler"), errors);
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let labels = entries(object.at(&["scheduling", "nodeSelector"]));
        labels
            .filter_map(|(label, _)| deprecation(label))
            .map(|advice| format!("scheduling.nodeSelector: {advice}"))
            .collect()
    }
}

fn validate_class(object: &Value, errors: &mut FieldErrors) {
    let handler = text(object, "handler");
    let path = Path::of("handler");
    if handler.is_empty() {
        errors.required(&path, "");
    } else {
        check::each(names::dns_label(handler, false), &path, handler, errors);
    }
    if let Some(overhead) = member(object, "overhead") {
        validate_overhead(overhead, errors);
    }
    if let Some(scheduling) = member(object, "scheduling") {
        let path = Path::of("scheduling");
        let labels = scheduling.get("nodeSelector").and_then(Value::as_object);
        validate_labels(labels, &path.field("nodeSelector"), errors);
        validate_tolerations(list(scheduling, "tolerations"), &path.field("tolerations"), errors);
    }
}

/// The overhead is checked as if it were the limits of a container.
fn validate_overhead(overhead: &Value, errors: &mut FieldErrors) {
    let root = Path::of("overhead");
    let path = root.field("limits");
    let fixed = overhead.get("podFixed");
    for (name, amount) in amounts(fixed) {
        validate_container_name(name, &path.key(name), errors);
        validate_amount(name, &amount, &path.key(name), errors);
    }
    let has = |wanted: fn(&str) -> bool| amounts(fixed).any(|(name, _)| wanted(name));
    if has(is_huge_pages) && !has(|name| matches!(name, "cpu" | "memory")) {
        errors.forbidden(&root, "HugePages require cpu or memory");
    }
}

fn validate_tolerations(tolerations: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    for (i, toleration) in tolerations.iter().enumerate() {
        validate_toleration(toleration, &path.index(i), errors);
    }
    let mut seen = HashSet::new();
    for (i, toleration) in tolerations.iter().enumerate() {
        let key = ["key", "operator", "value", "effect"].map(|field| text(toleration, field));
        if !seen.insert(key) {
            errors.duplicate(&path.index(i), Internal(Some(toleration), &TOLERATION));
        }
    }
}

fn validate_toleration(toleration: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let [key, operator, value, effect] = ["key", "operator", "value", "effect"].map(|f| text(toleration, f));
    let at = path.field("operator");
    if !key.is_empty() {
        validate_label_name(key, &path.field("key"), errors);
    } else if operator != "Exists" {
        let detail =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.invalid(&at, Named(operator), detail);
    }
    if opt_int(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(&path.field("effect"), Named(effect), detail);
    }
    match operator {
        "Equal" | "" => {
            let complaints = names::is_label_value(value);
            if !complaints.is_empty() {
                errors.invalid(&at, value, &complaints.join(";"));
            }
        }
        "Exists" if !value.is_empty() => {
            errors.invalid(&at, value, "value must be empty when `operator` is 'Exists'");
        }
        "Exists" => {}
        "Lt" | "Gt" => errors.not_supported(&at, Named(operator), &["Equal", "Exists", "Lt", "Gt"]),
        other => errors.not_supported(&at, Named(other), &["Equal", "Exists"]),
    }
    if !effect.is_empty() {
        check::supported(&path.field("effect"), Some(effect), &EFFECTS, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::created;

    #[test]
    fn overhead_and_tolerations_are_checked() {
        assert_eq!(
            created(
                &RuntimeClass,
                r#"{"handler":"h","overhead":{"podFixed":{"cpu":"-1"}},"scheduling":{"tolerations":[{"key":"k","operator":"Exists","value":"v"},{"key":"z"},{"key":"z"}]}}"#
            ),
            [
                r#"overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0"#,
                r#"scheduling.tolerations[0].operator: Invalid value: "v": value must be empty when `operator` is 'Exists'"#,
                r#"scheduling.tolerations[2]: Duplicate value: {"Key":"z","Operator":"","Value":"","Effect":"","TolerationSeconds":null}"#,
            ]
        );
    }
}
