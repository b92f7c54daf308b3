//! Validation of a value against the checks of its schema, in kube-apiserver's words.

use crate::{Arena, Checks, NodeId, Shape};
use pintle_meta::FieldErrors;
use pintle_meta::field::{ErrorKind, quoted};
use pintle_value::{Path, Value, json};

/// All that the schema has against `value`.
pub fn validate(arena: &Arena, id: NodeId, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let node = arena.node(id);
    if value.is_null() && (node.nullable || path.is_root()) {
        return;
    }
    if !check_type(&node.shape, value, path, errors) {
        return;
    }
    if let Some(checks) = &node.checks {
        check(checks, arena, value, path, errors);
    }
    match (&node.shape, value) {
        (Shape::Struct(known), Value::Object(map)) => {
            for (key, member) in map.iter() {
                if let Some(field) = known.field(key).filter(|_| !(path.is_root() && key == "metadata")) {
                    validate(arena, field.node, member, &path.field(key), errors);
                }
            }
        }
        (Shape::Map { value: each, .. }, Value::Object(map)) => {
            for (key, member) in map.iter() {
                validate(arena, *each, member, &path.field(key), errors);
            }
        }
        (Shape::List { item, .. }, Value::Array(items)) => {
            for (at, member) in items.iter().enumerate() {
                validate(arena, *item, member, &path.index(at), errors);
            }
        }
        _ => {}
    }
}

/// Whether the value has the type of its schema; the error names both.
fn check_type(shape: &Shape, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) -> bool {
    let wanted = match shape {
        Shape::Struct(_) | Shape::Map { .. } => "object",
        Shape::List { .. } => "array",
        Shape::String => "string",
        Shape::Int { .. } => "integer",
        Shape::Float => "number",
        Shape::Bool => "boolean",
        Shape::IntOrString => "integer,string",
        _ => return true,
    };
    let actual = json_schema_type(value);
    let fits = match wanted {
        "number" => matches!(actual, "number" | "integer"),
        "integer,string" => matches!(actual, "integer" | "string"),
        wanted => wanted == actual,
    };
    if !fits {
        let shown = quoted(actual);
        let detail = format!("{path} in body must be of type {wanted}: {shown}");
        errors.push(ErrorKind::TypeInvalid, path, Some(&shown), &detail);
    }
    fits
}

fn json_schema_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Int(_) => "integer",
        Value::Float(f) if f.fract() == 0.0 => "integer",
        Value::Float(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn check(checks: &Checks, arena: &Arena, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    if !checks.enumeration.is_empty() && !checks.enumeration.contains(value) {
        let supported: Vec<String> = checks.enumeration.iter().map(plain).collect();
        let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
        errors.not_supported(path, value, &supported);
    }
    match value {
        Value::Int(_) | Value::Float(_) => check_number(checks, value, path, errors),
        Value::String(text) => check_text(checks, text, value, path, errors),
        Value::Array(items) => check_items(checks, items, value, path, errors),
        Value::Object(map) => {
            for name in checks.required.iter().filter(|name| !map.contains_key(name)) {
                errors.required(&path.field(name), "");
            }
            if let Some(max) = checks.max_properties.filter(|max| map.len() > *max) {
                errors.too_many(path, map.len(), max);
            }
            if let Some(min) = checks.min_properties.filter(|min| map.len() < *min) {
                errors.invalid(path, value, &format!("{path} in body should have at least {min} properties"));
            }
        }
        _ => {}
    }
    check_branches(checks, arena, value, path, errors);
}

fn check_number(checks: &Checks, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    #[expect(clippy::cast_precision_loss, reason = "bounds are float64 in Go too")]
    let number = match value {
        Value::Int(i) => *i as f64,
        Value::Float(f) => *f,
        _ => return,
    };
    if let Some(max) = checks.maximum {
        let (over, word) = match checks.exclusive_maximum {
            true => (number >= max, "less than"),
            false => (number > max, "less than or equal to"),
        };
        if over {
            errors.invalid(path, value, &format!("{path} in body should be {word} {max}"));
        }
    }
    if let Some(min) = checks.minimum {
        let (under, word) = match checks.exclusive_minimum {
            true => (number <= min, "greater than"),
            false => (number < min, "greater than or equal to"),
        };
        if under {
            errors.invalid(path, value, &format!("{path} in body should be {word} {min}"));
        }
    }
    if let Some(factor) =
        checks.multiple_of.filter(|factor| *factor != 0.0 && (number / factor).fract() != 0.0)
    {
        errors.invalid(path, value, &format!("{path} in body should be a multiple of {factor}"));
    }
}

fn check_text(checks: &Checks, text: &str, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let length = text.chars().count();
    if let Some(max) = checks.max_length.filter(|max| length > *max) {
        errors.too_long(path, max);
    }
    if let Some(min) = checks.min_length.filter(|min| length < *min) {
        errors.invalid(path, value, &format!("{path} in body should be at least {min} chars long"));
    }
}

fn check_items(checks: &Checks, items: &[Value], value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    if let Some(max) = checks.max_items.filter(|max| items.len() > *max) {
        errors.too_many(path, items.len(), max);
    }
    if let Some(min) = checks.min_items.filter(|min| items.len() < *min) {
        errors.invalid(path, value, &format!("{path} in body should have at least {min} items"));
    }
}

fn check_branches(checks: &Checks, arena: &Arena, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let fits = |id: &NodeId| {
        let mut found = FieldErrors::new();
        validate(arena, *id, value, path, &mut found);
        found.is_empty()
    };
    for id in &checks.all_of {
        validate(arena, *id, value, path, errors);
    }
    if !checks.any_of.is_empty() && !checks.any_of.iter().any(fits) {
        errors.invalid(
            path,
            value,
            &format!("{} must validate at least one schema (anyOf)", quoted(&path.to_str())),
        );
    }
    if !checks.one_of.is_empty() {
        let count = checks.one_of.iter().filter(|id| fits(id)).count();
        let found = match count {
            1 => return,
            0 => "Found none valid".to_string(),
            n => format!("Found {n} valid alternatives"),
        };
        let detail =
            format!("{} must validate one and only one schema (oneOf). {found}", quoted(&path.to_str()));
        errors.invalid(path, value, &detail);
    }
    if checks.not.as_ref().is_some_and(fits) {
        errors.invalid(
            path,
            value,
            &format!("{} must not validate the schema (not)", quoted(&path.to_str())),
        );
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => {
            let mut out = Vec::new();
            json::print(other, &mut out);
            String::from_utf8_lossy(&out).into_owned()
        }
    }
}
