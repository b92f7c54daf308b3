//! `Peer`: what is known of the client at the other end of a connection, whatever it requests.

use pintle_auth::authn::x509::{CertificateIdentity, ClientAuthorities, Verdict};
use rustls::pki_types::{CertificateDer, UnixTime};
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{SystemTime, UNIX_EPOCH};

/// The client of a connection.
pub(crate) struct Peer {
    /// Where it connects from.
    pub(crate) address: SocketAddr,
    /// The certificates it sent, its own first.
    chain: Vec<CertificateDer<'static>>,
    verdict: Mutex<Option<Verdict>>,
}

impl Peer {
    /// The client at `address` that sent these certificates in the handshake, its own first.
    pub(crate) fn new(address: SocketAddr, chain: &[CertificateDer<'_>]) -> Self {
        let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
        Peer { address, chain, verdict: Mutex::default() }
    }

    /// The user whom the client's certificate names at this time. Asked for each request, as in kube-apiserver: a
    /// certificate that expires, or whose authority is taken back, is not good any more on a connection that was
    /// opened before. The chain is only verified anew when the verdict may have changed.
    pub(crate) fn identity(
        &self,
        authorities: Option<&ClientAuthorities>,
        now: SystemTime,
    ) -> CertificateIdentity {
        let (false, Some(authorities)) = (self.chain.is_empty(), authorities) else { return Ok(None) };
        let now = UnixTime::since_unix_epoch(now.duration_since(UNIX_EPOCH).unwrap_or_default());
        // A thread that panicked while it held the lock has left nothing behind that could be wrong.
        let mut verdict = self.verdict.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        match &*verdict {
            Some(verdict) if verdict.holds(authorities, now) => verdict.identity.clone(),
            _ => verdict.insert(authorities.verify(&self.chain, now)).identity.clone(),
        }
    }
}
