//! The checks of the baseline level.

use super::{PodContext, Violation, containers, flag, join_quote, list_setters, plural, violation};
use pintle_meta::field::quoted;
use pintle_value::Value;
use std::collections::BTreeSet;

pub(super) fn app_armor(cx: &PodContext<'_>) -> Option<Violation> {
    let violating = |holder: &Value| {
        let profile = holder.at(&["securityContext", "appArmorProfile"])?;
        let kind = profile.str_at(&["type"]);
        (!matches!(kind, "RuntimeDefault" | "Localhost")).then(|| kind.to_string())
    };
    let mut values: BTreeSet<String> = violating(cx.spec).into_iter().collect();
    let names = cx.containers_where(|c| violating(c).is_some());
    values.extend(cx.containers().filter_map(violating));
    let mut setters = list_setters(violating(cx.spec).is_some(), &names);
    let prefix = "container.apparmor.security.beta.kubernetes.io/";
    let allowed = |v: &str| v.is_empty() || v == "runtime/default" || v.starts_with("localhost/");
    let annotations = cx.metadata.get("annotations").and_then(Value::as_object);
    let mut forbidden: Vec<String> = annotations
        .into_iter()
        .flat_map(|map| map.iter())
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(key, value)| key.starts_with(prefix) && !allowed(value))
        .map(|(key, value)| format!("{key}={}", quoted(value)))
        .collect();
    let mut list: Vec<String> = values.into_iter().collect();
    if !forbidden.is_empty() {
        forbidden.sort();
        setters.push(plural("annotation", "annotations", forbidden.len()).to_string());
        list.append(&mut forbidden);
    }
    if setters.is_empty() {
        return None;
    }
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", list.len());
    violation(
        reason,
        format!("{} must not set AppArmor profile type to {}", setters.join(" and "), join_quote(list)),
    )
}

pub(super) fn added(container: &Value) -> impl Iterator<Item = &str> {
    container.items_at(&["securityContext", "capabilities", "add"]).iter().filter_map(Value::as_str)
}

pub(super) fn capabilities_baseline(cx: &PodContext<'_>) -> Option<Violation> {
    const ALLOWED: [&str; 13] = [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    let names = cx.containers_where(|c| added(c).any(|name| !ALLOWED.contains(&name)));
    let found: BTreeSet<&str> =
        cx.containers().flat_map(added).filter(|name| !ALLOWED.contains(name)).collect();
    if names.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not include {} in securityContext.capabilities.add",
        containers(&names),
        join_quote(found)
    );
    violation("non-default capabilities", detail)
}

pub(super) fn host_namespaces(cx: &PodContext<'_>) -> Option<Violation> {
    let set =
        ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|key| flag(cx.spec, &[key]) == Some(true));
    let set: Vec<String> = set.map(|key| format!("{key}=true")).collect();
    if set.is_empty() { None } else { violation("host namespaces", set.join(", ")) }
}

pub(super) fn host_path_volumes(cx: &PodContext<'_>) -> Option<Violation> {
    let volumes = cx.spec.items_at(&["volumes"]).iter().filter(|v| v.get("hostPath").is_some());
    let names: Vec<&str> = volumes.map(|v| v.str_at(&["name"])).collect();
    if names.is_empty() {
        return None;
    }
    violation(
        "hostPath volumes",
        format!("{} {}", plural("volume", "volumes", names.len()), join_quote(names)),
    )
}

pub(super) fn host_ports(cx: &PodContext<'_>) -> Option<Violation> {
    let ports = |c: &Value| -> Vec<i64> {
        let ports = c.items_at(&["ports"]).iter().filter_map(|p| p.get("hostPort").and_then(Value::as_int));
        ports.filter(|port| *port != 0).collect()
    };
    let names = cx.containers_where(|c| !ports(c).is_empty());
    if names.is_empty() {
        return None;
    }
    let found: BTreeSet<String> = cx.containers().flat_map(ports).map(|port| port.to_string()).collect();
    let list: Vec<String> = found.into_iter().collect();
    let detail = format!(
        "{} {} {} {}",
        containers(&names),
        plural("uses", "use", names.len()),
        plural("hostPort", "hostPorts", list.len()),
        list.join(", ")
    );
    violation("hostPort", detail)
}

pub(super) fn host_probes(cx: &PodContext<'_>) -> Option<Violation> {
    const HANDLERS: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let hosts = |c: &Value| -> Vec<String> {
        let handlers = HANDLERS.iter().filter_map(|keys| c.at(keys));
        let hosts = handlers.flat_map(|h| [h.str_at(&["httpGet", "host"]), h.str_at(&["tcpSocket", "host"])]);
        hosts.filter(|host| !host.is_empty()).map(str::to_string).collect()
    };
    let names: BTreeSet<String> = cx.containers_where(|c| !hosts(c).is_empty()).into_iter().collect();
    if names.is_empty() {
        return None;
    }
    let names: Vec<String> = names.into_iter().collect();
    let found: BTreeSet<String> = cx.containers().flat_map(hosts).collect();
    let detail = format!(
        "{} {} {} {}",
        containers(&names),
        plural("uses", "use", names.len()),
        plural("probe or lifecycle host", "probe or lifecycle hosts", found.len()),
        join_quote(found)
    );
    violation("probe or lifecycle host", detail)
}

pub(super) fn check_privileged(cx: &PodContext<'_>) -> Option<Violation> {
    let names = cx.containers_where(|c| flag(c, &["securityContext", "privileged"]) == Some(true));
    if names.is_empty() {
        return None;
    }
    violation("privileged", format!("{} must not set securityContext.privileged=true", containers(&names)))
}

pub(super) fn proc_mount_baseline(cx: &PodContext<'_>) -> Option<Violation> {
    if cx.minor >= 35 && cx.has_user_namespace() { None } else { proc_mount(cx) }
}

pub(super) fn proc_mount(cx: &PodContext<'_>) -> Option<Violation> {
    let violating = |c: &Value| {
        let kind = c.at(&["securityContext", "procMount"]).and_then(Value::as_str)?;
        (kind != "Default").then(|| kind.to_string())
    };
    let names = cx.containers_where(|c| violating(c).is_some());
    if names.is_empty() {
        return None;
    }
    let found: BTreeSet<String> = cx.containers().filter_map(violating).collect();
    violation(
        "procMount",
        format!("{} must not set securityContext.procMount to {}", containers(&names), join_quote(found)),
    )
}

pub(super) fn check_selinux(cx: &PodContext<'_>) -> Option<Violation> {
    let minor = cx.minor;
    let allowed = move |kind: &str| {
        matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || (kind == "container_engine_t" && minor >= 31)
    };
    let options = |holder: &'_ Value| holder.at(&["securityContext", "seLinuxOptions"]).cloned();
    let violating = |holder: &Value| {
        options(holder).is_some_and(|o| {
            !allowed(o.str_at(&["type"]))
                || !o.str_at(&["user"]).is_empty()
                || !o.str_at(&["role"]).is_empty()
        })
    };
    let names = cx.containers_where(violating);
    let setters = list_setters(violating(cx.spec), &names);
    if setters.is_empty() {
        return None;
    }
    let all: Vec<Value> = std::iter::once(cx.spec).chain(cx.containers()).filter_map(options).collect();
    let types: BTreeSet<&str> = all.iter().map(|o| o.str_at(&["type"])).filter(|t| !allowed(t)).collect();
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!("{} {}", plural("type", "types", types.len()), join_quote(types)));
    }
    for key in ["user", "role"] {
        if all.iter().any(|o| !o.str_at(&[key]).is_empty()) {
            data.push(format!("{key} may not be set"));
        }
    }
    let detail = format!(
        "{} set forbidden securityContext.seLinuxOptions: {}",
        setters.join(" and "),
        data.join("; ")
    );
    violation("seLinuxOptions", detail)
}

/// The seccomp profile that a pod or container sets, and whether it is allowed.
pub(super) fn seccomp(holder: &Value) -> Option<(String, bool)> {
    let kind = holder.at(&["securityContext", "seccompProfile"])?.str_at(&["type"]).to_string();
    let good = matches!(kind.as_str(), "RuntimeDefault" | "Localhost");
    Some((kind, good))
}

pub(super) fn seccomp_baseline(cx: &PodContext<'_>) -> Option<Violation> {
    if cx.minor < 19 {
        return seccomp_annotations(cx);
    }
    seccomp_set_badly(cx)
}

pub(super) fn seccomp_annotations(cx: &PodContext<'_>) -> Option<Violation> {
    let valid = |v: &str| matches!(v, "runtime/default" | "docker/default") || v.starts_with("localhost/");
    let of_containers = cx
        .containers()
        .map(|c| format!("container.seccomp.security.alpha.kubernetes.io/{}", c.str_at(&["name"])));
    let keys = std::iter::once("seccomp.security.alpha.kubernetes.io/pod".to_string()).chain(of_containers);
    let violating: BTreeSet<String> = keys
        .filter_map(|key| cx.annotation(&key).filter(|v| !valid(v)).map(|v| format!("{key}={}", quoted(v))))
        .collect();
    if violating.is_empty() {
        return None;
    }
    let word = plural("annotation", "annotations", violating.len());
    let list: Vec<String> = violating.into_iter().collect();
    violation("seccompProfile", format!("forbidden {word} {}", list.join(", ")))
}

pub(super) fn seccomp_set_badly(cx: &PodContext<'_>) -> Option<Violation> {
    let violating = |holder: &Value| seccomp(holder).filter(|(_, good)| !good).map(|(kind, _)| kind);
    let names = cx.containers_where(|c| violating(c).is_some());
    let setters = list_setters(violating(cx.spec).is_some(), &names);
    if setters.is_empty() {
        return None;
    }
    let values: BTreeSet<String> =
        std::iter::once(cx.spec).chain(cx.containers()).filter_map(violating).collect();
    let detail = format!(
        "{} must not set securityContext.seccompProfile.type to {}",
        setters.join(" and "),
        join_quote(values)
    );
    violation("seccompProfile", detail)
}

pub(super) fn check_sysctls(cx: &PodContext<'_>) -> Option<Violation> {
    const ALLOWED: [(&str, i64); 12] = [
        ("kernel.shm_rmid_forced", 0),
        ("net.ipv4.ip_local_port_range", 0),
        ("net.ipv4.tcp_syncookies", 0),
        ("net.ipv4.ping_group_range", 0),
        ("net.ipv4.ip_unprivileged_port_start", 0),
        ("net.ipv4.ip_local_reserved_ports", 27),
        ("net.ipv4.tcp_keepalive_time", 29),
        ("net.ipv4.tcp_fin_timeout", 29),
        ("net.ipv4.tcp_keepalive_intvl", 29),
        ("net.ipv4.tcp_keepalive_probes", 29),
        ("net.ipv4.tcp_rmem", 32),
        ("net.ipv4.tcp_wmem", 32),
    ];
    let set = cx.spec.items_at(&["securityContext", "sysctls"]).iter().map(|s| s.str_at(&["name"]));
    let violating: Vec<&str> =
        set.filter(|name| !ALLOWED.iter().any(|(known, from)| known == name && *from <= cx.minor)).collect();
    if violating.is_empty() { None } else { violation("forbidden sysctls", violating.join(", ")) }
}

pub(super) fn windows_host_process(cx: &PodContext<'_>) -> Option<Violation> {
    let violating =
        |holder: &Value| flag(holder, &["securityContext", "windowsOptions", "hostProcess"]) == Some(true);
    let setters = list_setters(violating(cx.spec), &cx.containers_where(violating));
    if setters.is_empty() {
        return None;
    }
    let detail =
        format!("{} must not set securityContext.windowsOptions.hostProcess=true", setters.join(" and "));
    violation("hostProcess", detail)
}
