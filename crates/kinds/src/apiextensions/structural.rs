//! Validates that a schema is structural: every value has a type outside of `allOf`, `anyOf`, `oneOf` and `not`.

use super::props::{DEPTH_MAX, Items, Props};
use pintle_cel::regexp;
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Keywords that structural schemas cannot have, with their error texts.
const UNSUPPORTED: [(&str, &str); 7] = [
    ("id", "OpenAPIV3Schema 'id' is not supported"),
    ("$schema", "OpenAPIV3Schema 'schema' is not supported"),
    ("$ref", "OpenAPIV3Schema '$ref' is not supported"),
    ("patternProperties", "OpenAPIV3Schema 'patternProperties' is not supported"),
    ("dependencies", "OpenAPIV3Schema 'dependencies' is not supported"),
    ("additionalItems", "OpenAPIV3Schema 'additionalItems' is not supported"),
    ("definitions", "OpenAPIV3Schema 'definitions' is not supported"),
];

/// The reason why a schema cannot be converted to a structural one.
pub(super) fn not_structural_reason(schema: Props<'_>) -> Option<&'static str> {
    not_structural_reason_at(schema, 0)
}

fn not_structural_reason_at(schema: Props<'_>, depth: usize) -> Option<&'static str> {
    if depth > DEPTH_MAX {
        return Some("OpenAPIV3Schema is nested too deeply");
    }
    let set = |key: &str| match schema.get(key) {
        Some(Value::String(text)) => !text.is_empty(),
        Some(Value::Object(map)) => !map.is_empty() || key == "additionalItems",
        Some(_) => true,
        None => false,
    };
    if let Some((_, why)) = UNSUPPORTED.iter().find(|(key, _)| set(key)) {
        return Some(why);
    }
    let junctors = ["allOf", "anyOf", "oneOf"].into_iter().flat_map(|key| schema.list(key).iter().map(Props));
    let nested = schema
        .below("not")
        .into_iter()
        .chain(junctors)
        .find_map(|below| not_structural_reason_at(below, depth.saturating_add(1)));
    if nested.is_some() {
        return nested;
    }
    if schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(false) {
        return Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined");
    }
    let item = match schema.items() {
        Items::Many(many) if !many.is_empty() => {
            return Some("OpenAPIV3Schema 'items' must be a schema, but is an array");
        }
        Items::One(item) => Some(item),
        Items::None | Items::Many(_) => None,
    };
    let rest = schema.members("properties").map(|(_, v)| v).chain(schema.below("additionalProperties"));
    item.into_iter().chain(rest).find_map(|below| not_structural_reason_at(below, depth.saturating_add(1)))
}

/// All violations of structure, sorted by text.
pub(super) fn validate(schema: Props<'_>, path: &Path<'_>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    validate_invariants(schema, Level::Root, path, &mut errors);
    completeness(schema, schema, path, path, &mut errors);
    errors.0.sort_by_key(ToString::to_string);
    errors
}

fn validate_invariants(schema: Props<'_>, level: Level, path: &Path<'_>, errors: &mut FieldErrors) {
    if schema.kind() == "array" && schema.item().is_none() {
        errors.required(&path.field("items"), "must be specified");
    }
    if let Some(item) = schema.item() {
        validate_invariants(item, Level::Item, &path.field("items"), errors);
    }
    for (name, property) in schema.members("properties") {
        validate_invariants(property, Level::Field, &path.field("properties").key(name), errors);
    }
    if schema.has("additionalProperties") {
        if level == Level::Root {
            errors.forbidden(&path.field("additionalProperties"), "must not be used at the root");
        }
        if let Some(each) = schema.below("additionalProperties") {
            validate_invariants(each, Level::Field, &path.field("additionalProperties"), errors);
        }
    }
    validate_extensions(schema, path, errors);
    let skip_any_of = is_int_or_string(schema.list("anyOf"));
    let skip_first_all_of =
        schema.list("allOf").first().is_some_and(|first| is_int_or_string(first.items_at(&["anyOf"])));
    validate_value_validation(schema, skip_any_of, skip_first_all_of, path, errors);
    validate_type_rules(schema, level, path, errors);
    validate_metadata_rules(schema, level, path, errors);
    let embedded = schema.flag("x-kubernetes-embedded-resource");
    if embedded && !schema.flag("x-kubernetes-preserve-unknown-fields") && !schema.has_properties() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.required(&path.field("properties"), why);
    }
}

fn validate_extensions(schema: Props<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    for key in ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-embedded-resource"] {
        if schema.flag("x-kubernetes-int-or-string") && schema.flag(key) {
            errors.invalid(&path.field(key), true, "must be false if x-kubernetes-int-or-string is true");
        }
    }
}

fn validate_type_rules(schema: Props<'_>, level: Level, path: &Path<'_>, errors: &mut FieldErrors) {
    let kind = schema.kind();
    let at = path.field("type");
    let embedded = schema.flag("x-kubernetes-embedded-resource");
    let open =
        schema.flag("x-kubernetes-int-or-string") || schema.flag("x-kubernetes-preserve-unknown-fields");
    if embedded && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        if kind.is_empty() { errors.required(&at, why) } else { errors.invalid(&at, kind, why) }
    } else if kind.is_empty() && !open {
        let why = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.required(&at, why);
    }
    if embedded && schema.has("additionalProperties") {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.forbidden(&path.field("additionalProperties"), why);
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.invalid(&at, kind, "must be object at the root");
    }
}

/// In metadata only name and generateName may be restricted; kind and apiVersion must be strings.
fn validate_metadata_rules(schema: Props<'_>, level: Level, path: &Path<'_>, errors: &mut FieldErrors) {
    let checked = level == Level::Root || schema.flag("x-kubernetes-embedded-resource");
    let properties = path.field("properties");
    for name in ["kind", "apiVersion"] {
        if let Some(property) = schema.property(name).filter(|p| checked && p.kind() != "string") {
            errors.invalid(&properties.key(name).field("type"), property.kind(), "must be string");
        }
    }
    let Some(metadata) = schema.property("metadata") else { return };
    let at = properties.key("metadata");
    if checked && metadata.kind() != "object" {
        errors.invalid(&at.field("type"), metadata.kind(), "must be object");
    }
    if level == Level::Root && specifies_more_than_names(metadata) {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.forbidden(&at, why);
    }
}

fn specifies_more_than_names(metadata: Props<'_>) -> bool {
    let Some(map) = metadata.0.as_object() else { return false };
    let named = |name: &str| matches!(name, "name" | "generateName");
    map.keys().any(|key| !matches!(key.as_str(), "type" | "default" | "properties"))
        || metadata.members("properties").any(|(name, _)| !named(name))
}

fn is_int_or_string(any_of: &[Value]) -> bool {
    let is =
        |v: &Value, kind: &str| v.as_object().is_some_and(|m| m.len() == 1) && v.str_at(&["type"]) == kind;
    matches!(any_of, [a, b] if is(a, "integer") && is(b, "string"))
}

fn validate_value_validation(
    v: Props<'_>,
    skip_any_of: bool,
    skip_first_all_of: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    if !skip_any_of {
        for (at, branch) in v.list("anyOf").iter().enumerate() {
            validate_nested_values(Props(branch), false, &path.field("anyOf").index(at), errors);
        }
    }
    for (at, branch) in v.list("allOf").iter().enumerate() {
        validate_nested_values(
            Props(branch),
            skip_first_all_of && at == 0,
            &path.field("allOf").index(at),
            errors,
        );
    }
    for (at, branch) in v.list("oneOf").iter().enumerate() {
        validate_nested_values(Props(branch), false, &path.field("oneOf").index(at), errors);
    }
    if let Some(not) = v.below("not") {
        validate_nested_values(not, false, &path.field("not"), errors);
    }
    let pattern = v.text("pattern");
    if let Some(why) = regexp::error(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {why}");
        errors.invalid(&path.field("pattern"), pattern, &detail);
    }
}

/// Keywords that are forbidden within a junctor (`allOf`, `anyOf`, `oneOf`, `not`), with the reason.
const FORBIDDEN: [(&str, &str); 11] = [
    ("default", "must be undefined to be structural"),
    ("title", "must be empty to be structural"),
    ("description", "must be empty to be structural"),
    ("nullable", "must be false to be structural"),
    ("x-kubernetes-preserve-unknown-fields", "must be false to be structural"),
    ("x-kubernetes-embedded-resource", "must be false to be structural"),
    ("x-kubernetes-int-or-string", "must be false to be structural"),
    ("x-kubernetes-list-map-keys", "must be empty to be structural"),
    ("x-kubernetes-list-type", "must be undefined to be structural"),
    ("x-kubernetes-map-type", "must be undefined to be structural"),
    ("x-kubernetes-validations", "must be empty to be structural"),
];

fn validate_nested_values(v: Props<'_>, skip_any_of: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    validate_value_validation(v, skip_any_of, false, path, errors);
    if let Some(item) = v.item() {
        validate_nested_values(item, false, &path.field("items"), errors);
    }
    for (name, property) in v.members("properties") {
        validate_nested_values(property, false, &path.field("properties").key(name), errors);
    }
    if !v.kind().is_empty() {
        errors.forbidden(&path.field("type"), "must be empty to be structural");
    }
    if v.below("additionalProperties").is_some() || v.flag("additionalProperties") {
        errors.forbidden(&path.field("additionalProperties"), "must be undefined to be structural");
    }
    let set = |key: &str| match v.get(key) {
        Some(Value::Bool(flag)) if key != "default" => *flag,
        Some(Value::Array(items)) if key != "default" => !items.is_empty(),
        other => other.is_some(),
    };
    for (key, why) in FORBIDDEN.iter().filter(|(key, _)| set(key)) {
        errors.forbidden(&path.field(key), why);
    }
    if v.property("metadata").is_some() {
        errors.forbidden(
            &path.field("properties").key("metadata"),
            "must not be specified in a nested context",
        );
    }
}

/// Checks that everything specified within junctors is also specified outside of them.
fn completeness(v: Props<'_>, schema: Props<'_>, at: &Path<'_>, from: &Path<'_>, errors: &mut FieldErrors) {
    if let Some(not) = v.below("not") {
        validate_nested_completeness(not, Some(schema), at, &from.field("not"), errors);
    }
    for key in ["allOf", "anyOf", "oneOf"] {
        for (index, branch) in v.list(key).iter().enumerate() {
            validate_nested_completeness(
                Props(branch),
                Some(schema),
                at,
                &from.field(key).index(index),
                errors,
            );
        }
    }
}

fn validate_nested_completeness(
    v: Props<'_>,
    schema: Option<Props<'_>>,
    at: &Path<'_>,
    from: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let Some(schema) = schema else {
        return errors.required(at, &format!("because it is defined in {}", from.to_str()));
    };
    completeness(v, schema, at, from, errors);
    if let Some(item) = v.item() {
        validate_nested_completeness(item, schema.item(), &at.field("items"), &from.field("items"), errors);
    }
    for (name, property) in v.members("properties") {
        let (at, from) = (at.field("properties"), from.field("properties"));
        validate_nested_completeness(property, schema.property(name), &at.key(name), &from.key(name), errors);
    }
}
