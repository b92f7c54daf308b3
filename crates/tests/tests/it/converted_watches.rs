//! Watches of custom resources that a webhook converts: selectors, waiting for the webhook, and errors that end them.

use crate::following::{Events, events};
use pintle_testkit::{Client, Server, Webhook};
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const DEFINITION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/paints.watch.example.com";

/// `spec.color` of v1 is `spec.paint` of v2; the webhook also labels converted objects.
fn definition(hook: &Webhook) -> Value {
    let version = |name: &str, field: &str| {
        let spec =
            json!({"type": "object", "properties": {field: {"type": "string"}, "n": {"type": "integer"}}});
        json!({"name": name, "served": true, "storage": name == "v1",
            "selectableFields": [{"jsonPath": format!(".spec.{field}")}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "paints.watch.example.com"},
        "spec": {"group": "watch.example.com", "scope": "Namespaced",
            "names": {"plural": "paints", "kind": "Paint"},
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"url": hook.url(), "caBundle": hook.ca_bundle()}}},
            "versions": [version("v1", "color"), version("v2", "paint")]}})
}

fn convert(review: &Value, works: bool) -> Value {
    let request = &review["request"];
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let (from, to) = if desired.ends_with("/v2") { ("color", "paint") } else { ("paint", "color") };
    let objects = request["objects"].as_array().into_iter().flatten().map(|object| {
        let mut object = object.clone();
        object["apiVersion"] = desired.into();
        object["metadata"]["labels"]["in"] = to.into();
        if let Some(value) = object["spec"].as_object_mut().and_then(|spec| spec.remove(from)) {
            object["spec"][to] = value;
        }
        object
    });
    let objects: Vec<Value> = objects.collect();
    let result = if works { json!({"status": "Success"}) } else { json!({"status": "Failure"}) };
    json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview",
        "response": {"uid": request["uid"], "result": result, "convertedObjects": objects}})
}

struct Fixture {
    _server: Server,
    admin: Client,
    hook: Webhook,
    works: Arc<AtomicBool>,
}

async fn fixture() -> Fixture {
    let works = Arc::new(AtomicBool::new(true));
    let asked = works.clone();
    let hook = Webhook::start(move |review| (200, convert(&review, asked.load(Ordering::SeqCst))));
    let hook = hook.await.unwrap();
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(admin.post(definitions, &definition(&hook)).await.unwrap().0, 201);
    for _ in 0..200 {
        if admin.get(&path("v2", "")).await.unwrap().0 == 200 {
            return Fixture { _server: server, admin, hook, works };
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the definition is not served");
}

fn path(version: &str, rest: &str) -> String {
    format!("/apis/watch.example.com/{version}/namespaces/default/paints{rest}")
}

impl Fixture {
    async fn create(&self, name: &str, color: &str) {
        let object = json!({"apiVersion": "watch.example.com/v1", "kind": "Paint", "metadata": {"name": name},
            "spec": {"color": color}});
        assert_eq!(self.admin.post(&path("v1", ""), &object).await.unwrap().0, 201);
    }

    async fn patch(&self, name: &str, spec: Value) {
        let target = path("v1", &format!("/{name}"));
        let patch = json!({"spec": spec});
        let (code, body) = self.admin.patch(&target, "application/merge-patch+json", &patch).await.unwrap();
        assert_eq!(code, 200, "{body}");
    }

    async fn watch(&self, version: &str, query: &str) -> Events {
        events(&self.admin, &path(version, &format!("?watch=true&timeoutSeconds=60{query}"))).await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn selectors_look_at_the_version_asked_for() {
    let fixture = fixture().await;
    fixture.create("a", "red").await;
    fixture.create("b", "blue").await;
    let all = ["ADDED a", "ADDED b", "MODIFIED a", "MODIFIED b", "DELETED b"];
    let red = ["ADDED a", "DELETED a", "ADDED b", "DELETED b"];
    let not_red = ["ADDED b", "ADDED a", "DELETED b"];
    let initial = "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true\
                   &fieldSelector=spec.paint%3Dred";
    // The number is how many of the events are initial ones.
    let cases: &[(&str, &str, usize, &[&str])] = &[
        ("v2", "", 2, &all),
        ("v2", "&fieldSelector=spec.paint%3Dred", 1, &red),
        ("v2", "&resourceVersion=0&fieldSelector=spec.paint%3Dred", 1, &red),
        ("v2", "&fieldSelector=spec.paint!%3Dred", 1, &not_red),
        ("v1", "&fieldSelector=spec.color%3Dred", 1, &red),
        ("v1", "&fieldSelector=spec.color!%3Dred", 1, &not_red),
        ("v2", "&labelSelector=in%3Dpaint", 2, &all),
        ("v1", "&labelSelector=in%3Dpaint", 0, &[]),
        ("v2", "&fieldSelector=metadata.name%3Da,spec.paint%3Dred", 1, &["ADDED a", "DELETED a"]),
        ("v2", initial, 2, &["ADDED a", "BOOKMARK ", "DELETED a", "ADDED b", "DELETED b"]),
    ];
    let mut watches = Vec::new();
    for (version, query, first, expected) in cases {
        let mut watch = fixture.watch(version, query).await;
        watch.expect(expected.get(..*first).unwrap(), query).await;
        watches.push((watch, query, *expected));
    }
    fixture.patch("a", json!({"color": "blue"})).await;
    fixture.patch("b", json!({"color": "red"})).await;
    assert_eq!(fixture.admin.delete(&path("v2", "/b")).await.unwrap().0, 200);
    for (watch, query, expected) in &mut watches {
        watch.expect(expected, query).await;
        watch.expect_silence(query).await;
    }
    // Lists have the same objects.
    for (query, expected) in [("?labelSelector=in%3Dpaint", 1), ("?fieldSelector=spec.paint%3Dred", 0)] {
        let (_, list) = fixture.admin.get(&path("v2", query)).await.unwrap();
        assert_eq!(list["items"].as_array().unwrap().len(), expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_wait_for_a_webhook_that_fails() {
    let fixture = fixture().await;
    fixture.create("a", "red").await;
    let mut watches = Vec::new();
    for _ in 0..8 {
        let mut watch = fixture.watch("v2", "").await;
        watch.expect(&["ADDED a"], "").await;
        watches.push(watch);
    }
    let mut own = fixture.watch("v1", "").await;
    fixture.works.store(false, Ordering::SeqCst);
    fixture.patch("a", json!({"n": 1})).await;
    own.expect(&["ADDED a", "MODIFIED a"], "v1").await;
    // A watch cannot begin if the existing objects cannot be converted.
    let (code, body) = fixture.admin.get(&path("v2", "?watch=true")).await.unwrap();
    assert_eq!(code, 429, "{body}");
    let expected = "storage is (re)initializing: failed to list watch.example.com/v2, Kind=Paint: failed to read one \
                    or more paints.watch.example.com from the storage";
    assert_eq!(body["message"], expected);
    for watch in &mut watches {
        watch.expect_silence("a webhook that fails").await;
    }
    let failing = fixture.hook.calls();
    fixture.works.store(true, Ordering::SeqCst);
    for watch in &mut watches {
        watch.expect(&["ADDED a", "MODIFIED a"], "healed").await;
    }
    // One call for all watches, and perhaps for one that started in between.
    assert!(fixture.hook.calls() <= failing + 3, "{} calls", fixture.hook.calls() - failing);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_definition_that_changes_ends_watches_that_wait() {
    let fixture = fixture().await;
    fixture.create("a", "red").await;
    let mut watch = fixture.watch("v2", "").await;
    watch.expect(&["ADDED a"], "").await;
    fixture.works.store(false, Ordering::SeqCst);
    fixture.patch("a", json!({"n": 1})).await;
    watch.expect_silence("a webhook that fails").await;
    let (_, mut live) = fixture.admin.get(DEFINITION).await.unwrap();
    live["spec"]["names"]["shortNames"] = json!(["pt"]);
    assert_eq!(fixture.admin.put(DEFINITION, &live).await.unwrap().0, 200);
    watch.expect_end().await;
}
