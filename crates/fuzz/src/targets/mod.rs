//! The targets: inputs and the properties that must hold. A new target is a function and a line in the table.

mod apply;
mod cel;
mod codecs;
mod patches;
mod texts;

use crate::fixture::{Fixture, Kind, parsed, text};
use crate::generate;
use crate::mutate;
use crate::random::Random;
use pintle_value::Value;

/// An input: its parts, such as a document and a patch.
pub(crate) type Input = Vec<Vec<u8>>;

/// A tested function with its inputs.
pub(crate) struct Target {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    /// Generates a valid or nearly valid input.
    pub(crate) seed: fn(&Fixture, &mut Random) -> Input,
    /// How inputs are mutated.
    pub(crate) form: Form,
    /// Checks the properties; the error describes the violation.
    pub(crate) check: fn(&Fixture, &Input) -> Result<(), String>,
}

/// The form of an input's parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// Mostly JSON.
    Json,
    /// Any bytes.
    Bytes,
}

const fn target(
    name: &'static str,
    what: &'static str,
    seed: fn(&Fixture, &mut Random) -> Input,
    form: Form,
    check: fn(&Fixture, &Input) -> Result<(), String>,
) -> Target {
    Target { name, what, seed, form, check }
}

pub(crate) const TARGETS: &[Target] = &[
    target("json", "JSON, untyped and typed", object_json, Form::Json, codecs::fuzz_json),
    target("yaml", "YAML", codecs::yaml_seed, Form::Bytes, codecs::fuzz_yaml),
    target("cbor", "CBOR", codecs::cbor_seed, Form::Bytes, codecs::fuzz_cbor),
    target("protobuf", "protobuf", codecs::protobuf_seed, Form::Bytes, codecs::fuzz_protobuf),
    target("json-patch", "JSON Patch", patches::json_seed, Form::Json, patches::fuzz_json_patch),
    target("merge-patch", "JSON Merge Patch", patches::merge_seed, Form::Json, patches::merge),
    target(
        "strategic-patch",
        "strategic merge patch",
        patches::strategic_seed,
        Form::Json,
        patches::fuzz_strategic_patch,
    ),
    target("apply", "histories of server-side apply", apply::seed, Form::Json, apply::check),
    target("fieldset", "FieldsV1", texts::fields_seed, Form::Json, texts::fuzz_field_sets),
    target("selector", "label and field selectors", texts::selector_seed, Form::Bytes, texts::fuzz_selectors),
    target("quantity", "quantities", texts::quantity_seed, Form::Bytes, texts::fuzz_quantities),
    target("schema", "schemas of custom resources", texts::schema_seed, Form::Json, texts::fuzz_schemas),
    target("cel", "expressions of CEL", cel::seed, Form::Json, cel::check),
];

/// Mutates one part of an input, or none.
pub(crate) fn mutate(target: &Target, fixture: &Fixture, random: &mut Random, input: &mut Input) {
    if random.one_in(8) {
        return;
    }
    let at = random.below(input.len());
    let other = random.pick(&fixture.bodies).cloned().unwrap_or_default();
    let Some(part) = input.get_mut(at) else { return };
    if target.form == Form::Json
        && !random.one_in(4)
        && let Some(mut tree) = parsed(part)
    {
        mutate::tree(random, &mut tree);
        *part = text(&tree);
        part.truncate(mutate::BYTES_MAX);
        return;
    }
    mutate::bytes(random, part, &other);
}

/// A random kind, mostly one that clients use often.
fn some_kind<'w>(fixture: &'w Fixture, random: &mut Random) -> Option<&'w Kind> {
    random.pick(&fixture.kinds)
}

/// The name of a kind and an object of it.
fn object_json(fixture: &Fixture, random: &mut Random) -> Input {
    let Some(kind) = some_kind(fixture, random) else { return Input::new() };
    if random.one_in(3) {
        return vec![kind.name.clone().into(), random.pick(&fixture.bodies).cloned().unwrap_or_default()];
    }
    vec![kind.name.clone().into(), text(&generate::value(&kind.schema, random))]
}

/// Whether bytes nest deeper than the recursive functions of this program support.
fn is_deep(bytes: &[u8]) -> bool {
    let mut depth = 0i32;
    bytes.iter().any(|byte| {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {}
        }
        depth > 500
    })
}

/// The tree after a round trip through JSON, which writes a whole number without a point and with the shortest digits that
/// stand for it: beyond 2^53 these may be another integer than the exact value of the float.
fn after_json(value: &Value) -> Value {
    match value {
        Value::Float(f) if f.fract() == 0.0 => f.to_string().parse().map_or(value.clone(), Value::Int),
        Value::Array(items) => Value::Array(items.iter().map(after_json).collect()),
        Value::Object(map) => Value::Object(map.iter().map(|(k, v)| (k.clone(), after_json(v))).collect()),
        other => other.clone(),
    }
}

/// Fails unless both are equal.
fn same<T: PartialEq + std::fmt::Debug>(law: &str, a: &T, b: &T) -> Result<(), String> {
    if a == b {
        return Ok(());
    }
    let [a, b] = [a, b].map(|v| format!("{v:?}"));
    let at = a.bytes().zip(b.bytes()).position(|(a, b)| a != b).unwrap_or(a.len().min(b.len()));
    let printed = |text: &str| text.chars().skip(at.saturating_sub(60)).take(160).collect::<String>();
    Err(format!("{law}\n  one:   …{}\n  other: …{}", printed(&a), printed(&b)))
}
