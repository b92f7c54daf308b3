//! Which built-in kinds have rules of their own.

use crate::{Hooks, NoHooks, apiextensions, core};

/// The hooks of a built-in kind.
pub(crate) fn hooks_for(group: &str, kind: &str) -> &'static dyn Hooks {
    match (group, kind) {
        ("", "Namespace") => &core::namespace::Namespace,
        ("apiextensions.k8s.io", "CustomResourceDefinition") => &apiextensions::definition::Definition,
        _ => &NoHooks,
    }
}
