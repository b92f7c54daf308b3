//! DaemonSet. The generation of its template is stored in an annotation.

use crate::core::podspec::{options::Options, warnings};
use crate::error_text::Internal;
use crate::fields::{member, text};
use crate::{Hooks, Scope, check, facts, workload};
use pintle_meta::FieldErrors;
use pintle_meta::selector::label_validation::{Leniency, has_invalid_label_value, validate_label_selector};
use pintle_value::{Path, Value};

const SPEC: Path<'static> = Path::of("spec");
const TYPE: &str = "apps/v1.DaemonSetSpec";
/// The annotation with the template's generation, and its path.
const GENERATION_ANNOTATION: &str = "deprecated.daemonset.template.generation";
const TEMPLATE_GENERATION: [&str; 3] = ["metadata", "annotations", GENERATION_ANNOTATION];

pub(crate) struct DaemonSet;

impl Hooks for DaemonSet {
    fn field_annotations(&self) -> &'static [&'static str] {
        &[GENERATION_ANNOTATION]
    }

    fn conversion_error(&self, object: &Value) -> Option<String> {
        super::parse_int_error(object.at(&TEMPLATE_GENERATION)?.as_str()?)
    }

    fn complete_empty(&self, object: &mut Value) {
        set_template_generation(object, 0);
    }

    fn prepare_create(&self, object: &mut Value) {
        set_template_generation(object, template_generation(object).max(1));
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        // A status update may change annotations, but this one belongs to the spec.
        let mut generation = template_generation(old);
        if scope == Scope::Main && object.at(&["spec", "template"]) != old.at(&["spec", "template"]) {
            generation = generation.wrapping_add(1);
        }
        set_template_generation(object, generation);
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(object, &Options::of_template(None), errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Sub("status") {
            facts::check(workload::status(object), "apps/v1.DaemonSetStatus", &Path::of("status"), errors);
            return workload::validate_collision_count(object, old, errors);
        }
        let path = ["spec", "selector"];
        // Only an overflow decrements it, because clients cannot set it.
        let generation = template_generation(object);
        if generation < template_generation(old) {
            errors.invalid(&SPEC.field("templateGeneration"), generation, "must not be decremented");
        }
        workload::validate_unchanged_selector(workload::spec_of(object), workload::spec_of(old), errors);
        let mut options = Options::of_template(old.at(&["spec", "template"]));
        options.invalid_selector_values |= old.at(&path).is_some_and(has_invalid_label_value);
        validate_spec(object, &options, errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| template_generation(old) == template_generation(object)) {
            return Vec::new();
        }
        warnings::template(object.at(&["spec", "template"]), &SPEC.field("template"))
    }
}

/// Sets the annotation of the template's generation, which every DaemonSet has.
pub(crate) fn default_template_generation(object: &mut Value) {
    set_template_generation(object, template_generation(object));
}

fn template_generation(object: &Value) -> i64 {
    object.str_at(&TEMPLATE_GENERATION).parse().unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    object.set_at(&TEMPLATE_GENERATION, generation.to_string().into());
}

fn validate_spec(object: &Value, options: &Options, errors: &mut FieldErrors) {
    let spec = workload::spec_of(object);
    let leniency = Leniency { invalid_values: options.invalid_selector_values, ..Leniency::default() };
    validate_label_selector(spec.get("selector"), leniency, &SPEC.field("selector"), errors);
    if workload::selects_template(spec) == Some(false) {
        workload::report_unselected_template(spec, &SPEC, errors);
    }
    if member(spec, "selector").is_some_and(workload::is_empty_selector) {
        let why = "empty selector is invalid for daemonset";
        errors.invalid(&SPEC.field("selector"), workload::EMPTY_SELECTOR, why);
    }
    workload::validate_running_template(spec, "DaemonSet", &SPEC, options, errors);
    facts::check_fields(spec, TYPE, &["minReadySeconds"], &SPEC, errors);
    check::nonnegative(&SPEC.field("templateGeneration"), template_generation(object), errors);
    validate_strategy(
        spec.get("updateStrategy").unwrap_or(&Value::Null),
        &SPEC.field("updateStrategy"),
        errors,
    );
    facts::check_fields(spec, TYPE, &["revisionHistoryLimit"], &SPEC, errors);
}

fn validate_strategy(strategy: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    match text(strategy, "type") {
        "OnDelete" => {}
        "RollingUpdate" => match member(strategy, "rollingUpdate") {
            None => errors.required(&path.field("rollingUpdate"), ""),
            Some(rolling) => validate_rolling_update(rolling, &path.field("rollingUpdate"), errors),
        },
        _ => {
            let error_text = Internal(Some(strategy), "apps/v1.DaemonSetUpdateStrategy");
            errors.not_supported(path, error_text, &["RollingUpdate", "OnDelete"]);
        }
    }
}

fn validate_rolling_update(rolling: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let zero = Value::Int(0);
    let values = ["maxUnavailable", "maxSurge"].map(|key| (key, rolling.get(key).unwrap_or(&zero)));
    for (key, value) in values {
        check::nonnegative_int_or_percent(&path.field(key), value, errors);
    }
    for (key, value) in values {
        check::not_above_hundred_percent(&path.field(key), value, errors);
    }
    let [unavailable, surge] = values.map(|(_, value)| check::int_or_percent(Some(value)) != 0);
    if unavailable && surge {
        let value = rolling.get("maxSurge");
        errors.invalid(&path.field("maxSurge"), value, "may not be set when maxUnavailable is non-zero");
    } else if !unavailable && !surge {
        errors.required(&path.field("maxUnavailable"), "cannot be 0 when maxSurge is 0");
    }
}
