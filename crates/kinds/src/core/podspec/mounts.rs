//! Mounts and block devices of containers.

use super::paths;
use super::volumes::{Volumes, is_claim};
use crate::check;
use crate::fields::{flag, list, opt_text, text};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};
use std::collections::{HashMap, HashSet};

const PROPAGATIONS: [&str; 3] = ["Bidirectional", "HostToContainer", "None"];

/// Checks the mounts of a container.
pub(crate) fn validate(container: &Value, volumes: &Volumes<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let devices = paths_by_name(list(container, "volumeDevices"), "devicePath");
    let device_paths: HashSet<&str> = devices.values().copied().collect();
    let mut targets = HashSet::new();
    for (at, mount) in list(container, "volumeMounts").iter().enumerate() {
        let item = path.index(at);
        let (name, target) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.required(&item.field("name"), "");
        }
        if !volumes.contains_key(name) {
            errors.not_found(&item.field("name"), name);
        }
        if target.is_empty() {
            errors.required(&item.field("mountPath"), "");
        }
        if !targets.insert(target) {
            errors.invalid(&item.field("mountPath"), target, "must be unique");
        }
        if devices.contains_key(name) {
            errors.invalid(&item.field("name"), name, "must not already exist in volumeDevices");
        }
        if device_paths.contains(target) {
            errors.invalid(
                &item.field("mountPath"),
                target,
                "must not already exist as a path in volumeDevices",
            );
        }
        validate_sub_paths(mount, &item, path, errors);
        validate_propagation(mount, container, &path.field("mountPropagation"), errors);
        validate_recursive_read_only(mount, &path.field("recursiveReadOnly"), errors);
    }
}

/// The paths of mounts or devices by the names of their volumes. As in kube-apiserver, only the last path of a name counts.
fn paths_by_name<'a>(items: &'a [Value], key: &str) -> HashMap<&'a str, &'a str> {
    items.iter().map(|item| (text(item, "name"), text(item, key))).collect()
}

fn validate_sub_paths(mount: &Value, item: &Path<'_>, mounts: &Path<'_>, errors: &mut FieldErrors) {
    let (plain, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
    if !plain.is_empty() {
        paths::local_descending(&mounts.field("subPath"), plain, errors);
    }
    if expression.is_empty() {
        return;
    }
    if !plain.is_empty() {
        let detail = "subPathExpr and subPath are mutually exclusive";
        errors.invalid(&item.field("subPathExpr"), expression, detail);
    }
    paths::local_descending(&mounts.field("subPathExpr"), expression, errors);
}

fn validate_propagation(mount: &Value, container: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let mode = opt_text(mount, "mountPropagation");
    check::supported(path, mode, &PROPAGATIONS, errors);
    let privileged = container.get("securityContext").is_some_and(|c| flag(c, "privileged"));
    if mode == Some("Bidirectional") && !privileged {
        errors.forbidden(path, "Bidirectional mount propagation is available only to privileged containers");
    }
}

fn validate_recursive_read_only(mount: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    match opt_text(mount, "recursiveReadOnly") {
        None | Some("Disabled") => {}
        Some("Enabled" | "IfPossible") => {
            if !flag(mount, "readOnly") {
                errors.forbidden(path, "may only be specified when readOnly is true");
            }
            if opt_text(mount, "mountPropagation").is_some_and(|p| p != "None") {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(path, detail);
            }
        }
        other => check::supported(path, other, &["Disabled", "Enabled", "IfPossible"], errors),
    }
}

/// Checks the block devices of a container.
pub(crate) fn validate_devices(
    container: &Value,
    volumes: &Volumes<'_>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let mounts = paths_by_name(list(container, "volumeMounts"), "mountPath");
    let mount_paths: HashSet<&str> = mounts.values().copied().collect();
    let (mut seen_names, mut seen_paths) = (HashSet::new(), HashSet::new());
    for (at, device) in list(container, "volumeDevices").iter().enumerate() {
        let item = path.index(at);
        let (name, target) = (text(device, "name"), text(device, "devicePath"));
        let (name_path, target_path) = (item.field("name"), item.field("devicePath"));
        if name.is_empty() {
            errors.required(&name_path, "");
        }
        if seen_names.contains(name) {
            errors.invalid(&name_path, name, "must be unique");
        }
        match volumes.get(name) {
            Some(volume) if !is_claim(volume) => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&name_path, name, detail);
            }
            Some(_) => {}
            None => errors.not_found(&name_path, name),
        }
        if target.is_empty() {
            errors.required(&target_path, "");
        }
        if seen_paths.contains(target) {
            errors.invalid(&target_path, target, "must be unique");
        }
        if paths::has_backstep(target) {
            errors.invalid(&target_path, target, "can not contain backsteps ('..')");
        } else {
            seen_paths.insert(target);
        }
        if mounts.contains_key(name) {
            errors.invalid(&name_path, name, "must not already exist in volumeMounts");
        }
        if mount_paths.contains(target) {
            errors.invalid(&target_path, target, "must not already exist as a path in volumeMounts");
        }
        if !name.is_empty() {
            seen_names.insert(name);
        }
    }
}
