//! PodGroup: pods that are scheduled together. Its spec does not change.

use crate::error_text::Internal;
use crate::{Hooks, Scope, check, facts, features, fields};
use pintle_meta::FieldErrors;
use pintle_meta::conditions::validate_conditions;
use pintle_value::{Path, Value};
use std::collections::HashSet;

const CLAIMS_MAX: usize = 4;
const SPEC: Path<'static> = Path::of("spec");
const GROUP: &str = "scheduling/v1alpha2.PodGroupSpec";
const CLAIM: &str = "scheduling/v1alpha2.PodGroupResourceClaim";
const CLAIM_STATUS: &str = "scheduling/v1alpha2.PodGroupResourceClaimStatus";
/// The fields of the spec, and the gates without which they must not be set.
const FIELDS: [(&str, &str); 7] = [
    ("podGroupTemplateRef", ""),
    ("schedulingPolicy", ""),
    ("schedulingConstraints", "TopologyAwareWorkloadScheduling"),
    ("resourceClaims", ""),
    ("disruptionMode", "WorkloadAwarePreemption"),
    ("priorityClassName", "WorkloadAwarePreemption"),
    ("priority", "WorkloadAwarePreemption"),
];

pub(crate) struct PodGroup;

impl Hooks for PodGroup {
    /// A disabled feature drops the disruption mode of a new object, but not its default.
    fn is_defaulted_when_read(&self) -> bool {
        true
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let spec = object.get("spec").unwrap_or(&Value::Null);
        facts::check_fields(spec, GROUP, &["podGroupTemplateRef", "schedulingPolicy"], &SPEC, errors);
        validate_resources(spec, &SPEC, errors);
    }

    /// All fields of the spec are immutable. kube-apiserver does not validate unchanged ones again.
    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope != Scope::Main {
            return validate_status(object, errors);
        }
        for (field, gate) in FIELDS {
            let (new, before) = (object.at(&["spec", field]), old.at(&["spec", field]));
            if new == before {
                continue;
            }
            if gate.is_empty() || features::is_enabled(gate) {
                errors.invalid(&SPEC.field(field), None::<&Value>, check::IMMUTABLE);
            } else if new.is_some() {
                errors.forbidden(&SPEC.field(field), "");
            }
        }
    }
}

/// Refuses items with the name of an earlier one.
pub(super) fn validate_unique(items: &[Value], ty: &'static str, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut names = check::Unique::default();
    for (at, item) in items.iter().enumerate() {
        names.check(fields::text(item, "name"), &path.index(at), Internal(Some(item), ty), errors);
    }
}

/// Validates the fields that groups and templates have behind feature gates; without these they are dropped.
pub(super) fn validate_resources(group: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check_fields(group, GROUP, &["schedulingConstraints"], path, errors);
    validate_claims(fields::list(group, "resourceClaims"), &path.field("resourceClaims"), errors);
    facts::check_fields(group, GROUP, &["disruptionMode", "priorityClassName", "priority"], path, errors);
}

fn validate_claims(claims: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    if claims.len() > CLAIMS_MAX {
        return errors.too_many(path, claims.len(), CLAIMS_MAX);
    }
    validate_unique(claims, CLAIM, path, errors);
    for (at, claim) in claims.iter().enumerate() {
        facts::check(claim, CLAIM, &path.index(at), errors);
    }
}

fn validate_status(object: &Value, errors: &mut FieldErrors) {
    let path = Path::of("status");
    validate_conditions(object.items_at(&["status", "conditions"]), &path.field("conditions"), errors);
    let statuses = object.items_at(&["status", "resourceClaimStatuses"]);
    let path = path.field("resourceClaimStatuses");
    let claims = object.items_at(&["spec", "resourceClaims"]).iter();
    let claims: HashSet<&str> = claims.map(|claim| fields::text(claim, "name")).collect();
    for (at, status) in statuses.iter().enumerate() {
        let name = fields::text(status, "name");
        if !claims.contains(name) {
            let why = "must match the name of an entry in `spec.resourceClaims`";
            errors.invalid(&path.index(at).field("name"), name, why);
        }
    }
    if statuses.len() > CLAIMS_MAX {
        return errors.too_many(&path, statuses.len(), CLAIMS_MAX);
    }
    validate_unique(statuses, CLAIM_STATUS, &path, errors);
    for (at, status) in statuses.iter().enumerate() {
        facts::check(status, CLAIM_STATUS, &path.index(at), errors);
    }
}
