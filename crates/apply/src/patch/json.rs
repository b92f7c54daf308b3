//! JSON Patch (RFC 6902) with kube-apiserver's extensions: negative indices count from the end, replacing an absent
//! member adds it, a missing value is `null`.

mod pointer;
#[cfg(test)]
mod tests;

use super::PatchError;
use pintle_meta::field::quoted;
use pintle_value::{RawJson, Str, Value, json};
use pointer::{Parent, child, existing_index, insert, open, parent, parent_mut, take};
use std::borrow::Cow;

/// The maximum number of operations of a patch.
pub const OPERATIONS_MAX: usize = 10_000;
/// The size limit in bytes of JSON that all `copy` operations of a patch may add together.
pub const COPY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// The maximum number of list items that all operations of a patch may shift together.
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
    /// Whether the value is a null that no value equals.
    has_written_null: bool,
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
                strict_errors.push(format!("json patch duplicate field {}", quoted(path)));
            }
        }
        operations.push(read_operation(item, index, strict, &mut strict_errors)?);
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

fn read_operation(
    item: Value,
    index: usize,
    strict: bool,
    strict_errors: &mut Vec<String>,
) -> Result<Operation, PatchError> {
    let mut operation =
        Operation { kind: None, path: None, from: None, value: None, has_written_null: false };
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
                    let path = quoted(&format!("[{index}].{key}"));
                    strict_errors.push(format!("json patch unknown field {path}"));
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

    /// Makes every `test` for null fail. In kube-apiserver it only succeeds in a patch that was parsed, where null is the
    /// absence of a value; a mutating policy makes its patches of values.
    #[must_use]
    pub fn with_written_nulls(mut self) -> Self {
        for operation in &mut self.operations {
            operation.has_written_null = operation.value == Some(Value::Null);
        }
        self
    }

    /// Applies the operations in order; the first failure ends it.
    pub fn apply(&self, mut document: Value) -> Result<Value, PatchError> {
        let mut cost = PatchCost::default();
        for operation in &self.operations {
            operation.apply(&mut document, &mut cost)?;
        }
        Ok(document)
    }
}

type Step<T> = Result<T, String>;

/// The accumulated cost of a patch's operations.
#[derive(Default)]
struct PatchCost {
    copied_bytes: usize,
    moved_items: usize,
}

impl PatchCost {
    /// Charges `bytes` of a copy. The text is kube-apiserver's.
    fn charge_copy(&mut self, bytes: usize) -> Step<()> {
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
        if self.moved_items > MOVED_ITEMS_MAX {
            Err(format!("the operations move more than {MOVED_ITEMS_MAX} items of lists"))
        } else {
            Ok(())
        }
    }
}

impl Operation {
    fn apply(&self, document: &mut Value, cost: &mut PatchCost) -> Result<(), PatchError> {
        let done = match self.kind.as_deref() {
            Some("add") => self.add(document, cost),
            Some("remove") => self.remove(document, cost),
            Some("replace") => self.replace(document),
            Some("move") => self.shift(document, cost),
            Some("copy") => self.copy(document, cost),
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

    fn add(&self, document: &mut Value, cost: &mut PatchCost) -> Step<()> {
        let path = self.path("add")?;
        let Some(place) = parent_mut(document, path) else {
            return Err(format!(
                "add operation does not apply: doc is missing path: \"{path}\": missing value"
            ));
        };
        insert(place, self.given(), cost).map_err(|why| format!("error in add for path: '{path}': {why}"))
    }

    fn remove(&self, document: &mut Value, cost: &mut PatchCost) -> Step<()> {
        let path = self.path("remove")?;
        let Some(place) = parent_mut(document, path) else {
            return Err(format!(
                "remove operation does not apply: doc is missing path: \"{path}\": missing value"
            ));
        };
        take(place, cost).map(|_| ()).map_err(|why| format!("error in remove for path: '{path}': {why}"))
    }

    fn shift(&self, document: &mut Value, cost: &mut PatchCost) -> Step<()> {
        let from = self.from("move")?;
        let Some(place) = parent_mut(document, from) else {
            return Err(format!(
                "move operation does not apply: doc is missing from path: {from}: missing value"
            ));
        };
        let key = place.1.clone();
        let value = take(place, cost).map_err(|why| format!("error in move for path: '{key}': {why}"))?;
        let path = self.path("move")?;
        let Some(place) = parent_mut(document, path) else {
            return Err(format!(
                "move operation does not apply: doc is missing destination path: {path}: missing value"
            ));
        };
        insert(place, value, cost).map_err(|why| format!("error in move for path: '{path}': {why}"))
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

    fn copy(&self, document: &mut Value, cost: &mut PatchCost) -> Step<()> {
        let from = self.from("copy")?;
        let (parent, key) = parent(document, from).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing from path: {from}: missing value")
        })?;
        child(parent, &key).map_err(|why| format!("error in copy for from: '{from}': {why}"))?;
        let path = self.path("copy")?;
        // Both paths are looked up before the value is copied, which sorts the keys of the objects on the way.
        parent_mut(document, from);
        if parent_mut(document, path).is_none() {
            return Err(format!(
                "copy operation does not apply: doc is missing destination path: {path}: missing value"
            ));
        }
        let value = self::parent(document, from)
            .and_then(|(parent, key)| child(parent, &key).ok().flatten().cloned())
            .unwrap_or_default();
        let Some(place) = parent_mut(document, path) else { return Ok(()) };
        let bytes = json::bytes(&value);
        cost.charge_copy(bytes.len())?;
        insert(place, value, cost).map_err(|why| format!("error while adding value during copy: {why}"))
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
        Ok(!self.has_written_null && is_equal(found.unwrap_or(&mut Value::Null), expected))
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
