//! Defaults in a schema: they must be what the schema itself would accept.

use super::props::{DEPTH_MAX, Props};
use pintle_meta::FieldErrors;
use pintle_schema::{Arena, Node, NodeId, Shape, rules, structural};
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
    let mut walk = Walk { require_pruned, budget: rules::REQUEST_BUDGET, errors };
    walk.schema(schema, true, around, path, 0);
}

struct Walk<'e> {
    require_pruned: bool,
    /// What is left for rules; negative when it ran out, and the rest is not looked at.
    budget: i64,
    errors: &'e mut FieldErrors,
}

impl Walk<'_> {
    fn schema<'a>(
        &mut self,
        schema: Props<'a>,
        is_root: bool,
        mut around: Around<'a>,
        path: &Path<'_>,
        depth: usize,
    ) {
        if depth > DEPTH_MAX || self.budget < 0 {
            return;
        }
        let embedded = is_root || schema.flag("x-kubernetes-embedded-resource");
        if embedded {
            around = Around { root: schema, steps: Vec::new(), in_metadata: false };
        }
        if let Some(default) = schema.get("default") {
            let at = path.field("default");
            let fits = if around.in_metadata {
                in_metadata(schema, default, &around, &at, self.errors)
            } else {
                self.elsewhere(schema, default, embedded, &at)
            };
            if fits {
                self.rules(schema, default, embedded, &at);
            }
        }
        if let Some(item) = schema.item() {
            let mut below = around.clone();
            below.steps.push("");
            self.schema(item, false, below, &path.field("items"), depth + 1);
        }
        for (name, property) in schema.members("properties") {
            let mut below = around.clone();
            below.steps.push(name);
            below.in_metadata |= embedded && matches!(name.as_str(), "metadata" | "apiVersion" | "kind");
            self.schema(property, false, below, &path.field("properties").key(name), depth + 1);
        }
    }

    /// Whether a default fits its schema.
    fn elsewhere(&mut self, schema: Props<'_>, default: &Value, embedded: bool, path: &Path<'_>) -> bool {
        let compiled = Compiled::new(schema);
        if self.require_pruned && compiled.drops_something(default, embedded) {
            self.errors.invalid(path, default, "must not have unknown fields");
        }
        let mut found = FieldErrors::new();
        embedded_objects(schema, default, embedded, path, &mut found);
        if found.is_empty() {
            found = compiled.validate(default, path);
        }
        let fits = found.is_empty();
        self.errors.0.append(&mut found.0);
        fits
    }

    /// Whether a default follows the rules, as a value that stays and as a new one.
    fn rules(&mut self, schema: Props<'_>, default: &Value, is_root: bool, path: &Path<'_>) {
        let Some(scope) = rules::Scope::of(schema.0, is_root) else { return };
        let budget = self.budget;
        let mut run = |old: Option<&Value>| {
            let outcome = rules::validate_strictly(&scope, default, old, path, budget);
            self.budget = self.budget.min(outcome.budget);
            let holds = outcome.errors.is_empty();
            self.errors.0.extend(outcome.errors.0);
            holds
        };
        if run(Some(default)) {
            run(None);
        }
    }
}

/// A default inside of metadata is looked at within an object that has nothing else.
fn in_metadata(
    schema: Props<'_>,
    default: &Value,
    around: &Around<'_>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) -> bool {
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
        errors.invalid(path, default, &why);
        return false;
    }
    let mut found = Compiled::new(schema).validate(default, path);
    let fits = found.is_empty();
    errors.0.append(&mut found.0);
    fits
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
        structural::validate_default(&self.arena, self.node, default, &Path::ROOT, &mut errors);
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
