use super::*;
use crate::testing::{schema, text, tree};

fn pod() -> Schema {
    schema(
        r#"{"go":"PodSpec","fields":{
            "name":"string","image":"string","number":"int",
            "labels":{"map":"string"},
            "nested":{"map":{"map":"string"}},
            "args":{"list":"string"},
            "finalizers":{"list":"string","set":true,"patch":""},
            "rows":{"list":{"list":"string"},"patch":""},
            "containers":{"patch":"name","keys":["name"],"list":{"go":"Container","fields":{
                "name":"string","image":"string",
                "env":{"patch":"name","keys":["name"],"list":{"go":"EnvVar","fields":{"name":"string","value":"string"}}}}}},
            "security":{"go":"SecurityContext","fields":{"user":"int","group":"int"}}}}"#,
    )
}

fn patched(document: &str, patch: &str) -> Result<String, PatchError> {
    apply(tree(document), tree(patch), &pod()).map(|v| text(&v))
}

#[test]
fn merging_takes_nulls_and_directives_out_of_the_patch() {
    for (document, patch, rest) in [
        (
            r#"{}"#,
            r#"{"image":null,"security":{"user":null,"group":1}}"#,
            r#"{"image":null,"security":{"group":1}}"#,
        ),
        (r#"{"security":{"user":1}}"#, r#"{"security":{"user":null}}"#, r#"{"security":{"user":null}}"#),
        (
            r#"{"security":{"user":1}}"#,
            r#"{"security":{"$patch":"replace","user":null}}"#,
            r#"{"security":{"user":null}}"#,
        ),
        (
            r#"{"containers":[{"name":"a"}]}"#,
            r#"{"containers":[{"name":"a","image":{"x":null}},{"name":"b","image":null}]}"#,
            r#"{"containers":[{"image":{},"name":"a"},{"image":null,"name":"b"}]}"#,
        ),
        (
            r#"{"containers":[{"name":"a"}]}"#,
            r#"{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"name":"a"}],"image":3}"#,
            r#"{"image":3}"#,
        ),
        (
            r#"{"labels":{"a":"1"}}"#,
            r#"{"labels":{"$retainKeys":["b"],"b":{"c":null}}}"#,
            r#"{"labels":{"b":{}}}"#,
        ),
    ] {
        assert_eq!(text(&remaining(&tree(document), &tree(patch), &pod())), rest, "{patch}");
    }
}

#[track_caller]
fn check(document: &str, patch: &str, expected: &str) {
    assert_eq!(patched(document, patch).as_deref(), Ok(expected), "{patch}");
}

#[track_caller]
fn refused(document: &str, patch: &str, expected: &str) {
    assert_eq!(patched(document, patch).unwrap_err().to_string(), expected, "{patch}");
}

#[test]
fn members_are_set_merged_and_removed() {
    check(r#"{"image":"i"}"#, "null", r#"{"image":"i"}"#);
    check(r#"{"image":"i"}"#, r#"{"image":null,"number":1}"#, r#"{"number":1}"#);
    check(
        r#"{"labels":{"a":"1","b":"2"}}"#,
        r#"{"labels":{"a":null,"c":"3"}}"#,
        r#"{"labels":{"b":"2","c":"3"}}"#,
    );
    check(
        "{}",
        r#"{"labels":{"a":null,"c":"3"},"unknown":{"x":null}}"#,
        r#"{"labels":{"c":"3"},"unknown":{}}"#,
    );
    check(r#"{"args":["a"]}"#, r#"{"args":["b"]}"#, r#"{"args":["b"]}"#);
    refused(r#"{"args":["a"]}"#, r#"{"args":"b"}"#, "cannot restore slice from string");
    let status = patched("{}", r#"{"args":"b"}"#).unwrap_err().to_status();
    assert_eq!(
        (status.code, status.message.as_str()),
        (422, r#" "" is invalid: patch: Invalid value: "map[args:b]": cannot restore slice from string"#)
    );
}

#[test]
fn map_directives_are_obeyed() {
    let both = r#"{"security":{"group":2,"user":1}}"#;
    check(both, r#"{"security":{"$patch":"replace","user":7}}"#, r#"{"security":{"user":7}}"#);
    check(both, r#"{"security":{"$patch":"delete"}}"#, r#"{"security":{}}"#);
    check("{}", r#"{"security":{"$patch":"delete"}}"#, "{}");
    check(both, r#"{"security":{"$retainKeys":["user"],"user":7}}"#, r#"{"security":{"user":7}}"#);
    refused(both, r#"{"security":{"$retainKeys":["user"],"group":7}}"#, "invalid patch format of retainKeys");
    refused(
        both,
        r#"{"security":{"$patch":"merge"}}"#,
        "unknown patch type: merge in map: map[$patch:merge]",
    );
    refused(both, r#"{"security":{"$patch":1}}"#, "unknown patch type: %!s(int64=1) in map: map[$patch:1]");
}

#[test]
fn lists_of_objects_merge_by_key() {
    let two = r#"{"containers":[{"image":"1","name":"a"},{"image":"2","name":"b"}]}"#;
    check(
        two,
        r#"{"containers":[{"name":"b","image":"3"}]}"#,
        r#"{"containers":[{"image":"1","name":"a"},{"image":"3","name":"b"}]}"#,
    );
    check(
        two,
        r#"{"containers":[{"name":"c","image":"3"},{"name":"a","env":[{"name":"E"}]}]}"#,
        r#"{"containers":[{"image":"3","name":"c"},{"env":[{"name":"E"}],"image":"1","name":"a"},{"image":"2","name":"b"}]}"#,
    );
    check(
        two,
        r#"{"containers":[{"name":"a","$patch":"delete"}]}"#,
        r#"{"containers":[{"image":"2","name":"b"}]}"#,
    );
    check(two, r#"{"containers":[{"$patch":"replace"},{"name":"z"}]}"#, r#"{"containers":[{"name":"z"}]}"#);
    check(
        "{}",
        r#"{"containers":[{"name":"a","$patch":"delete"},{"name":"b"}]}"#,
        r#"{"containers":[{"name":"b"}]}"#,
    );
    refused(
        two,
        r#"{"containers":[{"image":"n"}]}"#,
        "map: map[image:n] does not contain declared merge key: name",
    );
    refused(
        two,
        r#"{"containers":["c"]}"#,
        "list element types are not identical: [[map[image:1 name:a] map[image:2 name:b]] [c]]",
    );
    refused(
        two,
        r#"{"containers":[{"$patch":"zap","name":"c"}]}"#,
        "unknown patch type: zap in map: map[$patch:zap name:c]",
    );
    refused(
        two,
        r#"{"containers":[{"$patch":"merge","name":"c"}]}"#,
        "merging lists cannot yet be specified in the patch",
    );
}

#[test]
fn element_order_is_obeyed() {
    let three = r#"{"containers":[{"name":"a"},{"name":"b"},{"name":"c"}]}"#;
    check(
        three,
        r#"{"$setElementOrder/containers":[{"name":"c"},{"name":"a"}]}"#,
        r#"{"containers":[{"name":"b"},{"name":"c"},{"name":"a"}]}"#,
    );
    check(
        three,
        r#"{"$setElementOrder/containers":[{"name":"d"},{"name":"a"}],"containers":[{"name":"d"},{"name":"b","$patch":"delete"}]}"#,
        r#"{"containers":[{"name":"d"},{"name":"a"},{"name":"c"}]}"#,
    );
    check(
        r#"{"finalizers":["a","b"]}"#,
        r#"{"$setElementOrder/finalizers":["b","c","a"],"finalizers":["c"]}"#,
        r#"{"finalizers":["b","c","a"]}"#,
    );
    refused(
        three,
        r#"{"$setElementOrder/containers":[{"name":"a"}],"containers":[{"name":"d"}]}"#,
        "The order in patch list:\n[map[name:d]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
    );
    refused(
        three,
        r#"{"$setElementOrder/containers":"a"}"#,
        "expected a []interface {}, but received a string",
    );
    refused(three, r#"{"$setElementOrder":[]}"#, "invalid patch format of setElementOrder list");
    refused(
        three,
        r#"{"$setElementOrder/nothing":["a"]}"#,
        r#"unable to find api field in struct PodSpec for the json field "nothing""#,
    );
}

#[test]
fn lists_of_scalars_merge_by_value() {
    let two = r#"{"finalizers":["a","b"]}"#;
    check(two, r#"{"finalizers":["c","a"]}"#, r#"{"finalizers":["c","a","b"]}"#);
    check(two, r#"{"$deleteFromPrimitiveList/finalizers":["a"]}"#, r#"{"finalizers":["b"]}"#);
    check(
        two,
        r#"{"$deleteFromPrimitiveList/finalizers":["a"],"finalizers":["c"]}"#,
        r#"{"finalizers":["c","b"]}"#,
    );
    check("{}", r#"{"$deleteFromPrimitiveList/finalizers":["a"]}"#, "{}");
    refused(two, r#"{"$deleteFromPrimitiveList":["a"]}"#, "invalid patch format of primitive list");
}

#[test]
fn fields_without_a_patch_rule_are_refused_as_kube_apiserver_does() {
    refused(
        r#"{"nested":{"a":{"b":"c"}}}"#,
        r#"{"nested":{"a":{"d":"e"}}}"#,
        "merging an object in json but data type is not struct, instead is: map",
    );
    refused(r#"{"rows":[["a"]]}"#, r#"{"rows":[["b"]]}"#, "unexpected slice of slice");
    refused("{}", "[]", "json: cannot unmarshal array into Go value of type map[string]interface {}");
    assert_eq!(patched("{}", "[]").unwrap_err().to_status().code, 400);
    assert_eq!(
        patched(r#"{"containers":[{"name":"a"}]}"#, r#"{"containers":[{}]}"#).unwrap_err().to_status().code,
        500
    );
}

#[test]
fn a_patch_that_is_too_deep_is_refused() {
    crate::testing::with_deep_stack(|| {
        let schema = crate::testing::schema(r#"{"go":"Lease","fields":{"name":"string"}}"#);
        let merged = |depth| apply(Value::object(), crate::testing::nested_objects(depth), &schema);
        assert_eq!(merged(DEPTH_MAX).map(drop), Ok(()));
        assert_eq!(merged(DEPTH_MAX + 2), Err(too_deep()));
    });
}
