//! Tests of which answers are accepted; an integration test calls a real webhook.

use super::*;

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap().value
}

#[test]
fn the_first_version_that_both_speak_is_taken() {
    for (offered, expected) in
        [(&["v2", "v1beta1", "v1"][..], Some("v1beta1")), (&["v1"], Some("v1")), (&["v9"], None)]
    {
        let offered: Vec<Str> = offered.iter().map(|v| Str::from(*v)).collect();
        assert_eq!(version(&offered), expected);
    }
}

#[test]
fn old_reviews_are_not_asked_for_their_uid() {
    let answer = |version: &str| {
        format!(
            r#"{{"kind":"ConversionReview","apiVersion":"apiextensions.k8s.io/{version}","response":{{"uid":"x","result":{{"status":"Success"}},"convertedObjects":[{{}}]}}}}"#
        )
    };
    let taken = |asked: &str, answered: &str| {
        objects(asked, "u", answer(answered).as_bytes()).map(|all| all.len()).map_err(|error| error.why)
    };
    assert_eq!(taken("v1beta1", "v1beta1"), Ok(1));
    assert_eq!(taken("v1beta1", "v1"), Err("no response provided".to_string()));
    assert_eq!(taken("v1", "v1"), Err(r#"expected response.uid="u", got "x""#.to_string()));
    assert!(objects("v1", "u", b"no json").is_err_and(|error| error.is_undecodable));
    let missing = objects("v1", "u", b"{}").err().map(|error| error.why);
    assert_eq!(missing.as_deref(), Some("Object 'Kind' is missing in '{}'"));
}

#[test]
fn only_labels_and_annotations_change() {
    let original = tree(
        r#"{"apiVersion":"g/v1","kind":"K","metadata":{"name":"a","uid":"1","labels":{"a":"b"},"finalizers":["x/y"]}}"#,
    );
    let gvk = GroupVersionKind::new("g", "v2", "K");
    let accepted = |metadata: &str| {
        let converted = tree(&format!(r#"{{"apiVersion":"g/v2","kind":"K","metadata":{metadata}}}"#));
        let place = Place { kind: "g/v1, Kind=K", index: 0, in_list: false };
        accept(&original, converted, &gvk, &place).map(|made| {
            json::text(made.get("metadata").unwrap())
        })
    };
    let prefix = "conversion webhook for g/v1, Kind=K returned invalid";
    for (metadata, expected) in [
        (
            r#"{"name":"a","uid":"1","annotations":{"n":"1"},"generation":9}"#,
            Ok(r#"{"annotations":{"n":"1"},"finalizers":["x/y"],"name":"a","uid":"1"}"#.to_string()),
        ),
        (r#"{"name":"a"}"#, Err(format!("{prefix} object: must have the same UID: 1 != "))),
        (
            r#"{"name":"a","uid":"1","labels":[]}"#,
            Err(format!(
                "{prefix} metadata: invalid metadata.labels of type []interface {{}} in converted object"
            )),
        ),
    ] {
        assert_eq!(accepted(metadata), expected);
    }
}
