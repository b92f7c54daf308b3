//! Commands that are forwarded: to a kubelet that runs real commands, and to an extension server with metrics.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Stdio;
use std::time::Duration;

use super::{All, Exactly, Fails, check, start};
use crate::proxy::{admin, kubelet, register, until};
use pintle_testkit::backend::{Backend, Reply};
use pintle_testkit::{Client, Request};
use serde_json::json;

const FLAGS: &[&str] =
    &["--kubelet-preferred-address-types=InternalIP", "--disable-admission-plugins=ServiceAccount"];
const MERGE: &str = "application/merge-patch+json";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_commands_and_copying() {
    let (server, kubectl) = start(FLAGS).await;
    let client = admin(&server);
    let _kubelet = kubelet(&client).await;
    set_running(&client, "web", "main").await;

    let folder = server.data_dir().join("copies");
    std::fs::create_dir_all(folder.join("pod")).unwrap();
    std::fs::write(folder.join("here"), "text of a file\n").unwrap();
    let at = |name: &str| folder.join(name).display().to_string();
    let (here, there, back) = (at("here"), at("pod/there"), at("back"));
    check(
        &kubectl,
        &[
            ("logs web", "", 0, All(&["GET /containerLogs/default/web/main"])),
            ("logs web --tail=3 --timestamps", "", 0, All(&["tailLines=3", "timestamps=true"])),
            ("exec web -- echo out", "", 0, Exactly("out\n")),
            ("exec -i web -- cat", "through a pipe", 0, Exactly("through a pipe")),
            ("exec web -- sh -c 'exit 3'", "", 0, Fails("exit code 3")),
            ("attach -i web", "echo attached; exit", 0, All(&["attached"])),
            (&format!("cp {here} web:{there}"), "", 0, Exactly("")),
            (&format!("exec web -- cat {there}"), "", 0, Exactly("text of a file\n")),
            (&format!("cp web:{there} {back}"), "", 0, All(&[])),
            ("debug web --image=tools --container=debugger -- true", "", 25, All(&[])),
            ("get pod web -o jsonpath={.spec.ephemeralContainers[*].name}", "", 25, Exactly("debugger")),
        ],
    );
    assert_eq!(std::fs::read_to_string(back).unwrap(), "text of a file\n");
}

/// Sets the status of a pod as a kubelet does when its container runs.
async fn set_running(client: &Client, pod: &str, container: &str) {
    let running = json!({"startedAt": "2026-01-01T00:00:00Z"});
    let ready = json!({"type": "Ready", "status": "True"});
    let status = json!({"status": {"phase": "Running", "conditions": [ready], "containerStatuses": [{"name": container, "image": "i",
        "imageID": "i", "ready": true, "restartCount": 0, "state": {"running": running}}]}});
    let path = format!("/api/v1/namespaces/default/pods/{pod}/status");
    let (code, answer) = client.patch(&path, MERGE, &status).await.unwrap();
    assert_eq!(code, 200, "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_a_pod_with_a_shell() {
    let (server, kubectl) = start(FLAGS).await;
    let client = admin(&server);
    let _kubelet = kubelet(&client).await;

    let mut command = kubectl.command("run shell -i --rm --image=i --pod-running-timeout=30s");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"echo from the shell\n").unwrap();
    // The work of a scheduler and a kubelet.
    until(&client, "/api/v1/namespaces/default/pods/shell", |code, _| code == 200).await;
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "shell"},
        "target": {"kind": "Node", "name": "n1"}});
    client.post("/api/v1/namespaces/default/pods/shell/binding", &binding).await.unwrap();
    set_running(&client, "shell", "shell").await;

    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("from the shell"), "{output:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn showing_the_usage_of_nodes() {
    let (server, kubectl) = start(FLAGS).await;
    let client = admin(&server);
    let _kubelet = kubelet(&client).await;
    let allocatable = json!({"status": {"capacity": {"cpu": "4", "memory": "8Gi"},
        "allocatable": {"cpu": "4", "memory": "8Gi"}}});
    assert_eq!(client.patch("/api/v1/nodes/n1/status", MERGE, &allocatable).await.unwrap().0, 200);

    let metrics = Backend::start(&["ext.default.svc"], |received| {
        let resources = json!([{"name": "nodes", "singularName": "", "namespaced": false, "kind": "NodeMetrics", "verbs": ["get", "list"]}]);
        let usage = json!({"metadata": {"name": "n1"}, "timestamp": "2026-01-01T00:00:00Z", "window": "10s",
            "usage": {"cpu": "1", "memory": "2Gi"}});
        let answer = match received.target.split('?').next() {
            Some("/apis/metrics.k8s.io/v1beta1") => json!({"kind": "APIResourceList", "apiVersion": "v1",
                "groupVersion": "metrics.k8s.io/v1beta1", "resources": resources}),
            Some("/apis/metrics.k8s.io/v1beta1/nodes") => json!({"kind": "NodeMetricsList",
                "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": [usage]}),
            _ => return Reply::new(404, "text/plain", "not here"),
        };
        Reply::new(200, "application/json", answer.to_string())
    });
    let metrics = metrics.await.unwrap();
    register(&client, "metrics.k8s.io", "v1beta1", &metrics).await;
    until_discovered(&client, "metrics.k8s.io").await;
    check(&kubectl, &[("top nodes", "", 0, All(&["n1", "1000m", "25%", "2048Mi"]))]);
}

/// Waits until discovery has the resources of an extension server: kubectl ignores a version that is marked as stale.
async fn until_discovered(client: &Client, group: &str) {
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let request = Request::new("GET", "/apis").header("Accept", aggregated);
    for _ in 0..1000 {
        let (_, list) = client.send_json(&request).await.unwrap();
        let found =
            list["items"].as_array().into_iter().flatten().find(|item| item["metadata"]["name"] == group);
        if found.is_some_and(|group| group["versions"][0]["freshness"] == "Current") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{group} is not discovered");
}

#[test]
fn forwarding_a_port() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_server, _kubelet, kubectl) = runtime.block_on(async {
        let (server, kubectl) = start(FLAGS).await;
        let client = admin(&server);
        let kubelet = kubelet(&client).await;
        set_running(&client, "web", "main").await;
        (server, kubelet, kubectl)
    });
    let mut child = kubectl.command("port-forward pod/web :80").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    // kubectl prints a line for each connection, and exits if its output is closed.
    let mut printed = BufReader::new(child.stdout.take().unwrap());
    printed.read_line(&mut line).unwrap();
    let address = line.split(' ').nth(2).unwrap_or_default().to_owned();
    for text in ["first", "second, while the tunnel is open"] {
        let mut connection = TcpStream::connect(&address).unwrap();
        connection.write_all(text.as_bytes()).unwrap();
        connection.shutdown(std::net::Shutdown::Write).unwrap();
        let mut echo = String::new();
        connection.read_to_string(&mut echo).unwrap();
        assert_eq!(echo, text, "{line}");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_proxy_for_browsers() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (_server, kubectl) = runtime.block_on(start(&[]));
    let mut child = kubectl.command("proxy --port=0").stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
    let mut connection = TcpStream::connect(address).unwrap();
    let request = "GET /api/v1/namespaces/default HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    connection.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.contains("\"Namespace\""), "{answer}");
}
