//! Validates Kubernetes objects embedded in custom resources: they need a kind, an apiVersion and valid metadata.

use crate::{Arena, NodeId, Shape};
use pintle_meta::{FieldErrors, GroupVersion, names, objectmeta};
use pintle_value::{Path, Value};

/// Validates all embedded objects of a value.
pub fn validate_embedded(
    arena: &Arena,
    id: NodeId,
    value: &Value,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let node = arena.node(id);
    match value {
        Value::Object(map) => {
            if node.embedded {
                validate_object(value, path, errors);
            }
            for (key, member) in map.iter() {
                match &node.shape {
                    Shape::Struct(known) => {
                        if let Some(field) = known.field(key).filter(|f| Some(f.node) != node.metadata) {
                            validate_embedded(arena, field.node, member, &path.field(key), errors);
                        }
                    }
                    Shape::Map { value: each, .. } => {
                        validate_embedded(arena, *each, member, &path.key(key), errors);
                    }
                    _ => {}
                }
            }
        }
        Value::Array(items) => {
            if let Shape::List { item, .. } = &node.shape {
                for (at, member) in items.iter().enumerate() {
                    validate_embedded(arena, *item, member, &path.index(at), errors);
                }
            }
        }
        _ => {}
    }
}

/// Validates kind, apiVersion and metadata of one object.
pub fn validate_object(object: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    for key in ["apiVersion", "kind"] {
        if object.get(key).is_none() {
            errors.required(&path.field(key), "");
        }
    }
    if let Some(given) = object.get("apiVersion") {
        let at = path.field("apiVersion");
        match given.as_str() {
            None => errors.invalid(&at, given, "must be a string"),
            Some("") => errors.invalid(&at, "", "must not be empty"),
            Some(text) => {
                if let Err(why) = GroupVersion::parse(text) {
                    errors.invalid(&at, text, &why);
                }
            }
        }
    }
    if let Some(given) = object.get("kind") {
        let at = path.field("kind");
        match given.as_str() {
            None => errors.invalid(&at, given, "must be a string"),
            Some("") => errors.invalid(&at, "", "must not be empty"),
            Some(text) => {
                let wrong = names::is_dns1035_label(&text.to_lowercase());
                if !wrong.is_empty() {
                    let why = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
                    errors.invalid(&at, text, &why);
                }
            }
        }
    }
    if let Some(metadata) = object.get("metadata") {
        let mut metadata = metadata.clone();
        if metadata.str_at(&["name"]).is_empty() {
            metadata.set_at(&["name"], "fakename".into());
        }
        let namespaced = !metadata.str_at(&["namespace"]).is_empty();
        objectmeta::validate_create(
            &metadata,
            namespaced,
            &names::path_segment_name,
            &path.field("metadata"),
            errors,
        );
    }
}
