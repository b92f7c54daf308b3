//! Protobuf beyond the fixtures: lists, merging, and the errors of damaged messages.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test")]

use pintle_kinds::builtin;
use pintle_schema::{proto, typed};
use pintle_value::{Value, json};

fn config_map(message: &[u8]) -> Result<Value, String> {
    let schema = builtin().types.by_kind("v1", "ConfigMap").unwrap();
    proto::decode_message(&schema, message).map_err(|e| e.to_string())
}

#[test]
fn lists_keep_their_items() {
    let schema = builtin().types.by_kind("v1", "ConfigMapList").unwrap();
    let text = r#"{"kind":"ConfigMapList","apiVersion":"v1","metadata":{"resourceVersion":"5"},"items":[{"metadata":{"name":"a"},"data":{"k":"v"}},{"metadata":{"name":"b"}}]}"#;
    let tree = json::parse(text.as_bytes()).unwrap().value;
    let mut bytes = Vec::new();
    proto::encode(&schema, "v1", "ConfigMapList", &tree, &mut bytes);
    let envelope = proto::open(&bytes).unwrap();
    assert_eq!((envelope.api_version.as_str(), envelope.kind.as_str()), ("v1", "ConfigMapList"));
    let back = proto::decode(&schema, &envelope).unwrap();
    let mut out = Vec::new();
    typed::encode_json(&schema, &back, &mut out);
    assert_eq!(String::from_utf8(out).unwrap(), text);
}

#[test]
fn repeated_members_are_merged_and_unknown_ones_skipped() {
    // metadata{name "a"}, member 15 of each wire type, metadata{uid "u"}, immutable false, data a=1, data a=2
    let message = b"\x0a\x03\x0a\x01a\x78\x05\x79\0\0\0\0\0\0\0\0\x7a\x01x\x7b\x78\x05\x7c\x7d\0\0\0\0\x0a\x03\x2a\x01u\x20\x00\x12\x06\x0a\x01a\x12\x011\x12\x06\x0a\x01a\x12\x012";
    let expected = r#"{"data":{"a":"2"},"immutable":false,"metadata":{"name":"a","uid":"u"}}"#;
    assert_eq!(config_map(message).unwrap(), json::parse(expected.as_bytes()).unwrap().value);
}

#[test]
fn damage_is_named_as_go_names_it() {
    for (message, error) in [
        (&b"\x0a"[..], "unexpected EOF"),
        (b"\x0a\x05\x0a", "unexpected EOF"),
        (b"\x7f", "proto: illegal wireType 7"),
        (b"\x0c", "proto: ConfigMap: wiretype end group for non-group"),
        (b"\x02\x00", "proto: ConfigMap: illegal tag 0 (wire type 2)"),
        (b"\x08\x01", "proto: wrong wireType = 0 for field ObjectMeta"),
        (b"\x22\x01", "proto: wrong wireType = 2 for field Immutable"),
        (b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "proto: negative length found during unmarshaling"),
        (b"\x20\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", "proto: integer overflow"),
    ] {
        assert_eq!(config_map(message).unwrap_err(), error);
    }
    for (bytes, error) in [
        (&b""[..], "empty data"),
        (b"k8s\0", "empty body"),
        (b"{}", "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"),
    ] {
        assert_eq!(proto::open(bytes).unwrap_err().to_string(), error);
    }
}

#[test]
fn depth_is_limited() {
    let schema = builtin().types.by_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition").unwrap();
    let depth = 2000;
    let props = format!("{}{{}}{}", r#"{"not":"#.repeat(depth), "}".repeat(depth));
    let text = format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{props}}}}}]}}}}"#);
    let error = typed::decode_json(&schema, text.as_bytes()).unwrap_err();
    assert_eq!(error.to_string(), "exceeded max depth");
    // `not` is member 28 of the JSON schema.
    let mut message = Vec::new();
    for _ in 0..depth {
        let mut outer = b"\xe2\x01".to_vec();
        let mut length = message.len();
        while length >= 0x80 {
            outer.push(length as u8 | 0x80);
            length >>= 7;
        }
        outer.push(length as u8);
        outer.append(&mut message);
        message = outer;
    }
    let schema = builtin().types.by_go("apiextensions/v1.JSONSchemaProps").unwrap();
    assert_eq!(proto::decode_message(&schema, &message).unwrap_err().to_string(), "exceeded max depth");
}
