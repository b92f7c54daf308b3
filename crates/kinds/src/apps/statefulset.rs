//! StatefulSet.

use crate::core::claim::validate_spec as validate_claim;
use crate::core::podspec::{self, annotations, options::Options, warnings};
use crate::error_text::Internal;
use crate::fields::{int, list, member, text};
use crate::fill::items;
use crate::hooks::take;
use crate::{Hooks, Scope, check, facts, workload};
use pintle_meta::field::Named;
use pintle_meta::selector::label_validation::validate_labels;
use pintle_meta::{FieldErrors, names, objectmeta};
use pintle_value::{Path, Value};
use std::collections::HashSet;

const SPEC: Path<'static> = Path::of("spec");
const TYPE: &str = "apps/v1.StatefulSetSpec";
/// The fields of the spec that an update may change.
const MUTABLE: [&str; 7] = [
    "replicas",
    "template",
    "updateStrategy",
    "minReadySeconds",
    "ordinals",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
];

pub(crate) struct StatefulSet;

impl Hooks for StatefulSet {
    fn complete_empty(&self, object: &mut Value) {
        workload::set_no_replicas(object);
    }

    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        names::dns_label(name, prefix)
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_spec(workload::spec_of(object), &Options::of_template(None), Leniency::default(), errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Sub("status") {
            validate_status(workload::status(object), errors);
            return workload::validate_collision_count(object, old, errors);
        }
        let options = Options::of_template(old.at(&["spec", "template"]));
        let mut leniency = Leniency { immutables: true, template: false };
        let mut before = FieldErrors::new();
        validate_spec(workload::spec_of(old), &options, leniency, &mut before);
        leniency.template = !before.is_empty();
        validate_spec(workload::spec_of(object), &options, leniency, errors);
        let mut rest = object.clone();
        for key in MUTABLE {
            take(&mut rest, old, &["spec", key]);
        }
        if rest.get("spec") != old.get("spec") {
            let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
            errors.forbidden(&SPEC, detail);
        }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut found = super::template_warnings(object, old, false);
        let path = SPEC.field("volumeClaimTemplates");
        for (at, claim) in object.items_at(&["spec", "volumeClaimTemplates"]).iter().enumerate() {
            let spec = claim.get("spec").unwrap_or(&Value::Null);
            let item = path.index(at);
            let path = if old.is_some() { item.field("Spec") } else { item };
            found.extend(warnings::warnings_of_claim_spec(spec, &path));
        }
        if int(workload::spec_of(object), "revisionHistoryLimit") < 0 {
            let warning = "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended";
            found.push(warning.to_string());
        }
        found
    }
}

/// Templates of claims always have their apiVersion and kind.
pub(crate) fn name_claim_types(spec: &mut Value) {
    for claim in items(spec, "volumeClaimTemplates") {
        claim.set_at(&["apiVersion"], "v1".into());
        claim.set_at(&["kind"], "PersistentVolumeClaim".into());
    }
}

/// Checks that are skipped on updates.
#[derive(Clone, Copy, Default)]
struct Leniency {
    /// Immutable fields: the service name and the claim templates.
    immutables: bool,
    /// The pod template, if the old object's is already invalid.
    template: bool,
}

fn validate_spec(spec: &Value, options: &Options, leniency: Leniency, errors: &mut FieldErrors) {
    match text(spec, "podManagementPolicy") {
        "" => errors.required(&SPEC.field("podManagementPolicy"), ""),
        "OrderedReady" | "Parallel" => {}
        other => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            errors.invalid(&SPEC.field("podManagementPolicy"), Named(other), detail);
        }
    }
    validate_strategy(
        spec.get("updateStrategy").unwrap_or(&Value::Null),
        &SPEC.field("updateStrategy"),
        errors,
    );
    facts::check_fields(spec, TYPE, &["persistentVolumeClaimRetentionPolicy"], &SPEC, errors);
    if !leniency.immutables {
        for (at, claim) in list(spec, "volumeClaimTemplates").iter().enumerate() {
            let path = SPEC.field("volumeClaimTemplates");
            let spec = claim.get("spec").unwrap_or(&Value::Null);
            validate_claim(spec, &path.index(at).field("spec"), errors);
        }
    }
    facts::check_fields(spec, TYPE, &["replicas", "minReadySeconds", "ordinals"], &SPEC, errors);
    let service = text(spec, "serviceName");
    if !leniency.immutables && !service.is_empty() {
        check::dns_label(&SPEC.field("serviceName"), service, errors);
    }
    workload::validate_required_selector(spec, "statefulset", &SPEC, errors);
    match workload::selects_template(spec) {
        None => errors.invalid(&SPEC.field("selector"), workload::selector_error_text(spec), ""),
        Some(selects) => {
            let empty = member(spec, "selector").is_some_and(workload::is_empty_selector);
            if !empty && !selects {
                workload::report_unselected_template(spec, &SPEC, errors);
            }
            validate_template(spec, options, leniency, errors);
        }
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    workload::validate_runs_forever(template, "StatefulSet", &SPEC.field("template"), errors);
}

fn validate_strategy(strategy: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let rolling = member(strategy, "rollingUpdate");
    let field = path.field("rollingUpdate");
    match (text(strategy, "type"), rolling) {
        ("", _) => errors.required(path, ""),
        ("OnDelete", Some(rolling)) => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            errors.invalid(
                &field,
                Internal(Some(rolling), "apps/v1.RollingUpdateStatefulSetStrategy"),
                detail,
            );
        }
        ("RollingUpdate", Some(rolling)) => validate_rolling_update(rolling, &field, errors),
        ("OnDelete" | "RollingUpdate", None) => {}
        _ => {
            let detail = "must be 'RollingUpdate' or 'OnDelete'";
            errors.invalid(path, Internal(Some(strategy), "apps/v1.StatefulSetUpdateStrategy"), detail);
        }
    }
}

fn validate_rolling_update(rolling: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    check::nonnegative_field(rolling, "partition", path, errors);
    let Some(unavailable) = member(rolling, "maxUnavailable") else { return };
    let field = path.field("maxUnavailable");
    check::nonnegative_int_or_percent(&field, unavailable, errors);
    if check::int_or_percent(Some(unavailable)) == 0 {
        errors.invalid(&field, unavailable, "cannot be 0");
    }
    check::not_above_hundred_percent(&field, unavailable, errors);
}

/// The controller sets hostname and subdomain itself and adds a volume for each claim.
fn validate_template(spec: &Value, options: &Options, leniency: Leniency, errors: &mut FieldErrors) {
    let mut template = spec.get("template").cloned().unwrap_or_default();
    template.remove_at(&["spec", "hostname"]);
    template.remove_at(&["spec", "subdomain"]);
    let claims = list(spec, "volumeClaimTemplates");
    if !claims.is_empty() {
        add_claim_volumes(&mut template, claims);
    }
    let path = SPEC.field("template");
    if !leniency.template {
        podspec::spec::validate_template(&template, &path, options, errors);
    }
    let map = |key: &str| template.at(&["metadata", key]).and_then(Value::as_object);
    validate_labels(map("labels"), &path.field("labels"), errors);
    objectmeta::validate_annotations(map("annotations"), &path.field("annotations"), errors);
    let own = template.at(&["metadata", "annotations"]);
    let empty = Value::object();
    let pod = template.get("spec").unwrap_or(&empty);
    annotations::validate(own, pod, &path.field("annotations"), options, errors);
}

fn add_claim_volumes(template: &mut Value, claims: &[Value]) {
    let mut volumes: Vec<Value> = Vec::new();
    let mut names = HashSet::new();
    for name in claims.iter().map(|claim| claim.str_at(&["metadata", "name"])) {
        if !names.insert(name) {
            continue;
        }
        let mut volume = Value::object();
        volume.set_at(&["name"], name.into());
        volume.set_at(&["persistentVolumeClaim", "claimName"], name.into());
        volumes.push(volume);
    }
    let is_other = |volume: &&Value| !names.contains(text(volume, "name"));
    volumes.extend(template.items_at(&["spec", "volumes"]).iter().filter(is_other).cloned());
    template.set_at(&["spec", "volumes"], Value::Array(volumes));
}

fn validate_status(status: &Value, errors: &mut FieldErrors) {
    let path = Path::of("status");
    facts::check(status, "apps/v1.StatefulSetStatus", &path, errors);
    for key in ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"] {
        workload::validate_not_above(status, key, "replicas", "status.replicas", &path, errors);
    }
    workload::validate_not_above(
        status,
        "availableReplicas",
        "readyReplicas",
        "status.readyReplicas",
        &path,
        errors,
    );
}
