//! The calls of a connection and the windows of their requests.

use super::frame::{self, flag, kind, setting};
use super::{CONNECTION_WINDOW_BYTES, Handler, STREAM_WINDOW_BYTES};
use crate::grpc::{self, CallError};
use bytes::{Bytes, BytesMut};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};
use tokio::sync::oneshot;

/// The window of a connection and its streams before SETTINGS.
const INITIAL_WINDOW: i64 = 65_535;
/// The highest number that HTTP/2 allows for a stream.
pub(super) const STREAM_MAX: u32 = u32::MAX >> 1;
pub(super) struct State {
    /// Frames that no task is writing yet.
    pub(super) outgoing: BytesMut,
    /// The answer to a PING that measures the bandwidth: it can wait for the next request, which saves a write for each call.
    pub(super) late_pong: Option<[u8; 8]>,
    pub(super) calls: BTreeMap<u32, Call>,
    pub(super) next_stream: u32,
    /// Calls with a part of their request that windows do not allow yet, in order.
    blocked: VecDeque<u32>,
    send_window: i64,
    initial_window: i64,
    calls_max: usize,
    /// Whether a caller ever had to wait for another call to end.
    pub(super) was_full: bool,
    /// The reason why new calls are refused, if they are.
    pub(super) closed: Option<String>,
}

/// A call without a complete response.
pub(super) struct Call {
    /// The part of the request that is not sent yet.
    unsent: Bytes,
    ends_request: bool,
    send_window: i64,
    /// The bytes received since the window was last enlarged.
    pub(super) unreleased: u32,
    pub(super) has_head: bool,
    /// The beginning of a message.
    pub(super) partial: BytesMut,
    pub(super) reply: Reply,
}

impl Call {
    /// Whether the request was sent completely. That of a watch never is.
    pub(super) fn is_sent(&self) -> bool {
        self.unsent.is_empty() && self.ends_request
    }
}

/// The receiver of the response.
pub(super) enum Reply {
    Unary {
        sender: oneshot::Sender<Result<Bytes, CallError>>,
        message: Option<Bytes>,
        /// Whether the caller sends the request again if the connection breaks.
        is_repeatable: bool,
    },
    Stream {
        sender: oneshot::Sender<Result<(), CallError>>,
        handler: Arc<Mutex<Option<Handler>>>,
    },
}

impl Reply {
    pub(super) fn fail(self, error: CallError) {
        // A cancelled caller has dropped its receiver.
        match self {
            Reply::Unary { sender, .. } => drop(sender.send(Err(error))),
            Reply::Stream { sender, .. } => drop(sender.send(Err(error))),
        }
    }
}

/// The reason why a call was not begun.
pub(super) enum Refusal {
    /// There are as many calls as etcd allows.
    Full(Reply),
    Closed(String),
    /// No numbers are left for streams.
    Exhausted,
}

impl State {
    /// Creates the state of a new connection, with the preface and our settings to send.
    pub(super) fn new() -> State {
        let mut outgoing = BytesMut::new();
        outgoing.extend_from_slice(frame::PREFACE);
        let settings = [
            (setting::HEADER_TABLE_SIZE, 0),
            (setting::ENABLE_PUSH, 0),
            (setting::INITIAL_WINDOW_SIZE, STREAM_WINDOW_BYTES),
        ];
        frame::settings(&mut outgoing, &settings);
        let enlarge = CONNECTION_WINDOW_BYTES.saturating_sub(INITIAL_WINDOW as u32);
        frame::number(&mut outgoing, kind::WINDOW_UPDATE, 0, enlarge);
        State {
            outgoing,
            late_pong: None,
            calls: BTreeMap::new(),
            next_stream: 1,
            blocked: VecDeque::new(),
            send_window: INITIAL_WINDOW,
            initial_window: INITIAL_WINDOW,
            calls_max: usize::MAX,
            was_full: false,
            closed: None,
        }
    }

    pub(super) fn begin(
        &mut self,
        headers: &[u8],
        message: &[u8],
        ends_request: bool,
        reply: Reply,
    ) -> Result<u32, Refusal> {
        if let Some(why) = &self.closed {
            return Err(Refusal::Closed(why.clone()));
        }
        if self.calls.len() >= self.calls_max {
            self.was_full = true;
            return Err(Refusal::Full(reply));
        }
        let stream = self.next_stream;
        if stream > STREAM_MAX {
            return Err(Refusal::Exhausted);
        }
        self.next_stream = stream.saturating_add(2);
        frame::head(&mut self.outgoing, kind::HEADERS, flag::END_HEADERS, stream, headers.len());
        self.outgoing.extend_from_slice(headers);
        let length = grpc::PREFIX_BYTES.saturating_add(message.len());
        let mut call = Call {
            unsent: Bytes::new(),
            ends_request,
            send_window: self.initial_window,
            unreleased: 0,
            has_head: false,
            partial: BytesMut::new(),
            reply,
        };
        let allowed = self.send_window.min(call.send_window).min(frame::PAYLOAD_BYTES_MAX as i64);
        if self.blocked.is_empty() && length as i64 <= allowed {
            // Almost all requests fit into one frame.
            let flags = if ends_request { flag::END_STREAM } else { 0 };
            frame::head(&mut self.outgoing, kind::DATA, flags, stream, length);
            self.outgoing.extend_from_slice(&grpc::prefix(message.len()));
            self.outgoing.extend_from_slice(message);
            self.send_window = self.send_window.saturating_sub(length as i64);
            call.send_window = call.send_window.saturating_sub(length as i64);
            self.calls.insert(stream, call);
        } else {
            call.unsent = [&grpc::prefix(message.len())[..], message].concat().into();
            self.calls.insert(stream, call);
            self.blocked.push_back(stream);
            self.unblock();
        }
        // Send it after the request: etcd sends no further PING while it waits for the answer to one.
        self.release_pong();
        Ok(stream)
    }

    pub(super) fn release_pong(&mut self) {
        if let Some(data) = self.late_pong.take() {
            frame::ping(&mut self.outgoing, flag::ACK, data);
        }
    }

    /// Sends as much of the blocked requests as the windows allow.
    fn unblock(&mut self) {
        for _ in 0..self.blocked.len() {
            let Some(stream) = self.blocked.pop_front() else { return };
            let Some(call) = self.calls.get_mut(&stream) else { continue };
            while !call.unsent.is_empty() {
                let window = self.send_window.min(call.send_window).min(frame::PAYLOAD_BYTES_MAX as i64);
                let length = usize::try_from(window).unwrap_or(0).min(call.unsent.len());
                if length == 0 {
                    break;
                }
                let part = call.unsent.split_to(length);
                let is_last = call.unsent.is_empty() && call.ends_request;
                let flags = if is_last { flag::END_STREAM } else { 0 };
                frame::head(&mut self.outgoing, kind::DATA, flags, stream, length);
                self.outgoing.extend_from_slice(&part);
                self.send_window = self.send_window.saturating_sub(length as i64);
                call.send_window = call.send_window.saturating_sub(length as i64);
            }
            if !call.unsent.is_empty() {
                self.blocked.push_back(stream);
            }
        }
    }

    /// Enlarges a window of requests. Returns false if the window would overflow.
    pub(super) fn enlarge(&mut self, stream: u32, by: u32) -> bool {
        let window = match stream {
            0 => &mut self.send_window,
            _ => match self.calls.get_mut(&stream) {
                Some(call) => &mut call.send_window,
                // The call has already ended.
                None => return true,
            },
        };
        *window = window.saturating_add(i64::from(by));
        let is_valid = *window <= i64::from(STREAM_MAX);
        self.unblock();
        is_valid
    }

    /// Applies one of etcd's settings. Returns whether it is valid.
    pub(super) fn apply_setting(&mut self, name: u16, value: u32) -> bool {
        match name {
            setting::MAX_CONCURRENT_STREAMS => self.calls_max = usize::try_from(value).unwrap_or(usize::MAX),
            setting::INITIAL_WINDOW_SIZE => {
                let by = i64::from(value).saturating_sub(self.initial_window);
                self.initial_window = i64::from(value);
                self.calls
                    .values_mut()
                    .for_each(|call| call.send_window = call.send_window.saturating_add(by));
                self.unblock();
                return value <= STREAM_MAX;
            }
            // Frames are never larger than the size that every peer accepts.
            setting::MAX_FRAME_SIZE => return value >= frame::PAYLOAD_BYTES_MAX as u32,
            _ => {}
        }
        true
    }
}
