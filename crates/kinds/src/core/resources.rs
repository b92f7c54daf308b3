//! Resource names of quotas and limits, and resource lists.

use super::podspec::aggregate::is_huge_page;
use crate::fields::{entries, quantity};
use pintle_meta::Quantity;
use pintle_value::Value;

/// Resource names without a domain that quotas support.
pub(crate) const QUOTA_RESOURCES: [&str; 19] = [
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Returns whether quotas support this name without a domain.
pub(crate) fn is_standard_for_quota(name: &str) -> bool {
    QUOTA_RESOURCES.contains(&name) || is_huge_page(name) || name.starts_with("requests.hugepages-")
}

/// The amounts of a resource list.
pub(crate) fn amounts(list: Option<&Value>) -> impl Iterator<Item = (&str, Quantity)> {
    entries(list).map(|(name, value)| (name, quantity(Some(value))))
}
