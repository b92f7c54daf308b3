//! Validation takes time proportional to the object: a list of many items must not be compared item by item with itself or
//! with another list, because one request can have lists of a hundred thousand items.
//!
//! The test puts many different items into the lists of each struct of each built-in kind: into one list at a time, and
//! into all of them at once.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use pintle_kinds::{Kind, KindVersion, Scope, builtin};
use pintle_meta::FieldErrors;
use pintle_schema::{Arena, NodeId, Shape};
use pintle_value::{Map, Str, Value};
use rustix::time::{ClockId, clock_gettime};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many items the lists have: objects with `few` are validated [`FACTOR`] times, one with `FACTOR * few` once.
const FEW: [usize; 2] = [30, 400];
const FACTOR: usize = 8;
/// Proportional time is the same for both; comparing all pairs of items takes [`FACTOR`] times as long for the long list.
const GROWTH_MAX: f64 = 2.0;
/// Objects that take less processor time are not compared, because constant costs and noise dominate.
const TIME_MIN: Duration = Duration::from_millis(3);

/// A path from an object to a list or a struct: names of fields, and "" for an item of a list.
type Steps = Vec<Str>;

/// Finds the lists in structs below a node, and the structs with several lists. Each struct is visited once, because kinds
/// that share it also share its rules.
fn find(arena: &Arena, id: NodeId, steps: &mut Steps, known: &mut HashSet<NodeId>, found: &mut Vec<Steps>) {
    if !known.insert(id) {
        return;
    }
    match &arena.node(id).shape {
        Shape::List { item, .. } => {
            steps.push(Str::default());
            find(arena, *item, steps, known, found);
            steps.pop();
        }
        Shape::Struct(fields) => {
            let mut lists = 0;
            for field in fields.fields.iter().filter(|field| field.name != "managedFields") {
                steps.push(field.name.clone());
                if let Shape::List { .. } = arena.node(field.node).shape {
                    found.push(steps.clone());
                    lists += 1;
                }
                find(arena, field.node, steps, known, found);
                steps.pop();
            }
            if lists > 1 {
                found.push(steps.clone());
            }
        }
        _ => {}
    }
}

/// A value whose texts and numbers contain `number`. Lists and maps below it are empty.
fn item(arena: &Arena, id: NodeId, number: usize, depth: usize) -> Value {
    match &arena.node(id).shape {
        Shape::String | Shape::IntOrString => Value::from(format!("x{number}")),
        Shape::Int { .. } => Value::Int(i64::try_from(number).unwrap()),
        Shape::Struct(fields) if depth < 2 => {
            let mut map = Map::new();
            for field in &fields.fields {
                if !matches!(
                    arena.node(field.node).shape,
                    Shape::List { .. } | Shape::Map { .. } | Shape::Any
                ) {
                    map.insert(field.name.clone(), item(arena, field.node, number, depth + 1));
                }
            }
            Value::Object(map)
        }
        Shape::Struct(_) => Value::object(),
        _ => Value::Null,
    }
}

/// An object with long lists at `steps`, which lead to a list or to a struct with lists; the lists on the way have one item
/// each. `numbers` are those of the items.
fn object(arena: &Arena, id: NodeId, steps: &[Str], numbers: &Range<usize>) -> Value {
    match (&arena.node(id).shape, steps) {
        (Shape::List { item: of, .. }, []) => {
            Value::Array(numbers.clone().map(|number| item(arena, *of, number, 0)).collect())
        }
        (Shape::List { item: of, .. }, [_, rest @ ..]) => {
            Value::Array(vec![object(arena, *of, rest, numbers)])
        }
        (Shape::Struct(fields), []) => {
            let mut map = Map::new();
            for field in fields.fields.iter().filter(|field| field.name != "managedFields") {
                if let Shape::List { .. } = arena.node(field.node).shape {
                    map.insert(field.name.clone(), object(arena, field.node, &[], numbers));
                }
            }
            Value::Object(map)
        }
        (Shape::Struct(fields), [name, rest @ ..]) => {
            let field = fields.fields.iter().find(|field| field.name == *name).unwrap();
            let mut map = Map::new();
            map.insert(name.clone(), object(arena, field.node, rest, numbers));
            Value::Object(map)
        }
        _ => Value::Null,
    }
}

/// The time that this thread has run. Other processes on the machine do not add to it.
fn processor_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}

/// Runs the rules of a kind on a new object and on changed ones.
fn validate(kind: &Kind, version: &KindVersion, scope: Scope<'_>, object: &Value, old: &Value) {
    let hooks = version.hooks;
    let mut new = object.clone();
    if scope == Scope::Main {
        version.apply_defaults(&mut new);
        kind.prepare_create(hooks, &mut new);
        hooks.validate_create_in(version, object, &mut FieldErrors::new());
        hooks.warnings(object, Some(old));
    }
    kind.prepare_update(hooks, scope, &mut new, old);
    hooks.validate_update_in(version, scope, object, old, &mut FieldErrors::new());
    hooks.validate_update_in(version, scope, object, object, &mut FieldErrors::new());
    hooks.validate_against_old(scope, object, old, &mut FieldErrors::new());
}

/// How the processor time grows, if that is more than proportional for all sizes that take long enough to tell. A single
/// size does not prove it: errors may print a whole list, until their size reaches its limit.
fn growth(kind: &Kind, version: &KindVersion, steps: &[Str]) -> Vec<f64> {
    let (arena, root) = (version.schema.arena(), version.schema.root());
    let is_status = steps.first().is_some_and(|first| first == "status");
    let scope = if is_status { Scope::Sub("status") } else { Scope::Main };
    let time = |items: usize, times: usize| {
        // Half of the old items are also in the new list.
        let [new, old] =
            [0..items, items / 2..items + items / 2].map(|numbers| object(arena, root, steps, &numbers));
        let begin = processor_time();
        (0..times).for_each(|_| validate(kind, version, scope, &new, &old));
        processor_time() - begin
    };
    let mut out = Vec::new();
    for few in FEW {
        let long = time(few * FACTOR, 1);
        if long < TIME_MIN {
            continue;
        }
        let growth = long.as_secs_f64() / time(few, FACTOR).as_secs_f64();
        if growth < GROWTH_MAX {
            return Vec::new();
        }
        out.push(growth);
    }
    out
}

#[test]
fn long_lists_are_validated_in_linear_time() {
    let builtin = builtin();
    let (mut cases, mut known) = (Vec::new(), HashSet::new());
    for kind in &builtin.kinds {
        let (version, mut found) = (kind.storage_version(), Vec::new());
        find(version.schema.arena(), version.schema.root(), &mut Vec::new(), &mut known, &mut found);
        cases.extend(found.into_iter().map(|steps| (kind, version, steps)));
    }
    assert!(cases.len() > 300, "only {} cases", cases.len());
    // The processor time of a thread does not depend on the others.
    let next = AtomicUsize::new(0);
    let measure = || {
        let mut slow = Vec::new();
        while let Some((kind, version, steps)) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
            let growth = growth(kind, version, steps);
            if !growth.is_empty() {
                slow.push(format!("{} {}: {growth:.1?}\n", kind.kind, steps.join(".")));
            }
        }
        slow
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let slow: Vec<String> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(measure)).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    });
    assert!(slow.is_empty(), "{} of {} cases:\n{}", slow.len(), cases.len(), slow.concat());
}
