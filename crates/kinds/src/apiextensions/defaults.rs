//! Validates defaults in a schema: they must be valid by that schema.

use super::props::{DEPTH_MAX, Props};
use pintle_meta::FieldErrors;
use pintle_schema::{Arena, Node, NodeId, Schema, Shape, rules, structural, typed};
use pintle_value::{Path, Value};

/// The position of a schema within its object, for defaults inside of metadata.
#[derive(Clone)]
struct SchemaPosition<'a> {
    /// The schema of the object (the root, or an embedded one).
    root: Props<'a>,
    /// The path from the object to the value: field names, and "" for an item.
    steps: Vec<&'a str>,
    in_metadata: bool,
}

/// All errors of the defaults of a schema. `metadata` is the type of metadata, as which defaults inside of it are
/// decoded.
pub(super) fn validate(
    schema: Props<'_>,
    require_pruned: bool,
    metadata: Option<&Schema>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let position = SchemaPosition { root: schema, steps: Vec::new(), in_metadata: false };
    let budget = rules::REQUEST_BUDGET;
    let mut walk = Walk { require_pruned, evaluate_rules: true, metadata, budget, errors };
    walk.check_schema(schema, true, position, path, 0);
}

const UNPRUNED: &str = "must not have unknown fields";

/// Whether a default of a stored schema has fields that the schema does not specify. Rules are not evaluated.
pub(super) fn has_unpruned(schema: Props<'_>, metadata: Option<&Schema>) -> bool {
    let position = SchemaPosition { root: schema, steps: Vec::new(), in_metadata: false };
    let mut errors = FieldErrors::new();
    let (require_pruned, evaluate_rules, budget) = (true, false, 0);
    let mut walk = Walk { require_pruned, evaluate_rules, metadata, budget, errors: &mut errors };
    walk.check_schema(schema, true, position, &Path::ROOT, 0);
    errors.0.iter().any(|error| error.body.ends_with(UNPRUNED))
}

struct Walk<'e> {
    require_pruned: bool,
    evaluate_rules: bool,
    metadata: Option<&'e Schema>,
    /// The remaining cost of rules; once negative, other defaults are not checked.
    budget: i64,
    errors: &'e mut FieldErrors,
}

impl Walk<'_> {
    fn check_schema<'a>(
        &mut self,
        schema: Props<'a>,
        is_root: bool,
        mut position: SchemaPosition<'a>,
        path: &Path<'_>,
        depth: usize,
    ) {
        if depth > DEPTH_MAX || self.budget < 0 {
            return;
        }
        let embedded = is_root || schema.flag("x-kubernetes-embedded-resource");
        if embedded {
            position = SchemaPosition { root: schema, steps: Vec::new(), in_metadata: false };
        }
        if let Some(default) = schema.get("default") {
            let at = path.field("default");
            let fits = if position.in_metadata {
                in_metadata(schema, default, &position, self.metadata, &at, self.errors)
            } else {
                self.validate_in_schema(schema, default, embedded, &at)
            };
            if fits && self.evaluate_rules {
                self.rules(schema, default, embedded, &at);
            }
        }
        if let Some(item) = schema.item() {
            let mut below = position.clone();
            below.steps.push("");
            self.check_schema(item, false, below, &path.field("items"), depth.saturating_add(1));
        }
        for (name, property) in schema.members("properties") {
            let mut below = position.clone();
            below.steps.push(name);
            below.in_metadata |= embedded && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
            self.check_schema(
                property,
                false,
                below,
                &path.field("properties").key(name),
                depth.saturating_add(1),
            );
        }
    }

    /// Validates a default against its schema.
    fn validate_in_schema(
        &mut self,
        schema: Props<'_>,
        default: &Value,
        embedded: bool,
        path: &Path<'_>,
    ) -> bool {
        let compiled = Compiled::new(schema);
        if self.require_pruned && compiled.drops_something(default, embedded) {
            self.errors.invalid(path, default, UNPRUNED);
        }
        let mut found = wrong_objects(schema, default, embedded, self.metadata, path);
        if found.is_empty() {
            found = compiled.validate(default, path);
        }
        let fits = found.is_empty();
        self.errors.append(found);
        fits
    }

    /// Evaluates the CEL rules on a default, as an unchanged value and as a new one.
    fn rules(&mut self, schema: Props<'_>, default: &Value, is_root: bool, path: &Path<'_>) {
        let Some(scope) = rules::Scope::of(schema.0, is_root) else { return };
        let budget = self.budget;
        let mut run = |old: Option<&Value>| {
            let outcome = rules::validate_strictly(&scope, default, old, path, budget);
            self.budget = self.budget.min(outcome.budget);
            let holds = outcome.errors.is_empty();
            self.errors.append(outcome.errors);
            holds
        };
        if run(Some(default)) {
            run(None);
        }
    }
}

/// Validates a default inside of metadata, within an object that has nothing else.
fn in_metadata(
    schema: Props<'_>,
    default: &Value,
    position: &SchemaPosition<'_>,
    metadata: Option<&Schema>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) -> bool {
    let mut object = default.clone();
    for step in position.steps.iter().rev() {
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
    let found = wrong_objects(position.root, &object, true, metadata, &Path::ROOT);
    if !found.is_empty() {
        let why = format!("must result in valid metadata: {}", found.aggregate_message());
        errors.invalid(path, default, &why);
        return false;
    }
    let found = Compiled::new(schema).validate(default, path);
    let fits = found.is_empty();
    errors.append(found);
    fits
}

/// A compiled subschema.
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
        if embedded && let Value::Object(map) = &mut pruned {
            for key in ["apiVersion", "kind", "metadata"] {
                map.remove(key);
            }
        }
        let mut unknown = structural::UnknownFields::default();
        structural::prune(&self.arena, self.node, &mut pruned, &Path::ROOT, &mut unknown);
        !unknown.is_empty()
    }

    /// Validates a default; the errors' paths begin with `path`.
    fn validate(&self, default: &Value, path: &Path<'_>) -> FieldErrors {
        let mut errors = FieldErrors::new();
        structural::validate_default(&self.arena, self.node, default, &Path::ROOT, &mut errors);
        structural::within(errors, &path.to_str())
    }
}

/// The errors of whole Kubernetes objects within a value: the first metadata that Go cannot read, or else everything that is
/// invalid.
fn wrong_objects(
    schema: Props<'_>,
    value: &Value,
    embedded: bool,
    metadata: Option<&Schema>,
    path: &Path<'_>,
) -> FieldErrors {
    let mut found = FieldErrors::new();
    if let Some(metadata) = metadata {
        unreadable_metadata(schema, value, embedded, metadata, path, &mut found);
    }
    if found.is_empty() {
        embedded_objects(schema, value, embedded, path, &mut found);
    }
    found
}

/// The first metadata of an embedded object that Go cannot read.
fn unreadable_metadata(
    schema: Props<'_>,
    value: &Value,
    embedded: bool,
    type_: &Schema,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let below = |schema: Props<'_>, member: &Value, path: &Path<'_>, errors: &mut FieldErrors| {
        if errors.is_empty() {
            let embedded = schema.flag("x-kubernetes-embedded-resource");
            unreadable_metadata(schema, member, embedded, type_, path, errors);
        }
    };
    match value {
        Value::Object(map) => {
            if let Some(metadata) = map.get("metadata").filter(|metadata| embedded && !metadata.is_null())
                && let Err(error) = typed::decode(type_, metadata.clone(), None)
            {
                return errors.invalid(&path.field("metadata"), metadata, error.message());
            }
            for (key, member) in map.iter() {
                if let Some(property) = schema.property(key) {
                    below(property, member, &path.field(key), errors);
                } else if let Some(each) = schema.below("additionalProperties") {
                    below(each, member, &path.key(key), errors);
                }
            }
        }
        Value::Array(items) => {
            let Some(item) = schema.item() else { return };
            for (at, member) in items.iter().enumerate() {
                below(item, member, &path.index(at), errors);
            }
        }
        _ => {}
    }
}

/// Validates embedded Kubernetes objects within a value.
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
