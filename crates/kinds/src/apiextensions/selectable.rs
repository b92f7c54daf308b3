//! Selectable fields of a definition: simple paths to text, numbers and booleans.

use super::props::Props;
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};

/// How many a version may have.
pub(super) const FIELDS_MAX: usize = 8;

/// What a path leads to: its steps, and the schema there if there is one.
pub(super) struct Found<'a> {
    pub(super) steps: Vec<String>,
    pub(super) schema: Option<Props<'a>>,
}

/// All that is wrong with selectable fields.
pub(super) fn validate(
    fields: &[Value],
    schema: Props<'_>,
    many_allowed: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let mut seen: Vec<Vec<String>> = Vec::new();
    for (at, field) in fields.iter().enumerate() {
        let given = field.str_at(&["jsonPath"]);
        let at = path.index(at);
        let at = at.field("jsonPath");
        if given.is_empty() {
            errors.required(&at, "");
            continue;
        }
        let found = match resolve(given, schema, false) {
            Ok(found) => found,
            Err(why) => {
                errors.invalid(&at, given, &format!("is an invalid path: {why}"));
                continue;
            }
        };
        if found.steps.first().is_some_and(|first| first == "metadata") {
            errors.invalid(&at, given, "must not point to fields in metadata");
        }
        if !found.schema.is_some_and(|s| matches!(s.kind(), "string" | "boolean" | "integer")) {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.invalid(&at, given, why);
        }
        if seen.contains(&found.steps) {
            errors.duplicate(&at, given);
        } else {
            seen.push(found.steps);
        }
    }
    if seen.len() > FIELDS_MAX && !many_allowed {
        errors.too_many(path, seen.len(), FIELDS_MAX);
    }
}

/// Follows a path through a schema.
pub(super) fn resolve<'a>(path: &str, schema: Props<'a>, brackets: bool) -> Result<Found<'a>, String> {
    let mut found = Found { steps: Vec::new(), schema: Some(schema) };
    let mut tokens = tokens(path).into_iter();
    while let Some(token) = tokens.next() {
        let end = || "unexpected end of JSON path".to_string();
        match token {
            "[" if !brackets => return Err("array notation is not allowed".to_string()),
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let inner = quoted.strip_prefix('\'').and_then(|q| q.strip_suffix('\''));
                let inner = inner.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                follow(&mut found, &inner.replace("\\'", "'").replace("\\\\", "\\"))?;
                let close = tokens.next().ok_or_else(end)?;
                if close != "]" {
                    return Err(format!("expected ] but got {close}"));
                }
            }
            "." => follow(&mut found, tokens.next().ok_or_else(end)?)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

fn follow(found: &mut Found<'_>, name: &str) -> Result<(), String> {
    let nowhere = || "does not refer to a valid field".to_string();
    let schema = found.schema.ok_or_else(nowhere)?;
    if schema.has_properties() {
        found.schema = Some(schema.property(name).ok_or_else(nowhere)?);
        found.steps.push(name.to_string());
    } else if schema.has("additionalProperties") {
        found.schema = schema.below("additionalProperties");
        found.steps.push(format!("[{name}]"));
    } else {
        return Err(nowhere());
    }
    Ok(())
}

/// A path as delimiters and what is between them; what is in single quotes stays whole.
fn tokens(path: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '.' | '[' | ']' => 1,
            '\'' => {
                let bytes = rest.as_bytes();
                let closes = |at: &usize| bytes.get(*at) == Some(&b'\'') && bytes.get(at - 1) != Some(&b'\\');
                (1..bytes.len()).find(closes).map_or(rest.len(), |at| at + 1)
            }
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        out.push(token);
        rest = after;
    }
    out
}
