//! The volume sources of PersistentVolumes: one validation each, in kube-apiserver's order.

use crate::core::podspec::volume_sources;
use crate::fields::{flag, member, opt_text, text};
use crate::{check, facts};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

/// The limit of a volume's name and portal together if the initiator has a name.
const PORTAL_BYTES_MAX: usize = 64;
const PORTAL_WORDS: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
const NAMESPACE_WORDS: &str = "if the endpointnamespace is set, it must be a valid namespace name";

/// The type with the sources as its fields.
pub(super) const TYPE: &str = "core/v1.PersistentVolumeSource";

/// Validates a source of the volume `name`.
pub(super) fn validate(field: &str, source: &Value, name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    match field {
        "glusterfs" => {
            facts::check_member(source, TYPE, field, path, errors);
            validate_endpoints_namespace(source, &path.field("endpointsNamespace"), errors);
        }
        "iscsi" => validate_iscsi(source, name, path, errors),
        "azureFile" | "cinder" | "local" | "storageos" | "csi" => {
            facts::check_member(source, TYPE, field, path, errors);
        }
        shared => volume_sources::validate(shared, source, path, errors),
    }
}

fn validate_endpoints_namespace(source: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    match opt_text(source, "endpointsNamespace") {
        None => {}
        Some("") => errors.invalid(path, "", NAMESPACE_WORDS),
        Some(namespace) => check::each(names::dns_label(namespace, false), path, namespace, errors),
    }
}

fn validate_iscsi(source: &Value, name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let portal = text(source, "targetPortal");
    check::required(source, "targetPortal", path, errors);
    let initiator = opt_text(source, "initiatorName");
    if initiator.is_some() && name.len().saturating_add(portal.len()) >= PORTAL_BYTES_MAX {
        errors.invalid(&path.field("targetportal"), portal, PORTAL_WORDS);
    }
    let iqn = text(source, "iqn");
    if iqn.is_empty() {
        errors.required(&path.field("iqn"), "");
    } else if !is_qualified(iqn) {
        errors.invalid(&path.field("iqn"), iqn, "must be valid format");
    }
    facts::check_fields(source, "core/v1.ISCSIPersistentVolumeSource", &["lun"], path, errors);
    let secret = member(source, "secretRef");
    if secret.is_none() && (flag(source, "chapAuthDiscovery") || flag(source, "chapAuthSession")) {
        errors.required(&path.field("secretRef"), "");
    }
    if let Some(secret) = secret {
        check::required(secret, "name", &path.field("secretRef"), errors);
    }
    if let Some(initiator) = initiator.filter(|i| !is_qualified(i)) {
        errors.invalid(&path.field("initiatorname"), initiator, "must be valid format");
    }
}

/// Returns whether the rules for pods accept an iSCSI name.
fn is_qualified(name: &str) -> bool {
    let mut errors = FieldErrors::new();
    volume_sources::validate_iscsi_name(name, &Path::ROOT, &mut errors);
    errors.is_empty()
}
