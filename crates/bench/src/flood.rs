//! A flood and the probes beside it. The flood is a closed loop of many connections that retries rejected requests at
//! once. Both have threads of their own; the threads of the flood run at the lowest priority, so that the driver's
//! own queues add little to what the probes measure.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pintle_testkit::wire::{Connection, WireError};
use pintle_testkit::{Client, Request};
use tokio::task::JoinSet;

use crate::error::BenchError;
use crate::row::Latencies;

/// The number of connections that are opened at the same time.
const OPENING_MAX: usize = 16;
const NICE_OF_FLOOD: i32 = 19;
/// The minimum and maximum time that a flood runs before it is measured: until as many answers arrived as there are
/// connections.
const WARM_UP_MIN: Duration = Duration::from_secs(1);
const WARM_UP_MAX: Duration = Duration::from_secs(60);
/// How long the answers of a flood that has ended may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that is repeated, with the pause between its answer and the next one.
pub(crate) struct Probe {
    pub(crate) client: Client,
    pub(crate) path: String,
    pub(crate) pause: Duration,
}

/// The requests of a flood: returns the request for a number, which is unique in the flood.
pub(crate) type Make = Arc<dyn Fn(u64) -> Request + Send + Sync>;

/// A flood that runs until it is ended.
pub(crate) struct Flood {
    counts: Arc<Counts>,
    thread: std::thread::JoinHandle<Result<(), BenchError>>,
}

#[derive(Default)]
struct Counts {
    connected: AtomicU64,
    over: AtomicBool,
    admitted: AtomicU64,
    rejected: AtomicU64,
    broken: AtomicU64,
}

/// The answers of a flood so far.
#[derive(Clone, Copy)]
pub(crate) struct Answers {
    pub(crate) admitted: u64,
    pub(crate) rejected: u64,
    /// Connections that ended before the answer was complete.
    pub(crate) broken: u64,
}

impl Flood {
    /// Starts a flood and returns when all of its connections are open and it has run for a moment.
    pub(crate) async fn start(client: &Client, connections: usize, make: Make) -> Flood {
        let counts = Arc::new(Counts::default());
        let (client, of_thread) = (client.clone(), counts.clone());
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread()
                .worker_threads(1)
                // Linux applies it to the calling thread. Without it the numbers are worse, not wrong.
                .on_thread_start(|| {
                    let _ = rustix::process::setpriority_process(None, NICE_OF_FLOOD);
                })
                .enable_all()
                .build()
                .map_err(|e| BenchError::File("runtime".to_owned(), e))?;
            runtime.block_on(run(client, connections, make, of_thread))
        });
        while counts.connected.load(Ordering::Relaxed) < connections as u64 && !thread.is_finished() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        let (flood, began) = (Flood { counts, thread }, Instant::now());
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            let answers = flood.answers();
            let is_warm = answers.admitted + answers.rejected >= connections as u64;
            if (is_warm && began.elapsed() >= WARM_UP_MIN)
                || began.elapsed() >= WARM_UP_MAX
                || flood.thread.is_finished()
            {
                return flood;
            }
        }
    }

    pub(crate) fn answers(&self) -> Answers {
        let counts = &self.counts;
        Answers {
            admitted: counts.admitted.load(Ordering::Relaxed),
            rejected: counts.rejected.load(Ordering::Relaxed),
            broken: counts.broken.load(Ordering::Relaxed),
        }
    }

    /// Ends the flood once its requests are answered.
    pub(crate) fn end(self) -> Result<(), BenchError> {
        self.counts.over.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| BenchError::Client)?
    }
}

async fn run(client: Client, connections: usize, make: Make, counts: Arc<Counts>) -> Result<(), BenchError> {
    let mut opening = JoinSet::new();
    let mut open = Vec::new();
    for number in 0..connections {
        if number >= OPENING_MAX
            && let Some(opened) = opening.join_next().await
        {
            open.push(opened.map_err(|_| BenchError::Client)??);
        }
        let target = client.target().clone();
        opening.spawn(async move { target.connect().await });
    }
    while let Some(opened) = opening.join_next().await {
        open.push(opened.map_err(|_| BenchError::Client)??);
    }
    counts.connected.store(connections as u64, Ordering::Relaxed);
    let next = Arc::new(AtomicU64::new(0));
    let mut running = JoinSet::new();
    for connection in open {
        running.spawn(send_until_stopped(
            client.clone(),
            connection,
            make.clone(),
            counts.clone(),
            next.clone(),
        ));
    }
    while !counts.over.load(Ordering::Relaxed) && !running.is_empty() {
        tokio::time::sleep(Duration::from_millis(20)).await;
        while let Some(ended) = running.try_join_next() {
            ended.map_err(|_| BenchError::Client)??;
        }
    }
    let rest = async {
        while let Some(ended) = running.join_next().await {
            ended.map_err(|_| BenchError::Client)??;
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE, rest).await.map_err(|_| BenchError::NotReady(PATIENCE.as_secs()))?
}

async fn send_until_stopped(
    client: Client,
    mut connection: Connection,
    make: Make,
    counts: Arc<Counts>,
    next: Arc<AtomicU64>,
) -> Result<(), BenchError> {
    while !counts.over.load(Ordering::Relaxed) {
        let request = make(next.fetch_add(1, Ordering::Relaxed));
        let Ok(status) = status_of(&mut connection, &client.bytes_of(&request)).await else {
            counts.broken.fetch_add(1, Ordering::Relaxed);
            connection = client.target().connect().await?;
            continue;
        };
        match status {
            429 => counts.rejected.fetch_add(1, Ordering::Relaxed),
            200..300 => counts.admitted.fetch_add(1, Ordering::Relaxed),
            status => {
                let (method, path) = (request.method, request.path);
                return Err(BenchError::Status { method, path, status, body: String::new() });
            }
        };
    }
    Ok(())
}

/// Sends a request and reads the whole answer.
async fn status_of(connection: &mut Connection, request: &[u8]) -> Result<u16, WireError> {
    connection.send(request).await?;
    let head = connection.read_head(false).await?;
    connection.skip_body().await?;
    Ok(head.status)
}

/// Runs all probes for that long, each on a connection of its own, and returns their latencies in order.
pub(crate) async fn probe(probes: Vec<Probe>, duration: Duration) -> Result<Vec<Latencies>, BenchError> {
    let thread = tokio::task::spawn_blocking(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|e| BenchError::File("runtime".to_owned(), e))?;
        runtime.block_on(async {
            let tasks: Vec<_> =
                probes.into_iter().map(|probe| tokio::spawn(repeat_probe(probe, duration))).collect();
            let mut all = Vec::new();
            for task in tasks {
                all.push(task.await.map_err(|_| BenchError::Client)??);
            }
            Ok(all)
        })
    });
    thread.await.map_err(|_| BenchError::Client)?
}

async fn repeat_probe(probe: Probe, duration: Duration) -> Result<Latencies, BenchError> {
    let Probe { client, path, pause } = probe;
    let bytes = client.bytes_of(&Request::new("GET", &path));
    let mut connection = client.target().connect().await?;
    let mut latencies = Latencies::default();
    let began = Instant::now();
    while began.elapsed() < duration {
        tokio::time::sleep(pause).await;
        let sent = Instant::now();
        let status = status_of(&mut connection, &bytes).await?;
        latencies.add(sent.elapsed());
        if status != 200 {
            let method = "GET".to_owned();
            return Err(BenchError::Status { method, path, status, body: String::new() });
        }
    }
    Ok(latencies)
}
