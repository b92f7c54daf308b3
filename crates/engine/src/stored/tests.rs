//! Values that kube-apiserver v1.36.4 stored, read and written again.

use super::{KubernetesForm, StorageMediaType, StoredForm};
use bytes::Bytes;
use pintle_cache::{is_outdated, value_header};
use pintle_kinds::builtin;
use pintle_schema::typed;
use pintle_value::{base64, json};
use std::sync::Arc;

/// Lines of a key and a value in base64, one for each kind and encoding.
const RECORDED: &str = include_str!("../../tests/data/stored.txt");

fn form(media: StorageMediaType, cbor: bool) -> KubernetesForm {
    KubernetesForm::new(builtin().kinds.into_iter().map(Arc::new), media, cbor)
}

/// Returns the form with whose settings these bytes were written.
fn form_of(stored: &[u8]) -> usize {
    match stored {
        [b'k', b'8', b's', 0, ..] => 0,
        [0xd9, ..] => 2,
        _ => 1,
    }
}

fn text(value: &Bytes) -> String {
    String::from_utf8_lossy(value.get(value_header(0).len()..).unwrap()).into_owned()
}

#[test]
fn recorded_values_read_and_write_alike() {
    let forms = [
        form(StorageMediaType::Protobuf, false),
        form(StorageMediaType::Json, false),
        form(StorageMediaType::Json, true),
    ];
    let mut failures = Vec::new();
    for line in RECORDED.lines() {
        let (key, value) = line.split_once(' ').unwrap();
        let stored = Bytes::from(base64::decode(value).unwrap());
        let form = &forms[form_of(&stored)];
        match form.decode(key, &stored) {
            Err(why) => failures.push(format!("{key}: {why}")),
            Ok(value) => {
                let again = form.encode(key, &value, None);
                if again != stored {
                    let show = |bytes: &Bytes| bytes.escape_ascii().to_string();
                    failures.push(format!(
                        "{key}:\n  {}\n  {}\n  {}",
                        show(&stored),
                        show(&again),
                        text(&value)
                    ));
                }
                assert_eq!(is_outdated(&value), again != stored, "{key}");
            }
        }
    }
    assert!(failures.is_empty(), "{} differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_tree_of_a_write_gives_the_same_bytes() {
    let form = form(StorageMediaType::Protobuf, false);
    let kinds = builtin().kinds;
    for line in RECORDED.lines() {
        let (key, value) = line.split_once(' ').unwrap();
        let stored = Bytes::from(base64::decode(value).unwrap());
        let kind = kinds.iter().find(|kind| key.starts_with(kind.store_prefix.as_str()));
        let Some(kind) = kind.filter(|_| form_of(&stored) == 0) else { continue };
        let value = form.decode(key, &stored).unwrap();
        let json = value.get(value_header(0).len()..).unwrap();
        let mut tree = json::parse(json).unwrap().value;
        typed::restore_raw(&kind.storage_version().schema, &mut tree, json);
        assert_eq!(form.encode(key, &value, Some(&tree)), form.encode(key, &value, None), "{key}");
        tree.set_at(&["metadata", "resourceVersion"], "7".into());
        assert_eq!(form.encode(key, &value, Some(&tree)), form.encode(key, &value, None), "{key}");
    }
}

/// A claim that was just created: its phase is only stored by its next write.
const CLAIM: &str = "azhzAAobCgJ2MRIVUGVyc2lzdGVudFZvbHVtZUNsYWltEg4KCAoBYRoDbGF5GgIKABoAIgA=";

#[test]
fn values_are_read_with_defaults_and_then_stored_anew() {
    let form = form(StorageMediaType::Protobuf, false);
    let key = "/registry/persistentvolumeclaims/lay/a";
    let value = form.decode(key, &Bytes::from(base64::decode(CLAIM).unwrap())).unwrap();
    assert!(is_outdated(&value));
    assert!(text(&value).contains(r#""status":{"phase":"Pending"}"#), "{}", text(&value));
    let again = form.decode(key, &form.encode(key, &value, None)).unwrap();
    assert!(!is_outdated(&again));
}

#[test]
fn other_versions_and_encodings_are_read() {
    let form = form(StorageMediaType::Protobuf, false);
    let check = |key: &str, stored: &str, expected: &str| {
        let value = form.decode(key, &Bytes::from(stored.to_string())).unwrap();
        assert!(is_outdated(&value), "{stored}");
        assert!(text(&value).contains(expected), "{}", text(&value));
    };
    check(
        "/registry/deployments/a/d",
        r#"{"kind":"Deployment","apiVersion":"extensions/v1beta1","metadata":{"name":"d","namespace":"a"}}"#,
        r#"{"kind":"Deployment","apiVersion":"apps/v1","metadata":{"name":"d","namespace":"a""#,
    );
    check(
        "/registry/configmaps/a/c",
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  namespace: a\n  resourceVersion: '7'\n  selfLink: /x\ndata:\n  k: v\n",
        r#""metadata":{"name":"c","namespace":"a"},"data":{"k":"v"}}"#,
    );
    check(
        "/registry/apiextensions.k8s.io/customresourcedefinitions/as.example.com",
        r#"{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1","metadata":{"name":"as.example.com"},"spec":{"group":"example.com","version":"v1","names":{"plural":"as","kind":"A"},"scope":"Cluster","conversion":{"strategy":"Webhook","webhookClientConfig":{"url":"https://x"},"conversionReviewVersions":["v1"]},"additionalPrinterColumns":[{"name":"S","type":"string","JSONPath":".s"}]}}"#,
        r#""additionalPrinterColumns":[{"name":"S","type":"string","jsonPath":".s"}]}],"conversion":{"strategy":"Webhook","webhook":{"clientConfig":{"url":"https://x"},"conversionReviewVersions":["v1"]}},"preserveUnknownFields":true}"#,
    );
    check(
        "/registry/example.com/as/x",
        r#"{"kind":"A","apiVersion":"example.com/v1","metadata":{"uid":"u","resourceVersion":"3","name":"x"}}"#,
        r#"{"apiVersion":"example.com/v1","kind":"A","metadata":{"name":"x","uid":"u"}}"#,
    );
}

#[test]
fn values_that_cannot_be_read_say_why() {
    let form = form(StorageMediaType::Protobuf, false);
    for (key, stored, why) in [
        (
            "/registry/configmaps/a/c",
            &b"{\"kind\":\"ConfigMap\",\"apiVersion\":\"v9\"}"[..],
            "no kind \"ConfigMap\" is registered for version \"v9\" in scheme",
        ),
        ("/registry/configmaps/a/c", b"k8s\0\xff\xff", "unexpected EOF"),
        ("/registry/configmaps/a/c", b"k8s\0", "empty body"),
        ("/registry/configmaps/a/c", b"", "couldn't get version/kind"),
        ("/registry/configmaps/a/c", b"garbage", "couldn't get version/kind"),
        ("/registry/configmaps/a/c", b"\xd9\xd9\xf7\xff", ""),
        ("/registry/example.com/as/x", b"[1]", "couldn't get version/kind"),
        ("/registry/example.com/as/x", b"\xd9\xd9\xf7", ""),
    ] {
        let unreadable = form.decode(key, &Bytes::from_static(stored)).unwrap_err();
        assert!(unreadable.0.contains(why), "{key}: {unreadable}");
    }
}
