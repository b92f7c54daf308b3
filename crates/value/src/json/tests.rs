//! Tables of the results of Go's `encoding/json`.

use super::*;
use crate::Value;

fn compact(input: &[u8]) -> String {
    let mut out = Vec::new();
    print(&parse(input).unwrap().value, &mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn values_read_and_print_as_in_go() {
    for (input, printed) in [
        ("null", "null"),
        (" [ true , false ]\n", "[true,false]"),
        (r#"{"b":1,"a":{"d":[],"c":{}}}"#, r#"{"a":{"c":{},"d":[]},"b":1}"#),
        ("0", "0"),
        ("-0", "0"),
        ("-0.0", "-0"),
        ("5.0", "5"),
        ("1e3", "1000"),
        ("9223372036854775807", "9223372036854775807"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("9223372036854775808", "9223372036854776000"),
        ("100000000000000000000", "100000000000000000000"),
        ("1e21", "1e+21"),
        ("1.5E+300", "1.5e+300"),
        ("0.000001", "0.000001"),
        ("0.0000001", "1e-7"),
        ("1.25e-10", "1.25e-10"),
        ("1e-999", "0"),
        ("0.1", "0.1"),
        (r#""a\/b\"\\\b\f\n\r\t\u0041\u00e9""#, r#""a/b\"\\\b\f\n\r\tAé""#),
        (r#""<a>&b""#, r#""\u003ca\u003e\u0026b""#),
        ("\"\u{2028}\u{2029}\u{202a}\u{7f}\"", "\"\\u2028\\u2029\u{202a}\u{7f}\""),
        (r#""\u0000\u001f""#, r#""\u0000\u001f""#),
        (r#""\ud83d\ude00""#, "\"\u{1f600}\""),
        (r#""\ud83dx""#, "\"\u{fffd}x\""),
        (r#""\ude00\ud83d\ude00""#, "\"\u{fffd}\u{1f600}\""),
        (
            r#""a long string without any need to be escaped ""#,
            r#""a long string without any need to be escaped ""#,
        ),
    ] {
        assert_eq!(compact(input.as_bytes()), printed, "{input}");
    }
}

#[test]
fn integers_stay_integers() {
    let ints = parse(b"[1, -0, 9223372036854775807]").unwrap().value;
    assert_eq!(ints, Value::Array(vec![Value::Int(1), Value::Int(0), Value::Int(i64::MAX)]));
    let floats = parse(b"[1.0, 1e0, 9223372036854775808]").unwrap().value;
    let expected = vec![Value::Float(1.0), Value::Float(1.0), Value::Float(9_223_372_036_854_775_808.0)];
    assert_eq!(floats, Value::Array(expected));
    // Go writes the shortest digits that stand for a float, here for 92337203685477584.
    assert_eq!(compact(b"92337203685477580.7"), "92337203685477580");
}

#[test]
fn every_wrong_byte_becomes_one_replacement_character() {
    assert_eq!(compact(b"\"a\xffb\xe2\x80c\""), "\"a\u{fffd}b\u{fffd}\u{fffd}c\"");
    assert_eq!(compact(b"{\"\xff\":\"x\\n\xff\"}"), "{\"\u{fffd}\":\"x\\n\u{fffd}\"}");
}

#[test]
fn errors_are_those_of_the_go_scanner() {
    for (input, offset, message) in [
        ("", 0, "unexpected end of JSON input"),
        ("  ", 2, "unexpected end of JSON input"),
        ("{", 1, "unexpected end of JSON input"),
        (r#"{"a""#, 4, "unexpected end of JSON input"),
        (r#"{"a":"#, 5, "unexpected end of JSON input"),
        (r#"{"a":1"#, 6, "unexpected end of JSON input"),
        ("[1,", 3, "unexpected end of JSON input"),
        ("\"abc", 4, "unexpected end of JSON input"),
        ("x", 1, "invalid character 'x' looking for beginning of value"),
        ("[1,]", 4, "invalid character ']' looking for beginning of value"),
        ("{a", 2, "invalid character 'a' looking for beginning of object key string"),
        (r#"{"a":1,}"#, 8, "invalid character '}' looking for beginning of object key string"),
        (r#"{"a"}"#, 5, "invalid character '}' after object key"),
        (r#"{"a":1 "b""#, 8, "invalid character '\"' after object key:value pair"),
        ("[1 2]", 4, "invalid character '2' after array element"),
        ("{} a", 4, "invalid character 'a' after top-level value"),
        ("01", 2, "invalid character '1' after top-level value"),
        ("\"a\nb\"", 3, "invalid character '\\n' in string literal"),
        ("\"a\u{1}\"", 3, "invalid character '\\x01' in string literal"),
        (r#""\x""#, 3, "invalid character 'x' in string escape code"),
        (r#""\u12g4""#, 6, "invalid character 'g' in \\u hexadecimal character escape"),
        ("-a", 2, "invalid character 'a' in numeric literal"),
        ("1.x", 3, "invalid character 'x' after decimal point in numeric literal"),
        ("1e+x", 4, "invalid character 'x' in exponent of numeric literal"),
        ("trux", 4, "invalid character 'x' in literal true (expecting 'e')"),
        ("fal'", 4, r"invalid character '\'' in literal false (expecting 's')"),
        ("n\\", 2, r"invalid character '\\' in literal null (expecting 'u')"),
        ("tr", 2, "invalid character ' ' in literal true (expecting 'u')"),
        ("-", 1, "invalid character ' ' in numeric literal"),
        ("\"\\", 2, "invalid character ' ' in string escape code"),
        ("é", 1, "invalid character 'Ã' looking for beginning of value"),
        ("1e999", 5, "json: cannot unmarshal number 1e999 into Go value of type float64"),
        ("[1e999, x]", 9, "invalid character 'x' looking for beginning of value"),
    ] {
        let error = parse(input.as_bytes()).unwrap_err();
        assert_eq!((error.message(), error.offset()), (message, offset), "{input}");
    }
    assert_eq!(
        parse(b"\xa0").unwrap_err().to_string(),
        r"invalid character '\u00a0' looking for beginning of value"
    );
}

#[test]
fn repeated_keys_are_named_in_order_and_the_last_value_stays() {
    for (input, value, duplicates) in [
        (r#"{"a":1,"a":2}"#, r#"{"a":2}"#, vec!["a"]),
        (
            r#"{"metadata":{"labels":{"a":"x","a":"y","a":"z"}},"b":"\"}","a":1,"a":2}"#,
            r#"{"a":2,"b":"\"}","metadata":{"labels":{"a":"z"}}}"#,
            vec!["metadata.labels.a", "a"],
        ),
        (r#"{"s":[1,[{"n":1}],{"n":[2,{"m":0}],"n":3}]}"#, r#"{"s":[1,[{"n":1}],{"n":3}]}"#, vec!["s[2].n"]),
        (r#"[{"a":1,"a":1}]"#, r#"[{"a":1}]"#, vec!["[0].a"]),
        (r#"{"a":{"x":0,"x":1},"a":{"x":0,"x":1}}"#, r#"{"a":{"x":1}}"#, vec!["a.x", "a"]),
        (r#"{"\u0061":1,"a":2}"#, r#"{"a":2}"#, vec!["a"]),
    ] {
        assert_eq!(compact(input.as_bytes()), value);
        assert_eq!(parse(input.as_bytes()).unwrap().duplicates, duplicates, "{input}");
    }
    let many: Vec<String> = (0..300).map(|i| format!(r#""{}":0"#, i % 150)).collect();
    let parsed = parse(format!("{{{}}}", many.join(",")).as_bytes()).unwrap();
    assert_eq!(parsed.duplicates.len(), crate::DUPLICATES_MAX);
}

#[test]
fn nesting_is_limited_and_does_not_need_the_thread_stack() {
    for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
        let nested = |depth: usize| open.repeat(depth) + "1" + &close.repeat(depth);
        assert_eq!(compact(nested(DEPTH_MAX).as_bytes()), nested(DEPTH_MAX));
        let error = parse(nested(DEPTH_MAX + 1).as_bytes()).unwrap_err();
        let bracket = open.chars().next().unwrap();
        assert_eq!(error.to_string(), format!("invalid character '{bracket}' exceeded max depth"));
    }
}

#[test]
fn pretty_output_is_indented_by_two() {
    let mut out = Vec::new();
    print_pretty(&parse(br#"{"a":[1,{"b":null}],"c":{},"d":[]}"#).unwrap().value, &mut out);
    let expected =
        "{\n  \"a\": [\n    1,\n    {\n      \"b\": null\n    }\n  ],\n  \"c\": {},\n  \"d\": []\n}";
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}
