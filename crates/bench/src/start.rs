//! Starting a server and waiting for it.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pintle_testkit::{Client, Request};
use rustix::process::{Pid, Signal, kill_process};

use crate::error::BenchError;
use crate::row::Row;

const READY_TIMEOUT_S: u64 = 60;
const POLL: Duration = Duration::from_millis(1);
const STOP_TIMEOUT: Duration = Duration::from_secs(20);

/// A server this bench started; it ends with the bench.
pub(crate) struct Started(Child);

impl Started {
    pub(crate) fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Asks the server to stop, and waits until it has.
    pub(crate) fn stop(&mut self) -> std::io::Result<()> {
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw) {
            kill_process(pid, Signal::TERM)?;
        }
        let end = Instant::now() + STOP_TIMEOUT;
        while Instant::now() < end {
            if self.0.try_wait()?.is_some() {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        self.0.kill()?;
        self.0.wait().map(drop)
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        // It may have stopped already; errors are ignored.
        let _ = self.stop();
    }
}

/// Starts the server `times` times; the last one stays. The row's p50 is the median.
pub(crate) async fn start(
    command: &str,
    times: usize,
    client: &Client,
) -> Result<(Started, Row), BenchError> {
    let mut seconds = Vec::new();
    loop {
        let (server, took) = start_once(command, client).await?;
        seconds.push(took.as_secs_f64() * 1000.0);
        if seconds.len() >= times.max(1) {
            seconds.sort_by(f64::total_cmp);
            let median = seconds.get(seconds.len() / 2).copied().unwrap_or_default();
            let mut row = Row::single("start", "ready_ms", median);
            row.ops = seconds.len() as u64;
            return Ok((server, row));
        }
        drop(server);
    }
}

/// Starts the server once; returns how long it took until it was ready.
pub(crate) async fn start_once(command: &str, client: &Client) -> Result<(Started, Duration), BenchError> {
    let failed = |e| BenchError::File(command.to_owned(), e);
    let started = Instant::now();
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("exec {command}")]).stdin(Stdio::null()).stdout(Stdio::null());
    let mut server = Started(shell.spawn().map_err(failed)?);
    while started.elapsed() < Duration::from_secs(READY_TIMEOUT_S) {
        if let Ok(answer) = client.send(&Request::new("GET", "/readyz")).await
            && answer.status() == 200
        {
            return Ok((server, started.elapsed()));
        }
        if let Some(status) = server.0.try_wait().map_err(failed)? {
            return Err(BenchError::Unexpected(format!("{command}: ended while starting: {status}")));
        }
        tokio::time::sleep(POLL).await;
    }
    Err(BenchError::NotReady(READY_TIMEOUT_S))
}
