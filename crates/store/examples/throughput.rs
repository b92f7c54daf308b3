//! Measures the embedded store: durable puts from concurrent writers, and opening a full store.
//!
//! `cargo run --release -p pintle-store --example throughput -- [folder]`

#![expect(clippy::print_stdout, reason = "printing is what it is for")]

use bytes::Bytes;
use pintle_store::{Change, Embedded, Expect, Loaded, Options, Sink, Store, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 2048;
const ENTRIES: usize = 100_000;

struct Ignore;

impl Sink for Ignore {
    fn apply(&self, _: &[Change]) {}

    fn reset(&self, _: Loaded) {}
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let parent = std::env::args().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let folder = parent.join(format!("pintle-throughput-{}", std::process::id()));
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let outcome = runtime.block_on(measure(&folder));
    std::fs::remove_dir_all(&folder)?;
    outcome
}

async fn measure(folder: &Path) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let store = Arc::new(Embedded::open(folder, Options::default())?);
    store.load(Arc::new(Ignore));
    println!("create an empty store: {:?}", start.elapsed());
    for writers in [1, 32, 64, 256] {
        measure_puts(&(store.clone() as Arc<dyn Store>), writers, "durable").await?;
    }
    let memory: Arc<dyn Store> = Arc::new(Embedded::ephemeral(Options::default())?);
    memory.load(Arc::new(Ignore));
    measure_puts(&memory, 32, "ephemeral").await?;
    store.close().await;
    let folder = &folder.join("filled");
    let store = Embedded::open(folder, Options { history_bytes_max: 1 << 30, ..Options::default() })?;
    store.load(Arc::new(Ignore));
    fill(&store).await?;
    store.close().await;
    reopen(folder, "reopen, log only").await?;
    let store = Embedded::open(folder, Options::default())?;
    let start = Instant::now();
    store.compact(u64::MAX).await?;
    println!("compact: {:?}", start.elapsed());
    store.close().await;
    reopen(folder, "reopen, snapshot").await
}

async fn measure_puts(
    store: &Arc<dyn Store>,
    writers: usize,
    name: &str,
) -> Result<(), Box<dyn std::error::Error>> {
    let value = Bytes::from(vec![b'x'; VALUE_BYTES]);
    let (start, cpu) = (Instant::now(), cpu_time());
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (store, value) = (store.clone(), value.clone());
            tokio::spawn(async move {
                let mut count = 0u64;
                while start.elapsed() < Duration::from_secs(2) {
                    let key = format!("/registry/configmaps/w{writer}/{}", count % 500);
                    store.write(Write::put(key, Expect::Any, value.clone())).await?;
                    count += 1;
                }
                Ok::<u64, pintle_store::WriteError>(count)
            })
        })
        .collect();
    let mut total = 0;
    for task in tasks {
        total += task.await??;
    }
    let per_second = total as f64 / start.elapsed().as_secs_f64();
    let cpu = (cpu_time() - cpu).as_secs_f64() * 1e6 / total as f64;
    println!("{name}, {writers} writers: {per_second:.0} puts/s, {cpu:.1} µs CPU each");
    Ok(())
}

async fn fill(store: &dyn Store) -> Result<(), Box<dyn std::error::Error>> {
    let value = Bytes::from(vec![b'x'; VALUE_BYTES]);
    let start = Instant::now();
    let mut index = 0;
    while index < ENTRIES {
        let key = |index| format!("/registry/secrets/filled/{index:08}");
        let batch = (index..index + 64).map(|index| Write::put(key(index), Expect::Any, value.clone()));
        store.commit(batch.collect()).await?;
        index += 64;
    }
    let per_second = ENTRIES as f64 / start.elapsed().as_secs_f64();
    println!("transactions of 64, one writer: {per_second:.0} puts/s");
    Ok(())
}

async fn reopen(folder: &Path, name: &str) -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let store = Embedded::open(folder, Options::default())?;
    let loaded = store.load(Arc::new(Ignore));
    let (entries, changes) = (loaded.entries.len(), loaded.history.len());
    println!("{name}: {entries} entries, {changes} changes of history in {:?}", start.elapsed());
    store.close().await;
    Ok(())
}

/// User and system time of this process.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let ticks = |at: usize| stat.rsplit(')').next()?.split_whitespace().nth(at)?.parse::<u64>().ok();
    Duration::from_millis(10 * (ticks(11).unwrap_or(0) + ticks(12).unwrap_or(0)))
}
