//! Watch fan-out: how fast updates reach many watchers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_testkit::Request;
use pintle_testkit::client::Streaming;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Context, config_map, config_maps};
use crate::error::BenchError;
use crate::process::Processes;
use crate::row::{Latencies, Row};

const WATCHERS: usize = 1000;
/// Reports of watchers that wait for the counting side.
const PENDING_REPORTS_MAX: usize = 4096;
const PATIENCE: Duration = Duration::from_secs(10);

/// One operation is one event delivered; latency is from the request to the last watcher's event.
pub(super) async fn fan_out(context: &Context) -> Result<Vec<Row>, BenchError> {
    let namespace = context.namespace("watch").await?;
    let path = Arc::new(config_maps(&namespace));
    let (_, created) = context.client.post(&path, &config_map("one", 0)).await?;
    let version = created.pointer("/metadata/resourceVersion").and_then(|v| v.as_str()).unwrap_or("0");
    let (reports, mut counted) = mpsc::channel(PENDING_REPORTS_MAX);
    let mut watchers = JoinSet::new();
    for _ in 0..WATCHERS {
        let request = Request::new("GET", &format!("{path}?watch=1&resourceVersion={version}"));
        watchers.spawn(count_events(context.client.open(&request).await?, reports.clone()));
    }
    let (server_before, own_before, started) = (context.server.cpu(), Processes::own().cpu(), Instant::now());
    let mut latencies = Latencies::default();
    while started.elapsed() < context.arguments.duration {
        let sent = Instant::now();
        let revision = latencies.0.len() as u64 + 1;
        context.client.put(&format!("{path}/one"), &config_map("one", revision)).await?;
        let mut missing = WATCHERS as u64;
        while missing > 0 {
            let seen = tokio::time::timeout(PATIENCE, counted.recv()).await.ok().flatten();
            let lost = || BenchError::Unexpected(format!("{missing} watchers did not see an update"));
            missing = missing.saturating_sub(seen.ok_or_else(lost)?);
        }
        latencies.add(sent.elapsed());
    }
    let seconds = started.elapsed().as_secs_f64();
    let cpu = context.server.cpu().seconds_since(&server_before);
    let own = Processes::own().cpu().seconds_since(&own_before);
    watchers.abort_all();
    context.remove_namespace(&namespace).await?;
    Ok(vec![row(context, latencies, seconds, cpu, own)])
}

fn row(context: &Context, mut latencies: Latencies, seconds: f64, cpu: f64, own: f64) -> Row {
    let events = (latencies.0.len() * WATCHERS) as u64;
    let count = events.max(1) as f64;
    let mut numbers = vec![
        ("ops_per_s", events as f64 / seconds),
        ("p50_ms", latencies.quantile_ms(0.5)),
        ("p99_ms", latencies.quantile_ms(0.99)),
        ("client_cpu_us_per_op", own * 1e6 / count),
    ];
    if !context.server.is_empty() && cpu > 0.0 {
        numbers.push(("cpu_us_per_op", cpu * 1e6 / count));
        numbers.push(("ops_per_cpu_s", events as f64 / cpu));
    }
    Row { name: "watch".to_owned(), clients: WATCHERS, ops: events, numbers }
}

/// Events are lines: their ends are counted.
async fn count_events(mut stream: Streaming, reports: mpsc::Sender<u64>) {
    while let Ok(Some(part)) = stream.next_part().await {
        let events = part.iter().filter(|b| **b == b'\n').count() as u64;
        if events > 0 && reports.send(events).await.is_err() {
            return;
        }
    }
}
