//! JSON Patch (RFC 6902) with kube-apiserver's extensions: negative indices count from the end, replacing an absent
//! member adds it, a missing value is `null`.

use super::PatchError;
use pintle_meta::field::quoted;
use pintle_meta::strconv;
use pintle_value::{Map, RawJson, Str, Value, json};
use std::borrow::Cow;

/// The most operations of a patch.
pub const OPERATIONS_MAX: usize = 10_000;
/// The most bytes of JSON that all `copy` operations of a patch may add together.
pub const COPY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// The most list items that all operations of a patch may shift together.
const MOVED_ITEMS_MAX: usize = 200_000_000;

/// A decoded patch.
#[derive(Clone, Debug)]
pub struct Patch {
    operations: Vec<Operation>,
    /// The field validation errors of the patch itself: `json patch unknown field "[0].x"`.
    pub strict_errors: Vec<String>,
}

#[derive(Clone, Debug)]
struct Operation {
    kind: Option<Str>,
    path: Option<Str>,
    from: Option<Str>,
    value: Option<Value>,
}

/// Decodes a patch. `duplicates` are the repeated keys that the parser found; `strict` is set for the field validation
/// levels Warn and Strict, which also check the types of the operations' members.
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

/// Whether an operation has a member at this path; only the members of the operation itself are checked.
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
    /// Attaches the original texts from `body`, from which the patch was parsed. A `test` compares the texts of numbers
    /// and strings. Written values only keep their texts in objects with raw fields (`all`).
    #[must_use]
    pub fn with_texts(mut self, body: &[u8], all: bool) -> Self {
        let Ok(body) = std::str::from_utf8(body) else { return self };
        let mut items = json::Parts::of(body);
        for operation in &mut self.operations {
            let Some((_, item)) = items.next_part() else { break };
            if operation.value.is_none() || !(all || operation.kind.as_deref() == Some("test")) {
                continue;
            }
            let mut members = json::Parts::of(item);
            while let Some((key, text)) = members.next_part() {
                if key == "value" {
                    operation.value = RawJson::read(text);
                }
            }
        }
        self
    }

    /// Applies the operations in order; the first failure ends it.
    pub fn apply(&self, mut document: Value) -> Result<Value, PatchError> {
        let mut spent = Spent::default();
        for operation in &self.operations {
            operation.apply(&mut document, &mut spent)?;
        }
        Ok(document)
    }
}

type Step<T> = Result<T, String>;

/// The accumulated cost of a patch's operations.
#[derive(Default)]
struct Spent {
    copied_bytes: usize,
    moved_items: usize,
}

impl Spent {
    /// Charges `bytes` of a copy. The text is kube-apiserver's.
    fn copy(&mut self, bytes: usize) -> Step<()> {
        self.copied_bytes = self.copied_bytes.saturating_add(bytes);
        if self.copied_bytes > COPY_BYTES_MAX {
            let copied = self.copied_bytes;
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {COPY_BYTES_MAX}"
            ));
        }
        Ok(())
    }

    /// Charges the list items after the position at which one is inserted or removed.
    fn shift(&mut self, items: usize) -> Step<()> {
        self.moved_items = self.moved_items.saturating_add(items);
        match self.moved_items > MOVED_ITEMS_MAX {
            true => Err(format!("the operations move more than {MOVED_ITEMS_MAX} items of lists")),
            false => Ok(()),
        }
    }
}

impl Operation {
    fn apply(&self, document: &mut Value, spent: &mut Spent) -> Result<(), PatchError> {
        let done = match self.kind.as_deref() {
            Some("add") => self.add(document, spent),
            Some("remove") => self.remove(document, spent),
            Some("replace") => self.replace(document),
            Some("move") => self.shift(document, spent),
            Some("copy") => self.copy(document, spent),
            Some("test") => match self.test(document) {
                Ok(true) => Ok(()),
                Ok(false) => {
                    let path = self.path.as_deref().unwrap_or_default();
                    return Err(PatchError::TestFailed(format!("testing value {path} failed: test failed")));
                }
                Err(why) => Err(why),
            },
            other => Err(format!("Unexpected kind: {}", other.unwrap_or("unknown"))),
        };
        done.map_err(PatchError::DoesNotApply)
    }

    /// The path, or the error if it is missing.
    fn path(&self, doing: &str) -> Step<&str> {
        let why = match doing {
            "add" | "remove" | "copy" => "missing value",
            _ => "operation missing path field: missing value",
        };
        self.path.as_deref().ok_or_else(|| format!("{doing} operation failed to decode path: {why}"))
    }

    fn from(&self, doing: &str) -> Step<&str> {
        let why = "operation, missing from field: missing value";
        self.from.as_deref().ok_or_else(|| format!("{doing} operation failed to decode from: {why}"))
    }

    fn add(&self, document: &mut Value, spent: &mut Spent) -> Step<()> {
        let path = self.path("add")?;
        let Some(place) = parent_mut(document, path) else {
            return Err(format!(
                "add operation does not apply: doc is missing path: \"{path}\": missing value"
            ));
        };
        insert(place, self.given(), spent).map_err(|why| format!("error in add for path: '{path}': {why}"))
    }

    fn remove(&self, document: &mut Value, spent: &mut Spent) -> Step<()> {
        let path = self.path("remove")?;
        let Some(place) = parent_mut(document, path) else {
            return Err(format!(
                "remove operation does not apply: doc is missing path: \"{path}\": missing value"
            ));
        };
        take(place, spent).map(|_| ()).map_err(|why| format!("error in remove for path: '{path}': {why}"))
    }

    fn shift(&self, document: &mut Value, spent: &mut Spent) -> Step<()> {
        let from = self.from("move")?;
        let Some(place) = parent_mut(document, from) else {
            return Err(format!(
                "move operation does not apply: doc is missing from path: {from}: missing value"
            ));
        };
        let key = place.1.clone();
        let value = take(place, spent).map_err(|why| format!("error in move for path: '{key}': {why}"))?;
        let path = self.path("move")?;
        let Some(place) = parent_mut(document, path) else {
            return Err(format!(
                "move operation does not apply: doc is missing destination path: {path}: missing value"
            ));
        };
        insert(place, value, spent).map_err(|why| format!("error in move for path: '{path}': {why}"))
    }

    fn given(&self) -> Value {
        self.value.clone().unwrap_or_default()
    }

    fn replace(&self, document: &mut Value) -> Step<()> {
        let path = self.path("replace")?;
        let value = self.given();
        if path.is_empty() {
            return match value.without_text() {
                Value::Object(_) | Value::Array(_) => {
                    *document = value;
                    Ok(())
                }
                _ => Err("replace operation value must be object or array".into()),
            };
        }
        let absent = |what: &str| {
            format!("replace operation does not apply: doc is missing {what}: {path}: missing value")
        };
        match parent_mut(document, path).ok_or_else(|| absent("path"))? {
            (Parent::List(items), key) => {
                let at = existing_index(items.len(), &key).map_err(|_| absent("key"))?;
                if let Some(slot) = items.get_mut(at) {
                    *slot = value;
                }
            }
            (Parent::Object(map), key) => *map.entry(&key) = value,
        }
        Ok(())
    }

    fn copy(&self, document: &mut Value, spent: &mut Spent) -> Step<()> {
        let from = self.from("copy")?;
        let (parent, key) = parent(document, from).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing from path: {from}: missing value")
        })?;
        let value = child(parent, &key).map_err(|why| format!("error in copy for from: '{from}': {why}"))?;
        let value = value.cloned().unwrap_or_default();
        let path = self.path("copy")?;
        let Some(place) = parent_mut(document, path) else {
            return Err(format!(
                "copy operation does not apply: doc is missing destination path: {path}: missing value"
            ));
        };
        let mut bytes = Vec::new();
        json::print(&value, &mut bytes);
        spent.copy(bytes.len())?;
        insert(place, value, spent).map_err(|why| format!("error while adding value during copy: {why}"))
    }

    /// Returns whether the document has the expected value. Compared raw JSON is parsed, and its keys are sorted from
    /// then on.
    fn test(&self, document: &mut Value) -> Step<bool> {
        let path = self.path("test")?;
        let expected = self.value.as_ref().unwrap_or(&Value::Null);
        if path.is_empty() {
            return Ok(is_equal(document, expected));
        }
        let (parent, key) = parent_mut(document, path).ok_or_else(|| {
            format!("test operation does not apply: is missing path: {path}: missing value")
        })?;
        let refuse = |why: String| format!("error in test for path: '{path}': {why}");
        let found = match parent {
            Parent::Object(map) => map.get_mut(&key),
            Parent::List(items) => {
                let at = existing_index(items.len(), &key).map_err(refuse)?;
                items.get_mut(at)
            }
        };
        Ok(is_equal(found.unwrap_or(&mut Value::Null), expected))
    }
}

/// An object or list of raw JSON, opened one level; any other value as it is.
fn opened(value: &Value) -> Cow<'_, Value> {
    match value {
        Value::Raw(raw) if is_container(raw.value()) => Cow::Owned((**raw).clone().opened()),
        _ => Cow::Borrowed(value),
    }
}

fn is_container(value: &Value) -> bool {
    matches!(value, Value::Object(_) | Value::Array(_))
}

/// Returns whether two values are equal by kube-apiserver's comparison: objects and lists by content, all else by text,
/// so that `1` differs from `1.0`, and `<` from `\u003c`.
fn is_equal(found: &mut Value, expected: &Value) -> bool {
    open(found);
    match (found, &*opened(expected)) {
        (Value::Object(found), Value::Object(expected)) => {
            found.len() == expected.len()
                && found.iter_mut().all(|(key, value)| expected.get(key).is_some_and(|e| is_equal(value, e)))
        }
        (Value::Array(found), Value::Array(expected)) => {
            found.len() == expected.len() && found.iter_mut().zip(expected).all(|(a, b)| is_equal(a, b))
        }
        (found, expected) => *found == *expected,
    }
}

/// Splits off the part before the first slash, which is ignored, and the last part, which is the key.
fn split(path: &str) -> Option<(impl Iterator<Item = &str>, String)> {
    let (_, rest) = path.split_once('/')?;
    let (parents, key) = match rest.rsplit_once('/') {
        Some((parents, key)) => (Some(parents), key),
        None => (None, rest),
    };
    Some((parents.into_iter().flat_map(|p| p.split('/')), unescape(key)))
}

/// Replaces `~1` by a slash and `~0` by a tilde, in one pass.
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

/// The list position of `key`; negative ones count from the end.
fn existing_index(len: usize, key: &str) -> Step<usize> {
    let index = strconv::parse_int(key).map_err(|_| not_a_number(key))?;
    let len = len as i64;
    let at = if index < 0 { index.saturating_add(len) } else { index };
    if at < 0 || at >= len {
        return Err(format!("Unable to access invalid index: {index}: invalid index referenced"));
    }
    usize::try_from(at).map_err(|_| not_a_number(key))
}

fn not_a_number(key: &str) -> String {
    format!("strconv.Atoi: parsing {}: invalid syntax", quoted(key))
}

/// The object or list that contains the value of a path.
enum Parent<'a> {
    Object(&'a mut Map),
    List(&'a mut Vec<Value>),
}

fn parent<'a>(document: &'a Value, path: &str) -> Option<(&'a Value, String)> {
    let (mut parents, key) = split(path)?;
    let node = parents.try_fold(document, |node, part| child(node, &unescape(part)).ok().flatten())?;
    matches!(node.without_text(), Value::Object(_) | Value::Array(_)).then_some((node, key))
}

fn parent_mut<'a>(document: &'a mut Value, path: &str) -> Option<(Parent<'a>, String)> {
    let (mut parents, key) = split(path)?;
    open(document);
    let node = parents.try_fold(document, |node, part| {
        let child = match node {
            Value::Object(map) => map.get_mut(&unescape(part))?,
            Value::Array(items) => {
                let at = existing_index(items.len(), &unescape(part)).ok()?;
                items.get_mut(at)?
            }
            _ => return None,
        };
        open(child);
        Some(child)
    })?;
    match node {
        Value::Object(map) => Some((Parent::Object(map), key)),
        Value::Array(items) => Some((Parent::List(items), key)),
        _ => None,
    }
}

/// Parses raw JSON one level deep, so that its members can be changed; the members retain their texts.
fn open(value: &mut Value) {
    if let Value::Raw(raw) = value
        && is_container(raw.value())
        && let Value::Raw(raw) = std::mem::take(value)
    {
        *value = raw.opened();
    }
}

/// The member of an object (`None` if missing) or the item of a list (an error if missing).
fn child<'a>(node: &'a Value, key: &str) -> Step<Option<&'a Value>> {
    match node.without_text() {
        Value::Object(map) => Ok(map.get(key)),
        Value::Array(items) => Ok(items.get(existing_index(items.len(), key)?)),
        _ => Ok(None),
    }
}

fn insert(place: (Parent<'_>, String), value: Value, spent: &mut Spent) -> Step<()> {
    match place {
        (Parent::Object(map), key) => *map.entry(&key) = value,
        (Parent::List(items), key) if key == "-" => items.push(value),
        (Parent::List(items), key) => {
            // An item can be added at the end, so there is one more position.
            let at = existing_index(items.len().saturating_add(1), &key).map_err(|why| {
                match why.starts_with("strconv") {
                    true => format!("value was not a proper array index: '{key}': {why}"),
                    false => why,
                }
            })?;
            spent.shift(items.len().saturating_sub(at))?;
            items.insert(at, value);
        }
    }
    Ok(())
}

fn take(place: (Parent<'_>, String), spent: &mut Spent) -> Step<Value> {
    match place {
        (Parent::Object(map), key) => {
            map.remove(&key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: missing value"))
        }
        (Parent::List(items), key) => {
            let at = existing_index(items.len(), &key)?;
            spent.shift(items.len().saturating_sub(at))?;
            Ok(items.remove(at))
        }
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
                Err(PatchError::DoesNotApply(_) | PatchError::TestFailed(_)) => {
                    assert_eq!(expected, "", "{patch}")
                }
                Err(other) => panic!("{patch}: {other}"),
            }
        }
    }

    #[test]
    fn tests_compare_texts_of_scalars() {
        for (document, value, expected) in [
            (r#"{"a":1}"#, "1", true),
            (r#"{"a":1}"#, "1.0", false),
            (r#"{"a":"\u003c"}"#, r#""\u003c""#, true),
            (r#"{"a":"\u003c"}"#, r#""<""#, false),
            (r#"{"a":"bc"}"#, r#""b\u0063""#, false),
            (r#"{"a":{"b":1,"c":[2]}}"#, r#"{ "c" : [ 2 ], "b":1 }"#, true),
            (r#"{"a":{"b":1,"c":[2]}}"#, r#"{"c":[2.0],"b":1}"#, false),
        ] {
            let body = format!(r#"[{{"op":"test","path":"/a","value":{value}}}]"#);
            let patch = decode(tree(&body), &[], true).unwrap().with_texts(body.as_bytes(), false);
            assert_eq!(patch.apply(tree(document)).is_ok(), expected, "{document} {value}");
        }
    }

    #[test]
    fn raw_json_keeps_the_order_of_what_is_not_touched() {
        let body = r#"[{"op":"add","path":"/data/m","value":{"y":1,"x":2}}]"#;
        let patch = decode(tree(body), &[], true).unwrap().with_texts(body.as_bytes(), true);
        let document = RawJson::read(r#"{"data":{"z":{"b":1,"a":2},"c":1}}"#).unwrap();
        let patched = text(&patch.apply(document).unwrap());
        assert_eq!(patched, r#"{"data":{"c":1,"m":{"y":1,"x":2},"z":{"b":1,"a":2}}}"#);
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
    fn the_items_that_operations_move_are_limited_together() {
        let items = vec!["1"; 100_000].join(",");
        let document = format!(r#"{{"a":[{items}]}}"#);
        let operations = |path: &str| vec![format!(r#"{{"op":"remove","path":"{path}"}}"#); 3000].join(",");
        let error = patched(&document, &format!("[{}]", operations("/a/0"))).unwrap_err();
        assert!(matches!(error, PatchError::DoesNotApply(text) if text.contains("items of lists")));
        patched(&document, &format!("[{}]", operations("/a/-1"))).unwrap();
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
