//! The checks that the restricted level adds.

use super::baseline::{added, seccomp, seccomp_set_badly};
use super::{Cx, Violation, containers, flag, join_quote, plural, setters, violation};
use pintle_value::Value;
use std::collections::BTreeSet;

pub(super) fn seccomp_restricted(cx: &Cx<'_>) -> Option<Violation> {
    if cx.minor >= 25 && cx.is_windows() {
        return None;
    }
    if let Some(bad) = seccomp_set_badly(cx) {
        return Some(bad);
    }
    if seccomp(cx.spec).is_some() {
        return None;
    }
    let names = cx.named(|c| seccomp(c).is_none());
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
        containers(&names)
    );
    violation("seccompProfile", detail)
}

pub(super) fn privilege_escalation(cx: &Cx<'_>) -> Option<Violation> {
    if cx.minor >= 25 && cx.is_windows() {
        return None;
    }
    let names = cx.named(|c| flag(c, &["securityContext", "allowPrivilegeEscalation"]) != Some(false));
    if names.is_empty() {
        return None;
    }
    let detail = format!("{} must set securityContext.allowPrivilegeEscalation=false", containers(&names));
    violation("allowPrivilegeEscalation != false", detail)
}

pub(super) fn capabilities_restricted(cx: &Cx<'_>) -> Option<Violation> {
    if cx.minor >= 25 && cx.is_windows() {
        return None;
    }
    let drops_all = |c: &Value| {
        let dropped = c.items_at(&["securityContext", "capabilities", "drop"]).iter();
        dropped.filter_map(Value::as_str).any(|name| name == "ALL")
    };
    let missing = cx.named(|c| !drops_all(c));
    let adding = cx.named(|c| added(c).any(|name| name != "NET_BIND_SERVICE"));
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

pub(super) fn restricted_volumes(cx: &Cx<'_>) -> Option<Violation> {
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
    let bad: Vec<&Value> = volumes.filter(|v| !ALLOWED.iter().any(|kind| v.get(kind).is_some())).collect();
    if bad.is_empty() {
        return None;
    }
    let kind = |v: &&Value| OTHERS.into_iter().find(|kind| v.get(kind).is_some()).unwrap_or("unknown");
    let kinds: BTreeSet<&str> = bad.iter().map(kind).collect();
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", bad.len()),
        join_quote(bad.iter().map(|v| v.str_at(&["name"]))),
        plural("uses", "use", bad.len()),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        join_quote(kinds)
    );
    violation("restricted volume types", detail)
}

pub(super) fn run_as_non_root(cx: &Cx<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if cx.minor >= 35 && cx.has_user_namespace() {
        return None;
    }
    let set = |holder: &Value| flag(holder, &["securityContext", "runAsNonRoot"]);
    let of_pod = set(cx.spec);
    let who = setters(of_pod == Some(false), &cx.named(|c| set(c) == Some(false)));
    if !who.is_empty() {
        return violation(
            REASON,
            format!("{} must not set securityContext.runAsNonRoot=false", who.join(" and ")),
        );
    }
    let names = cx.named(|c| set(c).is_none());
    if of_pod == Some(true) || names.is_empty() {
        return None;
    }
    violation(REASON, format!("pod or {} must set securityContext.runAsNonRoot=true", containers(&names)))
}

pub(super) fn run_as_user(cx: &Cx<'_>) -> Option<Violation> {
    if cx.minor >= 35 && cx.has_user_namespace() {
        return None;
    }
    let root =
        |holder: &Value| holder.at(&["securityContext", "runAsUser"]).and_then(Value::as_int) == Some(0);
    let who = setters(root(cx.spec), &cx.named(root));
    if who.is_empty() {
        return None;
    }
    violation("runAsUser=0", format!("{} must not set runAsUser=0", who.join(" and ")))
}
