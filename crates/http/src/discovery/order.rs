//! The order of groups and versions in discovery.

use pintle_value::Str;
use std::cmp::{Ordering, Reverse};

/// The built-in groups and their priorities: clients resolve ambiguous kind names to the group that comes first.
/// APIServices override this.
const INSTALLED: &[(&str, i64)] = &[
    ("apiregistration.k8s.io", 20001),
    ("apps", 17800),
    ("events.k8s.io", 17750),
    ("authentication.k8s.io", 17700),
    ("authorization.k8s.io", 17600),
    ("autoscaling", 17500),
    ("batch", 17400),
    ("certificates.k8s.io", 17300),
    ("networking.k8s.io", 17200),
    ("policy", 17100),
    ("rbac.authorization.k8s.io", 17000),
    ("storage.k8s.io", 16800),
    ("admissionregistration.k8s.io", 16700),
    ("apiextensions.k8s.io", 16700),
    ("scheduling.k8s.io", 16600),
    ("coordination.k8s.io", 16500),
    ("node.k8s.io", 16300),
    ("discovery.k8s.io", 16200),
    ("resource.k8s.io", 16200),
    ("flowcontrol.apiserver.k8s.io", 16100),
    ("internal.apiserver.k8s.io", 16000),
    ("storagemigration.k8s.io", 15900),
];

/// The priority of groups that custom resources define.
const DEFINED: i64 = 1000;
/// The aggregator's own group comes first, whatever its APIServices say.
const AGGREGATOR: &str = "apiregistration.k8s.io";

/// Whether a named group is part of the server.
pub(super) fn is_installed(group: &str) -> bool {
    INSTALLED.iter().any(|(name, _)| *name == group)
}

/// The sort key of groups: the highest priority of their APIServices, then the name of that APIService.
pub(super) type Rank = (Reverse<i64>, Str, Str);

/// The sort key of a group. `registered` is the highest priority of its APIServices and the first one that has it.
pub(super) fn group_rank(group: &str, registered: Option<(i64, &Str)>) -> Rank {
    let own = INSTALLED.iter().find(|(name, _)| *name == group).map(|(_, priority)| *priority);
    let (priority, tie) = match registered.filter(|_| group != AGGREGATOR) {
        Some((priority, tie)) => (priority, tie.clone()),
        None => (own.unwrap_or(DEFINED), Str::from(format!("v1.{group}"))),
    };
    (Reverse(priority), tie, group.into())
}

/// Compares versions, preferred first: stable before beta before alpha, higher numbers before lower ones, then all
/// other names.
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
