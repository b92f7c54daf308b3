//! Follows a watch and says in short what it tells.

use pintle_testkit::{Client, Request};
use serde_json::Value;
use std::time::Duration;
use tokio::sync::mpsc::{self, Receiver};

/// How long a watch that shall say something may take.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a watch is listened to that shall say nothing.
const SILENCE: Duration = Duration::from_millis(150);

/// Events that wait to be looked at.
const UNSEEN_MAX: usize = 1000;

/// The events of one watch so far: type and name.
pub(crate) struct Events {
    unseen: Receiver<String>,
    seen: Vec<String>,
}

/// Begins to follow.
pub(crate) async fn events(client: &Client, target: &str) -> Events {
    let mut stream = client.open(&Request::new("GET", target)).await.unwrap();
    let (sender, unseen) = mpsc::channel(UNSEEN_MAX);
    // On its own: what reads a stream must not be interrupted.
    tokio::spawn(async move {
        let mut rest = Vec::new();
        while let Ok(Some(part)) = stream.next_part().await {
            rest.extend_from_slice(&part);
            while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = rest.drain(..=end).collect();
                if sender.send(told(&line)).await.is_err() {
                    return;
                }
            }
        }
    });
    Events { unseen, seen: Vec::new() }
}

fn told(line: &[u8]) -> String {
    let event: Value = serde_json::from_slice(line).unwrap();
    let name = event["object"]["metadata"]["name"].as_str().unwrap_or_default();
    format!("{} {name}", event["type"].as_str().unwrap_or_default())
}

impl Events {
    /// Whether more came; false at the end.
    async fn more(&mut self) -> bool {
        let event = self.unseen.recv().await;
        self.seen.extend(event.clone());
        event.is_some()
    }

    /// Waits until these events, and no others, were told since the beginning.
    pub(crate) async fn expect(&mut self, expected: &[&str], about: &str) {
        let wait = async { while self.seen.len() < expected.len() && self.more().await {} };
        let in_time = tokio::time::timeout(PATIENCE, wait).await.is_ok();
        assert!(in_time && self.seen == expected, "{about}: {:?} in place of {expected:?}", self.seen);
    }

    /// Asserts that nothing is told for a while.
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
