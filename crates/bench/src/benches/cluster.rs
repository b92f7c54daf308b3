//! The load of a whole cluster: kubelets with leases, statuses and watches, controllers that follow all resources,
//! and a scheduler.
//!
//! Every kubelet has its own connection. Requests are sent when they are due, even if the server cannot handle them
//! in time, and their latency counts from that moment, so that a backlog is visible.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pintle_testkit::wire::Http2;
use pintle_testkit::{Client, Request};
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::Context;
use crate::error::BenchError;
use crate::process::Processes;
use crate::row::{Latencies, Row};

/// How often a kubelet renews its lease and writes its status: the kubelet's defaults.
const LEASE_EVERY: Duration = Duration::from_secs(10);
const STATUS_EVERY: Duration = Duration::from_secs(300);
/// How often a kubelet gets its node.
const GET_EVERY: Duration = Duration::from_secs(10);
/// Pods that are created and bound each second, and how many stay before the oldest is deleted.
const PODS_PER_SECOND: u64 = 100;
const PODS_MAX: u64 = 1000;
/// Kubelets that connect at the same time.
const CONNECTING_MAX: usize = 16;
/// Processes that follow all pods, nodes, leases, services and ConfigMaps.
const CONTROLLERS: usize = 3;

/// The measured kinds of requests.
#[derive(Clone, Copy)]
enum Kind {
    Lease,
    Status,
    Get,
    Create,
    Bind,
}

const KINDS: [(Kind, &str); 5] = [
    (Kind::Lease, "cluster-lease"),
    (Kind::Status, "cluster-status"),
    (Kind::Get, "cluster-get"),
    (Kind::Create, "cluster-create"),
    (Kind::Bind, "cluster-bind"),
];

/// The state that all clients of the cluster share.
struct Cluster {
    client: Client,
    namespace: String,
    measured: Mutex<[Latencies; KINDS.len()]>,
    /// The number of received parts of watches.
    watched: AtomicU64,
    failures: AtomicU64,
    duration: Duration,
}

/// One row for each kind of request, and one for the server.
pub(super) async fn run(context: &Context) -> Result<Vec<Row>, BenchError> {
    let nodes = context.arguments.nodes;
    let namespace = context.namespace("cluster").await?;
    let cluster = Arc::new(Cluster {
        client: context.client.clone(),
        namespace: namespace.clone(),
        measured: Mutex::default(),
        watched: AtomicU64::new(0),
        failures: AtomicU64::new(0),
        duration: context.arguments.duration,
    });
    cluster.make_service_account().await?;
    let before = context.server.rss_bytes();
    let kubelets = cluster.connect_kubelets(nodes).await?;
    let mut watches = JoinSet::new();
    for _ in 0..CONTROLLERS {
        cluster.follow_everything(&mut watches).await?;
    }
    let connected = context.server.rss_bytes();
    let (server_before, own_before) = (context.server.cpu(), Processes::own().cpu());
    let started = Instant::now();
    let mut running = JoinSet::new();
    for (index, kubelet) in kubelets.iter().enumerate() {
        // The requests are spread over the period, as if the kubelets had been started one after the other.
        let share = index as f64 / nodes as f64;
        running.spawn(kubelet.clone().send_until_end(cluster.clone(), started, share));
    }
    running.spawn(cluster.clone().schedule(kubelets.clone(), started));
    while let Some(ended) = running.join_next().await {
        ended.map_err(|_| BenchError::Client)?;
    }
    let seconds = started.elapsed().as_secs_f64();
    let cpu = context.server.cpu().seconds_since(&server_before);
    let own = Processes::own().cpu().seconds_since(&own_before);
    let mut rows = cluster.result_rows(nodes, seconds);
    let numbers = vec![
        ("server_cpu_percent", cpu / seconds * 100.0),
        ("client_cpu_percent", own / seconds * 100.0),
        ("rss_mib", context.server.rss_bytes() as f64 / 1048576.0),
        ("kib_per_node", connected.saturating_sub(before) as f64 / 1024.0 / nodes as f64),
        ("watch_parts_per_s", cluster.watched.load(Ordering::Relaxed) as f64 / seconds),
        ("failures", cluster.failures.load(Ordering::Relaxed) as f64),
    ];
    rows.push(Row { name: "cluster".to_owned(), clients: nodes, ops: 0, numbers });
    drop((watches, kubelets));
    cluster.remove_nodes(nodes).await?;
    context.remove_namespace(&namespace).await?;
    Ok(rows)
}

/// A node's kubelet: its connection and the last version of its lease.
struct Kubelet {
    name: String,
    connection: Http2,
    lease: Mutex<Value>,
    _watches: JoinSet<()>,
}

impl Cluster {
    fn leases(&self) -> String {
        format!("/apis/coordination.k8s.io/v1/namespaces/{}/leases", self.namespace)
    }

    fn pods(&self) -> String {
        format!("/api/v1/namespaces/{}/pods", self.namespace)
    }

    /// Creates the service account without which pods are rejected, unless a controller was faster.
    async fn make_service_account(&self) -> Result<(), BenchError> {
        let path = format!("/api/v1/namespaces/{}/serviceaccounts", self.namespace);
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let request = Request::new("POST", &path).json(&account);
        let answer = self.client.send(&request).await?;
        match answer.status() {
            201 | 409 => Ok(()),
            status => Err(refused(request, status, answer.text().as_bytes())),
        }
    }

    async fn connect_kubelets(self: &Arc<Self>, nodes: usize) -> Result<Arc<Vec<Arc<Kubelet>>>, BenchError> {
        let places = Arc::new(Semaphore::new(CONNECTING_MAX));
        let mut connecting = JoinSet::new();
        for index in 0..nodes {
            let (cluster, places) = (self.clone(), places.clone());
            connecting.spawn(async move {
                let _place = places.acquire().await;
                Kubelet::connect(&cluster, index).await
            });
        }
        let mut kubelets = Vec::with_capacity(nodes);
        while let Some(connected) = connecting.join_next().await {
            kubelets.push(Arc::new(connected.map_err(|_| BenchError::Client)??));
        }
        Ok(Arc::new(kubelets))
    }

    /// An informer of each resource, on one connection.
    async fn follow_everything(self: &Arc<Self>, watches: &mut JoinSet<()>) -> Result<(), BenchError> {
        let connection = Arc::new(self.client.connect_http2().await?);
        let all = ["/api/v1/pods", "/api/v1/nodes", "/api/v1/services", "/api/v1/configmaps"];
        for path in all.into_iter().chain(["/apis/coordination.k8s.io/v1/leases"]) {
            let stream = watch(&connection, &format!("{path}?watch=1&allowWatchBookmarks=true")).await?;
            let (cluster, connection) = (self.clone(), connection.clone());
            watches.spawn(async move {
                cluster.count(stream).await;
                drop(connection);
            });
        }
        Ok(())
    }

    async fn count(&self, mut stream: pintle_testkit::wire::Http2Stream) {
        while let Ok(Some(_)) = stream.next_part().await {
            self.watched.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends a request that was due at `due`, and measures the time until its response.
    async fn send(&self, kind: Kind, on: &Http2, request: &Request, due: Instant) -> Option<Value> {
        let answer = on.send(request).await;
        let took = due.elapsed();
        let answer = answer.ok().filter(|(status, _)| (200..300).contains(status));
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        match &answer {
            None => drop(self.failures.fetch_add(1, Ordering::Relaxed)),
            Some(_) => measured.get_mut(kind as usize).into_iter().for_each(|all| all.add(took)),
        }
        drop(measured);
        serde_json::from_slice(&answer?.1).ok()
    }

    /// Creates pods and binds each to a node; deletes the oldest when there are many.
    async fn schedule(self: Arc<Self>, kubelets: Arc<Vec<Arc<Kubelet>>>, started: Instant) {
        let Ok(connection) = self.client.connect_http2().await else { return };
        let connection = Arc::new(connection);
        let mut pods = JoinSet::new();
        for number in 0.. {
            let due = started + Duration::from_micros(number * 1_000_000 / PODS_PER_SECOND);
            if due.duration_since(started) >= self.duration {
                break;
            }
            tokio::time::sleep_until(due.into()).await;
            let Some(kubelet) = kubelets.get(number as usize % kubelets.len().max(1)) else { return };
            let (cluster, connection, node) = (self.clone(), connection.clone(), kubelet.name.clone());
            pods.spawn(async move { cluster.schedule_one(&connection, number, &node, due).await });
        }
        while pods.join_next().await.is_some() {}
    }

    async fn schedule_one(&self, on: &Http2, number: u64, node: &str, due: Instant) {
        let (pods, name) = (self.pods(), format!("pod-{number:06}"));
        let create = Request::new("POST", &pods).json(&new_pod(&name));
        if self.send(Kind::Create, on, &create, due).await.is_none() {
            return;
        }
        let target = json!({"apiVersion": "v1", "kind": "Node", "name": node});
        let binding =
            json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": target});
        let bind = Request::new("POST", &format!("{pods}/{name}/binding")).json(&binding);
        self.send(Kind::Bind, on, &bind, Instant::now()).await;
        if let Some(old) = number.checked_sub(PODS_MAX) {
            let old = format!("{pods}/pod-{old:06}?gracePeriodSeconds=0");
            if on.send(&Request::new("DELETE", &old)).await.is_err() {
                self.failures.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    async fn remove_nodes(&self, nodes: usize) -> Result<(), BenchError> {
        for index in 0..nodes {
            self.client.delete(&format!("/api/v1/nodes/{}", self.node_name(index))).await?;
        }
        Ok(())
    }

    fn node_name(&self, index: usize) -> String {
        format!("{}-{index:06}", self.namespace)
    }

    fn result_rows(&self, nodes: usize, seconds: f64) -> Vec<Row> {
        let mut measured = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        let row = |((_, name), latencies): (&(Kind, &str), &mut Latencies)| {
            let ops = latencies.0.len() as u64;
            let numbers = vec![
                ("ops_per_s", ops as f64 / seconds),
                ("p50_ms", latencies.quantile_ms(0.5)),
                ("p99_ms", latencies.quantile_ms(0.99)),
            ];
            Row { name: (*name).to_owned(), clients: nodes, ops, numbers }
        };
        KINDS.iter().zip(measured.iter_mut()).map(row).collect()
    }
}

impl Kubelet {
    /// Connects, registers the node and its lease, and begins the watches of a kubelet.
    async fn connect(cluster: &Arc<Cluster>, index: usize) -> Result<Kubelet, BenchError> {
        let name = cluster.node_name(index);
        let connection = cluster.client.connect_http2().await?;
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}});
        post_object(&connection, "/api/v1/nodes", &node).await?;
        let lease = json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": "2026-01-01T00:00:00.000000Z"},
        });
        let lease = post_object(&connection, &cluster.leases(), &lease).await?;
        let mut watches = JoinSet::new();
        let namespace = &cluster.namespace;
        for path in [
            format!("/api/v1/pods?watch=1&fieldSelector=spec.nodeName%3D{name}"),
            format!("/api/v1/nodes?watch=1&fieldSelector=metadata.name%3D{name}"),
            "/api/v1/services?watch=1".to_owned(),
            format!(
                "/api/v1/namespaces/{namespace}/configmaps?watch=1&fieldSelector=metadata.name%3Dkube-root-ca.crt"
            ),
        ] {
            let (cluster, stream) = (cluster.clone(), watch(&connection, &path).await?);
            watches.spawn(async move { cluster.count(stream).await });
        }
        Ok(Kubelet { name, connection, lease: Mutex::new(lease), _watches: watches })
    }

    /// Sends the requests of a kubelet, starting at `share` of each period, until the end.
    async fn send_until_end(self: Arc<Self>, cluster: Arc<Cluster>, started: Instant, share: f64) {
        let due = |every: Duration, offset: f64, round: u32| started + every.mul_f64(offset) + every * round;
        let end = started + cluster.duration;
        let get_share = (share + 0.5).fract();
        let (mut leases, mut statuses, mut gets) = (0, 0, 0);
        loop {
            let next = [
                (due(LEASE_EVERY, share, leases), Kind::Lease),
                (due(STATUS_EVERY, share, statuses), Kind::Status),
                (due(GET_EVERY, get_share, gets), Kind::Get),
            ];
            let Some((at, kind)) = next.into_iter().min_by_key(|(at, _)| *at) else { return };
            if at >= end {
                return;
            }
            tokio::time::sleep_until(at.into()).await;
            match kind {
                Kind::Lease => {
                    leases += 1;
                    self.renew_lease(&cluster, leases, at).await;
                }
                Kind::Status => {
                    statuses += 1;
                    self.report_status(&cluster, statuses, at).await;
                }
                _ => {
                    gets += 1;
                    let get = Request::new("GET", &format!("/api/v1/nodes/{}?resourceVersion=0", self.name));
                    cluster.send(Kind::Get, &self.connection, &get, at).await;
                }
            }
        }
    }

    async fn renew_lease(&self, cluster: &Cluster, round: u32, due: Instant) {
        let mut lease = self.lease.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(time) = lease.pointer_mut("/spec/renewTime") {
            *time = format!("2026-01-01T00:00:00.{:06}Z", round % 1_000_000).into();
        }
        let put = Request::new("PUT", &format!("{}/{}", cluster.leases(), self.name)).json(&lease);
        if let Some(renewed) = cluster.send(Kind::Lease, &self.connection, &put, due).await {
            *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = renewed;
        }
    }

    async fn report_status(&self, cluster: &Cluster, round: u32, due: Instant) {
        let condition = |kind: &str| {
            let time = format!("2026-01-01T00:{:02}:00Z", round % 60);
            json!({"type": kind, "status": "False", "reason": "KubeletHasNoProblem", "lastHeartbeatTime": time})
        };
        let conditions: Vec<Value> =
            ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"].into_iter().map(condition).collect();
        let path = format!("/api/v1/nodes/{}/status", self.name);
        let patch = Request::new("PATCH", &path).body(
            "application/strategic-merge-patch+json",
            json!({"status": {"conditions": conditions}}).to_string(),
        );
        cluster.send(Kind::Status, &self.connection, &patch, due).await;
    }
}

fn new_pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": "bench"}},
        "spec": {"containers": [{"name": "main", "image": "registry.example/app:1", "ports": [{"containerPort": 80}]}]},
    })
}

async fn post_object(on: &Http2, path: &str, body: &Value) -> Result<Value, BenchError> {
    let request = Request::new("POST", path).json(body);
    let (status, body) = on.send(&request).await?;
    match status {
        201 => Ok(serde_json::from_slice(&body).unwrap_or_default()),
        status => Err(refused(request, status, &body)),
    }
}

async fn watch(on: &Http2, path: &str) -> Result<pintle_testkit::wire::Http2Stream, BenchError> {
    let request = Request::new("GET", path);
    let (status, stream) = on.open(&request).await?;
    if status == 200 { Ok(stream) } else { Err(refused(request, status, b"")) }
}

fn refused(request: Request, status: u16, body: &[u8]) -> BenchError {
    let body = String::from_utf8_lossy(body).into_owned();
    BenchError::Status { method: request.method, path: request.path, status, body }
}
