//! `Peer`: what is known about the client of a connection, independent of its requests.

use crate::limits::Admitted;
use crate::negotiate::LastAccept;
use crate::turns::ClientTurns;
use pintle_auth::authn::x509::PeerCertificates;
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The client of a connection.
pub(crate) struct Peer {
    /// The remote address.
    pub(crate) address: SocketAddr,
    /// The certificates it sent in the handshake.
    pub(crate) certificates: PeerCertificates,
    /// The connection's slot in the connection limits.
    pub(crate) admitted: Admitted,
    /// When the connection is read from and its requests run.
    pub(crate) turns: Arc<ClientTurns>,
    /// The peer's last `Accept` header.
    pub(crate) last_accept: LastAccept,
    has_sent_requests: AtomicBool,
    is_known: AtomicBool,
    is_closing: AtomicBool,
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

    /// Marks the connection as authenticated: it is no longer evicted.
    pub(crate) fn authenticated(&self) {
        if !self.is_known.load(Ordering::Relaxed) {
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
}
