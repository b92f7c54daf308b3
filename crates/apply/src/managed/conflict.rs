//! Conflicts: fields that an apply would change and that others own.

use super::entries::ManagerId;
use crate::fieldset::{Set, SharedPath};
use pintle_meta::field::quoted;
use pintle_meta::{Cause, Status};

/// One field that another manager owns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The manager in the form of the message: `"x" using v1`.
    pub manager: String,
    /// The field.
    pub path: SharedPath,
}

/// The size of the paths that an answer lists besides the first. A path can contain a long key for each of many short fields.
const PATH_BYTES_MAX: usize = 4 << 20;

/// The conflicts with one manager.
pub(super) fn with(id: &ManagerId, fields: &Set) -> impl Iterator<Item = Conflict> {
    let manager = describe_manager(id);
    fields.paths().into_iter().map(move |path| Conflict { manager: manager.clone(), path })
}

fn describe_manager(id: &ManagerId) -> String {
    let mut name = quoted(&id.manager);
    if !id.subresource.is_empty() {
        name = format!("{name} with subresource {}", quoted(&id.subresource));
    }
    if !id.applies {
        name = format!("{name} using {}", id.api_version);
    }
    name
}

/// The conflicts that an answer lists.
fn listed(conflicts: &[Conflict]) -> &[Conflict] {
    let mut bytes = 0_usize;
    let fitting = conflicts.iter().take_while(|conflict| {
        bytes = bytes.saturating_add(conflict.path.to_string().len());
        bytes <= PATH_BYTES_MAX
    });
    let count = fitting.count().max(1);
    conflicts.get(..count).unwrap_or(conflicts)
}

/// `Apply failed with 1 conflict: …`; several are grouped by manager, in the managers' order.
pub(super) fn message(conflicts: &[Conflict]) -> String {
    if let [only] = conflicts {
        return format!("Apply failed with 1 conflict: conflict with {}: {}", only.manager, only.path);
    }
    let mut lines = Vec::new();
    for group in listed(conflicts).chunk_by(|a, b| a.manager == b.manager) {
        if let Some(first) = group.first() {
            lines.push(format!("conflicts with {}:", first.manager));
        }
        lines.extend(group.iter().map(|conflict| format!("- {}", conflict.path)));
    }
    format!("Apply failed with {} conflicts: {}", conflicts.len(), lines.join("\n"))
}

pub(super) fn conflict_status(conflicts: &[Conflict]) -> Status {
    let cause = |conflict: &Conflict| Cause {
        reason: "FieldManagerConflict".into(),
        message: format!("conflict with {}", conflict.manager),
        field: conflict.path.to_string().into(),
    };
    Status::apply_conflict(listed(conflicts).iter().map(cause).collect(), message(conflicts))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fieldset::{FieldPath, PathElement};

    #[test]
    fn long_keys_are_not_repeated_without_limit() {
        let key = "k".repeat(300_000);
        let mut fields = Set::new();
        for n in 0..3_000 {
            let elements = [key.clone().into(), format!("f{n}").into()].map(PathElement::Field);
            fields.insert(&FieldPath(elements.into()));
        }
        let id = ManagerId::new("m", true, "", "");
        let conflicts: Vec<Conflict> = with(&id, &fields).collect();
        assert_eq!(conflicts.len(), 3_000, "all are known");
        let status = conflict_status(&conflicts);
        assert!(
            status.message.starts_with("Apply failed with 3000 conflicts: conflicts with \"m\":\n- .kkk")
        );
        assert!(status.message.len() <= PATH_BYTES_MAX + 100, "{}", status.message.len());
        let one: Vec<Conflict> = conflicts.into_iter().take(1).collect();
        assert!(message(&one).len() > 300_000, "the first is listed, however long it is");
    }
}
