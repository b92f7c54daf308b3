//! Feature gates that decide about built-in kinds: the table of `data/features.txt` says which fields are dropped while a
//! gate is off. The gates are set once, before the first request; without that they have their defaults.

use crate::{Kind, fields};
use pintle_value::Value;
use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, OnceLock};

const TABLE: &str = include_str!("../data/features.txt");
/// The lists that `*containers` abbreviates.
const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

static ENABLED: OnceLock<HashSet<&'static str>> = OnceLock::new();

/// The fields that disabled gates drop, by type.
static DROPPED: LazyLock<HashMap<Type<'static>, Vec<Feature>>> = LazyLock::new(|| {
    let mut dropped: HashMap<Type<'_>, Vec<Feature>> = HashMap::new();
    for (_, _, lines) in gates().filter(|(gate, ..)| !is_enabled(gate)) {
        for line in lines {
            let (name, paths) = line.split_once(' ').unwrap_or((line, ""));
            let (package, ty) = name.split_once('.').unwrap_or((name, ""));
            let package = package.split('/').next().unwrap_or_default();
            dropped.entry((package, ty)).or_default().push(Feature::parse(paths));
        }
    }
    dropped
});

/// Sets the gates for which `enabled` returns true. Only the first call has an effect, and only before a gate is
/// first read.
pub fn configure(enabled: impl Fn(&str) -> bool) {
    _ = ENABLED.set(gates().map(|(gate, ..)| gate).filter(|gate| enabled(gate)).collect());
}

/// Returns whether a gate of the table is enabled.
pub fn is_enabled(gate: &str) -> bool {
    let defaults = || gates().filter(|(_, on, _)| *on).map(|(gate, ..)| gate).collect();
    ENABLED.get_or_init(defaults).contains(gate)
}

/// The gates of the table: name, default, and the lines with their fields.
pub fn gates() -> impl Iterator<Item = (&'static str, bool, impl Iterator<Item = &'static str>)> {
    let lines = || TABLE.lines().filter(|line| !line.starts_with('#'));
    let heads = lines().enumerate().filter(|(_, line)| !line.starts_with(' '));
    heads.map(move |(at, head)| {
        let (gate, default) = head.split_once(' ').unwrap_or((head, ""));
        let fields = lines().skip(at.saturating_add(1)).map_while(|line| line.strip_prefix(' '));
        (gate, default == "on", fields)
    })
}

/// Drops the fields of disabled features from an object of a kind, unless the old object uses the feature.
pub fn drop_disabled(object: &mut Value, kind: &Kind, old: Option<&Value>) {
    let group = kind.group.split('.').next().unwrap_or_default();
    drop_disabled_of((group, &kind.kind), object, old);
}

/// Drops the fields of disabled features from a part of an object, which has the type `ty`.
pub(crate) fn drop_disabled_of(ty: Type<'_>, object: &mut Value, old: Option<&Value>) {
    for feature in DROPPED.get(&ty).into_iter().flatten() {
        let in_use = |old: &Value| feature.shows_use.iter().any(|path| has_field(old, path));
        if !old.is_some_and(in_use) {
            feature.fields.iter().for_each(|path| remove(object, path));
        }
    }
}

/// The first part of the package or group, and the name of the type.
type Type<'a> = (&'a str, &'a str);

struct Feature {
    fields: Vec<Vec<Step>>,
    /// Fields of the old object that show that it uses the feature: the same ones, and possibly more.
    shows_use: Vec<Vec<Step>>,
}

/// A member, and whether the path continues in each of its items or values.
struct Step {
    key: &'static str,
    each: bool,
}

impl Feature {
    fn parse(text: &'static str) -> Feature {
        let (dropped, more) = text.split_once(" | ").unwrap_or((text, ""));
        let paths = |text: &'static str| text.split(' ').filter(|path| !path.is_empty()).flat_map(parse_path);
        Feature { fields: paths(dropped).collect(), shows_use: paths(dropped).chain(paths(more)).collect() }
    }
}

fn parse_path(text: &'static str) -> Vec<Vec<Step>> {
    let steps = |text: &'static str| text.split('.').map(Step::parse).collect::<Vec<Step>>();
    match text.strip_prefix("*containers[].") {
        None => vec![steps(text)],
        Some(rest) => {
            let within = |key| std::iter::once(Step { key, each: true }).chain(steps(rest)).collect();
            CONTAINER_LISTS.into_iter().map(within).collect()
        }
    }
}

impl Step {
    fn parse(text: &'static str) -> Step {
        let item = text.strip_suffix("[]").or_else(|| text.strip_suffix("{}"));
        Step { key: item.unwrap_or(text), each: item.is_some() }
    }
}

fn has_field(value: &Value, path: &[Step]) -> bool {
    let Some((step, rest)) = path.split_first() else { return true };
    let Some(member) = fields::member(value, step.key) else { return false };
    match member {
        Value::Array(items) if step.each => items.iter().any(|item| has_field(item, rest)),
        Value::Object(members) if step.each => members.iter().any(|(_, member)| has_field(member, rest)),
        Value::Array(items) => !items.is_empty(),
        Value::String(text) => !text.is_empty(),
        other => has_field(other, rest),
    }
}

fn remove(value: &mut Value, path: &[Step]) {
    match path {
        [] => {}
        [last] => _ = value.remove_at(&[last.key]),
        [step, rest @ ..] => match value.get_mut(step.key) {
            Some(Value::Array(items)) if step.each => items.iter_mut().for_each(|item| remove(item, rest)),
            Some(Value::Object(members)) if step.each => {
                members.iter_mut().for_each(|(_, member)| remove(member, rest));
            }
            Some(member) => remove(member, rest),
            None => {}
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;
    use pintle_schema::{Arena, NodeId, Shape};

    #[test]
    fn fields_of_disabled_features_are_dropped_unless_they_are_in_use() {
        let ty = ("resource", "ResourceSlice");
        let slice = |attribute: &str| {
            tree(&format!(r#"{{"spec":{{"devices":[{{"name":"a","attributes":{{"x":{attribute}}}}}]}}}}"#))
        };
        let mut new = slice(r#"{"ints":[1],"int":1}"#);
        drop_disabled_of(ty, &mut new, Some(&slice(r#"{"int":1}"#)));
        assert_eq!(new, slice(r#"{"int":1}"#));
        let mut new = slice(r#"{"ints":[1]}"#);
        drop_disabled_of(ty, &mut new, Some(&slice(r#"{"bools":[true]}"#)));
        assert_eq!(new, slice(r#"{"ints":[1]}"#));
    }

    #[test]
    fn paths_name_fields_of_their_types() {
        let types = crate::builtin::builtin().types;
        for (gate, _, lines) in gates() {
            for line in lines {
                let (ty, paths) = line.split_once(' ').unwrap();
                let node = types.nodes.get(ty).unwrap_or_else(|| panic!("{gate}: no type {ty}"));
                for path in Feature::parse(paths).shows_use {
                    assert!(names_field(&types.arena, *node, &path), "{gate}: {line}");
                }
            }
        }
    }

    fn names_field(arena: &Arena, node: NodeId, path: &[Step]) -> bool {
        let Some((step, rest)) = path.split_first() else { return true };
        let Shape::Struct(fields) = &arena.node(node).shape else { return false };
        let Some(field) = fields.field(step.key) else { return false };
        let next = match (&arena.node(field.node).shape, step.each) {
            (Shape::List { item, .. }, true) => *item,
            (Shape::Map { value, .. }, true) => *value,
            (_, true) => return false,
            (_, false) => field.node,
        };
        names_field(arena, next, rest)
    }
}
