//! The smaller commands of the binary: owners and conflicts of an apply, health, JSON output, completion, manual.

use pintle_testkit::Server;
use pintle_testkit::server::binary;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};

/// Whether a command succeeded, and its output.
fn run(args: &[&str]) -> (bool, String) {
    let output = Command::new(binary().unwrap()).args(args).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

fn parsed(args: &[&str]) -> Value {
    let output = Command::new(binary().unwrap()).args(args).output().unwrap();
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{args:?}: {error}"))
}

const APPLIED: &str = "\
# A comment before it.
apiVersion: v1
kind: ConfigMap
metadata:
  name: shared
data:
  mine: a
  theirs: b
---
apiVersion: v1
kind: ConfigMap
metadata: {name: fresh}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: fresh, namespace: none}
";

#[tokio::test]
async fn owners_and_conflicts() {
    let server = Server::start().await.unwrap();
    let client = server.admin().unwrap();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": {"theirs": "x"}});
    let path = "/api/v1/namespaces/default/configmaps?fieldManager=them";
    assert_eq!(client.post(path, &map).await.unwrap().0, 201);
    let kubeconfig = server.kubeconfig();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let file = server.data_dir().join("apply.yaml");
    std::fs::write(&file, APPLIED).unwrap();
    let file = file.to_str().unwrap();

    let (ok, text) = run(&["owners", "cm/shared", "--kubeconfig", kubeconfig, "--tree"]);
    assert!(ok && text.starts_with("them: Update, v1, since 20"), "{text}");
    assert!(text.contains("└─ theirs: x\n"), "{text}");

    let (ok, text) = run(&["owners", "-f", file, "--kubeconfig", kubeconfig, "--field-manager", "me"]);
    assert!(!ok, "{text}");
    for part in [
        format!("{file}:2:1: ConfigMap shared: conflicts: 1\n"),
        format!("{file}:8:3: .data.theirs: \"x\" on the server, \"b\" here (them: Update, v1, since 20"),
        format!("{file}:10:1: ConfigMap fresh: would be created\n"),
        "namespaces \"none\" not found".to_string(),
        "expected conflicts or rejections: 2\n".to_string(),
    ] {
        assert!(text.contains(&part), "{part}\n{text}");
    }
    let found = parsed(&["owners", "-f", file, "--kubeconfig", kubeconfig, "--output", "json"]);
    assert_eq!(found[0]["conflicts"][0]["field"], ".data.theirs");
    assert_eq!((&found[0]["conflicts"][0]["line"], &found[1]["outcome"]), (&8.into(), &"created".into()));
    // The same manager, or the same value, has no conflict.
    std::fs::write(file, APPLIED.replace("theirs: b", "theirs: x").split("---").next().unwrap()).unwrap();
    let (ok, text) = run(&["owners", "-f", file, "--kubeconfig", kubeconfig]);
    assert!(ok && text.contains("no conflicts\n"), "{text}");
    let (status, live) = client.get("/api/v1/namespaces/default/configmaps/shared").await.unwrap();
    assert_eq!((status, &live["data"]), (200, &json!({"theirs": "x"})), "a dry run changes nothing");
}

#[tokio::test]
async fn results_are_printed_as_json() {
    let mut server = Server::start().await.unwrap();
    let data = server.data_dir();
    let file = data.join("backup");
    let (data, file) = (data.to_str().unwrap(), file.to_str().unwrap());
    let health = parsed(&["health", "--data-dir", data, "--output=json"]);
    assert_eq!((&health["healthy"], &health["text"]), (&true.into(), &"ok".into()));
    let (ok, text) = run(&["health", "--data-dir", data, "--path", "/nope"]);
    assert!(!ok && text.contains("404"), "{text}");
    let backup = parsed(&["backup", file, "--data-dir", data, "--output", "json"]);
    assert!(backup["objects"].as_u64().unwrap() > 0 && backup["revision"].as_u64().unwrap() > 0, "{backup}");
    server.terminate().await.unwrap();
    let (ok, text) = run(&["health", "--data-dir", data]);
    assert!(!ok && text.contains("cannot reach"), "{text}");
    std::fs::rename(server.data_dir().join("store"), server.data_dir().join("old")).unwrap();
    let restored = parsed(&["restore", file, "--data-dir", data, "--output", "json"]);
    assert_eq!(restored["objects"], backup["objects"]);
    assert_eq!(parsed(&["recover", "--data-dir", data, "--output", "json"]), json!({"sound": true}));
    let certs = parsed(&["certs", "--data-dir", data, "--output", "json"]);
    assert!(certs.as_array().unwrap().iter().any(|one| one["secondsLeft"].as_i64() > Some(0)), "{certs}");
    let user = parsed(&["kubeconfig", "--user", "eve", "--data-dir", data, "--output", "json"]);
    assert_eq!(user["kind"], "Config");
    assert_eq!(parsed(&["version", "--output", "json"])["gitVersion"], "v1.36.4");
    assert_eq!(parsed(&["version", "-o", "json"])["gitVersion"], "v1.36.4");
    assert_eq!(parsed(&["completion", "fish", "-o", "json"])["shell"], "fish");
    assert!(parsed(&["man", "-o", "json"])["page"].as_str().unwrap().starts_with(".TH PINTLE"));
    let commands = parsed(&["help", "-o", "json"]);
    assert_eq!(commands["commands"][0]["name"], "serve");
    assert_eq!(parsed(&["help", "health", "-o", "json"])["flags"][0]["name"], "data-dir");
    let (ok, text) = run(&["health", "--data-dir", data, "--path", "readyz"]);
    assert!(!ok && text.contains("does not begin with /"), "{text}");
    assert_eq!(run(&["version"]), (true, "Kubernetes v1.36.4\n".to_string()));
}

#[test]
fn completion_and_manual_come_from_the_tables() {
    for (args, part) in [
        (&["completion", "bash"][..], "complete -o filenames -F _pintle pintle\n"),
        (&["completion", "zsh"], "#compdef pintle\n"),
        (&["completion", "fish"], "-l secure-port"),
        (&["man"], ".SS Secure serving flags\n"),
        (&["--help"], "\nSecure serving flags:\n\n"),
        (&["health", "--help"], "Usage: pintle health"),
    ] {
        let (ok, text) = run(args);
        assert!(ok && text.contains(part), "{args:?}\n{text}");
    }
    for (args, part) in [
        (&["migrate"][..], "an argument is missing. Usage: pintle migrate to-etcd|from-etcd"),
        (&["migrate", "sideways"], "\"sideways\" is no direction. Usage: pintle migrate"),
    ] {
        let (ok, text) = run(args);
        assert!(!ok && text.contains(part), "{args:?}\n{text}");
    }
    let (ok, text) = run(&["completion", "tcsh"]);
    assert!(!ok && text.contains("bash, zsh or fish"), "{text}");
}

/// The packaged static pod manifest is valid.
#[test]
fn the_static_pod_is_valid() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../packaging/kube-apiserver.yaml");
    let (ok, text) = run(&["check", "--strict", file]);
    assert!(ok && text.contains("Pod kube-apiserver: ok\n"), "{text}");
}

/// The arguments of an instruction of the container image.
fn image_arguments(instruction: &str) -> Vec<String> {
    let text = include_str!("../../../../packaging/Containerfile");
    let line = text.lines().find(|line| line.starts_with(instruction)).unwrap();
    serde_json::from_str(&line[line.find('[').unwrap()..]).unwrap()
}

/// The command of the container image serves in its volume, and its health check succeeds.
#[test]
fn the_container_image_serves_and_is_healthy() {
    let data = std::env::temp_dir().join(format!("pintle-image-{}", std::process::id()));
    let on_host = |arguments: Vec<String>| -> Vec<String> {
        let local = |argument: String| {
            argument.replace("/data", data.to_str().unwrap()).replace("0.0.0.0", "127.0.0.1")
        };
        arguments.into_iter().map(local).collect()
    };
    assert_eq!(image_arguments("ENTRYPOINT"), ["/pintle"]);
    let mut serve = Command::new(binary().unwrap());
    serve.args(on_host(image_arguments("CMD"))).args(["--secure-port", "0"]);
    let mut server = serve.spawn().unwrap();
    let check = on_host(image_arguments("HEALTHCHECK"));
    let check: Vec<&str> = check.iter().map(String::as_str).collect();
    assert_eq!(check[0], "/pintle");
    let start = Instant::now();
    let healthy = loop {
        let (healthy, text) = run(&check[1..]);
        if healthy || start.elapsed() > Duration::from_secs(30) {
            break (healthy, text);
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    server.kill().unwrap();
    server.wait().unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    assert_eq!(healthy, (true, "ok\n".to_owned()));
}
