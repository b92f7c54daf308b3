//! This server among those that share a store: its leases, and the addresses behind the service `kubernetes`.
//!
//! Like kube-apiserver's lease endpoint reconciler: each server renews `masterleases/<address>`, and every server writes
//! the addresses of the live ones into Endpoints and EndpointSlice. `peerserverleases/<identity>` has the address for
//! other servers.

use pintle_engine::{Engine, IDENTITY_LABEL, MASTER_LEASES, PEER_LEASES, Target};
use pintle_meta::Status;
use pintle_meta::options::DeleteOptions;
use pintle_value::Value;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, timeout};

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
const MANAGER: &str = "kube-apiserver";
const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// kube-apiserver's times: the duration of a lease, and how often it is renewed.
const TTL: Duration = Duration::from_secs(15);
const RENEW_EVERY: Duration = Duration::from_secs(10);
/// How often addresses are compared. This is cheap, and clients in the cluster should not wait.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a starting or stopping server waits for its leases.
const JOIN_MAX: Duration = Duration::from_secs(5);

/// The record that a server publishes about itself.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address for clients in the cluster; `None` if the endpoints are managed elsewhere.
    pub advertised: Option<IpAddr>,
    /// The port of the service's endpoints.
    pub port: u16,
    /// The address for other servers; `None` if it is not published.
    pub peer: Option<SocketAddr>,
    /// The name of this server's identity Lease.
    pub identity: String,
}

/// This server as a member.
pub struct Membership {
    engine: Arc<Engine>,
    settings: Settings,
    /// Serializes changes of the leases, so that no renewal follows the removal.
    left: tokio::sync::Mutex<bool>,
    ends: AtomicBool,
    /// What the last reconciliation compared, if it changed nothing.
    confirmed: Mutex<Option<Compared>>,
}

/// What a reconciliation compares. If it is the same again, nothing is decoded.
#[derive(PartialEq, Eq)]
struct Compared {
    addresses: Vec<String>,
    ports: bool,
    /// The revisions of Endpoints and EndpointSlice.
    revisions: [Option<u64>; 2],
}

impl Membership {
    /// A member that has not joined yet.
    pub fn new(engine: Arc<Engine>, settings: Settings) -> Arc<Membership> {
        let left = tokio::sync::Mutex::new(false);
        Arc::new(Membership {
            engine,
            settings,
            left,
            ends: AtomicBool::new(false),
            confirmed: Mutex::default(),
        })
    }

    /// Writes the leases and the endpoints for the first time.
    pub async fn join(&self) {
        if timeout(JOIN_MAX, self.renew(true)).await.is_err() {
            tracing::warn!("the endpoints of the service kubernetes are not published yet");
        }
    }

    /// Maintains leases and endpoints until the server leaves or the cache shuts down.
    pub async fn run(self: Arc<Membership>) {
        let mut renewed = Instant::now();
        loop {
            let is_closed = self.engine.storage().cache().closed_within(LOOK_EVERY).await;
            if is_closed || self.ends.load(Ordering::Acquire) {
                return;
            }
            if self.is_shared() && renewed.elapsed() >= RENEW_EVERY {
                renewed = Instant::now();
                self.renew(false).await;
                continue;
            }
            let left = self.left.lock().await;
            if !*left {
                report(self.reconcile(!self.is_shared()).await);
            }
        }
    }

    /// Removes this server from the endpoints, if other servers remain. Called before the server stops listening.
    pub async fn leave(&self) {
        self.ends.store(true, Ordering::Release);
        if !self.is_shared() {
            return;
        }
        let remove = async {
            *self.left.lock().await = true;
            if let Some(key) = self.peer_key() {
                report(self.engine.storage().remove_member(&key).await);
            }
            if let Some(key) = self.master_key() {
                report(self.engine.storage().remove_member(&key).await);
                report(self.reconcile(true).await);
            }
        };
        if timeout(JOIN_MAX, remove).await.is_err() {
            tracing::warn!("this server could not leave the endpoints of the service kubernetes in time");
        }
    }

    fn is_shared(&self) -> bool {
        self.engine.storage().store().is_shared()
    }

    fn master_key(&self) -> Option<String> {
        self.settings.advertised.map(|address| format!("{MASTER_LEASES}{address}"))
    }

    fn peer_key(&self) -> Option<String> {
        self.settings.peer.map(|_| format!("{PEER_LEASES}{}", self.settings.identity))
    }

    async fn renew(&self, joins: bool) {
        let left = self.left.lock().await;
        if *left {
            return;
        }
        if self.is_shared() {
            report(self.renew_leases().await);
        }
        report(self.reconcile(joins && self.is_alone() || !self.is_shared()).await);
    }

    async fn renew_leases(&self) -> Result<(), Status> {
        if let (Some(key), Some(peer)) = (self.peer_key(), self.settings.peer) {
            let mut endpoints = member(&peer.ip().to_string(), Some(peer.port()));
            let label = ["metadata", "labels", IDENTITY_LABEL];
            endpoints.set_at(&label, self.settings.identity.as_str().into());
            self.engine.storage().renew_member(&key, &endpoints, TTL).await?;
        }
        if let (Some(key), Some(address)) = (self.master_key(), self.settings.advertised) {
            self.engine.storage().renew_member(&key, &member(&address.to_string(), None), TTL).await?;
        }
        Ok(())
    }

    /// The addresses of all live servers, sorted as in Endpoints.
    fn addresses(&self) -> Vec<String> {
        let own = self.settings.advertised.map(|address| address.to_string());
        if self.is_shared() {
            let mut all = self.engine.storage().member_addresses(MASTER_LEASES);
            all.sort();
            all.dedup();
            all
        } else {
            own.into_iter().collect()
        }
    }

    fn is_alone(&self) -> bool {
        let own = self.settings.advertised.map(|address| address.to_string());
        self.addresses().iter().all(|address| Some(address) == own.as_ref())
    }

    /// Updates Endpoints and EndpointSlice to the addresses of the live servers. Ports are compared only if `ports` is true:
    /// servers with different ports would otherwise replace each other's for ever.
    async fn reconcile(&self, ports: bool) -> Result<(), Status> {
        if self.settings.advertised.is_none() {
            return Ok(());
        }
        let ends = self.ends.load(Ordering::Acquire);
        let addresses = self.addresses();
        // This server renewed its own lease, so an empty list means that the cache is behind.
        if addresses.is_empty() && !ends {
            return Ok(());
        }
        let compared = || Compared {
            addresses: addresses.clone(),
            ports,
            revisions: [("", "endpoints"), ("discovery.k8s.io", "endpointslices")]
                .map(|(group, plural)| self.revision(group, plural)),
        };
        let before = compared();
        if self.confirmed().as_ref() == Some(&before) {
            return Ok(());
        }
        self.correct(&addresses, ports, ends).await?;
        // A change, also one of another writer since `before`, is confirmed by the next reconciliation.
        *self.confirmed() = Some(compared()).filter(|after| *after == before);
        Ok(())
    }

    fn confirmed(&self) -> MutexGuard<'_, Option<Compared>> {
        self.confirmed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The revision of the object of the service in this resource; `None` if there is none.
    fn revision(&self, group: &str, plural: &str) -> Option<u64> {
        let storage = self.engine.storage();
        let target = storage.target(group, "v1", plural, NAMESPACE, NAME)?;
        let resource = storage.cache().resource(&target.kind.store_prefix)?;
        Some(resource.get(&target.object_key())?.revision())
    }

    async fn correct(&self, addresses: &[String], ports: bool, ends: bool) -> Result<(), Status> {
        let Some(target) = self.engine.storage().target("", "v1", "endpoints", NAMESPACE, NAME) else {
            return Ok(());
        };
        let port = self.settings.port;
        if self.engine.reader().object_tree(&target)?.is_none() {
            if ends {
                return Ok(());
            }
            self.engine.writer().ensure(&target, MANAGER, new_endpoints(addresses, port)).await?;
        }
        let correct = |live: &mut Value| correct_endpoints(live, addresses, port, ports);
        self.engine.writer().mutate(&target, Some(MANAGER), correct).await?;
        match self.engine.reader().object_tree(&target)? {
            Some(endpoints) => self.reconcile_slice(&slice_of(&endpoints)).await,
            None => Ok(()),
        }
    }

    async fn reconcile_slice(&self, wanted: &Value) -> Result<(), Status> {
        let Some(target) = self.slice_target() else { return Ok(()) };
        if let Some(live) = self.engine.reader().object_tree(&target)?
            && live.str_at(&["addressType"]) != wanted.str_at(&["addressType"])
        {
            let options = DeleteOptions::default();
            let user = self.engine.storage().system_user();
            self.engine.writer().delete(&target, &options, &user, &mut Vec::new()).await?;
        }
        self.engine.writer().ensure(&target, MANAGER, wanted.clone()).await?;
        let correct = |live: &mut Value| {
            for field in ["endpoints", "ports"] {
                live.set_at(&[field], wanted.get(field).cloned().unwrap_or(Value::Null));
            }
            let labels = wanted.at(&["metadata", "labels"]).cloned().unwrap_or(Value::Null);
            live.set_at(&["metadata", "labels"], labels);
        };
        self.engine.writer().mutate(&target, Some(MANAGER), correct).await
    }

    fn slice_target(&self) -> Option<Target> {
        self.engine.storage().target("discovery.k8s.io", "v1", "endpointslices", NAMESPACE, NAME)
    }
}

fn report(result: Result<(), Status>) {
    if let Err(status) = result {
        tracing::warn!(error = %status.message, "the endpoints of the service kubernetes could not be published");
    }
}

/// The value of a lease: Endpoints without a name.
fn member(address: &str, port: Option<u16>) -> Value {
    let mut subset = Value::object();
    subset.set_at(&["addresses"], Value::Array(vec![address_entry(address)]));
    if let Some(port) = port {
        subset.set_at(&["ports"], port_list(port));
    }
    let mut endpoints = Value::object();
    endpoints.set_at(&["kind"], "Endpoints".into());
    endpoints.set_at(&["apiVersion"], "v1".into());
    endpoints.set_at(&["subsets"], Value::Array(vec![subset]));
    endpoints
}

fn address_entry(address: &str) -> Value {
    let mut entry = Value::object();
    entry.set_at(&["ip"], address.into());
    entry
}

fn port_list(port: u16) -> Value {
    let mut entry = Value::object();
    entry.set_at(&["name"], "https".into());
    entry.set_at(&["port"], i64::from(port).into());
    entry.set_at(&["protocol"], "TCP".into());
    Value::Array(vec![entry])
}

fn new_subsets(addresses: &[String], ports: Value) -> Value {
    if addresses.is_empty() {
        return Value::Null;
    }
    let mut subset = Value::object();
    subset.set_at(&["addresses"], Value::Array(addresses.iter().map(|a| address_entry(a)).collect()));
    subset.set_at(&["ports"], ports);
    Value::Array(vec![subset])
}

fn new_endpoints(addresses: &[String], port: u16) -> Value {
    let mut endpoints = Value::object();
    for (path, text) in [
        (&["kind"] as &[&str], "Endpoints"),
        (&["apiVersion"], "v1"),
        (&["metadata", "name"], NAME),
        (&["metadata", "namespace"], NAMESPACE),
        (&["metadata", "labels", SKIP_MIRROR], "true"),
    ] {
        endpoints.set_at(path, text.into());
    }
    endpoints.set_at(&["subsets"], new_subsets(addresses, port_list(port)));
    endpoints
}

/// Corrects what differs: there must be one subset with these addresses in any order, and with this port if `ports` is true.
fn correct_endpoints(live: &mut Value, addresses: &[String], port: u16, ports: bool) {
    if live.str_at(&["metadata", "labels", SKIP_MIRROR]) != "true" {
        live.set_at(&["metadata", "labels", SKIP_MIRROR], "true".into());
    }
    let [subset] = live.items_at(&["subsets"]) else {
        live.set_at(&["subsets"], new_subsets(addresses, port_list(port)));
        return;
    };
    let mut known: Vec<&str> = subset.items_at(&["addresses"]).iter().map(|a| a.str_at(&["ip"])).collect();
    known.sort_unstable();
    let live_ports = subset.get("ports").cloned().unwrap_or_else(|| port_list(port));
    let wanted_ports = if ports { port_list(port) } else { live_ports.clone() };
    if !known.iter().copied().eq(addresses.iter().map(String::as_str)) || live_ports != wanted_ports {
        live.set_at(&["subsets"], new_subsets(addresses, wanted_ports));
    }
}

/// The EndpointSlice with the same content as Endpoints.
fn slice_of(endpoints: &Value) -> Value {
    let subset = endpoints.items_at(&["subsets"]).first();
    let addresses = subset.map(|subset| subset.items_at(&["addresses"])).unwrap_or_default();
    let addresses: Vec<&str> = addresses.iter().map(|entry| entry.str_at(&["ip"])).collect();
    let is_v6 = |address: &&str| address.contains(':');
    let all_v6 = !addresses.is_empty() && addresses.iter().all(is_v6);
    let entry = |address: &str| {
        let mut entry = Value::object();
        entry.set_at(&["addresses"], Value::Array(vec![address.into()]));
        entry.set_at(&["conditions", "ready"], true.into());
        entry
    };
    let entries = addresses.iter().filter(|address| is_v6(address) == all_v6).map(|address| entry(address));
    let mut slice = Value::object();
    for (path, text) in [
        (&["kind"] as &[&str], "EndpointSlice"),
        (&["apiVersion"], "discovery.k8s.io/v1"),
        (&["metadata", "name"], NAME),
        (&["metadata", "namespace"], NAMESPACE),
        (&["metadata", "labels", SERVICE_NAME], NAME),
        (&["addressType"], if all_v6 { "IPv6" } else { "IPv4" }),
    ] {
        slice.set_at(path, text.into());
    }
    slice.set_at(&["endpoints"], Value::Array(entries.collect()));
    slice.set_at(&["ports"], subset.and_then(|subset| subset.get("ports")).map_or(Value::Null, named_ports));
    slice
}

/// The ports of Endpoints as those of an EndpointSlice, in which a port without a name has an empty one.
fn named_ports(ports: &Value) -> Value {
    let mut ports = ports.clone();
    for port in ports.as_array_mut().into_iter().flatten() {
        if port.get("name").is_none() {
            port.set_at(&["name"], "".into());
        }
    }
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(endpoints: &Value) -> Vec<String> {
        let subset = endpoints.items_at(&["subsets"]).first();
        let entries = subset.map(|subset| subset.items_at(&["addresses"])).unwrap_or_default();
        entries.iter().map(|entry| entry.str_at(&["ip"]).to_owned()).collect()
    }

    #[test]
    fn endpoints_are_corrected_only_where_they_are_wrong() {
        let two = ["192.0.2.1".to_owned(), "192.0.2.2".to_owned()];
        let mut live = new_endpoints(&two[..1], 6443);
        correct_endpoints(&mut live, &two, 7000, false);
        assert_eq!(addresses(&live), two);
        assert_eq!(
            live.items_at(&["subsets"])[0].get("ports"),
            Some(&port_list(6443)),
            "of the first server"
        );
        correct_endpoints(&mut live, &two[1..], 7000, true);
        assert_eq!(live, new_endpoints(&two[1..], 7000));
        correct_endpoints(&mut live, &[], 7000, true);
        assert_eq!(addresses(&live), Vec::<String>::new());
    }

    #[test]
    fn ports_of_slices_have_names() {
        let mut endpoints = new_endpoints(&["192.0.2.1".to_owned()], 6443);
        let named = slice_of(&endpoints);
        assert_eq!(named.items_at(&["ports"])[0].str_at(&["name"]), "https");
        let mut port = Value::object();
        port.set_at(&["port"], Value::Int(1));
        endpoints.at_mut(&["subsets"]).and_then(Value::as_array_mut).unwrap()[0]
            .set_at(&["ports"], Value::Array(vec![port]));
        assert_eq!(slice_of(&endpoints).items_at(&["ports"])[0].get("name"), Some(&"".into()));
    }

    #[test]
    fn slices_are_of_one_family() {
        for (given, family, kept) in [
            (&["192.0.2.1", "2001:db8::1"][..], "IPv4", 1),
            (&["2001:db8::1", "2001:db8::2"], "IPv6", 2),
            (&[], "IPv4", 0),
        ] {
            let given: Vec<String> = given.iter().map(|text| (*text).to_owned()).collect();
            let slice = slice_of(&new_endpoints(&given, 6443));
            assert_eq!(
                (slice.str_at(&["addressType"]), slice.items_at(&["endpoints"]).len()),
                (family, kept)
            );
        }
    }
}
