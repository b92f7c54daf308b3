//! Tables of rules: schema, object, old object, and the errors.

use super::{Before, REQUEST_BUDGET, Scope, validate, validate_strictly};
use crate::{Arena, Node, Shape, structural};
use pintle_value::{Path, Value};

fn tree(text: &str) -> Value {
    pintle_value::json::parse(text.as_bytes()).expect("valid JSON").value
}

/// Errors, then warnings behind `~`.
fn run(schema: &str, object: &str, old: Option<&str>, budget: i64) -> Vec<String> {
    let schema = tree(schema);
    let mut arena = Arena::default();
    let metadata = arena.push(Node::of(Shape::Any));
    let root = structural::compile(&schema, metadata, &mut arena);
    let scope = Scope::of(&schema, true).expect("rules");
    let (object, old) = (tree(object), old.map(tree));
    let before = old.as_ref().map(|old| Before { arena: &arena, root, old });
    let outcome = validate(&scope, &object, before, &Path::ROOT, budget);
    let errors = outcome.errors.0.iter().map(ToString::to_string);
    errors.chain(outcome.warnings.iter().map(|w| format!("~{w}"))).collect()
}

/// A schema of one property `a`.
fn of(a: &str) -> String {
    format!(r#"{{"type":"object","properties":{{"a":{a}}}}}"#)
}

#[test]
fn violated_rules_have_the_texts_of_kube_apiserver() {
    let cases = [
        (
            r#"{"type":"integer","x-kubernetes-validations":[{"rule":"self > 1"}]}"#,
            "1",
            "a: Invalid value: 1: failed rule: self > 1",
        ),
        (
            r#"{"type":"integer","x-kubernetes-validations":[{"rule":"self > 1","message":" no "}]}"#,
            "1",
            "a: Invalid value: 1: no",
        ),
        (
            r#"{"type":"integer","x-kubernetes-validations":[{"rule":"self > 1","messageExpression":"'got ' + string(self)"}]}"#,
            "1",
            "a: Invalid value: 1: got 1",
        ),
        // If the message expression fails, the constant message is used.
        (
            r#"{"type":"integer","x-kubernetes-validations":[{"rule":"self > 1","message":"no","messageExpression":"string(1 / (self - 1))"}]}"#,
            "1",
            "a: Invalid value: 1: no",
        ),
        (
            r#"{"type":"array","items":{"type":"integer"},"x-kubernetes-validations":[{"rule":"self[0] > 1","reason":"FieldValueForbidden"}]}"#,
            "[1]",
            "a: Forbidden: failed rule: self[0] > 1",
        ),
        (
            r#"{"type":"object","properties":{"b":{"type":"string"}},"x-kubernetes-validations":[{"rule":"self.b != ''","fieldPath":".b"}]}"#,
            r#"{"b":""}"#,
            "a.b: Invalid value: failed rule: self.b != ''",
        ),
        (
            r#"{"type":"object","properties":{"b":{"type":"string"}},"x-kubernetes-validations":[{"rule":"self.b != ''"}]}"#,
            "{}",
            "a: Invalid value: \"object\": no such key: b evaluating rule: self.b != ''",
        ),
        (
            r#"{"x-kubernetes-int-or-string":true,"x-kubernetes-validations":[{"rule":"self + 1 > 1"}]}"#,
            r#""x""#,
            "a: Invalid value: \"\": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self + 1 > 1",
        ),
        (
            r#"{"type":"object","additionalProperties":{"type":"integer","x-kubernetes-validations":[{"rule":"self > 1","reason":"FieldValueDuplicate"}]}}"#,
            r#"{"k":1}"#,
            "a[k]: Duplicate value: 1",
        ),
        (r#"{"type":"integer","nullable":true,"x-kubernetes-validations":[{"rule":"false"}]}"#, "null", ""),
    ];
    for (schema, value, expected) in cases {
        let found = run(&of(schema), &format!(r#"{{"a":{value}}}"#), None, REQUEST_BUDGET);
        assert_eq!(found.join("; "), expected, "{schema}");
    }
}

#[test]
fn errors_of_the_whole_object_name_no_field() {
    let schema = r#"{"type":"object","x-kubernetes-validations":[{"rule":"self.metadata.name == 'x'"}]}"#;
    let found = run(schema, r#"{"metadata":{"name":"y"}}"#, None, REQUEST_BUDGET);
    assert_eq!(found, ["<nil>: Invalid value: failed rule: self.metadata.name == 'x'"]);
}

#[test]
fn transition_rules_need_something_to_compare_with() {
    let list = of(
        r#"{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object",
            "properties":{"k":{"type":"string"},"v":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"self.v >= oldSelf.v"}]}}"#,
    );
    let optional = of(
        r#"{"type":"integer","x-kubernetes-validations":[{"rule":"oldSelf.hasValue() || self == 0","optionalOldSelf":true}]}"#,
    );
    let failed = "a[1]: Invalid value: failed rule: self.v >= oldSelf.v";
    let cases = [
        (&list, r#"[{"k":"x","v":1}]"#, None, ""),
        (&list, r#"[{"k":"y","v":1},{"k":"x","v":1}]"#, Some(r#"[{"k":"x","v":2}]"#), failed),
        (&list, r#"[{"k":"y","v":1}]"#, Some(r#"[{"k":"x","v":2}]"#), ""),
        (&optional, "1", None, "a: Invalid value: 1: failed rule: oldSelf.hasValue() || self == 0"),
        (&optional, "1", Some("1"), ""),
    ];
    for (schema, value, old, expected) in cases {
        let old = old.map(|old| format!(r#"{{"a":{old}}}"#));
        let found = run(schema, &format!(r#"{{"a":{value}}}"#), old.as_deref(), REQUEST_BUDGET);
        assert_eq!(found.join("; "), expected, "{schema} {value}");
    }
}

#[test]
fn violations_of_unchanged_values_are_only_warnings() {
    let item = r#"{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"integer"}},"x-kubernetes-validations":[{"rule":"self.v > 1"}]}"#;
    let keyed = of(&format!(
        r#"{{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{item}}}"#
    ));
    let atomic = of(&format!(r#"{{"type":"array","items":{item}}}"#));
    let old = r#"{"a":[{"k":"x","v":1}]}"#;
    let failed = |at: &str| format!("{at}: Invalid value: failed rule: self.v > 1");
    let cases = [
        (&keyed, old, vec![format!("~{}", failed("a[0]"))]),
        (&keyed, r#"{"a":[{"k":"y","v":2},{"k":"x","v":1}]}"#, vec![format!("~{}", failed("a[1]"))]),
        (&keyed, r#"{"a":[{"k":"x","v":0}]}"#, vec![failed("a[0]")]),
        (&atomic, old, vec![format!("~{}", failed("a[0]"))]),
        (&atomic, r#"{"a":[{"k":"x","v":1},{"k":"y","v":2}]}"#, vec![failed("a[0]")]),
    ];
    for (schema, object, expected) in cases {
        assert_eq!(run(schema, object, Some(old), REQUEST_BUDGET), expected, "{schema} {object}");
    }
}

#[test]
fn a_budget_that_runs_out_ends_everything() {
    let schema =
        of(r#"{"type":"array","items":{"type":"integer","x-kubernetes-validations":[{"rule":"self > 1"}]}}"#);
    let out = "validation failed due to running out of cost budget, no further validation rules will be run";
    // Each rule costs 2.
    let expected = [
        "a[0]: Invalid value: 1: failed rule: self > 1",
        &format!("a[1]: Invalid value: \"integer\": {out}"),
    ];
    assert_eq!(run(&schema, r#"{"a":[1,1,1]}"#, None, 3), expected);
    assert_eq!(run(&schema, r#"{"a":[1,1,1]}"#, None, 2), expected);
}

#[test]
fn a_default_is_let_through_by_nothing() {
    let schema = tree(r#"{"type":"integer","x-kubernetes-validations":[{"rule":"self > 1"}]}"#);
    let scope = Scope::of(&schema, false).expect("rules");
    let default = Value::Int(1);
    let outcome = validate_strictly(&scope, &default, Some(&default), &Path::of("d"), REQUEST_BUDGET);
    assert_eq!(outcome.errors.aggregate_message(), "d: Invalid value: 1: failed rule: self > 1");
}

#[test]
fn schemas_without_rules_have_no_scope() {
    assert!(Scope::of(&tree(&of(r#"{"type":"string"}"#)), true).is_none());
}
