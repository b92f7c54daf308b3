//! Other servers on the same store: what they serve and where they are. Requests for resources that only another server serves
//! are forwarded to it, and discovery lists them (feature gate `UnknownVersionInteroperabilityProxy` with `--peer-ca-file`).
//!
//! As in kube-apiserver, the discovery documents of the others are fetched when an identity Lease appears, disappears or changes its
//! holder. What definitions and aggregated APIServices serve is left out: every server knows these objects itself, and the document of
//! a peer may be older than they are.

mod exclusion;

use crate::aggregation::{RemoteGroup, remote_groups};
use crate::identity;
use arc_swap::ArcSwap;
use exclusion::Exclusions;
use http::header::{ACCEPT, HOST, HeaderName, HeaderValue, USER_AGENT};
use http::{Method, Request, Uri};
use pintle_engine::{Engine, PEER_LEASES};
use pintle_metrics::families;
use pintle_proxy::header::RemoteUser;
use pintle_proxy::{Address, Dialer, Identity, TlsOptions, Transport, Trust, empty_body};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Marks requests that a peer has forwarded: they are answered here or not at all.
pub const PROXIED: HeaderName = HeaderName::from_static("x-kubernetes-peer-proxied");
/// The name that the certificates of peers must have.
const SERVER_NAME: &str = "kubernetes.default.svc";
/// The formats of discovery that are requested, best first.
const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,\
                         application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";
/// The largest document that is read, and the longest time it may take.
const DOCUMENT_BYTES_MAX: usize = 32 << 20;
const DOCUMENT_TIME_MAX: Duration = Duration::from_secs(5);
/// How many peers are known at most.
const PEERS_MAX: usize = 100;
/// How often leases and definitions are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The delays before a failed fetch is retried, and how often.
const RETRY_MIN: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_secs(1000);
const RETRIES_MAX: u32 = 20;

/// The connections to peers: their certificates must be of this authority, and this server shows its client certificate.
pub fn transport(
    authority: &[u8],
    certificate: &[u8],
    key: &[u8],
    dialer: Dialer,
) -> Result<Transport, String> {
    let identity = Identity::from_pem(certificate, key)?;
    let options = TlsOptions::new(Trust::Bundle(authority), Some(SERVER_NAME.to_string()), Some(identity))?;
    Ok(Transport::new(dialer, Some(options)))
}

/// The other servers.
pub struct Peers {
    engine: Arc<Engine>,
    /// The name of this server's identity Lease.
    own: String,
    transport: Arc<Transport>,
    served: ArcSwap<Served>,
}

/// What all peers serve.
#[derive(Default)]
pub struct Served {
    /// What each peer serves, by the name of its identity Lease.
    peers: BTreeMap<String, Arc<PeerResources>>,
}

/// What one peer serves.
#[derive(Clone, Default)]
struct PeerResources {
    /// Group, version and resource.
    resources: BTreeSet<(String, String, String)>,
    /// The named groups of its discovery.
    groups: Vec<RemoteGroup>,
}

impl Peers {
    /// The peers of the server with this name, which are reached with `transport`.
    pub fn new(engine: Arc<Engine>, own: &str, transport: Arc<Transport>) -> Arc<Self> {
        Arc::new(Peers { engine, own: own.to_string(), transport, served: ArcSwap::default() })
    }

    /// The name of this server's identity Lease.
    pub fn own_name(&self) -> &str {
        &self.own
    }

    /// The connections to peers.
    pub fn transport(&self) -> &Transport {
        &self.transport
    }

    /// What the peers serve now.
    pub fn served(&self) -> Arc<Served> {
        self.served.load_full()
    }

    /// The addresses of the live ones among these peers.
    pub fn addresses(&self, peers: &[&str]) -> Vec<Address> {
        peers.iter().filter_map(|peer| self.address(peer)).collect()
    }

    fn address(&self, peer: &str) -> Option<Address> {
        let (host, port) = self.engine.storage().member_endpoint(PEER_LEASES, peer)?;
        Some(Address { tls: true, host, port, checked: Vec::new() })
    }

    /// Follows the identity Leases until the cache shuts down.
    pub async fn run(self: Arc<Self>) {
        let mut work = Work::default();
        loop {
            let live = identity::holders(&self.engine);
            if work.leases.as_ref() != Some(&live) {
                work.leases = Some(live);
                work.due = Some(Instant::now());
                work.failures = 0;
            }
            let excluded_changed = work.exclusions.update(&self.engine, Instant::now());
            let is_due = work.due.is_some_and(|due| due <= Instant::now());
            if is_due {
                self.fetch_all(&mut work).await;
            }
            if is_due || excluded_changed {
                self.publish(&work);
            }
            let pause = work.due.map_or(LOOK_EVERY, |due| due.saturating_duration_since(Instant::now()));
            if self.engine.storage().cache().closed_within(pause.min(LOOK_EVERY)).await {
                return;
            }
        }
    }

    async fn fetch_all(&self, work: &mut Work) {
        let mut failed = None;
        let mut known = BTreeMap::new();
        let names = work.leases.iter().flat_map(|leases| leases.keys());
        for name in names.filter(|name| **name != self.own).take(PEERS_MAX) {
            match self.fetch(name).await {
                Ok(served) => _ = known.insert(name.clone(), Arc::new(served)),
                Err(why) => failed = Some(why),
            }
        }
        work.known = known;
        work.due = None;
        if let Some(why) = failed {
            work.failures = work.failures.saturating_add(1);
            tracing::info!("the discovery of a peer could not be fetched: {why}");
            if work.failures <= RETRIES_MAX {
                let delay = RETRY_MIN.saturating_mul(2u32.saturating_pow(work.failures.saturating_sub(1)));
                work.due = Instant::now().checked_add(delay.min(RETRY_MAX));
            }
        }
    }

    /// Fetches what a peer serves.
    async fn fetch(&self, peer: &str) -> Result<PeerResources, String> {
        let Some(address) = self.address(peer) else {
            families::PEER_SYNC_ERRORS.inc(&["hostport_resolution"]);
            return Err(format!("{peer} has published no address"));
        };
        let mut served = PeerResources::default();
        for path in ["/api", "/apis"] {
            let groups = match self.fetch_discovery(&address, path).await {
                Ok(groups) => groups,
                Err(why) => {
                    families::PEER_SYNC_ERRORS.inc(&["fetch_discovery"]);
                    return Err(format!("{path} of {peer}: {why}"));
                }
            };
            for group in groups {
                for (version, described) in &group.versions {
                    let resources = described.resources.iter().map(|resource| resource.resource.clone());
                    let all = resources.map(|resource| (group.name.clone(), version.clone(), resource));
                    served.resources.extend(all);
                }
                // The core group is not part of `/apis`.
                if !group.name.is_empty() && !served.groups.iter().any(|known| known.name == group.name) {
                    served.groups.push(group);
                }
            }
        }
        Ok(served)
    }

    async fn fetch_discovery(
        &self,
        address: &Address,
        path: &'static str,
    ) -> Result<Vec<RemoteGroup>, String> {
        let request = request(address, path).ok_or("the address cannot be written in a header")?;
        let exchange = async {
            let answer = self.transport.send(address, request).await.map_err(|why| {
                count("503", "", "", "");
                why.to_string()
            })?;
            count(answer.status().as_str(), "", "", "");
            if answer.status() != http::StatusCode::OK {
                return Err(format!("discovery request failed with status: {}", answer.status().as_u16()));
            }
            let body = pintle_proxy::read_whole(answer.into_body(), DOCUMENT_BYTES_MAX).await;
            body.map_err(|why| why.to_string())
        };
        let exchange = tokio::time::timeout(DOCUMENT_TIME_MAX, exchange).await;
        let body = exchange.map_err(|_| "context deadline exceeded".to_string())??;
        remote_groups(&body).ok_or_else(|| "error decoding discovery response".to_string())
    }

    fn publish(&self, work: &Work) {
        let peers = work.known.iter();
        let peers = peers.map(|(name, served)| (name.clone(), work.exclusions.filter(served))).collect();
        self.served.store(Arc::new(Served { peers }));
    }
}

impl Served {
    /// The peers that serve a resource.
    pub fn by(&self, group: &str, version: &str, resource: &str) -> Vec<&str> {
        if self.peers.is_empty() {
            return Vec::new();
        }
        let wanted = (group.to_string(), version.to_string(), resource.to_string());
        let serving = self.peers.iter().filter(|(_, served)| served.resources.contains(&wanted));
        serving.map(|(name, _)| name.as_str()).collect()
    }

    /// The named groups of each peer, in the order of their names.
    pub fn groups(&self) -> impl Iterator<Item = (&str, &[RemoteGroup])> {
        self.peers.iter().map(|(name, served)| (name.as_str(), served.groups.as_slice()))
    }
}

/// The state of the task that follows the leases.
#[derive(Default)]
struct Work {
    /// The holders of identity Leases by name; `None` before the first look.
    leases: Option<BTreeMap<String, String>>,
    known: BTreeMap<String, Arc<PeerResources>>,
    exclusions: Exclusions,
    /// When to fetch.
    due: Option<Instant>,
    failures: u32,
}

/// Counts a request that a peer answered; one without a resource is for discovery.
pub fn count(code: &str, group: &str, version: &str, resource: &str) {
    families::PEER_REQUESTS.inc(&[code, group, resource, version]);
}

/// A request for discovery, from this server itself.
fn request(address: &Address, path: &'static str) -> Option<Request<pintle_proxy::RequestBody>> {
    let mut request = Request::new(empty_body());
    *request.method_mut() = Method::GET;
    *request.uri_mut() = Uri::from_static(path);
    let headers = request.headers_mut();
    let user = RemoteUser {
        name: "system:apiserver",
        uid: "system:apiserver",
        groups: vec!["system:authenticated"],
        extra: Vec::new(),
    };
    user.set(headers).ok()?;
    headers.insert(HOST, HeaderValue::from_str(&address.authority()).ok()?);
    headers.insert(USER_AGENT, HeaderValue::from_static("Go-http-client/1.1"));
    headers.insert(ACCEPT, HeaderValue::from_static(DISCOVERY));
    headers.insert(PROXIED, HeaderValue::from_static("true"));
    Some(request)
}
