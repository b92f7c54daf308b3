//! ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding: where a policy applies.

use super::{Role, name_warnings, rules};
use crate::{Hooks, check, facts, fields};
use pintle_meta::field::Named;
use pintle_meta::selector::label_validation::{Leniency, validate_label_selector};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

const ACTIONS: [&str; 3] = ["Audit", "Deny", "Warn"];

pub(crate) struct PolicyBinding(pub(crate) Role);

impl Hooks for PolicyBinding {
    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        name_warnings(object)
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let path = Path::of("spec");
        facts::check(spec, "admissionregistration/v1.MutatingAdmissionPolicyBindingSpec", &path, errors);
        if let Some(params) = fields::member(spec, "paramRef") {
            validate_params(params, &path.field("paramRef"), errors);
        }
        if let Some(matches) = fields::member(spec, "matchResources") {
            let at = path.field("matchResources");
            rules::validate_match_resources(matches, &at, errors);
            if self.0 == Role::Mutating {
                rules::validate_mutating_operations(matches, &at, errors);
            }
        }
        if self.0 == Role::Validating {
            validate_actions(spec, &path.field("validationActions"), errors);
        }
    }
}

fn validate_params(params: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let name = fields::text(params, "name");
    let selector = fields::member(params, "selector");
    let why = "name and selector are mutually exclusive";
    if !name.is_empty() {
        check::each(names::path_segment_name(name, false), &path.field("name"), name, errors);
        if selector.is_some() {
            errors.forbidden(&path.field("name"), why);
        }
    }
    if selector.is_some() {
        validate_label_selector(selector, Leniency::default(), &path.field("selector"), errors);
        if !name.is_empty() {
            errors.forbidden(&path.field("selector"), why);
        }
    }
    if name.is_empty() && selector.is_none() {
        errors.required(path, "one of name or selector must be specified");
    }
    facts::check(params, "admissionregistration/v1.ParamRef", path, errors);
}

fn validate_actions(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let actions = fields::strings(spec, "validationActions");
    let mut seen = check::Unique::default();
    for (at, action) in actions.iter().enumerate() {
        check::supported(&path.index(at), Some(action), &ACTIONS, errors);
        seen.check(action, &path.index(at), Named(action), errors);
    }
    let has = |wanted: &str| actions.iter().any(|action| action == wanted);
    if has("Deny") && has("Warn") {
        let why = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.invalid(path, &actions[..], why);
    }
    if actions.is_empty() {
        errors.required(path, "at least one validation action is required");
    }
}
