//! Types of mutating policies, `JSONPatch{…}` and `Object{…}`, and `jsonpatch.escapeKey`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::decl::{Run, declare};
use crate::env::Env;
use crate::library::Library;
use crate::library::operand::text;
use crate::shape::{Field, ObjectShape, Shape, ShapeKind};
use crate::value::{Object, Value};

/// The name of the type of one operation of a JSON patch.
pub const JSON_PATCH: &str = "JSONPatch";
/// The name of the type of an apply configuration; those of its parts are `Object.spec` and so on.
pub const OBJECT: &str = "Object";
/// How deep the types of an apply configuration are checked.
const DEPTH_MAX: usize = 64;

/// The library with `jsonpatch.escapeKey`.
pub fn library() -> Library {
    let escape: Run = |args| Ok(text(args, 0)?.replace('~', "~0").replace('/', "~1").into());
    let row = ("jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string", "(string) -> string", escape);
    Library { functions: declare(&[], &[row]), ..Library::default() }
}

/// Adds the types of mutations to an environment.
pub fn with_mutations(env: Env) -> Env {
    env.with_library(library()).with_types_of(&json_patch()).with_open_types(is_open)
}

/// The fields of a `JSONPatch`.
pub fn json_patch() -> Shape {
    let field = |name: &str, kind| {
        (name.into(), Field { json: name.into(), shape: Arc::new(Shape::of(kind)), required: false })
    };
    let fields = BTreeMap::from([
        field("op", ShapeKind::String),
        field("from", ShapeKind::String),
        field("path", ShapeKind::String),
        field("value", ShapeKind::Dyn),
    ]);
    Shape::of(ShapeKind::Object(Arc::new(ObjectShape { name: JSON_PATCH.into(), fields })))
}

/// kube-apiserver accepts any field of a `JSONPatch`, but nothing can be assigned to unknown ones.
fn is_open(name: &str) -> bool {
    name == JSON_PATCH || is_object_type(name)
}

/// Whether `name` is the type of an apply configuration or of a part of one; such a type has every field.
pub fn is_object_type(name: &str) -> bool {
    name.strip_prefix(OBJECT).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The errors of type names in an apply configuration: each type must be named by its path.
pub fn misnamed_types(value: &Value<'_>) -> Vec<String> {
    let mut mistakes = Vec::new();
    if let Value::Object(Object::Shared(name, _)) = value {
        find_misnamed(value, name, 0, &mut mistakes);
    }
    mistakes
}

fn find_misnamed(value: &Value<'_>, path: &str, depth: usize, mistakes: &mut Vec<String>) {
    if depth > DEPTH_MAX {
        return;
    }
    match value {
        Value::Object(Object::Shared(name, fields)) => {
            if **name != *path {
                mistakes.push(format!(
                    "unexpected type name \"{name}\", expected \"{path}\", which matches field name path from root Object type"
                ));
            }
            for (field, value) in fields.iter() {
                find_misnamed(value, &format!("{path}.{field}"), depth.saturating_add(1), mistakes);
            }
        }
        Value::List(list) => {
            for element in list.iter().flatten() {
                find_misnamed(&element, path, depth.saturating_add(1), mistakes);
            }
        }
        Value::Map(map) => {
            for (_, value) in map.entries() {
                if let Ok(value) = value {
                    find_misnamed(&value, path, depth.saturating_add(1), mistakes);
                }
            }
        }
        _ => {}
    }
}
