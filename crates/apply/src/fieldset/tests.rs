use super::*;
use crate::testing::{text, tree};
use pintle_value::{Map, Value};

fn set(fields: &str) -> Set {
    Set::from_value(&tree(fields)).unwrap()
}

#[track_caller]
fn check(got: &Set, expected: &str) {
    assert_eq!(text(&got.to_value()), text(&tree(expected)));
}

const A: &str = r#"{"f:a":{"f:x":{},"f:y":{}},"f:list":{".":{},"k:{\"name\":\"c\"}":{".":{},"f:image":{}}}}"#;

#[test]
fn fields_are_read_and_written() {
    for fields in [
        "{}",
        A,
        r#"{"f:finalizers":{"v:\"a\"":{},"v:1":{}},"i:0":{}}"#,
        r#"{"f:f:x":{},"f:with space":{},"f:ü":{},"f:.":{}}"#,
    ] {
        check(&set(fields), fields);
    }
    check(&set(r#"{"x:future":{},"f:a":null}"#), r#"{"f:a":{}}"#);
    check(&set(r#"{"f:a":{".":{}}}"#), r#"{"f:a":{}}"#);
}

#[test]
fn keys_come_in_the_order_of_their_values() {
    let ports = set(
        r#"{"k:{\"port\":80}":{},"k:{\"port\":443}":{},"k:{\"name\":\"<\"}":{},"f:z":{},"v:10":{},"v:9":{}}"#,
    );
    assert_eq!(
        String::from_utf8(ports.to_json()).unwrap(),
        r#"{"f:z":{},"k:{\"name\":\"\\u003c\"}":{},"k:{\"port\":80}":{},"k:{\"port\":443}":{},"v:9":{},"v:10":{}}"#
    );
}

#[test]
fn keys_are_read_whatever_they_hold() {
    for (key, go_text) in [
        (r#"{"name":"c"}"#, r#"[name="c"]"#),
        (r#"{"port":80,"proto":"TCP"}"#, r#"[port=80,proto="TCP"]"#),
        (r#"{"proto":"TCP","port":-1}"#, r#"[port=-1,proto="TCP"]"#),
        (r#"{"b":true,"n":1.5,"s":"a,b:}"}"#, r#"[b=true,n=1.5,s="a,b:}"]"#),
        (r#"{"s":"a\"b"}"#, r#"[s="a\"b"]"#),
        (r#"{ "s" : "x" }"#, r#"[s="x"]"#),
        (r#"{"s":"","t":" "}"#, r#"[s="",t=" "]"#),
    ] {
        let mut fields = Map::new();
        fields.insert(format!("k:{key}"), Value::object());
        let set = Set::from_value(&Value::Object(fields)).unwrap();
        assert_eq!(set.paths()[0].to_string(), go_text);
    }
    assert!(Set::from_value(&tree(r#"{"k:{\"a\":}":{}}"#)).is_err());
    assert!(Set::from_value(&tree(r#"{"k:[]":{}}"#)).is_err());
}

#[test]
fn malformed_fields_are_refused() {
    for (fields, why) in [
        (r#"{"nonsense":{}}"#, "parsing key as path element: missing colon: nonsense"),
        (r#"{"f":{}}"#, "parsing key as path element: key must be 2 characters long:"),
        (r#"{"i:x":{}}"#, "parsing key as path element: invalid index: x"),
        (r#""text""#, "expected an object, got string"),
        (r#"{"f:a":1}"#, "f:a: expected an object, got number"),
    ] {
        assert_eq!(Set::from_value(&tree(fields)).unwrap_err().0, why);
    }
    crate::testing::with_deep_stack(|| {
        let refused =
            |depth| Set::from_value(&crate::testing::nested("f:a", depth, Value::object())).is_err();
        assert!(!refused(crate::DEPTH_MAX) && refused(crate::DEPTH_MAX + 2));
    });
}

#[test]
fn the_algebra_of_sets() {
    let b = r#"{"f:a":{".":{},"f:y":{}},"f:list":{"k:{\"name\":\"c\"}":{},"k:{\"name\":\"d\"}":{}}}"#;
    let pair = || (set(A), set(b));
    let (x, y) = pair();
    check(
        &x.union(y),
        r#"{"f:a":{".":{},"f:x":{},"f:y":{}},"f:list":{".":{},"k:{\"name\":\"c\"}":{".":{},"f:image":{}},"k:{\"name\":\"d\"}":{}}}"#,
    );
    let (x, y) = pair();
    check(&x.intersection(&y), r#"{"f:a":{"f:y":{}},"f:list":{"k:{\"name\":\"c\"}":{}}}"#);
    let (x, y) = pair();
    check(&x.difference(&y), r#"{"f:a":{"f:x":{}},"f:list":{".":{},"k:{\"name\":\"c\"}":{"f:image":{}}}}"#);
    let (x, y) = pair();
    check(&x.recursive_difference(&y), r#"{"f:list":{}}"#);
    check(&set(A).leaves(), r#"{"f:a":{"f:x":{},"f:y":{}},"f:list":{"k:{\"name\":\"c\"}":{"f:image":{}}}}"#);
}

#[test]
fn paths_are_found_and_shown() {
    let paths: Vec<String> = set(A).paths().iter().map(ToString::to_string).collect();
    assert_eq!(paths, [".list", ".a.x", ".a.y", r#".list[name="c"]"#, r#".list[name="c"].image"#]);
    assert!(set(A).paths().iter().all(|path| set(A).has(&path.to_path())));
    assert!(!set(A).has(&FieldPath::of(&["a"])));
    assert!(!set(A).has(&FieldPath::default()));
    assert_eq!(set(A).len(), 5);
    let odd = set(r#"{"k:{\"b\":true,\"a\":1.5}":{},"v:\"x\"":{},"i:2":{}}"#);
    let go_text: Vec<String> = odd.paths().iter().map(ToString::to_string).collect();
    assert_eq!(go_text, ["[a=1.5,b=true]", r#"[="x"]"#, "[2]"]);
}

#[test]
fn filters_keep_what_an_endpoint_can_own() {
    let all = || {
        set(
            r#"{"f:spec":{"f:a":{},"f:list":{"k:{\"n\":1}":{"f:r":{},"f:s":{}}}},"f:status":{".":{},"f:x":{}}}"#,
        )
    };
    let reset = Filter { reset: Set::of(&[&["status"]]) };
    check(&reset.apply(all()), r#"{"f:spec":{"f:a":{},"f:list":{"k:{\"n\":1}":{"f:r":{},"f:s":{}}}}}"#);
}
