//! Job: validation, and the generated selector.

use super::{job_spec, job_status};
use crate::core::podspec::{self, internal, options::Options, warnings};
use crate::error_text::Internal;
use crate::fields::{flag, int, list, member, opt_int, text};
use crate::fill::{absent, map_at};
use crate::hooks::{TEMPLATE_LABELS, take};
use crate::{Hooks, Scope, check, metadata, workload};
use pintle_meta::selector::label_validation::{Leniency, has_invalid_label_value, validate_label_selector};
use pintle_meta::{FieldErrors, LabelSelector, names};
use pintle_value::{Map, Path, Value};

const SPEC: Path<'static> = Path::of("spec");
/// Above these limits an indexed job may lose track of its indexes.
const COMPLETIONS_SOFT_LIMIT: i64 = 100_000;
const PARALLELISM_SOFT_LIMIT: i64 = 10_000;

const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";
const NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const UID_LABELS: [&str; 2] = ["controller-uid", CONTROLLER_UID];

pub(crate) struct Job;

impl Hooks for Job {
    fn default_propagation_warning(&self) -> Option<&'static str> {
        Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove \
             them or set propagationPolicy=Orphan to suppress this warning",
        )
    }

    /// A job without labels gets those of its template, which by then has the selector's labels.
    fn is_defaulted_when_read(&self) -> bool {
        true
    }

    fn shares_template_labels(&self, object: &Value) -> bool {
        let has_none = |labels: Option<&Value>| labels.and_then(Value::as_object).is_none_or(Map::is_empty);
        has_none(object.at(&["metadata", "labels"]))
            && object.at(&TEMPLATE_LABELS).is_some_and(|l| !l.is_null())
    }

    fn prepare_create(&self, object: &mut Value) {
        if object.at(&["spec", "manualSelector"]).and_then(Value::as_bool) != Some(true) {
            generate_selector(object);
        }
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate(object, &Options::of_template(None), true, errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Sub("status") {
            return job_status::validate(object, old, errors);
        }
        let mut options = Options::of_template(old.at(&["spec", "template"]));
        options.invalid_selector_values |= old.at(&["spec", "selector"]).is_some_and(has_invalid_label_value);
        let had = |label: &str| old.at(&["spec", "template", "metadata", "labels", label]).is_some();
        validate(object, &options, had("batch.kubernetes.io/job-name") && had(CONTROLLER_UID), errors);
        metadata::validate_core_as_change(object, old, errors);
        validate_spec(workload::spec_of(object), &options, errors);
        validate_change(object, old, errors);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut found = Vec::new();
        if old.is_none() {
            found.extend(workload::name_warning(object, workload::POD_NAMES));
        }
        if old.is_none_or(|old| podspec::options::generation(old) != podspec::options::generation(object)) {
            found.extend(spec_warnings(workload::spec_of(object), &SPEC));
        }
        found
    }
}

/// Defaults that depend on other fields.
pub(crate) fn default_from_others(object: &mut Value) {
    labels_from_template(object);
    let Some(spec) = object.get_mut("spec") else { return };
    if spec.get("completions").is_none() && spec.get("parallelism").is_none() {
        spec.set_at(&["completions"], 1.into());
    }
    if spec.get("backoffLimitPerIndex").is_some() {
        absent(spec, "backoffLimit", i64::from(i32::MAX));
    }
    if spec.get("podFailurePolicy").is_some() {
        absent(spec, "podReplacementPolicy", "Failed");
    }
}

fn labels_from_template(object: &mut Value) {
    let own = map_at(object, &["metadata", "labels"]).is_some_and(|m| !m.is_empty());
    let labels = object.at(&["spec", "template", "metadata", "labels"]).cloned();
    if let Some(labels) = labels.filter(|_| !own) {
        object.set_at(&["metadata", "labels"], labels);
    }
}

/// Generates labels with name and uid for the pods, and a selector for the uid. Values set by the user stay and are
/// validated.
fn generate_selector(object: &mut Value) {
    let name = Value::from(object.str_at(&["metadata", "name"]));
    let uid = Value::from(object.str_at(&["metadata", "uid"]));
    let labels = NAME_LABELS.map(|l| (l, &name)).into_iter().chain(UID_LABELS.map(|l| (l, &uid)));
    for (label, value) in labels {
        let path = ["spec", "template", "metadata", "labels", label];
        if object.at(&path).is_none() {
            object.set_at(&path, value.clone());
        }
    }
    let path = ["spec", "selector", "matchLabels", CONTROLLER_UID];
    if object.at(&path).is_none() {
        object.set_at(&path, uid);
    }
}

/// Warnings about the spec of a job.
pub(super) fn spec_warnings(spec: &Value, path: &Path<'_>) -> Vec<String> {
    let mut found = Vec::new();
    let many = int(spec, "completions") > COMPLETIONS_SOFT_LIMIT
        && int(spec, "parallelism") > PARALLELISM_SOFT_LIMIT;
    if job_spec::is_indexed(spec) && many {
        found.push(format!(
            "{path}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"
        ));
    }
    found.extend(warnings::template(spec.get("template"), &path.field("template")));
    found
}

fn validate(object: &Value, options: &Options, prefixed_labels: bool, errors: &mut FieldErrors) {
    let spec = workload::spec_of(object);
    if !flag(spec, "manualSelector") {
        validate_generated_selector(object, prefixed_labels, errors);
    }
    validate_spec(spec, options, errors);
    let completions = opt_int(spec, "completions").filter(|c| *c > 0);
    if let Some(completions) = completions.filter(|_| job_spec::is_indexed(spec)) {
        let name = object.str_at(&["metadata", "name"]);
        let hostname = format!("{name}-{}", completions.saturating_sub(1));
        if !names::is_dns1123_label(&hostname).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {hostname}");
            errors.invalid(&Path::of("metadata.name"), name, &detail);
        }
    }
}

fn validate_spec(spec: &Value, options: &Options, errors: &mut FieldErrors) {
    job_spec::validate(spec, &SPEC, options, errors);
    let path = SPEC.field("selector");
    match member(spec, "selector") {
        None => errors.required(&path, ""),
        selector => {
            let leniency =
                Leniency { invalid_values: options.invalid_selector_values, ..Leniency::default() };
            validate_label_selector(selector, leniency, &path, errors);
        }
    }
    if workload::selects_template(spec) == Some(false) {
        workload::report_unselected_template(spec, &SPEC, errors);
    }
}

/// Validates a generated selector and the labels of the template.
fn validate_generated_selector(object: &Value, prefixed: bool, errors: &mut FieldErrors) {
    let Some(selector) = object.at(&["spec", "selector"]) else { return };
    let (name, uid) = (object.str_at(&["metadata", "name"]), object.str_at(&["metadata", "uid"]));
    let metadata = Path::of("metadata");
    if uid.is_empty() {
        errors.required(&metadata.field("uid"), "");
    }
    let mut expected = vec![("controller-uid", uid), ("job-name", name)];
    if prefixed {
        expected.extend([(CONTROLLER_UID, uid), ("batch.kubernetes.io/job-name", name)]);
    }
    let labels = SPEC.field("template.metadata.labels");
    for (label, value) in &expected {
        let detail = format!("must be '{value}'");
        let all = object.at(&["spec", "template", "metadata", "labels"]);
        match all.and_then(|l| l.get(label)) {
            None => errors.required(&labels.key(label), &detail),
            Some(found) if found.as_str() != Some(value) => errors.invalid(&labels.key(label), all, &detail),
            Some(_) => {}
        }
    }
    let mut map = Map::new();
    for (label, value) in expected {
        map.insert(label, value.into());
    }
    if LabelSelector::from_value(selector).is_ok_and(|s| !s.matches(Some(&map))) {
        errors.invalid(
            &SPEC.field("selector"),
            Internal(Some(selector), "meta/v1.LabelSelector"),
            "`selector` not auto-generated",
        );
    }
}

/// Reports changes of immutable fields.
fn validate_change(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let (spec, before) = (workload::spec_of(object), workload::spec_of(old));
    validate_completions(spec, before, errors);
    let same = |key: &str, errors: &mut FieldErrors| {
        check::immutable(spec.get(key), before.get(key), &SPEC.field(key), errors);
    };
    require_unchanged_internal(spec, before, "selector", "meta/v1.LabelSelector", errors);
    validate_template_change(spec, old, errors);
    same("completionMode", errors);
    require_unchanged_internal(spec, before, "podFailurePolicy", "batch/v1.PodFailurePolicy", errors);
    same("backoffLimitPerIndex", errors);
    same("managedBy", errors);
    require_unchanged_internal(spec, before, "successPolicy", "batch/v1.SuccessPolicy", errors);
}

fn require_unchanged_internal(
    spec: &Value,
    old: &Value,
    key: &str,
    type_name: &'static str,
    errors: &mut FieldErrors,
) {
    if spec.get(key) != old.get(key) {
        errors.invalid(&SPEC.field(key), Internal(spec.get(key), type_name), check::IMMUTABLE);
    }
}

fn validate_completions(spec: &Value, old: &Value, errors: &mut FieldErrors) {
    let path = SPEC.field("completions");
    let (new, before) = (opt_int(spec, "completions"), opt_int(old, "completions"));
    if !job_spec::is_indexed(spec) {
        return check::immutable(spec.get("completions"), old.get("completions"), &path, errors);
    }
    if let Some(new) = new.filter(|n| Some(*n) != before && *n != int(spec, "parallelism")) {
        errors.invalid(&path, new, "can only be modified in tandem with spec.parallelism");
    }
}

/// The template of a suspended job without pods may change resources and scheduling fields.
fn validate_template_change(spec: &Value, old: &Value, errors: &mut FieldErrors) {
    let before = workload::spec_of(old);
    let status = workload::status(old);
    let suspended_condition = |c: &Value| text(c, "type") == "Suspended" && text(c, "status") == "True";
    let idle =
        member(status, "startTime").is_none() || list(status, "conditions").iter().any(suspended_condition);
    let mutable = flag(before, "suspend") && idle && int(status, "active") == 0;
    let template = spec.get("template");
    let mut old_template = before.get("template").cloned().unwrap_or_default();
    let path = SPEC.field("template");
    if !mutable {
        if template != Some(&old_template) {
            let error_text = template.map(internal::template);
            errors.invalid(&path, Internal(error_text.as_ref(), "core/v1.PodTemplateSpec"), check::IMMUTABLE);
        }
        return;
    }
    let Some(new) = template else { return };
    allow_scheduling(&mut old_template, new);
    allow_resources(&mut old_template, new);
    if new.get("spec") != old_template.get("spec") {
        let error_text = new.get("spec").map(internal::pod_spec);
        errors.invalid(
            &SPEC.field("template.spec"),
            Internal(error_text.as_ref(), "core/v1.PodSpec"),
            check::IMMUTABLE,
        );
    }
}

/// Copies the scheduling directives of the new template into the old one, so that only other changes are errors.
fn allow_scheduling(old: &mut Value, new: &Value) {
    for key in ["nodeSelector", "tolerations", "schedulingGates"] {
        take(old, new, &["spec", key]);
    }
    take(old, new, &["spec", "affinity", "nodeAffinity"]);
    let affinity = ["spec", "affinity"];
    if new.at(&affinity).is_none() && old.at(&affinity) == Some(&Value::object()) {
        old.remove_at(&affinity);
    }
    if old.at(&affinity).is_none() && new.at(&affinity) == Some(&Value::object()) {
        old.set_at(&affinity, Value::object());
    }
}

fn allow_resources(old: &mut Value, new: &Value) {
    for key in ["containers", "initContainers"] {
        let new = new.items_at(&["spec", key]);
        let Some(Value::Array(old)) = old.at_mut(&["spec", key]) else { continue };
        if old.len() != new.len() {
            continue;
        }
        for (old, new) in old.iter_mut().zip(new).filter(|(o, n)| text(o, "name") == text(n, "name")) {
            take(old, new, &["resources"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{tree, updated};
    use pintle_value::json;

    fn job(spec: &str) -> Value {
        let template =
            r#""template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}"#;
        let mut object = tree(&format!(
            r#"{{"metadata":{{"name":"j","namespace":"n","resourceVersion":"1","uid":"u"}},"spec":{{{spec}{template}}}}}"#
        ));
        crate::defaults::of_type("batch/v1.Job").unwrap().apply(&mut object);
        Job.prepare_create(&mut object);
        object
    }

    #[test]
    fn a_job_selects_its_own_pods() {
        let mut object = job("");
        assert_eq!(
            object.at(&["spec", "selector"]),
            Some(&tree(r#"{"matchLabels":{"batch.kubernetes.io/controller-uid":"u"}}"#))
        );
        assert_eq!(object.str_at(&["spec", "template", "metadata", "labels", "job-name"]), "j");
        // A job without labels has those of its pods; it gets them when it is read, not when it is stored.
        crate::defaults::of_type("batch/v1.Job").unwrap().apply(&mut object);
        assert_eq!(object.str_at(&["metadata", "labels", "job-name"]), "j");
        let mut errors = FieldErrors::new();
        Job.validate_create(&object, &mut errors);
        assert_eq!(errors.0, []);
    }

    #[test]
    fn changes_of_immutable_fields_are_refused() {
        let old = json::text(&job(""));
        let update = |new: &str| updated(&Job, Scope::Main, new, &old);
        assert_eq!(update(&old), [""; 0]);
        assert_eq!(
            update(&json::text(&job(r#""completions":2,"#))),
            ["spec.completions: Invalid value: 2: field is immutable"]
        );
        let changed = update(&old.replace(r#""image":"i""#, r#""image":"j""#));
        let [error] = changed.as_slice() else { panic!("one error: {changed:?}") };
        assert!(error.starts_with(r#"spec.template: Invalid value: {"labels":{"batch."#), "{error}");
        assert!(error.contains(
            r#""Spec":{"Volumes":null,"InitContainers":null,"Containers":[{"Name":"c","Image":"j""#
        ));
        assert!(error.ends_with(": field is immutable"), "{error}");
    }
}
