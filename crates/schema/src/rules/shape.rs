//! The CEL shape of a schema's data: types, and the sizes that bound the cost of expressions.

use pintle_cel::shape::{Field, ListKind, ObjectShape, Shape, ShapeKind};
use pintle_cel::words::{escape, is_keyword};
use pintle_value::{Map, Str, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The largest request that sizes are estimated for.
pub const REQUEST_BYTES_MAX: u64 = 3 * 1024 * 1024;
/// The depth to which a schema is examined.
const DEPTH_MAX: usize = 256;
/// The name of the root's type; the names of types below are their paths.
const ROOT_TYPE: &str = "selfType";

/// The smallest JSON of a value of a type, and the longest text of a format.
mod size {
    pub(super) const TEXT_MIN: u64 = 2;
    pub(super) const BOOL_MIN: u64 = 4;
    pub(super) const NUMBER_MIN: u64 = 1;
    pub(super) const DURATION_MIN: u64 = 3;
    pub(super) const DURATION_MAX: u64 = 32;
    pub(super) const DATE: u64 = 12;
    pub(super) const DATE_TIME_MIN: u64 = 21;
    pub(super) const DATE_TIME_MAX: u64 = 32;
    pub(super) const LIST_MIN: u64 = 2;
    pub(super) const OBJECT_MIN: u64 = 2;
    /// Quotes, colon and comma around a required field.
    pub(super) const FIELD_MIN: u64 = 4;
    /// A key of two bytes, its quotes, colon and comma.
    pub(super) const ENTRY_MIN: u64 = 6;
}

/// The shape of the data of a schema; `None` if expressions cannot access it. `is_root` is set for whole objects: a
/// custom resource, or a resource embedded in one.
pub fn shape(schema: &Value, is_root: bool) -> Option<Arc<Shape>> {
    shape_named(schema, is_root, ROOT_TYPE, 0)
}

/// The shape of whole objects of a schema, whose type is called `name`.
pub fn object_shape(schema: &Value, name: &str) -> Option<Arc<Shape>> {
    shape_named(schema, true, name, 0)
}

/// The maximum number of values of a shape that a request can contain.
pub fn cardinality_max(shape: &Shape) -> u64 {
    fitting(REQUEST_BYTES_MAX, shape.min_serialized_size.saturating_add(1))
}

/// The number of items of `item` bytes that fit `room` bytes.
fn fitting(room: u64, item: u64) -> u64 {
    room.checked_div(item).unwrap_or(room)
}

fn shape_named(schema: &Value, is_root: bool, name: &str, depth: usize) -> Option<Arc<Shape>> {
    let map = schema.as_object().filter(|_| depth < DEPTH_MAX)?;
    if is_true(map, "x-kubernetes-int-or-string") {
        let max = max_of(map, "maxLength").map_or(REQUEST_BYTES_MAX - 2, |max| max.saturating_mul(4));
        return made(ShapeKind::Dyn, max, 1);
    }
    match text(map, "type") {
        "array" => make_list_shape(map, name, depth),
        "object" => match map.get("additionalProperties") {
            Some(values @ Value::Object(_)) => map_of(map, values, name, depth),
            _ => make_object_shape(map, is_root, name, depth),
        },
        "string" => string_shape(map),
        "boolean" => made(ShapeKind::Bool, 0, size::BOOL_MIN),
        "number" => made(ShapeKind::Double, 0, size::NUMBER_MIN),
        "integer" => made(ShapeKind::Int, 0, size::NUMBER_MIN),
        _ => None,
    }
}

#[expect(clippy::unnecessary_wraps, reason = "every form of a schema answers alike")]
fn made(kind: ShapeKind, max_elements: u64, min_serialized_size: u64) -> Option<Arc<Shape>> {
    Some(Arc::new(Shape { kind, max_elements, min_serialized_size }))
}

fn make_list_shape(map: &Map, name: &str, depth: usize) -> Option<Arc<Shape>> {
    let items = map.get("items").filter(|items| items.as_object().is_some())?;
    let element = shape_named(items, is_embedded(items), &format!("{name}.@idx"), depth.saturating_add(1))?;
    let max = max_of(map, "maxItems").unwrap_or_else(|| {
        fitting(REQUEST_BYTES_MAX - size::LIST_MIN, element.min_serialized_size.saturating_add(1))
    });
    made(ShapeKind::List { element, list: list_kind(map) }, max, size::LIST_MIN)
}

/// The keys of a list are matched by their escaped names, even if the data has other names: kube-apiserver then finds no
/// such members and treats all items as the same one (`a_key_that_needs_escapes_tells_nothing_apart`).
fn list_kind(map: &Map) -> ListKind {
    match text(map, "x-kubernetes-list-type") {
        "set" => ListKind::Set,
        "map" => {
            let keys = map.get("x-kubernetes-list-map-keys").and_then(Value::as_array).unwrap_or(&[]);
            let keys = keys.iter().filter_map(Value::as_str);
            ListKind::KeyedBy(keys.map(|key| escape(key).unwrap_or_else(|| key.into())).collect())
        }
        _ => ListKind::Ordered,
    }
}

fn map_of(map: &Map, values: &Value, name: &str, depth: usize) -> Option<Arc<Shape>> {
    let value = shape_named(values, is_embedded(values), &format!("{name}.@elem"), depth.saturating_add(1))?;
    let max = max_of(map, "maxProperties").unwrap_or_else(|| {
        fitting(
            REQUEST_BYTES_MAX - size::OBJECT_MIN,
            value.min_serialized_size.saturating_add(size::ENTRY_MIN),
        )
    });
    made(ShapeKind::Map { value }, max, size::OBJECT_MIN)
}

fn make_object_shape(map: &Map, is_root: bool, name: &str, depth: usize) -> Option<Arc<Shape>> {
    let required: Vec<&str> = map
        .get("required")
        .and_then(Value::as_array)
        .unwrap_or(&[])
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let with_metadata = is_root && !has_metadata(map);
    let declared = map.get("properties").and_then(Value::as_object);
    let mut fields = BTreeMap::new();
    let mut min = size::OBJECT_MIN;
    let mut add = |property: &str, shape: Arc<Shape>, has_default: bool| {
        let required = required.contains(&property);
        if required && !has_default {
            min = min
                .saturating_add(property.len() as u64)
                .saturating_add(shape.min_serialized_size)
                .saturating_add(size::FIELD_MIN);
        }
        if is_keyword(property) {
            // Expressions may also use such names without escapes; the size of the result is then unbounded
            // (`reserved_names_without_escapes_have_no_bounds`).
            let shape = Arc::new(Shape { max_elements: u64::MAX, ..(*shape).clone() });
            fields.insert(property.into(), Field { json: property.into(), shape, required });
        }
        if let Some(escaped) = escape(property) {
            fields.insert(escaped, Field { json: property.into(), shape, required });
        }
    };
    for (property, schema) in declared.into_iter().flat_map(Map::iter) {
        if with_metadata && is_metadata(property) {
            continue;
        }
        let name = format!("{name}.{}", escape(property).unwrap_or_default());
        if let Some(shape) = shape_named(schema, is_embedded(schema), &name, depth.saturating_add(1)) {
            add(property, shape, schema.get("default").is_some_and(|v| !v.is_null()));
        }
    }
    if with_metadata {
        for property in ["apiVersion", "kind"] {
            add(property, unbounded_text(), false);
        }
        add("metadata", metadata_shape(name), false);
    }
    made(ShapeKind::Object(Arc::new(ObjectShape { name: name.into(), fields })), 0, min)
}

/// The members of a whole object that its schema need not declare.
fn is_metadata(property: &str) -> bool {
    matches!(property, "apiVersion" | "kind" | "metadata")
}

/// Whether a schema declares all members that expressions can access in every whole object.
fn has_metadata(map: &Map) -> bool {
    let of_type = |path: &[&str], wanted: &str| {
        let property = map.get("properties").and_then(|p| p.at(path));
        property.is_some_and(|p| p.str_at(&["type"]) == wanted)
    };
    of_type(&["kind"], "string")
        && of_type(&["apiVersion"], "string")
        && of_type(&["metadata"], "object")
        && of_type(&["metadata", "properties", "name"], "string")
        && of_type(&["metadata", "properties", "generateName"], "string")
}

fn metadata_shape(name: &str) -> Arc<Shape> {
    let fields = ["generateName", "name"].map(|property| {
        let field = Field { json: property.into(), shape: unbounded_text(), required: false };
        (Str::from(property), field)
    });
    let object = ObjectShape { name: format!("{name}.metadata").into(), fields: fields.into() };
    Arc::new(Shape {
        kind: ShapeKind::Object(Arc::new(object)),
        max_elements: 0,
        min_serialized_size: size::OBJECT_MIN,
    })
}

fn unbounded_text() -> Arc<Shape> {
    Arc::new(Shape {
        kind: ShapeKind::String,
        max_elements: REQUEST_BYTES_MAX - 2,
        min_serialized_size: size::TEXT_MIN,
    })
}

fn string_shape(map: &Map) -> Option<Arc<Shape>> {
    let longest = REQUEST_BYTES_MAX - 2;
    match text(map, "format") {
        "byte" => {
            let max = max_of(map, "maxLength").unwrap_or(longest);
            return made(ShapeKind::Bytes, max, size::TEXT_MIN);
        }
        "duration" => return made(ShapeKind::Duration, size::DURATION_MAX, size::DURATION_MIN),
        "date" => return made(ShapeKind::Timestamp, size::DATE, size::DATE),
        "date-time" => return made(ShapeKind::Timestamp, size::DATE_TIME_MAX, size::DATE_TIME_MIN),
        _ => {}
    }
    let allowed = map.get("enum").and_then(Value::as_array).unwrap_or(&[]);
    let max = match max_of(map, "maxLength") {
        // A character takes up to four bytes.
        Some(max) => max.saturating_mul(4),
        None if allowed.is_empty() => longest,
        None => allowed.iter().filter_map(Value::as_str).map(|v| v.len() as u64).max().unwrap_or(0),
    };
    made(ShapeKind::String, max, size::TEXT_MIN)
}

fn max_of(map: &Map, key: &str) -> Option<u64> {
    let given = map.get(key)?.as_int()?;
    Some(u64::try_from(given).unwrap_or(0))
}

pub(super) fn is_embedded(schema: &Value) -> bool {
    schema.as_object().is_some_and(|map| is_true(map, "x-kubernetes-embedded-resource"))
}

pub(super) fn text<'a>(map: &'a Map, key: &str) -> &'a str {
    map.get(key).and_then(Value::as_str).unwrap_or("")
}

fn is_true(map: &Map, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(text: &str) -> Value {
        pintle_value::json::parse(text.as_bytes()).expect("valid JSON").value
    }

    /// A shape as one line: type, most elements, fewest bytes.
    fn describe(shape: &Shape) -> String {
        let sizes = format!("<{}>{}", shape.max_elements, shape.min_serialized_size);
        match &shape.kind {
            ShapeKind::List { element, list } => format!("{list:?}[{}]{sizes}", describe(element)),
            ShapeKind::Map { value } => format!("map({}){sizes}", describe(value)),
            ShapeKind::Object(object) => {
                let fields = object.fields.iter().map(|(name, field)| {
                    format!("{name}{}:{}", if field.required { "!" } else { "" }, describe(&field.shape))
                });
                format!("{}{{{}}}{sizes}", object.name, fields.collect::<Vec<_>>().join(","))
            }
            other => format!("{other:?}{sizes}"),
        }
    }

    #[test]
    fn schemas_are_seen_as_types_with_sizes() {
        let cases = [
            (r#"{"type":"string"}"#, "String<3145726>2"),
            (r#"{"type":"string","maxLength":10}"#, "String<40>2"),
            (r#"{"type":"string","enum":["a","bcd"]}"#, "String<3>2"),
            (r#"{"type":"string","format":"byte","maxLength":10}"#, "Bytes<10>2"),
            (r#"{"type":"string","format":"duration"}"#, "Duration<32>3"),
            (r#"{"type":"string","format":"date"}"#, "Timestamp<12>12"),
            (r#"{"type":"string","format":"date-time"}"#, "Timestamp<32>21"),
            (r#"{"type":"string","format":"ipv4"}"#, "String<3145726>2"),
            (r#"{"type":"boolean"}"#, "Bool<0>4"),
            (r#"{"type":"number"}"#, "Double<0>1"),
            (r#"{"type":"integer","format":"int32"}"#, "Int<0>1"),
            (r#"{"x-kubernetes-int-or-string":true}"#, "Dyn<3145726>1"),
            (r#"{"x-kubernetes-int-or-string":true,"maxLength":2}"#, "Dyn<8>1"),
            (r#"{"x-kubernetes-preserve-unknown-fields":true}"#, "-"),
            (r#"{"type":"array","items":{"type":"integer"}}"#, "Ordered[Int<0>1]<1572863>2"),
            (
                r#"{"type":"array","maxItems":3,"x-kubernetes-list-type":"set","items":{"type":"integer"}}"#,
                "Set[Int<0>1]<3>2",
            ),
            (r#"{"type":"array","items":{"x-kubernetes-preserve-unknown-fields":true}}"#, "-"),
            (r#"{"type":"object","additionalProperties":{"type":"boolean"}}"#, "map(Bool<0>4)<314572>2"),
            (r#"{"type":"object","additionalProperties":true}"#, "selfType{}<0>2"),
            (
                r#"{"type":"object","required":["a-b","d"],"properties":{"a-b":{"type":"integer"},"a b":{"type":"string"},
                    "c":{"x-kubernetes-preserve-unknown-fields":true},"d":{"type":"integer","default":1}}}"#,
                "selfType{a__dash__b!:Int<0>1,d!:Int<0>1}<0>10",
            ),
        ];
        for (schema, expected) in cases {
            let shape = shape(&tree(schema), false);
            assert_eq!(shape.map_or("-".to_string(), |s| describe(&s)), expected, "{schema}");
        }
    }

    #[test]
    fn a_whole_object_shows_its_type_and_names() {
        let schema = r#"{"type":"object","properties":{"metadata":{"type":"object","properties":{"name":{"type":"string","maxLength":1}}}}}"#;
        let text = "String<3145726>2";
        let expected = format!(
            "selfType{{apiVersion:{text},kind:{text},metadata:selfType.metadata{{generateName:{text},name:{text}}}<0>2}}<0>2"
        );
        assert_eq!(shape(&tree(schema), true).map(|s| describe(&s)), Some(expected));
    }

    #[test]
    fn reserved_names_without_escapes_have_no_bounds() {
        let schema = r#"{"type":"object","properties":{"for":{"type":"string","maxLength":1}}}"#;
        let expected = format!("selfType{{__for__:String<4>2,for:String<{}>2}}<0>2", u64::MAX);
        assert_eq!(shape(&tree(schema), false).map(|s| describe(&s)), Some(expected));
    }

    #[test]
    fn a_key_that_needs_escapes_tells_nothing_apart() {
        let schema = r#"{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a-b"],
            "items":{"type":"object","properties":{"a-b":{"type":"string"}}}}"#;
        let shape = shape(&tree(schema), false).expect("a list");
        let ShapeKind::List { list, .. } = &shape.kind else { panic!("a list") };
        assert_eq!(*list, ListKind::KeyedBy(["a__dash__b".into()].into()));
    }
}
