//! Requests that another server answers: an aggregated API, logs and streams of a kubelet. Both run in this process, so their CPU
//! time does not count as the server's.

use std::time::Duration;

use pintle_testkit::backend::{Backend, Received, Reply};
use pintle_testkit::wire::Connection;
use pintle_testkit::{Client, Request};
use serde_json::json;
use tokio::task::JoinSet;

use super::Context;
use crate::error::BenchError;
use crate::load::Until;
use crate::row::Row;

const GROUP: &str = "bench.example.com";
/// The chunks of the log, which is 1 GiB.
const LOG_CHUNK_BYTES: usize = 32 * 1024;
const LOG_CHUNKS: usize = 32 * 1024;
/// Idle streams, and how many of them are opened at the same time.
const STREAMS: usize = 1000;
const OPENING_MAX: usize = 16;
/// How long to wait before memory is measured once the streams are open.
const SETTLE: Duration = Duration::from_secs(2);
/// How long an APIService may take to become available.
const AVAILABLE_ATTEMPTS: usize = 300;
const AVAILABLE_PAUSE: Duration = Duration::from_millis(100);

/// GET of a 1 KB object of an extension server.
pub(super) async fn aggregated(context: &Context) -> Result<Vec<Row>, BenchError> {
    let extension = Backend::start(&["localhost"], extension_answer).await.map_err(broken)?;
    let namespace = context.namespace("aggregated").await?;
    let service = json!({"metadata": {"name": "extension"},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": extension.port()}]}});
    context.make(&format!("/api/v1/namespaces/{namespace}/services"), service).await?;
    let name = format!("v1.{GROUP}");
    let registration = json!({"metadata": {"name": name}, "spec": {
        "group": GROUP, "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 10,
        "insecureSkipTLSVerify": true,
        "service": {"namespace": namespace, "name": "extension", "port": extension.port()}}});
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    context.make(services, registration).await?;
    let path = format!("/apis/{GROUP}/v1/things/one");
    let rows = gets(context, "aggregated", &path).await?;
    context.client.delete(&format!("{services}/{name}")).await?;
    context.remove_namespace(&namespace).await?;
    Ok(rows)
}

/// GETs of one path by one and by many clients.
async fn gets(context: &Context, name: &str, path: &str) -> Result<Vec<Row>, BenchError> {
    until_available(context, path).await?;
    let mut rows = Vec::new();
    for clients in [1, 32] {
        let request = Request::new("GET", path);
        let load = context.load(name, clients, context.elapsed());
        rows.push(load.run(move |_| request.clone()).await?);
    }
    Ok(rows)
}

/// GETs of 1 KB from a kubelet, a pod and a service.
pub(super) async fn small(context: &Context) -> Result<Vec<Row>, BenchError> {
    let address = context.arguments.pod_address;
    let answer = |_: &Received| Reply::new(200, "text/plain", "0123456789abcde\n".repeat(64));
    let kubelet = Backend::start_on(address, &["localhost"], answer).await.map_err(broken)?;
    let port = kubelet.port();
    let pod = Pod::create_pod(context, "proxied", kubelet).await?;
    let mut rows = gets(context, "nodes/proxy", &format!("/api/v1/nodes/{}/proxy/page", pod.node)).await?;
    if !address.is_loopback() {
        let api = format!("/api/v1/namespaces/{}", pod.namespace);
        let status = json!({"status": {"podIP": address, "podIPs": [{"ip": address}], "phase": "Running"}});
        let patch = "application/merge-patch+json";
        context.client.patch(&pod.path("status"), patch, &status).await?;
        let path = format!("{api}/pods/https:one:{port}/proxy/page");
        rows.extend(gets(context, "pods/proxy", &path).await?);
        let service = json!({"metadata": {"name": "one"}, "spec": {"ports": [{"port": 443}]}});
        context.make(&format!("{api}/services"), service).await?;
        // Services are proxied only to addresses of pods.
        let reference = json!({"kind": "Pod", "namespace": pod.namespace, "name": "one"});
        let addresses = json!([{"ip": address, "targetRef": reference}]);
        let subsets = json!([{"addresses": addresses, "ports": [{"port": port}]}]);
        context
            .make(&format!("{api}/endpoints"), json!({"metadata": {"name": "one"}, "subsets": subsets}))
            .await?;
        let path = format!("{api}/services/https:one:443/proxy/page");
        rows.extend(gets(context, "services/proxy", &path).await?);
    }
    pod.remove(context).await?;
    Ok(rows)
}

fn extension_answer(received: &Received) -> Reply {
    let body = if received.target.ends_with("/things/one") {
        json!({"kind": "Thing", "apiVersion": format!("{GROUP}/v1"), "metadata": {"name": "one"},
    "payload": "0123456789abcdef".repeat(58)})
    } else {
        json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": format!("{GROUP}/v1"),
    "resources": [{"name": "things", "singularName": "thing", "namespaced": false, "kind": "Thing",
        "verbs": ["get"]}]})
    };
    Reply::new(200, "application/json", body.to_string())
}

async fn until_available(context: &Context, path: &str) -> Result<(), BenchError> {
    for _ in 0..AVAILABLE_ATTEMPTS {
        if context.client.send(&Request::new("GET", path)).await?.status() == 200 {
            return Ok(());
        }
        tokio::time::sleep(AVAILABLE_PAUSE).await;
    }
    Err(BenchError::Unexpected(format!("{path} did not become available")))
}

/// A log of 1 GiB that a client reads to its end.
pub(super) async fn log(context: &Context) -> Result<Vec<Row>, BenchError> {
    let pod = Pod::create_pod(context, "log", kubelet(context).await?).await?;
    let load = context.load("log of 1 GiB", 1, Until::Operations(1));
    let bytes = context.client.bytes_of(&Request::new("GET", &pod.path("log")));
    let row = load.run_ops(move |connection, _| {
        let bytes = bytes.clone();
        Box::pin(async move { read_log(connection, &bytes).await })
    });
    let row = row.await?;
    pod.remove(context).await?;
    Ok(vec![row])
}

async fn read_log(connection: &mut Connection, request: &[u8]) -> Result<(), BenchError> {
    connection.send(request).await?;
    let status = connection.read_head(false).await?.status;
    let read = connection.skip_body().await?;
    match (status, read == (LOG_CHUNK_BYTES * LOG_CHUNKS) as u64) {
        (200, true) => Ok(()),
        _ => Err(BenchError::Unexpected(format!("a log with status {status} and {read} bytes"))),
    }
}

/// Memory of idle streams: commands over WebSockets, as kubectl opens them, and forwarded ports over SPDY.
pub(super) async fn idle_streams(context: &Context) -> Result<Vec<Row>, BenchError> {
    let pod = Pod::create_pod(context, "streams", kubelet(context).await?).await?;
    let exec = Request::new("GET", &pod.path("exec?command=pause&stdin=true&stdout=true&stderr=true"))
        .header("Connection", "Upgrade")
        .header("Upgrade", "websocket")
        .header("Sec-WebSocket-Version", "13")
        .header("Sec-WebSocket-Key", "AAECAwQFBgcICQoLDA0ODw==")
        .header("Sec-WebSocket-Protocol", "v5.channel.k8s.io");
    let forward = Request::new("POST", &pod.path("portforward"))
        .header("Connection", "Upgrade")
        .header("Upgrade", "SPDY/3.1")
        .header("X-Stream-Protocol-Version", "portforward.k8s.io");
    let mut rows = Vec::new();
    for (name, request) in [("idle exec", exec), ("idle portforward", forward)] {
        let before = context.server.rss_bytes();
        let streams = open_streams(&context.client, &request).await?;
        tokio::time::sleep(SETTLE).await;
        let grown = context.server.rss_bytes().saturating_sub(before);
        let mut row = Row::single(name, "kib_per_stream", grown as f64 / 1024.0 / STREAMS as f64);
        row.clients = streams.len();
        rows.push(row);
        drop(streams);
        tokio::time::sleep(SETTLE).await;
    }
    pod.remove(context).await?;
    Ok(rows)
}

async fn open_streams(client: &Client, request: &Request) -> Result<Vec<Connection>, BenchError> {
    let mut opening = JoinSet::new();
    let mut open = Vec::with_capacity(STREAMS);
    while open.len() < STREAMS {
        while opening.len() < OPENING_MAX && open.len() + opening.len() < STREAMS {
            let (target, bytes) = (client.target().clone(), client.bytes_of(request));
            opening.spawn(async move {
                let mut connection = target.connect().await?;
                connection.send(&bytes).await?;
                match connection.read_head(false).await?.status {
                    101 => Ok(connection),
                    status => Err(BenchError::Unexpected(format!("a stream with status {status}"))),
                }
            });
        }
        if let Some(opened) = opening.join_next().await {
            open.push(opened.map_err(|_| BenchError::Client)??);
        }
    }
    Ok(open)
}

/// A kubelet with a long log.
async fn kubelet(context: &Context) -> Result<Backend, BenchError> {
    let answer = |_: &Received| Reply {
        chunks: Some(LOG_CHUNKS),
        ..Reply::new(200, "text/plain", "0123456789abcde\n".repeat(LOG_CHUNK_BYTES / 16))
    };
    Backend::start_on(context.arguments.pod_address, &["localhost"], answer).await.map_err(broken)
}

/// A pod on a node of its own, and the node's kubelet.
struct Pod {
    namespace: String,
    node: String,
    _kubelet: Backend,
}

impl Pod {
    async fn create_pod(context: &Context, purpose: &str, kubelet: Backend) -> Result<Pod, BenchError> {
        let namespace = context.namespace(purpose).await?;
        let node = format!("node-of-{namespace}");
        let status = json!({"addresses": [{"type": "InternalIP", "address": context.arguments.pod_address}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port()}}});
        context.make("/api/v1/nodes", json!({"metadata": {"name": node}, "status": status})).await?;
        let pod = json!({"metadata": {"name": "one"}, "spec": {"nodeName": node,
            "automountServiceAccountToken": false, "containers": [{"name": "main", "image": "i"}]}});
        let api = format!("/api/v1/namespaces/{namespace}");
        // The pod needs the service account: kube-controller-manager makes it, and it may not run.
        let account = json!({"metadata": {"name": "default"}});
        context.client.post(&format!("{api}/serviceaccounts"), &account).await?;
        context.make(&format!("{api}/pods"), pod).await?;
        Ok(Pod { namespace, node, _kubelet: kubelet })
    }

    fn path(&self, subresource: &str) -> String {
        format!("/api/v1/namespaces/{}/pods/one/{subresource}", self.namespace)
    }

    async fn remove(&self, context: &Context) -> Result<(), BenchError> {
        context.client.delete(&format!("/api/v1/nodes/{}", self.node)).await?;
        context.remove_namespace(&self.namespace).await
    }
}

fn broken(error: std::io::Error) -> BenchError {
    BenchError::File("backend".to_owned(), error)
}
