//! The fields of an object as a tree below each manager: the fields it owns, since when and by which operation.

use super::print::scalar;
use pintle_apply::managed::{Blame, Line, Manager, blame};
use pintle_value::Value;
use std::fmt::Write;

/// A tree for each manager, in the order of the object, and one for the fields without an owner.
pub(super) fn text(object: &Value) -> String {
    let blame = blame(object);
    let mut out = String::new();
    for (owner, manager) in blame.managers.iter().enumerate() {
        _ = writeln!(out, "{}", title(manager));
        branches(&blame, &|line| line.owners.contains(&owner), &mut out);
    }
    out
}

/// The title of a manager: `kubectl: Apply, apps/v1, since 2026-01-01T00:00:00Z`.
pub(super) fn title(manager: &Manager) -> String {
    let mut out = format!("{}: {}", manager.manager, manager.operation);
    if !manager.subresource.is_empty() {
        _ = write!(out, " of {}", manager.subresource);
    }
    if !manager.api_version.is_empty() {
        _ = write!(out, ", {}", manager.api_version);
    }
    if !manager.time.is_empty() {
        _ = write!(out, ", since {}", manager.time);
    }
    out
}

/// The lines for which `wanted` is true, and their ancestors.
fn branches(blame: &Blame<'_>, wanted: &dyn Fn(&Line<'_>) -> bool, out: &mut String) {
    let mut rows: Vec<(&Line<'_>, bool)> = Vec::new();
    // From the end, so that the lines below a line are known before the line.
    let mut needed_depth = 0;
    let mut has_next: Vec<bool> = Vec::new();
    for line in blame.lines.iter().rev() {
        let is_around = needed_depth > line.depth;
        if !is_around && !wanted(line) {
            continue;
        }
        needed_depth = line.depth;
        has_next.resize(line.depth.saturating_add(1), false);
        let last = has_next.get_mut(line.depth).is_none_or(|next| !std::mem::replace(next, true));
        rows.push((line, last));
    }
    let mut bars: Vec<bool> = Vec::new();
    for (line, last) in rows.into_iter().rev() {
        bars.truncate(line.depth);
        let indent: String = bars.iter().map(|more| if *more { "│  " } else { "   " }).collect();
        let branch = if last { "└─ " } else { "├─ " };
        _ = write!(out, "{indent}{branch}{}", line_label(line));
        if wanted(line) && line.owners.len() > 1 {
            let names = line.owners.iter().filter_map(|owner| blame.managers.get(*owner));
            let names: Vec<&str> = names.map(|manager| manager.manager.as_str()).collect();
            _ = write!(out, "  (owned by {})", names.join(", "));
        }
        out.push('\n');
        bars.push(!last);
    }
}

fn line_label(line: &Line<'_>) -> String {
    let element = line.path.0.last().map(ToString::to_string).unwrap_or_default();
    let name = element.strip_prefix('.').unwrap_or(&element);
    let has_parts = match line.value {
        Value::Array(items) => !items.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => false,
    };
    if has_parts { name.to_string() } else { format!("{name}: {}", scalar(line.value)) }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    #[test]
    fn fields_are_printed_below_their_managers() {
        let object = crate::owners::print::tests::deployment(r#"{name: c, image: "nginx"}"#);
        expect![[r#"
            kubectl: Apply, apps/v1, since 2026-01-01T00:00:00Z
            ├─ metadata
            │  └─ labels
            │     └─ app: web
            └─ spec
               ├─ replicas: 3  (owned by kubectl, hpa)
               └─ template
                  └─ spec
                     └─ containers
                        └─ [name="c"]
                           ├─ image: nginx
                           └─ name: c
            hpa: Update of scale, apps/v1, since 2026-01-02T00:00:00Z
            └─ spec
               └─ replicas: 3  (owned by kubectl, hpa)
        "#]]
        .assert_eq(&super::text(&object));
    }
}
