//! Decoders: a decoded value that is encoded again decodes to the same value.

use super::{Input, after_json, is_deep, same, some_kind};
use crate::fixture::{Fixture, text};
use crate::generate;
use crate::random::Random;
use pintle_schema::{proto, typed};
use pintle_value::{Value, cbor as cbor_codec, json as json_codec, yaml as yaml_codec};

fn part(input: &Input, at: usize) -> &[u8] {
    input.get(at).map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn fuzz_json(fixture: &Fixture, input: &Input) -> Result<(), String> {
    let body = part(input, 1);
    if let Ok(parsed) = json_codec::parse(body)
        && !is_deep(body)
    {
        let again = json_codec::parse(&text(&parsed.value))
            .map_err(|e| format!("what we wrote we cannot read: {e}"))?;
        same("parse, print, parse", &after_json(&parsed.value), &after_json(&again.value))?;
        let mut pretty = Vec::new();
        json_codec::print_pretty(&parsed.value, &mut pretty);
        let again = json_codec::parse(&pretty).map_err(|e| format!("what we wrote we cannot read: {e}"))?;
        same("parse, print with indent, parse", &after_json(&parsed.value), &after_json(&again.value))?;
    }
    let Some(kind) = fixture.kind(part(input, 0)).filter(|kind| kind.schema.decodes_into_go_struct()) else {
        return Ok(());
    };
    let Ok(decoded) = typed::decode_json(&kind.schema, body) else { return Ok(()) };
    let mut written = Vec::new();
    typed::encode_json(&kind.schema, &decoded.value, &mut written);
    let again = typed::decode_json(&kind.schema, &written)
        .map_err(|e| format!("what we wrote we cannot read: {e}"))?;
    same("typed: decode, encode, decode", &after_json(&decoded.value), &after_json(&again.value))?;
    same("typed: what we write has nothing to complain about", &again.strict, &Vec::new())
}

pub(super) fn yaml_seed(fixture: &Fixture, random: &mut Random) -> Input {
    if random.one_in(2) {
        return vec![random.pick(&fixture.bodies).cloned().unwrap_or_default()];
    }
    let value = match some_kind(fixture, random) {
        Some(kind) if !random.one_in(4) => generate::value(&kind.schema, random),
        _ => generate::any(random, 0),
    };
    let mut out = Vec::new();
    yaml_codec::print(&value, &mut out);
    vec![out]
}

pub(super) fn fuzz_yaml(_: &Fixture, input: &Input) -> Result<(), String> {
    let Ok(parsed) = yaml_codec::parse(part(input, 0)) else { return Ok(()) };
    let mut written = Vec::new();
    yaml_codec::print(&parsed.value, &mut written);
    let again = yaml_codec::parse(&written).map_err(|e| format!("what we wrote we cannot read: {e}"))?;
    same("parse, print, parse", &after_json(&parsed.value), &after_json(&again.value))?;
    if is_deep(&text(&parsed.value)) {
        return Ok(());
    }
    let as_json = json_codec::parse(&text(&parsed.value));
    let as_json = as_json.map_err(|e| format!("YAML that is no JSON: {e}"))?;
    same("YAML, tree, JSON, tree", &after_json(&parsed.value), &after_json(&as_json.value))
}

pub(super) fn cbor_seed(fixture: &Fixture, random: &mut Random) -> Input {
    let value = match some_kind(fixture, random) {
        Some(kind) if !random.one_in(4) => generate::value(&kind.schema, random),
        _ => generate::any(random, 0),
    };
    let mut out = Vec::new();
    cbor_codec::encode(&value, &mut out);
    vec![out]
}

pub(super) fn fuzz_cbor(_: &Fixture, input: &Input) -> Result<(), String> {
    let Ok(value) = cbor_codec::decode(part(input, 0)) else { return Ok(()) };
    let mut written = Vec::new();
    cbor_codec::encode(&value, &mut written);
    let again = cbor_codec::decode(&written).map_err(|e| format!("what we wrote we cannot read: {e}"))?;
    same("decode, encode, decode", &value, &again)
}

pub(super) fn protobuf_seed(fixture: &Fixture, random: &mut Random) -> Input {
    let Some(kind) = some_kind(fixture, random) else { return Input::new() };
    let mut bytes = Vec::new();
    if let Ok(tree) = typed::decode(&kind.schema, generate::value(&kind.schema, random), None) {
        if random.one_in(4) {
            proto::encode(&kind.schema, &kind.api_version, &kind.kind, &tree, &mut bytes);
        } else {
            proto::encode_message(&kind.schema, &tree, &mut bytes);
        }
    }
    vec![kind.name.clone().into(), bytes]
}

pub(super) fn fuzz_protobuf(fixture: &Fixture, input: &Input) -> Result<(), String> {
    let bytes = part(input, 1);
    let Some(kind) = fixture.kind(part(input, 0)).filter(|kind| kind.schema.decodes_into_go_struct()) else {
        return Ok(());
    };
    if let Ok(envelope) = proto::open(bytes) {
        // Checks only that it returns: the content is checked below.
        _ = proto::decode(&kind.schema, &envelope);
    }
    let Ok(value) = proto::decode_message(&kind.schema, bytes) else { return Ok(()) };
    if has_far_time(&value) {
        return Ok(());
    }
    let mut written = Vec::new();
    proto::encode_message(&kind.schema, &value, &mut written);
    let again = proto::decode_message(&kind.schema, &written)
        .map_err(|e| format!("what we wrote we cannot read: {e}"))?;
    same("decode, encode, decode", &after_json(&value), &after_json(&again))?;
    let mut twice = Vec::new();
    proto::encode_message(&kind.schema, &again, &mut twice);
    same("encode, decode, encode", &written, &twice)
}

/// Whether a time is beyond the year 9999, which protobuf can express and JSON cannot.
fn has_far_time(value: &Value) -> bool {
    match value {
        Value::String(text) => {
            let year = text.trim_start_matches('-').split('-').next().unwrap_or_default();
            text.ends_with('Z') && year.len() > 4 && year.bytes().all(|b| b.is_ascii_digit())
        }
        Value::Array(items) => items.iter().any(has_far_time),
        Value::Object(map) => map.values().any(has_far_time),
        _ => false,
    }
}
