//! The checks that the restricted level adds.

use super::baseline::{added, seccomp, seccomp_set_badly};
use super::{PodContext, Violation, containers, flag, join_quote, list_setters, plural, violation};
use pintle_value::Value;
use std::collections::BTreeSet;

pub(super) fn seccomp_restricted(cx: &PodContext<'_>) -> Option<Violation> {
    if cx.minor >= 25 && cx.is_windows() {
        return None;
    }
    if let Some(violating) = seccomp_set_badly(cx) {
        return Some(violating);
    }
    if seccomp(cx.spec).is_some() {
        return None;
    }
    let names = cx.containers_where(|c| seccomp(c).is_none());
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        containers(&names)
    );
    violation("seccompProfile", detail)
}

pub(super) fn privilege_escalation(cx: &PodContext<'_>) -> Option<Violation> {
    if cx.minor >= 25 && cx.is_windows() {
        return None;
    }
    let names =
        cx.containers_where(|c| flag(c, &["securityContext", "allowPrivilegeEscalation"]) != Some(false));
    if names.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names));
    violation("allowPrivilegeEscalation != false", detail)
}

pub(super) fn capabilities_restricted(cx: &PodContext<'_>) -> Option<Violation> {
    if cx.minor >= 25 && cx.is_windows() {
        return None;
    }
    let drops_all = |c: &Value| {
        let dropped = c.items_at(&["securityContext", "capabilities", "drop"]).iter();
        dropped.filter_map(Value::as_str).any(|name| name == "ALL")
    };
    let missing = cx.containers_where(|c| !drops_all(c));
    let adding = cx.containers_where(|c| added(c).any(|name| name != "NET_BIND_SERVICE"));
    let mut details = Vec::new();
    if !missing.is_empty() {
        details
            .push(format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", containers(&missing)));
    }
    if !adding.is_empty() {
        let found: BTreeSet<&str> =
            cx.containers().flat_map(added).filter(|name| *name != "NET_BIND_SERVICE").collect();
        details.push(format!(
            "{} must not include {} in securityContext.capabilities.add",
            containers(&adding),
            join_quote(found)
        ));
    }
    if details.is_empty() { None } else { violation("unrestricted capabilities", details.join("; ")) }
}

pub(super) fn restricted_volumes(cx: &PodContext<'_>) -> Option<Violation> {
    const ALLOWED: [&str; 9] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    const OTHERS: [&str; 21] = [
        "hostPath",
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "gitRepo",
        "nfs",
        "iscsi",
        "glusterfs",
        "rbd",
        "flexVolume",
        "cinder",
        "cephfs",
        "flocker",
        "fc",
        "azureFile",
        "vsphereVolume",
        "quobyte",
        "azureDisk",
        "photonPersistentDisk",
        "portworxVolume",
        "scaleIO",
        "storageos",
    ];
    let volumes = cx.spec.items_at(&["volumes"]).iter();
    let violating: Vec<&Value> =
        volumes.filter(|v| !ALLOWED.iter().any(|kind| v.get(kind).is_some())).collect();
    if violating.is_empty() {
        return None;
    }
    let kind = |v: &&Value| OTHERS.into_iter().find(|kind| v.get(kind).is_some()).unwrap_or("unknown");
    let kinds: BTreeSet<&str> = violating.iter().map(kind).collect();
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", violating.len()),
        join_quote(violating.iter().map(|v| v.str_at(&["name"]))),
        plural("uses", "use", violating.len()),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        join_quote(kinds)
    );
    violation("restricted volume types", detail)
}

pub(super) fn run_as_non_root(cx: &PodContext<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if cx.minor >= 35 && cx.has_user_namespace() {
        return None;
    }
    let set = |holder: &Value| flag(holder, &["securityContext", "runAsNonRoot"]);
    let of_pod = set(cx.spec);
    let setters = list_setters(of_pod == Some(false), &cx.containers_where(|c| set(c) == Some(false)));
    if !setters.is_empty() {
        return violation(
            REASON,
            format!("{} must not set securityContext.runAsNonRoot=false", setters.join(" and ")),
        );
    }
    let names = cx.containers_where(|c| set(c).is_none());
    if of_pod == Some(true) || names.is_empty() {
        return None;
    }
    violation(REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&names)))
}

pub(super) fn run_as_user(cx: &PodContext<'_>) -> Option<Violation> {
    if cx.minor >= 35 && cx.has_user_namespace() {
        return None;
    }
    let root =
        |holder: &Value| holder.at(&["securityContext", "runAsUser"]).and_then(Value::as_int) == Some(0);
    let setters = list_setters(root(cx.spec), &cx.containers_where(root));
    if setters.is_empty() {
        return None;
    }
    violation("runAsUser=0", format!("{} must not set runAsUser=0", setters.join(" and ")))
}
