//! `HeadStream`: a connection whose HTTP/1.1 heads pass through `request_line` before hyper reads them. Bodies and
//! upgraded connections pass unchanged. The header blocks of HTTP/2 pass through `http2_heads`.
//!
//! hyper alone decides what a request is. `HeadStream` holds back a head until it is complete and passes hyper one
//! head at a time. It rewrites bytes only where it knows that a head begins: at the start of the connection, and
//! after a body whose length is given by one plain `Content-Length`. After anything else (chunks, upgrades) it passes
//! all bytes unchanged. A CONNECT request is the last one of its connection.

use crate::head_budget::{HeadBudget, HeadShare};
use crate::http2_heads::{Found, Http2Heads, PREFACE, ReplacedUrls, TooManyFields};
use crate::request_line::{HEAD_BYTES_MAX, Head, HeadTarget, Next, RequestExtras, head_end};
use std::collections::VecDeque;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf, Take};

/// The number of bytes read at once while a head is awaited. It also limits the bytes that are held back after a
/// head.
const READ_BYTES: usize = 4096;
/// The number of bytes that an HTTP/2 connection may read before other tasks get their turn. The HTTP/2 library
/// handles all frames that it can read: a flood of small ones (PING, SETTINGS) would occupy the thread for tenths of
/// a second.
const TURN_BYTES: usize = 32 * 1024;
/// How much of a body or an upgraded connection is read at once; a record of TLS has as much. The HTTP/1 library doubles its
/// buffer whenever a read fills it, and keeps it until the connection ends: 200 idle connections on which bodies of 3 MB had been
/// sent took 400 MB.
const BODY_READ_BYTES: u64 = 16 * 1024;
/// Line ends before a request line that are skipped, as Go's server does after a body that a client ended with one too many.
const LEADING_LINE_ENDS_MAX: usize = 4;
/// A buffer that had to grow beyond this size is freed once hyper has its head.
const BUFFER_BYTES_KEPT: usize = 16 * 1024;
/// Reads of a refused connection that are thrown away per poll.
const DISCARDS_PER_POLL: usize = 16;

/// The parts of the requests that hyper has not parsed yet which are not in their heads, in order.
#[derive(Clone, Default)]
pub(crate) struct PendingExtras(Arc<Mutex<VecDeque<RequestExtras>>>);

impl PendingExtras {
    /// Returns the parts of the connection's next HTTP/1.1 request that are not in its head.
    pub(crate) fn next(&self) -> RequestExtras {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(RequestExtras::NOTHING)
    }

    fn push(&self, beside: RequestExtras) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(beside);
    }
}

enum State {
    /// A head begins with `received`.
    Head,
    /// The next so many bytes are a body.
    Body(u64),
    /// All further bytes pass unchanged.
    Unchanged,
    /// Frames of HTTP/2.
    Http2(Http2Heads),
    /// A head was refused: all further bytes are discarded.
    Refused,
}

/// A connection to a client.
pub(crate) struct HeadStream<S> {
    /// The connection, limited to what is read at once, and to the body while one is read.
    inner: Take<S>,
    state: State,
    pending_extras: PendingExtras,
    /// Bytes from the client that hyper has not received yet, and how many of them were already searched for the end
    /// of a head.
    received: Vec<u8>,
    searched: usize,
    share: HeadShare,
    /// The number of HTTP/2 bytes that were read since other tasks got their turn.
    turn: usize,
    /// A head for hyper, and how much of it hyper has received.
    head: Vec<u8>,
    head_read: usize,
}

impl<S: AsyncRead + Unpin> HeadStream<S> {
    /// Wraps a connection. If client and server agreed on HTTP/2, `urls` gets the URLs that are replaced.
    pub(crate) fn new(inner: S, urls: Option<ReplacedUrls>, budget: &HeadBudget) -> Self {
        let http2 = urls.map(|urls| State::Http2(Http2Heads::new(PREFACE.len(), urls)));
        HeadStream {
            inner: inner.take(u64::MAX),
            state: http2.unwrap_or(State::Head),
            pending_extras: PendingExtras::default(),
            received: Vec::new(),
            searched: 0,
            share: budget.share(),
            turn: 0,
            head: Vec::new(),
            head_read: 0,
        }
    }

    /// The parts of requests that are not in the heads that hyper reads.
    pub(crate) fn pending_extras(&self) -> PendingExtras {
        self.pending_extras.clone()
    }

    /// Moves bytes from `received` to `buf`, at most `limit`; returns how many.
    fn give_received(&mut self, buf: &mut ReadBuf<'_>, limit: usize) -> usize {
        let count = self.received.len().min(buf.remaining()).min(limit);
        buf.put_slice(self.received.get(..count).unwrap_or_default());
        self.received.drain(..count);
        count
    }

    fn give_head(&mut self, buf: &mut ReadBuf<'_>) {
        let left = self.head.get(self.head_read..).unwrap_or_default();
        let count = left.len().min(buf.remaining());
        buf.put_slice(left.get(..count).unwrap_or_default());
        self.head_read = self.head_read.saturating_add(count);
        if self.head_read >= self.head.len() {
            self.head_read = 0;
            self.head.clear();
            self.head.shrink_to(BUFFER_BYTES_KEPT);
        }
    }

    /// Takes a head out of `received` if one is complete, or if none can become complete any more.
    fn take_head(&mut self) {
        if self.searched == 0 {
            let is_line_end = |byte: &&u8| matches!(byte, b'\r' | b'\n');
            let skipped = self.received.iter().take(LEADING_LINE_ENDS_MAX).take_while(is_line_end).count();
            self.received.drain(..skipped);
        }
        let head = match head_end(&self.received, self.searched) {
            Some(end) if end <= HEAD_BYTES_MAX => {
                let rest = self.received.split_off(end);
                Head::read(std::mem::replace(&mut self.received, rest))
            }
            None if self.received.len() <= HEAD_BYTES_MAX && self.share.grow_to(self.received.len()) => {
                self.searched = self.received.len();
                return;
            }
            // Go: Request Header Fields Too Large.
            _ => Head::refused(431),
        };
        self.searched = 0;
        self.share.release();
        self.state = match (&head.beside, head.next) {
            (Some(RequestExtras { target: HeadTarget::Refused(_), .. }), _) => State::Refused,
            (_, Next::Body(length)) => State::Body(length),
            (_, Next::Chunks | Next::Upgrade | Next::Unknown) => State::Unchanged,
        };
        if let Some(beside) = head.beside {
            self.pending_extras.push(beside);
        }
        self.head = head.bytes;
    }

    /// Reads more of a head. The client's end of the connection ends the head, too.
    fn poll_receive(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        // Every request passes through here, so do not zero the buffer each time.
        let mut bytes = [MaybeUninit::uninit(); READ_BYTES];
        let mut piece = ReadBuf::uninit(&mut bytes);
        ready!(Pin::new(&mut self.inner).poll_read(cx, &mut piece))?;
        if piece.filled().is_empty() {
            self.state = State::Unchanged;
        }
        self.received.extend_from_slice(piece.filled());
        Poll::Ready(Ok(()))
    }

    /// Reads frames of HTTP/2. Most pass as they are; what must be held back or replaced goes to `received` and `head`.
    fn poll_http2(&mut self, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        while self.head.is_empty()
            && let State::Http2(heads) = &mut self.state
        {
            if self.turn >= TURN_BYTES {
                self.turn = 0;
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            if self.received.is_empty() {
                if self.turn == 0 {
                    heads.forget_long_urls();
                }
                let before = buf.filled().len();
                let read = Pin::new(&mut self.inner).poll_read(cx, buf);
                if read.is_pending() {
                    self.turn = 0;
                }
                ready!(read)?;
                let bytes = buf.filled().get(before..).unwrap_or_default();
                self.turn = self.turn.saturating_add(bytes.len());
                let found = heads.examine(bytes);
                if matches!(found, Ok(Found::Plain)) {
                    return Poll::Ready(Ok(()));
                }
                self.received = bytes.to_vec();
                // A failed read returns no bytes.
                buf.set_filled(before);
                self.arrange(found)?;
                continue;
            }
            match heads.examine(&self.received) {
                Ok(Found::Incomplete { at: 0 }) => ready!(self.poll_receive_block(cx))?,
                found => self.arrange(found)?,
            }
        }
        self.give_head(buf);
        Poll::Ready(Ok(()))
    }

    /// Reads more of a header block of HTTP/2.
    fn poll_receive_block(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        let before = self.received.len();
        if before > HEAD_BYTES_MAX || !self.share.grow_to(before) {
            return Poll::Ready(Err(ErrorKind::QuotaExceeded.into()));
        }
        let received = self.poll_receive(cx);
        if received.is_pending() {
            self.turn = 0
        } else {
            let more = self.received.len().saturating_sub(before);
            self.turn = self.turn.saturating_add(more);
        }
        received
    }

    /// Moves the bytes that pass from `received` to `head`.
    fn arrange(&mut self, found: std::result::Result<Found, TooManyFields>) -> Result<()> {
        let found = found.map_err(|error| Error::new(ErrorKind::InvalidData, error))?;
        let (passed, block, end) = match found {
            Found::Plain => (self.received.len(), Vec::new(), self.received.len()),
            Found::Incomplete { at } => (at, Vec::new(), at),
            Found::Replaced { at, block, end } => (at, block, end),
            Found::Broken { end } => {
                self.state = State::Refused;
                (end, Vec::new(), self.received.len())
            }
        };
        let rest = self.received.split_off(end.min(self.received.len()));
        self.head = std::mem::replace(&mut self.received, rest);
        self.head.truncate(passed);
        self.head.extend_from_slice(&block);
        self.share.release();
        Ok(())
    }

    /// Reads and discards bytes, so that closing the connection does not reset it before the client has read its
    /// answer.
    fn poll_discard(&mut self, cx: &mut Context<'_>) -> Poll<Result<()>> {
        self.received = Vec::new();
        for _ in 0..DISCARDS_PER_POLL {
            let mut bytes = [0; READ_BYTES];
            let mut piece = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut self.inner).poll_read(cx, &mut piece))?;
            if piece.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for HeadStream<S> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<Result<()>> {
        let this = self.get_mut();
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        loop {
            if !this.head.is_empty() {
                this.give_head(buf);
                return Poll::Ready(Ok(()));
            }
            match &mut this.state {
                State::Head => {
                    // Pass on a complete head before reading more.
                    if this.received.len() > this.searched {
                        this.take_head();
                    }
                    if this.head.is_empty() && matches!(this.state, State::Head) {
                        ready!(this.poll_receive(cx))?;
                    }
                }
                State::Body(0) => {
                    this.inner.set_limit(u64::MAX);
                    this.state = State::Head;
                }
                &mut State::Body(left) => {
                    let limit = usize::try_from(left).unwrap_or(usize::MAX);
                    let mut count = this.give_received(buf, limit);
                    if count == 0 {
                        this.inner.set_limit(left.min(BODY_READ_BYTES));
                        let before = buf.filled().len();
                        ready!(Pin::new(&mut this.inner).poll_read(cx, buf))?;
                        count = buf.filled().len().saturating_sub(before);
                    }
                    let left = left.saturating_sub(u64::try_from(count).unwrap_or(u64::MAX));
                    this.state = State::Body(left);
                    return Poll::Ready(Ok(()));
                }
                State::Unchanged => {
                    if this.give_received(buf, usize::MAX) > 0 {
                        return Poll::Ready(Ok(()));
                    }
                    this.received = Vec::new();
                    this.inner.set_limit(BODY_READ_BYTES);
                    return Pin::new(&mut this.inner).poll_read(cx, buf);
                }
                State::Http2(_) => return this.poll_http2(cx, buf),
                State::Refused => return this.poll_discard(cx),
            }
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for HeadStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<Result<usize>> {
        Pin::new(self.inner.get_mut()).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<Result<usize>> {
        Pin::new(self.inner.get_mut()).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.get_ref().is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(self.inner.get_mut()).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Result<()>> {
        Pin::new(self.inner.get_mut()).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;

    /// Returns what hyper reads if a client sends `sent` in pieces of `piece` bytes.
    async fn pass(sent: &[u8], piece: usize) -> (Vec<u8>, Vec<HeadTarget>) {
        let (mut client, server) = tokio::io::duplex(1 << 16);
        let mut stream = HeadStream::new(server, None, &HeadBudget::default());
        let pending_extras = stream.pending_extras();
        let sent = sent.to_vec();
        let sending = tokio::spawn(async move {
            for part in sent.chunks(piece) {
                client.write_all(part).await.unwrap();
                tokio::task::yield_now().await;
            }
        });
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.unwrap();
        sending.await.unwrap();
        let mut queue = pending_extras.0.lock().unwrap();
        (got, queue.drain(..).map(|beside| beside.target).collect())
    }

    async fn check(sent: &str, want: &str, requests: usize) {
        for piece in [1, 2, 7, 4096, 1 << 20] {
            let (got, targets) = pass(sent.as_bytes(), piece).await;
            assert_eq!(String::from_utf8_lossy(&got), want, "pieces of {piece}");
            assert_eq!(targets.len(), requests, "pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn request_lines_are_rewritten_and_bodies_are_not() {
        check(
            "POST /a< HTTP/1.1\r\ncontent-length: 22\r\n\r\nGET /b< HTTP/1.1\r\na: <GET /c> HTTP/1.1\r\n\r\n",
            "POST /a%3C HTTP/1.1\r\ncontent-length: 22\r\n\r\nGET /b< HTTP/1.1\r\na: <GET /c%3E HTTP/1.1\r\n\r\n",
            2,
        )
        .await;
        // A line end too many after a body.
        check(
            "GET / HTTP/1.1\r\n\r\n\r\nGET /< HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\n\r\nGET /%3C HTTP/1.1\r\n\r\n",
            2,
        )
        .await;
    }

    #[tokio::test]
    async fn bytes_after_a_chunked_request_or_an_upgrade_are_not_changed() {
        let chunked =
            "POST /a HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\nGET /b< HTTP/1.1\r\n\r\n";
        check(chunked, chunked, 1).await;
        let upgrade = "GET /a HTTP/1.1\r\nupgrade: x\r\n\r\nGET /b< HTTP/1.1\r\n\r\n";
        check(upgrade, upgrade, 1).await;
        let http2 = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04GET /b< HTTP/1.1\r\n\r\n";
        check(http2, http2, 0).await;
        // A head that never ends.
        check("GET /b< HTTP/1.1\r\na: b\r\n", "GET /b< HTTP/1.1\r\na: b\r\n", 0).await;
    }

    /// An HTTP/2 connection to which the client sends these bytes and then ends it.
    async fn http2(sent: &[u8]) -> HeadStream<tokio::io::DuplexStream> {
        let (mut client, server) = tokio::io::duplex(1 << 20);
        client.write_all(sent).await.unwrap();
        let budget = HeadBudget::default();
        HeadStream::new(server, Some(ReplacedUrls::new(&budget)), &budget)
    }

    #[tokio::test]
    async fn header_blocks_of_http2_are_examined() {
        let too_many = [&[0, 3, 0xe9, 1, 4, 0, 0, 0, 1][..], &[0xbe; 1001]].concat();
        let mut stream = http2(&[PREFACE, &too_many].concat()).await;
        let error = stream.read_to_end(&mut Vec::new()).await.unwrap_err();
        assert_eq!(error.to_string(), "a request has more than 1000 header fields");

        let ping = [&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], &[7; 8]].concat();
        let request = |url: &[u8; 4]| [&[0, 0, 6, 1, 4, 0, 0, 0, 1, 0x04, 4][..], url].concat();
        let sent = [PREFACE, &ping, &request(b"/a<b"), &ping, &request(b"/c>d"), &ping].concat();
        let want = [PREFACE, &ping, &request(b"/\"00"), &ping, &request(b"/\"10"), &ping].concat();
        for piece in [1, 10, 100, 1000] {
            let (mut client, server) = tokio::io::duplex(piece);
            let budget = HeadBudget::default();
            let mut stream = HeadStream::new(server, Some(ReplacedUrls::new(&budget)), &budget);
            let sending = sent.clone();
            let sending = tokio::spawn(async move { client.write_all(&sending).await });
            let mut got = Vec::new();
            stream.read_to_end(&mut got).await.unwrap();
            sending.await.unwrap().unwrap();
            assert_eq!(got, want, "pieces of {piece}");
        }
    }

    #[tokio::test]
    async fn a_flood_of_frames_gives_others_their_turn() {
        let ping = [&[0, 0, 8, 6, 0, 0, 0, 0, 0][..], &[7; 8]].concat();
        let flood = [PREFACE, &ping.repeat(10_000)].concat();
        let mut stream = http2(&flood).await;
        let (mut polls, mut got) = (0, Vec::new());
        let mut reading = std::pin::pin!(stream.read_to_end(&mut got));
        std::future::poll_fn(|cx| {
            polls += 1;
            reading.as_mut().poll(cx)
        })
        .await
        .unwrap();
        assert!(polls >= flood.len() / TURN_BYTES / 2, "read in {polls} turns");
        assert_eq!(got, flood);
    }

    #[tokio::test]
    async fn a_refused_head_ends_what_hyper_reads() {
        let (got, targets) = pass(b"GET /\x01 HTTP/1.1\r\n\r\nGET /secret HTTP/1.1\r\n\r\n", 4096).await;
        assert_eq!(got, Head::refused(400).bytes);
        assert_eq!(targets, [HeadTarget::Refused(400)]);
        let endless = "a".repeat(HEAD_BYTES_MAX + READ_BYTES);
        let (got, targets) = pass(format!("GET /{endless}").as_bytes(), 4096).await;
        assert_eq!(got, Head::refused(431).bytes);
        assert_eq!(targets, [HeadTarget::Refused(431)]);
    }
}
