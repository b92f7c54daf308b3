//! Patches: compared with a naive implementation of their specifications, and properties that follow from them.

use super::apply::has_nulls;
use super::{Input, same, some_kind};
use crate::fixture::{Fixture, parsed, text};
use crate::generate;
use crate::random::Random;
use pintle_apply::patch;
use pintle_schema::typed;
use pintle_value::{Map, Str, Value};

fn tree(input: &Input, at: usize) -> Option<Value> {
    parsed(input.get(at)?)
}

pub(super) fn json_seed(fixture: &Fixture, random: &mut Random) -> Input {
    let document = if random.one_in(2) {
        generate::any(random, 0)
    } else {
        random.pick(&fixture.bodies).and_then(|body| parsed(body)).unwrap_or_default()
    };
    let mut paths = Vec::new();
    collect_pointers(&document, &mut String::new(), &mut paths);
    let operation = |random: &mut Random| {
        let mut path = || {
            let known = random.pick(&paths).cloned().unwrap_or_default();
            let beyond = random.word(&["", "", "", "/-", "/0", "/a", "/-1", "/~01", "/"]);
            Value::from(known + beyond)
        };
        let (to, from) = (path(), path());
        let op = random.word(&["add", "remove", "replace", "move", "copy", "test"]);
        let mut out: Map = [("op", Value::from(op)), ("path", to)].into_iter().collect();
        if matches!(op, "move" | "copy") || random.one_in(9) {
            out.insert("from", from);
        }
        if matches!(op, "add" | "replace" | "test") || random.one_in(9) {
            out.insert("value", generate::any(random, 2));
        }
        Value::Object(out)
    };
    let patch = (0..1 + random.below(5)).map(|_| operation(random)).collect();
    vec![text(&document), text(&Value::Array(patch))]
}

fn collect_pointers(value: &Value, at: &mut String, out: &mut Vec<String>) {
    out.push(at.clone());
    let step = |name: &str, value: &Value, at: &mut String, out: &mut Vec<String>| {
        let before = at.len();
        at.push('/');
        at.push_str(&name.replace('~', "~0").replace('/', "~1"));
        collect_pointers(value, at, out);
        at.truncate(before);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, member)| step(key, member, at, out)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(n, item)| step(&n.to_string(), item, at, out))
        }
        _ => {}
    }
}

pub(super) fn fuzz_json_patch(_: &Fixture, input: &Input) -> Result<(), String> {
    let (Some(document), Some(operations)) = (tree(input, 0), tree(input, 1)) else { return Ok(()) };
    let naive = rfc6902(&document, &operations);
    let Ok(patch) = patch::json::decode(operations.clone(), &[], false) else { return Ok(()) };
    let ours = patch.apply(document.clone());
    match (naive, ours) {
        (Some(naive), Ok(ours)) => same("RFC 6902", &naive, &ours),
        (Some(_), Err(error)) => Err(format!("refused what RFC 6902 allows: {error}")),
        _ => Ok(()),
    }
}

/// Applies RFC 6902 naively; `None` if it fails or Go deviates.
fn rfc6902(document: &Value, operations: &Value) -> Option<Value> {
    // A document must be an object or a list, and Go's patches treat nulls and numbers of lists specially.
    if !matches!(document, Value::Object(_) | Value::Array(_)) {
        return None;
    }
    let mut document = document.clone();
    for operation in operations.as_array()? {
        let path = steps(operation.get("path")?.as_str()?)?;
        let from = || steps(operation.get("from")?.as_str()?);
        match operation.get("op")?.as_str()? {
            "add" => put(&mut document, &path, operation.get("value")?.clone())?,
            "remove" => _ = take(&mut document, &path)?,
            "replace" => {
                take(&mut document, &path)?;
                put(&mut document, &path, operation.get("value")?.clone())?;
            }
            "move" => {
                let from = from()?;
                if path.starts_with(&from) {
                    return None;
                }
                let value = take(&mut document, &from)?;
                put(&mut document, &path, value)?;
            }
            "copy" => {
                let value = find(&document, &from()?)?.clone();
                put(&mut document, &path, value)?;
            }
            "test" => {
                if *find(&document, &path)? != *operation.get("value")? {
                    return None;
                }
            }
            _ => return None,
        }
    }
    Some(document)
}

/// The steps of a pointer; `None` for the whole document, which Go cannot replace.
fn steps(pointer: &str) -> Option<Vec<String>> {
    let steps = pointer.strip_prefix('/')?.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
    Some(steps.collect())
}

fn array_index(step: &str, len: usize) -> Option<usize> {
    let plain = step == "0" || (!step.starts_with('0') && step.bytes().all(|b| b.is_ascii_digit()));
    step.parse().ok().filter(|at| plain && *at < len)
}

fn find<'v>(value: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(value, |value, step| match value {
        Value::Object(map) => map.get(step),
        Value::Array(items) => items.get(array_index(step, items.len())?),
        _ => None,
    })
}

fn find_parent<'v, 'p>(value: &'v mut Value, path: &'p [String]) -> Option<(&'v mut Value, &'p str)> {
    let (last, before) = path.split_last()?;
    let parent = before.iter().try_fold(value, |value, step| match value {
        Value::Object(map) => map.get_mut(step),
        Value::Array(items) => {
            let at = array_index(step, items.len())?;
            items.get_mut(at)
        }
        _ => None,
    })?;
    Some((parent, last))
}

fn put(document: &mut Value, path: &[String], value: Value) -> Option<()> {
    match find_parent(document, path)? {
        (Value::Object(map), last) => _ = map.insert(last, value),
        (Value::Array(items), "-") => items.push(value),
        (Value::Array(items), last) => {
            let at = array_index(last, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn take(document: &mut Value, path: &[String]) -> Option<Value> {
    match find_parent(document, path)? {
        (Value::Object(map), last) => map.remove(last),
        (Value::Array(items), last) => {
            let at = array_index(last, items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

pub(super) fn merge_seed(fixture: &Fixture, random: &mut Random) -> Input {
    let mut some = || {
        if random.one_in(2) {
            Value::Object(
                [("a", generate::any(random, 0)), ("b", generate::any(random, 0))].into_iter().collect(),
            )
        } else {
            random.pick(&fixture.bodies).and_then(|body| parsed(body)).unwrap_or_default()
        }
    };
    vec![text(&some()), text(&some())]
}

pub(super) fn merge(_: &Fixture, input: &Input) -> Result<(), String> {
    let (Some(document), Some(patch)) = (tree(input, 0), tree(input, 1)) else { return Ok(()) };
    let Ok(ours) = patch::merge::apply(document.clone(), patch.clone(), true) else { return Ok(()) };
    same("no change", &Ok(ours.clone()), &patch::merge::apply(ours.clone(), Value::object(), true))?;
    if has_lists_with_nulls(&patch) {
        // Whether Go removes nulls from such lists depends on what they replace.
        return Ok(());
    }
    same("RFC 7386", &merge_by_rfc7386(document, &patch), &ours)?;
    match patch::merge::apply(ours.clone(), patch, true) {
        Ok(twice) => same("twice is once", &ours, &twice),
        // Too deep, which is only detected where both have a value.
        Err(_) => Ok(()),
    }
}

fn has_lists_with_nulls(patch: &Value) -> bool {
    match patch {
        Value::Array(_) => has_nulls(patch),
        Value::Object(map) => map.values().any(has_lists_with_nulls),
        _ => false,
    }
}

fn merge_by_rfc7386(target: Value, patch: &Value) -> Value {
    let Value::Object(patch) = patch else { return patch.clone() };
    let mut target = match target {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    for (key, value) in patch.iter() {
        if value.is_null() {
            target.remove(key);
        } else {
            let before = target.remove(key).unwrap_or_default();
            target.insert(key.clone(), merge_by_rfc7386(before, value));
        }
    }
    Value::Object(target)
}

pub(super) fn strategic_seed(fixture: &Fixture, random: &mut Random) -> Input {
    let Some(kind) = some_kind(fixture, random) else { return Input::new() };
    let mut patch = generate::value(&kind.schema, random);
    if random.one_in(3) {
        direct(random, &mut patch);
    }
    vec![kind.name.clone().into(), text(&generate::value(&kind.schema, random)), text(&patch)]
}

/// Adds directives to a patch.
fn direct(random: &mut Random, patch: &mut Value) {
    match patch {
        Value::Object(map) => {
            let keys: Vec<Str> = map.keys().cloned().collect();
            let key = random.pick(&keys).cloned().unwrap_or_default();
            match random.below(6) {
                0 => _ = map.insert("$patch", random.word(&["replace", "delete", "merge", "other"]).into()),
                1 => {
                    let keys = keys.iter().filter(|_| random.one_in(2)).cloned().map(Value::String);
                    _ = map.insert("$retainKeys", Value::Array(keys.collect()));
                }
                2 | 3 => {
                    let list = map.get(&key).cloned().unwrap_or_default();
                    _ = map.insert(format!("$setElementOrder/{key}"), list);
                }
                4 => {
                    let list = map.get(&key).cloned().unwrap_or_default();
                    _ = map.insert(format!("$deleteFromPrimitiveList/{key}"), list);
                }
                _ => {}
            }
            map.iter_mut().for_each(|(_, member)| direct(random, member));
        }
        Value::Array(items) => items.iter_mut().for_each(|item| direct(random, item)),
        _ => {}
    }
}

pub(super) fn fuzz_strategic_patch(fixture: &Fixture, input: &Input) -> Result<(), String> {
    let kind = fixture.kind(input.first().map(Vec::as_slice).unwrap_or_default());
    let Some(kind) = kind.filter(|kind| kind.schema.decodes_into_go_struct()) else { return Ok(()) };
    let (Some(document), Some(patch)) = (tree(input, 1), tree(input, 2)) else { return Ok(()) };
    let Ok(document) = typed::decode(&kind.schema, document, None) else { return Ok(()) };
    let Ok(once) = patch::strategic::apply(document.clone(), patch.clone(), &kind.schema) else {
        return Ok(());
    };
    let unchanged = patch::strategic::apply(document.clone(), Value::object(), &kind.schema);
    same("no change", &Ok(document), &unchanged)?;
    let mut unknown = typed::Strict::default();
    let is_typed = typed::decode(&kind.schema, patch.clone(), Some(&mut unknown)).is_ok();
    if is_directed(&patch) || !is_typed || !unknown.unknown.is_empty() {
        return Ok(());
    }
    // A first apply takes a list unchanged, with items that repeat or have no key; the second one merges with it.
    let again = |document: Value| patch::strategic::apply(document, patch.clone(), &kind.schema);
    let Ok(twice) = again(once) else { return Ok(()) };
    same("thrice is twice", &Ok(twice.clone()), &again(twice))
}

fn is_directed(patch: &Value) -> bool {
    match patch {
        Value::Object(map) => map.iter().any(|(key, value)| key.starts_with('$') || is_directed(value)),
        Value::Array(items) => items.iter().any(is_directed),
        Value::Null => true,
        _ => false,
    }
}
