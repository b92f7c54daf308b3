//! `Peer`: what is known of the client at the other end of a connection, whatever it requests.

use pintle_auth::authn::x509::PeerCertificates;
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;

/// The client of a connection.
pub(crate) struct Peer {
    /// Where it connects from.
    pub(crate) address: SocketAddr,
    /// The certificates it sent in the handshake.
    pub(crate) certificates: PeerCertificates,
}

impl Peer {
    /// The client at `address` that sent these certificates in the handshake, its own first.
    pub(crate) fn new(address: SocketAddr, chain: &[CertificateDer<'_>]) -> Self {
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        Peer { address, certificates: PeerCertificates::new(chain) }
    }
}
