//! Generates values for a schema that a client might send, most of the time.

use crate::random::Random;
use pintle_schema::{Arena, NodeId, Schema, Shape};
use pintle_value::{Map, Str, Value};

/// The deepest generated values; types that nest arbitrarily end there.
const DEPTH_MAX: usize = 9;
/// One in this many values has another type.
const WRONG_ONE_IN: usize = 150;

pub(crate) const WORDS: &[&str] = &[
    "",
    "a",
    "b",
    "name",
    "default",
    "x-1",
    "Always",
    "TCP",
    "80",
    "1Gi",
    "500m",
    "é",
    "line\nbreak",
    "\"quoted\"",
    "null",
    "true",
    "~",
    "0x1F",
    "1e3",
    "2024-01-02T03:04:05Z",
    "$patch",
    "replace",
    "delete",
    "merge",
    "k: v",
    "- a",
    "#",
    "\u{2028}",
    "\u{7f}",
    "\u{fffd}",
    "&anchor",
    "*alias",
    "!!int 3",
    "[",
    "{",
];
const TIMES: &[&str] =
    &["2024-01-02T03:04:05Z", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2024-02-29T23:59:60+14:00"];
const MICRO_TIMES: &[&str] =
    &["2024-01-02T03:04:05.000001Z", "2024-01-02T03:04:05.999999Z", "1969-12-31T23:59:59.500000Z"];
const DURATIONS: &[&str] = &["1h0m0s", "0s", "1.5s", "100ms", "-3m", "1ns"];
const QUANTITIES: &[&str] =
    &["1", "100m", "1Gi", "0", "-5", "1.5", "1e3", "12E", "0.1n", "1000u", "123456789012345678"];
const NUMBERS: &[i64] =
    &[0, 1, -1, 2, 80, 8080, 65536, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN, 1 << 53];

/// A value of a schema.
pub(crate) fn value(schema: &Schema, random: &mut Random) -> Value {
    Generator { arena: schema.arena(), random }.generate_node(schema.root(), 0)
}

/// A random value of any type.
pub(crate) fn any(random: &mut Random, depth: usize) -> Value {
    let kinds = if depth > 3 { 5 } else { 7 };
    match random.below(kinds) {
        0 => Value::Null,
        1 => Value::Bool(random.one_in(2)),
        2 => Value::Int(random.pick(NUMBERS).copied().unwrap_or(0)),
        3 => Value::Float(*random.pick(&[0.5, -0.0, 1e300, 1e-7, 123456789.25, 1e21, 3.0]).unwrap_or(&0.5)),
        4 => Value::from(random.word(WORDS)),
        5 => Value::Array((0..random.below(4)).map(|_| any(random, depth + 1)).collect()),
        _ => {
            let members = (0..random.below(4)).map(|_| (random.word(WORDS), any(random, depth + 1)));
            Value::Object(members.collect::<Vec<_>>().into_iter().collect())
        }
    }
}

struct Generator<'a> {
    arena: &'a Arena,
    random: &'a mut Random,
}

impl Generator<'_> {
    fn generate_node(&mut self, id: NodeId, depth: usize) -> Value {
        let random = &mut *self.random;
        if random.one_in(WRONG_ONE_IN) {
            return any(random, 2);
        }
        match &self.arena.node(id).shape {
            Shape::Any => any(random, 2),
            Shape::Bool => Value::Bool(random.one_in(2)),
            Shape::Int { bits } => {
                let number = random.pick(NUMBERS).copied().unwrap_or(0);
                Value::Int(if *bits == 32 { i64::from(number as i32) } else { number })
            }
            Shape::Float => Value::Float(*random.pick(&[0.0, 0.5, 3.25, -1.0]).unwrap_or(&0.0)),
            Shape::String => Value::from(random.word(WORDS)),
            Shape::Bytes => Value::from(random.word(&["", "YQ==", "aGVsbG8=", "AAAA"])),
            Shape::Time => Value::from(random.word(TIMES)),
            Shape::MicroTime => Value::from(random.word(MICRO_TIMES)),
            Shape::Duration => Value::from(random.word(DURATIONS)),
            Shape::Quantity => Value::from(random.word(QUANTITIES)),
            Shape::IntOrString if random.one_in(2) => Value::Int(80),
            Shape::IntOrString => Value::from(random.word(&["http", "25%", "80"])),
            Shape::List { .. } | Shape::Map { .. } | Shape::Struct(_) if depth >= DEPTH_MAX => Value::Null,
            Shape::List { item, .. } => {
                let count = self.random.below(3);
                Value::Array((0..count).map(|_| self.generate_node(*item, depth + 1)).collect())
            }
            Shape::Map { value, .. } => {
                let count = self.random.below(3);
                let entries = (0..count)
                    .map(|_| (Str::from(self.random.word(WORDS)), self.generate_node(*value, depth + 1)));
                Value::Object(Map::from_entries(entries.collect()).0)
            }
            Shape::Struct(known) => {
                // Only few of many fields are set, otherwise objects would become too large.
                let sparse = 2 + known.fields.len() / 6;
                let mut entries = Vec::new();
                for field in &known.fields {
                    let wanted = depth < 2 || field.required || self.random.one_in(sparse);
                    if wanted && field.name != "managedFields" {
                        entries.push((field.name.clone(), self.generate_node(field.node, depth + 1)));
                    }
                }
                Value::Object(Map::from_entries(entries).0)
            }
        }
    }
}
