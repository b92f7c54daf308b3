//! Old versions of objects: `?history=true` and `pintle history`.

use std::path::PathBuf;
use std::process::Command;

use pintle_testkit::server::{Options, binary};
use pintle_testkit::{Client, Server};
use serde_json::{Value, json};

const MERGE: &str = "application/merge-patch+json";

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"k": value}})
}

/// Types and values of `data.k` of the versions at a path, oldest first.
async fn versions(client: &Client, path: &str) -> Vec<(String, String)> {
    let (status, history) = client.get(&format!("{path}?history=true")).await.unwrap();
    assert_eq!((status, history["kind"].as_str()), (200, Some("ObjectHistory")), "{history}");
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let items = history["items"].as_array().unwrap();
    items.iter().map(|item| (text(&item["type"]), text(&item["object"]["data"]["k"]))).collect()
}

async fn change_a_map(client: &Client, maps: &str) {
    assert_eq!(client.post(maps, &map("m", "one")).await.unwrap().0, 201);
    let two = json!({"data": {"k": "two"}});
    assert_eq!(client.patch(&format!("{maps}/m"), MERGE, &two).await.unwrap().0, 200);
    assert_eq!(client.delete(&format!("{maps}/m")).await.unwrap().0, 200);
}

fn want(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(change, value)| ((*change).to_owned(), (*value).to_owned())).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_past_of_an_object_outlives_it_and_the_server() {
    let maps = "/api/v1/namespaces/default/configmaps";
    let past = want(&[("ADDED", "one"), ("MODIFIED", "two"), ("DELETED", "-")]);
    let mut server = Server::start().await.unwrap();
    change_a_map(&server.admin().unwrap(), maps).await;
    server.restart().await.unwrap();
    let client = server.admin().unwrap();
    assert_eq!(versions(&client, &format!("{maps}/m")).await, past);
    let (_, page) = client.get(&format!("{maps}/m?history=true&limit=1")).await.unwrap();
    assert_eq!((page["items"].as_array().map(Vec::len), page["hasOlder"].as_bool()), (Some(1), Some(true)));
    let last = page["items"][0]["resourceVersion"].as_str().unwrap();
    let (_, page) = client.get(&format!("{maps}/m?history=true&before={last}")).await.unwrap();
    assert_eq!(page["items"].as_array().map(Vec::len), Some(2));
    assert_eq!(client.get(&format!("{maps}/m")).await.unwrap().0, 404);

    // The right to get the object is necessary and sufficient.
    let alice = server.alice().unwrap();
    assert_eq!(alice.get(&format!("{maps}/m?history=true")).await.unwrap().0, 403);

    // A server in memory has the same history as its watches.
    let options = Options { ephemeral: true, ..Options::default() };
    let server = Server::start_with(options).await.unwrap();
    let client = server.admin().unwrap();
    change_a_map(&client, maps).await;
    assert_eq!(versions(&client, &format!("{maps}/m")).await, past);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_namespace_does_not_tell_of_an_old_one() {
    let server = Server::start().await.unwrap();
    let client = server.admin().unwrap();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let maps = "/api/v1/namespaces/team/configmaps";
    assert_eq!(client.post("/api/v1/namespaces", &namespace).await.unwrap().0, 201);
    assert_eq!(client.post(maps, &map("m", "secret")).await.unwrap().0, 201);
    assert_eq!(client.delete("/api/v1/namespaces/team").await.unwrap().0, 200);
    while client.get("/api/v1/namespaces/team").await.unwrap().0 == 200 {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let past = want(&[("ADDED", "secret"), ("DELETED", "-")]);
    assert_eq!(versions(&client, &format!("{maps}/m")).await, past, "who may read all namespaces sees it");
    assert_eq!(client.post("/api/v1/namespaces", &namespace).await.unwrap().0, 201);
    assert_eq!(versions(&client, &format!("{maps}/m")).await, want(&[]));
    assert_eq!(client.post(maps, &map("m", "new")).await.unwrap().0, 201);
    assert_eq!(versions(&client, &format!("{maps}/m")).await, want(&[("ADDED", "new")]));
}

fn history(kubeconfig: PathBuf, args: &[&str]) -> (bool, String) {
    let output = Command::new(binary().unwrap())
        .arg("history")
        .args(args)
        .arg("--kubeconfig")
        .arg(kubeconfig)
        .output()
        .unwrap();
    let text = if output.status.success() { output.stdout } else { output.stderr };
    (output.status.success(), String::from_utf8(text).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_shows_versions_fields_and_moments() {
    let server = Server::start().await.unwrap();
    let client = server.admin().unwrap();
    change_a_map(&client, "/api/v1/namespaces/default/configmaps").await;
    let run = |args: &[&str]| history(server.kubeconfig(), args);
    let (ok, text) = run(&["cm/m"]);
    assert!(ok && text.contains("\n  - .data.k: \"one\"\n  + .data.k: \"two\"\n"), "{text}");
    assert!(!text.contains('\x1b'), "colours are for terminals");
    let (ok, text) = run(&["configmap/m", "--field", ".data.k", "-o", "json"]);
    let list: Vec<Value> = serde_json::from_str(&text).unwrap();
    let values: Vec<&str> = list.iter().map(|item| item["value"].as_str().unwrap_or("-")).collect();
    assert_eq!((ok, values), (true, vec!["-", "two", "one"]), "{text}");
    let first = list[2]["resourceVersion"].as_str().unwrap();
    let (ok, text) = run(&["cm/m", "--at", first]);
    assert!(ok && text.contains("\n  k: one\n") && text.contains("kind: ConfigMap"), "{text}");
    let deleted = list[0]["resourceVersion"].as_str().unwrap();
    let (ok, text) = run(&["cm/m", "--at", deleted]);
    assert!(!ok && text.contains("it was deleted with resourceVersion"), "{text}");
    assert!(!run(&["cm/m", "--at", "1"]).0);
    assert!(!run(&["cm/nope"]).0);
    let (ok, text) = run(&["cm", "m", "--field", ".data.nope"]);
    assert!(!ok && text.contains("no retained version of cm/m has this field"), "{text}");
}
