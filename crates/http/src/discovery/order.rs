//! The order of groups and versions in discovery.

use pintle_value::Str;
use std::cmp::{Ordering, Reverse};

/// The groups that are part of the server, most important first: of kinds with the same name, clients take the one
/// whose group comes first.
const INSTALLED: &[&str] = &[
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "storagemigration.k8s.io",
];

/// Whether a named group is part of the server.
pub(super) fn is_installed(group: &str) -> bool {
    INSTALLED.contains(&group)
}

/// What groups are sorted by: those of the server first, then the others by name.
pub(super) fn group_rank(group: &str) -> (usize, Str) {
    (INSTALLED.iter().position(|g| *g == group).unwrap_or(INSTALLED.len()), group.into())
}

/// Best version first: stable before beta before alpha, higher numbers before lower ones, then all other names.
pub(super) fn compare_versions(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => Reverse(a).cmp(&Reverse(b)),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability, major and minor number of `v2beta1`.
fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let (major, tail) = rest.split_at_checked(digits)?;
    let number = |text: &str| if text.starts_with('0') { None } else { text.parse::<u64>().ok() };
    let major = number(major)?;
    if tail.is_empty() {
        return Some((2, major, 0));
    }
    let (stability, minor) = match tail.strip_prefix("beta") {
        Some(minor) => (1, minor),
        None => (0, tail.strip_prefix("alpha")?),
    };
    Some((stability, major, number(minor)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first() {
        let mut versions =
            ["v1beta1", "foo1", "v10", "v2", "v11alpha2", "v12alpha1", "v3beta1", "foo10", "v11beta2", "v1"];
        versions.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v11beta2", "v3beta1", "v1beta1", "v12alpha1", "v11alpha2", "foo1", "foo10"]
        );
    }
}
