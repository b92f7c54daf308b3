//! Long lists are equal in every encoding, however many chunks they are written in.

use pintle_testkit::{Client, Options, Request, Server};
use pintle_value::{Value, cbor, json, yaml};
use serde_json::json;

const OBJECTS: usize = 120;
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SCALERS: &str = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";

async fn fill(client: &Client) {
    let text = "two\nlines, \"quoted\" {and} [bracketed] ".repeat(50);
    for number in 0..OBJECTS {
        let name = format!("o{number}");
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": text}});
        assert_eq!(client.post(MAPS, &map).await.unwrap().0, 201);
        let scaler = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
            "metadata": {"name": name, "annotations": {"text": text}},
            "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}}});
        assert_eq!(client.post(SCALERS, &scaler).await.unwrap().0, 201);
    }
}

async fn ask(client: &Client, path: &str, accept: &str) -> Vec<u8> {
    let answer = client.send(&Request::new("GET", path).header("Accept", accept)).await.unwrap();
    assert_eq!(answer.status(), 200, "{path} {accept}");
    answer.body
}

fn tree(bytes: &[u8]) -> Value {
    json::parse(bytes).unwrap().value
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_lists_are_the_same_in_every_encoding() {
    let server = Server::start_ephemeral().await.unwrap();
    let client = server.admin().unwrap();
    fill(&client).await;
    for path in [MAPS, SCALERS, &SCALERS.replace("v2", "v1")] {
        let compact = ask(&client, path, "application/json").await;
        let expected = tree(&compact);
        assert_eq!(expected.items_at(&["items"]).len(), OBJECTS, "{path}");
        let pretty = ask(&client, &format!("{path}?pretty=1"), "application/json").await;
        let mut indented = Vec::new();
        json::indent(&compact, &mut indented);
        assert_eq!(pretty, indented, "{path}");
        let printed = ask(&client, path, "application/yaml").await;
        let mut whole = Vec::new();
        yaml::print(&expected, &mut whole);
        assert_eq!(String::from_utf8(printed).unwrap(), String::from_utf8(whole).unwrap(), "{path}");
        let packed = ask(&client, path, "application/cbor").await;
        assert_eq!(cbor::decode(&packed).unwrap(), expected, "{path}");
        let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
        let rows = tree(&ask(&client, path, table).await);
        assert_eq!(rows.items_at(&["rows"]).len(), OBJECTS);
        let pretty = tree(&ask(&client, &format!("{path}?pretty=1"), table).await);
        assert_eq!(pretty.items_at(&["rows"]).len(), OBJECTS);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn long_lists_are_compressed_in_every_encoding() {
    let server = Server::start_ephemeral().await.unwrap();
    let client = server.admin().unwrap();
    fill(&client).await;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io;includeObject=Object";
    for (accept, query) in [
        ("application/json", ""),
        ("application/json", "?pretty=1"),
        ("application/yaml", ""),
        ("application/cbor", ""),
        ("application/vnd.kubernetes.protobuf", ""),
        (table, "?includeObject=Object"),
    ] {
        let request = Request::new("GET", &format!("{MAPS}{query}"));
        let request = request.header("Accept", accept).header("Accept-Encoding", "gzip");
        let answer = client.send(&request).await.unwrap();
        assert_eq!(answer.head.get("content-encoding"), Some("gzip"), "{accept} {query}");
    }
}

/// Without the feature gate, no body is read as CBOR, not even the options of a deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_of_deletions_are_read_as_cbor_only_behind_the_gate() {
    for (gate, code) in [(true, 404), (false, 415)] {
        let flags = vec![format!("--feature-gates=CBORServingAndStorage={gate}")];
        let server = Server::start_with(Options { ephemeral: true, flags }).await.unwrap();
        // `{}` in CBOR.
        let request = Request::new("DELETE", &format!("{MAPS}/none")).body("application/cbor", vec![0xa0]);
        let answer = server.admin().unwrap().send(&request).await.unwrap();
        assert_eq!(answer.status(), code, "{}", String::from_utf8_lossy(&answer.body));
    }
}

/// The recorded answers of kube-apiserver to the same requests, apart from the order of keys in CBOR.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whole_floats_of_custom_resources_stay_floats_until_they_are_printed() {
    let server = Server::start_ephemeral().await.unwrap();
    let client = server.admin().unwrap();
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({"metadata": {"name": "things.example.org"}, "spec": {
        "group": "example.org", "scope": "Cluster", "names": {"plural": "things", "kind": "Thing"},
        "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}}}}]}});
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.post(definitions, &definition).await.unwrap().0, 201);
    let (things, thing) = ("/apis/example.org/v1/things", "/apis/example.org/v1/things/a");
    let status = "/apis/example.org/v1/things/a/status";
    let merge = "application/merge-patch+json";
    let new = r#"{"apiVersion":"example.org/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"r":2.0,"f":[1,1e3,0.5]}}"#;
    let patch = r#"[{"op":"test","path":"/spec/r","value":2},{"op":"add","path":"/spec/z","value":7.0}]"#;
    let steps = [
        ("POST", things, "application/json", new, r#"{"f":[1,1e3,0.5],"r":2.0}"#, "null"),
        ("PATCH", status, merge, r#"{"status":{"n":1.0}}"#, r#"{"f":[1,1e3,0.5],"r":2.0}"#, r#"{"n":1.0}"#),
        (
            "PATCH",
            thing,
            "application/json-patch+json",
            patch,
            r#"{"f":[1,1000,0.5],"r":2,"z":7.0}"#,
            r#"{"n":1.0}"#,
        ),
    ];
    for (method, path, media, body, spec, status) in steps {
        let request = Request::new(method, path).body(media, body);
        assert!(client.send(&request).await.unwrap().status() < 300, "{method} {path}");
        let packed = cbor::decode(&ask(&client, thing, "application/cbor").await).unwrap();
        let debug_text = |value: &Value| format!("{value:?}");
        for (field, expected) in [("spec", spec), ("status", status)] {
            let found = packed.at(&[field]).unwrap_or(&Value::Null);
            assert_eq!(
                debug_text(found),
                debug_text(&tree(expected.as_bytes())),
                "{field} after {method} {path}"
            );
        }
        let printed = ask(&client, thing, "application/json").await;
        assert_eq!(tree(&printed).at(&["spec", "r"]).and_then(Value::as_int), Some(2), "{method} {path}");
    }
}
