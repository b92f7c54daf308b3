//! Follows a watch and compares its events in a short form.

use pintle_testkit::{Client, Request};
use serde_json::Value;
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver};

/// How long an expected event may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long to wait where no event is expected.
const SILENCE: Duration = Duration::from_millis(150);

/// The maximum number of events that are buffered.
const UNSEEN_MAX: usize = 1000;

/// The events of a watch so far: type and name.
pub(crate) struct Events {
    unseen: Receiver<String>,
    seen: Vec<String>,
}

/// Starts a watch.
pub(crate) async fn events(client: &Client, target: &str) -> Events {
    let mut stream = client.open(&Request::new("GET", target)).await.unwrap();
    let (sender, unseen) = mpsc::channel(UNSEEN_MAX);
    // In its own task: reading a stream must not be interrupted.
    tokio::spawn(async move {
        let mut rest = Vec::new();
        while let Ok(Some(part)) = stream.next_part().await {
            rest.extend_from_slice(&part);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                if sender.send(event_text(&line)).await.is_err() {
                    return;
                }
            }
        }
    });
    Events { unseen, seen: Vec::new() }
}

fn event_text(line: &[u8]) -> String {
    let event: Value = serde_json::from_slice(line).unwrap();
    let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
    format!("{} {name}", event["type"].as_str().unwrap_or_default())
}

impl Events {
    /// Waits for the next event; false at the end.
    async fn more(&mut self) -> bool {
        let event = self.unseen.recv().await;
        self.seen.extend(event.clone());
        event.is_some()
    }

    /// Waits until the watch has sent exactly these events since its start.
    pub(crate) async fn expect(&mut self, expected: &[&str], about: &str) {
        let wait = async { while self.seen.len() < expected.len() && self.more().await {} };
        let in_time = tokio::time::timeout(PATIENCE, wait).await.is_ok();
        assert!(in_time && self.seen == expected, "{about}: {:?} in place of {expected:?}", self.seen);
    }

    /// Asserts that the watch sends nothing for a while.
    pub(crate) async fn expect_silence(&mut self, about: &str) {
        let before = self.seen.len();
        _ = tokio::time::timeout(SILENCE, self.more()).await;
        assert_eq!(self.seen.len(), before, "{about}: {:?}", self.seen);
    }

    /// Waits for the end of the watch.
    pub(crate) async fn expect_end(&mut self) {
        let wait = async { while self.more().await {} };
        assert!(tokio::time::timeout(PATIENCE, wait).await.is_ok(), "the watch goes on");
    }
}
