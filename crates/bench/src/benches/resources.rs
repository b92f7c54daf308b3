//! The server's memory and CPU when idle, and memory per object.

use std::time::{Duration, Instant};

use super::{Context, config_maps};
use pintle_testkit::Request;

use crate::error::BenchError;
use crate::row::Row;

/// How long to wait before memory is measured.
const SETTLE: Duration = Duration::from_secs(2);
const MIB: f64 = 1048576.0;
/// The number of HTTP/1.1 connections with one idle watch each, and of HTTP/2 connections with several.
const WATCHING_CONNECTIONS: usize = 1000;
const WATCHING_CONNECTIONS_HTTP2: usize = 200;
const WATCHES_PER_CONNECTION: usize = 10;

pub(super) async fn measure_idle(context: &Context) -> Result<Vec<Row>, BenchError> {
    if context.server.is_empty() {
        return Err(BenchError::NoProcess);
    }
    tokio::time::sleep(SETTLE).await;
    let (before, started) = (context.server.cpu(), Instant::now());
    tokio::time::sleep(SETTLE).await;
    let cpu = context.server.cpu().seconds_since(&before);
    let mut row = Row::single("idle", "rss_mib", context.server.rss_bytes() as f64 / MIB);
    row.numbers.push(("cpu_percent", cpu / started.elapsed().as_secs_f64() * 100.0));
    Ok(vec![row])
}

pub(super) async fn measure_memory(context: &Context) -> Result<Vec<Row>, BenchError> {
    if context.server.is_empty() {
        return Err(BenchError::NoProcess);
    }
    let objects = context.arguments.objects.max(1) as u64;
    let namespace = context.namespace("memory").await?;
    tokio::time::sleep(SETTLE).await;
    let before = context.server.rss_bytes();
    let mut row = context.fill(&namespace, objects).await?;
    tokio::time::sleep(SETTLE).await;
    let after = context.server.rss_bytes();
    row.name = "memory".to_owned();
    row.numbers.push(("bytes_per_object", (after as f64 - before as f64) / objects as f64));
    row.numbers.push(("rss_mib", after as f64 / MIB));
    context.remove_namespace(&namespace).await?;
    Ok(vec![row])
}

/// Memory of connections that only have idle watches.
pub(super) async fn idle_watches(context: &Context) -> Result<Vec<Row>, BenchError> {
    if context.server.is_empty() {
        return Err(BenchError::NoProcess);
    }
    let namespace = context.namespace("idle-watches").await?;
    let request = Request::new("GET", &format!("{}?watch=1", config_maps(&namespace)));
    tokio::time::sleep(SETTLE).await;

    let before = context.server.rss_bytes();
    let mut open = Vec::with_capacity(WATCHING_CONNECTIONS_HTTP2);
    for _ in 0..WATCHING_CONNECTIONS_HTTP2 {
        let connection = context.client.connect_http2().await?;
        let mut watches = Vec::with_capacity(WATCHES_PER_CONNECTION);
        for _ in 0..WATCHES_PER_CONNECTION {
            watches.push(connection.open(&request).await?);
        }
        open.push((connection, watches));
    }
    let name = "10 idle watches, HTTP/2";
    let mut rows = vec![memory_per_connection(context, name, WATCHING_CONNECTIONS_HTTP2, before).await];

    // The earlier connections stay open, so that their memory is not reused.
    let before = context.server.rss_bytes();
    let mut streams = Vec::with_capacity(WATCHING_CONNECTIONS);
    for _ in 0..WATCHING_CONNECTIONS {
        streams.push(context.client.open(&request).await?);
    }
    rows.push(memory_per_connection(context, "idle watch", WATCHING_CONNECTIONS, before).await);
    drop(streams);
    drop(open);
    context.remove_namespace(&namespace).await?;
    Ok(rows)
}

async fn memory_per_connection(context: &Context, name: &str, connections: usize, before: u64) -> Row {
    tokio::time::sleep(SETTLE).await;
    let grown = context.server.rss_bytes().saturating_sub(before);
    let mut row = Row::single(name, "kib_per_connection", grown as f64 / 1024.0 / connections as f64);
    row.clients = connections;
    row
}
