//! Names and amounts of resources: which names are known where, and what an amount may be.

use crate::check;
use crate::fields::{entries, quantity};
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, Quantity, names};
use pintle_value::{Path, Value};

const DEFAULT_NAMESPACE: &str = "kubernetes.io/";
const REQUESTS: &str = "requests.";
const HUGE_PAGES: &str = "hugepages-";
const REQUESTS_HUGE_PAGES: &str = "requests.hugepages-";

/// Resources that are counted.
const COUNTED: [&str; 9] = [
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Resources that are measured, in quotas and elsewhere.
const MEASURED: [&str; 10] = [
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
];

/// Whether a name belongs to Kubernetes itself.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains(DEFAULT_NAMESPACE)
}

/// Whether a name is one that somebody else may add.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with(REQUESTS)
        && names::is_qualified_name(&format!("{REQUESTS}{name}")).is_empty()
}

/// Whether a name stands for huge pages.
pub(crate) fn is_huge_pages(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Whether more may be promised than there is.
pub(crate) fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// Whether a quota can be about a name without a domain.
pub(crate) fn is_standard_for_quota(name: &str) -> bool {
    COUNTED.contains(&name)
        || MEASURED.contains(&name)
        || is_huge_pages(name)
        || name.starts_with(REQUESTS_HUGE_PAGES)
}

fn is_standard(name: &str) -> bool {
    name == "storage" || is_standard_for_quota(name)
}

fn is_standard_for_containers(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_pages(name)
}

/// Checks the name of a resource.
pub(crate) fn validate_name(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let complaints = names::is_qualified_name(name);
    for complaint in &complaints {
        errors.invalid(path, Named(name), complaint);
    }
    if complaints.is_empty() && !name.contains('/') && !is_standard(name) {
        errors.invalid(path, Named(name), "must be a standard resource type or fully qualified");
    }
}

/// Checks the name of a resource that containers have.
pub(crate) fn validate_container_name(name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    validate_name(name, path, errors);
    if !name.contains('/') {
        if !is_standard_for_containers(name) {
            errors.invalid(path, Named(name), "must be a standard resource for containers");
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.invalid(path, Named(name), "doesn't follow extended resource name standard");
    }
}

/// Checks an amount of a resource: not negative, and whole where the resource is counted.
pub(crate) fn validate_amount(name: &str, amount: &Quantity, path: &Path<'_>, errors: &mut FieldErrors) {
    check::nonnegative_quantity(path, amount, errors);
    let counted = COUNTED.contains(&name) || is_extended(name);
    if counted && amount.milli_value() % 1000 != 0 {
        errors.invalid(path, Named(&amount.to_string()), "must be an integer");
    }
}

/// The amounts of a resource list.
pub(crate) fn amounts(list: Option<&Value>) -> impl Iterator<Item = (&str, Quantity)> {
    entries(list).map(|(name, value)| (name, quantity(Some(value))))
}
