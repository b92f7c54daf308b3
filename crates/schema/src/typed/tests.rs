use super::*;
use crate::model::{Arena, Field, MapKind, Node, Schema, Shape, Struct};
use pintle_value::{Value, json};
use std::sync::Arc;

/// A custom resource with `metadata` of unknown fields and a `spec` of one field.
fn custom() -> Schema {
    let mut arena = Arena::default();
    let text = arena.push(Node::of(Shape::String));
    let mut object = |fields| arena.push(Node::of(Shape::Struct(Struct::by_name(fields, MapKind::Granular))));
    let metadata = object(Vec::new());
    let spec = object(vec![Field::new("m", text)]);
    let root =
        object(vec![Field::new("spec", spec), Field::new("metadata", metadata), Field::new("kind", text)]);
    Schema::new(Arc::new(arena), root)
}

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap().value
}

#[test]
fn custom_resources_are_left_alone_and_written_by_name() {
    let text = r#"{"apiVersion":"g/v1","kind":"K","metadata":{"name":"a"},"spec":{"a":1,"m":"x","z":[]}}"#;
    let tree = decode(&custom(), parse(text), None).unwrap();
    let mut out = Vec::new();
    encode_json(&custom(), &tree, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), text);
}

#[test]
fn the_revision_of_a_custom_resource_has_its_place_by_name() {
    for (metadata, expected) in [
        (r#"{"name":"a","uid":"u"}"#, r#"{"name":"a","resourceVersion":"7","uid":"u"}"#),
        (
            r#"{"name":"a","resourceVersion":"1","uid":"u"}"#,
            r#"{"name":"a","resourceVersion":"7","uid":"u"}"#,
        ),
        (r#"{"name":"a"}"#, r#"{"name":"a","resourceVersion":"7"}"#),
        (r#"{"uid":"u"}"#, r#"{"resourceVersion":"7","uid":"u"}"#),
        (r#"{}"#, r#"{"resourceVersion":"7"}"#),
    ] {
        let mut out = Vec::new();
        let slot = encode_stored(&custom(), &parse(&format!(r#"{{"metadata":{metadata}}}"#)), &mut out);
        let rest = out.split_off(slot.at);
        slot.write(7, &mut out);
        out.extend(rest);
        assert_eq!(String::from_utf8(out).unwrap(), format!(r#"{{"metadata":{expected}}}"#));
    }
}
