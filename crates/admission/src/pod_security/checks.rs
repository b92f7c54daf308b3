//! The checks of the baseline and restricted levels, by the versions that introduced them.

mod baseline;
mod restricted;

use super::policy::{Level, LevelVersion, Version};
use pintle_value::Value;

/// The last version in which a check changed; later ones and `latest` are the same.
const LAST_MINOR: i64 = 35;

/// A violation of a pod security standard.
pub(super) struct Violation {
    pub(super) reason: String,
    pub(super) detail: String,
}

/// All violations as one sentence.
pub(super) fn details(violations: &[Violation]) -> String {
    let texts = violations.iter().map(|v| match v.detail.as_str() {
        "" => v.reason.clone(),
        detail => format!("{} ({detail})", v.reason),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// The pod to check, and the version of the rules.
struct PodContext<'a> {
    metadata: &'a Value,
    spec: &'a Value,
    minor: i64,
}

type Check = fn(&PodContext<'_>) -> Option<Violation>;

/// Returns the violations of a pod at a level.
pub(super) fn evaluate(
    level: LevelVersion,
    metadata: Option<&Value>,
    spec: Option<&Value>,
) -> Vec<Violation> {
    let minor = match level.version {
        Version::Latest => LAST_MINOR,
        Version::Minor(minor) => minor.min(LAST_MINOR),
    };
    let cx =
        PodContext { metadata: metadata.unwrap_or(&Value::Null), spec: spec.unwrap_or(&Value::Null), minor };
    let restricted = level.level == Level::Restricted;
    // Baseline checks; at the restricted level those are skipped that a restricted check includes: (from version,
    // overridden from).
    const BASELINE: [(Check, i64, i64); 12] = [
        (baseline::app_armor, 0, i64::MAX),
        (baseline::capabilities_baseline, 0, 22),
        (baseline::host_namespaces, 0, i64::MAX),
        (baseline::host_path_volumes, 0, 0),
        (baseline::host_ports, 0, i64::MAX),
        (baseline::host_probes, 34, i64::MAX),
        (baseline::check_privileged, 0, i64::MAX),
        (baseline::proc_mount_baseline, 0, 35),
        (baseline::check_selinux, 0, i64::MAX),
        (baseline::seccomp_baseline, 0, 19),
        (baseline::check_sysctls, 0, i64::MAX),
        (baseline::windows_host_process, 0, i64::MAX),
    ];
    const RESTRICTED: [(Check, i64); 7] = [
        (restricted::privilege_escalation, 8),
        (restricted::capabilities_restricted, 22),
        (baseline::proc_mount, 35),
        (restricted::restricted_volumes, 0),
        (restricted::run_as_non_root, 0),
        (restricted::run_as_user, 23),
        (restricted::seccomp_restricted, 19),
    ];
    let mut checks: Vec<Check> = Vec::new();
    if level.level != Level::Privileged {
        let applicable =
            BASELINE.iter().filter(|(_, from, over)| *from <= minor && !(restricted && *over <= minor));
        checks.extend(applicable.map(|(check, ..)| *check));
    }
    if restricted {
        checks.extend(RESTRICTED.iter().filter(|(_, from)| *from <= minor).map(|(check, _)| *check));
    }
    checks.iter().filter_map(|check| check(&cx)).collect()
}

impl<'a> PodContext<'a> {
    fn containers(&self) -> impl Iterator<Item = &'a Value> + '_ {
        ["initContainers", "containers", "ephemeralContainers"]
            .into_iter()
            .flat_map(|list| self.spec.items_at(&[list]))
    }

    /// The names of the containers for which `bad` holds.
    fn containers_where(&self, bad: impl Fn(&Value) -> bool) -> Vec<String> {
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

/// Lists the containers as `container "a"` or `containers "a", "b"`.
fn containers(names: &[String]) -> String {
    format!("{} {}", plural("container", "containers", names.len()), join_quote(names))
}

/// `pod and container "a"`: the setters of a field.
fn list_setters(pod: bool, names: &[String]) -> Vec<String> {
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
