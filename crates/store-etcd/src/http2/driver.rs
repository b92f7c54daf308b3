//! Reads a connection and passes responses to their callers.

use super::connection::{CANCEL, Connection};
use super::frame::{self, Frame, flag, kind};
use super::header::{self, Head};
use super::state::{Call, Reply, State};
use super::{BUFFER_BYTES, CONNECTION_WINDOW_BYTES, Handler, STREAM_WINDOW_BYTES};
use crate::grpc::{self, CallError};
use bytes::{Buf, Bytes, BytesMut};
use std::future::poll_fn;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use tokio::io::{AsyncRead, AsyncReadExt};

/// The largest header block that is taken.
const HEADERS_BYTES_MAX: usize = 64 << 10;
/// The maximum number of bytes that wait to be written if etcd does not read, including answers to its PINGs and
/// SETTINGS.
const OUTGOING_BYTES_MAX: usize = 64 << 20;
/// The number of stream messages that are handled before other tasks get their turn.
const MESSAGES_PER_TURN: u32 = 16;
/// The PING that gRPC's Go server sends with the first data after the last such PING was answered, to measure the bandwidth.
const BANDWIDTH_PING: [u8; 8] = [2, 4, 16, 16, 9, 14, 7, 7];
/// The error code of RST_STREAM that says that the request was not executed.
const REFUSED_STREAM: u32 = 7;

/// Reads the connection. Dropping it closes the connection.
pub(crate) struct Driver {
    connection: Arc<Connection>,
    reader: Box<dyn AsyncRead + Send + Unpin>,
    buffer: BytesMut,
    /// The stream and the beginning of a header block, and whether the block ends the stream.
    block: Option<(u32, BytesMut, bool)>,
    /// The last headers and trailers of a successful response: the next ones are probably equal.
    usual: [(Bytes, Head); 2],
    /// The bytes received since the window of the connection was last enlarged.
    unreleased: u32,
    messages: u32,
}

impl Driver {
    pub(super) fn new(connection: Arc<Connection>, reader: Box<dyn AsyncRead + Send + Unpin>) -> Driver {
        Driver {
            connection,
            reader,
            buffer: BytesMut::new(),
            block: None,
            usual: Default::default(),
            unreleased: 0,
            messages: 0,
        }
    }

    /// Reads and writes until the connection breaks, or until etcd has ended it and all calls are answered. Returns
    /// the reason.
    pub(crate) async fn run(mut self) -> String {
        let why = self.drive().await;
        self.connection.close(&why);
        why
    }

    async fn drive(&mut self) -> String {
        loop {
            if let Err(why) = self.read().await {
                return why;
            }
            if let Err(why) = self.handle_frames() {
                return why.to_owned();
            }
            let drained = {
                let state = self.connection.lock();
                if state.outgoing.len() > OUTGOING_BYTES_MAX {
                    return "etcd does not read".to_owned();
                }
                state.closed.clone().filter(|_| state.calls.is_empty())
            };
            if let Some(why) = drained {
                return why;
            }
            if self.messages >= MESSAGES_PER_TURN {
                // A long backlog must not block other tasks of the thread.
                self.messages = 0;
                tokio::task::yield_now().await;
            }
        }
    }

    async fn read(&mut self) -> Result<(), String> {
        self.buffer.reserve(BUFFER_BYTES);
        let Driver { connection, reader, buffer, .. } = self;
        let mut read = pin!(reader.read_buf(buffer));
        let outcome = poll_fn(|context| {
            connection.flush();
            let state = connection.lock();
            if let Some(why) = &state.closed
                && state.calls.is_empty()
            {
                return Poll::Ready(Err(why.clone()));
            }
            drop(state);
            read.as_mut().poll(context).map_err(|error| error.to_string())
        });
        match outcome.await? {
            // Clients of kube-apiserver see this text.
            0 => Err("EOF".into()),
            _ => {
                connection.received.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
        }
    }

    /// Handles all complete frames in the buffer.
    fn handle_frames(&mut self) -> Result<(), &'static str> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut rest = &buffer[..];
        while let Some((frame, payload)) = next_frame(&mut rest)? {
            self.on_frame(frame, payload)?;
        }
        match rest.len() {
            // Reuse the memory for the next read, because it is in the processor's cache.
            0 => buffer.clear(),
            unhandled => buffer.advance(buffer.len().saturating_sub(unhandled)),
        }
        self.buffer = buffer;
        Ok(())
    }

    fn on_frame(&mut self, frame: Frame, mut payload: &[u8]) -> Result<(), &'static str> {
        if self.block.is_some() && frame.kind != kind::CONTINUATION {
            return Err("a header block from etcd is interrupted");
        }
        match frame.kind {
            kind::DATA => {
                let length = payload.len();
                unpad(&frame, &mut payload)?;
                self.on_data(&frame, payload, length)
            }
            kind::HEADERS => {
                unpad(&frame, &mut payload)?;
                if frame.has(flag::PRIORITY) {
                    payload
                        .try_get_u32()
                        .and_then(|_| payload.try_get_u8())
                        .map_err(|_| "a short frame from etcd")?;
                }
                let is_end = frame.has(flag::END_STREAM);
                if frame.has(flag::END_HEADERS) {
                    return self.headers(frame.stream, payload, is_end);
                }
                self.block = Some((frame.stream, BytesMut::from(payload), is_end));
                Ok(())
            }
            kind::CONTINUATION => self.on_continuation(&frame, payload),
            kind::RST_STREAM => {
                let code = payload.try_get_u32().map_err(|_| "a short frame from etcd")?;
                let error = match code {
                    REFUSED_STREAM => CallError::NotSent("etcd refused the request".into()),
                    _ => CallError::Lost(format!("etcd reset the request: HTTP/2 error {code}")),
                };
                self.fail(frame.stream, error);
                Ok(())
            }
            kind::SETTINGS => self.on_settings(&frame, payload),
            kind::PUSH_PROMISE => Err("etcd sent what was not requested"),
            kind::PING => {
                let data: [u8; 8] = payload.try_into().map_err(|_| "a short frame from etcd")?;
                if !frame.has(flag::ACK) {
                    let mut state = self.connection.lock();
                    match data {
                        BANDWIDTH_PING => state.late_pong = Some(data),
                        _ => frame::ping(&mut state.outgoing, flag::ACK, data),
                    }
                }
                Ok(())
            }
            kind::GOAWAY => self.go_away(payload),
            kind::WINDOW_UPDATE => {
                let by = payload.try_get_u32().map_err(|_| "a short frame from etcd")?;
                if self.connection.lock().enlarge(frame.stream, by & (u32::MAX >> 1)) {
                    Ok(())
                } else {
                    Err("a window of etcd is too large")
                }
            }
            // PRIORITY, and frame types that may be defined later, are ignored.
            _ => Ok(()),
        }
    }

    fn on_settings(&mut self, frame: &Frame, mut payload: &[u8]) -> Result<(), &'static str> {
        if frame.has(flag::ACK) {
            return Ok(());
        }
        let mut state = self.connection.lock();
        while let (Ok(name), Ok(value)) = (payload.try_get_u16(), payload.try_get_u32()) {
            if !state.apply_setting(name, value) {
                return Err("a setting of etcd is out of range");
            }
        }
        frame::head(&mut state.outgoing, kind::SETTINGS, flag::ACK, 0, 0);
        drop(state);
        self.connection.retry_refused();
        Ok(())
    }

    fn on_continuation(&mut self, frame: &Frame, payload: &[u8]) -> Result<(), &'static str> {
        let Some((stream, mut block, is_end)) = self.block.take() else {
            return Err("a header block from etcd has no beginning");
        };
        if stream != frame.stream || block.len().saturating_add(payload.len()) > HEADERS_BYTES_MAX {
            return Err("a header block from etcd is interrupted or too large");
        }
        block.extend_from_slice(payload);
        if frame.has(flag::END_HEADERS) {
            return self.headers(stream, &block, is_end);
        }
        self.block = Some((stream, block, is_end));
        Ok(())
    }

    /// Headers, or trailers if `is_end`, which may be the only headers too.
    fn headers(&mut self, stream: u32, block: &[u8], is_end: bool) -> Result<(), &'static str> {
        let Some((usual, head)) = self.usual.get_mut(usize::from(is_end)) else { return Ok(()) };
        // Blocks do not depend on earlier ones, so equal blocks mean the same.
        if usual != block {
            *head = header::decode(block).map_err(|_| "malformed headers from etcd")?;
            *usual = Bytes::copy_from_slice(block);
        }
        let mut state = self.connection.lock();
        let Some(call) = state.calls.get_mut(&stream) else { return check_known(&state, stream) };
        let is_first = !std::mem::replace(&mut call.has_head, true);
        if is_first && head.status.is_none_or(|status| status != 200) {
            let status = head.status.unwrap_or_default();
            drop(state);
            self.fail(stream, CallError::Lost(format!("HTTP status {status}")));
            return Ok(());
        }
        if !is_end {
            return Ok(());
        }
        let status = grpc::check_status(head.grpc_status, &head.grpc_message);
        if let Some(call) = self.connection.remove(&mut state, stream) {
            if !call.is_sent() {
                // etcd answered without reading the whole request; reset the stream, so that it does not wait for the
                // rest.
                frame::number(&mut state.outgoing, kind::RST_STREAM, stream, CANCEL);
            }
            drop(state);
            finish(call, status);
        }
        Ok(())
    }

    fn on_data(&mut self, frame: &Frame, payload: &[u8], length: usize) -> Result<(), &'static str> {
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        self.unreleased = self.unreleased.saturating_add(length);
        let connection = self.connection.clone();
        let mut state = connection.lock();
        if self.unreleased >= CONNECTION_WINDOW_BYTES / 2 {
            frame::number(&mut state.outgoing, kind::WINDOW_UPDATE, 0, std::mem::take(&mut self.unreleased));
        }
        let State { calls, outgoing, .. } = &mut *state;
        let Some(call) = calls.get_mut(&frame.stream) else { return check_known(&state, frame.stream) };
        call.unreleased = call.unreleased.saturating_add(length);
        if call.unreleased >= STREAM_WINDOW_BYTES / 2 {
            frame::number(outgoing, kind::WINDOW_UPDATE, frame.stream, std::mem::take(&mut call.unreleased));
        }
        let failure = match &mut call.reply {
            Reply::Unary { message, .. } => {
                let failure = take_answer(message, &mut call.partial, payload).err();
                drop(state);
                failure
            }
            Reply::Stream { handler, .. } => {
                let (handler, mut partial) = (handler.clone(), std::mem::take(&mut call.partial));
                // Handlers may take long, and callers must be able to send in the meantime.
                drop(state);
                let handled = self.handle_messages(&handler, &mut partial, payload);
                if !partial.is_empty()
                    && let Some(call) = connection.lock().calls.get_mut(&frame.stream)
                {
                    call.partial = partial;
                }
                match handled {
                    Ok(ControlFlow::Break(())) => {
                        self.end_stream(frame.stream);
                        None
                    }
                    Ok(ControlFlow::Continue(())) => None,
                    Err(error) => Some(error),
                }
            }
        };
        if let Some(error) = failure {
            self.fail(frame.stream, error);
        } else if frame.has(flag::END_STREAM) {
            self.fail(frame.stream, CallError::Lost("the answer has no status".into()));
        }
        Ok(())
    }

    fn handle_messages(
        &mut self,
        handler: &Mutex<Option<Handler>>,
        partial: &mut BytesMut,
        payload: &[u8],
    ) -> Result<ControlFlow<()>, CallError> {
        let mut handler = handler.lock().unwrap_or_else(PoisonError::into_inner);
        // A cancelled caller has removed its handler.
        let Some(handle) = handler.as_mut() else { return Ok(ControlFlow::Continue(())) };
        grpc::take_messages(partial, payload, |message| {
            self.messages = self.messages.saturating_add(1);
            handle(message)
        })
    }

    /// Ends a stream whose handler needs no more messages.
    fn end_stream(&self, stream: u32) {
        let mut state = self.connection.lock();
        let Some(call) = self.connection.remove(&mut state, stream) else { return };
        frame::number(&mut state.outgoing, kind::RST_STREAM, stream, CANCEL);
        drop(state);
        finish(call, Ok(()));
    }

    fn fail(&self, stream: u32, error: CallError) {
        let call = self.connection.remove(&mut self.connection.lock(), stream);
        if let Some(call) = call {
            call.reply.fail(error);
        }
    }

    /// Handles GOAWAY: etcd answers the calls that it has begun and no others.
    fn go_away(&self, mut payload: &[u8]) -> Result<(), &'static str> {
        let last = payload.try_get_u32().map_err(|_| "a short frame from etcd")? & (u32::MAX >> 1);
        self.connection.retire(last);
        Ok(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.connection.close("the connection to etcd was closed");
        self.connection.close_socket();
    }
}

/// Takes the only message of an answer.
fn take_answer(answer: &mut Option<Bytes>, partial: &mut BytesMut, payload: &[u8]) -> Result<(), CallError> {
    let taken = grpc::take_messages(partial, payload, |message| match answer {
        None => {
            *answer = Some(Bytes::copy_from_slice(message));
            ControlFlow::Continue(())
        }
        Some(_) => ControlFlow::Break(()),
    })?;
    match taken {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(()) => Err(CallError::Lost("two answers to one request".into())),
    }
}

fn finish(call: Call, status: Result<(), CallError>) {
    // A cancelled caller has dropped its receiver.
    match call.reply {
        Reply::Unary { sender, message, .. } => {
            let answer = message.ok_or_else(|| CallError::Lost("no answer".into()));
            drop(sender.send(status.and(answer)));
        }
        Reply::Stream { sender, .. } => drop(sender.send(status)),
    }
}

/// Frames may arrive for calls that were cancelled, but not for calls that never existed.
fn check_known(state: &State, stream: u32) -> Result<(), &'static str> {
    if stream % 2 == 1 && stream < state.next_stream {
        Ok(())
    } else {
        Err("etcd answers a call that was not made")
    }
}

/// Takes a complete frame from the beginning of `bytes`.
fn next_frame<'b>(bytes: &mut &'b [u8]) -> Result<Option<(Frame, &'b [u8])>, &'static str> {
    let Some(frame) = Frame::read(bytes) else { return Ok(None) };
    if frame.length > frame::PAYLOAD_BYTES_MAX {
        return Err("a frame from etcd is too large");
    }
    let content = bytes.get(frame::HEADER_BYTES..).and_then(|rest| rest.split_at_checked(frame.length));
    Ok(content.map(|(payload, rest)| {
        *bytes = rest;
        (frame, payload)
    }))
}

/// Removes the padding of DATA and HEADERS.
fn unpad(frame: &Frame, payload: &mut &[u8]) -> Result<(), &'static str> {
    if frame.has(flag::PADDED) {
        let padding = usize::from(payload.try_get_u8().map_err(|_| "a short frame from etcd")?);
        let length = payload.len().checked_sub(padding);
        let content = length.and_then(|length| payload.get(..length));
        *payload = content.ok_or("a frame from etcd has too much padding")?;
    }
    Ok(())
}
