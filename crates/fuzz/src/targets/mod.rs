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

pub(crate) const TARGETS: &[Target] = &[
    Target {
        name: "json",
        what: "JSON, untyped and typed",
        seed: object_json,
        form: Form::Json,
        check: codecs::fuzz_json,
    },
    Target {
        name: "yaml",
        what: "YAML",
        seed: codecs::yaml_seed,
        form: Form::Bytes,
        check: codecs::fuzz_yaml,
    },
    Target {
        name: "cbor",
        what: "CBOR",
        seed: codecs::cbor_seed,
        form: Form::Bytes,
        check: codecs::fuzz_cbor,
    },
    Target {
        name: "protobuf",
        what: "protobuf",
        seed: codecs::protobuf_seed,
        form: Form::Bytes,
        check: codecs::fuzz_protobuf,
    },
    Target {
        name: "json-patch",
        what: "JSON Patch",
        seed: patches::json_seed,
        form: Form::Json,
        check: patches::fuzz_json_patch,
    },
    Target {
        name: "merge-patch",
        what: "JSON Merge Patch",
        seed: patches::merge_seed,
        form: Form::Json,
        check: patches::merge,
    },
    Target {
        name: "strategic-patch",
        what: "strategic merge patch",
        seed: patches::strategic_seed,
        form: Form::Json,
        check: patches::fuzz_strategic_patch,
    },
    Target {
        name: "apply",
        what: "histories of server-side apply",
        seed: apply::seed,
        form: Form::Json,
        check: apply::check,
    },
    Target {
        name: "fieldset",
        what: "FieldsV1",
        seed: texts::fields_seed,
        form: Form::Json,
        check: texts::fuzz_field_sets,
    },
    Target {
        name: "selector",
        what: "label and field selectors",
        seed: texts::selector_seed,
        form: Form::Bytes,
        check: texts::fuzz_selectors,
    },
    Target {
        name: "quantity",
        what: "quantities",
        seed: texts::quantity_seed,
        form: Form::Bytes,
        check: texts::fuzz_quantities,
    },
    Target {
        name: "schema",
        what: "schemas of custom resources",
        seed: texts::schema_seed,
        form: Form::Json,
        check: texts::fuzz_schemas,
    },
    Target { name: "cel", what: "expressions of CEL", seed: cel::seed, form: Form::Json, check: cel::check },
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
