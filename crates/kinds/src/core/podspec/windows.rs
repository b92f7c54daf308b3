//! Windows: security options, host processes, and which fields each operating system excludes.

use super::security;
use crate::check;
use crate::fields::{flag, list, member, opt_flag, opt_text, text};
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

/// The largest allowed credential spec.
const CREDENTIAL_SPEC_KIB_MAX: usize = 64;
/// User domains must be shorter than this.
const DOMAIN_BYTES_LIMIT: usize = 256;
/// The longest allowed name of a user.
const USER_BYTES_MAX: usize = 104;
/// The longest allowed NetBIOS name.
const NETBIOS_CHARS_MAX: usize = 15;
const NO_WINDOWS: &str = "windows options cannot be set for a linux pod";
const NO_LINUX: &str = "cannot be set for a windows pod";

/// Validates the `windowsOptions` of a security context.
pub(crate) fn validate_options(context: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(options) = member(context, "windowsOptions") else { return };
    let path = path.field("windowsOptions");
    if let Some(name) = opt_text(options, "gmsaCredentialSpecName") {
        check::each(
            names::is_dns1123_subdomain(name),
            &path.field("gmsaCredentialSpecName"),
            Named(name),
            errors,
        );
    }
    if let Some(spec) = opt_text(options, "gmsaCredentialSpec") {
        let field = path.field("gmsaCredentialSpec");
        if spec.is_empty() {
            errors.invalid(&field, Named(spec), "gmsaCredentialSpec cannot be an empty string");
        } else if spec.len() > CREDENTIAL_SPEC_KIB_MAX * 1024 {
            let detail = format!("gmsaCredentialSpec size must be under {CREDENTIAL_SPEC_KIB_MAX} KiB");
            errors.invalid(&field, Named(spec), &detail);
        }
    }
    if let Some(name) = opt_text(options, "runAsUserName") {
        check::each(user_name_complaints(name), &path.field("runAsUserName"), Named(name), errors);
    }
}

fn user_name_complaints(name: &str) -> Vec<String> {
    if name.is_empty() {
        return vec!["runAsUserName cannot be an empty string".to_string()];
    }
    if name.chars().any(|c| c.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters".to_string()];
    }
    let (domain, user) = match name.split('\\').collect::<Vec<_>>().as_slice() {
        [user] => (None, *user),
        [domain, user] => (Some(*domain), *user),
        _ => return vec!["runAsUserName cannot contain more than one backslash".to_string()],
    };
    let mut complaints = Vec::new();
    if domain.is_some_and(|d| d.len() >= DOMAIN_BYTES_LIMIT) {
        complaints
            .push(format!("runAsUserName's Domain length must be under {DOMAIN_BYTES_LIMIT} characters"));
    }
    if domain.is_some_and(|d| !is_netbios(d) && !is_dns(d)) {
        complaints.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_string());
    }
    if user.is_empty() {
        complaints.push("runAsUserName's User cannot be empty".to_string());
    } else if user.len() > USER_BYTES_MAX {
        complaints
            .push(format!("runAsUserName's User length must not be longer than {USER_BYTES_MAX} characters"));
    }
    if !user.is_empty() && user.bytes().all(|b| b == b'.' || b == b' ') {
        complaints.push("runAsUserName's User cannot contain only periods or spaces".to_string());
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        let detail = r#"runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]"#;
        complaints.push(detail.to_string());
    }
    complaints
}

fn is_netbios(domain: &str) -> bool {
    let allowed = |c: char| !r#"\/:*?"<>|"#.contains(c);
    let length = domain.chars().count();
    (1..=NETBIOS_CHARS_MAX).contains(&length) && !domain.starts_with('.') && domain.chars().all(allowed)
}

fn is_dns(domain: &str) -> bool {
    let edge = |b: Option<u8>| b.is_some_and(|b| b.is_ascii_alphanumeric());
    domain.split('.').all(|label| {
        label.len() <= names::DNS_LABEL_BYTES_MAX
            && edge(label.bytes().next())
            && edge(label.bytes().last())
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    })
}

/// If one container is a host process, all must be, and the pod must allow it.
pub(crate) fn validate_host_process(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let host_process =
        |v: &Value| v.at(&["securityContext", "windowsOptions"]).and_then(|o| opt_flag(o, "hostProcess"));
    let of_pod = host_process(spec);
    let (mut all, mut host) = (0_usize, 0_usize);
    super::visit_containers(spec, path, |container, path| {
        all = all.saturating_add(1);
        let own = host_process(container);
        if let (Some(pod), Some(own)) = (of_pod, own)
            && pod != own
        {
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.invalid(&path.field("securityContext.windowsOptions.hostProcess"), own, &detail);
        }
        if own.or(of_pod) == Some(true) {
            host = host.saturating_add(1);
        }
    });
    if host == 0 {
        return;
    }
    if host != all {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(path, "", detail);
    }
    if !flag(spec, "hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&path.field("hostNetwork"), false, detail);
    }
    if security::refuses_privileged() {
        errors.forbidden(path, "hostProcess containers are disallowed by cluster policy");
    }
}

/// Validates the operating system of a pod and the fields that it excludes.
pub(crate) fn validate_os(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(os) = member(spec, "os") else { return };
    let field = path.field("os");
    match text(os, "name") {
        "" => errors.required(&field.field("name"), ""),
        "linux" => validate_linux(spec, path, errors),
        "windows" => validate_windows(spec, path, errors),
        other => check::supported(&field, Some(other), &["linux", "windows"], errors),
    }
}

fn validate_linux(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let has = |v: &Value| v.at(&["securityContext", "windowsOptions"]).is_some();
    if has(spec) {
        errors.forbidden(&path.field("securityContext.windowsOptions"), NO_WINDOWS);
    }
    super::visit_containers(spec, path, |container, path| {
        if has(container) {
            errors.forbidden(&path.field("securityContext.windowsOptions"), NO_WINDOWS);
        }
    });
}

fn validate_windows(spec: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    /// In the order of the checks; `true` means a field of the security context.
    const OF_POD: [(bool, &str); 15] = [
        (true, "appArmorProfile"),
        (true, "seLinuxOptions"),
        (false, "hostUsers"),
        (false, "hostPID"),
        (false, "hostIPC"),
        (true, "seccompProfile"),
        (true, "fsGroup"),
        (true, "fsGroupChangePolicy"),
        (true, "sysctls"),
        (false, "shareProcessNamespace"),
        (true, "runAsUser"),
        (true, "runAsGroup"),
        (true, "supplementalGroups"),
        (true, "supplementalGroupsPolicy"),
        (true, "seLinuxChangePolicy"),
    ];
    const OF_CONTAINER: [&str; 10] = [
        "appArmorProfile",
        "seLinuxOptions",
        "seccompProfile",
        "capabilities",
        "readOnlyRootFilesystem",
        "privileged",
        "allowPrivilegeEscalation",
        "procMount",
        "runAsUser",
        "runAsGroup",
    ];
    let context = path.field("securityContext");
    for (in_context, key) in OF_POD {
        let holder = if in_context { spec.get("securityContext") } else { Some(spec) };
        let set = match key {
            "hostPID" | "hostIPC" => flag(spec, key),
            "sysctls" => holder.is_some_and(|h| !list(h, key).is_empty()),
            _ => holder.is_some_and(|h| member(h, key).is_some()),
        };
        if set {
            errors.forbidden(&if in_context { context.field(key) } else { path.field(key) }, NO_LINUX);
        }
    }
    super::visit_containers(spec, path, |container, path| {
        let Some(own) = member(container, "securityContext") else { return };
        for key in OF_CONTAINER.iter().filter(|key| member(own, key).is_some()) {
            errors.forbidden(&path.field("securityContext").field(key), NO_LINUX);
        }
    });
}
