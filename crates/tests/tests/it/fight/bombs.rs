//! Attacks with small requests that are expensive to process, by a user who may write in one namespace and define
//! resources.

use std::time::Duration;

use pintle_testkit::{Client, Request};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::{Attack, Attacker, MAPS, sleep_ms};

const PATIENCE: Duration = Duration::from_secs(5);
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

pub(super) fn attacks() -> Vec<(&'static str, Attack)> {
    vec![
        ("YAML bombs", |attacker| Box::pin(send_all(attacker, yaml_bombs()))),
        ("JSON bombs", |attacker| Box::pin(send_all(attacker, json_bombs()))),
        ("CBOR bombs", |attacker| Box::pin(send_all(attacker, cbor_bombs()))),
        ("patch bombs", |attacker| Box::pin(send_all(attacker, patch_bombs()))),
        ("selectors", |attacker| Box::pin(send_all(attacker, selectors()))),
        ("finalizers", |attacker| Box::pin(send_all(attacker, finalizers()))),
        ("documents", |attacker| Box::pin(send_all(attacker, documents()))),
        ("unread watches", |attacker| Box::pin(unread(attacker, "?watch=1"))),
        ("unread lists", |attacker| Box::pin(unread(attacker, ""))),
        ("definitions", |attacker| Box::pin(definitions(attacker))),
        ("flood of lists", |attacker| Box::pin(flood_of_lists(attacker))),
        ("upgrades", |attacker| Box::pin(upgrades(attacker))),
    ]
}

/// Sends all requests again and again, two at a time.
async fn send_all(attacker: Attacker, requests: Vec<Request>) {
    let half = requests.len() / 2;
    let turned: Vec<Request> = requests.iter().cycle().skip(half).take(requests.len()).cloned().collect();
    tokio::join!(send_in_turn(&attacker.user, &requests), send_in_turn(&attacker.user, &turned));
}

async fn send_in_turn(client: &Client, requests: &[Request]) {
    loop {
        for request in requests {
            _ = timeout(PATIENCE, client.send(request)).await;
        }
        sleep_ms(1).await;
    }
}

fn post(media: &str, body: impl Into<Vec<u8>>) -> Request {
    Request::new("POST", &format!("{MAPS}?dryRun=All")).body(media, body)
}

fn yaml_bombs() -> Vec<Request> {
    let long_text = format!("a: &a {}\nb:\n{}", "x".repeat(1 << 20), "- *a\n".repeat(20_000));
    let mut laughs = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for level in 1..9 {
        let before = format!("*a{}", level - 1);
        laughs.push_str(&format!("a{level}: &a{level} [{}]\n", [before.as_str(); 9].join(",")));
    }
    let merges = format!("a: &a {{x: 1}}\nb: {{{}}}\n", "<<: *a, ".repeat(100_000));
    let deep = format!("a: {}", "[".repeat(1_000_000));
    let keys: String = (0..200_000).map(|number| format!("k{number}: 1\n")).collect();
    let anchors: String = (0..100_000).map(|number| format!("- &a{number} x\n")).collect();
    [long_text, laughs, merges, deep, keys, anchors].map(|body| post("application/yaml", body)).into()
}

fn json_bombs() -> Vec<Request> {
    let nested = |open: &str, count: usize| format!("{{\"data\":{}", open.repeat(count));
    let containers = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"containers": vec![json!({}); 130_000]},
    });
    let pod = Request::new("POST", "/api/v1/namespaces/fight/pods?dryRun=All").json(&containers);
    let number = format!("{{\"a\": {}}}", "9".repeat(2_000_000));
    let unknown: String = (0..100_000).map(|number| format!("\"x{number}\":1,")).collect();
    let unknown =
        format!("{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",{unknown}\"metadata\":{{\"name\":\"a\"}}}}");
    let mut all: Vec<Request> = [nested("[", 1_000_000), nested("{\"a\":", 500_000), number, unknown]
        .map(|body| post("application/json", body))
        .into();
    all.push(pod);
    all
}

fn cbor_bombs() -> Vec<Request> {
    // Arrays of indefinite length, a text whose length field says 4 GB, and a map whose length field says 2^32
    // entries.
    let deep = [vec![0xd9, 0xd9, 0xf7], vec![0x9f; 1_000_000]].concat();
    let long = [0xd9, 0xd9, 0xf7, 0x7a, 0xff, 0xff, 0xff, 0xff, b'x'].to_vec();
    let wide = [0xd9, 0xd9, 0xf7, 0xba, 0xff, 0xff, 0xff, 0xff].to_vec();
    [deep, long, wide].map(|body| post("application/cbor", body)).into()
}

fn patch_bombs() -> Vec<Request> {
    let patch = |media: &str, body: String| Request::new("PATCH", &format!("{MAPS}/bomb")).body(media, body);
    let mut copies = vec![json!({"op": "add", "path": "/data", "value": {"a": "x".repeat(1000)}})];
    copies.extend((0..60).map(|n| json!({"op": "copy", "from": "/data", "path": format!("/data/b{n}")})));
    let inserts: Vec<Value> = std::iter::once(json!({"op": "add", "path": "/x", "value": []}))
        .chain((0..9_999).map(|_| json!({"op": "add", "path": "/x/0", "value": 1})))
        .collect();
    let deep = format!("{}1{}", "{\"a\":".repeat(9_990), "}".repeat(9_990));
    let labels: String = (0..50_000).map(|number| format!("    l{number}: v\n")).collect();
    let applied = format!("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: applied\n  labels:\n{labels}");
    // Stored: a patch of an object that does not exist is not even parsed.
    let bomb = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"bomb"}}"#;
    let apply = Request::new("PATCH", &format!("{MAPS}/applied?fieldManager=m&force=true&dryRun=All"));
    vec![
        Request::new("POST", MAPS).body("application/json", bomb),
        patch(JSON_PATCH, Value::from(copies).to_string()),
        patch(JSON_PATCH, Value::from(inserts).to_string()),
        patch("application/merge-patch+json", deep.clone()),
        patch("application/strategic-merge-patch+json", deep),
        apply.body(APPLY, applied),
    ]
}

fn selectors() -> Vec<Request> {
    let list = |query: String| Request::new("GET", &format!("{MAPS}?{query}"));
    let values: Vec<String> = (0..60_000).map(|number| format!("v{number}")).collect();
    let terms = "a!=b,".repeat(80_000);
    vec![
        list(format!("labelSelector=a+in+({})", values.join(","))),
        list(format!("labelSelector={}", terms.trim_end_matches(','))),
        list(format!("fieldSelector={}", "metadata.name!=x,".repeat(30_000))),
        list(format!("labelSelector={}", "(".repeat(500_000))),
        list(format!("continue={}", "A".repeat(500_000))),
    ]
}

fn finalizers() -> Vec<Request> {
    let many: Vec<String> = (0..40_000).map(|number| format!("example.com/f{number}")).collect();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"});
    let object = |metadata: Value| {
        post(
            "application/json",
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}).to_string(),
        )
    };
    let fields = json!({"f:data": {"f:a": {}}});
    let managers: Vec<Value> = (0..10_000)
        .map(|number| {
            let manager = format!("m{number}");
            json!({"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields})
        })
        .collect();
    vec![
        object(json!({"name": "f", "finalizers": many})),
        object(json!({"name": "f", "ownerReferences": vec![owner; 20_000]})),
        object(json!({"name": "f", "managedFields": managers})),
    ]
}

fn documents() -> Vec<Request> {
    ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1", "/apis", "/api/v1", "/openapi/v3/apis/apps/v1"]
        .map(|path| Request::new("GET", path))
        .into()
}

/// Opens requests and never reads their answers; sometimes it closes them all.
async fn unread(attacker: Attacker, query: &str) {
    let target = attacker.user.target().clone().with_receive_buffer(4096);
    let request = attacker.user.bytes_of(&Request::new("GET", &format!("/api/v1/configmaps{query}")));
    loop {
        let mut open = Vec::new();
        for _ in 0..100 {
            if let Ok(mut connection) = target.connect().await
                && connection.send(&request).await.is_ok()
            {
                open.push(connection);
            }
        }
        sleep_ms(1500).await;
    }
}

/// Creates and deletes definitions with expensive patterns, defaults and rules.
async fn definitions(attacker: Attacker) {
    let path = format!("{DEFINITIONS}/bombs.fight.example.com");
    let resources = "/apis/fight.example.com/v1/namespaces/fight/bombs?dryRun=All";
    let text = "ab".repeat(500_000);
    loop {
        for schema in [
            json!({"type": "string", "pattern": "^((a|b){1,1000}){1,1}$"}),
            json!({"type": "string", "x-kubernetes-validations": [{"rule": "self.matches('(a|b)*c')"}]}),
            json!({"type": "array", "items": {"type": "array", "items": {"type": "string"}}, "x-kubernetes-validations":
                [{"rule": "self.all(x, x.all(y, self.all(z, z.all(w, w == y))))"}]}),
        ] {
            _ = attacker.user.post(DEFINITIONS, &definition(&schema)).await;
            let object = json!({"apiVersion": "fight.example.com/v1", "kind": "Bomb", "metadata": {"name": "b"}, "spec": text});
            for _ in 0..5 {
                _ = timeout(PATIENCE, attacker.user.post(resources, &object)).await;
            }
            _ = attacker.user.delete(&path).await;
        }
    }
}

fn definition(spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "bombs.fight.example.com"},
        "spec": {
            "group": "fight.example.com", "scope": "Namespaced",
            "names": {"plural": "bombs", "singular": "bomb", "kind": "Bomb", "listKind": "BombList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"spec": spec}}}}],
        },
    })
}

/// Sends as many concurrent lists as the client can.
async fn flood_of_lists(attacker: Attacker) {
    let mut senders = JoinSet::new();
    for _ in 0..50 {
        let user = attacker.user.clone();
        senders.spawn(async move { send_in_turn(&user, &[Request::new("GET", MAPS)]).await });
    }
    while senders.join_next().await.is_some() {}
}

/// Requests upgrades to streams of pods that do not exist, and to unknown protocols.
async fn upgrades(attacker: Attacker) {
    loop {
        for path in [
            "pods/x/exec?command=sh&stdin=1",
            "pods/x/portforward",
            "services/x/proxy/",
            "pods/x/log?follow=1",
        ] {
            for protocol in ["websocket", "SPDY/3.1", "h2c", "x"] {
                let request = Request::new("GET", &format!("/api/v1/namespaces/fight/{path}"))
                    .header("Connection", "Upgrade")
                    .header("Upgrade", protocol)
                    .header("Sec-WebSocket-Key", "AAAAAAAAAAAAAAAAAAAAAA==")
                    .header("Sec-WebSocket-Version", "13");
                _ = timeout(PATIENCE, attacker.user.send(&request)).await;
            }
        }
    }
}
