//! Tables of the rules of Kubernetes' CBOR profile.

use super::*;
use crate::{Value, base64, json};

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| *byte != b' ').collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

#[test]
fn trees_have_one_encoding() {
    for (input, hex) in [
        ("null", "f6"),
        ("[true,false]", "82 f5 f4"),
        ("[0,23,24,255,256,65536,4294967296]", "87 00 17 1818 18ff 190100 1a00010000 1b0000000100000000"),
        ("[-1,-24,-25,-9223372036854775808]", "84 20 37 3818 3b7fffffffffffffff"),
        (
            "[0.5,1.0e0,-0.0,65504.0,65505.0,0.1]",
            "86 f93800 f93c00 f98000 f97bff fa477fe100 fb3fb999999999999a",
        ),
        (
            "[5.9604644775390625e-8,6.103515625e-5,6.097555160522461e-5,2.98023223876953125e-8]",
            "84 f90001 f90400 f903ff fa33000000",
        ),
        (r#"{"b":1,"aa":"x","a":{}}"#, "a3 4161 a0 4162 01 426161 4178"),
    ] {
        let value = json::parse(input.as_bytes()).unwrap().value;
        let mut out = Vec::new();
        encode(&value, &mut out);
        assert_eq!(out, [SELF_DESCRIBED.to_vec(), bytes(hex)].concat(), "{input}");
        assert_eq!(decode(&out).unwrap(), value, "{input}");
    }
    let mut out = Vec::new();
    write_bytes(b"hi", &mut out);
    assert_eq!(out, bytes("d6 42 6869"));
    out.clear();
    write_watch_event("ADDED", &bytes("d9d9f7 a0"), &mut out);
    assert_eq!(json::text(&decode(&out).unwrap()), r#"{"object":{},"type":"ADDED"}"#);
}

#[test]
fn unusual_forms_are_accepted() {
    for (hex, expected) in [
        ("9f 01 9fff bf 6161 7f 6162 6163 ff ff ff", r#"[1,[],{"a":"bc"}]"#),
        ("5f 4161 4162 ff", r#""ab""#),
        ("d903e8 6178", r#""x""#),
        ("d5 42fbff", r#""-_8""#),
        ("d6 82 426869 d7 426869", r#"["aGk=","6869"]"#),
        ("1b0000000000000050", "80"),
        ("42c328", "\"\u{fffd}(\""),
        ("a1 f6 01", r#"{"":1}"#),
        ("c1 00", r#""1970-01-01T00:00:00Z""#),
        ("c1 1a514b67b0", r#""2013-03-21T20:04:00Z""#),
        ("c1 fb41d452d9ec200000", r#""2013-03-21T20:04:00.5Z""#),
        ("c1 20", r#""1969-12-31T23:59:59Z""#),
        ("c0 78 1c 323031332d30332d32315432303a30343a30302e35302b30303a3030", r#""2013-03-21T20:04:00.5Z""#),
    ] {
        assert_eq!(json::text(&decode(&bytes(hex)).unwrap()), expected, "{hex}");
    }
}

#[test]
fn errors_are_those_of_kube_apiserver() {
    let unaccepted = "cbor: data item of cbor type primitives is not accepted by protocol:";
    for (hex, malformed, message) in [
        ("", true, "EOF".to_owned()),
        ("d9d9f7", true, "unexpected EOF".into()),
        ("82 01", true, "unexpected EOF".into()),
        ("9f 01", true, "unexpected EOF".into()),
        ("7b 22", true, "unexpected EOF".into()),
        ("01 02", true, "cbor: 1 bytes of extraneous data starting at index 1".into()),
        ("1c", true, "cbor: invalid additional information 28 for type positive integer".into()),
        ("ff", true, "cbor: unexpected \"break\" code".into()),
        ("bf 01 ff", true, "cbor: unexpected \"break\" code".into()),
        ("7f 41 61 ff", true, "cbor: wrong element type byte string for indefinite-length UTF-8 text string".into()),
        ("f801", true, "cbor: invalid simple value 1 for type primitives".into()),
        ("f97e00", true, format!("{unaccepted} floating-point NaN")),
        ("fa7f800000", true, format!("{unaccepted} floating-point infinity")),
        ("c2 4101", true, "cbor: data item of cbor type tag is not accepted by protocol: bignum".into()),
        ("f7", false, format!("{unaccepted} simple value 23 is not recognized")),
        ("a1 6161 e0", false, format!("{unaccepted} simple value 0 is not recognized")),
        ("61 ff", false, "cbor: invalid UTF-8 string".into()),
        ("a2 616b 01 616b 02", false, "cbor: found duplicate map key \"k\" at map element index 1".into()),
        ("a3 6161 f7 616b 01 616b 02", false, "cbor: found duplicate map key \"k\" at map element index 2".into()),
        ("82 f7 a2 616b 01 616b 02", false, format!("{unaccepted} simple value 23 is not recognized")),
        ("a1 01 02", false, "cbor: cannot unmarshal positive integer into Go value of type string".into()),
        ("a1 80 02", false, "cbor: cannot unmarshal array into Go value of type string".into()),
        ("1bffffffffffffffff", false,
            "cbor: cannot unmarshal positive integer into Go value of type int64 (18446744073709551615 overflows Go's int64)".into()),
        ("3bffffffffffffffff", false,
            "cbor: cannot unmarshal negative integer into Go value of type int64 (-18446744073709551616 overflows Go's int64)".into()),
        ("c0 01", false, "cbor: tag number 0 must be followed by text string, got positive integer".into()),
    ] {
        let error = decode(&bytes(hex)).unwrap_err();
        assert_eq!((error.message(), error.is_malformed()), (message.as_str(), malformed), "{hex}");
    }
    let error = decode(&bytes("a2 6161 01 6164 a1 6162 a1 01 02")).unwrap_err();
    assert_eq!(error.field(), Some("d"));
    let error = decode_object(&bytes("d9d9f7 80")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "cbor: cannot unmarshal array into Go value of type map[string]interface {}"
    );
    assert_eq!(decode_object(&bytes("f6")).unwrap(), Value::Null);
}

#[test]
fn nesting_is_limited_and_does_not_need_the_thread_stack() {
    for (open, close) in [("81", "00"), ("a14161", "00"), ("9f", "ff")] {
        let nested = |depth: usize| {
            bytes(&(open.repeat(depth) + &close.repeat(if close == "ff" { depth } else { 1 })))
        };
        let value = decode(&nested(DEPTH_MAX)).unwrap();
        let mut out = Vec::new();
        encode_item(&value, &mut out);
        let mut again = Vec::new();
        encode_item(&decode(&out).unwrap(), &mut again);
        assert!(out == again);
        let error = decode(&nested(DEPTH_MAX + 1)).unwrap_err();
        assert_eq!(error.to_string(), "cbor: exceeded max nested level 10000");
    }
    let tags = bytes(&("d903e8".repeat(DEPTH_MAX) + "01"));
    assert_eq!(decode(&tags).unwrap(), Value::Int(1));
}

#[test]
fn an_unknown_field_is_reported_with_its_index() {
    let document =
        json::parse(br#"{"metadata":{"name":"x","nope":1},"spec":[{"a":1,"b":2}],"what":{}}"#).unwrap().value;
    let mut out = Vec::new();
    encode(&document, &mut out);
    // The keys are in the order of their lengths.
    for (paths, index) in [
        (&["metadata.nope"][..], Some(1)),
        (&["spec[0].b"], Some(1)),
        (&["what"], Some(1)),
        (&["metadata.nope", "spec"], Some(0)),
        (&["spec[0].a", "metadata.nope"], Some(0)),
        (&["other"], None),
    ] {
        let paths: Vec<Str> = paths.iter().map(|path| Str::from(*path)).collect();
        assert_eq!(unknown_field_index(&out, &paths), index, "{paths:?}");
    }
}

#[test]
fn bytes_are_text_in_base64() {
    let document = base64::decode("2dn3omhtZXRhZGF0YaFkbmFtZWFkZGRhdGGhYWvWQmhp").unwrap();
    assert_eq!(json::text(&decode(&document).unwrap()), r#"{"data":{"k":"aGk="},"metadata":{"name":"d"}}"#);
}
