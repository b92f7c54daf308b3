//! Defaults in a schema: they must be what the schema itself would accept.

use super::props::{DEPTH_MAX, Props};
use pintle_meta::FieldErrors;
use pintle_schema::{Arena, Node, NodeId, Shape, structural};
use pintle_value::{Path, Value};

/// Where a schema is within the object around it, for defaults inside of metadata.
#[derive(Clone)]
struct Around<'a> {
    /// The schema of the object (the root, or an embedded one).
    root: Props<'a>,
    /// How to get from there to the value: field names, and "" for an item.
    steps: Vec<&'a str>,
    in_metadata: bool,
}

/// All that is wrong with the defaults of a schema.
pub(super) fn validate(schema: Props<'_>, require_pruned: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    let around = Around { root: schema, steps: Vec::new(), in_metadata: false };
    walk(schema, true, around, require_pruned, path, errors, 0);
}

fn walk<'a>(
    schema: Props<'a>,
    is_root: bool,
    mut around: Around<'a>,
    require_pruned: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
    depth: usize,
) {
    if depth > DEPTH_MAX {
        return;
    }
    let embedded = is_root || schema.flag("x-kubernetes-embedded-resource");
    if embedded {
        around = Around { root: schema, steps: Vec::new(), in_metadata: false };
    }
    if let Some(default) = schema.get("default") {
        let at = path.field("default");
        if around.in_metadata {
            in_metadata(schema, default, &around, &at, errors);
        } else {
            elsewhere(schema, default, embedded, require_pruned, &at, errors);
        }
    }
    if let Some(item) = schema.item() {
        let mut below = around.clone();
        below.steps.push("");
        walk(item, false, below, require_pruned, &path.field("items"), errors, depth + 1);
    }
    for (name, property) in schema.members("properties") {
        let mut below = around.clone();
        below.steps.push(name);
        below.in_metadata |= embedded && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
        walk(property, false, below, require_pruned, &path.field("properties").key(name), errors, depth + 1);
    }
}

fn elsewhere(
    schema: Props<'_>,
    default: &Value,
    embedded: bool,
    require_pruned: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let compiled = Compiled::new(schema);
    if require_pruned && compiled.drops_something(default, embedded) {
        errors.invalid(path, default, "must not have unknown fields");
    }
    let mut found = FieldErrors::new();
    embedded_objects(schema, default, embedded, path, &mut found);
    if found.is_empty() {
        found = compiled.validate(default, path);
    }
    errors.0.append(&mut found.0);
}

/// A default inside of metadata is looked at within an object that has nothing else.
fn in_metadata(
    schema: Props<'_>,
    default: &Value,
    around: &Around<'_>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let mut object = default.clone();
    for step in around.steps.iter().rev() {
        object = match *step {
            "" => Value::Array(vec![object]),
            name => {
                let mut outer = Value::object();
                outer.set_at(&[name], object);
                outer
            }
        };
    }
    for (key, text) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
        if object.get(key).is_none() {
            object.set_at(&[key], text.into());
        }
    }
    let mut found = FieldErrors::new();
    embedded_objects(around.root, &object, true, &Path::ROOT, &mut found);
    if !found.is_empty() {
        let why = format!("must result in valid metadata: {}", found.sentence());
        return errors.invalid(path, default, &why);
    }
    errors.0.append(&mut Compiled::new(schema).validate(default, path).0);
}

/// A schema that is part of another, compiled.
struct Compiled {
    arena: Arena,
    node: NodeId,
}

impl Compiled {
    fn new(schema: Props<'_>) -> Self {
        let mut arena = Arena::default();
        let metadata = arena.push(Node::of(Shape::Any));
        let mut wrapper = Value::object();
        wrapper.set_at(&["type"], "object".into());
        wrapper.set_at(&["properties", "value"], schema.0.clone());
        let root = structural::compile(&wrapper, metadata, &mut arena);
        let node = match &arena.node(root).shape {
            Shape::Struct(fields) => fields.field("value").map(|f| f.node),
            _ => None,
        };
        Compiled { node: node.unwrap_or(root), arena }
    }

    fn drops_something(&self, default: &Value, embedded: bool) -> bool {
        let mut pruned = default.clone();
        if let (true, Value::Object(map)) = (embedded, &mut pruned) {
            for key in ["apiVersion", "kind", "metadata"] {
                map.remove(key);
            }
        }
        let mut unknown = Vec::new();
        structural::prune(&self.arena, self.node, &mut pruned, &Path::ROOT, &mut unknown);
        !unknown.is_empty()
    }

    /// What the schema has against a default; the fields are named from `path` on.
    fn validate(&self, default: &Value, path: &Path<'_>) -> FieldErrors {
        let mut errors = FieldErrors::new();
        structural::validate(&self.arena, self.node, default, &Path::ROOT, &mut errors);
        structural::within(errors, &path.to_str())
    }
}

/// What is wrong with the objects within a value that are whole Kubernetes objects.
fn embedded_objects(
    schema: Props<'_>,
    value: &Value,
    embedded: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    match value {
        Value::Object(map) => {
            if embedded {
                structural::validate_object(value, path, errors);
            }
            for (key, member) in map.iter() {
                if let Some(property) = schema.property(key) {
                    let embedded = property.flag("x-kubernetes-embedded-resource");
                    embedded_objects(property, member, embedded, &path.field(key), errors);
                } else if let Some(each) = schema.below("additionalProperties") {
                    let embedded = each.flag("x-kubernetes-embedded-resource");
                    embedded_objects(each, member, embedded, &path.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(item) = schema.item() else { return };
            for (at, member) in items.iter().enumerate() {
                let embedded = item.flag("x-kubernetes-embedded-resource");
                embedded_objects(item, member, embedded, &path.index(at), errors);
            }
        }
        _ => {}
    }
}
