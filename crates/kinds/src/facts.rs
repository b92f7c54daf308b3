//! What must hold for single fields: the facts of `data/facts/`, one file per group, and the walker that checks them.
//!
//! Hooks call [`check`] where kube-apiserver validates the struct, so that errors appear in its order, and add what
//! relates several fields or the old and the new object. The grammar of the files is in `data/facts/README`.

mod format;
mod union;

pub(crate) use union::{UnionMember, check_union};

use crate::{check as checks, fields};
use format::{Format, format_named};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};
use std::collections::HashMap;
use std::sync::LazyLock;
use union::Union;

const FILES: [&str; 15] = [
    include_str!("../data/facts/admissionregistration.txt"),
    include_str!("../data/facts/apiregistration.txt"),
    include_str!("../data/facts/apps.txt"),
    include_str!("../data/facts/autoscaling.txt"),
    include_str!("../data/facts/batch.txt"),
    include_str!("../data/facts/coordination.txt"),
    include_str!("../data/facts/core.txt"),
    include_str!("../data/facts/discovery.txt"),
    include_str!("../data/facts/flowcontrol.txt"),
    include_str!("../data/facts/networking.txt"),
    include_str!("../data/facts/node.txt"),
    include_str!("../data/facts/policy.txt"),
    include_str!("../data/facts/resource.txt"),
    include_str!("../data/facts/scheduling.txt"),
    include_str!("../data/facts/storage.txt"),
];

static BLOCKS: LazyLock<HashMap<&'static str, Block>> = LazyLock::new(|| {
    let mut blocks: HashMap<&str, Block> = HashMap::new();
    let mut name = "";
    for line in FILES.iter().flat_map(|file| file.lines()).filter(|line| !line.starts_with('#')) {
        let Some(facts) = line.strip_prefix(' ') else {
            name = line;
            continue;
        };
        let block = blocks.entry(name).or_default();
        match facts.strip_prefix("one-of ") {
            Some(union) => block.union = Some(Union::parse(union)),
            None => block.facts.extend(Fact::parse(facts)),
        }
    }
    blocks
});

/// The facts of a struct.
#[derive(Default)]
struct Block {
    /// The fields of which exactly one must be set.
    union: Option<Union>,
    facts: Vec<Fact>,
}

fn facts_of(block: &str) -> &'static [Fact] {
    BLOCKS.get(block).map_or(&[], |block| &block.facts)
}

/// Checks all facts of a block (`core/v1.Probe`) of a struct, in order. A union whose members a hook validates is left to
/// [`check_union`].
pub(crate) fn check(object: &Value, block: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    debug_assert!(BLOCKS.contains_key(block), "no facts of {block}");
    if let Some(Union { texts: None, members }) = BLOCKS.get(block).and_then(|block| block.union.as_ref()) {
        union::require_one(object, members, path, errors);
    }
    for fact in facts_of(block) {
        if !fact.check(object, path, errors) {
            return;
        }
    }
}

/// Checks the facts of these fields, for structs of which kube-apiserver validates other things in between.
pub(crate) fn check_fields(
    object: &Value,
    block: &str,
    fields: &[&str],
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let facts = facts_of(block);
    debug_assert!(
        fields.iter().all(|field| facts.iter().any(|fact| fact.field == *field)),
        "no facts of {block}: {fields:?}"
    );
    for fact in facts.iter().filter(|fact| fields.contains(&fact.field)) {
        fact.check(object, path, errors);
    }
}

/// Checks the facts of one field for its value, whose errors have a path of their own.
pub(crate) fn check_member(
    value: &Value,
    block: &str,
    field: &str,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    for fact in facts_of(block).iter().filter(|fact| fact.field == field) {
        fact.check_value(Some(value), path, errors);
    }
}

/// The requirements for one field.
struct Fact {
    field: &'static str,
    /// The name of the field in errors.
    error_name: &'static str,
    presence: Presence,
    checks: Vec<Check>,
    /// The text of the error, if it is not the usual one.
    detail: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Presence {
    /// An absent value is checked as the zero value.
    Any,
    /// An absent value is fine.
    Present,
    /// An absent value is fine, an empty one is an error.
    NonEmpty,
    /// An absent or empty value is fine.
    Optional,
    /// An absent value is an error.
    Given,
    /// An absent or empty value is an error.
    Required,
    /// An absent or empty value is an error, and nothing else of the struct is checked then.
    RequiredFirst,
}

#[derive(Clone)]
enum Check {
    In(Vec<&'static str>),
    Range(i64, i64),
    MaxBytes(usize),
    MaxItems(usize),
    Format(Format),
    /// Checks each text of a list.
    Each(Format),
    /// Checks a struct with a block.
    Block(&'static str),
    /// Checks each struct of a list with a block.
    Blocks(&'static str),
}

impl Fact {
    /// Parses a line; one that names several fields gives a fact for each.
    fn parse(line: &'static str) -> Vec<Fact> {
        let (words, detail) = line.split_once(" : ").unwrap_or((line, ""));
        let mut words = words.split(' ');
        let names = words.next().unwrap_or_default();
        let (mut presence, mut checks, mut alias) = (Presence::Any, Vec::new(), None);
        for word in words {
            match word.split_once('=').unwrap_or((word, "")) {
                ("present", _) => presence = Presence::Present,
                ("nonempty", _) => presence = Presence::NonEmpty,
                ("optional", _) => presence = Presence::Optional,
                ("given", _) => presence = Presence::Given,
                ("required", _) => presence = Presence::Required,
                ("required!", _) => presence = Presence::RequiredFirst,
                ("as", name) => alias = Some(name),
                ("in", values) => checks.push(Check::In(values.split('|').collect())),
                ("bytes", max) => checks.extend(max.parse().map(Check::MaxBytes)),
                ("items", max) => checks.extend(max.parse().map(Check::MaxItems)),
                ("each", name) => checks.extend(format_named(name).map(Check::Each)),
                (name, _) if name.contains("..") => checks.extend(parse_range(name)),
                (name, _) if name.contains('/') => checks.push(match name.strip_prefix("[]") {
                    Some(item) => Check::Blocks(item),
                    None => Check::Block(name),
                }),
                (name, _) => checks.extend(format_named(name).map(Check::Format)),
            }
        }
        let fact = |field| Fact {
            field,
            error_name: alias.unwrap_or(field),
            presence,
            checks: checks.clone(),
            detail,
        };
        names.split(',').map(fact).collect()
    }

    /// Returns whether the other facts of the struct are to be checked.
    fn check(&self, object: &Value, path: &Path<'_>, errors: &mut FieldErrors) -> bool {
        self.check_value(fields::member(object, self.field), &path.field(self.error_name), errors)
    }

    fn check_value(&self, value: Option<&Value>, path: &Path<'_>, errors: &mut FieldErrors) -> bool {
        match self.presence {
            Presence::Present | Presence::NonEmpty if value.is_none() => return true,
            Presence::Optional if is_unset(value) => return true,
            Presence::Given if value.is_none() => {
                errors.required(path, self.detail);
                return true;
            }
            Presence::Required | Presence::RequiredFirst | Presence::NonEmpty if is_unset(value) => {
                errors.required(path, self.detail);
                return self.presence != Presence::RequiredFirst;
            }
            _ => {}
        }
        for check in &self.checks {
            check.apply(value.unwrap_or(&Value::Null), self.detail, path, errors);
        }
        true
    }
}

impl Check {
    fn apply(&self, value: &Value, detail: &str, path: &Path<'_>, errors: &mut FieldErrors) {
        match self {
            Check::In(supported) => {
                let items = value.as_array().unwrap_or(std::slice::from_ref(value));
                for text in items.iter().map(|item| item.as_str().unwrap_or("")) {
                    checks::supported(path, Some(text), supported, errors);
                }
            }
            Check::Range(min, max) => {
                let number = value.as_int().unwrap_or(0);
                if !(*min..=*max).contains(&number) {
                    errors.invalid(path, number, &range_detail(*min, *max, detail));
                }
            }
            Check::MaxBytes(max) if value.as_str().is_some_and(|text| text.len() > *max) => {
                errors.too_long(path, *max)
            }
            Check::MaxItems(max) => {
                let count = value.as_array().map_or(0, <[Value]>::len);
                if count > *max {
                    errors.too_many(path, count, *max);
                }
            }
            Check::MaxBytes(_) => {}
            Check::Format(format) => format(path, value, errors),
            Check::Each(format) => {
                for (at, item) in value.as_array().unwrap_or(&[]).iter().enumerate() {
                    format(&path.index(at), item, errors);
                }
            }
            Check::Block(block) => check(value, block, path, errors),
            Check::Blocks(block) => {
                for (at, item) in value.as_array().unwrap_or(&[]).iter().enumerate() {
                    check(item, block, &path.index(at), errors);
                }
            }
        }
    }
}

/// `""`, 0 and an empty list are unset; `false` and `{}` of a pointer are not.
pub(crate) fn is_unset(value: Option<&Value>) -> bool {
    match value {
        None | Some(Value::Null | Value::Int(0)) => true,
        Some(Value::String(text)) => text.is_empty(),
        Some(Value::Array(items)) => items.is_empty(),
        Some(_) => false,
    }
}

fn parse_range(word: &str) -> Option<Check> {
    let (min, max) = word.split_once("..")?;
    let bound = |text: &str, open: i64| if text.is_empty() { Some(open) } else { text.parse().ok() };
    Some(Check::Range(bound(min, i64::MIN)?, bound(max, i64::MAX)?))
}

fn range_detail(min: i64, max: i64, detail: &str) -> String {
    match (min, max) {
        _ if !detail.is_empty() => detail.to_string(),
        (1, i64::MAX) => "must be greater than zero".to_string(),
        (min, i64::MAX) => format!("must be greater than or equal to {min}"),
        (i64::MIN, max) => format!("must be less than or equal to {max}"),
        (min, max) => names::range_error(min, max),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin::TYPES;

    fn members(name: &str) -> Vec<(&'static str, &'static str)> {
        let head = format!("\nstruct {name}\n");
        let atomic = format!("\nstruct {name} atomic\n");
        let start = TYPES.find(&head).map(|at| at + head.len());
        let start = start.or_else(|| TYPES.find(&atomic).map(|at| at + atomic.len()));
        let lines = TYPES[start.unwrap_or_else(|| panic!("no type {name}"))..].lines();
        let words =
            lines.take_while(|line| line.starts_with(' ')).map(|line| line.trim().split_once(' ').unwrap());
        words
            .flat_map(|(key, rest)| {
                let expr = rest.split(' ').next().unwrap();
                if key == "inline" { members(expr) } else { vec![(key, expr)] }
            })
            .collect()
    }

    #[test]
    fn files_name_types_fields_and_formats() {
        let mut block = "";
        for line in FILES.iter().flat_map(|file| file.lines()).filter(|line| !line.starts_with('#')) {
            let Some(facts) = line.strip_prefix(' ') else {
                block = line;
                continue;
            };
            let members = members(block.split('#').next().unwrap());
            if let Some(union) = facts.strip_prefix("one-of ") {
                for member in Union::parse(union).members {
                    assert!(members.iter().any(|(key, _)| *key == member.field), "{block} {}", member.field);
                }
                continue;
            }
            let words = facts.split(" : ").next().unwrap();
            let expected = words.split(' ').skip(1).filter(|word| {
                !word.starts_with("as=")
                    && !matches!(
                        *word,
                        "present" | "nonempty" | "optional" | "given" | "required" | "required!"
                    )
            });
            let expected = expected.count();
            for fact in Fact::parse(facts) {
                let member = members.iter().find(|(key, _)| *key == fact.field);
                let (_, expr) = member.unwrap_or_else(|| panic!("{block} {}", fact.field));
                assert_eq!(fact.checks.len(), expected, "{block} {line}");
                for check in &fact.checks {
                    let (inner, prefix) = match check {
                        Check::Block(inner) => (inner, ""),
                        Check::Blocks(inner) => (inner, "[]"),
                        _ => continue,
                    };
                    assert!(BLOCKS.contains_key(inner), "{inner}");
                    let name = format!("{prefix}{}", inner.split('#').next().unwrap());
                    assert_eq!(expr.trim_start_matches('*'), name, "{block} {line}");
                }
            }
        }
    }

    /// Returns whether a description says this limit; formats and blocks are no limits.
    fn mentions(text: &str, check: &Check) -> bool {
        let number = |number: &i64| text.contains(&number.to_string());
        match check {
            Check::In(values) => values.iter().all(|value| text.contains(value)),
            Check::MaxBytes(max) | Check::MaxItems(max) => [(*max, ""), (max / 1024, " KiB")]
                .iter()
                .any(|(max, unit)| text.contains(&format!("{max}{unit}"))),
            Check::Range(0, i64::MAX) => text.contains('0') || text.to_lowercase().contains("not negative"),
            Check::Range(1, i64::MAX) => text.contains('1') || text.to_lowercase().contains("positive"),
            Check::Range(min, i64::MAX) => number(min),
            Check::Range(i64::MIN, max) => number(max),
            Check::Range(min, max) => number(min) && number(max),
            _ => true,
        }
    }

    /// What a status may contain concerns controllers only, so that its descriptions need no limits.
    #[test]
    fn descriptions_mention_limits() {
        let mut unmentioned = Vec::new();
        let mut blocks: Vec<_> = BLOCKS.iter().collect();
        blocks.sort_by_key(|(name, _)| **name);
        for (block, Block { facts, .. }) in blocks {
            let type_ = block.split('#').next().unwrap();
            for fact in facts.iter().filter(|_| !type_.ends_with("Status")) {
                let Some(text) = crate::descriptions::of_go_field(type_, fact.field) else { continue };
                if !fact.checks.iter().all(|check| mentions(text, check)) {
                    unmentioned.push(format!("{block} {}: {text}", fact.field));
                }
            }
        }
        assert!(unmentioned.is_empty(), "{unmentioned:#?}");
    }

    #[test]
    fn errors_are_in_order_and_have_the_texts_of_kube_apiserver() {
        let mut errors = FieldErrors::new();
        let port = crate::testing::tree(r#"{"hostPort":70000,"protocol":"X"}"#);
        check(&port, "core/v1.ContainerPort", &Path::of("p"), &mut errors);
        assert_eq!(
            errors.0.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "p.containerPort: Required value",
                "p.hostPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                r#"p.protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP""#,
            ]
        );
    }
}
