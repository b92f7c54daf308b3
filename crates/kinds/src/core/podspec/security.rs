//! Validates security contexts of pods and containers.

use super::options::Options;
use super::paths;
use crate::error_text::Internal;
use crate::fields::{flag, list, member, opt_flag, opt_int, opt_text, text};
use crate::{check, facts};
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};
use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// The longest allowed name of a sysctl.
const SYSCTL_BYTES_MAX: usize = 253;
/// The longest allowed name of an AppArmor profile on the node.
const APPARMOR_PROFILE_BYTES_MAX: usize = 4095;
const POD_CONTEXT: &str = "core/v1.PodSecurityContext";
const PROFILE_TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];
/// Whether privileged containers are refused (`--allow-privileged=false`). Global, as in kube-apiserver, because it
/// affects every pod template of every kind.
static PRIVILEGED_REFUSED: AtomicBool = AtomicBool::new(false);

/// Sets whether containers may be privileged.
pub fn set_allow_privileged(allow: bool) {
    PRIVILEGED_REFUSED.store(!allow, Ordering::Relaxed);
}

/// Returns whether privileged containers, and containers that are processes of a Windows host, are refused.
pub(super) fn refuses_privileged() -> bool {
    PRIVILEGED_REFUSED.load(Ordering::Relaxed)
}

/// Validates the security context of a container. `host_users`: the pod shares the host's user namespace.
pub(crate) fn validate_container(
    context: &Value,
    host_users: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    if flag(context, "privileged") && refuses_privileged() {
        errors.forbidden(&path.field("privileged"), "disallowed by cluster policy");
    }
    validate_id(context, "runAsUser", path, errors);
    validate_id(context, "runAsGroup", path, errors);
    if let Some(mount) = opt_text(context, "procMount") {
        check::supported(&path.field("procMount"), Some(mount), &["Default", "Unmasked"], errors);
        if host_users && mount == "Unmasked" {
            let detail = "`hostUsers` must be false to use `Unmasked`";
            errors.invalid(&path.field("procMount"), Named(mount), detail);
        }
    }
    validate_seccomp(context, path, errors);
    if opt_flag(context, "allowPrivilegeEscalation") == Some(false) {
        if flag(context, "privileged") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(path, Internal(Some(context), "core/v1.SecurityContext"), detail);
        }
        let admin = |c: &&Value| c.as_str() == Some("CAP_SYS_ADMIN");
        for _ in context.items_at(&["capabilities", "add"]).iter().filter(admin) {
            let detail =
                "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(path, Internal(Some(context), "core/v1.SecurityContext"), detail);
        }
    }
    super::windows::validate_options(context, path, errors);
    validate_app_armor(context, path, errors);
}

/// Checks the security context of a pod.
pub(crate) fn validate_pod(spec: &Value, path: &Path<'_>, options: &Options, errors: &mut FieldErrors) {
    let Some(context) = member(spec, "securityContext") else { return };
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        validate_id(context, key, path, errors);
    }
    for (at, group) in list(context, "supplementalGroups").iter().enumerate() {
        let group = group.as_int().unwrap_or(0);
        let field = path.field("supplementalGroups");
        check::each(names::is_valid_group_id(group), &field.index(at), group, errors);
    }
    if flag(spec, "hostPID") && flag(spec, "shareProcessNamespace") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        errors.invalid(&path.field("shareProcessNamespace"), true, detail);
    }
    validate_sysctls(spec, context, &path.field("sysctls"), options, errors);
    facts::check_fields(context, POD_CONTEXT, &["fsGroupChangePolicy"], path, errors);
    validate_seccomp(context, path, errors);
    super::windows::validate_options(context, path, errors);
    validate_app_armor(context, path, errors);
    facts::check_fields(context, POD_CONTEXT, &["supplementalGroupsPolicy"], path, errors);
    let selinux: &[&str] =
        if options.any_selinux_change_policy { &["MountOption", "Recursive"] } else { &["Recursive"] };
    let policy = opt_text(context, "seLinuxChangePolicy");
    check::supported(&path.field("seLinuxChangePolicy"), policy, selinux, errors);
}

fn validate_id(context: &Value, key: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    if let Some(id) = opt_int(context, key) {
        check::each(names::is_valid_user_id(id), &path.field(key), id, errors);
    }
}

fn validate_seccomp(context: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(profile) = member(context, "seccompProfile") else { return };
    let path = path.field("seccompProfile");
    match text(profile, "type") {
        "" => errors.required(&path.field("type"), "type is required when seccompProfile is set"),
        kind => check::supported(&path.field("type"), Some(kind), &PROFILE_TYPES, errors),
    }
    let field = path.field("localhostProfile");
    match (text(profile, "type") == "Localhost", opt_text(profile, "localhostProfile")) {
        (true, None) => errors.required(&field, "must be set when seccomp type is Localhost"),
        (true, Some(name)) => paths::local_descending(&field, name, errors),
        (false, Some(_)) => {
            let detail = "can only be set when seccomp type is Localhost";
            errors.invalid(&field, Internal(Some(profile), "core/v1.SeccompProfile"), detail);
        }
        (false, None) => {}
    }
}

fn validate_app_armor(context: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    const NEEDED: &str = "must be set when AppArmor type is Localhost";
    let Some(profile) = member(context, "appArmorProfile") else { return };
    let path = path.field("appArmorProfile");
    let field = path.field("localhostProfile");
    let local = opt_text(profile, "localhostProfile");
    match (text(profile, "type"), local) {
        ("Localhost", None) => errors.required(&field, NEEDED),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                errors.invalid(&field, name, "must not be padded with whitespace");
            } else if name.is_empty() {
                errors.required(&field, NEEDED);
            }
            if name.len() > APPARMOR_PROFILE_BYTES_MAX {
                errors.too_long(&field, APPARMOR_PROFILE_BYTES_MAX);
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            errors.invalid(&field, Named(name), "can only be set when AppArmor type is Localhost");
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => errors.required(&path.field("type"), "type is required when appArmorProfile is set"),
        (other, _) => errors.not_supported(&path.field("type"), Named(other), &PROFILE_TYPES),
    }
}

fn validate_sysctls(
    spec: &Value,
    context: &Value,
    path: &Path<'_>,
    options: &Options,
    errors: &mut FieldErrors,
) {
    let mut seen = HashSet::new();
    for (at, sysctl) in list(context, "sysctls").iter().enumerate() {
        let name = text(sysctl, "name");
        let item = path.index(at);
        let field = item.field("name");
        if name.is_empty() {
            errors.required(&field, "");
        } else if !is_sysctl_name(name) {
            let detail = "must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$";
            errors.invalid(&field, name, detail);
        } else if seen.contains(name) {
            errors.duplicate(&field, name);
        }
        if let Some(detail) = host_sysctl_error(name, spec).filter(|_| !options.host_sysctls) {
            errors.invalid(&field, name, detail);
        }
        seen.insert(name);
    }
}

fn is_sysctl_name(name: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    let segment = |part: &str| {
        part.bytes().next().is_some_and(plain)
            && part.bytes().last().is_some_and(plain)
            && part.bytes().all(|b| plain(b) || b == b'-' || b == b'_')
    };
    name.len() <= SYSCTL_BYTES_MAX && name.split(['.', '/']).all(segment)
}

/// The reason why a sysctl cannot be set for a pod that shares its namespace with the host.
fn host_sysctl_error(name: &str, spec: &Value) -> Option<&'static str> {
    let name = normalized(name);
    let name = name.split('*').next().unwrap_or("");
    let ipc = matches!(
        name,
        "kernel.sem"
            | "kernel.shmall"
            | "kernel.shmmax"
            | "kernel.shmmni"
            | "kernel.shm_rmid_forced"
            | "kernel.shm"
            | "kernel.msgmax"
            | "kernel.msgmnb"
            | "kernel.msgmni"
            | "kernel.msg"
    ) || name.starts_with("fs.mqueue.");
    if flag(spec, "hostNetwork") && name.starts_with("net.") {
        Some("may not be specified when 'hostNetwork' is true")
    } else if flag(spec, "hostIPC") && ipc {
        Some("may not be specified when 'hostIPC' is true")
    } else {
        None
    }
}

/// In names with slashes, dots and slashes are exchanged.
fn normalized(name: &str) -> String {
    match name.find(['.', '/']) {
        Some(at) if name.as_bytes().get(at) == Some(&b'/') => {
            let swap = |c: char| match c {
                '.' => '/',
                '/' => '.',
                other => other,
            };
            name.chars().map(swap).collect()
        }
        _ => name.to_string(),
    }
}

/// Returns whether a spec sets a sysctl of a namespace that it shares with the host.
pub(crate) fn has_host_sysctl(spec: &Value) -> bool {
    spec.items_at(&["securityContext", "sysctls"])
        .iter()
        .any(|s| host_sysctl_error(text(s, "name"), spec).is_some())
}
