//! An open watch: its events are collected in the background.

use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use crate::cbor::{self, CborError};
use crate::client::Streaming;

/// The maximum number of collected events; more stay with the server.
const PENDING_EVENTS_MAX: usize = 10_000;

/// The events of one open response.
pub(super) struct Stream {
    events: mpsc::Receiver<Value>,
    reader: JoinHandle<()>,
    end_seen: bool,
}

/// The next event of a stream, or its absence.
pub(super) enum Next {
    /// An event.
    Event(Value),
    /// The server ended the response; returned once.
    Closed,
    /// No event within the time.
    Silence,
}

impl Stream {
    /// Reads the rest of a response in the background.
    pub(super) fn new(streaming: Streaming, content_type: &str) -> Stream {
        let (sender, events) = mpsc::channel(PENDING_EVENTS_MAX);
        let reader = tokio::spawn(read(streaming, content_type.contains("cbor"), sender));
        Stream { events, reader, end_seen: false }
    }

    /// The next event, waiting until `end` at most.
    pub(super) async fn next(&mut self, end: Instant) -> Next {
        if self.end_seen {
            tokio::time::sleep_until(end).await;
            return Next::Silence;
        }
        // After the deadline, the caller still gets what has already arrived.
        let end = end.max(Instant::now() + Duration::from_millis(10));
        match timeout_at(end, self.events.recv()).await {
            Ok(Some(event)) => Next::Event(event),
            Ok(None) => {
                self.end_seen = true;
                Next::Closed
            }
            Err(_) => Next::Silence,
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// Ends, and closes the channel, at the end of the response and at anything that is not an event.
async fn read(mut streaming: Streaming, is_cbor: bool, events: mpsc::Sender<Value>) {
    let mut buffer = Vec::new();
    while let Ok(Some(part)) = streaming.next_part().await {
        buffer.extend_from_slice(&part);
        loop {
            let taken = if is_cbor { next_cbor(&mut buffer) } else { next_line(&mut buffer) };
            let Ok(event) = taken else { return };
            let Some(event) = event else { break };
            if events.send(event).await.is_err() {
                return;
            }
        }
    }
}

fn next_cbor(buffer: &mut Vec<u8>) -> Result<Option<Value>, ()> {
    match cbor::decode(buffer) {
        Ok((value, read)) => {
            buffer.drain(..read);
            Ok(Some(value))
        }
        Err(CborError::Incomplete) => Ok(None),
        Err(_) => Err(()),
    }
}

fn next_line(buffer: &mut Vec<u8>) -> Result<Option<Value>, ()> {
    while let Some(end) = buffer.iter().position(|b| *b == b'\n') {
        let line: Vec<u8> = buffer.drain(..=end).collect();
        if !line.trim_ascii().is_empty() {
            return serde_json::from_slice(&line).map(Some).map_err(|_| ());
        }
    }
    Ok(None)
}
