//! The rules of a schema by position. Parts of the schema without rules are omitted.

use super::compile::{Compiled, Compiler, Rule};
use super::counts;
use super::shape::{is_embedded, shape, text};
use pintle_cel::shape::{Shape, ShapeKind};
use pintle_cel::words::escape;
use pintle_value::{Map, Str, Value};
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// The depth to which rules are collected.
pub(super) const DEPTH_MAX: usize = 256;

/// A compiled rule: `None` if it is empty, the error if it does not compile.
pub(super) type Entry = Option<Result<Compiled, String>>;

/// The rules of a value and of the values below it. They are compiled when the first value is validated.
pub struct Scope {
    pub(super) type_name: Str,
    pub(super) shape: Option<Arc<Shape>>,
    pub(super) rules: Vec<Rule>,
    compiled: OnceLock<Vec<Entry>>,
    pub(super) items: Option<Box<Scope>>,
    pub(super) values: Option<Box<Scope>>,
    /// By name, sorted.
    pub(super) properties: Vec<(Str, Scope)>,
    /// The keys of a list's items.
    pub(super) keys: Vec<Str>,
}

impl Scope {
    /// Collects the rules of a schema; `None` if there are none. `is_root` is set for whole objects.
    pub fn of(schema: &Value, is_root: bool) -> Option<Scope> {
        if !has_rules(schema, 0) {
            return None;
        }
        let began = Instant::now();
        let shape = shape(schema, is_root);
        let scope = build_scope(schema, shape.clone(), 0);
        counts::prepared(schema, shape.as_deref(), began.elapsed());
        scope
    }

    /// The rules here, compiled.
    pub(super) fn compiled(&self) -> &[Entry] {
        self.compiled.get_or_init(|| match &self.shape {
            Some(shape) if !self.rules.is_empty() => {
                let compiler = Compiler::new(shape.clone());
                self.rules.iter().map(|rule| compiler.compile(rule)).collect()
            }
            _ => Vec::new(),
        })
    }
}

impl fmt::Debug for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// Whether a schema has rules on its structural part.
pub fn has_rules(schema: &Value, depth: usize) -> bool {
    if depth > DEPTH_MAX {
        return false;
    }
    !schema.items_at(&["x-kubernetes-validations"]).is_empty()
        || schema.get("items").is_some_and(|items| has_rules(items, depth.saturating_add(1)))
        || schema.get("additionalProperties").is_some_and(|values| has_rules(values, depth.saturating_add(1)))
        || properties(schema).any(|(_, property)| has_rules(property, depth.saturating_add(1)))
}

pub(super) fn properties(schema: &Value) -> impl Iterator<Item = (&Str, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::iter)
}

/// The shape of a list's items or a map's values.
pub(super) fn element(shape: Option<&Shape>) -> Option<Arc<Shape>> {
    match &shape?.kind {
        ShapeKind::List { element, .. } => Some(element.clone()),
        ShapeKind::Map { value } => Some(value.clone()),
        _ => None,
    }
}

fn build_scope(schema: &Value, shape: Option<Arc<Shape>>, depth: usize) -> Option<Scope> {
    let map = schema.as_object().filter(|_| depth <= DEPTH_MAX)?;
    let rules = schema.items_at(&["x-kubernetes-validations"]);
    let element = element(shape.as_deref());
    let below = |key: &str| {
        let below = map.get(key).filter(|v| v.as_object().is_some())?;
        build_scope(below, element.clone(), depth.saturating_add(1)).map(Box::new)
    };
    let (items, values) = (below("items"), below("additionalProperties"));
    let fields = properties(schema).filter_map(|(name, property)| {
        let shape = property_shape(shape.as_deref()?, name, property)?;
        Some((name.clone(), build_scope(property, Some(shape), depth.saturating_add(1))?))
    });
    let properties: Vec<(Str, Scope)> = fields.collect();
    if rules.is_empty() && items.is_none() && values.is_none() && properties.is_empty() {
        return None;
    }
    let keys = match text(map, "x-kubernetes-list-type") {
        "map" => schema.items_at(&["x-kubernetes-list-map-keys"]),
        _ => &[],
    };
    Some(Scope {
        type_name: text(map, "type").into(),
        // Only rules need the shape of the data.
        shape: shape.filter(|_| !rules.is_empty()),
        rules: rules.iter().map(|rule| Rule::read(rule, schema)).collect(),
        compiled: OnceLock::new(),
        items,
        values,
        properties,
        keys: keys.iter().filter_map(Value::as_str).map(Str::from).collect(),
    })
}

/// The shape of a property: that in the shape of the object, or computed from its schema if its name cannot be escaped.
/// If expressions cannot access a property, its rules are not evaluated.
pub(super) fn property_shape(object: &Shape, name: &str, property: &Value) -> Option<Arc<Shape>> {
    match (escape(name), &object.kind) {
        (Some(escaped), ShapeKind::Object(object)) => object.fields.get(&escaped).map(|f| f.shape.clone()),
        (Some(_), _) => None,
        (None, _) => shape(property, is_embedded(property)),
    }
}
