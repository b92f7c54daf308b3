//! Annotations of pods that are validated: tolerations, deletion cost, legacy profiles.

use super::defaults::CONTAINER_LISTS;
use super::options::Options;
use super::{paths, scheduling};
use crate::core::pod::apparmor::ANNOTATION_PREFIX as APPARMOR_PREFIX;
use crate::fields::{entries, list, member, opt_text, text};
use pintle_meta::FieldErrors;
use pintle_meta::field::quoted;
use pintle_value::{Path, Value, json};

/// Marks the copy of a static pod.
pub(crate) const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const TOLERATIONS: &str = "scheduler.alpha.kubernetes.io/tolerations";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER_PREFIX: &str = "container.seccomp.security.alpha.kubernetes.io/";
const LOCALHOST_PREFIX: &str = "localhost/";

/// Validates the annotations of a pod or template, which are at `path`.
pub(crate) fn validate(
    annotations: Option<&Value>,
    spec: &Value,
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    let Some(annotations) = annotations else { return };
    if let Some(value) = opt_text(annotations, MIRROR).filter(|_| text(spec, "nodeName").is_empty()) {
        errors.invalid(&path.key(MIRROR), value, "must set spec.nodeName if mirror pod annotation is set");
    }
    if !text(annotations, TOLERATIONS).is_empty() {
        validate_tolerations(text(annotations, TOLERATIONS), path, options, errors);
    }
    if !options.invalid_deletion_cost && !is_deletion_cost_valid(Some(annotations)) {
        let value = text(annotations, DELETION_COST);
        errors.invalid(&path.key(DELETION_COST), value, "must be a 32bit integer");
    }
    validate_seccomp(annotations, path, errors);
    validate_app_armor(annotations, spec, path, errors);
}

fn validate_tolerations(value: &str, path: &Path<'_>, options: &Options, errors: &mut FieldErrors) {
    match json::parse(value.as_bytes()) {
        Ok(parsed) => {
            let list = parsed.value.as_array().unwrap_or(&[]);
            scheduling::validate_tolerations_with(list, &path.field(TOLERATIONS), options, errors);
        }
        Err(error) => errors.invalid(path, TOLERATIONS, error.message()),
    }
}

/// Returns whether the deletion cost, if present, is a canonical 32-bit integer.
pub(crate) fn is_deletion_cost_valid(annotations: Option<&Value>) -> bool {
    let Some(cost) = annotations.and_then(|a| opt_text(a, DELETION_COST)) else { return true };
    let plain = cost == "0" || cost.starts_with(['-', '1', '2', '3', '4', '5', '6', '7', '8', '9']);
    plain && cost.parse::<i32>().is_ok()
}

fn validate_seccomp(annotations: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let of_containers =
        entries(Some(annotations)).filter(|(key, _)| key.starts_with(SECCOMP_CONTAINER_PREFIX));
    let of_pod = entries(Some(annotations)).filter(|(key, _)| *key == SECCOMP_POD);
    for (key, value) in of_pod.chain(of_containers) {
        let profile = value.as_str().unwrap_or("");
        let path = path.field(key);
        match profile.strip_prefix(LOCALHOST_PREFIX) {
            Some(local) => paths::local_descending(&path, local, errors),
            None if matches!(profile, "runtime/default" | "docker/default" | "unconfined") => {}
            None => errors.invalid(&path, profile, "must be a valid seccomp profile"),
        }
    }
}

fn validate_app_armor(annotations: &Value, spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    for (key, value) in entries(Some(annotations)) {
        let Some(container) = key.strip_prefix(APPARMOR_PREFIX) else { continue };
        let mut names = CONTAINER_LISTS.iter().flat_map(|l| list(spec, l)).map(|c| text(c, "name"));
        if !names.any(|name| name == container) {
            errors.invalid(&path.key(key), container, "container not found");
        }
        let profile = value.as_str().unwrap_or("");
        let known = matches!(profile, "" | "runtime/default" | "unconfined");
        if !known && !profile.starts_with(LOCALHOST_PREFIX) {
            let detail = format!("invalid AppArmor profile name: {}", quoted(profile));
            errors.invalid(&path.key(key), profile, &detail);
        }
    }
}

/// Validates that immutable annotations are unchanged.
pub(crate) fn validate_update(
    new: Option<&Value>,
    old: Option<&Value>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let get = |of: Option<&Value>, key: &str| of.and_then(|a| a.get(key)).cloned();
    let mut complain = |key: &str, verb: &str| {
        if key.starts_with(APPARMOR_PREFIX) {
            errors.forbidden(&path.key(key), &format!("may not {verb} AppArmor annotations"));
        }
        if key == MIRROR {
            errors.forbidden(&path.key(key), &format!("may not {verb} mirror pod annotation"));
        }
    };
    for (key, value) in entries(old) {
        if get(new, key).as_ref() != Some(value) {
            complain(key, "remove or update");
        }
    }
    for (key, _) in entries(new) {
        if get(old, key).is_none() {
            complain(key, "add");
        }
    }
}

/// Validates that profiles in fields and annotations agree.
pub(crate) fn validate_profiles(
    meta: Option<&Value>,
    spec: &Value,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let annotation = |key: &str| meta.and_then(|m| m.at(&["annotations", key])).and_then(Value::as_str);
    let context = path.field("securityContext");
    if let (Some(field), Some(value)) =
        (spec.at(&["securityContext", "seccompProfile"]), annotation(SECCOMP_POD))
    {
        require_same_profile(field, value, "seccomp", &context.field("seccompProfile"), errors);
    }
    super::visit_containers(spec, path, |container, path| {
        let key = format!("{SECCOMP_CONTAINER_PREFIX}{}", text(container, "name"));
        let field = container.at(&["securityContext", "seccompProfile"]);
        if let (Some(field), Some(value)) = (field, annotation(&key)) {
            require_same_profile(
                field,
                value,
                "seccomp",
                &path.field("securityContext.seccompProfile"),
                errors,
            );
        }
    });
    if spec.str_at(&["os", "name"]) == "windows" {
        return;
    }
    let of_pod = spec.at(&["securityContext", "appArmorProfile"]);
    super::visit_containers(spec, path, |container, path| {
        let key = format!("{APPARMOR_PREFIX}{}", text(container, "name"));
        let own = member(container, "securityContext").and_then(|c| member(c, "appArmorProfile"));
        if let (Some(field), Some(value)) = (own.or(of_pod), annotation(&key)) {
            require_same_profile(
                field,
                value,
                "apparmor",
                &path.field("securityContext.appArmorProfile"),
                errors,
            );
        }
    });
}

fn require_same_profile(
    field: &Value,
    annotation: &str,
    what: &str,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let docker = what == "seccomp" && annotation == "docker/default";
    let same_type = match text(field, "type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => annotation == "runtime/default" || docker,
        "Localhost" => annotation.starts_with(LOCALHOST_PREFIX),
        _ => return,
    };
    if !same_type {
        let detail = format!("{what} type in annotation and field must match");
        errors.forbidden(&path.field("type"), &detail);
    } else if text(field, "type") == "Localhost"
        && opt_text(field, "localhostProfile") != annotation.strip_prefix(LOCALHOST_PREFIX)
    {
        let detail = format!("{what} profile in annotation and field must match");
        errors.forbidden(&path.field("localhostProfile"), &detail);
    }
}
