//! An exempt client: a member of `system:masters`, whose requests must be answered during every flood.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use pintle_testkit::{Client, Request, Server};

use super::MAPS;

/// How long an exempt request may take, its connection included. The bound is loose because the attackers and a debug build
/// share the machine with other tests.
const ANSWER_MAX: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(20);

/// The running client.
pub(super) struct Exempt {
    thread: JoinHandle<Answered>,
    stop: Arc<AtomicBool>,
    unready: Arc<AtomicBool>,
}

/// The results of the client.
#[derive(Default)]
pub(super) struct Answered {
    pub(super) answers: usize,
    latencies: Vec<Duration>,
}

impl Exempt {
    pub(super) fn start(server: &Server) -> Exempt {
        let (stop, unready) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
        let url = server.url();
        let client = server.admin().unwrap();
        let asking = ask_until(client, url, stop.clone(), unready.clone());
        // The client has a thread of its own: the attackers' tasks must not delay it.
        let thread = std::thread::spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(asking)
        });
        Exempt { thread, stop, unready }
    }

    /// Whether `/readyz` may fail: it must say that the disk is full.
    pub(super) fn expect_unready(&mut self, expected: bool) {
        self.unready.store(expected, Ordering::SeqCst);
    }

    /// Stops the client; fails if one of its requests was not answered in time.
    pub(super) async fn stop(self) -> Answered {
        self.stop.store(true, Ordering::SeqCst);
        let joined = tokio::task::spawn_blocking(|| self.thread.join()).await.unwrap();
        joined.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

/// Sends requests on a connection that stays open and on new ones in turn.
async fn ask_until(kept: Client, url: String, stop: Arc<AtomicBool>, unready: Arc<AtomicBool>) -> Answered {
    let mut answered = Answered::default();
    while !stop.load(Ordering::SeqCst) {
        let fresh = Client::new(&url, Some(pintle_testkit::server::ADMIN_TOKEN)).unwrap();
        for client in [&kept, &fresh] {
            for path in ["/readyz", "/livez", &format!("{MAPS}?limit=1"), "/api/v1/namespaces/fight"] {
                let may_be_unready = unready.load(Ordering::SeqCst);
                let started = Instant::now();
                let answer = tokio::time::timeout(ANSWER_MAX, client.send(&Request::new("GET", path))).await;
                let took = started.elapsed();
                let answer = match answer {
                    Ok(Ok(answer)) => answer,
                    Ok(Err(error)) => panic!("{path} failed after {took:?}: {error}"),
                    Err(_) => panic!("{path} was not answered within {ANSWER_MAX:?}"),
                };
                let is_health = path.ends_with('z');
                let may_fail = is_health && (may_be_unready || unready.load(Ordering::SeqCst));
                let text = || answer.text();
                assert!(answer.status() == 200 || may_fail, "{path}: {} {}", answer.status(), text());
                answered.answers += 1;
                answered.latencies.push(took);
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    answered
}

impl fmt::Display for Answered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut sorted = self.latencies.clone();
        sorted.sort_unstable();
        let at = |share: f64| sorted.get((sorted.len() as f64 * share) as usize).copied().unwrap_or_default();
        let max = sorted.last().copied().unwrap_or_default();
        write!(f, "{} exempt answers, p50 {:?}, p99 {:?}, max {max:?}", self.answers, at(0.5), at(0.99))
    }
}
