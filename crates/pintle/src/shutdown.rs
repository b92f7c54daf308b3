//! The signals that shut the server down, and the limit of the time that this takes.

use crate::config::Config;
use crate::operation::Operation;
use pintle_http::CLOSE_TIMEOUT;
use std::io::Read;
use std::thread;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// How long all steps may take that have no flag: leaving the other servers, writing the last audit events, closing the store.
const STEPS_TIMEOUT: Duration = Duration::from_secs(20);
/// How long threads may continue after the store is closed. They cannot write any more. Most end at once, but validating a
/// large object, or reading a file from a disk that does not answer, may take any time. The server waits at all because
/// AWS-LC aborts the process if a thread generates a key while the process exits.
const THREADS_TIMEOUT: Duration = Duration::from_secs(5);
/// The exit code after a second signal.
const SECOND_SIGNAL_CODE: i32 = 130;
/// The exit code if the server did not stop in time.
const TOO_LATE_CODE: i32 = 1;

/// The signals that shut the server down.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

/// Resolves when an input ends; never without one. A thread reads it, because reading may block for ever; the process does not
/// wait for it.
struct EndOfInput(Option<oneshot::Receiver<()>>);

impl EndOfInput {
    fn of(input: Option<impl Read + Send + 'static>) -> std::io::Result<Self> {
        let Some(mut input) = input else { return Ok(EndOfInput(None)) };
        let (ended, is_ended) = oneshot::channel();
        let read = move || {
            // An input that fails has no writer either.
            _ = std::io::copy(&mut input, &mut std::io::sink());
            _ = ended.send(());
        };
        thread::Builder::new().name("stdin".into()).spawn(read)?;
        Ok(EndOfInput(Some(is_ended)))
    }

    async fn wait(self) {
        match self.0 {
            Some(ended) => _ = ended.await,
            None => std::future::pending().await,
        }
    }
}

/// The request to shut the server down: a signal, or the end of its input.
pub(crate) struct StopRequest(oneshot::Receiver<()>);

impl StopRequest {
    /// Listens for signals, and for the end of `input` if there is one. Ends the process at the second signal, or `limit` after
    /// the request to stop. Acknowledged writes are durable without closing the store.
    ///
    /// This runs on a thread of its own, because the threads of the server may all be occupied. It is the only listener: the
    /// system merges signals that nobody has received yet, so the server must not show that it stops before the first one is.
    pub(crate) fn listen(
        limit: Duration,
        input: Option<impl Read + Send + 'static>,
    ) -> std::io::Result<StopRequest> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let mut signals = {
            let _entered = runtime.enter();
            Signals::new()?
        };
        let end_of_input = EndOfInput::of(input)?;
        let (stop, stopped) = oneshot::channel();
        let wait = async move {
            let is_signal = tokio::select! {
                () = signals.next() => true,
                () = end_of_input.wait() => false,
            };
            _ = stop.send(());
            let second_signal = async {
                if !is_signal {
                    signals.next().await;
                }
                signals.next().await;
            };
            if tokio::time::timeout(limit, second_signal).await.is_ok() {
                std::process::exit(SECOND_SIGNAL_CODE);
            }
            tracing::error!("the server did not stop within {} s", limit.as_secs());
            std::process::exit(TOO_LATE_CODE);
        };
        thread::Builder::new().name("stop-limit".into()).spawn(move || runtime.block_on(wait))?;
        Ok(StopRequest(stopped))
    }

    /// Waits for the request. Must not be called again afterwards.
    pub(crate) async fn wait(&mut self) {
        // The sender is not dropped before the process ends.
        _ = (&mut self.0).await;
    }
}

/// How long the server may take to stop after a signal: the times that flags allow, and [`STEPS_TIMEOUT`].
pub(crate) fn stop_limit(config: &Config, operation: &Operation) -> Duration {
    let drain = Operation::drain_timeout(config.request_timeout);
    let refusing = if operation.sends_retry_after { drain } else { Duration::ZERO };
    let linger = operation.watch_linger(config.shutdown_delay);
    let times = [config.shutdown_delay, refusing, drain, linger, CLOSE_TIMEOUT, STEPS_TIMEOUT];
    times.into_iter().fold(Duration::ZERO, Duration::saturating_add)
}

/// Waits for the threads of the runtime, for a limited time.
pub(crate) fn end(runtime: Runtime) {
    runtime.shutdown_timeout(THREADS_TIMEOUT);
}
