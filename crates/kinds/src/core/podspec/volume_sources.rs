//! Validates the sources of volumes.

use crate::core::claim;
use crate::fields::{entries, flag, list, member, opt_int, opt_text, text};
use crate::{check, facts};
use pintle_meta::selector::label_validation;
use pintle_meta::{FieldErrors, names, objectmeta};
use pintle_value::{Path, Value};

/// The longest allowed name of a CSI driver.
const CSI_DRIVER_BYTES_MAX: usize = 63;
/// The longest allowed tenant of Quobyte.
const QUOBYTE_TENANT_BYTES_MAX: usize = 64;

/// The name of a source in the paths of its errors.
pub(crate) fn error_name(field: &'static str) -> &'static str {
    if field == "gcePersistentDisk" { "persistentDisk" } else { field }
}

/// Validates the source of type `key`: its facts, and what relates several of its fields.
pub(crate) fn validate(key: &str, source: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check_member(source, "core/v1.VolumeSource", key, path, errors);
    match key {
        "iscsi" => validate_iscsi(source, path, errors),
        "flocker" => validate_flocker(source, path, errors),
        "quobyte" => validate_quobyte(source, path, errors),
        "fc" => validate_fibre_channel(source, path, errors),
        "flexVolume" => validate_flex_options(source, path, errors),
        "azureDisk" => validate_azure_disk_uri(source, path, errors),
        "csi" => validate_csi_secret(source, path, errors),
        _ => {}
    }
}

fn validate_iscsi(source: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let authenticates = flag(source, "chapAuthDiscovery") || flag(source, "chapAuthSession");
    if authenticates && member(source, "secretRef").is_none() {
        errors.required(&path.field("secretRef"), "");
    }
    if let Some(initiator) = opt_text(source, "initiatorName") {
        validate_iscsi_name(initiator, &path.field("initiatorname"), errors);
    }
}

/// Validates a qualified iSCSI name: `iqn`, `eui` or `naa`.
pub(crate) fn validate_iscsi_name(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let hex_form = |length: usize| {
        // The character after the prefix is not checked.
        let rest = name.get(4..).unwrap_or("");
        rest.len() == length && rest.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    let fine = match name.get(..3) {
        Some("iqn") => is_iqn(name),
        Some("eui") => hex_form(16),
        Some("naa") => hex_form(32),
        _ => return errors.invalid(path, name, "must be valid format starting with iqn, eui, or naa"),
    };
    if !fine {
        errors.invalid(path, name, "must be valid format");
    }
}

/// Returns whether the name has the form `iqn.YYYY-MM.authority:name`.
fn is_iqn(name: &str) -> bool {
    let Some((date, rest)) = name.strip_prefix("iqn.").and_then(|rest| rest.split_once('.')) else {
        return false;
    };
    let digits = |text: &str, count: usize| text.len() == count && text.bytes().all(|b| b.is_ascii_digit());
    let dated = date.split_once('-').is_some_and(|(year, month)| digits(year, 4) && digits(month, 2));
    let Some((authority, label)) = rest.split_once(':') else { return false };
    let authority_byte = |b: u8| b.is_ascii_alphanumeric() || b == b'-' || b == b'.';
    let label_char = |c: char| !",;*&$|".contains(c) && !c.is_ascii_whitespace();
    dated
        && !authority.is_empty()
        && authority.bytes().all(authority_byte)
        && !label.is_empty()
        && label.chars().all(label_char)
}

fn validate_flocker(source: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let (name, uuid) = (text(source, "datasetName"), text(source, "datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        errors.required(path, "one of datasetName and datasetUUID is required");
    }
    if !name.is_empty() && !uuid.is_empty() {
        errors.invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously");
    }
    if name.contains('/') {
        errors.invalid(&path.field("datasetName"), name, "must not contain '/'");
    }
}

fn validate_quobyte(source: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text(source, "registry");
    if registry.is_empty() {
        errors.required(&path.field("registry"), PAIRS);
    } else if text(source, "tenant").len() > QUOBYTE_TENANT_BYTES_MAX {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        errors.required(&path.field("tenant"), detail);
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_and_port(pair)) {
            errors.invalid(&path.field("registry"), registry, PAIRS);
        }
    }
    check::required(source, "volume", path, errors);
}

fn is_host_and_port(pair: &str) -> bool {
    match pair.strip_prefix('[') {
        Some(rest) => rest.split_once("]:").is_some_and(|(_, port)| !port.contains([':', '[', ']'])),
        None => pair.matches(':').count() == 1 && !pair.contains(['[', ']']),
    }
}

fn validate_fibre_channel(source: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let (targets, wwids) = (list(source, "targetWWNs"), list(source, "wwids"));
    let field = path.field("targetWWNs");
    if targets.is_empty() && wwids.is_empty() {
        errors.required(&field, "must specify either targetWWNs or wwids, but not both");
    }
    if !targets.is_empty() && !wwids.is_empty() {
        errors.invalid(
            &field,
            source.get("targetWWNs"),
            "targetWWNs and wwids can not be specified simultaneously",
        );
    }
    if targets.is_empty() {
        return;
    }
    match opt_int(source, "lun") {
        None => errors.required(&path.field("lun"), "lun is required if targetWWNs is specified"),
        Some(lun) if !(0..=255).contains(&lun) => {
            errors.invalid(&path.field("lun"), lun, &names::range_error(0, 255));
        }
        Some(_) => {}
    }
}

fn validate_flex_options(source: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    for (key, _) in entries(source.get("options")) {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid(&path.field("options").key(key), key, detail);
        }
    }
}

fn validate_azure_disk_uri(source: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let uri = text(source, "diskURI");
    let supported = match opt_text(source, "kind") {
        Some("Managed") if !uri.starts_with("/subscriptions/") => {
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
        }
        Some(other) if other != "Managed" && !uri.starts_with("https://") => {
            "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
        }
        _ => return,
    };
    errors.not_supported(&path.field("diskURI"), uri, &[supported]);
}

/// The name of a CSI driver.
pub(crate) fn validate_csi_driver_name(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    if name.len() > CSI_DRIVER_BYTES_MAX {
        errors.too_long(path, CSI_DRIVER_BYTES_MAX);
    }
    check::each(names::is_dns1123_subdomain(&name.to_lowercase()), path, name, errors);
}

fn validate_csi_secret(source: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(secret) = member(source, "nodePublishSecretRef") else { return };
    match text(secret, "name") {
        "" => errors.required(&path.field("nodePublishSecretRef.name"), ""),
        name => check::each(names::dns_subdomain(name, false), &path.field("name"), name, errors),
    }
}

/// Validates an ephemeral volume, whose claim is created with the pod.
pub(crate) fn validate_ephemeral(source: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let path = path.field("volumeClaimTemplate");
    let Some(template) = member(source, "volumeClaimTemplate") else { return errors.required(&path, "") };
    validate_template_metadata(template.get("metadata"), &path.field("metadata"), errors);
    claim::validate_spec(template.get("spec").unwrap_or(&Value::Null), &path.field("spec"), errors);
}

/// Validates the metadata of a template: only labels and annotations are allowed.
pub(crate) fn validate_template_metadata(meta: Option<&Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    /// In the order of Go's struct: fields that a template cannot set.
    const REST: [&str; 12] = [
        "name",
        "generateName",
        "namespace",
        "selfLink",
        "uID",
        "resourceVersion",
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "ownerReferences",
        "finalizers",
    ];
    let Some(meta) = meta else { return };
    let map = |key: &str| meta.get(key).and_then(Value::as_object);
    objectmeta::validate_annotations(map("annotations"), &path.field("annotations"), errors);
    label_validation::validate_labels(map("labels"), &path.field("labels"), errors);
    for field in REST {
        let key = if field == "uID" { "uid" } else { field };
        if member(meta, key).is_some() {
            errors.forbidden(&path.field(field), "cannot be set");
        }
    }
    if member(meta, "managedFields").is_some() {
        errors.forbidden(&path.field("managedFields"), "cannot be set");
    }
}
