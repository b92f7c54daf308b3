//! Accessors for a JSON schema in a definition (Go's `JSONSchemaProps`).

use pintle_value::{Str, Value};

/// The deepest schema that is processed.
pub(super) const DEPTH_MAX: usize = 256;

/// A JSON schema.
#[derive(Clone, Copy)]
pub(super) struct Props<'a>(pub(super) &'a Value);

/// The value of `items`: one schema, or a list of them.
pub(super) enum Items<'a> {
    /// Nothing.
    None,
    /// A schema for all items.
    One(Props<'a>),
    /// A schema for each item, which is not supported.
    Many(&'a [Value]),
}

impl<'a> Props<'a> {
    pub(super) fn get(self, key: &str) -> Option<&'a Value> {
        self.0.get(key).filter(|v| !v.is_null())
    }

    pub(super) fn has(self, key: &str) -> bool {
        self.get(key).is_some()
    }

    pub(super) fn text(self, key: &str) -> &'a str {
        self.get(key).and_then(Value::as_str).unwrap_or("")
    }

    pub(super) fn flag(self, key: &str) -> bool {
        self.get(key).and_then(Value::as_bool).unwrap_or(false)
    }

    pub(super) fn kind(self) -> &'a str {
        self.text("type")
    }

    pub(super) fn list(self, key: &str) -> &'a [Value] {
        self.0.items_at(&[key])
    }

    /// A subschema: `not`, `additionalProperties`.
    pub(super) fn below(self, key: &str) -> Option<Props<'a>> {
        self.get(key).filter(|v| v.as_object().is_some()).map(Props)
    }

    /// The members of a map of schemas: `properties`, `definitions`.
    pub(super) fn members(self, key: &str) -> impl Iterator<Item = (&'a Str, Props<'a>)> {
        self.get(key)
            .and_then(Value::as_object)
            .into_iter()
            .flat_map(|map| map.iter())
            .map(|(k, v)| (k, Props(v)))
    }

    pub(super) fn property(self, name: &str) -> Option<Props<'a>> {
        self.0.at(&["properties", name]).map(Props)
    }

    pub(super) fn has_properties(self) -> bool {
        self.members("properties").next().is_some()
    }

    pub(super) fn items(self) -> Items<'a> {
        match self.get("items") {
            Some(Value::Array(many)) => Items::Many(many),
            Some(one) => Items::One(Props(one)),
            None => Items::None,
        }
    }

    pub(super) fn item(self) -> Option<Props<'a>> {
        match self.items() {
            Items::One(item) => Some(item),
            Items::None | Items::Many(_) => None,
        }
    }

    /// Returns whether `wanted` holds for the schema or any subschema.
    pub(super) fn any(self, wanted: &dyn Fn(Props<'a>) -> bool) -> bool {
        self.any_within(wanted, 0)
    }

    fn any_within(self, wanted: &dyn Fn(Props<'a>) -> bool, depth: usize) -> bool {
        if depth > DEPTH_MAX {
            return false;
        }
        wanted(self)
            || self.all_below().into_iter().any(|below| below.any_within(wanted, depth.saturating_add(1)))
    }

    /// All direct subschemas, in the order of kube-apiserver.
    pub(super) fn all_below(self) -> Vec<Props<'a>> {
        let mut out = Vec::new();
        match self.items() {
            Items::None => {}
            Items::One(item) => out.push(item),
            Items::Many(items) => out.extend(items.iter().map(Props)),
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            out.extend(self.list(key).iter().map(Props));
        }
        out.extend(self.below("not"));
        out.extend(self.members("properties").map(|(_, v)| v));
        out.extend(self.below("additionalProperties"));
        out.extend(self.members("patternProperties").map(|(_, v)| v));
        out.extend(self.below("additionalItems"));
        out.extend(self.members("definitions").map(|(_, v)| v));
        out.extend(self.members("dependencies").map(|(_, v)| v).filter(|v| v.0.as_object().is_some()));
        out
    }
}
