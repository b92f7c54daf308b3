//! Validates a value against its schema, with kube-apiserver's messages and order: the type, `allOf` and its like, the
//! string or number, the items, the enum, the fields.

use super::{formats, lists, numbers};
use crate::correlate::{Pair, has_keys};
use crate::{Arena, Checks, ListKind, Node, NodeId, Shape};
use pintle_cel::regexp;
use pintle_meta::FieldErrors;
use pintle_meta::field::{ErrorKind, ErrorText, FieldError, Plain, quoted};
use pintle_value::{Path, Str, Value, json};
use std::cell::{Cell, OnceCell};
use std::collections::{HashMap, HashSet};

/// The types of an int-or-string, whatever type its schema declares. Defaults are validated with the declared type.
const INT_OR_STRING: &str = "integer,string";
/// The field of errors that have their field only in the message.
const NO_FIELD: &str = "<nil>";

/// Validates `value` against the schema.
pub fn validate(arena: &Arena, id: NodeId, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    validate_change(arena, id, value, None, path, errors);
}

/// Validates the parts of `value` that differ from `old`; unchanged parts are accepted.
pub fn validate_change(
    arena: &Arena,
    id: NodeId,
    value: &Value,
    old: Option<&Value>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let walk = Walk::new(arena, false);
    let past = old.map(|old| Pair { node: id, value, old });
    errors.extend(walk.object(id, value, past, path));
}

/// Validates a default of the schema. For defaults kube-apiserver uses the schema unmodified: formats of other types
/// remain, and an int-or-string has no type.
pub fn validate_default(arena: &Arena, id: NodeId, value: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let walk = Walk::new(arena, true);
    errors.extend(walk.object(id, value, None, path));
}

/// The errors without duplicates.
fn deduplicated(outcome: Outcome) -> impl Iterator<Item = FieldError> {
    let mut seen = HashSet::new();
    let named = outcome.errors.0.into_iter().map(|error| {
        if error.field.is_empty() { FieldError { field: Str::from(NO_FIELD), ..error } } else { error }
    });
    named.filter(move |error| seen.insert((error.field.clone(), error.body.clone())))
}

/// Prepends the field `base` to the paths of the errors.
pub fn within(errors: FieldErrors, base: &str) -> FieldErrors {
    let moved = errors.0.into_iter().map(|error| {
        let field = match error.field.trim_start_matches('.') {
            "" | NO_FIELD => Str::from(base),
            field => Str::from(format!("{base}.{field}")),
        };
        FieldError { field, ..error }
    });
    moved.collect()
}

/// The result of a check: errors, possibly duplicated, and the number of checks that passed.
#[derive(Default)]
pub(super) struct Outcome {
    pub(super) errors: FieldErrors,
    pub(super) matches: usize,
}

impl Outcome {
    pub(super) fn merge(&mut self, other: Outcome) {
        self.matches = self.matches.saturating_add(other.matches);
        self.errors.append(other.errors);
    }

    fn add_outcome(&mut self, other: Outcome) {
        self.merge(other);
        self.matches = self.matches.saturating_add(1);
    }

    /// Adds an error that has its field only in the message.
    pub(super) fn without_field(&mut self, why: &str) {
        let mut found = FieldErrors::new();
        found.invalid(&Path::of(NO_FIELD), "", why);
        self.merge(Outcome { errors: found, matches: 0 });
    }
}

/// The number of checks that one object may take. A schema can check each value with thousands of others (`anyOf`), and an
/// object can have hundreds of thousands of values.
const STEPS_MAX: usize = 4_000_000;
/// The allowed values of an enum, or required fields, that are compared in about the time of a check.
const VALUES_PER_STEP: usize = 8;

struct Walk<'a> {
    arena: &'a Arena,
    of_defaults: bool,
    steps_max: usize,
    /// The number of checks that were made.
    steps: Cell<usize>,
}

impl<'a> Walk<'a> {
    fn new(arena: &'a Arena, of_defaults: bool) -> Self {
        Walk { arena, of_defaults, steps_max: STEPS_MAX, steps: Cell::new(0) }
    }
}

impl Walk<'_> {
    /// Validates a value; an unchanged one has no errors.
    fn node(&self, id: NodeId, value: &Value, past: Option<Pair<'_>>, path: &Path<'_>) -> Outcome {
        let mut outcome = self.check(id, value, past, path);
        if !outcome.errors.is_empty() && past.is_some_and(|past| past.is_unchanged(self.arena)) {
            outcome.errors.clear();
        }
        outcome
    }

    /// Validates the whole object. If that takes too many checks, this is its only error: others are incomplete, and `not` can
    /// hide them.
    fn object(
        &self,
        id: NodeId,
        value: &Value,
        past: Option<Pair<'_>>,
        path: &Path<'_>,
    ) -> impl Iterator<Item = FieldError> {
        let mut outcome = self.node(id, value, past, path);
        if self.is_exhausted() {
            outcome = Outcome::default();
            let max = self.steps_max;
            outcome.without_field(&format!("the schema requires more than {max} checks of this object"));
        }
        deduplicated(outcome)
    }

    /// Counts the checks of a value. Returns false if there were too many.
    fn count_steps(&self, checks: &Checks, value: &Value) -> bool {
        let is_looked_up = matches!(value, Value::String(_)) && !checks.enumeration_texts.is_empty();
        let allowed = if is_looked_up { 0 } else { checks.enumeration.len() };
        let compared = allowed.saturating_add(checks.required.len()).checked_div(VALUES_PER_STEP);
        let steps = compared.unwrap_or(0).saturating_add(1);
        self.steps.set(self.steps.get().saturating_add(steps));
        !self.is_exhausted()
    }

    fn is_exhausted(&self) -> bool {
        self.steps.get() > self.steps_max
    }

    /// Whether the remaining values need not be checked: no further error would be listed.
    fn ends_after(&self, out: &Outcome) -> bool {
        !out.errors.is_empty() && (out.errors.is_full() || self.is_exhausted())
    }

    fn check(&self, id: NodeId, value: &Value, past: Option<Pair<'_>>, path: &Path<'_>) -> Outcome {
        let node = self.arena.node(id);
        let none = Checks::default();
        let checks = node.checks.as_deref().unwrap_or(&none);
        if !self.count_steps(checks, value) {
            let mut out = Outcome::default();
            out.without_field("");
            return out;
        }
        let (type_name, format): (&str, &str) = match (self.of_defaults, &node.shape) {
            (true, _) => (&node.type_name, &checks.format),
            (false, Shape::IntOrString) => (INT_OR_STRING, formats::known(INT_OR_STRING, &checks.format)),
            (false, _) => (&node.type_name, formats::known(&node.type_name, &checks.format)),
        };
        let mut out = Outcome::default();
        if value.is_null() {
            out.merge(check_type(type_name, node.nullable, format, value, path));
            out.merge(check_enum(checks, value, path));
            return out;
        }
        if !type_name.is_empty() || !format.is_empty() {
            out.add_outcome(check_type(type_name, node.nullable, format, value, path));
        }
        out.add_outcome(self.validate_junctors(checks, value, past, path));
        match value {
            Value::String(text) => {
                out.add_outcome(check_text(checks, text, path));
                if !format.is_empty() && formats::is_for_texts(format) {
                    out.add_outcome(check_format(format, text, path));
                }
            }
            Value::Int(_) | Value::Float(_) => {
                out.add_outcome(numbers::check(type_name, format, checks, value, path))
            }
            Value::Array(items) => out.add_outcome(self.validate_items(node, checks, items, past, path)),
            Value::Null | Value::Bool(_) | Value::Object(_) | Value::Raw(_) => {}
        }
        out.add_outcome(check_enum(checks, value, path));
        if let Value::Object(_) = value {
            out.add_outcome(self.validate_fields(node, checks, value, past, path));
        }
        out.matches = out.matches.saturating_add(1);
        out
    }

    fn validate_junctors(
        &self,
        checks: &Checks,
        value: &Value,
        past: Option<Pair<'_>>,
        path: &Path<'_>,
    ) -> Outcome {
        let mut out = Outcome::default();
        let name = || quoted(&path.to_str());
        if !checks.any_of.is_empty() {
            let (fitting, failed) = self.branches(&checks.any_of, true, value, past, path);
            if fitting == 0 {
                out.without_field(&format!("{} must validate at least one schema (anyOf)", name()));
            }
            out.merge(failed);
        }
        if !checks.one_of.is_empty() {
            let (fitting, failed) = self.branches(&checks.one_of, false, value, past, path);
            let found = match fitting {
                0 => "Found none valid".to_string(),
                n => format!("Found {n} valid alternatives"),
            };
            if fitting != 1 {
                out.without_field(&format!(
                    "{} must validate one and only one schema (oneOf). {found}",
                    name()
                ));
            }
            out.merge(failed);
        }
        let mut fitting = 0_usize;
        for id in &checks.all_of {
            let outcome = self.check(*id, value, past, path);
            fitting = fitting.saturating_add(usize::from(outcome.errors.is_empty()));
            out.merge(outcome);
        }
        if fitting != checks.all_of.len() {
            let none = if fitting == 0 { ". None validated" } else { "" };
            out.without_field(&format!("{} must validate all the schemas (allOf){none}", name()));
        }
        if checks.not.is_some_and(|id| self.check(id, value, past, path).errors.is_empty()) {
            out.without_field(&format!("{} must not validate the schema (not)", name()));
        }
        out.matches = out.matches.saturating_add(1);
        out
    }

    /// Validates the branches; returns how many match, and the errors of the closest one if none does.
    fn branches(
        &self,
        ids: &[NodeId],
        first_only: bool,
        value: &Value,
        past: Option<Pair<'_>>,
        path: &Path<'_>,
    ) -> (usize, Outcome) {
        let mut fitting = 0_usize;
        let mut best: Option<Outcome> = None;
        let mut first = None;
        for id in ids {
            let outcome = self.check(*id, value, past, path);
            if outcome.errors.is_empty() {
                fitting = fitting.saturating_add(1);
                first.get_or_insert(outcome);
                if first_only {
                    break;
                }
            } else if self.is_exhausted() {
                best = Some(outcome);
                break;
            } else if fitting == 0 && best.as_ref().is_none_or(|best| outcome.matches > best.matches) {
                best = Some(outcome);
            }
        }
        let reported = if fitting == 0 { best } else { first };
        (fitting, reported.unwrap_or_default())
    }

    fn validate_items(
        &self,
        node: &Node,
        checks: &Checks,
        items: &[Value],
        past: Option<Pair<'_>>,
        path: &Path<'_>,
    ) -> Outcome {
        let mut out = Outcome::default();
        if let Some(item) = node.items() {
            let before = Before::of(self.arena, past);
            for (at, member) in items.iter().enumerate() {
                let past = before.as_ref().and_then(|before| before.counterpart(at, member));
                out.merge(self.node(item, member, past, &path.index(at)));
                if self.ends_after(&out) {
                    break;
                }
            }
        }
        let size = Plain(&items.len().to_string()).error_text();
        if let Some(min) = checks.min_items.filter(|min| items.len() < *min) {
            let why = format!("{path} in body should have at least {min} items");
            out.errors.push(ErrorKind::Invalid, path, Some(&size), &why);
        }
        if let Some(max) = checks.max_items.filter(|max| exceeds(items.len(), *max)) {
            too_many(path, items.len(), max, &mut out.errors);
        }
        if checks.unique_items
            && items.iter().enumerate().any(|(at, v)| items.iter().take(at).any(|u| u == v))
        {
            out.errors.invalid(path, "", &format!("{path} in body shouldn't contain duplicates"));
        }
        out.matches = out.matches.saturating_add(1);
        out
    }

    fn validate_fields(
        &self,
        node: &Node,
        checks: &Checks,
        value: &Value,
        past: Option<Pair<'_>>,
        path: &Path<'_>,
    ) -> Outcome {
        let mut out = Outcome::default();
        let Value::Object(map) = value else { return out };
        let size = map.len().to_string();
        if let Some(min) = checks.min_properties.filter(|min| map.len() < *min) {
            let why = format!("{path} in body should have at least {min} properties");
            out.errors.push(ErrorKind::Invalid, path, Some(&size), &why);
        }
        if let Some(max) = checks.max_properties.filter(|max| exceeds(map.len(), *max)) {
            too_many(path, map.len(), max, &mut out.errors);
        }
        // Both objects were converted to one version, so the version of the old one is unknown.
        let is_known = |key: &str| !(path.is_root() && matches!(key, "apiVersion" | "kind"));
        let before = |key: &str| past.filter(|_| is_known(key)).and_then(|past| past.key(self.arena, key));
        match node.fields(self.arena) {
            Shape::Map { .. } if checks.is_closed => {
                for (key, _) in map.iter() {
                    let why = format!("{path}.{key} in body is a forbidden property");
                    out.errors.invalid(path, key.as_str(), &why);
                }
            }
            Shape::Map { value: each, .. } => {
                for (key, member) in map.iter() {
                    // At the root, kube-apiserver prints these fields with a leading dot.
                    let dotted = format!(".{key}");
                    let at = if path.is_root() { Path::of(&dotted) } else { path.field(key) };
                    out.merge(self.node(*each, member, before(key), &at));
                    if self.ends_after(&out) {
                        break;
                    }
                }
            }
            Shape::Struct(known) => {
                for field in &known.fields {
                    let rules = if Some(field.node) == node.metadata {
                        node.metadata_rules
                    } else {
                        Some(field.node)
                    };
                    if let (Some(rules), Some(member)) = (rules, map.get(&field.name)) {
                        let past = before(&field.name);
                        out.merge(self.node(rules, member, past, &path.field(&field.name)));
                    }
                    if self.ends_after(&out) {
                        break;
                    }
                }
            }
            _ => {}
        }
        for name in checks.required.iter().filter(|name| !map.contains_key(name)) {
            out.errors.required(&path.field(name), "");
        }
        out
    }
}

/// The items of an old list by their keys; only lists with keys can be correlated.
struct Before<'a> {
    keys: &'a [Str],
    item: NodeId,
    items: &'a [Value],
    /// The items by their keys, computed when an item has moved.
    index: OnceCell<HashMap<Vec<u8>, &'a Value>>,
}

impl<'a> Before<'a> {
    fn of(arena: &'a Arena, past: Option<Pair<'a>>) -> Option<Self> {
        let past = past?;
        let (Shape::List { item, kind: ListKind::Map(keys) }, Value::Array(items)) =
            (&arena.node(past.node).shape, past.old)
        else {
            return None;
        };
        Some(Before { keys, item: *item, items, index: OnceCell::new() })
    }

    /// `member`, which is at this index of the new list, and the old item with the same keys.
    fn counterpart<'m>(&self, at: usize, member: &'m Value) -> Option<Pair<'m>>
    where
        'a: 'm,
    {
        let pair = |old: &'a Value| Pair { node: self.item, value: member, old };
        if !has_keys(self.keys, member) {
            return None;
        }
        let same = |old: &&Value| self.keys.iter().all(|key| old.get(key) == member.get(key));
        if let Some(old) = self.items.get(at).filter(same) {
            return Some(pair(old));
        }
        let index = self.index.get_or_init(|| {
            let mut index = HashMap::with_capacity(self.items.len());
            for item in self.items {
                index.entry(item_identity(self.keys, item)).or_insert(item);
            }
            index
        });
        index.get(&item_identity(self.keys, member)).copied().map(pair)
    }
}

fn item_identity(keys: &[Str], item: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    lists::write_keys(item, keys, &mut out);
    out
}

/// The type of a value in terms of a schema, and its format.
fn type_of(value: &Value) -> (&'static str, &'static str) {
    match value.without_text() {
        Value::Null => ("null", ""),
        Value::Bool(_) => ("boolean", ""),
        Value::Int(_) => ("integer", "int64"),
        Value::Float(_) => ("number", "float64"),
        Value::String(_) => ("string", ""),
        Value::Array(_) => ("array", ""),
        Value::Object(_) | Value::Raw(_) => ("object", ""),
    }
}

/// Checks that the value has the type of its schema; the error has both.
fn check_type(type_name: &str, nullable: bool, format: &str, value: &Value, path: &Path<'_>) -> Outcome {
    let has = |wanted: &str| type_name.split(',').any(|name| name == wanted);
    let (actual, actual_format) = type_of(value);
    let fits = match value {
        Value::Null => type_name.is_empty() || nullable,
        Value::Float(f) => has("number") || (has("integer") && numbers::is_integer(*f)),
        Value::Int(_) => has("integer") || has("number"),
        _ => has(actual),
    };
    let mut out = Outcome::default();
    let text_or_list = matches!(value, Value::String(_) | Value::Array(_));
    let (wanted, value_text) = if value.is_null() {
        (type_name, actual)
    } else if !format.is_empty() && !text_or_list && !fits && actual_format != format {
        (format, actual_format)
    } else if !format.is_empty() && text_or_list && !has("number") && !has("integer") {
        out.matches = 1;
        return out;
    } else {
        (type_name, actual)
    };
    if fits {
        out.matches = 1;
        return out;
    }
    let value_text = quoted(value_text);
    let why = format!("{path} in body must be of type {wanted}: {value_text}");
    out.errors.push(ErrorKind::TypeInvalid, path, Some(&value_text), &why);
    out
}

fn check_enum(checks: &Checks, value: &Value, path: &Path<'_>) -> Outcome {
    let mut out = Outcome::default();
    let same = |allowed: &Value| match (allowed, value) {
        (Value::Null, _) | (_, Value::Null) => false,
        // Go converts the value to the type of the allowed one: a float loses its fraction, and an integer becomes a
        // string with the character of that code point.
        #[expect(clippy::cast_precision_loss, reason = "Go converts one to the other too")]
        (Value::Float(f), Value::Int(i)) => *f == *i as f64,
        (Value::Int(i), Value::Float(f)) => *i == numbers::to_whole(*f),
        (Value::String(text), Value::Int(i)) => {
            let character = u32::try_from(*i).ok().and_then(char::from_u32).unwrap_or('\u{fffd}');
            text.as_str() == character.encode_utf8(&mut [0; 4])
        }
        (allowed, value) => allowed == value,
    };
    let is_allowed = match value {
        Value::String(text) if !checks.enumeration_texts.is_empty() => {
            checks.enumeration_texts.contains(text)
        }
        _ => checks.enumeration.is_empty() || checks.enumeration.iter().any(same),
    };
    if !is_allowed {
        let supported: Vec<String> = checks.enumeration.iter().map(plain_text).collect();
        let supported: Vec<&str> = supported.iter().map(String::as_str).collect();
        out.errors.not_supported(path, value, &supported);
    }
    out
}

/// Whether a size exceeds a limit. Definitions may have negative limits, which every size exceeds.
fn exceeds(size: usize, max: i64) -> bool {
    i64::try_from(size).is_ok_and(|size| size > max)
}

fn too_many(path: &Path<'_>, size: usize, max: i64, errors: &mut FieldErrors) {
    match usize::try_from(max) {
        Ok(max) => errors.too_many(path, size, max),
        Err(_) => errors.push(ErrorKind::TooMany, path, Some(&size.to_string()), "has too many items"),
    }
}

/// Checks length and pattern; reports the first that fails.
fn check_text(checks: &Checks, text: &str, path: &Path<'_>) -> Outcome {
    let mut out = Outcome::default();
    let length = text.chars().count();
    if let Some(max) = checks.max_length.filter(|max| exceeds(length, *max)) {
        match usize::try_from(max) {
            Ok(max) => out.errors.too_long(path, max),
            Err(_) => out.errors.push(ErrorKind::TooLong, path, None, "value is too long"),
        }
    } else if let Some(min) = checks.min_length.filter(|min| length < *min) {
        out.errors.invalid(path, text, &format!("{path} in body should be at least {min} chars long"));
    } else if !checks.pattern.is_empty() && !regexp::is_match(&checks.pattern, text) {
        out.errors.invalid(path, text, &format!("{path} in body should match '{}'", checks.pattern));
    }
    out
}

fn check_format(format: &str, text: &str, path: &Path<'_>) -> Outcome {
    let mut out = Outcome::default();
    if !formats::fits(format, text) {
        let value_text = quoted(text);
        let why = format!("{path} in body must be of type {format}: {value_text}");
        out.errors.push(ErrorKind::TypeInvalid, path, Some(&value_text), &why);
    }
    out
}

fn plain_text(value: &Value) -> String {
    match value {
        Value::String(text) => text.to_string(),
        other => json::text(other),
    }
}

#[cfg(test)]
mod tests;
