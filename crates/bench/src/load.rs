//! A closed loop of clients: each has one connection and sends its next request when it has received the answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pintle_testkit::wire::Connection;
use pintle_testkit::{Client, Request};
use tokio::task::JoinSet;

use crate::error::BenchError;
use crate::process::Processes;
use crate::row::{Latencies, Row};

/// How much of an unexpected answer an error quotes.
const QUOTED_BYTES_MAX: usize = 300;

/// When a load ends: after that many operations, or after that time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Until {
    Operations(u64),
    Elapsed(Duration),
}

/// A load: the number of clients, their requests, and the end.
pub(crate) struct Load<'a> {
    pub(crate) name: &'a str,
    pub(crate) client: &'a Client,
    pub(crate) clients: usize,
    pub(crate) until: Until,
    pub(crate) server: &'a Processes,
}

impl Load<'_> {
    /// Runs requests made by `make` from the operation's number; the number is unique in the load.
    pub(crate) async fn run(
        &self,
        make: impl Fn(u64) -> Request + Send + Sync + 'static,
    ) -> Result<Row, BenchError> {
        let sender = Arc::new(Sender::new(self.client));
        self.run_ops(move |connection, number| {
            let (sender, request) = (sender.clone(), make(number));
            Box::pin(async move { sender.send(connection, &request).await.map(drop) })
        })
        .await
    }

    /// Runs operations of any shape, each on its client's connection.
    pub(crate) async fn run_ops(
        &self,
        op: impl for<'c> Fn(&'c mut Connection, u64) -> Op<'c> + Send + Sync + 'static,
    ) -> Result<Row, BenchError> {
        let op = Arc::new(op);
        let next = Arc::new(AtomicU64::new(0));
        let mut connections = Vec::new();
        for _ in 0..self.clients {
            connections.push(self.client.target().connect().await?);
        }
        let (server_before, own_before) = (self.server.cpu(), Processes::own().cpu());
        let started = Instant::now();
        let mut running = JoinSet::new();
        for connection in connections {
            running.spawn(one_client(connection, op.clone(), next.clone(), self.until, started));
        }
        let mut latencies = Latencies::default();
        while let Some(done) = running.join_next().await {
            latencies.0.extend(done.map_err(|_| BenchError::Client)??.0);
        }
        let seconds = started.elapsed().as_secs_f64();
        let server_cpu = self.server.cpu().seconds_since(&server_before);
        let own_cpu = Processes::own().cpu().seconds_since(&own_before);
        Ok(self.result_row(latencies, seconds, server_cpu, own_cpu))
    }

    fn result_row(&self, mut latencies: Latencies, seconds: f64, server_cpu: f64, own_cpu: f64) -> Row {
        let ops = latencies.0.len() as u64;
        let count = ops.max(1) as f64;
        let mut numbers = vec![
            ("ops_per_s", ops as f64 / seconds),
            ("p50_ms", latencies.quantile_ms(0.5)),
            ("p99_ms", latencies.quantile_ms(0.99)),
        ];
        if !self.server.is_empty() {
            numbers.push(("cpu_us_per_op", server_cpu * 1e6 / count));
            if server_cpu > 0.0 {
                numbers.push(("ops_per_cpu_s", ops as f64 / server_cpu));
            }
        }
        numbers.push(("client_cpu_us_per_op", own_cpu * 1e6 / count));
        Row { name: self.name.to_owned(), clients: self.clients, ops, numbers }
    }
}

/// An operation under way.
pub(crate) type Op<'c> = std::pin::Pin<Box<dyn Future<Output = Result<(), BenchError>> + Send + 'c>>;

async fn one_client(
    mut connection: Connection,
    op: Arc<impl for<'c> Fn(&'c mut Connection, u64) -> Op<'c> + Send + Sync + 'static>,
    next: Arc<AtomicU64>,
    until: Until,
    started: Instant,
) -> Result<Latencies, BenchError> {
    let mut latencies = Latencies::default();
    loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        let is_over = match until {
            Until::Operations(most) => number >= most,
            Until::Elapsed(most) => started.elapsed() >= most,
        };
        if is_over {
            return Ok(latencies);
        }
        let before = Instant::now();
        op(&mut connection, number).await?;
        latencies.add(before.elapsed());
    }
}

/// Sends requests with a client's address and token on a connection given by the caller.
#[derive(Clone)]
pub(crate) struct Sender {
    client: Client,
}

impl Sender {
    pub(crate) fn new(client: &Client) -> Sender {
        Sender { client: client.clone() }
    }

    /// Sends and reads the answer's body; anything but success is an error.
    pub(crate) async fn send(&self, on: &mut Connection, request: &Request) -> Result<Vec<u8>, BenchError> {
        on.send(&self.client.bytes_of(request)).await?;
        let head = on.read_head(request.method == "HEAD").await?;
        let mut body = Vec::new();
        on.read_body(&mut body).await?;
        if (200..300).contains(&head.status) {
            return Ok(body);
        }
        body.truncate(QUOTED_BYTES_MAX);
        Err(BenchError::Status {
            method: request.method.clone(),
            path: request.path.clone(),
            status: head.status,
            body: String::from_utf8_lossy(&body).into_owned(),
        })
    }
}
