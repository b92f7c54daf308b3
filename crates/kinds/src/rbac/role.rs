//! Role and ClusterRole: each rule is either about resources or about paths.

use crate::{Hooks, Scope, fields};
use pintle_meta::field::Plain;
use pintle_meta::selector::label_validation::{Leniency, has_invalid_label_value, validate_label_selector};
use pintle_meta::{FieldErrors, LabelSelector, names};
use pintle_value::{Path, Value};

pub(crate) struct Role {
    pub(crate) namespaced: bool,
}

impl Hooks for Role {
    fn name_errors(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment_name(name, false)
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        self.validate(object, false, errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        let lenient = selectors(old).iter().any(has_invalid_label_value);
        self.validate(object, lenient, errors);
    }
}

impl Role {
    fn validate(&self, object: &Value, lenient: bool, errors: &mut FieldErrors) {
        let rules = Path::of("rules");
        for (at, rule) in fields::list(object, "rules").iter().enumerate() {
            validate_rule(rule, self.namespaced, &rules.index(at), errors);
        }
        if object.get("aggregationRule").is_none_or(Value::is_null) {
            return;
        }
        let path = Path::of("aggregationRule.clusterRoleSelectors");
        if selectors(object).is_empty() {
            errors.required(&path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
        }
        for (at, selector) in selectors(object).iter().enumerate() {
            let leniency = Leniency { invalid_values: lenient, ..Leniency::default() };
            validate_label_selector(Some(selector), leniency, &path.index(at), errors);
            if LabelSelector::from_value(selector).is_err() {
                errors.invalid(&path.index(at), Plain("null"), "invalid label selector.");
            }
        }
    }
}

fn selectors(object: &Value) -> &[Value] {
    object.items_at(&["aggregationRule", "clusterRoleSelectors"])
}

fn validate_rule(rule: &Value, namespaced: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    let has = |key: &str| !fields::list(rule, key).is_empty();
    if !has("verbs") {
        errors.required(&path.field("verbs"), "verbs must contain at least one value");
    }
    if has("nonResourceURLs") {
        let urls = fields::strings(rule, "nonResourceURLs");
        let at = path.field("nonResourceURLs");
        if namespaced {
            errors.invalid(&at, &urls[..], "namespaced rules cannot apply to non-resource URLs");
        }
        if has("apiGroups") || has("resources") || has("resourceNames") {
            errors.invalid(
                &at,
                &urls[..],
                "rules cannot apply to both regular resources and non-resource URLs",
            );
        }
        return;
    }
    if !has("apiGroups") {
        errors.required(&path.field("apiGroups"), "resource rules must supply at least one api group");
    }
    if !has("resources") {
        errors.required(&path.field("resources"), "resource rules must supply at least one resource");
    }
}
