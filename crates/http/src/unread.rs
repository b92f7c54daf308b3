//! Answers that their clients do not read: long ones are sent in pieces, and a client that takes too few of them loses its
//! connection.
//!
//! The HTTP/2 library takes what a body gives it and holds it until the client opens its window, which may be never. A
//! connection has hundreds of streams, so whole answers of a megabyte would take hundreds of megabytes. A request holds its
//! seat until its last piece is taken, so that flow control limits how many such answers there are.

use crate::body::{Aborted, Body, Chunks};
use crate::peer::Peer;
use crate::turns::EXEMPT;
use bytes::{Buf, Bytes};
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, sleep_until};

/// Whole answers that are longer are sent in pieces of this size. The connection holds two of them for a client that does not read.
const PIECE_BYTES: usize = 16 * 1024;
/// How much of an answer a client must take in each interval after the request's time is over.
const INTERVAL: Duration = Duration::from_secs(15);
const BYTES_PER_INTERVAL: u64 = 64 * 1024;
/// How much memory long whole answers to one user may take until they are sent. Beyond that, connections are closed whose clients
/// have taken nothing for so long, the oldest first.
const BYTES_PER_USER_MAX: u64 = 128 * 1024 * 1024;
const STALLED_MS: u64 = 1000;

/// How many bytes of an answer are in memory until it is sent; 0 for short ones and those that are made while they are sent.
pub(crate) fn bytes_held(body: &Body) -> u64 {
    match body {
        Body::Full(bytes) if bytes.len() > PIECE_BYTES => u64::try_from(bytes.len()).unwrap_or(u64::MAX),
        _ => 0,
    }
}

/// Returns the body in pieces, if it is long.
pub(crate) fn in_pieces(body: Body) -> Body {
    match body {
        Body::Full(bytes) if bytes.len() > PIECE_BYTES => Body::Chunks(Box::pin(Pieces(bytes))),
        body => body,
    }
}

/// The rest of a whole answer.
struct Pieces(Bytes);

impl Chunks for Pieces {
    fn poll_chunk(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Bytes, Aborted>>> {
        let rest = &mut self.0;
        // Copies: a slice would hold the whole answer in memory until the client has read the piece.
        let piece = Bytes::copy_from_slice(rest.get(..PIECE_BYTES).unwrap_or(rest));
        rest.advance(piece.len());
        Poll::Ready((!piece.is_empty()).then_some(Ok(piece)))
    }

    fn remaining(&self) -> Option<u64> {
        u64::try_from(self.0.len()).ok()
    }
}

/// The long whole answers that are being sent, by user.
#[derive(Default)]
pub struct UnreadAnswers(Mutex<HashMap<u64, Vec<Arc<Progress>>>>);

impl UnreadAnswers {
    /// Adds an answer, and closes the connections of others of the same user if together they are too long.
    fn add(&self, user: u64, progress: &Arc<Progress>) {
        let mut all = self.lock();
        let of_user = all.entry(user).or_default();
        let mut bytes: u64 = of_user.iter().map(|answer| answer.bytes_left()).sum();
        for answer in of_user.iter().filter(|_| user != EXEMPT) {
            if bytes <= BYTES_PER_USER_MAX {
                break;
            }
            if answer.is_stalled() {
                bytes = bytes.saturating_sub(answer.bytes_left());
                answer.close();
            }
        }
        of_user.push(Arc::clone(progress));
    }

    fn remove(&self, user: u64, progress: &Arc<Progress>) {
        let mut all = self.lock();
        let Some(of_user) = all.get_mut(&user) else { return };
        of_user.retain(|answer| !Arc::ptr_eq(answer, progress));
        if of_user.is_empty() {
            all.remove(&user);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Vec<Arc<Progress>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How much of an answer its client has taken.
struct Progress {
    peer: Weak<Peer>,
    began: Instant,
    /// The size of a whole answer, which is in memory until it is sent; 0 for others.
    bytes: u64,
    taken: AtomicU64,
    /// When the last piece was taken, in milliseconds since `began`.
    taken_at: AtomicU64,
    /// Whether the next piece is not there yet: the client is not to blame.
    waits_for_server: AtomicBool,
}

impl Progress {
    fn bytes_left(&self) -> u64 {
        self.bytes.saturating_sub(self.taken.load(Ordering::Relaxed))
    }

    fn milliseconds(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn is_stalled(&self) -> bool {
        self.milliseconds().saturating_sub(self.taken_at.load(Ordering::Relaxed)) >= STALLED_MS
    }

    fn close(&self) {
        if let Some(peer) = self.peer.upgrade() {
            tracing::debug!(client = %peer.address, "an answer was not read");
            peer.close_now();
        }
    }
}

/// An answer while it is sent; its connection is closed if the client takes too little of it.
pub(crate) struct Reading {
    answers: Arc<UnreadAnswers>,
    user: u64,
    progress: Arc<Progress>,
    check: AbortHandle,
}

impl Reading {
    /// Begins to send an answer to a user, of which `bytes` are in memory. From `deadline` on, the client must take enough of it.
    pub(crate) fn begin(
        answers: &Arc<UnreadAnswers>,
        peer: &Arc<Peer>,
        bytes: u64,
        deadline: Option<std::time::Instant>,
    ) -> Reading {
        let progress = Arc::new(Progress {
            peer: Arc::downgrade(peer),
            began: Instant::now(),
            bytes,
            taken: AtomicU64::new(0),
            taken_at: AtomicU64::new(0),
            waits_for_server: AtomicBool::new(false),
        });
        let user = peer.turns.key();
        if bytes > 0 {
            answers.add(user, &progress);
        }
        let deadline = deadline.map_or_else(Instant::now, Instant::from_std);
        let check = tokio::spawn(check(Arc::clone(&progress), deadline)).abort_handle();
        Reading { answers: Arc::clone(answers), user, progress, check }
    }

    /// Notes that the client took a piece, or that there is none for it yet.
    pub(crate) fn polled<E>(&self, piece: &Poll<Option<Result<Bytes, E>>>) {
        self.progress.waits_for_server.store(piece.is_pending(), Ordering::Relaxed);
        if let Poll::Ready(Some(Ok(piece))) = piece {
            let bytes = u64::try_from(piece.len()).unwrap_or(u64::MAX);
            self.progress.taken.fetch_add(bytes, Ordering::Relaxed);
            self.progress.taken_at.store(self.progress.milliseconds(), Ordering::Relaxed);
        }
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.check.abort();
        if self.progress.bytes > 0 {
            self.answers.remove(self.user, &self.progress);
        }
    }
}

/// Closes the connection if too little of the answer is taken.
async fn check(progress: Arc<Progress>, deadline: Instant) {
    sleep_until(deadline).await;
    loop {
        let before = progress.taken.load(Ordering::Relaxed);
        sleep(INTERVAL).await;
        let taken = progress.taken.load(Ordering::Relaxed).saturating_sub(before);
        if taken < BYTES_PER_INTERVAL && !progress.waits_for_server.load(Ordering::Relaxed) {
            return progress.close();
        }
    }
}
