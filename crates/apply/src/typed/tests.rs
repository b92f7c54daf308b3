use super::*;
use crate::fieldset::Set;
use crate::testing::{schema, text, tree};

/// One field of each kind.
const THING: &str = r#"{"fields":{
    "name":"string","count":"int","on":"bool","ratio":"float","size":"quantity",
    "spec":{"fields":{"a":"string","b":"string"}},
    "whole":{"atomic":true,"fields":{"a":"string","b":"string"}},
    "labels":{"map":"string"},
    "limits":{"atomic":true,"map":"string"},
    "args":{"list":"string"},
    "tags":{"list":"string","set":true},
    "numbers":{"list":"float","set":true},
    "items":{"keys":["name"],"list":{"fields":{"name":"string","value":"int","deep":{"fields":{"x":"int"}}}}},
    "ports":{"keys":["port","proto"],"list":{"fields":{"port":"int","proto":{"is":"string","default":"TCP"},"note":"string"}}},
    "free":"any",
    "open":{"unknown":true,"fields":{"a":"string","below":{"fields":{"x":"string"}}}}}}"#;

fn thing() -> Schema {
    schema(THING)
}

fn fields(value: &str) -> String {
    text(&field_set(&tree(value), Type::of(&thing())).to_value())
}

#[test]
fn the_fields_a_value_sets() {
    for (value, expected) in [
        (r#"{"name":"n","count":1}"#, r#"{"f:count":{},"f:name":{}}"#),
        (r#"{"name":null,"labels":{},"tags":[],"spec":{}}"#, r#"{"f:labels":{},"f:name":{},"f:spec":{}}"#),
        (r#"{"spec":{"a":"1"}}"#, r#"{"f:spec":{"f:a":{}}}"#),
        (
            r#"{"whole":{"a":"1"},"limits":{"a":"1"},"args":["a"]}"#,
            r#"{"f:args":{},"f:limits":{},"f:whole":{}}"#,
        ),
        (r#"{"labels":{"a":"1"}}"#, r#"{"f:labels":{"f:a":{}}}"#),
        (r#"{"tags":["b","a"]}"#, r#"{"f:tags":{"v:\"a\"":{},"v:\"b\"":{}}}"#),
        (
            r#"{"items":[{"name":"a","deep":{"x":1}}]}"#,
            r#"{"f:items":{"k:{\"name\":\"a\"}":{".":{},"f:deep":{"f:x":{}},"f:name":{}}}}"#,
        ),
        (r#"{"items":[{"name":"a","value":1},{"name":"a"}]}"#, r#"{"f:items":{"k:{\"name\":\"a\"}":{}}}"#),
        (
            r#"{"ports":[{"port":80}]}"#,
            r#"{"f:ports":{"k:{\"port\":80,\"proto\":\"TCP\"}":{".":{},"f:port":{}}}}"#,
        ),
        (r#"{"free":{"m":{"n":1},"l":[1]}}"#, r#"{"f:free":{"f:l":{},"f:m":{".":{},"f:n":{}}}}"#),
        (
            r#"{"open":{"a":"1","z":{"y":1},"below":{"x":"1","w":2}}}"#,
            r#"{"f:open":{"f:a":{},"f:below":{"f:w":{},"f:x":{}},"f:z":{".":{},"f:y":{}}}}"#,
        ),
    ] {
        assert_eq!(fields(value), expected, "{value}");
    }
}

#[track_caller]
fn compared(old: &str, new: &str, removed: &str, modified: &str, added: &str) {
    let schema = thing();
    let found = compare(&tree(old), &tree(new), Type::of(&schema));
    let sets = [&found.removed, &found.modified, &found.added].map(|set| text(&set.to_value()));
    assert_eq!(sets, [removed, modified, added], "{old} -> {new}");
    assert_eq!(found.is_same(), [removed, modified, added] == ["{}"; 3]);
}

#[test]
fn added_modified_and_removed_fields_are_found() {
    compared(
        r#"{"name":"a","count":1}"#,
        r#"{"name":"b","on":true}"#,
        r#"{"f:count":{}}"#,
        r#"{"f:name":{}}"#,
        r#"{"f:on":{}}"#,
    );
    compared("{}", r#"{"labels":{"a":"1"}}"#, "{}", "{}", r#"{"f:labels":{".":{},"f:a":{}}}"#);
    compared(r#"{"labels":{}}"#, r#"{"labels":{"a":"1"}}"#, "{}", "{}", r#"{"f:labels":{"f:a":{}}}"#);
    compared(r#"{"labels":{"a":"1"}}"#, r#"{"labels":null}"#, r#"{"f:labels":{"f:a":{}}}"#, "{}", "{}");
    compared(r#"{"labels":{}}"#, r#"{"labels":null}"#, "{}", r#"{"f:labels":{}}"#, "{}");
    compared(r#"{"args":["a"]}"#, r#"{"args":["b"]}"#, "{}", r#"{"f:args":{}}"#, "{}");
    compared(r#"{"ratio":1}"#, r#"{"ratio":1.0}"#, "{}", "{}", "{}");
    compared(r#"{"numbers":[1]}"#, r#"{"numbers":[1.0,2]}"#, "{}", "{}", r#"{"f:numbers":{"v:2":{}}}"#);
    compared(
        r#"{"tags":["a","b"]}"#,
        r#"{"tags":["b","c","a"]}"#,
        "{}",
        "{}",
        r#"{"f:tags":{"v:\"c\"":{}}}"#,
    );
    compared(
        r#"{"items":[{"name":"a","value":1},{"name":"b"}]}"#,
        r#"{"items":[{"name":"c"},{"name":"a","value":2}]}"#,
        r#"{"f:items":{"k:{\"name\":\"b\"}":{".":{},"f:name":{}}}}"#,
        r#"{"f:items":{"k:{\"name\":\"a\"}":{"f:value":{}}}}"#,
        r#"{"f:items":{"k:{\"name\":\"c\"}":{".":{},"f:name":{}}}}"#,
    );
    // A repeated item counts as a value of its own.
    compared(
        r#"{"items":[{"name":"a","value":1},{"name":"a"}]}"#,
        r#"{"items":[{"name":"a","value":1}]}"#,
        r#"{"f:items":{"k:{\"name\":\"a\"}":{}}}"#,
        "{}",
        r#"{"f:items":{"k:{\"name\":\"a\"}":{".":{},"f:name":{},"f:value":{}}}}"#,
    );
    compared(
        r#"{"items":[{"name":"a"},{"name":"a"}]}"#,
        r#"{"items":[{"name":"a"},{"name":"a","value":1}]}"#,
        "{}",
        r#"{"f:items":{"k:{\"name\":\"a\"}":{}}}"#,
        "{}",
    );
    compared(
        r#"{"free":{"a":1}}"#,
        r#"{"free":"text"}"#,
        r#"{"f:free":{"f:a":{}}}"#,
        r#"{"f:free":{}}"#,
        "{}",
    );
}

#[track_caller]
fn merged(live: &str, config: &str, expected: &str) {
    let schema = thing();
    assert_eq!(text(&merge(&tree(live), &tree(config), Type::of(&schema))), expected, "{live} + {config}");
}

#[test]
fn a_configuration_is_merged_into_what_is_live() {
    merged(r#"{"name":"a","count":1}"#, r#"{"name":"b"}"#, r#"{"count":1,"name":"b"}"#);
    merged(r#"{"labels":{"a":"1"}}"#, r#"{"labels":{"b":"2"}}"#, r#"{"labels":{"a":"1","b":"2"}}"#);
    merged(r#"{"labels":{"a":"1"}}"#, r#"{"labels":{}}"#, r#"{"labels":{"a":"1"}}"#);
    merged(r#"{"labels":{"a":"1"}}"#, r#"{"labels":null}"#, r#"{"labels":{"a":"1"}}"#);
    merged(r#"{"labels":{}}"#, r#"{"labels":null}"#, r#"{"labels":null}"#);
    merged(r#"{"limits":{"a":"1"}}"#, r#"{"limits":{"b":"2"}}"#, r#"{"limits":{"b":"2"}}"#);
    merged(r#"{"args":["a"]}"#, r#"{"args":["b"]}"#, r#"{"args":["b"]}"#);
    merged(r#"{"free":{"a":1}}"#, r#"{"free":[1]}"#, r#"{"free":[1]}"#);
    merged(
        r#"{"items":[{"name":"a","value":1}]}"#,
        r#"{"items":[{"name":"a","deep":{"x":1}}]}"#,
        r#"{"items":[{"deep":{"x":1},"name":"a","value":1}]}"#,
    );
}

#[test]
fn lists_keep_the_order_of_the_configuration() {
    for (live, config, expected) in [
        (r#"["a","b"]"#, r#"["b","a"]"#, r#"["b","a"]"#),
        (r#"["a","b"]"#, r#"["c"]"#, r#"["a","b","c"]"#),
        (r#"["a","b","c"]"#, r#"["c","a"]"#, r#"["b","c","a"]"#),
        (r#"["1","a","2","b","3"]"#, r#"["a","b"]"#, r#"["1","a","2","b","3"]"#),
        (r#"["1","a","2","b","3"]"#, r#"["b","a"]"#, r#"["1","2","b","3","a"]"#),
        (r#"["1","a","2","b","3"]"#, r#"["x","a","y","b","z"]"#, r#"["1","x","a","2","y","b","3","z"]"#),
        (r#"["a","a","b"]"#, r#"["b"]"#, r#"["a","a","b"]"#),
        (r#"["a","b","a"]"#, r#"["a"]"#, r#"["a","b"]"#),
    ] {
        merged(
            &format!(r#"{{"tags":{live}}}"#),
            &format!(r#"{{"tags":{config}}}"#),
            &format!(r#"{{"tags":{expected}}}"#),
        );
    }
}

#[track_caller]
fn removed(value: &str, gone: &str, expected: &str) {
    let schema = thing();
    let gone = Set::from_value(&tree(gone)).unwrap();
    assert_eq!(text(&remove(&tree(value), &gone, Type::of(&schema))), expected, "{value}");
}

#[test]
fn fields_are_taken_out() {
    removed(r#"{"name":"a","count":1}"#, r#"{"f:name":{}}"#, r#"{"count":1}"#);
    removed(r#"{"name":"a"}"#, r#"{"f:name":{}}"#, "null");
    removed(
        r#"{"name":"a","labels":{"a":"1"}}"#,
        r#"{"f:labels":{"f:a":{}}}"#,
        r#"{"labels":null,"name":"a"}"#,
    );
    removed(r#"{"tags":["a","b"]}"#, r#"{"f:tags":{"v:\"a\"":{}}}"#, r#"{"tags":["b"]}"#);
    removed(
        r#"{"items":[{"name":"a","value":1},{"name":"b"}]}"#,
        r#"{"f:items":{"k:{\"name\":\"a\"}":{"f:value":{}},"k:{\"name\":\"b\"}":{}}}"#,
        r#"{"items":[{"name":"a"}]}"#,
    );
    removed(
        r#"{"limits":{"a":"1"},"name":"a"}"#,
        r#"{"f:limits":{"f:a":{}}}"#,
        r#"{"limits":null,"name":"a"}"#,
    );
}

#[track_caller]
fn invalid(value: &str, expected: &str) {
    let schema = thing();
    let error = validate(&tree(value), Type::of(&schema), Duplicates::Refused).unwrap_err();
    assert_eq!(error.to_string(), expected);
}

#[test]
fn values_of_the_wrong_form_are_named() {
    invalid(r#"{"nope":1}"#, ".nope: field not declared in schema");
    invalid(r#"{"spec":{"c":1}}"#, ".spec.c: field not declared in schema");
    invalid(r#"{"count":"3"}"#, ".count: expected numeric (int or float), got string");
    invalid(r#"{"name":true}"#, ".name: expected string, got &value.valueUnstructured{Value:true}");
    invalid(
        r#"{"labels":{"a":{"b":"c"}}}"#,
        r#".labels.a: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"b":"c"}}"#,
    );
    invalid(r#"{"on":"true"}"#, ".on: expected boolean, got &{true}");
    invalid(r#"{"size":[1]}"#, ".size: expected any scalar, got &{[1]}");
    invalid(r#"{"labels":["a"]}"#, ".labels: expected map, got &{[a]}");
    invalid(r#"{"tags":"a"}"#, ".tags: expected list, got &{a}");
    invalid(r#"{"tags":["a","a"]}"#, r#".tags: duplicate entries for key [="a"]"#);
    invalid(
        r#"{"tags":[null]}"#,
        ".tags: element 0: associative list without keys has an element that's an explicit null",
    );
    invalid(
        r#"{"tags":[{}]}"#,
        ".tags: element 0: associative list without keys has an element that's a map type",
    );
    invalid(
        r#"{"ports":[{"port":1},{"port":1,"proto":"TCP"}]}"#,
        r#".ports: duplicate entries for key [port=1,proto="TCP"]"#,
    );
    invalid(
        r#"{"items":[{"value":1}]}"#,
        r#".items: element 0: associative list with keys has an element that omits all key fields ["name"] (and doesn't have default values for any key fields)"#,
    );
    invalid(
        r#"{"items":[null]}"#,
        ".items: element 0: associative list with keys may not have a null element",
    );
    invalid(
        r#"{"items":["a"]}"#,
        ".items: element 0: associative list with keys may not have non-map elements",
    );
    invalid(
        r#"{"name":1,"on":1}"#,
        "errors:\n  .name: expected string, got &value.valueUnstructured{Value:1}\n  .on: expected boolean, got &{1}",
    );
    crate::testing::with_deep_stack(|| {
        let deep = crate::testing::nested("free", 1, crate::testing::nested_objects(crate::DEPTH_MAX + 2));
        assert!(validate(&deep, Type::of(&thing()), Duplicates::Refused).is_err());
    });
    let schema = thing();
    assert!(validate(&tree(r#"{"tags":["a","a"]}"#), Type::of(&schema), Duplicates::Allowed).is_ok());
    assert!(
        validate(
            &tree(r#"{"name":null,"tags":null,"labels":null,"open":{"z":[1]}}"#),
            Type::of(&schema),
            Duplicates::Refused
        )
        .is_ok()
    );
}

#[test]
fn sets_follow_the_schema_from_granular_to_atomic() {
    let schema = thing();
    let set = |fields: &str| Set::from_value(&tree(fields)).unwrap();
    for (fields, expected) in [
        (r#"{"f:args":{".":{},"v:\"a\"":{}},"f:name":{}}"#, Some(r#"{"f:args":{},"f:name":{}}"#)),
        (r#"{"f:limits":{"f:a":{}}}"#, Some(r#"{"f:limits":{}}"#)),
        (r#"{"f:whole":{"f:a":{}}}"#, Some(r#"{"f:whole":{}}"#)),
        (r#"{"f:limits":{},"f:spec":{"f:a":{}},"f:free":{"f:x":{"f:y":{}}}}"#, None),
        (r#"{"f:spec":{},"f:gone":{"f:a":{}}}"#, None),
    ] {
        let found = reconcile(&set(fields), Type::of(&schema)).map(|set| text(&set.to_value()));
        assert_eq!(found.as_deref(), expected, "{fields}");
    }
}

#[test]
fn named_fields_on_the_way_are_members_too() {
    let schema = thing();
    let set = Set::from_value(&tree(
        r#"{"f:spec":{"f:a":{}},"f:labels":{"f:a":{}},"f:items":{"k:{\"name\":\"a\"}":{"f:deep":{"f:x":{}}}},"f:free":{"f:x":{"f:y":{}}}}"#,
    ));
    assert_eq!(
        text(&with_named_fields(set.unwrap(), Type::of(&schema)).to_value()),
        text(&tree(
            r#"{"f:spec":{".":{},"f:a":{}},"f:labels":{".":{},"f:a":{}},"f:items":{".":{},"k:{\"name\":\"a\"}":{"f:deep":{".":{},"f:x":{}}}},"f:free":{".":{},"f:x":{"f:y":{}}}}"#
        ))
    );
}

#[test]
fn errors_do_not_repeat_long_keys_without_limit() {
    let schema = schema(r#"{"fields":{"m":{"map":{"map":"string"}}}}"#);
    let members: Vec<String> = (0..3_000).map(|n| format!(r#""f{n}":5"#)).collect();
    let value = format!(r#"{{"m":{{"{}":{{{}}}}}}}"#, "k".repeat(300_000), members.join(","));
    let error = validate(&tree(&value), Type::of(&schema), Duplicates::Refused).unwrap_err().to_string();
    assert!(error.len() < 16 << 20, "{}", error.len());
}
