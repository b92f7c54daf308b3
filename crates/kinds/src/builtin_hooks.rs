//! Which built-in kinds have rules of their own.

use crate::{Hooks, NoHooks};

/// Group, kind and hooks of each kind that has some.
const HOOKS: [(&str, &str, &dyn Hooks); 0] = [];

/// The hooks of a built-in kind.
pub(crate) fn hooks_for(group: &str, kind: &str) -> &'static dyn Hooks {
    HOOKS.iter().find(|(g, k, _)| *g == group && *k == kind).map_or(&NoHooks, |(.., hooks)| *hooks)
}
