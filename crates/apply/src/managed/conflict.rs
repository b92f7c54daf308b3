//! Conflicts: fields that an apply would change and that others own.

use super::entries::ManagerId;
use crate::fieldset::{FieldPath, Set};
use pintle_meta::field::quoted;
use pintle_meta::{Cause, Status};

/// One field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The manager in the form of the message: `"x" using v1`.
    pub manager: String,
    /// The field.
    pub path: FieldPath,
}

/// The conflicts with one manager.
pub(super) fn with(id: &ManagerId, fields: &Set) -> impl Iterator<Item = Conflict> {
    let manager = named(id);
    fields.paths().into_iter().map(move |path| Conflict { manager: manager.clone(), path })
}

fn named(id: &ManagerId) -> String {
    let mut name = quoted(&id.manager);
    if !id.subresource.is_empty() {
        name = format!("{name} with subresource {}", quoted(&id.subresource));
    }
    if !id.applies {
        name = format!("{name} using {}", id.api_version);
    }
    name
}

/// `Apply failed with 1 conflict: …`; several are grouped by manager, in the managers' order.
pub(super) fn message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.manager, only.path);
    }
    let mut lines = Vec::new();
    for group in conflicts.chunk_by(|a, b| a.manager == b.manager) {
        if let Some(first) = group.first() {
            lines.push(format!("conflicts with {}:", first.manager));
        }
        lines.extend(group.iter().map(|conflict| format!("- {}", conflict.path)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

pub(super) fn status(conflicts: &[Conflict]) -> Status {
    let cause = |conflict: &Conflict| Cause {
        reason: "FieldManagerConflict".into(),
        message: format!("conflict with {}", conflict.manager),
        field: conflict.path.to_string().into(),
    };
    Status::apply_conflict(conflicts.iter().map(cause).collect(), message(conflicts))
}
