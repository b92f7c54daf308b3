//! `Peer`: what is known of the client at the other end of a connection, whatever it requests.

use crate::limits::Admitted;
use pintle_auth::authn::x509::PeerCertificates;
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

/// The client of a connection.
pub(crate) struct Peer {
    /// Where it connects from.
    pub(crate) address: SocketAddr,
    /// The certificates it sent in the handshake.
    pub(crate) certificates: PeerCertificates,
    /// The place of its connection among all.
    pub(crate) admitted: Admitted,
    has_sent_requests: AtomicBool,
    is_known: AtomicBool,
    is_closing: AtomicBool,
}

impl Peer {
    /// The client at `address` that sent these certificates in the handshake, its own first.
    pub(crate) fn new(address: SocketAddr, chain: &[CertificateDer<'_>], admitted: Admitted) -> Self {
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        Peer {
            address,
            certificates: PeerCertificates::new(chain),
            admitted,
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

    /// A request was authenticated: the connection does not give way to those of others any more.
    pub(crate) fn authenticated(&self) {
        if !self.is_known.load(Ordering::Relaxed) {
            self.is_known.store(true, Ordering::Relaxed);
            self.admitted.authenticated();
        }
    }

    /// Takes no further requests: the connection ends when those in flight are answered.
    pub(crate) fn close_after_answers(&self) {
        self.is_closing.store(true, Ordering::Release);
        self.admitted.wake();
    }

    /// Whether no further requests are taken.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Ordering::Acquire)
    }
}
