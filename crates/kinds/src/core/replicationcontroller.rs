//! ReplicationController: selector and labels default to those of its template.

use crate::core::podspec::{self, options::Options, warnings};
use crate::fields::{entries, member};
use crate::fill::map_at;
use crate::{Hooks, Scope, facts, workload};
use pintle_meta::FieldErrors;
use pintle_meta::field::{ErrorKind, ErrorText};
use pintle_value::{Path, Value};

const SPEC: Path<'static> = Path::of("spec");
const TYPE: &str = "core/v1.ReplicationControllerSpec";
/// The prefix of annotations that name non-convertible fields.
const NON_CONVERTIBLE: &str = "non-convertible.kubernetes.io";

pub(crate) struct ReplicationController;

/// A controller without a selector or labels gets the labels of its template.
pub(crate) fn default_from_template(object: &mut Value) {
    if let Some(labels) = map_at(object, &["spec", "template", "metadata", "labels"]).cloned() {
        for at in [["spec", "selector"], ["metadata", "labels"]] {
            if map_at(object, &at).is_none_or(|m| m.is_empty()) {
                object.set_at(&at, labels.clone().into());
            }
        }
    }
}

impl Hooks for ReplicationController {
    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        pintle_meta::names::long_name(name, prefix)
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(workload::spec_of(object), &Options::of_template(None), errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Sub("status") {
            return crate::apps::validate_replica_status(workload::status(object), errors);
        }
        let options = Options::of_template(old.at(&["spec", "template"]));
        validate_spec(workload::spec_of(object), &options, errors);
        validate_non_convertible(object, old, errors);
    }

    /// On updates, kube-apiserver passes the old template as the new one, so we do.
    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let (at, path) = (["spec", "template"], SPEC.field("template"));
        let Some(old) = old else {
            let mut found: Vec<String> =
                workload::name_warning(object, workload::POD_NAMES).into_iter().collect();
            found.extend(warnings::template(object.at(&at), &path));
            return found;
        };
        if podspec::options::generation(old) == podspec::options::generation(object) {
            return Vec::new();
        }
        warnings::template(old.at(&at), &path)
    }
}

/// Annotations name fields that another version of the object had and this one cannot express: they must not change.
fn validate_non_convertible(object: &Value, old: &Value, errors: &mut FieldErrors) {
    for (key, value) in entries(old.at(&["metadata", "annotations"])) {
        let Some((prefix, field)) = key.split_once('/') else { continue };
        if !prefix.starts_with(NON_CONVERTIBLE) || field.contains('/') {
            continue;
        }
        if !field.contains("selector") {
            let value = value.as_str().unwrap_or("").error_text();
            errors.push(ErrorKind::NotFound, &Path::of(field), Some(&value), "unknown non-convertible field");
        } else if !entries(old.at(&["spec", "selector"])).eq(entries(object.at(&["spec", "selector"]))) {
            let selector = object.at(&["spec", "selector"]);
            errors.invalid(&SPEC.field("selector"), selector, "cannot update non-convertible selector");
        }
    }
}

fn validate_spec(spec: &Value, options: &Options, errors: &mut FieldErrors) {
    facts::check_fields(spec, TYPE, &["minReadySeconds"], &SPEC, errors);
    let selector = spec.get("selector");
    let empty = entries(selector).next().is_none();
    if empty {
        errors.required(&SPEC.field("selector"), "");
    }
    facts::check_fields(spec, TYPE, &["replicas"], &SPEC, errors);
    let Some(template) = member(spec, "template") else {
        return errors.required(&SPEC.field("template"), "");
    };
    let selects = |(key, value): (&str, &Value)| template.at(&["metadata", "labels", key]) == Some(value);
    if !empty && !entries(selector).all(selects) {
        workload::report_unselected_template(spec, &SPEC, errors);
    }
    workload::validate_running_template(spec, "ReplicationController", &SPEC, options, errors);
}
