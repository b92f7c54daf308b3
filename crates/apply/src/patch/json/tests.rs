use super::*;
use crate::testing::{text, tree};

fn patched(document: &str, patch: &str) -> Result<String, PatchError> {
    decode(tree(patch), &[], true)?.apply(tree(document)).map(|v| text(&v))
}

#[test]
fn operations_change_the_document() {
    let list = r#"{"a":["0","1","2"]}"#;
    for (document, patch, expected) in [
        (r#"{"a":1}"#, r#"[{"op":"add","path":"/b","value":2}]"#, r#"{"a":1,"b":2}"#),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"/b"}]"#, r#"{"a":1,"b":null}"#),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"b","value":2},{"op":"add","path":"x/c","value":3}]"#, ""),
        (r#"{"a":1}"#, r#"[{"op":"add","path":"x/c","value":3}]"#, r#"{"a":1,"c":3}"#),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"/b","value":2}]"#, r#"{"a":1,"b":2}"#),
        (r#"{"a":1}"#, r#"[{"op":"replace","path":"","value":{}}]"#, "{}"),
        (r#"{"a":1}"#, r#"[{"op":"remove","path":"/a"}]"#, "{}"),
        (r#"{"a":1}"#, r#"[{"op":"move","from":"/a","path":"/b"}]"#, r#"{"b":1}"#),
        (r#"{"a":1}"#, r#"[{"op":"copy","from":"/a","path":"/b"}]"#, r#"{"a":1,"b":1}"#),
        (r#"{"a":1}"#, r#"[{"op":"copy","from":"/x","path":"/b"}]"#, r#"{"a":1,"b":null}"#),
        (r#"{"a":{"m/n~":1}}"#, r#"[{"op":"remove","path":"/a/m~1n~0"}]"#, r#"{"a":{}}"#),
        (list, r#"[{"op":"add","path":"/a/1","value":"n"}]"#, r#"{"a":["0","n","1","2"]}"#),
        (list, r#"[{"op":"add","path":"/a/-","value":"n"}]"#, r#"{"a":["0","1","2","n"]}"#),
        (list, r#"[{"op":"add","path":"/a/-1","value":"n"}]"#, r#"{"a":["0","1","2","n"]}"#),
        (list, r#"[{"op":"add","path":"/a/4","value":"n"}]"#, ""),
        (list, r#"[{"op":"replace","path":"/a/-1","value":"n"}]"#, r#"{"a":["0","1","n"]}"#),
        (list, r#"[{"op":"replace","path":"/a/-","value":"n"}]"#, ""),
        (list, r#"[{"op":"replace","path":"/a/01","value":"n"}]"#, r#"{"a":["0","n","2"]}"#),
        (list, r#"[{"op":"remove","path":"/a/-4"}]"#, ""),
        (list, r#"[{"op":"move","from":"/a/0","path":"/a/2"}]"#, r#"{"a":["1","2","0"]}"#),
        (list, r#"[{"op":"test","path":"/a/0","value":"0"}]"#, list),
        (list, r#"[{"op":"test","path":"/a/0","value":0}]"#, ""),
        (list, r#"[{"op":"test","path":"/b","value":null}]"#, list),
        (list, r#"[{"op":"test","path":"/b/c","value":null}]"#, ""),
        (list, r#"[{"op":"jump","path":"/b"}]"#, ""),
        (list, r#"[{"path":"/b"}]"#, ""),
        (list, r#"[null]"#, ""),
        (list, r#"[{"op":"add","path":""}]"#, ""),
        (list, "null", list),
    ] {
        match patched(document, patch) {
            Ok(got) => assert_eq!(got, expected, "{patch}"),
            Err(PatchError::DoesNotApply(_) | PatchError::TestFailed(_)) => {
                assert_eq!(expected, "", "{patch}")
            }
            Err(other) => panic!("{patch}: {other}"),
        }
    }
}

#[test]
fn tests_compare_texts_of_scalars() {
    for (document, value, expected) in [
        (r#"{"a":1}"#, "1", true),
        (r#"{"a":1}"#, "1.0", false),
        (r#"{"a":"\u003c"}"#, r#""\u003c""#, true),
        (r#"{"a":"\u003c"}"#, r#""<""#, false),
        (r#"{"a":"bc"}"#, r#""b\u0063""#, false),
        (r#"{"a":{"b":1,"c":[2]}}"#, r#"{ "c" : [ 2 ], "b":1 }"#, true),
        (r#"{"a":{"b":1,"c":[2]}}"#, r#"{"c":[2.0],"b":1}"#, false),
    ] {
        let body = format!(r#"[{{"op":"test","path":"/a","value":{value}}}]"#);
        let patch = decode(tree(&body), &[], true).unwrap().with_texts(body.as_bytes(), false);
        assert_eq!(patch.apply(tree(document)).is_ok(), expected, "{document} {value}");
    }
}

#[test]
fn raw_json_keeps_the_order_of_what_is_not_touched() {
    let body = r#"[{"op":"add","path":"/data/m","value":{"y":1,"x":2}}]"#;
    let patch = decode(tree(body), &[], true).unwrap().with_texts(body.as_bytes(), true);
    let document = RawJson::read(r#"{"data":{"z":{"b":1,"a":2},"c":1}}"#).unwrap();
    let patched = text(&patch.apply(document).unwrap());
    assert_eq!(patched, r#"{"data":{"c":1,"m":{"y":1,"x":2},"z":{"b":1,"a":2}}}"#);
}

#[test]
fn copies_are_limited_together() {
    // Each copy doubles the document.
    let copy = |i| format!(r#"{{"op":"copy","from":"/a","path":"/a/{i}"}}"#);
    let copies: Vec<String> = (0..30).map(copy).collect();
    let patch = format!("[{}]", copies.join(","));
    let error = patched(r#"{"a":{"t":"0123456789"}}"#, &patch).unwrap_err();
    assert!(matches!(error, PatchError::DoesNotApply(text) if text.contains("accumulated size")));
}

#[test]
fn the_items_that_operations_move_are_limited_together() {
    let items = vec!["1"; 100_000].join(",");
    let document = format!(r#"{{"a":[{items}]}}"#);
    let operations = |path: &str| vec![format!(r#"{{"op":"remove","path":"{path}"}}"#); 3000].join(",");
    let error = patched(&document, &format!("[{}]", operations("/a/0"))).unwrap_err();
    assert!(matches!(error, PatchError::DoesNotApply(text) if text.contains("items of lists")));
    patched(&document, &format!("[{}]", operations("/a/-1"))).unwrap();
}

#[test]
fn a_malformed_patch_is_named() {
    for (patch, strict, expected) in [
        (
            "{}",
            true,
            "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
        ),
        ("{}", false, "json: cannot unmarshal object into Go value of type jsonpatch.Patch"),
        (
            r#"["a"]"#,
            true,
            "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp",
        ),
        (
            r#"[{"path":7}]"#,
            true,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
        ),
    ] {
        assert_eq!(decode(tree(patch), &[], strict).unwrap_err().to_string(), expected);
    }
    let many = Value::Array(vec![Value::object(); OPERATIONS_MAX + 1]);
    let status = decode(many, &[], true).unwrap_err().to_status();
    assert_eq!(
        (status.code, status.message.as_str()),
        (413, "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001")
    );
}

#[test]
fn strict_reading_reports_what_it_does_not_know() {
    let patch = tree(
        r#"[{"op":"test","path":"/a","comment":"x"},{"op":"add","path":"/b"},{"note":"","value":{"a":1}}]"#,
    );
    let twice = ["[1].path", "[2].note", "[2].value.a"].map(Str::from);
    let decoded = decode(patch, &twice, true).unwrap();
    assert_eq!(
        decoded.strict_errors,
        [
            r#"json patch unknown field "[0].comment""#,
            r#"json patch duplicate field "[1].path""#,
            r#"json patch duplicate field "[2].value.a""#,
            r#"json patch unknown field "[2].note""#,
        ]
    );
}
