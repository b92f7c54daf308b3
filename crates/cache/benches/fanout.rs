//! Benchmark of delivering events to many watchers: `cargo bench -p pintle-cache`.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "a bench prints and may fail loudly"
)]

use bytes::Bytes;
use pintle_cache::{
    Cache, Extract, Extracted, Filter, Item, Matches, Options, Registration, Resource, Str, WatchStart,
    value_header,
};
use pintle_store::{Change, Key, Note, Revision, Sink};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PREFIX: &str = "/registry/pods/";
const OBJECTS: u64 = 10_000;

struct Fields;

impl Extract for Fields {
    fn extract(&self, json: &[u8]) -> Extracted {
        let node = std::str::from_utf8(json.get(..8).unwrap()).unwrap();
        let labels = vec![(Str::from("app"), Str::from("web"))].into();
        Extracted { labels, fields: vec![Str::from(node)].into(), uid: Str::from("u") }
    }
}

struct Bench {
    cache: Arc<Cache>,
    pods: Arc<Resource>,
    revision: u64,
    body: Vec<u8>,
}

impl Bench {
    fn new() -> Bench {
        let cache = Cache::new(Options::default());
        let extract = Arc::new(Fields);
        let pods = cache.register(Registration { prefix: PREFIX.into(), namespaced: true, extract });
        let mut bench = Bench { cache, pods, revision: 1, body: vec![b'x'; 2000] };
        let changes: Vec<Change> = (0..OBJECTS).map(|_| bench.change()).collect();
        bench.cache.apply(&changes);
        bench
    }

    fn change(&mut self) -> Change {
        self.revision += 1;
        let object = self.revision % OBJECTS;
        let key = Key::from(format!("{PREFIX}ns{}/pod-{object}", object % 10));
        let node = format!("node{:04}", object % 1000);
        let value: Bytes = [value_header(0).as_slice(), node.as_bytes(), &self.body].concat().into();
        let (revision, note) = (Revision(self.revision), Note::default());
        Change { revision, key, value: Some(value), previous: None, note }
    }
}

/// The processor time that this process has used, in milliseconds.
fn cpu_ms() -> u64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let ticks =
        |at| after.split_whitespace().nth(at).and_then(|ticks| ticks.parse::<u64>().ok()).unwrap_or(0);
    (ticks(11) + ticks(12)) * 10
}

/// The processor time of the calling thread, which does not include other threads of the machine.
fn thread_cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(stat.split(' ').next().and_then(|nanos| nanos.parse().ok()).unwrap_or(0))
}

async fn measure(
    title: &str,
    watchers: u64,
    batch: u64,
    batches: u64,
    pause: Duration,
    filter: impl Fn(u64) -> Filter,
) {
    let mut bench = Bench::new();
    let running = tokio::spawn(bench.cache.clone().run());
    let delivered = Arc::new(AtomicU64::new(0));
    let tasks: Vec<_> = (0..watchers)
        .map(|watcher| {
            let mut watcher = bench.pods.watch(WatchStart::FromNow, filter(watcher)).unwrap();
            let delivered = delivered.clone();
            tokio::spawn(async move {
                while let Some(item) = watcher.next().await {
                    match item {
                        Item::Event(delivery) if delivery.revision() > 0 => {
                            delivered.fetch_add(1, Ordering::Relaxed);
                        }
                        Item::Closed(reason) => return Some(reason),
                        _ => {}
                    }
                }
                None
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    let batches: Vec<Vec<Change>> =
        (0..batches).map(|_| (0..batch).map(|_| bench.change()).collect()).collect();
    let events = batches.iter().map(Vec::len).sum::<usize>() as u64;
    let cache = bench.cache.clone();
    let (cpu, started) = (cpu_ms(), Instant::now());
    // As in production: the sink is called by a thread of its own.
    let sink = std::thread::spawn(move || {
        let cpu = thread_cpu();
        for changes in batches {
            cache.apply(&changes);
            std::thread::sleep(pause);
        }
        thread_cpu() - cpu
    });
    while !sink.is_finished() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let applied = sink.join().unwrap();
    let mut last = u64::MAX;
    while last != delivered.load(Ordering::Relaxed) {
        last = delivered.load(Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let (cpu, took) = (cpu_ms() - cpu, started.elapsed() - Duration::from_millis(20));
    let count = delivered.load(Ordering::Relaxed).max(1);
    bench.cache.shutdown();
    for task in tasks {
        task.await.unwrap();
    }
    running.await.unwrap();
    println!(
        "{title}: {watchers} watchers, batches of {batch}: {count} deliveries in {took:?}; \
         processor {:.3} µs per delivery, {:.1} µs per event; sink {:.1} µs per event",
        cpu as f64 * 1000.0 / count as f64,
        cpu as f64 * 1000.0 / events as f64,
        applied.as_micros() as f64 / events as f64,
    );
}

#[tokio::main]
async fn main() {
    let all = |_| Filter::default();
    let app: Matches = Arc::new(|object| object.label("app") == Some("web"));
    let labelled = |_| Filter { matches: Some(app.clone()), ..Filter::default() };
    let by_node = |watcher: u64| Filter {
        field: Some((0, Str::from(format!("node{:04}", watcher % 1000)))),
        ..Filter::default()
    };
    let by_name = |watcher: u64| Filter {
        namespace: Some(Str::from(format!("ns{}", watcher % 10))),
        name: Some(Str::from(format!("pod-{watcher}"))),
        ..Filter::default()
    };
    let (none, some) = (Duration::ZERO, Duration::from_millis(4));
    measure("nobody", 0, 1, 20_000, none, all).await;
    measure("all", 1000, 1, 2_000, none, all).await;
    measure("all", 1000, 32, 100, none, all).await;
    measure("label selector", 1000, 32, 100, none, labelled).await;
    measure("all, asleep each time", 1000, 1, 500, some, all).await;
    measure("all, asleep each time", 1000, 8, 100, some, all).await;
    measure("one node each", 1000, 1, 20_000, none, by_node).await;
    measure("one object each", 1000, 1, 20_000, none, by_name).await;
    measure("one watcher", 1, 1, 20_000, none, all).await;
}
