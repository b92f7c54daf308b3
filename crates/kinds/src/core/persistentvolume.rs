//! PersistentVolume: defaults, phase transitions and immutable fields. `spec` validates its spec.

pub(crate) mod sources;
pub(crate) mod spec;

use crate::core::podspec::warnings::{self, Warnings};
use crate::error_text::{Internal, diff_from_stored};
use crate::fields::{list, member, text};
use crate::hooks::take;
use crate::metadata::ResourceScope;
use crate::{Hooks, Scope, check, features, fill, metadata};
use pintle_meta::FieldErrors;
use pintle_meta::field::ErrorText;
use pintle_value::{Path, Value};

const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
/// Sources that support the mount options annotation.
const MOUNTABLE: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];
/// Deprecated node labels and their replacements.
const NEW_LABELS: [(&str, &str); 5] = [
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
];
const TRANSITION: [&str; 2] = ["status", "lastPhaseTransitionTime"];

pub(crate) struct PersistentVolume;

impl Hooks for PersistentVolume {
    fn prepare_create(&self, object: &mut Value) {
        let created = object.at(&["metadata", "creationTimestamp"]).cloned();
        if let Some(created) = created {
            object.set_at(&TRANSITION, created);
        }
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        if scope != Scope::Main && !phase_changed(object, old) && object.at(&TRANSITION).is_none() {
            take(object, old, &TRANSITION);
        }
    }

    fn stamp(&self, scope: Scope<'_>, object: &mut Value, old: Option<&Value>, now: &str) {
        let Some(old) = old.filter(|_| scope != Scope::Main) else { return };
        let given = object.at(&TRANSITION);
        if phase_changed(object, old) && (given.is_none() || given == old.at(&TRANSITION)) {
            object.set_at(&TRANSITION, now.into());
        }
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        spec::validate(object, false, errors);
        validate_mount_options(object, errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope != Scope::Main {
            return;
        }
        // kube-apiserver validates the new volume twice, so its errors appear twice.
        let lenient = spec::has_invalid_affinity(old);
        spec::validate(object, lenient, errors);
        validate_mount_options(object, errors);
        metadata::validate_core_as_new(self, ResourceScope::Cluster, object, errors);
        spec::validate(object, lenient, errors);
        validate_source_stays(object, old, errors);
        let mode = ["spec", "volumeMode"];
        check::immutable(object.at(&mode), old.at(&mode), &Path::of("volumeMode"), errors);
        validate_affinity_stays(object, old, errors);
        let class = ["spec", "volumeAttributesClassName"];
        if old.at(&class).is_some() && object.at(&class).is_none() {
            let detail = "update from non-nil value to nil is forbidden";
            errors.forbidden(&Path::of("spec.volumeAttributesClassName"), detail);
        }
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut out = Vec::new();
        for (key, advice) in [
            (
                "volume.beta.kubernetes.io/storage-class",
                r#"deprecated since v1.8; use "storageClassName" attribute instead"#,
            ),
            (MOUNT_OPTIONS, r#"deprecated since v1.31; use "mountOptions" attribute instead"#),
        ] {
            if metadata::annotation(object, key).is_some() {
                out.push(format!("metadata.annotations[{key}]: {advice}"));
            }
        }
        spec_warnings(object, &mut out);
        out
    }
}

fn phase_changed(object: &Value, old: &Value) -> bool {
    object.str_at(&["status", "phase"]) != old.str_at(&["status", "phase"])
}

fn spec_warnings(object: &Value, out: &mut Vec<String>) {
    if object.str_at(&["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
        out.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_string());
    }
    let terms = object.items_at(&["spec", "nodeAffinity", "required", "nodeSelectorTerms"]);
    let path = Path::of("spec.nodeAffinity.required.nodeSelectorTerms");
    let mut found = Warnings::default();
    for (i, term) in terms.iter().enumerate() {
        warnings::warn_of_node_selector_term(term, false, &path.index(i), &mut found);
    }
    out.append(&mut found.0);
    for (field, error_name, since, gone) in [
        ("cephfs", "cephfs", "v1.28", "v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk", "v1.11", "v1.16+"),
        ("scaleIO", "scaleIO", "v1.16", "v1.22+"),
        ("storageos", "storageOS", "v1.22", "v1.25+"),
        ("glusterfs", "glusterfs", "v1.25", "v1.26+"),
        ("rbd", "rbd", "v1.28", "v1.31+"),
    ] {
        if object.get("spec").is_some_and(|s| member(s, field).is_some()) {
            out.push(format!("spec.{error_name}: deprecated in {since}, non-functional in {gone}"));
        }
    }
}

fn validate_mount_options(object: &Value, errors: &mut FieldErrors) {
    let mountable =
        object.get("spec").is_some_and(|s| MOUNTABLE.iter().any(|field| member(s, field).is_some()));
    if !mountable && metadata::annotation(object, MOUNT_OPTIONS).is_some() {
        let annotations = Path::of("metadata.annotations");
        errors.forbidden(
            &annotations.field(MOUNT_OPTIONS),
            "may not specify mount options for this volume type",
        );
    }
}

/// The source is immutable, except that a secret for expansion may be added.
fn validate_source_stays(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let expand = ["spec", "csi", "controllerExpandSecretRef"];
    const TYPE: &str = "core/v1.PersistentVolumeSource";
    let error_text = |object: &Value| Internal(object.get("spec"), TYPE).error_text();
    let mut new = object.clone();
    if old.at(&["spec", "csi"]).is_some() && old.at(&expand).is_none() {
        new.remove_at(&expand);
    }
    if error_text(old) != error_text(&new) {
        let (old, new) = (old.get("spec").unwrap_or(&Value::Null), new.get("spec").unwrap_or(&Value::Null));
        let changes = diff_from_stored(old, new, TYPE);
        let detail = format!("spec.persistentvolumesource is immutable after creation\n{changes}");
        errors.forbidden(&Path::of("spec.persistentvolumesource"), &detail);
    }
}

fn validate_affinity_stays(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let keys = ["spec", "nodeAffinity"];
    let Some(before) = old.at(&keys).filter(|_| !features::is_enabled("MutablePVNodeAffinity")) else {
        return;
    };
    let after = object.at(&keys);
    if after.is_some_and(|after| *after == with_new_labels(before, after)) {
        return;
    }
    let detail = "field is immutable, except for updating from beta label to GA";
    errors.invalid(&Path::of("nodeAffinity"), Internal(after, "core/v1.VolumeNodeAffinity"), detail);
}

/// The old affinity, with the new label names where the new affinity uses them.
fn with_new_labels(before: &Value, after: &Value) -> Value {
    let mut out = before.clone();
    let terms = ["required", "nodeSelectorTerms"];
    let old_terms = out.at_mut(&terms).and_then(Value::as_array_mut).into_iter().flatten();
    for (term, new_term) in old_terms.zip(after.items_at(&terms)) {
        for (old, new) in
            fill::items(term, "matchExpressions").iter_mut().zip(list(new_term, "matchExpressions"))
        {
            let key = text(new, "key");
            if NEW_LABELS.contains(&(text(old, "key"), key)) {
                old.set_at(&["key"], key.into());
            }
        }
    }
    out
}

#[cfg(test)]
mod tests;
