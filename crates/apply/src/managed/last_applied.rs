//! The annotation of kubectl's client-side apply, for users who migrate between it and server-side apply.

use super::{Conflict, Context};
use crate::fieldset::Set;
use crate::typed::{self, Duplicates, Type};
use pintle_value::{Value, json};

/// The annotation only matters for the manager of kubectl's own server-side apply.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// How large all annotations may be together, keys and values.
const ANNOTATIONS_BYTES_MAX: usize = 256 * 1024;

/// The conflicts that are not about fields which kubectl itself set by client-side apply and which have not changed
/// since. `None` without a usable annotation.
pub(super) fn unexpected(cx: &Context<'_>, live: &Value, conflicts: &[Conflict]) -> Option<Vec<Conflict>> {
    let allowed = fields_unchanged_since_apply(cx, live)?;
    Some(conflicts.iter().filter(|conflict| !allowed.has(&conflict.path.to_path())).cloned().collect())
}

/// The fields that kubectl last applied and that still have the applied values. `None` without a usable annotation.
fn fields_unchanged_since_apply(cx: &Context<'_>, live: &Value) -> Option<Set> {
    let annotation = live.str_at(&["metadata", "annotations", ANNOTATION]);
    if annotation.is_empty() {
        return None;
    }
    let last = json::parse(annotation.as_bytes()).ok()?.value;
    if last.str_at(&["apiVersion"]) != cx.api_version() {
        return None;
    }
    let schema = cx.schema().ok()?;
    let ty = Type::of(&schema);
    typed::validate(live, ty, Duplicates::Refused).ok()?;
    typed::validate(&last, ty, Duplicates::Refused).ok()?;
    let change = typed::compare(&last, live, ty);
    let set = typed::field_set(&last, ty);
    Some(set.difference(&change.modified).difference(&change.added).difference(&change.removed))
}

/// Updates the annotation, if the object has it, to the configuration that is applied now.
pub(super) fn refresh(object: &mut Value, config: &Value) {
    if object.str_at(&["metadata", "annotations", ANNOTATION]).is_empty() {
        return;
    }
    let mut config = config.clone();
    config.remove_at(&["metadata", "annotations", ANNOTATION]);
    let mut text = Vec::new();
    json::print(&config, &mut text);
    text.push(b'\n');
    object
        .set_at(&["metadata", "annotations", ANNOTATION], String::from_utf8_lossy(&text).into_owned().into());
    let annotations = object.at(&["metadata", "annotations"]).and_then(Value::as_object);
    let size: usize = annotations
        .into_iter()
        .flat_map(|map| map.iter())
        .map(|(key, value)| key.len().saturating_add(value.as_str().map_or(0, str::len)))
        .sum();
    if size > ANNOTATIONS_BYTES_MAX {
        object.remove_at(&["metadata", "annotations", ANNOTATION]);
    }
}
