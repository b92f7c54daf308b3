//! Environment variables of containers and their sources.

use crate::fields::{list, member, quantity, text};
use crate::{check, facts, features};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

/// The fields that a variable can refer to.
const FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// All fields that the downward API ever had.
const KNOWN_FIELDS: [&str; 14] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.serviceAccountName",
    "spec.schedulerName",
    "status.phase",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// The resources that a variable or file can refer to.
const RESOURCES: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const BYTE_DIVISORS: [&str; 13] =
    ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];

/// Checks the variables of a container.
pub(crate) fn validate(vars: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    for (at, var) in vars.iter().enumerate() {
        let path = path.index(at);
        facts::check(var, "core/v1.EnvVar", &path, errors);
        if let Some(from) = member(var, "valueFrom") {
            validate_value_from(from, text(var, "value"), &path.field("valueFrom"), errors);
        }
    }
}

fn validate_value_from(from: &Value, value: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let mut count = 0_usize;
    for key in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let Some(source) = member(from, key) else { continue };
        count = count.saturating_add(1);
        let path = path.field(key);
        match key {
            "fieldRef" => validate_field_ref(source, &FIELDS, &path, errors),
            "resourceFieldRef" => validate_resource_ref(source, false, &path, errors),
            "fileKeyRef" => facts::check(source, "core/v1.FileKeySelector", &path, errors),
            _ => facts::check(source, "core/v1.SecretKeySelector", &path, errors),
        }
    }
    if count == 0 {
        let detail = if features::is_enabled("EnvFiles") {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        } else {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        };
        errors.invalid(path, "", detail);
    } else if !value.is_empty() {
        errors.invalid(path, "", "may not be specified when `value` is not empty");
    } else if count > 1 {
        errors.invalid(path, "", "may not have more than one field specified at a time");
    }
}

/// Validates a reference to a field of the pod: one of `allowed`, or an entry of labels or annotations.
pub(crate) fn validate_field_ref(
    selector: &Value,
    allowed: &[&str],
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let (version, field) = (text(selector, "apiVersion"), text(selector, "fieldPath"));
    if version.is_empty() {
        return errors.required(&path.field("apiVersion"), "");
    }
    if field.is_empty() {
        return errors.required(&path.field("fieldPath"), "");
    }
    let internal = match internal_field(version, field) {
        Ok(internal) => internal,
        Err(error) => {
            let detail = format!("error converting fieldPath: {error}");
            return errors.invalid(&path.field("fieldPath"), field, &detail);
        }
    };
    match subscripted(internal) {
        Some(("metadata.annotations", key)) => check::qualified_name(path, &key.to_lowercase(), errors),
        Some(("metadata.labels", key)) => check::qualified_name(path, key, errors),
        Some((base, _)) => errors.invalid(path, base, "does not support subscript"),
        None if !allowed.contains(&internal) => {
            errors.not_supported(&path.field("fieldPath"), internal, allowed);
        }
        None => {}
    }
}

fn internal_field<'a>(version: &str, field: &'a str) -> Result<&'a str, String> {
    if version != "v1" {
        return Err(format!("unsupported pod version: {version}"));
    }
    match subscripted(field) {
        Some(("metadata.annotations" | "metadata.labels", _)) => return Ok(field),
        Some(_) => return Err(format!("field label does not support subscript: {field}")),
        None => {}
    }
    match field {
        "spec.host" => Ok("spec.nodeName"),
        known if KNOWN_FIELDS.contains(&known) => Ok(known),
        other => Err(format!("field label not supported: {other}")),
    }
}

/// The parts of `path['key']`.
fn subscripted(field: &str) -> Option<(&str, &str)> {
    field.strip_suffix("']")?.split_once("['").filter(|(base, _)| !base.is_empty())
}

/// Validates a reference to a container's resource; a volume must name the container.
pub(crate) fn validate_resource_ref(
    selector: &Value,
    volume: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let resource = text(selector, "resource");
    let huge_pages = resource.starts_with("requests.hugepages-") || resource.starts_with("limits.hugepages-");
    if volume && text(selector, "containerName").is_empty() {
        errors.required(&path.field("containerName"), "");
    } else if resource.is_empty() {
        errors.required(&path.field("resource"), "");
    } else if !RESOURCES.contains(&resource) && !huge_pages {
        errors.not_supported(&path.field("resource"), resource, &RESOURCES);
    }
    validate_divisor(resource, selector.get("divisor"), &path.field("divisor"), errors);
}

fn validate_divisor(resource: &str, divisor: Option<&Value>, path: &Path<'_>, errors: &mut FieldErrors) {
    let amount = quantity(divisor);
    if amount.is_zero() {
        return;
    }
    let amount = amount.to_string();
    let what = match resource {
        "limits.cpu" | "requests.cpu" => {
            if amount != "1m" && amount != "1" {
                let detail = "only divisor's values 1m and 1 are supported with the cpu resource";
                errors.invalid(path, resource, detail);
            }
            return;
        }
        "limits.memory" | "requests.memory" => "memory",
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => "local ephemeral storage",
        other if other.starts_with("requests.hugepages-") || other.starts_with("limits.hugepages-") => {
            "hugepages"
        }
        _ => return,
    };
    if !BYTE_DIVISORS.contains(&amount.as_str()) {
        let list = BYTE_DIVISORS.join(", ");
        let detail = format!("only divisor's values {list} are supported with the {what} resource");
        errors.invalid(path, resource, &detail);
    }
}

/// Validates `envFrom`.
pub(crate) fn validate_from(sources: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    for (at, source) in sources.iter().enumerate() {
        let item = path.index(at);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            check::each(names::is_relaxed_env_var_name(prefix), &item.field("prefix"), prefix, errors);
        }
        let mut count = 0_usize;
        for key in ["configMapRef", "secretRef"] {
            let Some(reference) = member(source, key) else { continue };
            count = count.saturating_add(1);
            let path = item.field(key);
            match text(reference, "name") {
                "" => errors.required(&path.field("name"), ""),
                name => check::each(names::dns_subdomain(name, true), &path.field("name"), name, errors),
            }
        }
        if count == 0 {
            errors.invalid(path, "", "must specify one of: `configMapRef` or `secretRef`");
        } else if count > 1 {
            errors.invalid(path, "", "may not have more than one field specified at a time");
        }
    }
}

/// Variables from files need an emptyDir volume.
pub(crate) fn validate_file_volumes(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    super::visit_containers(spec, path, |container, path| {
        for (at, var) in list(container, "env").iter().enumerate() {
            let Some(file) = var.at(&["valueFrom", "fileKeyRef"]) else { continue };
            let name = text(file, "volumeName");
            let env = path.field("env");
            let item = env.index(at);
            let field = item.field("valueFrom.fileKeyRef.volumeName");
            match list(spec, "volumes").iter().rfind(|v| text(v, "name") == name) {
                None => errors.not_found(&field, name),
                Some(volume) if member(volume, "emptyDir").is_none() => {
                    errors.invalid(&field, name, "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    });
}
