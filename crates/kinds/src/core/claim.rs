//! The spec of a PersistentVolumeClaim, also in templates and volumes.

use crate::fields::{member, quantity, text};
use crate::{check, facts};
use pintle_meta::FieldErrors;
use pintle_meta::field::{ErrorText, Named};
use pintle_meta::selector::label_validation::{Leniency, validate_label_selector};
use pintle_value::{Path, Value};

const TYPE: &str = "core/v1.PersistentVolumeClaimSpec";
const SOURCE: &str = "core/v1.TypedObjectReference";
/// Ways to mount a volume.
const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Checks the spec of a claim.
pub(crate) fn validate_spec(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    validate_changed_spec(spec, &Value::Null, path, errors);
}

/// Validates the spec of an existing claim: groups of data sources are not checked if the old one had a data source.
pub(crate) fn validate_changed_spec(spec: &Value, old: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let group = |key: &&str| old.at(&[key, "apiGroup"]).filter(|group| !group.is_null());
    let lenient = ["dataSource", "dataSourceRef"].iter().any(|key| group(key).is_some());
    validate_access_modes(spec, path, errors);
    validate_storage(spec, path, errors);
    facts::check_fields(spec, TYPE, &["storageClassName", "volumeMode"], path, errors);
    validate_data_sources(spec, lenient, path, errors);
    facts::check_fields(spec, TYPE, &["volumeAttributesClassName"], path, errors);
}

fn validate_access_modes(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let modes = crate::fields::texts(spec, "accessModes");
    let field = path.field("accessModes");
    if modes.is_empty() {
        errors.required(&field, "at least 1 access mode is required");
    }
    validate_label_selector(spec.get("selector"), Leniency::default(), &path.field("selector"), errors);
    validate_known_modes(&modes, &field, errors);
}

/// Validates the access modes of a claim or a volume: known ones, and ReadWriteOncePod only alone.
pub(super) fn validate_known_modes(modes: &[&str], path: &Path<'_>, errors: &mut FieldErrors) {
    const ALONE: &str = "ReadWriteOncePod";
    let (known, unknown): (Vec<&str>, Vec<&str>) = modes.iter().partition(|m| ACCESS_MODES.contains(m));
    for mode in unknown {
        errors.not_supported(path, Named(mode), &ACCESS_MODES);
    }
    if known.contains(&ALONE) && known.iter().any(|mode| *mode != ALONE) {
        errors.forbidden(path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn validate_storage(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let path = path.field("resources");
    let path = path.key("storage");
    let Some(value) = spec.at(&["resources", "requests", "storage"]) else {
        return errors.required(&path, "");
    };
    let amount = quantity(Some(value));
    if amount.sign() <= 0 {
        errors.invalid(&path, amount.to_string().as_str(), "must be greater than zero");
    }
}

fn validate_data_sources(spec: &Value, lenient: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    let (source, reference) = (member(spec, "dataSource"), member(spec, "dataSourceRef"));
    if let Some(source) = source {
        validate_data_source(source, lenient, &path.field("dataSource"), errors);
    }
    if let Some(reference) = reference {
        let path = path.field("dataSourceRef");
        validate_data_source(reference, lenient, &path, errors);
        facts::check_fields(reference, SOURCE, &["namespace"], &path, errors);
    }
    let (Some(source), Some(reference)) = (source, reference) else { return };
    // Go prints the path as the bad value: a struct without visible members.
    if !text(reference, "namespace").is_empty() {
        errors.invalid(path, NoMembers, "may not be specified when dataSourceRef.namespace is specified");
    } else if ["apiGroup", "kind", "name"].iter().any(|key| source.get(key) != reference.get(key)) {
        errors.invalid(path, NoMembers, "must match dataSourceRef");
    }
}

fn validate_data_source(source: &Value, lenient: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check_fields(source, SOURCE, &["name", "kind"], path, errors);
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        errors.invalid(path, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup");
    }
    if !group.is_empty() && !lenient {
        check::dns_subdomain(&path.field("apiGroup"), group, errors);
    }
}

struct NoMembers;

impl ErrorText for NoMembers {
    fn error_text(&self) -> String {
        "{}".to_string()
    }
}
