//! Requests for resources that another server on the same store serves and this one does not, for instance during an upgrade
//! (feature gate `UnknownVersionInteroperabilityProxy` with `--peer-ca-file`).

use crate::api::ApiResponse;
use crate::discovery::{DiscoveryState, Merged};
use crate::negotiate::Encoding;
use crate::requestinfo::RequestInfo;
use crate::respond;
use http::HeaderMap;
use pintle_controllers::peers::{PROXIED, Peers, Served};
use pintle_meta::Status;
use pintle_metrics::families;
use pintle_proxy::Address;
use std::sync::{Arc, Mutex, PoisonError};

/// The peers of this server, and the discovery documents that include theirs.
pub struct PeerProxy {
    pub(crate) peers: Arc<Peers>,
    merged: Mutex<Option<Cached>>,
}

/// A merged document, and what it was made from.
struct Cached {
    state: Arc<DiscoveryState>,
    served: Arc<Served>,
    merged: Arc<Merged>,
}

impl PeerProxy {
    /// A proxy to these peers.
    pub fn new(peers: Arc<Peers>) -> Self {
        PeerProxy { peers, merged: Mutex::default() }
    }

    /// Where to send a request that this server does not serve but a peer does; `None` for all others. The error is the answer.
    pub(crate) fn find(
        &self,
        state: &DiscoveryState,
        info: &RequestInfo,
        headers: &HeaderMap,
        errors: Option<Encoding>,
    ) -> Option<Result<Address, ApiResponse>> {
        let is_forwarded = headers.get(PROXIED).is_some_and(|value| value == "true");
        if !info.resource_request || is_forwarded {
            return None;
        }
        let (group, version, resource) = (&*info.group, &*info.version, &*info.resource);
        let own = state.group(group).and_then(|group| group.version(version));
        if own.is_some_and(|version| version.resource(resource).is_some()) {
            return None;
        }
        let served = self.peers.served();
        let serving = served.by(group, version, resource);
        if serving.is_empty() {
            return None;
        }
        let mut addresses = self.peers.addresses(&serving);
        if addresses.is_empty() {
            families::PEER_ERRORS.inc(&[group, resource, "endpoint_resolution", version]);
            let why = "Error getting ip and port info of the remote server while proxying";
            return Some(Err(respond::status(&Status::service_unavailable(why), errors)));
        }
        let mut random = [0; 8];
        _ = aws_lc_rs::rand::fill(&mut random);
        let at = usize::from_le_bytes(random).checked_rem(addresses.len()).unwrap_or(0);
        Some(Ok(addresses.swap_remove(at)))
    }

    /// The aggregated discovery of this server and its peers.
    pub(crate) fn merged(&self, state: &Arc<DiscoveryState>) -> Arc<Merged> {
        let served = self.peers.served();
        let mut cached = self.merged.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(cached) = &*cached
            && Arc::ptr_eq(&cached.state, state)
            && Arc::ptr_eq(&cached.served, &served)
        {
            families::DISCOVERY_PEER_HITS.inc(&[]);
            return cached.merged.clone();
        }
        families::DISCOVERY_PEER_MISSES.inc(&[]);
        let merged = Arc::new(Merged::new(state, self.peers.own_name(), &served));
        *cached = Some(Cached { state: state.clone(), served, merged: merged.clone() });
        merged
    }
}
