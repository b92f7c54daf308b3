//! The state of a connection, which callers and the [`super::Driver`] share.
//!
//! A caller writes its request itself: no other task is woken for it. If another caller is writing, a caller leaves
//! its frames to that one. The driver writes the bytes that the socket does not accept at once.

use super::Handler;
use super::frame::{self, kind};
use super::state::{Call, Refusal, Reply, STREAM_MAX, State};
use crate::grpc::CallError;
use bytes::{Buf, Bytes, BytesMut};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::task::{Context, Poll, Waker};
use tokio::io::AsyncWrite;
use tokio::sync::{Notify, oneshot};

/// The error code of RST_STREAM for a call whose caller is gone.
pub(super) const CANCEL: u32 = 8;
/// If there are more calls than this, including the watch, requests are written together.
const CALLS_WRITTEN_ALONE: usize = 2;
/// The error for new calls on a connection that etcd is about to close.
const RETIRED: &str = "etcd ends the connection";

/// A connection to a member.
pub(crate) struct Connection {
    state: Mutex<State>,
    writer: Mutex<Writer>,
    /// The waker of the task that drives the connection.
    waker: Waker,
    /// Notified when a call has ended and the limit of etcd was reached before.
    freed: Notify,
    /// The number of reads that received something.
    pub(super) received: AtomicU64,
}

struct Writer {
    /// `None` once the connection is closed.
    io: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    /// Frames that are being written.
    buffer: BytesMut,
    is_flushed: bool,
}

impl Connection {
    /// A connection on `io` that begins with the preface. `waker` is the waker of the driver's task.
    pub(super) fn new(io: Box<dyn AsyncWrite + Send + Unpin>, waker: Waker) -> Connection {
        Connection {
            state: Mutex::new(State::new()),
            writer: Mutex::new(Writer { io: Some(io), buffer: BytesMut::new(), is_flushed: true }),
            waker,
            freed: Notify::new(),
            received: AtomicU64::new(0),
        }
    }

    /// Sends a request and waits for its response.
    pub(crate) async fn unary(
        &self,
        headers: &[u8],
        message: &[u8],
        is_repeatable: bool,
    ) -> Result<Bytes, CallError> {
        let (sender, receiver) = oneshot::channel();
        let reply = Reply::Unary { sender, message: None, is_repeatable };
        let _guard = self.begin(headers, message, true, reply).await?;
        receiver.await.unwrap_or_else(|_| Err(CallError::Lost("the connection to etcd ended".into())))
    }

    /// Sends a request, leaves it open and passes all messages of the response to `handler`, until it breaks or etcd
    /// ends the response. Once this future is dropped, `handler` is not called any more.
    pub(crate) async fn stream(
        &self,
        headers: &[u8],
        message: &[u8],
        handler: Handler,
    ) -> Result<(), CallError> {
        let (sender, receiver) = oneshot::channel();
        let handler = Arc::new(Mutex::new(Some(handler)));
        let _handler_guard = HandlerGuard(handler.clone());
        let _guard = self.begin(headers, message, false, Reply::Stream { sender, handler }).await?;
        receiver.await.unwrap_or_else(|_| Err(CallError::Lost("the connection to etcd ended".into())))
    }

    /// Sends a PING, whose answer shows that the connection works, and frames that wait for the next request.
    pub(crate) fn ping(&self) {
        {
            let mut state = self.lock();
            state.release_pong();
            frame::ping(&mut state.outgoing, 0, [0; 8]);
        }
        self.flush();
    }

    /// A number that changes whenever something is received.
    pub(crate) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    async fn begin(
        &self,
        headers: &[u8],
        message: &[u8],
        ends_request: bool,
        mut reply: Reply,
    ) -> Result<Cancel<'_>, CallError> {
        loop {
            let freed = self.freed.notified();
            let (begun, is_crowded) = {
                let mut state = self.lock();
                (state.begin(headers, message, ends_request, reply), state.calls.len() > CALLS_WRITTEN_ALONE)
            };
            match begun {
                Ok(stream) => {
                    let guard = Cancel { connection: self, stream };
                    if is_crowded {
                        // Other callers are probably about to send: their requests go into the same write.
                        tokio::task::yield_now().await;
                    }
                    self.flush();
                    return Ok(guard);
                }
                Err(Refusal::Closed(why)) => return Err(CallError::NotSent(why)),
                Err(Refusal::Exhausted) => {
                    self.retire(STREAM_MAX);
                    return Err(CallError::NotSent(RETIRED.into()));
                }
                Err(Refusal::Full(unused)) => reply = unused,
            }
            freed.await;
        }
    }

    /// Writes all frames, unless another task does.
    pub(super) fn flush(&self) {
        loop {
            let mut writer = match self.writer.try_lock() {
                Ok(writer) => writer,
                Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
                // The caller that writes looks for more frames after it gave the lock back.
                Err(TryLockError::WouldBlock) => return,
            };
            let outcome = writer.write(&self.state, &mut Context::from_waker(&self.waker));
            drop(writer);
            match outcome {
                Poll::Ready(Ok(())) if self.lock().outgoing.is_empty() => return,
                Poll::Ready(Ok(())) => {}
                Poll::Pending => return,
                Poll::Ready(Err(error)) => {
                    self.close(&error.to_string());
                    self.waker.wake_by_ref();
                    return;
                }
            }
        }
    }

    /// Ends all calls. Whether their requests were executed is unknown.
    pub(super) fn close(&self, why: &str) {
        let calls = {
            let mut state = self.lock();
            state.closed.get_or_insert_with(|| why.to_owned());
            std::mem::take(&mut state.calls)
        };
        for call in calls.into_values() {
            call.reply.fail(CallError::Lost(why.to_owned()));
        }
        self.freed.notify_waiters();
    }

    /// Lets the calls up to `last` end and accepts no more. The driver ends after the last of them.
    pub(super) fn retire(&self, last: u32) {
        let is_refused = |id: u32, _: &Call| id > last;
        self.end_some(is_refused, || CallError::NotSent(RETIRED.into()));
        // A watch would never end by itself.
        self.end_some(
            |_, call| matches!(call.reply, Reply::Stream { .. }),
            || CallError::Lost(RETIRED.into()),
        );
    }

    /// Lets the calls end that cannot be repeated elsewhere, and accepts no more.
    pub(crate) fn retire_for_another(&self) {
        let is_repeatable = |_: u32, call: &Call| match call.reply {
            Reply::Unary { is_repeatable, .. } => is_repeatable,
            Reply::Stream { .. } => true,
        };
        self.end_some(is_repeatable, || CallError::Lost("another member is used".into()));
    }

    /// Accepts no more calls and ends those for which `select` returns true.
    fn end_some(&self, select: impl Fn(u32, &Call) -> bool, error: impl Fn() -> CallError) {
        let ended: Vec<Call> = {
            let mut state = self.lock();
            state.closed.get_or_insert_with(|| RETIRED.to_owned());
            state.calls.extract_if(.., |id, call| select(*id, call)).map(|(_, call)| call).collect()
        };
        for call in ended {
            call.reply.fail(error());
        }
        self.freed.notify_waiters();
        self.waker.wake_by_ref();
    }

    /// etcd may allow more calls now.
    pub(super) fn retry_refused(&self) {
        self.freed.notify_waiters();
    }

    /// Closes the socket.
    pub(super) fn close_socket(&self) {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner).io = None;
    }

    /// Removes a call whose response is complete, or which failed.
    pub(super) fn remove(&self, state: &mut State, stream: u32) -> Option<Call> {
        let call = state.calls.remove(&stream);
        if state.was_full && call.is_some() {
            self.freed.notify_one();
        }
        call
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    fn write(&mut self, state: &Mutex<State>, context: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        let Some(io) = &mut self.io else {
            return Poll::Ready(Err(std::io::ErrorKind::NotConnected.into()));
        };
        loop {
            if self.buffer.is_empty() {
                let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::swap(&mut self.buffer, &mut state.outgoing);
            }
            if self.buffer.is_empty() {
                break;
            }
            self.is_flushed = false;
            match Pin::new(&mut *io).poll_write(context, &self.buffer) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(std::io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => self.buffer.advance(written),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        // The buffer is reused; a large request must not keep its memory for ever.
        if self.buffer.capacity() > super::BUFFER_BYTES {
            self.buffer = BytesMut::new();
        }
        if self.is_flushed {
            return Poll::Ready(Ok(()));
        }
        let flushed = Pin::new(io).poll_flush(context);
        self.is_flushed = matches!(flushed, Poll::Ready(Ok(())));
        flushed
    }
}

/// Cancels a request at etcd if its caller is dropped.
struct Cancel<'a> {
    connection: &'a Connection,
    stream: u32,
}

impl Drop for Cancel<'_> {
    fn drop(&mut self) {
        let mut state = self.connection.lock();
        if self.connection.remove(&mut state, self.stream).is_some() {
            frame::number(&mut state.outgoing, kind::RST_STREAM, self.stream, CANCEL);
            drop(state);
            self.connection.flush();
        }
    }
}

/// Removes the handler; if it is running, after it has returned.
struct HandlerGuard(Arc<Mutex<Option<Handler>>>);

impl Drop for HandlerGuard {
    fn drop(&mut self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}
