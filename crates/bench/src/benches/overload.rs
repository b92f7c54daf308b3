//! Overload: the latency of a quiet tenant, of health checks and of exempt traffic while another tenant floods the
//! server.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pintle_testkit::{Client, Request};
use serde_json::{Value, json};

use super::{Context, config_map, config_maps};
use crate::error::BenchError;
use crate::flood::{Flood, Make, Probe, probe};
use crate::row::Row;

const CONNECTIONS: usize = 2000;
/// Connections that keep the server busy without overloading it: the throughput with them is the peak.
const CONNECTIONS_AT_PEAK: usize = 32;
/// The pause between two requests of a probe. A quiet tenant would send one per second; more are needed for
/// statistics.
const PAUSE: Duration = Duration::from_millis(15);
const PROBES: [&str; 4] = ["tenant", "livez", "readyz", "exempt"];

/// Two tenants, each a service account with rights in namespaces of its own: two flows of one priority level.
struct Tenants {
    admin: Client,
    quiet: Client,
    quiet_path: String,
    flooding: Client,
    flood: Make,
}

pub(super) async fn get(context: &Context) -> Result<Vec<Row>, BenchError> {
    overload(context, "get").await
}

pub(super) async fn create(context: &Context) -> Result<Vec<Row>, BenchError> {
    overload(context, "create").await
}

pub(super) async fn list(context: &Context) -> Result<Vec<Row>, BenchError> {
    overload(context, "list").await
}

pub(super) async fn mixed(context: &Context) -> Result<Vec<Row>, BenchError> {
    overload(context, "mixed").await
}

/// The flood's throughput at the peak and with 2,000 connections, and the latencies of the probes, compared with an
/// idle server.
async fn overload(context: &Context, name: &str) -> Result<Vec<Row>, BenchError> {
    let tenants = Tenants::create_tenants(context, name).await?;
    let mut rows = Vec::new();
    let idle = tenants.measure(context, "idle", &[], &mut rows).await?;
    let mut throughputs = Vec::new();
    for connections in [CONNECTIONS_AT_PEAK, CONNECTIONS] {
        let flood = Flood::start(&tenants.flooding, connections, tenants.flood.clone()).await;
        let (before, cpu_before, began) = (flood.answers(), context.server.cpu(), Instant::now());
        let label = format!("{name} {connections}");
        tenants.measure(context, &label, &idle, &mut rows).await?;
        let (after, seconds) = (flood.answers(), began.elapsed().as_secs_f64());
        let cpu = context.server.cpu().seconds_since(&cpu_before);
        flood.end()?;
        let ops = after.admitted - before.admitted;
        throughputs.push(ops as f64 / seconds);
        let numbers = vec![
            ("ops_per_s", ops as f64 / seconds),
            ("ops_per_cpu_s", ops as f64 / cpu.max(0.01)),
            ("rejected_per_s", (after.rejected - before.rejected) as f64 / seconds),
            ("broken", (after.broken - before.broken) as f64),
        ];
        rows.push(Row { name: label, clients: connections, ops, numbers });
    }
    if let [peak, flooded] = throughputs[..] {
        rows.push(Row::single(&format!("{name} kept"), "of_peak", flooded / peak.max(1.0)));
    }
    for namespace in [format!("quiet-{name}"), format!("flooding-{name}")] {
        let namespace = context.namespace(&namespace).await?;
        context.remove_namespace(&namespace).await?;
    }
    Ok(rows)
}

impl Tenants {
    async fn create_tenants(context: &Context, name: &str) -> Result<Tenants, BenchError> {
        let listed = context.listed_namespace().await?.to_owned();
        let (quiet, quiet_path) = create_tenant(context, &format!("quiet-{name}"), None).await?;
        let (flooding, path) = create_tenant(context, &format!("flooding-{name}"), Some(&listed)).await?;
        let (one, created) = (AtomicU64::new(0), path.clone());
        let get: Make = Arc::new(move |_| Request::new("GET", &format!("{path}/one")));
        let create: Make = Arc::new(move |_| {
            let number = one.fetch_add(1, Ordering::Relaxed);
            Request::new("POST", &created).json(&config_map(&format!("cm-{number}"), number))
        });
        let list: Make = Arc::new(move |_| Request::new("GET", &config_maps(&listed)));
        let flood: Make = match name {
            "get" => get,
            "create" => create,
            "list" => list,
            _ => Arc::new(move |number| match number % 16 {
                0 => list(number),
                1..5 => create(number),
                _ => get(number),
            }),
        };
        Ok(Tenants { admin: context.client.clone(), quiet, quiet_path, flooding, flood })
    }

    /// Runs the probes and adds a row for each; returns their p99. `idle` are the p99 of an idle server.
    async fn measure(
        &self,
        context: &Context,
        beside: &str,
        idle: &[f64],
        rows: &mut Vec<Row>,
    ) -> Result<Vec<f64>, BenchError> {
        let one = |name| match name {
            "livez" | "readyz" => (self.admin.as_token(None), format!("/{name}")),
            "exempt" => (self.admin.clone(), format!("{}/one", self.quiet_path)),
            _ => (self.quiet.clone(), format!("{}/one", self.quiet_path)),
        };
        let probes = PROBES.map(one).map(|(client, path)| Probe { client, path, pause: PAUSE });
        let measured = probe(probes.into(), context.arguments.duration).await?;
        let mut p99s = Vec::new();
        for (at, (name, mut latencies)) in PROBES.iter().zip(measured).enumerate() {
            let p99 = latencies.quantile_ms(0.99);
            let mut numbers = vec![
                ("p50_ms", latencies.quantile_ms(0.5)),
                ("p99_ms", p99),
                ("max_ms", latencies.quantile_ms(1.0)),
            ];
            if let Some(idle) = idle.get(at) {
                numbers.push(("times_idle_p99", p99 / idle));
            }
            let (name, ops) = (format!("{beside}: {name}"), latencies.0.len() as u64);
            rows.push(Row { name, clients: 1, ops, numbers });
            p99s.push(p99);
        }
        Ok(p99s)
    }
}

/// Creates a service account with all rights in its namespace, and in another one, and a ConfigMap `one`. Returns a
/// client of it and the path of its ConfigMaps.
async fn create_tenant(
    context: &Context,
    name: &str,
    also_in: Option<&str>,
) -> Result<(Client, String), BenchError> {
    let own = context.namespace(name).await?;
    let api = format!("/api/v1/namespaces/{own}");
    context.make(&format!("{api}/serviceaccounts"), json!({"metadata": {"name": name}})).await?;
    context.make(&format!("{api}/configmaps"), config_map("one", 0)).await?;
    for namespace in [Some(own.as_str()), also_in].into_iter().flatten() {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings");
        let binding = json!({
            "metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "namespace": own, "name": name}],
        });
        context.make(&path, binding).await?;
    }
    let token = context.make(&format!("{api}/serviceaccounts/{name}/token"), json!({"spec": {}})).await?;
    let token = token.pointer("/status/token").and_then(Value::as_str).unwrap_or_default();
    Ok((context.client.as_token(Some(token)), config_maps(&own)))
}
