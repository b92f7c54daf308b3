//! Validates the keywords of a definition's schema: supported keywords, types, list and map types, rules.

use super::props::{DEPTH_MAX, Items, Props};
use super::rules::Context;
use super::spec::Options;
use crate::check;
use crate::error_text::Internal;
use pintle_meta::FieldErrors;
use pintle_meta::field::{Named, Plain};
use pintle_schema::rules::field_path;
use pintle_value::{Path, Str, Value};
use std::collections::HashSet;

const ITEMS: &str = "apiextensions/v1.JSONSchemaPropsOrArray";
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const REASONS: [&str; 4] =
    ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
const LIST_TYPE: &str = "x-kubernetes-list-type";
const MAP_TYPE: &str = "x-kubernetes-map-type";
const MAP_KEYS: &str = "x-kubernetes-list-map-keys";

/// The restrictions on a schema because of its position.
#[derive(Clone, Default)]
pub(super) struct Place<'a> {
    /// The reason why defaults are not allowed here, if they are not.
    no_defaults: Option<String>,
    /// Within the metadata of an object.
    in_metadata: bool,
    depth: usize,
    /// The context of CEL rules; `None` if they are not validated.
    rules: Option<&'a Context<'a>>,
}

impl<'a> Place<'a> {
    /// The root of a schema.
    pub(super) fn root(rules: Option<&'a Context<'a>>) -> Self {
        Place { rules, ..Place::default() }
    }

    /// The place of a subschema, without rules.
    fn below(&self) -> Place<'static> {
        Place {
            depth: self.depth.saturating_add(1),
            no_defaults: self.no_defaults.clone(),
            in_metadata: self.in_metadata,
            rules: None,
        }
    }
}

/// Validates a schema and its subschemas.
pub(super) fn validate(
    schema: Props<'_>,
    place: &Place<'_>,
    options: &Options,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    if place.depth > DEPTH_MAX {
        return;
    }
    let before = errors.0.len();
    validate_keywords(schema, place, options, path, errors);
    if schema.flag("uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(&path.field("uniqueItems"), why);
    }
    validate_additional_properties(schema, place, options, path, errors);
    validate_properties(schema, place, options, path, errors);
    validate_subschemas(schema, place, options, path, errors);
    if schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(false) {
        errors.invalid(
            &path.field("x-kubernetes-preserve-unknown-fields"),
            false,
            "must be true or undefined",
        );
    }
    validate_map_type(schema, path, errors);
    validate_list_type(schema, options, path, errors);
    if schema.text(LIST_TYPE) == "map" {
        validate_list_map(schema, path, errors);
    }
    if options.require_list_map_keys {
        validate_list_map_items(schema, path, errors);
    }
    for (at, rule) in schema.list("x-kubernetes-validations").iter().enumerate() {
        validate_validation_rule(schema, rule, &path.field("x-kubernetes-validations").index(at), errors);
    }
    // Rules are only checked if the schema and its subschemas are valid.
    if let Some(rules) = place.rules.filter(|_| errors.0.len() == before) {
        rules.check(path);
    }
}

/// Validates the subschemas of `not`, `allOf` and its like, `definitions`, `items` and `dependencies`, in kube-apiserver's
/// order.
fn validate_subschemas(
    schema: Props<'_>,
    place: &Place<'_>,
    options: &Options,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let below = place.below();
    if let Some(not) = schema.below("not") {
        validate(not, &below, options, &path.field("not"), errors);
    }
    for key in ["allOf", "oneOf", "anyOf"] {
        for (at, branch) in schema.list(key).iter().enumerate() {
            validate(Props(branch), &below, options, &path.field(key).index(at), errors);
        }
    }
    for (name, definition) in schema.members("definitions") {
        validate(definition, &below, options, &path.field("definitions").key(name), errors);
    }
    match schema.items() {
        Items::None => {}
        Items::One(item) => {
            let rules = place.rules.map(|rules| rules.element(item, true, path));
            let below = Place { rules: rules.as_ref(), ..place.below() };
            validate(item, &below, options, &path.field("items"), errors);
        }
        Items::Many(items) => {
            for (at, item) in items.iter().enumerate() {
                validate(Props(item), &below, options, &path.field("items").index(at), errors);
            }
        }
    }
    for (name, dependency) in schema.members("dependencies").filter(|(_, d)| d.0.as_object().is_some()) {
        validate(dependency, &below, options, &path.field("dependencies").key(name), errors);
    }
}

/// Validates which keywords are supported here.
fn validate_keywords(
    schema: Props<'_>,
    place: &Place<'_>,
    options: &Options,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let kind = schema.kind();
    if options.require_valid_types && !kind.is_empty() && !TYPES.contains(&kind) {
        errors.not_supported(&path.field("type"), kind, &TYPES);
    }
    if let Some(reason) = place.no_defaults.as_ref().filter(|_| schema.has("default")) {
        errors.forbidden(&path.field("default"), &format!("must not be set {reason}"));
    }
    let forbidden = [
        ("id", !schema.text("id").is_empty()),
        ("additionalItems", schema.has("additionalItems")),
        ("patternProperties", schema.members("patternProperties").next().is_some()),
        ("definitions", schema.members("definitions").next().is_some()),
        ("dependencies", schema.has("dependencies")),
        ("$ref", schema.has("$ref")),
    ];
    for (key, _) in forbidden.into_iter().filter(|(_, set)| *set) {
        errors.forbidden(&path.field(key), &format!("{key} is not supported"));
    }
    if kind == "null" {
        errors.forbidden(&path.field("type"), "type cannot be set to null, use nullable as an alternative");
    }
    if matches!(schema.items(), Items::Many(items) if !items.is_empty()) {
        errors.forbidden(&path.field("items"), "items must be a schema object and not an array");
    }
    if place.in_metadata && schema.flag("x-kubernetes-embedded-resource") {
        errors.forbidden(
            &path.field("x-kubernetes-embedded-resource"),
            "must not be used inside of resource meta",
        );
    }
}

fn validate_additional_properties(
    schema: Props<'_>,
    place: &Place<'_>,
    options: &Options,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let Some(given) = schema.get("additionalProperties") else { return };
    if schema.has_properties() && given.as_bool() != Some(true) {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.forbidden(&path.field("additionalProperties"), why);
    }
    let Some(each) = schema.below("additionalProperties") else { return };
    let rules = place.rules.map(|rules| rules.element(each, false, path));
    let mut below = Place { rules: rules.as_ref(), ..place.below() };
    if place.in_metadata {
        below.no_defaults = Some("inside additionalProperties applying to object metadata".to_string());
    }
    validate(each, &below, options, &path.field("additionalProperties"), errors);
}

fn validate_properties(
    schema: Props<'_>,
    place: &Place<'_>,
    options: &Options,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let is_root = place.depth == 0;
    for (name, property) in schema.members("properties") {
        let rules = place.rules.map(|rules| rules.property(property, name));
        let mut below = Place { rules: rules.as_ref(), ..place.below() };
        let is_meta = matches!(name.as_str(), "metadata" | "kind" | "apiVersion");
        if is_meta && (is_root || schema.flag("x-kubernetes-embedded-resource")) {
            below.in_metadata = true;
            if is_root {
                below.no_defaults = Some(format!("in top-level {name}"));
            }
        }
        validate(property, &below, options, &path.field("properties").key(name), errors);
    }
}

fn validate_map_type(schema: Props<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(given) = schema.get(MAP_TYPE).and_then(Value::as_str) else { return };
    needs_type(schema, "object", "must be object if x-kubernetes-map-type is specified", path, errors);
    if !matches!(given, "atomic" | "granular") {
        errors.not_supported(&path.field(MAP_TYPE), given, &["atomic", "granular"]);
    }
}

fn needs_type(schema: Props<'_>, wanted: &str, why: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let kind = schema.kind();
    if kind.is_empty() {
        errors.required(&path.field("type"), why);
    } else if kind != wanted {
        errors.invalid(&path.field("type"), kind, why);
    }
}

fn validate_list_type(schema: Props<'_>, options: &Options, path: &Path<'_>, errors: &mut FieldErrors) {
    let given = schema.get(LIST_TYPE).and_then(Value::as_str);
    match given {
        Some(_) if schema.kind() != "array" => {
            needs_type(schema, "array", "must be array if x-kubernetes-list-type is specified", path, errors);
        }
        Some("set") if options.require_atomic_sets => validate_atomic_set(schema, path, errors),
        _ => {}
    }
    if let Some(given) = given.filter(|given| !matches!(*given, "atomic" | "set" | "map")) {
        errors.not_supported(&path.field(LIST_TYPE), given, &["atomic", "set", "map"]);
    }
    if schema.list(MAP_KEYS).is_empty() {
        return;
    }
    let why = "must be map if x-kubernetes-list-map-keys is non-empty";
    match given {
        None => errors.required(&path.field(LIST_TYPE), why),
        Some("map") => {}
        Some(other) => errors.invalid(&path.field(LIST_TYPE), other, why),
    }
}

/// Returns the keyword that is missing to make a set's items atomic.
pub(super) fn non_atomic_set(schema: Props<'_>) -> Option<&'static str> {
    let item = schema.item().filter(|_| schema.text(LIST_TYPE) == "set")?;
    match item.kind() {
        "array" => {
            item.get(LIST_TYPE).and_then(Value::as_str).is_some_and(|t| t != "atomic").then_some(LIST_TYPE)
        }
        "object" => (item.text(MAP_TYPE) != "atomic").then_some(MAP_TYPE),
        _ => None,
    }
}

fn validate_atomic_set(schema: Props<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let (Some(key), Some(item)) = (non_atomic_set(schema), schema.item()) else { return };
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    // Both errors print the list type of the items.
    let at = path.field("items");
    match item.get(LIST_TYPE).and_then(Value::as_str) {
        Some(error_text) => errors.invalid(&at.field(key), error_text, why),
        None => errors.invalid(&at.field(key), Plain("null"), why),
    }
}

fn validate_list_map(schema: Props<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let keys = schema.list(MAP_KEYS);
    if keys.is_empty() {
        errors.required(&path.field(MAP_KEYS), "must not be empty if x-kubernetes-list-type is map");
    }
    let items = path.field("items");
    let item = match schema.items() {
        Items::None => return errors.required(&items, "must have a schema if x-kubernetes-list-type is map"),
        Items::Many(_) => {
            let why = "must only have a single schema if x-kubernetes-list-type is map";
            return errors.invalid(&items, Internal(schema.get("items"), ITEMS), why);
        }
        Items::One(item) => item,
    };
    if item.kind() != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        return errors.invalid(&items.field("type"), item.kind(), why);
    }
    let names: Vec<Str> = keys.iter().filter_map(Value::as_str).map(Str::from).collect();
    let mut seen = check::Unique::default();
    for key in &names {
        match item.property(key) {
            Some(property) if matches!(property.kind(), "array" | "object") => {
                let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.invalid(&items.field("properties").key(key).field("type"), item.kind(), why);
            }
            Some(_) => {}
            None => errors.invalid(
                &path.field(MAP_KEYS),
                &names[..],
                "entries must all be names of item properties",
            ),
        }
        if seen.is_repeated(key) {
            errors.invalid(&path.field(MAP_KEYS), &names[..], "must not contain duplicate entries");
        }
    }
}

/// Items of sets and maps must not be nullable, and keys of list maps must be required or defaulted.
pub(super) fn validate_list_map_items(schema: Props<'_>, path: &Path<'_>, errors: &mut FieldErrors) {
    let list_type = schema.text(LIST_TYPE);
    let Some(item) = schema.item().filter(|_| matches!(list_type, "set" | "map")) else { return };
    let items = path.field("items");
    if item.flag("nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.forbidden(&items.field("nullable"), &why);
    }
    if list_type != "map" {
        return;
    }
    let required: HashSet<&str> = item.list("required").iter().filter_map(Value::as_str).collect();
    for key in schema.list(MAP_KEYS) {
        let Some((name, property)) = key.as_str().and_then(|name| Some((name, item.property(name)?))) else {
            continue;
        };
        let at = items.field("properties");
        if !required.contains(name) && !property.has("default") {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required(&at.key(name).field("default"), why);
        }
        if property.flag("nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(&at.key(name).field("nullable"), why);
        }
    }
}

/// Validates the fields of a rule other than its expressions.
fn validate_validation_rule(schema: Props<'_>, rule: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let text = |key: &str| rule.str_at(&[key]);
    let has_newline = |text: &str| text.contains(['\n', '\r']);
    let (condition, message) = (text("rule").trim(), text("message").trim());
    if condition.is_empty() {
        errors.required(&path.field("rule"), "rule is not specified");
    } else if !text("message").is_empty() && message.is_empty() {
        errors.invalid(&path.field("message"), text("message"), "must be non-empty if specified");
    } else if has_newline(message) {
        errors.invalid(&path.field("message"), text("message"), "must not contain line breaks");
    } else if has_newline(condition) && message.is_empty() {
        errors.required(&path.field("message"), "message must be specified if rule contains line breaks");
    }
    if !text("messageExpression").is_empty() && text("messageExpression").trim().is_empty() {
        errors.required(&path.field("messageExpression"), "messageExpression must be non-empty if specified");
    }
    if let Some(reason) =
        rule.get("reason").and_then(Value::as_str).filter(|reason| !REASONS.contains(reason))
    {
        errors.not_supported(&path.field("reason"), Named(reason), &REASONS);
    }
    let given = text("fieldPath");
    if !given.is_empty() && given.trim().is_empty() {
        errors.invalid(&path.field("fieldPath"), given, "must be non-empty if specified");
    }
    if has_newline(given) {
        errors.invalid(&path.field("fieldPath"), given, "must not contain line breaks");
    }
    let valid = || {
        super::structural::not_structural_reason(schema).is_some()
            || field_path::resolve(given, schema.0, true).is_ok()
    };
    if !given.is_empty() && !valid() {
        errors.invalid(&path.field("fieldPath"), given, "must be a valid path");
    }
}
