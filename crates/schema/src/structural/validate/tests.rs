//! Limits of validation.

use super::*;
use crate::structural::compile;
use pintle_meta::field::{ERROR_BYTES_MAX, ERRORS_MAX};

/// The errors of `object` in a schema whose field `l` is a list of such items.
fn errors_of_items(item: &str, object: &str) -> FieldErrors {
    errors_within(STEPS_MAX, item, object)
}

fn errors_within(steps_max: usize, item: &str, object: &str) -> FieldErrors {
    let definition = format!(r#"{{"type":"object","properties":{{"l":{{"type":"array","items":{item}}}}}}}"#);
    let definition = json::parse(definition.as_bytes()).unwrap().value;
    let mut arena = Arena::default();
    let metadata = arena.push(Node::of(Shape::Any));
    let root = compile(&definition, metadata, &mut arena);
    arena.seal();
    let object = json::parse(object.as_bytes()).unwrap().value;
    let walk = Walk { steps_max, ..Walk::new(&arena, false) };
    walk.object(root, &object, None, &Path::ROOT).collect()
}

fn list(item: &str, count: usize) -> String {
    format!(r#"{{"l":[{}]}}"#, vec![item; count].join(","))
}

#[test]
fn texts_of_the_schema_are_not_repeated_without_limit() {
    let values: Vec<String> = (0..10_000).map(|n| format!(r#""e{n}""#)).collect();
    let names: Vec<String> = (0..20_000).map(|n| format!(r#""r{n}""#)).collect();
    for (item, object) in [
        (format!(r#"{{"type":"string","enum":[{}]}}"#, values.join(",")), list(r#""x""#, 3_000)),
        (format!(r#"{{"type":"string","pattern":"^{}"}}"#, "[a-z]".repeat(10_000)), list(r#""x""#, 3_000)),
        (format!(r#"{{"type":"object","required":[{}]}}"#, names.join(",")), list("{}", 3_000)),
        (r#"{"type":"string","maxLength":1,"pattern":"^z$","enum":["q"]}"#.into(), list(r#""xxx""#, 30_000)),
    ] {
        let errors = errors_of_items(&item, &object);
        let bytes: usize = errors.0.iter().map(|error| error.to_string().len()).sum();
        assert!(!errors.is_empty() && errors.0.len() <= ERRORS_MAX, "{} errors", errors.0.len());
        assert!(bytes <= ERROR_BYTES_MAX + ERRORS_MAX * 2, "{bytes} bytes");
    }
}

#[test]
fn a_schema_may_not_take_more_than_so_many_checks() {
    let branch = r#"{"properties":{"a":{"enum":["q"]}}}"#;
    let branches = vec![branch; 100].join(",");
    let refused = "<nil>: Invalid value: \"\": the schema requires more than 10000 checks of this object";
    for junctor in [format!(r#""anyOf":[{branches}]"#), format!(r#""not":{{"anyOf":[{branches}]}}"#)] {
        let item = format!(r#"{{"type":"object","properties":{{"a":{{"type":"string"}}}},{junctor}}}"#);
        assert_eq!(errors_within(10_000, &item, &list(r#"{"a":"z"}"#, 100)).aggregate_message(), refused);
        // The same schema with fewer values.
        let fails = errors_within(10_000, &item, &list(r#"{"a":"z"}"#, 10));
        assert_eq!(fails.is_empty(), junctor.starts_with("\"not"), "{}", fails.0.len());
    }
}

#[test]
fn a_long_enum_of_texts_is_looked_up() {
    let values: Vec<String> = (0..5_000).map(|n| format!(r#""e{n}""#)).collect();
    let item =
        format!(r#"{{"x-kubernetes-preserve-unknown-fields":true,"enum":[{},7,1.5,"A"]}}"#, values.join(","));
    assert_eq!(errors_of_items(&item, &list(r#""e4999""#, 100_000)), FieldErrors::new());
    // An integer is converted to the type of the allowed value: 65 is `A`, and 7.9 is 7.
    for (value, is_allowed) in
        [("7", true), ("7.9", true), ("65", true), ("\"7\"", false), ("\"e5000\"", false)]
    {
        assert_eq!(errors_of_items(&item, &list(value, 1)).is_empty(), is_allowed, "{value}");
    }
}
