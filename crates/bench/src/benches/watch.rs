//! Watch fan-out: how fast updates reach many watchers.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pintle_testkit::Request;
use pintle_testkit::client::Streaming;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Context, config_map, config_maps};
use crate::error::BenchError;
use crate::process::{CpuTime, Processes};
use crate::row::{Latencies, Row};

const WATCHERS: usize = 1000;
/// Reports of watchers that wait for the counting side.
const PENDING_REPORTS_MAX: usize = 4096;
/// The number of clients that update at the same time in the busy bench.
const WRITERS: usize = 8;
const PATIENCE: Duration = Duration::from_secs(10);

/// Measures events: one operation is one delivered event, and the latency is the time from the request until the last
/// watcher has the event.
pub(super) async fn fan_out(context: &Context) -> Result<Vec<Row>, BenchError> {
    let mut group = WatcherGroup::start_watchers(context, "watch", 1).await?;
    let mut latencies = Latencies::default();
    while group.started.elapsed() < context.arguments.duration {
        let sent = Instant::now();
        let revision = latencies.0.len() as u64 + 1;
        context.client.put(&format!("{}/cm-0", group.path), &config_map("cm-0", revision)).await?;
        group.wait_for_event(1).await?;
        latencies.add(sent.elapsed());
    }
    let events = latencies.0.len() * WATCHERS;
    Ok(vec![group.result_row(context, "watch", events, latencies).await?])
}

/// Measures the same while a client updates as fast as it can and does not wait for the watchers.
pub(super) async fn one(context: &Context) -> Result<Vec<Row>, BenchError> {
    unawaited(context, "watch-one", 1).await
}

/// Measures the same with several such clients.
pub(super) async fn busy(context: &Context) -> Result<Vec<Row>, BenchError> {
    unawaited(context, "watch-busy", WRITERS).await
}

/// The latency is that of the updates.
async fn unawaited(context: &Context, name: &str, writers: usize) -> Result<Vec<Row>, BenchError> {
    let mut group = WatcherGroup::start_watchers(context, name, writers).await?;
    let path = group.path.clone();
    let update = move |number: u64| {
        let name = format!("cm-{}", number % writers as u64);
        Request::new("PUT", &format!("{path}/{name}")).json(&config_map(&name, number + 1))
    };
    let load = context.load("updates", writers, context.elapsed());
    let mut updates = load.run(update).await?;
    group.wait_for_event(updates.ops).await?;
    let events = updates.ops as usize * WATCHERS;
    updates.numbers.retain(|(name, _)| *name == "ops_per_s" || name.starts_with('p'));
    let delivered = group.result_row(context, name, events, Latencies::default()).await?;
    Ok(vec![updates, delivered])
}

/// Watchers of a namespace with some ConfigMaps, and the CPU time before any event.
struct WatcherGroup {
    namespace: String,
    path: Arc<String>,
    watchers: JoinSet<()>,
    counted: mpsc::Receiver<u64>,
    server_before: CpuTime,
    own_before: CpuTime,
    started: Instant,
}

impl WatcherGroup {
    async fn start_watchers(
        context: &Context,
        name: &str,
        objects: usize,
    ) -> Result<WatcherGroup, BenchError> {
        let namespace = context.namespace(name).await?;
        let path = Arc::new(config_maps(&namespace));
        let mut version = "0".to_owned();
        for number in 0..objects {
            let (_, created) = context.client.post(&path, &config_map(&format!("cm-{number}"), 0)).await?;
            let found = created.pointer("/metadata/resourceVersion").and_then(|v| v.as_str());
            version = found.unwrap_or("0").to_owned();
        }
        let (reports, counted) = mpsc::channel(PENDING_REPORTS_MAX);
        let mut watchers = JoinSet::new();
        for _ in 0..WATCHERS {
            let request = Request::new("GET", &format!("{path}?watch=1&resourceVersion={version}"));
            watchers.spawn(count_events(context.client.open(&request).await?, reports.clone()));
        }
        let (server_before, own_before) = (context.server.cpu(), Processes::own().cpu());
        Ok(WatcherGroup {
            namespace,
            path,
            watchers,
            counted,
            server_before,
            own_before,
            started: Instant::now(),
        })
    }

    /// Waits until every watcher received that many more updates.
    async fn wait_for_event(&mut self, updates: u64) -> Result<(), BenchError> {
        let mut missing = updates * WATCHERS as u64;
        while missing > 0 {
            let seen = tokio::time::timeout(PATIENCE, self.counted.recv()).await.ok().flatten();
            let lost = || BenchError::Unexpected(format!("{missing} events did not arrive"));
            missing = missing.saturating_sub(seen.ok_or_else(lost)?);
        }
        Ok(())
    }

    async fn result_row(
        mut self,
        context: &Context,
        name: &str,
        events: usize,
        mut latencies: Latencies,
    ) -> Result<Row, BenchError> {
        let seconds = self.started.elapsed().as_secs_f64();
        let cpu = context.server.cpu().seconds_since(&self.server_before);
        let own = Processes::own().cpu().seconds_since(&self.own_before);
        self.watchers.abort_all();
        context.remove_namespace(&self.namespace).await?;
        let count = events.max(1) as f64;
        let mut numbers = vec![("ops_per_s", events as f64 / seconds)];
        if !latencies.0.is_empty() {
            numbers.push(("p50_ms", latencies.quantile_ms(0.5)));
            numbers.push(("p99_ms", latencies.quantile_ms(0.99)));
        }
        numbers.push(("client_cpu_us_per_op", own * 1e6 / count));
        if !context.server.is_empty() && cpu > 0.0 {
            numbers.push(("cpu_us_per_op", cpu * 1e6 / count));
            numbers.push(("ops_per_cpu_s", events as f64 / cpu));
        }
        Ok(Row { name: name.to_owned(), clients: WATCHERS, ops: events as u64, numbers })
    }
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
