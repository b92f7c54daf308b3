//! The checks of the baseline and restricted levels, by the versions in which they came.

use super::policy::{Level, LevelVersion, Version};
use pintle_meta::field::quoted;
use pintle_value::Value;
use std::collections::BTreeSet;

/// The last version in which a check changed: later ones, and `latest`, are the same.
const LAST_MINOR: u32 = 35;

/// What a pod violates.
pub(super) struct Violation {
    pub(super) reason: String,
    pub(super) detail: String,
}

/// All violations as one sentence.
pub(super) fn details(violations: &[Violation]) -> String {
    let shown = violations.iter().map(|v| match v.detail.as_str() {
        "" => v.reason.clone(),
        detail => format!("{} ({detail})", v.reason),
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// The pod that is looked at, and the version of the rules.
struct Cx<'a> {
    metadata: &'a Value,
    spec: &'a Value,
    minor: u32,
}

type Check = fn(&Cx<'_>) -> Option<Violation>;

/// What a pod violates at a level.
pub(super) fn evaluate(
    level: LevelVersion,
    metadata: Option<&Value>,
    spec: Option<&Value>,
) -> Vec<Violation> {
    let null = Value::Null;
    let minor = match level.version {
        Version::Latest => LAST_MINOR,
        Version::Minor(minor) => minor.min(LAST_MINOR),
    };
    let cx = Cx { metadata: metadata.unwrap_or(&null), spec: spec.unwrap_or(&null), minor };
    let restricted = level.level == Level::Restricted;
    // Baseline checks that a restricted one includes are left out at that level: (from version, overridden from).
    const BASELINE: [(Check, u32, u32); 12] = [
        (app_armor, 0, u32::MAX),
        (capabilities_baseline, 0, 22),
        (host_namespaces, 0, u32::MAX),
        (host_path_volumes, 0, 0),
        (host_ports, 0, u32::MAX),
        (host_probes, 34, u32::MAX),
        (privileged, 0, u32::MAX),
        (proc_mount_baseline, 0, 35),
        (selinux, 0, u32::MAX),
        (seccomp_baseline, 0, 19),
        (sysctls, 0, u32::MAX),
        (windows_host_process, 0, u32::MAX),
    ];
    const RESTRICTED: [(Check, u32); 7] = [
        (privilege_escalation, 8),
        (capabilities_restricted, 22),
        (proc_mount, 35),
        (restricted_volumes, 0),
        (run_as_non_root, 0),
        (run_as_user, 23),
        (seccomp_restricted, 19),
    ];
    let mut checks: Vec<Check> = Vec::new();
    if level.level != Level::Privileged {
        let kept =
            BASELINE.iter().filter(|(_, from, over)| *from <= minor && !(restricted && *over <= minor));
        checks.extend(kept.map(|(check, ..)| *check));
    }
    if restricted {
        checks.extend(RESTRICTED.iter().filter(|(_, from)| *from <= minor).map(|(check, _)| *check));
    }
    checks.iter().filter_map(|check| check(&cx)).collect()
}

impl<'a> Cx<'a> {
    fn containers(&self) -> impl Iterator<Item = &'a Value> + '_ {
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(|list| self.spec.items_at(&[list]))
    }

    /// The names of the containers of which this holds.
    fn named(&self, bad: impl Fn(&Value) -> bool) -> Vec<String> {
        self.containers().filter(|c| bad(c)).map(|c| c.str_at(&["name"]).to_string()).collect()
    }

    fn is_windows(&self) -> bool {
        self.spec.str_at(&["os", "name"]) == "windows"
    }

    fn has_user_namespace(&self) -> bool {
        self.spec.get("hostUsers").and_then(Value::as_bool) == Some(false)
    }

    fn annotation(&self, key: &str) -> Option<&'a str> {
        self.metadata.at(&["annotations", key]).and_then(Value::as_str)
    }
}

fn violation(reason: &str, detail: String) -> Option<Violation> {
    Some(Violation { reason: reason.to_string(), detail })
}

fn join_quote<T: AsRef<str>>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| format!("\"{}\"", item.as_ref())).collect();
    items.join(", ")
}

fn plural<'a>(one: &'a str, many: &'a str, count: usize) -> &'a str {
    if count == 1 { one } else { many }
}

/// `container "a"` or `containers "a", "b"`
fn containers(names: &[String]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), join_quote(names))
}

/// `pod and container "a"`: who sets something.
fn setters(pod: bool, names: &[String]) -> Vec<String> {
    let mut out = Vec::new();
    if pod {
        out.push("pod".to_string());
    }
    if !names.is_empty() {
        out.push(containers(names));
    }
    out
}

fn flag(value: &Value, keys: &[&str]) -> Option<bool> {
    value.at(keys).and_then(Value::as_bool)
}

fn app_armor(cx: &Cx<'_>) -> Option<Violation> {
    let bad = |holder: &Value| {
        let profile = holder.at(&["securityContext", "appArmorProfile"])?;
        let kind = profile.str_at(&["type"]);
        (!matches!(kind, "RuntimeDefault" | "Localhost")).then(|| kind.to_string())
    };
    let mut values: BTreeSet<String> = bad(cx.spec).into_iter().collect();
    let names = cx.named(|c| bad(c).is_some());
    values.extend(cx.containers().filter_map(bad));
    let mut who = setters(bad(cx.spec).is_some(), &names);
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
        who.push(plural("annotation", "annotations", forbidden.len()).to_string());
        list.append(&mut forbidden);
    }
    if who.is_empty() {
        return None;
    }
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", list.len());
    violation(
        reason,
        format!("{} must not set AppArmor profile type to {}", who.join(" and "), join_quote(list)),
    )
}

fn added(container: &Value) -> impl Iterator<Item = &str> {
    container.items_at(&["securityContext", "capabilities", "add"]).iter().filter_map(Value::as_str)
}

fn capabilities_baseline(cx: &Cx<'_>) -> Option<Violation> {
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
    let names = cx.named(|c| added(c).any(|name| !ALLOWED.contains(&name)));
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

fn host_namespaces(cx: &Cx<'_>) -> Option<Violation> {
    let set =
        ["hostNetwork", "hostPID", "hostIPC"].into_iter().filter(|key| flag(cx.spec, &[key]) == Some(true));
    let set: Vec<String> = set.map(|key| format!("{key}=true")).collect();
    if set.is_empty() { None } else { violation("host namespaces", set.join(", ")) }
}

fn host_path_volumes(cx: &Cx<'_>) -> Option<Violation> {
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

fn host_ports(cx: &Cx<'_>) -> Option<Violation> {
    let ports = |c: &Value| -> Vec<i64> {
        let ports = c.items_at(&["ports"]).iter().filter_map(|p| p.get("hostPort").and_then(Value::as_int));
        ports.filter(|port| *port != 0).collect()
    };
    let names = cx.named(|c| !ports(c).is_empty());
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

fn host_probes(cx: &Cx<'_>) -> Option<Violation> {
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
    let names: BTreeSet<String> = cx.named(|c| !hosts(c).is_empty()).into_iter().collect();
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

fn privileged(cx: &Cx<'_>) -> Option<Violation> {
    let names = cx.named(|c| flag(c, &["securityContext", "privileged"]) == Some(true));
    if names.is_empty() {
        return None;
    }
    violation("privileged", format!("{} must not set securityContext.privileged=true", containers(&names)))
}

fn proc_mount_baseline(cx: &Cx<'_>) -> Option<Violation> {
    if cx.minor >= 35 && cx.has_user_namespace() { None } else { proc_mount(cx) }
}

fn proc_mount(cx: &Cx<'_>) -> Option<Violation> {
    let bad = |c: &Value| {
        let kind = c.at(&["securityContext", "procMount"]).and_then(Value::as_str)?;
        (kind != "Default").then(|| kind.to_string())
    };
    let names = cx.named(|c| bad(c).is_some());
    if names.is_empty() {
        return None;
    }
    let found: BTreeSet<String> = cx.containers().filter_map(bad).collect();
    violation(
        "procMount",
        format!("{} must not set securityContext.procMount to {}", containers(&names), join_quote(found)),
    )
}

fn selinux(cx: &Cx<'_>) -> Option<Violation> {
    let minor = cx.minor;
    let allowed = move |kind: &str| {
        matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || (kind == "container_engine_t" && minor >= 31)
    };
    let options = |holder: &'_ Value| holder.at(&["securityContext", "seLinuxOptions"]).cloned();
    let bad = |holder: &Value| {
        options(holder).is_some_and(|o| {
            !allowed(o.str_at(&["type"]))
                || !o.str_at(&["user"]).is_empty()
                || !o.str_at(&["role"]).is_empty()
        })
    };
    let names = cx.named(bad);
    let who = setters(bad(cx.spec), &names);
    if who.is_empty() {
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
    let detail =
        format!("{} set forbidden securityContext.seLinuxOptions: {}", who.join(" and "), data.join("; "));
    violation("seLinuxOptions", detail)
}

/// The profile that a pod or container sets, and whether it is a good one.
fn seccomp(holder: &Value) -> Option<(String, bool)> {
    let kind = holder.at(&["securityContext", "seccompProfile"])?.str_at(&["type"]).to_string();
    let good = matches!(kind.as_str(), "RuntimeDefault" | "Localhost");
    Some((kind, good))
}

fn seccomp_baseline(cx: &Cx<'_>) -> Option<Violation> {
    if cx.minor < 19 {
        return seccomp_annotations(cx);
    }
    seccomp_set_badly(cx)
}

fn seccomp_annotations(cx: &Cx<'_>) -> Option<Violation> {
    let valid = |v: &str| matches!(v, "runtime/default" | "docker/default") || v.starts_with("localhost/");
    let of_containers = cx
        .containers()
        .map(|c| format!("container.seccomp.security.alpha.kubernetes.io/{}", c.str_at(&["name"])));
    let keys = std::iter::once("seccomp.security.alpha.kubernetes.io/pod".to_string()).chain(of_containers);
    let bad: BTreeSet<String> = keys
        .filter_map(|key| cx.annotation(&key).filter(|v| !valid(v)).map(|v| format!("{key}={}", quoted(v))))
        .collect();
    if bad.is_empty() {
        return None;
    }
    let word = plural("annotation", "annotations", bad.len());
    let list: Vec<String> = bad.into_iter().collect();
    violation("seccompProfile", format!("forbidden {word} {}", list.join(", ")))
}

fn seccomp_set_badly(cx: &Cx<'_>) -> Option<Violation> {
    let bad = |holder: &Value| seccomp(holder).filter(|(_, good)| !good).map(|(kind, _)| kind);
    let names = cx.named(|c| bad(c).is_some());
    let who = setters(bad(cx.spec).is_some(), &names);
    if who.is_empty() {
        return None;
    }
    let values: BTreeSet<String> = std::iter::once(cx.spec).chain(cx.containers()).filter_map(bad).collect();
    let detail = format!(
        "{} must not set securityContext.seccompProfile.type to {}",
        who.join(" and "),
        join_quote(values)
    );
    violation("seccompProfile", detail)
}

fn seccomp_restricted(cx: &Cx<'_>) -> Option<Violation> {
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

fn sysctls(cx: &Cx<'_>) -> Option<Violation> {
    const ALLOWED: [(&str, u32); 12] = [
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
    let bad: Vec<&str> =
        set.filter(|name| !ALLOWED.iter().any(|(known, from)| known == name && *from <= cx.minor)).collect();
    if bad.is_empty() { None } else { violation("forbidden sysctls", bad.join(", ")) }
}

fn windows_host_process(cx: &Cx<'_>) -> Option<Violation> {
    let bad =
        |holder: &Value| flag(holder, &["securityContext", "windowsOptions", "hostProcess"]) == Some(true);
    let who = setters(bad(cx.spec), &cx.named(bad));
    if who.is_empty() {
        return None;
    }
    let detail =
        format!("{} must not set securityContext.windowsOptions.hostProcess=true", who.join(" and "));
    violation("hostProcess", detail)
}

fn privilege_escalation(cx: &Cx<'_>) -> Option<Violation> {
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

fn capabilities_restricted(cx: &Cx<'_>) -> Option<Violation> {
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

fn restricted_volumes(cx: &Cx<'_>) -> Option<Violation> {
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

fn run_as_non_root(cx: &Cx<'_>) -> Option<Violation> {
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

fn run_as_user(cx: &Cx<'_>) -> Option<Violation> {
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
