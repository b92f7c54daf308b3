//! Small formats: FieldsV1, selectors, quantities, schemas of custom resources.

use super::{Input, same, some_kind};
use crate::fixture::{Fixture, parsed, text};
use crate::generate;
use crate::random::Random;
use pintle_apply::Set;
use pintle_apply::typed::{Type, field_set};
use pintle_meta::quantity::Quantity;
use pintle_meta::selector::{FieldSelector, LabelSelector};
use pintle_meta::{FieldErrors, quantity as quantities};
use pintle_schema::{Arena, Node, Schema, Shape, structural, typed};
use pintle_value::{Path, Value};
use std::sync::Arc;

fn words(input: &Input) -> Option<&str> {
    std::str::from_utf8(input.first()?).ok()
}

pub(super) fn fields_seed(fixture: &Fixture, random: &mut Random) -> Input {
    let Some(kind) = some_kind(fixture, random) else { return Input::new() };
    let value = generate::value(&kind.schema, random);
    vec![text(&field_set(&value, Type::of(&kind.schema)).to_value())]
}

pub(super) fn fuzz_field_sets(_: &Fixture, input: &Input) -> Result<(), String> {
    let Some(fields) = input.first().and_then(|bytes| parsed(bytes)) else { return Ok(()) };
    let Ok(set) = Set::from_value(&fields) else { return Ok(()) };
    let again = Set::from_value(&set.to_value()).map_err(|e| format!("what we wrote we cannot read: {e}"))?;
    same("read, write, read", &set, &again)?;
    let written = parsed(&set.to_json()).ok_or("what we wrote is no JSON")?;
    let again = Set::from_value(&written).map_err(|e| format!("what we wrote we cannot read: {e}"))?;
    same("read, write JSON, read", &set, &again)?;
    same("a set less itself is empty", &set.clone().difference(&set), &Set::new())?;
    same("a set and itself", &set.clone().union(set.clone()), &set)?;
    same("a set within itself", &set.clone().intersection(&set), &set)
}

const SELECTORS: &[&str] = &[
    "a=b",
    "a==b,c!=d",
    "a in (b,c)",
    "a notin (b, c),d",
    "!a",
    "a",
    "a>1,b<2",
    "x.io/a in ()",
    "metadata.name=x",
    "metadata.name!=a\\,b,spec.nodeName=",
    "a=b\\=c",
    "",
    ",",
    "a in (,)",
    "status.phase=Running,metadata.namespace!=b",
];

pub(super) fn selector_seed(_: &Fixture, random: &mut Random) -> Input {
    vec![random.word(SELECTORS).into()]
}

pub(super) fn fuzz_selectors(_: &Fixture, input: &Input) -> Result<(), String> {
    let Some(text) = words(input) else { return Ok(()) };
    if let Ok(selector) = LabelSelector::parse(text) {
        let written = selector.to_string();
        let again = LabelSelector::parse(&written)
            .map_err(|e| format!("{written}: what we wrote we cannot read: {e}"))?;
        same("labels: parse, print, parse", &written, &again.to_string())?;
    }
    if let Ok(selector) = FieldSelector::parse(text) {
        let written = selector.to_string();
        let again = FieldSelector::parse(&written)
            .map_err(|e| format!("{written}: what we wrote we cannot read: {e}"))?;
        same("fields: parse, print, parse", &written, &again.to_string())?;
    }
    Ok(())
}

const QUANTITIES: &[&str] = &[
    "0",
    "1",
    "100m",
    "1Gi",
    "1.5",
    "12e6",
    "3E",
    "0.0000000001",
    "9223372036854775807",
    "-5Ki",
    "1E-3",
    "7n",
    "+1",
    "123456789012345678901234567890",
    ".5",
    "5.",
    "1.25Ei",
    "999999999999999999n",
];

/// Beyond the largest suffix Go writes none at all, which parses to another number.
const SUFFIXED_MAX: f64 = 1e21;

pub(super) fn quantity_seed(_: &Fixture, random: &mut Random) -> Input {
    vec![random.word(QUANTITIES).into()]
}

pub(super) fn fuzz_quantities(_: &Fixture, input: &Input) -> Result<(), String> {
    let Some(text) = words(input) else { return Ok(()) };
    let Ok(parsed) = Quantity::parse(text) else { return Ok(()) };
    if parsed.as_f64().abs() >= SUFFIXED_MAX {
        return Ok(());
    }
    let written = parsed.to_string();
    let again =
        Quantity::parse(&written).map_err(|e| format!("{written}: what we wrote we cannot read: {e}"))?;
    same("canonical form is stable", &written, &again.to_string())?;
    if parsed.cmp(&again).is_ne() {
        return Err(format!("{text} and {written} differ"));
    }
    same("canonical", &quantities::canonical(text).map(|text| text.to_string()), &Ok(written))?;
    // Checks only that they return, for any number.
    let mut other = again;
    _ = (other.value(), other.milli_value(), other.as_f64(), other.round_up(0));
    other.add(&parsed);
    other.sub(&parsed);
    other.mul(3);
    Ok(())
}

const SCHEMAS: &[&str] = &[
    r#"{"type":"object","properties":{"a":{"type":"string","pattern":"^(a+)+$","default":"a"},"n":{"type":"integer","minimum":1,"multipleOf":3},
        "l":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string"}}}}},
        "required":["a"],"not":{"required":["z"]}}"#,
    r#"{"type":"object","anyOf":[{"required":["a"]},{"required":["b"]}],"oneOf":[{"properties":{"a":{"enum":[1,"x",null]}}}],
        "properties":{"a":{"x-kubernetes-int-or-string":true},"b":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}"#,
    r#"{"type":"object","additionalProperties":{"type":"array","items":{"type":"number","format":"double","maximum":1e9},"maxItems":3,"uniqueItems":true}}"#,
    r#"{"type":"object","properties":{"e":{"type":"object","x-kubernetes-embedded-resource":true},"d":{"type":"string","format":"date-time","nullable":true}}}"#,
];

/// A schema and a value for it.
pub(super) fn schema_seed(_: &Fixture, random: &mut Random) -> Input {
    let schema = random.word(SCHEMAS);
    let value = compile_schema(&parsed(schema.as_bytes()).unwrap_or_default());
    vec![schema.into(), text(&generate::value(&value, random))]
}

fn compile_schema(schema: &Value) -> Schema {
    let mut arena = Arena::default();
    let metadata = arena.push(Node::of(Shape::Any));
    let root = structural::compile(schema, metadata, &mut arena);
    arena.seal();
    Schema::new(Arc::new(arena), root)
}

pub(super) fn fuzz_schemas(_: &Fixture, input: &Input) -> Result<(), String> {
    let part = |at: usize| input.get(at).and_then(|bytes| parsed(bytes));
    let (Some(schema), Some(value)) = (part(0), part(1)) else { return Ok(()) };
    let schema = compile_schema(&schema);
    let Ok(once) = pintle_schema::decode(&schema, value.clone(), &mut typed::Strict::default()) else {
        return Ok(());
    };
    // A definition with defaults that are not in the schema would be rejected; here they are pruned the second time.
    let again =
        |value: &Value| pintle_schema::decode(&schema, value.clone(), &mut typed::Strict::default()).ok();
    let twice = again(&once);
    same("pruned and defaulted thrice is twice", &twice, &twice.as_ref().and_then(again))?;
    let mut errors = FieldErrors::new();
    structural::validate(schema.arena(), schema.root(), &once, &Path::ROOT, &mut errors);
    structural::validate_lists(schema.arena(), schema.root(), &once, &Path::ROOT, &mut errors);
    let mut unchanged = FieldErrors::new();
    structural::validate_change(
        schema.arena(),
        schema.root(),
        &once,
        Some(&once),
        &Path::ROOT,
        &mut unchanged,
    );
    same("what did not change is let through", &unchanged, &FieldErrors::new())
}
