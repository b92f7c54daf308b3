//! The server's memory and CPU when idle, and memory per object.

use std::time::{Duration, Instant};

use super::Context;
use crate::error::BenchError;
use crate::row::Row;

/// How long to wait before memory is measured.
const SETTLE: Duration = Duration::from_secs(2);
const MIB: f64 = 1048576.0;

pub(super) async fn idle(context: &Context) -> Result<Vec<Row>, BenchError> {
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

pub(super) async fn memory(context: &Context) -> Result<Vec<Row>, BenchError> {
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
