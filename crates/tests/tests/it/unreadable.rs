//! Objects in a version that their definition no longer has: they are stored but cannot be decoded.

use pintle_testkit::{Client, Options, Server};
use serde_json::{Value, json};
use std::time::Duration;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/olds.gone.example.com";
const WHY: &str = "request to convert CR from an invalid group/version: gone.example.com/v1";

fn versions(names: &[&str], stored: &str) -> Value {
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version =
        |name: &&str| json!({"name": name, "served": true, "storage": *name == stored, "schema": schema});
    names.iter().map(version).collect()
}

fn path(rest: &str) -> String {
    format!("/apis/gone.example.com/v2/namespaces/default/olds{rest}")
}

fn object(version: &str, name: &str) -> Value {
    json!({"apiVersion": format!("gone.example.com/{version}"), "kind": "Old", "metadata": {"name": name}})
}

async fn change(admin: &Client, subresource: &str, change: impl Fn(&mut Value)) {
    let target = format!("{DEFINITION}{subresource}");
    for _ in 0..50 {
        let (_, mut live) = admin.get(DEFINITION).await.unwrap();
        change(&mut live);
        match admin.put(&target, &live).await.unwrap() {
            (200, _) => return,
            (409, _) => {}
            other => panic!("{other:?}"),
        }
    }
    panic!("the definition is never as it was read");
}

/// Leaves `a` and `b` in v1, which is no longer a version, and `c` in v2, which still is.
async fn leave_behind(admin: &Client) {
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "olds.gone.example.com"},
        "spec": {"group": "gone.example.com", "scope": "Namespaced", "names": {"plural": "olds", "kind": "Old"},
            "versions": versions(&["v1", "v2"], "v1")}});
    assert_eq!(admin.post(DEFINITIONS, &definition).await.unwrap().0, 201);
    for _ in 0..200 {
        if admin.get(&path("")).await.unwrap().0 == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let collection = "/apis/gone.example.com/v1/namespaces/default/olds";
    for name in ["a", "b"] {
        assert_eq!(admin.post(collection, &object("v1", name)).await.unwrap().0, 201);
    }
    change(admin, "", |live| live["spec"]["versions"] = versions(&["v1", "v2"], "v2")).await;
    assert_eq!(admin.post(&path(""), &object("v2", "c")).await.unwrap().0, 201);
    change(admin, "/status", |live| live["status"]["storedVersions"] = json!(["v2"])).await;
    change(admin, "", |live| live["spec"]["versions"] = versions(&["v2"], "v2")).await;
}

/// The message without the revision, which differs between runs.
fn without_revision(message: &Value) -> String {
    let message = message.as_str().unwrap_or_default();
    let Some((head, rest)) = message.split_once("revision=") else { return message.to_string() };
    let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    format!("{head}revision=N{rest}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unreadable_objects_are_reported_and_can_be_deleted() {
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    leave_behind(&admin).await;
    let undecodable = format!("object not decodable revision=N: {WHY}");
    let corrupt = format!(
        "Internal error occurred: StorageError: corrupt object, Code: 7, Key: /gone.example.com/olds/default/a, \
         ResourceVersion: 0, AdditionalErrorMsg: {undecodable}"
    );
    let unlisted = "failed to read one or more olds.gone.example.com from the storage";
    let unready =
        format!("storage is (re)initializing: failed to list gone.example.com/v2, Kind=Old: {unlisted}");
    let patch = json!({"metadata": {"labels": {"x": "y"}}});
    let merge = "application/merge-patch+json";
    let answers = [
        ("get", admin.get(&path("/a")).await.unwrap(), 500, &corrupt),
        ("get from memory", admin.get(&path("/a?resourceVersion=0")).await.unwrap(), 500, &corrupt),
        ("delete", admin.delete(&path("/a")).await.unwrap(), 500, &corrupt),
        ("patch", admin.patch(&path("/a"), merge, &patch).await.unwrap(), 500, &undecodable),
        ("dry run", admin.patch(&path("/a?dryRun=All"), merge, &patch).await.unwrap(), 500, &corrupt),
        ("put", admin.put(&path("/a"), &object("v2", "a")).await.unwrap(), 500, &undecodable),
        ("list", admin.get(&path("")).await.unwrap(), 429, &unready),
        ("selected", admin.get(&path("?limit=5&labelSelector=x")).await.unwrap(), 429, &unready),
        ("page", admin.get(&path("?limit=5")).await.unwrap(), 500, &unlisted.to_string()),
        ("watch", admin.get(&path("?watch=true&resourceVersion=1")).await.unwrap(), 429, &unready),
        ("delete all, in pages", admin.delete(&path("")).await.unwrap(), 500, &unlisted.to_string()),
    ];
    for (title, (code, body), expected_code, expected) in &answers {
        assert_eq!(
            (*code, without_revision(&body["message"])),
            (*expected_code, expected.to_string()),
            "{title}"
        );
    }
    let (_, page) = admin.get(&path("?limit=1")).await.unwrap();
    let fields: Vec<&str> =
        page["details"]["causes"].as_array().unwrap().iter().map(|c| c["field"].as_str().unwrap()).collect();
    assert_eq!(
        fields,
        ["/registry/gone.example.com/olds/default/a", "/registry/gone.example.com/olds/default/b"]
    );
    let (code, body) = admin.post(&path(""), &object("v2", "a")).await.unwrap();
    assert_eq!((code, &body["reason"]), (409, &json!("AlreadyExists")));
    // Readable objects are unaffected.
    assert_eq!(admin.get(&path("/c")).await.unwrap().0, 200);
    assert_eq!(admin.patch(&path("/c"), merge, &patch).await.unwrap().0, 200);
    held_definition(&admin, &unready).await;
    for name in ["a", "b"] {
        let target = path(&format!("/{name}?ignoreStoreReadErrorWithClusterBreakingPotential=true"));
        let (code, body) = admin.delete(&target).await.unwrap();
        let expected = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
            "details": {"name": name, "kind": "Old"}, "code": 200});
        assert_eq!((code, body), (200, expected));
    }
    // The definition can be deleted now.
    for _ in 0..1000 {
        if admin.get(DEFINITION).await.unwrap().0 == 404 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("the definition stays");
}

/// A definition whose objects cannot be listed is not removed, and its condition says why.
async fn held_definition(admin: &Client, unready: &str) {
    assert_eq!(admin.delete(DEFINITION).await.unwrap().0, 200);
    let mut found = Value::Null;
    for _ in 0..200 {
        let (_, live) = admin.get(DEFINITION).await.unwrap();
        let conditions = live["status"]["conditions"].as_array().cloned().unwrap_or_default();
        found = conditions.into_iter().find(|c| c["type"] == "Terminating").unwrap_or_default();
        if found["reason"] == "InstanceDeletionFailed" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(found["status"], "True", "{found}");
    assert_eq!(found["message"], format!("could not list instances: {unready}"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_gate_only_the_reason_is_reported() {
    let gate = "--feature-gates=AllowUnsafeMalformedObjectDeletion=false";
    let options = Options { flags: vec![gate.to_string()], ephemeral: true };
    let server = Server::start_with(options).await.unwrap();
    let admin = server.admin().unwrap();
    leave_behind(&admin).await;
    let unready = format!("storage is (re)initializing: failed to list gone.example.com/v2, Kind=Old: {WHY}");
    let ignored = "/a?ignoreStoreReadErrorWithClusterBreakingPotential=true";
    let patch = json!({"metadata": {"labels": {"x": "y"}}});
    for (title, (code, body), expected) in [
        ("get", admin.get(&path("/a")).await.unwrap(), WHY),
        ("delete", admin.delete(&path(ignored)).await.unwrap(), WHY),
        ("patch", admin.patch(&path("/a"), "application/merge-patch+json", &patch).await.unwrap(), WHY),
        ("page", admin.get(&path("?limit=5")).await.unwrap(), WHY),
        ("list", admin.get(&path("")).await.unwrap(), &*unready),
    ] {
        let expected_code = if title == "list" { 429 } else { 500 };
        assert_eq!((code, body["message"].as_str()), (expected_code, Some(expected)), "{title}");
    }
    // With the version restored, everything is readable again.
    change(&admin, "", |live| live["spec"]["versions"] = versions(&["v1", "v2"], "v2")).await;
    let (code, list) = admin.get(&path("")).await.unwrap();
    assert_eq!((code, list["items"].as_array().map(Vec::len)), (200, Some(3)));
}
