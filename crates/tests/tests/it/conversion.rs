//! Versions of custom resources that a webhook converts: reads, writes, watches, Tables, scales and applies through all
//! of them, and failing webhooks.

use pintle_testkit::{Client, Request, Server, Webhook};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Hosts are `spec.hostPort` in v1 and `spec.host` and `spec.port` in v2.
fn definition(plural: &str, kind: &str, conversion: &Value) -> Value {
    let scale = json!({"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"});
    let version = |name: &str, storage: bool, fields: Value, column: &str| {
        json!({"name": name, "served": true, "storage": storage,
            "subresources": {"status": {}, "scale": scale},
            "additionalPrinterColumns": [{"name": "Place", "type": "string", "jsonPath": column}],
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": fields},
                "status": {"type": "object", "properties": {"replicas": {"type": "integer"}}}}}}})
    };
    let text = || json!({"type": "string"});
    let v1 = json!({"hostPort": {"type": "string", "pattern": ":"}, "replicas": {"type": "integer"}});
    let v2 = json!({"host": text(), "port": text(), "replicas": {"type": "integer"}, "mode": text()});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.conv.example.com")},
        "spec": {"group": "conv.example.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "conversion": conversion,
            "versions": [version("v1", true, v1, ".spec.hostPort"), version("v2", false, v2, ".spec.host")]}})
}

fn webhook_conversion(hook: &Webhook, versions: &[&str]) -> Value {
    json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": versions,
        "clientConfig": {"url": hook.url(), "caBundle": hook.ca_bundle()}}})
}

fn converted(object: &Value, desired: &str) -> Value {
    let mut out = object.clone();
    out["apiVersion"] = desired.into();
    let Some(spec) = out["spec"].as_object_mut() else { return out };
    if desired.ends_with("/v2") {
        let text = spec.remove("hostPort").and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
        let (host, port) = text.split_once(':').unwrap_or((&text, ""));
        spec.insert("host".into(), host.into());
        spec.insert("port".into(), port.into());
    } else {
        let mut take =
            |key: &str| spec.remove(key).and_then(|v| v.as_str().map(str::to_owned)).unwrap_or_default();
        let text = format!("{}:{}", take("host"), take("port"));
        spec.remove("mode");
        spec.insert("hostPort".into(), text.into());
    }
    out
}

/// A correct answer to a review.
fn answer(review: &Value) -> Value {
    let request = &review["request"];
    let desired = request["desiredAPIVersion"].as_str().unwrap_or_default();
    let objects: Vec<Value> =
        request["objects"].as_array().into_iter().flatten().map(|o| converted(o, desired)).collect();
    json!({"apiVersion": review["apiVersion"], "kind": "ConversionReview",
        "response": {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}})
}

async fn define(admin: &Client, definition: &Value) {
    let (code, made) = admin.post(DEFINITIONS, definition).await.unwrap();
    assert_eq!(code, 201, "{made}");
    let name = definition["metadata"]["name"].as_str().unwrap();
    for _ in 0..200 {
        let (_, live) = admin.get(&format!("{DEFINITIONS}/{name}")).await.unwrap();
        let conditions = live["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True") {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    panic!("{name} is not established");
}

fn path(version: &str, plural: &str, name: &str) -> String {
    format!("/apis/conv.example.com/{version}/namespaces/default/{plural}{name}")
}

fn place(version: &str, name: &str, spec: Value) -> Value {
    json!({"apiVersion": format!("conv.example.com/{version}"), "kind": "Place", "metadata": {"name": name}, "spec": spec})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_requests_work_in_both_versions() {
    for review_version in ["v1", "v1beta1"] {
        let server = Server::start_ephemeral().await.unwrap();
        let admin = server.admin().unwrap();
        let hook = Webhook::start(|review| (200, answer(&review))).await.unwrap();
        define(&admin, &definition("places", "Place", &webhook_conversion(&hook, &[review_version]))).await;
        round_trip(&admin).await;
        watches_and_tables(&admin).await;
        applies(&admin).await;
        scales(&admin).await;
        let (_, metrics) =
            admin.send(&Request::new("GET", "/metrics")).await.map(|a| (a.status(), a.text())).unwrap();
        assert!(
            metrics
                .contains("apiserver_conversion_webhook_request_total{failure_type=\"\",result=\"success\"}")
        );
        assert!(metrics.contains("apiserver_crd_conversion_webhook_duration_seconds_count{crd_name=\"places.conv.example.com\",from_version=\"v1\",succeeded=\"true\",to_version=\"v2\"}"));
    }
}

async fn round_trip(admin: &Client) {
    let (code, made) = admin
        .post(&path("v2", "places", ""), &place("v2", "a", json!({"host": "h", "port": "1", "replicas": 1})))
        .await
        .unwrap();
    assert_eq!((code, &made["spec"]["host"]), (201, &json!("h")), "{made}");
    let (_, stored) = admin.get(&path("v1", "places", "/a")).await.unwrap();
    assert_eq!(stored["spec"]["hostPort"], "h:1");
    assert_eq!(stored["apiVersion"], "conv.example.com/v1");
    // The schema of the request's version applies: v1 has a pattern.
    let (code, refused) =
        admin.post(&path("v1", "places", ""), &place("v1", "b", json!({"hostPort": "none"}))).await.unwrap();
    assert_eq!(code, 422, "{refused}");
    let patch = json!({"spec": {"port": "2"}});
    let (code, patched) =
        admin.patch(&path("v2", "places", "/a"), "application/merge-patch+json", &patch).await.unwrap();
    assert_eq!((code, &patched["metadata"]["generation"]), (200, &json!(2)), "{patched}");
    let (_, stored) = admin.get(&path("v1", "places", "/a")).await.unwrap();
    assert_eq!(stored["spec"]["hostPort"], "h:2");
    // A write without changes leaves the object unchanged.
    let (_, again) = admin.put(&path("v2", "places", "/a"), &patched).await.unwrap();
    assert_eq!(again["metadata"]["resourceVersion"], patched["metadata"]["resourceVersion"]);
    for name in ["b", "c"] {
        let body = place("v1", name, json!({"hostPort": "x:9"}));
        assert_eq!(admin.post(&path("v1", "places", ""), &body).await.unwrap().0, 201);
    }
    let (_, list) = admin.get(&path("v2", "places", "")).await.unwrap();
    let hosts: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|i| i["spec"]["host"].as_str().unwrap()).collect();
    assert_eq!(hosts, ["h", "x", "x"]);
    assert_eq!(list["items"][0]["apiVersion"], "conv.example.com/v2");
}

async fn watches_and_tables(admin: &Client) {
    let query = format!("{}?watch=true&resourceVersion=0&timeoutSeconds=5", path("v2", "places", ""));
    let mut stream = admin.open(&Request::new("GET", &query)).await.unwrap();
    let first = String::from_utf8(stream.next_part().await.unwrap().unwrap().to_vec()).unwrap();
    assert!(first.contains("\"host\":\"h\""), "{first}");
    let request = Request::new("GET", &path("v2", "places", ""))
        .header("accept", "application/json;as=Table;v=v1;g=meta.k8s.io");
    let (_, table) = admin.send_json(&request).await.unwrap();
    assert_eq!(table["rows"][0]["cells"], json!(["a", "h"]), "{table}");
    let (code, deleted) = admin.delete(&path("v2", "places", "/c")).await.unwrap();
    assert_eq!(code, 200, "{deleted}");
}

async fn applies(admin: &Client) {
    let apply = |version: &str, manager: &str, spec: Value| {
        let target = format!("{}?fieldManager={manager}", path(version, "places", "/applied"));
        Request::new("PATCH", &target)
            .body("application/apply-patch+yaml", place(version, "applied", spec).to_string())
    };
    let (code, made) =
        admin.send_json(&apply("v1", "one", json!({"hostPort": "h:1", "replicas": 1}))).await.unwrap();
    assert_eq!(code, 201, "{made}");
    // The field `host` of v2 is part of a field that the first manager owns in v1.
    let (code, other) = admin.send_json(&apply("v2", "two", json!({"mode": "manual"}))).await.unwrap();
    assert_eq!(code, 200, "{other}");
    let (code, refused) = admin.send_json(&apply("v2", "two", json!({"replicas": 5}))).await.unwrap();
    assert_eq!(code, 409, "{refused}");
    let (code, same) =
        admin.send_json(&apply("v2", "one", json!({"host": "h", "port": "3", "replicas": 1}))).await.unwrap();
    assert_eq!(code, 200, "{same}");
    let (_, stored) = admin.get(&path("v1", "places", "/applied")).await.unwrap();
    assert_eq!(stored["spec"]["hostPort"], "h:3");
}

async fn scales(admin: &Client) {
    let (code, scale) = admin.get(&path("v2", "places", "/a/scale")).await.unwrap();
    assert_eq!((code, &scale["spec"]["replicas"]), (200, &json!(1)), "{scale}");
    let patch = json!({"spec": {"replicas": 4}});
    let target = path("v2", "places", "/a/scale");
    let (code, scaled) = admin.patch(&target, "application/merge-patch+json", &patch).await.unwrap();
    assert_eq!((code, &scaled["spec"]["replicas"]), (200, &json!(4)), "{scaled}");
    let status = json!({"status": {"replicas": 3}});
    let target = path("v2", "places", "/a/status");
    let (code, body) = admin.patch(&target, "application/merge-patch+json", &status).await.unwrap();
    assert_eq!((code, &body["status"]["replicas"]), (200, &json!(3)), "{body}");
}

/// A title, how the answer is corrupted, and the message that the client must receive.
type Spoiled = (&'static str, fn(&mut Value), &'static str);

/// v2 has the selectable field `host`, which the stored version v1 does not have.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_select_by_fields_of_their_own_version() {
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let hook = Webhook::start(|review| (200, answer(&review))).await.unwrap();
    let mut definition = definition("places", "Place", &webhook_conversion(&hook, &["v1"]));
    definition["spec"]["versions"][1]["selectableFields"] = json!([{"jsonPath": ".spec.host"}]);
    define(&admin, &definition).await;
    let made = place("v1", "before", json!({"hostPort": "h:1"}));
    assert_eq!(admin.post(&path("v1", "places", ""), &made).await.unwrap().0, 201);
    let mut streams = Vec::new();
    for selector in ["spec.host%3Dh", "spec.host%21%3Dh", "spec.host%3Dh,metadata.name%3Dother"] {
        let query =
            format!("{}?watch=true&timeoutSeconds=2&fieldSelector={selector}", path("v2", "places", ""));
        streams.push(admin.open(&Request::new("GET", &query)).await.unwrap());
    }
    for (name, place_now) in [("one", "h:1"), ("one", "h:2"), ("one", "g:2"), ("other", "h:3")] {
        let body = place("v1", name, json!({"hostPort": place_now}));
        let (code, _) = admin.post(&path("v1", "places", ""), &body).await.unwrap();
        if code == 409 {
            let patch = json!({"spec": {"hostPort": place_now}});
            let to = path("v1", "places", &format!("/{name}"));
            assert_eq!(admin.patch(&to, "application/merge-patch+json", &patch).await.unwrap().0, 200);
        }
    }
    assert_eq!(admin.delete(&path("v1", "places", "/other")).await.unwrap().0, 200);
    let mut received = Vec::new();
    for mut stream in streams {
        let text = String::from_utf8(stream.read_body().await.unwrap()).unwrap();
        let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let lines = events.map(|e| {
            let [kind, name, host] =
                [&e["type"], &e["object"]["metadata"]["name"], &e["object"]["spec"]["host"]];
            [kind, name, host].map(|v| v.as_str().unwrap_or_default()).join(" ")
        });
        received.push(lines.collect::<Vec<_>>());
    }
    let wanted: [&[&str]; 3] = [
        &[
            "ADDED before h",
            "ADDED one h",
            "MODIFIED one h",
            "DELETED one h",
            "ADDED other h",
            "DELETED other h",
        ],
        &["ADDED one g"],
        &["ADDED other h", "DELETED other h"],
    ];
    assert_eq!(received, wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn invalid_answers_of_conversion_webhooks_are_refused() {
    let spoil: Arc<Mutex<fn(&mut Value)>> = Arc::new(Mutex::new(|_| {}));
    let spoils = spoil.clone();
    let hook = Webhook::start(move |review| {
        let mut answer = answer(&review);
        (spoils.lock().unwrap())(&mut answer);
        (200, answer)
    })
    .await
    .unwrap();
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    define(&admin, &definition("places", "Place", &webhook_conversion(&hook, &["v1"]))).await;
    let body = place("v1", "a", json!({"hostPort": "h:1"}));
    assert_eq!(admin.post(&path("v1", "places", ""), &body).await.unwrap().0, 201);
    let of = "conversion webhook for conv.example.com/v1, Kind=Place";
    let cases: &[Spoiled] = &[
        ("failed", |a| a["response"]["result"] = json!({"status": "Failure", "message": "no"}), "failed: no"),
        (
            "no message",
            |a| a["response"]["result"] = json!({}),
            "failed: response.result.status was '', not 'Success'",
        ),
        ("no response", |a| a["response"] = Value::Null, "failed: no response provided"),
        (
            "wrong kind",
            |a| a["kind"] = "Status".into(),
            "failed: converting (v1.Status) to (v1.ConversionReview): unknown conversion",
        ),
        (
            "unknown kind",
            |a| a["kind"] = "X".into(),
            "failed: no kind \"X\" is registered for version \"apiextensions.k8s.io/v1\" in scheme",
        ),
        (
            "no kind",
            |a| _ = a.as_object_mut().unwrap().remove("kind"),
            "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind=",
        ),
        (
            "another version of reviews",
            |a| a["apiVersion"] = "apiextensions.k8s.io/v1beta1".into(),
            "failed: converting (v1beta1.ConversionReview) to (v1.ConversionReview): unknown conversion",
        ),
        (
            "a response that is a list",
            |a| a["response"] = json!([]),
            "failed: json: cannot unmarshal array into Go struct field ConversionReview.response of type v1.ConversionResponse",
        ),
        ("no objects", |a| a["response"]["convertedObjects"] = json!([]), "returned 0 objects, expected 1"),
        (
            "other version",
            |a| a["response"]["convertedObjects"][0]["apiVersion"] = "x/v9".into(),
            "returned invalid object at index 0: invalid groupVersion (expected conv.example.com/v2, received x/v9)",
        ),
        (
            "other kind",
            |a| a["response"]["convertedObjects"][0]["kind"] = "X".into(),
            "returned invalid object at index 0: invalid kind (expected Place, received X)",
        ),
        (
            "other name",
            |a| a["response"]["convertedObjects"][0]["metadata"]["name"] = "z".into(),
            "returned invalid object: must have the same name: a != z",
        ),
        (
            "no metadata",
            |a| a["response"]["convertedObjects"][0]["metadata"]["labels"] = json!({"x": 1}),
            "returned invalid metadata: metadata.labels[x] must be a string, but is int64 in converted object",
        ),
        (
            "bad label",
            |a| a["response"]["convertedObjects"][0]["metadata"]["labels"] = json!({"x y": "1"}),
            "returned invalid metadata: metadata.labels: Invalid value: \"x y\": name part must consist of",
        ),
    ];
    for (title, change, expected) in cases {
        *spoil.lock().unwrap() = *change;
        let (code, body) = admin.get(&path("v2", "places", "/a")).await.unwrap();
        let message = body["message"].as_str().unwrap_or_default();
        assert_eq!(code, 500, "{title}: {body}");
        let corrupt = "Internal error occurred: StorageError: corrupt object, Code: 7, \
                       Key: /conv.example.com/places/default/a, ResourceVersion: 0, \
                       AdditionalErrorMsg: object not decodable revision=";
        let why = message.strip_prefix(corrupt).and_then(|rest| rest.split_once(": ")).map(|(_, why)| why);
        assert!(why.is_some_and(|why| why.starts_with(&format!("{of} {expected}"))), "{title}: {message}");
        // Requests that do not need the webhook are unaffected.
        assert_eq!(admin.get(&path("v1", "places", "/a")).await.unwrap().0, 200, "{title}");
    }
    let uid = |a: &mut Value| a["response"]["uid"] = "other".into();
    *spoil.lock().unwrap() = uid;
    let (_, body) = admin.get(&path("v2", "places", "")).await.unwrap();
    assert_eq!(body["reason"], "StorageReadError", "{body}");
    assert_eq!(body["message"], "failed to read one or more places.conv.example.com from the storage");
    let cause = &body["details"]["causes"][0];
    assert_eq!(cause["field"], "/registry/conv.example.com/places/default/a");
    assert!(cause["message"].as_str().unwrap().contains("failed: expected response.uid="), "{body}");
    // Only labels and annotations may change.
    *spoil.lock().unwrap() = |a| {
        let metadata = &mut a["response"]["convertedObjects"][0]["metadata"];
        metadata["labels"] = json!({"made": "yes"});
        metadata["generation"] = 77.into();
        metadata["finalizers"] = json!(["a/b"]);
    };
    let (code, got) = admin.get(&path("v2", "places", "/a")).await.unwrap();
    assert_eq!(code, 200);
    assert_eq!(got["metadata"]["labels"], json!({"made": "yes"}));
    assert_eq!((&got["metadata"]["generation"], &got["metadata"]["finalizers"]), (&json!(1), &Value::Null));
    // An answer of the webhook is not reused for the next read.
    *spoil.lock().unwrap() = |a| a["response"] = Value::Null;
    assert_eq!(admin.get(&path("v2", "places", "/a")).await.unwrap().0, 500);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_webhook_that_is_gone_breaks_only_what_needs_it() {
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let hook = Webhook::start(|review| (200, answer(&review))).await.unwrap();
    let conversion = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": {"url": "https://127.0.0.1:1/convert", "caBundle": hook.ca_bundle()}}});
    define(&admin, &definition("places", "Place", &conversion)).await;
    let body = place("v1", "a", json!({"hostPort": "h:1"}));
    assert_eq!(admin.post(&path("v1", "places", ""), &body).await.unwrap().0, 201);
    let (code, body) = admin.get(&path("v2", "places", "/a")).await.unwrap();
    let expected = "conversion webhook for conv.example.com/v1, Kind=Place failed: \
                    Post \"https://127.0.0.1:1/convert?timeout=30s\": dial tcp 127.0.0.1:1: connect: connection refused";
    assert_eq!(code, 500);
    assert!(body["message"].as_str().unwrap().ends_with(expected), "{body}");
    let refused = place("v2", "b", json!({"host": "h"}));
    assert_eq!(admin.post(&path("v2", "places", ""), &refused).await.unwrap().0, 500);
    let (code, list) = admin.get(&path("v1", "places", "")).await.unwrap();
    assert_eq!((code, list["items"].as_array().unwrap().len()), (200, 1));
    // A definition with a working webhook takes effect with the next request; also with a service.
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": hook.port()}]}});
    assert_eq!(admin.post("/api/v1/namespaces/default/services", &service).await.unwrap().0, 201);
    let clients = [
        json!({"url": hook.url(), "caBundle": hook.ca_bundle()}),
        json!({"service": {"namespace": "default", "name": "hook", "path": "/convert", "port": hook.port()}, "caBundle": hook.ca_bundle()}),
    ];
    for client in clients {
        let (_, mut live) = admin.get(&format!("{DEFINITIONS}/places.conv.example.com")).await.unwrap();
        live["spec"]["conversion"]["webhook"]["clientConfig"] = client.clone();
        let name = format!("{DEFINITIONS}/places.conv.example.com");
        assert_eq!(admin.put(&name, &live).await.unwrap().0, 200);
        let before = hook.calls();
        let (code, got) = admin.get(&path("v2", "places", "/a")).await.unwrap();
        assert_eq!((code, &got["spec"]["host"]), (200, &json!("h")), "{client} {got}");
        assert_eq!(hook.calls(), before + 1);
    }
    // After the storage version changes, objects in the old one are converted when they are read.
    let (_, mut live) = admin.get(&format!("{DEFINITIONS}/places.conv.example.com")).await.unwrap();
    for version in live["spec"]["versions"].as_array_mut().unwrap() {
        version["storage"] = (version["name"] == "v2").into();
    }
    let name = format!("{DEFINITIONS}/places.conv.example.com");
    assert_eq!(admin.put(&name, &live).await.unwrap().0, 200);
    for (version, expected) in [("v1", json!({"hostPort": "h:1"})), ("v2", json!({"host": "h", "port": "1"}))]
    {
        let (code, got) = admin.get(&path(version, "places", "/a")).await.unwrap();
        assert_eq!((code, &got["spec"]), (200, &expected), "{version} {got}");
    }
}

/// Returns the answer of the webhook in the next test, instead of the converted object.
fn hostile(attack: &str, answer: &mut Value) {
    let response = &mut answer["response"];
    let object = &mut response["convertedObjects"][0];
    match attack {
        "large" => object["spec"]["mode"] = "x".repeat(5 << 20).into(),
        "lists" => object["spec"]["many"] = vec![json!([]); 4_200_000].into(),
        "message" => {
            response["result"] = json!({"status": "Failure", "message": "no ".repeat(500_000)});
        }
        "kind" => object["kind"] = Value::Null,
        "uid" => response["uid"] = "another".into(),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hostile_webhooks_cost_a_bounded_amount_of_memory() {
    const RSS_GROWTH_MAX: u64 = 400 << 20;
    // A list has an error for each of its three objects.
    const REFUSAL_BYTES_MAX: usize = 300_000;
    let server = Server::start_ephemeral().await.unwrap();
    let admin = server.admin().unwrap();
    let attack = Arc::new(Mutex::new("none"));
    let current = attack.clone();
    let hook = Webhook::start(move |review| {
        let mut answer = answer(&review);
        hostile(*current.lock().unwrap(), &mut answer);
        (200, answer)
    });
    let hook = hook.await.unwrap();
    define(&admin, &definition("places", "Place", &webhook_conversion(&hook, &["v1"]))).await;
    for number in 0..3 {
        let object = place("v1", &format!("p{number}"), json!({"hostPort": "h:1"}));
        assert_eq!(admin.post(&path("v1", "places", ""), &object).await.unwrap().0, 201);
    }
    let before = server.peak_bytes();
    for (name, expected) in [
        ("large", "more than 4194304"),
        ("lists", "too much memory"),
        ("message", "no no no"),
        ("kind", "'Kind' is missing"),
        ("uid", "expected response.uid"),
    ] {
        *attack.lock().unwrap() = name;
        for target in ["/p0", ""] {
            let (code, refused) = admin.get(&path("v2", "places", target)).await.unwrap();
            let text = refused.to_string();
            let start = text.get(..1000).unwrap_or(&text);
            assert!(code == 500 && text.contains(expected), "{name}{target}: {code} {start}");
            assert!(text.len() < REFUSAL_BYTES_MAX, "{name}{target}: {} bytes", text.len());
        }
    }
    let grown = server.peak_bytes() - before;
    assert!(grown < RSS_GROWTH_MAX, "{} MiB", grown >> 20);
    *attack.lock().unwrap() = "none";
    let (code, list) = admin.get(&path("v2", "places", "")).await.unwrap();
    assert_eq!((code, list["items"].as_array().map(Vec::len)), (200, Some(3)), "{list}");
}
