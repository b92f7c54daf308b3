//! `Peer`: what is known about the client of a connection, independent of its requests.

use crate::limits::Admitted;
use crate::negotiate::LastAccept;
use crate::turns::ClientTurns;
use pintle_auth::authn::x509::PeerCertificates;
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The client of a connection.
pub(crate) struct Peer {
    /// The remote address.
    pub(crate) address: SocketAddr,
    /// The certificates that the client sent in the handshake.
    pub(crate) certificates: PeerCertificates,
    /// The connection's slot in the connection limits.
    pub(crate) admitted: Admitted,
    /// The turns in which the connection is read and its requests run.
    pub(crate) turns: Arc<ClientTurns>,
    /// The peer's last `Accept` header.
    pub(crate) last_accept: LastAccept,
    has_sent_requests: AtomicBool,
    is_known: AtomicBool,
    is_closing: AtomicBool,
    is_cut_off: AtomicBool,
    is_visitor: AtomicBool,
    answers: AtomicUsize,
    running: AtomicUsize,
    watches: AtomicBool,
}

/// See [`Peer::run`].
pub(crate) struct Running<'a>(&'a Peer);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Peer {
    /// The client at `address` with the certificates of the handshake, its own first.
    pub(crate) fn new(
        address: SocketAddr,
        chain: &[CertificateDer<'_>],
        admitted: Admitted,
        turns: Arc<ClientTurns>,
    ) -> Self {
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        Peer {
            address,
            certificates: PeerCertificates::new(chain),
            admitted,
            turns,
            last_accept: LastAccept::default(),
            has_sent_requests: AtomicBool::new(false),
            is_known: AtomicBool::new(false),
            is_closing: AtomicBool::new(false),
            is_cut_off: AtomicBool::new(false),
            is_visitor: AtomicBool::new(false),
            answers: AtomicUsize::new(0),
            running: AtomicUsize::new(0),
            watches: AtomicBool::new(false),
        }
    }

    /// A request came.
    pub(crate) fn received_request(&self) {
        self.has_sent_requests.store(true, Ordering::Relaxed);
    }

    /// Whether any request came.
    pub(crate) fn has_sent_requests(&self) -> bool {
        self.has_sent_requests.load(Ordering::Relaxed)
    }

    /// Returns whether a request on the connection was authenticated.
    pub(crate) fn is_authenticated(&self) -> bool {
        self.is_known.load(Ordering::Relaxed)
    }

    /// Returns whether no request on the connection was authenticated, and no further ones are accepted.
    pub(crate) fn is_unknown_and_closing(&self) -> bool {
        !self.is_authenticated() && self.is_closing()
    }

    /// Counts a request until the guard is dropped.
    pub(crate) fn run(&self) -> Running<'_> {
        self.running.fetch_add(1, Ordering::Relaxed);
        Running(self)
    }

    /// Notes that an answer lasts, such as a watch.
    pub(crate) fn began_to_watch(&self) {
        self.watches.store(true, Ordering::Relaxed);
    }

    /// Returns whether all requests of an unauthenticated client that are accepted were answered.
    fn only_has_to_read(&self) -> bool {
        self.is_unknown_and_closing()
            && self.running.load(Ordering::Relaxed) == 0
            && !self.watches.load(Ordering::Relaxed)
    }

    /// Notes that an unauthenticated client loads the console.
    pub(crate) fn visits(&self) {
        self.is_visitor.store(true, Ordering::Relaxed);
    }

    /// Returns whether a timer limits the connection: until its first request comes, while an unauthenticated client has
    /// loaded the console and not signed in, and once such a client only has to read.
    pub(crate) fn is_timed(&self) -> bool {
        match self.is_closing() {
            true => self.only_has_to_read(),
            false => {
                let visits = self.is_visitor.load(Ordering::Relaxed) && !self.is_authenticated();
                visits || !self.has_sent_requests()
            }
        }
    }

    /// Counts an answer on a connection without credentials; returns how many there were.
    pub(crate) fn count_answer(&self) -> usize {
        self.answers.fetch_add(1, Ordering::Relaxed).saturating_add(1)
    }

    /// Marks the connection as authenticated: it is no longer evicted.
    pub(crate) fn authenticated(&self) {
        if !self.is_authenticated() {
            self.is_known.store(true, Ordering::Relaxed);
            self.admitted.authenticated();
        }
    }

    /// Stops accepting requests: the connection ends when those in flight are answered.
    pub(crate) fn close_after_answers(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.admitted.wake();
    }

    /// Returns whether further requests are refused.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }

    /// Closes the connection without waiting for anything.
    pub(crate) fn close_now(&self) {
        self.is_cut_off.store(true, Ordering::Release);
        self.admitted.wake();
    }

    /// Returns whether [`Peer::close_now`] was called.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Ordering::Acquire)
    }
}
