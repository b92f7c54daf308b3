//! Which built-in kinds have rules of their own.

use crate::{Hooks, NoHooks, coordination, core};

/// The hooks of a built-in kind.
pub(crate) fn hooks_for(group: &str, kind: &str) -> &'static dyn Hooks {
    match (group, kind) {
        ("", "ConfigMap") => &core::configmap::ConfigMap,
        ("", "Namespace") => &core::namespace::Namespace,
        ("", "Secret") => &core::secret::Secret,
        ("", "ServiceAccount") => &core::serviceaccount::ServiceAccount,
        ("coordination.k8s.io", "Lease") => &coordination::lease::Lease,
        _ => &NoHooks,
    }
}
