//! JSON Patch (RFC 6902) with the liberties kube-apiserver takes: negative indices count from the end, replacing
//! a member that is not there adds it, a missing value is `null`.

use super::PatchError;
use pintle_value::{Str, Value, json};

/// How many operations a patch may have.
pub const OPERATIONS_MAX: usize = 10_000;
/// How many bytes of JSON all `copy` operations of a patch may add together.
pub const COPY_BYTES_MAX: usize = 3 * 1024 * 1024;

/// A decoded patch.
#[derive(Clone, Debug)]
pub struct Patch {
    operations: Vec<Operation>,
    /// What field validation has to say of the patch itself: `json patch unknown field "[0].x"`.
    pub strict_errors: Vec<String>,
}

#[derive(Clone, Debug)]
struct Operation {
    kind: Option<Str>,
    path: Option<Str>,
    from: Option<Str>,
    value: Option<Value>,
}

/// Reads a patch. `duplicates` are the repeated keys that the parser found; `strict` is set for the field
/// validation levels Warn and Strict, which also look at the types of the operations' members.
pub fn decode(patch: Value, duplicates: &[Str], strict: bool) -> Result<Patch, PatchError> {
    let items = match patch {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        other => return Err(wrong_document(&other, strict)),
    };
    let mut strict_errors = Vec::new();
    let mut duplicates = duplicates.iter().filter(|_| strict).peekable();
    let too_many = PatchError::TooManyOperations { got: items.len(), max: OPERATIONS_MAX };
    let fits = items.len() <= OPERATIONS_MAX;
    let mut operations = Vec::with_capacity(items.len().min(OPERATIONS_MAX));
    for (index, item) in items.into_iter().enumerate() {
        let here = format!("[{index}].");
        while let Some(path) = duplicates.next_if(|path| path.starts_with(&here)) {
            if is_known(&path[here.len()..]) {
                strict_errors.push(format!("json patch duplicate field \"{path}\""));
            }
        }
        operations.push(operation(item, index, strict, &mut strict_errors)?);
    }
    if !fits {
        return Err(too_many);
    }
    Ok(Patch { operations, strict_errors })
}

/// Whether an operation has what this path within it leads to; of other members it counts only that they are there.
fn is_known(path: &str) -> bool {
    matches!(path.split(['.', '[']).next(), Some("op" | "path" | "from" | "value"))
}

fn wrong_document(patch: &Value, strict: bool) -> PatchError {
    let found = patch.json_type();
    PatchError::Malformed(if strict {
        format!(
            "error decoding patch: json: cannot unmarshal {found} into Go value of type []handlers.jsonPatchOp"
        )
    } else {
        format!("json: cannot unmarshal {found} into Go value of type jsonpatch.Patch")
    })
}

fn operation(
    item: Value,
    index: usize,
    strict: bool,
    strict_errors: &mut Vec<String>,
) -> Result<Operation, PatchError> {
    let mut operation = Operation { kind: None, path: None, from: None, value: None };
    let members = match item {
        Value::Object(members) => members,
        Value::Null => return Ok(operation),
        other => {
            let found = other.json_type();
            return Err(PatchError::Malformed(if strict {
                format!(
                    "error decoding patch: json: cannot unmarshal {found} into Go value of type handlers.jsonPatchOp"
                )
            } else {
                format!("json: cannot unmarshal {found} into Go value of type jsonpatch.Operation")
            }));
        }
    };
    for (key, value) in members {
        let text = match key.as_str() {
            "op" => &mut operation.kind,
            "path" => &mut operation.path,
            "from" => &mut operation.from,
            "value" => {
                operation.value = Some(value);
                continue;
            }
            _ => {
                if strict {
                    strict_errors.push(format!("json patch unknown field \"[{index}].{key}\""));
                }
                continue;
            }
        };
        match value {
            Value::String(s) => *text = Some(s),
            Value::Null => {}
            other if strict => {
                return Err(PatchError::Malformed(format!(
                    "error decoding patch: json: cannot unmarshal {} into Go struct field jsonPatchOp.{key} of type string",
                    other.json_type()
                )));
            }
            _ => {}
        }
    }
    Ok(operation)
}

impl Patch {
    /// Applies the operations in order; the first that does not fit ends it.
    pub fn apply(&self, mut document: Value) -> Result<Value, PatchError> {
        let mut copied = 0;
        for operation in &self.operations {
            operation.apply(&mut document, &mut copied).map_err(PatchError::DoesNotApply)?;
        }
        Ok(document)
    }
}

type Step<T> = Result<T, String>;

impl Operation {
    fn apply(&self, document: &mut Value, copied: &mut usize) -> Step<()> {
        match self.kind.as_deref() {
            Some("add") => add_at(document, self.path()?, self.given()),
            Some("remove") => remove_at(document, self.path()?).map(|_| ()),
            Some("replace") => self.replace(document),
            Some("move") => {
                let value = remove_at(document, self.from()?)?;
                add_at(document, self.path()?, value)
            }
            Some("copy") => self.copy(document, copied),
            Some("test") => self.test(document),
            other => Err(format!("Unexpected kind: {}", other.unwrap_or("unknown"))),
        }
    }

    fn path(&self) -> Step<&str> {
        self.path.as_deref().ok_or_else(|| "operation missing path field: missing value".to_string())
    }

    fn from(&self) -> Step<&str> {
        self.from.as_deref().ok_or_else(|| "operation, missing from field: missing value".to_string())
    }

    fn given(&self) -> Value {
        self.value.clone().unwrap_or_default()
    }

    fn replace(&self, document: &mut Value) -> Step<()> {
        let path = self.path()?;
        let value = self.given();
        if path.is_empty() {
            return match value {
                Value::Object(_) | Value::Array(_) => {
                    *document = value;
                    Ok(())
                }
                _ => Err("replace operation value must be object or array".into()),
            };
        }
        let (parent, key) = parent_mut(document, path)?;
        match parent {
            Value::Array(items) => {
                let at = existing_index(items.len(), &key)?;
                if let Some(slot) = items.get_mut(at) {
                    *slot = value;
                }
            }
            Value::Object(map) => *map.entry(&key) = value,
            _ => return Err(missing(path)),
        }
        Ok(())
    }

    fn copy(&self, document: &mut Value, copied: &mut usize) -> Step<()> {
        let value = value_at(document, self.from()?)?.cloned().unwrap_or_default();
        let path = self.path()?;
        parent(document, path)?;
        let mut bytes = Vec::new();
        json::print(&value, &mut bytes);
        *copied += bytes.len();
        if *copied > COPY_BYTES_MAX {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {COPY_BYTES_MAX}"
            ));
        }
        add_at(document, path, value)
    }

    fn test(&self, document: &Value) -> Step<()> {
        let path = self.path()?;
        let expected = self.value.as_ref().unwrap_or(&Value::Null);
        let found = if path.is_empty() { Some(document) } else { value_at(document, path)? };
        if found.unwrap_or(&Value::Null) == expected {
            Ok(())
        } else {
            Err(format!("testing value {path} failed: test failed"))
        }
    }
}

fn missing(path: &str) -> String {
    format!("doc is missing path: \"{path}\": missing value")
}

/// Splits off what comes before the first slash, which counts for nothing, and the last part, which is the key.
fn split(path: &str) -> Step<(impl Iterator<Item = &str>, String)> {
    let (_, rest) = path.split_once('/').ok_or_else(|| missing(path))?;
    let (parents, key) = match rest.rsplit_once('/') {
        Some((parents, key)) => (Some(parents), key),
        None => (None, rest),
    };
    Ok((parents.into_iter().flat_map(|p| p.split('/')), unescape(key)))
}

/// `~1` is a slash and `~0` a tilde, read once from left to right.
fn unescape(part: &str) -> String {
    let mut out = String::with_capacity(part.len());
    let mut rest = part;
    while let Some((before, after)) = rest.split_once('~') {
        out.push_str(before);
        (rest, _) = match after.as_bytes().first() {
            Some(b'1') => (after.get(1..).unwrap_or(""), out.push('/')),
            Some(b'0') => (after.get(1..).unwrap_or(""), out.push('~')),
            _ => (after, out.push('~')),
        };
    }
    out.push_str(rest);
    out
}

/// The list position `key` stands for; negative ones count from the end.
fn existing_index(len: usize, key: &str) -> Step<usize> {
    let index: i64 = key.parse().map_err(|_| format!("invalid index: {key}"))?;
    let len = len as i64;
    let at = if index < 0 { index + len } else { index };
    if at < 0 || at >= len {
        return Err(format!("Unable to access invalid index: {index}: invalid index referenced"));
    }
    usize::try_from(at).map_err(|_| format!("invalid index: {key}"))
}

fn parent<'a>(document: &'a Value, path: &str) -> Step<(&'a Value, String)> {
    let (parents, key) = split(path)?;
    let mut node = document;
    for part in parents {
        node = child(node, &unescape(part)).ok().flatten().ok_or_else(|| missing(path))?;
    }
    match node {
        Value::Object(_) | Value::Array(_) => Ok((node, key)),
        _ => Err(missing(path)),
    }
}

fn parent_mut<'a>(document: &'a mut Value, path: &str) -> Step<(&'a mut Value, String)> {
    let (parents, key) = split(path)?;
    let mut node = document;
    for part in parents {
        let part = unescape(part);
        let next = match node {
            Value::Object(map) => map.get_mut(&part),
            Value::Array(items) => existing_index(items.len(), &part).ok().and_then(|at| items.get_mut(at)),
            _ => None,
        };
        node = next.ok_or_else(|| missing(path))?;
    }
    match node {
        Value::Object(_) | Value::Array(_) => Ok((node, key)),
        _ => Err(missing(path)),
    }
}

/// The member of an object (none is no error) or the item of a list (none is).
fn child<'a>(node: &'a Value, key: &str) -> Step<Option<&'a Value>> {
    match node {
        Value::Object(map) => Ok(map.get(key)),
        Value::Array(items) => Ok(items.get(existing_index(items.len(), key)?)),
        _ => Ok(None),
    }
}

fn value_at<'a>(document: &'a Value, path: &str) -> Step<Option<&'a Value>> {
    let (parent, key) = parent(document, path)?;
    child(parent, &key)
}

fn add_at(document: &mut Value, path: &str, value: Value) -> Step<()> {
    let (parent, key) = parent_mut(document, path)?;
    match parent {
        Value::Object(map) => *map.entry(&key) = value,
        Value::Array(items) if key == "-" => items.push(value),
        Value::Array(items) => {
            // The end itself is a place to add at, so it counts as one more position.
            let at = existing_index(items.len() + 1, &key)?;
            items.insert(at, value);
        }
        _ => return Err(missing(path)),
    }
    Ok(())
}

fn remove_at(document: &mut Value, path: &str) -> Step<Value> {
    let (parent, key) = parent_mut(document, path)?;
    match parent {
        Value::Object(map) => {
            map.remove(&key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
        }
        Value::Array(items) => {
            let at = existing_index(items.len(), &key)?;
            Ok(items.remove(at))
        }
        _ => Err(missing(path)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{text, tree};

    fn patched(document: &str, patch: &str) -> Result<String, PatchError> {
        decode(tree(patch), &[], true)?.apply(tree(document)).map(|v| text(&v))
    }

    #[test]
    fn operations_change_the_document() {
        let list = r#"{"a":["0","1","2"]}"#;
        for (document, patch, expected) in [
            (r#"{"a":1}"#, r#"[{"op":"add","path":"/b","value":2}]"#, r#"{"a":1,"b":2}"#),
            (r#"{"a":1}"#, r#"[{"op":"add","path":"/b"}]"#, r#"{"a":1,"b":null}"#),
            (r#"{"a":1}"#, r#"[{"op":"add","path":"b","value":2},{"op":"add","path":"x/c","value":3}]"#, ""),
            (r#"{"a":1}"#, r#"[{"op":"add","path":"x/c","value":3}]"#, r#"{"a":1,"c":3}"#),
            (r#"{"a":1}"#, r#"[{"op":"replace","path":"/b","value":2}]"#, r#"{"a":1,"b":2}"#),
            (r#"{"a":1}"#, r#"[{"op":"replace","path":"","value":{}}]"#, "{}"),
            (r#"{"a":1}"#, r#"[{"op":"remove","path":"/a"}]"#, "{}"),
            (r#"{"a":1}"#, r#"[{"op":"move","from":"/a","path":"/b"}]"#, r#"{"b":1}"#),
            (r#"{"a":1}"#, r#"[{"op":"copy","from":"/a","path":"/b"}]"#, r#"{"a":1,"b":1}"#),
            (r#"{"a":1}"#, r#"[{"op":"copy","from":"/x","path":"/b"}]"#, r#"{"a":1,"b":null}"#),
            (r#"{"a":{"m/n~":1}}"#, r#"[{"op":"remove","path":"/a/m~1n~0"}]"#, r#"{"a":{}}"#),
            (list, r#"[{"op":"add","path":"/a/1","value":"n"}]"#, r#"{"a":["0","n","1","2"]}"#),
            (list, r#"[{"op":"add","path":"/a/-","value":"n"}]"#, r#"{"a":["0","1","2","n"]}"#),
            (list, r#"[{"op":"add","path":"/a/-1","value":"n"}]"#, r#"{"a":["0","1","2","n"]}"#),
            (list, r#"[{"op":"add","path":"/a/4","value":"n"}]"#, ""),
            (list, r#"[{"op":"replace","path":"/a/-1","value":"n"}]"#, r#"{"a":["0","1","n"]}"#),
            (list, r#"[{"op":"replace","path":"/a/-","value":"n"}]"#, ""),
            (list, r#"[{"op":"replace","path":"/a/01","value":"n"}]"#, r#"{"a":["0","n","2"]}"#),
            (list, r#"[{"op":"remove","path":"/a/-4"}]"#, ""),
            (list, r#"[{"op":"move","from":"/a/0","path":"/a/2"}]"#, r#"{"a":["1","2","0"]}"#),
            (list, r#"[{"op":"test","path":"/a/0","value":"0"}]"#, list),
            (list, r#"[{"op":"test","path":"/a/0","value":0}]"#, ""),
            (list, r#"[{"op":"test","path":"/b","value":null}]"#, list),
            (list, r#"[{"op":"test","path":"/b/c","value":null}]"#, ""),
            (list, r#"[{"op":"jump","path":"/b"}]"#, ""),
            (list, r#"[{"path":"/b"}]"#, ""),
            (list, r#"[null]"#, ""),
            (list, r#"[{"op":"add","path":""}]"#, ""),
            (list, "null", list),
        ] {
            match patched(document, patch) {
                Ok(got) => assert_eq!(got, expected, "{patch}"),
                Err(PatchError::DoesNotApply(_)) => assert_eq!(expected, "", "{patch}"),
                Err(other) => panic!("{patch}: {other}"),
            }
        }
    }

    #[test]
    fn copies_are_limited_together() {
        // Each copy doubles the document.
        let copy = |i| format!(r#"{{"op":"copy","from":"/a","path":"/a/{i}"}}"#);
        let copies: Vec<String> = (0..30).map(copy).collect();
        let patch = format!("[{}]", copies.join(","));
        let error = patched(r#"{"a":{"t":"0123456789"}}"#, &patch).unwrap_err();
        assert!(matches!(error, PatchError::DoesNotApply(text) if text.contains("accumulated size")));
    }

    #[test]
    fn a_malformed_patch_is_named() {
        for (patch, strict, expected) in [
            (
                "{}",
                true,
                "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
            ),
            ("{}", false, "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
            (
                r#"["a"]"#,
                true,
                "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp",
            ),
            (
                r#"[{"path":7}]"#,
                true,
                "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
            ),
        ] {
            assert_eq!(decode(tree(patch), &[], strict).unwrap_err().to_string(), expected);
        }
        let many = Value::Array(vec![Value::object(); OPERATIONS_MAX + 1]);
        let status = decode(many, &[], true).unwrap_err().to_status();
        assert_eq!(
            (status.code, status.message.as_str()),
            (
                413,
                "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
            )
        );
    }

    #[test]
    fn strict_reading_reports_what_it_does_not_know() {
        let patch = tree(
            r#"[{"op":"test","path":"/a","comment":"x"},{"op":"add","path":"/b"},{"note":"","value":{"a":1}}]"#,
        );
        let twice = ["[1].path", "[2].note", "[2].value.a"].map(Str::from);
        let decoded = decode(patch, &twice, true).unwrap();
        assert_eq!(
            decoded.strict_errors,
            [
                r#"json patch unknown field "[0].comment""#,
                r#"json patch duplicate field "[1].path""#,
                r#"json patch duplicate field "[2].value.a""#,
                r#"json patch unknown field "[2].note""#,
            ]
        );
    }
}
