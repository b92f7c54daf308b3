//! Field paths in a definition (`.spec.replicas`, `.labels['a.b']`), resolved in a schema.

use pintle_value::{Str, Value};

/// The result of resolving a path.
#[derive(Debug)]
pub struct Found<'a> {
    /// The path in the form of errors; empty if it could not be resolved.
    pub path: Str,
    /// The steps: names of fields, and keys of maps in brackets.
    pub steps: Vec<Str>,
    /// The schema at the path, if there is one.
    pub schema: Option<&'a Value>,
}

/// Resolves a path in a schema. `brackets` allows keys in brackets.
pub fn resolve<'a>(path: &str, schema: &'a Value, brackets: bool) -> Result<Found<'a>, String> {
    let mut found = Found { path: Str::default(), steps: Vec::new(), schema: Some(schema) };
    let mut tokens = tokens(path).into_iter();
    while let Some(token) = tokens.next() {
        let end = || "unexpected end of JSON path".to_string();
        match token {
            "[" if !brackets => return Err("array notation is not allowed".to_string()),
            "[" => {
                let quoted = tokens.next().ok_or_else(end)?;
                let inner = quoted.strip_prefix('\'').and_then(|q| q.strip_suffix('\''));
                let inner = inner.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?;
                follow_field(&mut found, &unescaped(inner)?)?;
                let close = tokens.next().ok_or_else(end)?;
                if close != "]" {
                    return Err(format!("expected ] but got {close}"));
                }
            }
            "." => follow_field(&mut found, tokens.next().ok_or_else(end)?)?,
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

/// The error of a path that cannot be a path in any schema, as far as its first step shows it.
pub fn malformed(path: &str, brackets: bool) -> Option<String> {
    resolve(path, &Value::Null, brackets).err().filter(|why| why != NOWHERE)
}

const NOWHERE: &str = "does not refer to a valid field";

fn follow_field(found: &mut Found<'_>, name: &str) -> Result<(), String> {
    let nowhere = || NOWHERE.to_string();
    let schema = found.schema.ok_or_else(nowhere)?;
    let properties = schema.get("properties").and_then(Value::as_object).filter(|p| !p.is_empty());
    if let Some(properties) = properties {
        found.schema = Some(properties.get(name).ok_or_else(nowhere)?);
        found.steps.push(name.into());
        if !found.path.is_empty() {
            found.path.push('.');
        }
        found.path.push_str(name);
    } else if let Some(values) = schema.get("additionalProperties").filter(|v| !v.is_null()) {
        found.schema = Some(values).filter(|v| v.as_object().is_some());
        found.steps.push(format!("[{name}]").into());
        found.path = format!("{}[{name}]", found.path).into();
    } else {
        return Err(nowhere());
    }
    Ok(())
}

/// Removes the escapes from a text in single quotes.
fn unescaped(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('a') => out.push('\u{7}'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('v') => out.push('\u{b}'),
            Some(c @ ('\'' | '\\')) => out.push(c),
            Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
            None => out.push('\\'),
        }
    }
    Ok(out)
}

/// Splits a path into delimiters and the texts between them; a text in single quotes is one token.
fn tokens(path: &str) -> Vec<&str> {
    let mut out = Vec::new();
    let mut rest = path;
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '.' | '[' | ']' => 1,
            '\'' => {
                let bytes = rest.as_bytes();
                let closes = |at: &usize| {
                    bytes.get(*at) == Some(&b'\'') && bytes.get(at.saturating_sub(1)) != Some(&b'\\')
                };
                (1..bytes.len()).find(closes).map_or(rest.len(), |at| at.saturating_add(1))
            }
            _ => rest.find(['.', '[', ']']).unwrap_or(rest.len()),
        };
        let (token, after) = rest.split_at_checked(length).unwrap_or((rest, ""));
        out.push(token);
        rest = after;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_followed_and_written_as_errors_write_them() {
        let schema = r#"{"properties":{"a":{"properties":{"b.c":{"type":"string"}}},"m":{"additionalProperties":{"type":"string"}}}}"#;
        let schema = pintle_value::json::parse(schema.as_bytes()).expect("valid JSON").value;
        let cases = [
            (".a", Ok("a")),
            ("['a']", Ok("a")),
            (".a['b.c']", Ok("a.b.c")),
            (".m.k", Ok("m[k]")),
            (".m['k']", Ok("m[k]")),
            (".m['\\'']", Ok("m[']")),
            (".m['\\q']", Err("invalid string literal: invalid escape char \\q")),
            (".x", Err("does not refer to a valid field")),
            ("a", Err("expected [ or . but got: a")),
            (".", Err("unexpected end of JSON path")),
            (".a[0]", Err("expected single quoted string but got 0")),
            (".a['b.c'", Err("unexpected end of JSON path")),
        ];
        for (path, expected) in cases {
            let found = resolve(path, &schema, true);
            let found = found.as_ref().map(|f| f.path.as_str()).map_err(String::as_str);
            assert_eq!(found, expected, "{path}");
        }
        assert_eq!(
            resolve("['a']", &schema, false).map(|f| f.path),
            Err("array notation is not allowed".into())
        );
    }
}
