//! APIServices: which server serves a version of a group, whether it is available, and its discovery and OpenAPI
//! documents. One task follows the objects; every extension server is checked by its own task, so that a dead one
//! delays nothing.

mod availability;
mod discovery;
mod openapi_v3;
mod resolve;

use arc_swap::ArcSwap;
pub(crate) use discovery::remote_groups;
pub use discovery::{
    ConvertedV3, RemoteGroup, RemoteKind, RemoteResource, RemoteSpec, RemoteSubresource, RemoteV3,
    RemoteVersion,
};
use imbl::OrdMap;
use pintle_cache::{CloseReason, Item};
use pintle_engine::services::{ENDPOINT_SLICES, SERVICE_NAME};
use pintle_engine::{Engine, Target};
use pintle_metrics::families;
use pintle_proxy::{Address, Dialer, Identity, TlsOptions, Transport, Trust};
use pintle_value::{Str, Value, base64, json};
use resolve::LastResolution;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

const PREFIX: &str = "/registry/apiregistration.k8s.io/apiservices/";
const SERVICES: &str = "/registry/services/specs/";
const MANAGER: &str = "kube-apiserver";
/// How often every extension server is checked.
const RESYNC: Duration = Duration::from_secs(30);
/// The first and the longest delay before a failed check is retried.
const RETRY_MIN: Duration = Duration::from_millis(5);
const RETRY_MAX: Duration = Duration::from_secs(30);
/// How often the client certificate files are checked.
const CERTIFICATE_POLL: Duration = Duration::from_secs(5);

/// The flags of aggregation.
#[derive(Clone, Default)]
pub struct AggregationSettings {
    /// How extension servers are reached.
    pub dialer: Dialer,
    /// The client certificate and key files for extension servers.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
    /// Whether redirects of extension servers are passed on to clients instead of being rejected.
    pub forwards_redirects: bool,
}

/// The service of an extension server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceReference {
    /// Namespace.
    pub namespace: Str,
    /// Name.
    pub name: Str,
    /// Port of the service.
    pub port: u16,
}

/// An APIService, as request handling needs it.
pub struct ApiService {
    /// The APIService's name.
    pub name: Str,
    /// The group and version that it serves.
    pub group: Str,
    /// See `group`.
    pub version: Str,
    /// The sort priorities of its group and its version.
    pub group_priority: i64,
    /// See `group_priority`.
    pub version_priority: i64,
    /// The APIService's extension server; `None` if this server serves it.
    pub remote: Option<Remote>,
}

/// The extension server of an APIService.
pub struct Remote {
    /// The extension server's service.
    pub service: ServiceReference,
    /// Whether the last check succeeded.
    pub is_available: bool,
    /// The transport to reach it. The error says why there is none.
    pub transport: Result<Arc<Transport>, String>,
    /// The input from which the transport was built.
    trust: RemoteTrust,
    /// The extension server's discovery of this version; `None` before the first answer.
    pub document: Option<Arc<RemoteVersion>>,
    resolution: LastResolution,
}

#[derive(Clone, PartialEq, Eq)]
struct RemoteTrust {
    bundle: Vec<u8>,
    insecure: bool,
    /// The generation of the client certificate.
    certificate: u64,
}

/// An immutable snapshot of all APIServices.
#[derive(Clone, Default)]
pub struct ApiServices {
    by_name: OrdMap<Str, Arc<ApiService>>,
    /// Grows with every change.
    pub changes: u64,
}

impl ApiServices {
    /// The APIService of a version of a group.
    pub fn get(&self, group: &str, version: &str) -> Option<&Arc<ApiService>> {
        // Every request asks this, so its text is not formatted and, being short, not allocated.
        let mut name = Str::with_capacity(version.len().saturating_add(group.len()).saturating_add(1));
        name.push_str(version);
        name.push('.');
        name.push_str(group);
        self.by_name.get(name.as_str())
    }

    /// All APIServices, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<ApiService>> {
        self.by_name.values()
    }
}

/// Follows APIServices and tracks their extension servers.
pub struct Aggregation {
    engine: Arc<Engine>,
    settings: AggregationSettings,
    services: ArcSwap<ApiServices>,
    /// Increases whenever the client certificate changes.
    certificate: AtomicU64,
    pem: ArcSwap<Option<(Vec<u8>, Vec<u8>)>>,
}

impl Aggregation {
    /// Reads the existing APIServices. [`Aggregation::run`] keeps them up to date.
    pub fn new(engine: Arc<Engine>, settings: AggregationSettings) -> Arc<Self> {
        let aggregation = Aggregation {
            engine,
            settings,
            services: ArcSwap::default(),
            certificate: AtomicU64::new(0),
            pem: ArcSwap::default(),
        };
        aggregation.read_certificate();
        aggregation.read_all();
        Arc::new(aggregation)
    }

    /// The current APIServices.
    pub fn services(&self) -> arc_swap::Guard<Arc<ApiServices>> {
        self.services.load()
    }

    /// Resolves the current address of an extension server. The error says why that fails.
    pub fn resolve(&self, remote: &Remote) -> Result<Address, String> {
        remote.resolution.resolve(&self.engine, &remote.service)
    }

    /// Whether redirects of extension servers are passed on to clients.
    pub fn forwards_redirects(&self) -> bool {
        self.settings.forwards_redirects
    }

    /// Updates the metrics of availability. Must be called before they are rendered.
    pub fn update_metrics(&self) {
        let services = self.services();
        let rows = services.iter().map(|service| {
            let down = service.remote.as_ref().is_some_and(|remote| !remote.is_available);
            (&*service.name, f64::from(u8::from(down)))
        });
        families::UNAVAILABLE_SERVICES.set_all(rows);
    }

    fn is_available(&self, name: &str) -> bool {
        let services = self.services();
        let remote = services.by_name.get(name).and_then(|service| service.remote.as_ref());
        remote.is_some_and(|remote| remote.is_available)
    }

    /// Follows APIServices, services and endpoints until the cache shuts down.
    pub async fn run(self: Arc<Self>) {
        let mut watcher = self.engine.storage().cache().watch_resources(&[PREFIX, SERVICES, ENDPOINT_SLICES]);
        self.read_all();
        let mut work = Work::default();
        work.add_all(&self.services());
        let mut poll = tokio::time::interval(CERTIFICATE_POLL);
        loop {
            work.start_due(&self);
            let wake = tokio::time::sleep(work.next_due().unwrap_or(RESYNC));
            tokio::select! {
                item = watcher.next() => match item {
                    Some(Item::Event(delivery)) => {
                        let Some(event) = delivery.source() else { continue };
                        self.handle_event(&mut work, event.resource(), delivery.object(), event.object().is_none());
                    }
                    Some(Item::Closed(CloseReason::Slow)) => {
                        watcher = self.engine.storage().cache().watch_resources(&[PREFIX, SERVICES, ENDPOINT_SLICES]);
                        self.read_all();
                        work.add_all(&self.services());
                    }
                    Some(Item::InitialEventsEnd(_) | Item::Bookmark(_)) => {}
                    Some(Item::Closed(_)) | None => return,
                },
                Some(done) = work.running.join_next() => {
                    if let Ok((name, outcome)) = done {
                        self.take_documents(&name, &outcome);
                        work.finish(&name, outcome.failed);
                    }
                }
                _ = poll.tick() => {
                    if self.read_certificate() {
                        self.read_all();
                        work.add_all(&self.services());
                    }
                }
                () = wake => {}
            }
        }
    }

    /// Handles one event: applies its change and selects the extension servers to check.
    fn handle_event(&self, work: &mut Work, resource: &str, object: &pintle_cache::Object, is_gone: bool) {
        match resource {
            PREFIX => {
                let name = Str::from(object.name());
                self.change(|services| {
                    if is_gone {
                        _ = services.by_name.remove(&name)
                    } else {
                        let old = services.by_name.get(&name).cloned();
                        if let Some(read) = self.read(object, old.as_deref()) {
                            services.by_name.insert(name.clone(), Arc::new(read));
                        }
                    }
                });
                if is_gone { work.forget(&name) } else { work.add(&name) }
            }
            SERVICES | ENDPOINT_SLICES => {
                let service = match resource {
                    SERVICES => Some(object.name()),
                    _ => object.label(SERVICE_NAME),
                };
                let Some(service) = service else { return };
                let namespace = object.namespace().unwrap_or("");
                for known in self.services().iter() {
                    let own = known.remote.as_ref().map(|remote| &remote.service);
                    if own.is_some_and(|own| own.name == service && own.namespace == namespace) {
                        work.add(&known.name);
                    }
                }
            }
            _ => {}
        }
    }

    fn read_all(&self) {
        let Some(resource) = self.engine.storage().cache().resource(PREFIX) else { return };
        let view = resource.view();
        self.change(|services| {
            let old = std::mem::take(&mut services.by_name);
            for object in view.iter() {
                let before = old.get(object.name()).cloned();
                if let Some(read) = self.read(object, before.as_deref()) {
                    services.by_name.insert(object.name().into(), Arc::new(read));
                }
            }
        });
    }

    /// Publishes a changed snapshot. Only one task may call this.
    fn change(&self, change: impl FnOnce(&mut ApiServices)) {
        let mut services = ApiServices::clone(&self.services.load());
        change(&mut services);
        services.changes = services.changes.wrapping_add(1);
        self.services.store(Arc::new(services));
    }

    /// Parses an APIService. The state of its extension server is taken over from `old`.
    fn read(&self, object: &pintle_cache::Object, old: Option<&ApiService>) -> Option<ApiService> {
        let tree = json::parse(object.json()).ok()?.value;
        let spec = tree.get("spec")?;
        let int = |key: &str| spec.get(key).and_then(Value::as_int).unwrap_or(0);
        let remote = spec.get("service").filter(|service| !service.is_null()).map(|service| {
            let service = ServiceReference {
                namespace: service.str_at(&["namespace"]).into(),
                name: service.str_at(&["name"]).into(),
                port: service
                    .get("port")
                    .and_then(Value::as_int)
                    .and_then(|p| u16::try_from(p).ok())
                    .unwrap_or(443),
            };
            let trust = RemoteTrust {
                bundle: base64::decode(spec.str_at(&["caBundle"])).unwrap_or_default(),
                insecure: spec.get("insecureSkipTLSVerify").and_then(Value::as_bool) == Some(true),
                certificate: self.certificate.load(Ordering::Relaxed),
            };
            let before = old.and_then(|old| old.remote.as_ref());
            let same = before.filter(|before| before.service == service && before.trust == trust);
            Remote {
                is_available: is_available(&tree),
                transport: same
                    .map_or_else(|| self.transport_to(&service, &trust), |same| same.transport.clone()),
                document: before.and_then(|before| before.document.clone()),
                service,
                trust,
                resolution: LastResolution::default(),
            }
        });
        Some(ApiService {
            name: object.name().into(),
            group: spec.str_at(&["group"]).into(),
            version: spec.str_at(&["version"]).into(),
            group_priority: int("groupPriorityMinimum"),
            version_priority: int("versionPriority"),
            remote,
        })
    }

    fn transport_to(
        &self,
        service: &ServiceReference,
        trust: &RemoteTrust,
    ) -> Result<Arc<Transport>, String> {
        let identity = match &**self.pem.load() {
            Some((certificate, key)) => Some(Identity::from_pem(certificate, key)?),
            None => None,
        };
        let name = format!("{}.{}.svc", service.name, service.namespace);
        let trusted = if trust.insecure { Trust::Anyone } else { Trust::Bundle(&trust.bundle) };
        let options = TlsOptions::new(trusted, Some(name), identity)?;
        Ok(Arc::new(Transport::new(self.settings.dialer.clone(), Some(options))))
    }

    /// Reads the client certificate; returns whether it has changed.
    fn read_certificate(&self) -> bool {
        let Some((certificate, key)) = &self.settings.client_certificate else { return false };
        let (Ok(certificate), Ok(key)) = (std::fs::read(certificate), std::fs::read(key)) else {
            return false;
        };
        // A certificate and key that do not match are half written; the next check reads them again.
        if Identity::from_pem(&certificate, &key).is_err() {
            return false;
        }
        let read = Some((certificate, key));
        if **self.pem.load() == read {
            return false;
        }
        self.pem.store(Arc::new(read));
        self.certificate.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Stores the documents of an extension server.
    fn take_documents(&self, name: &str, outcome: &Outcome) {
        let services = self.services();
        let Some(known) = services.by_name.get(name).cloned() else { return };
        let Some(remote) = &known.remote else { return };
        let document = match (&outcome.document, &remote.document) {
            (Some(document), _) => document.clone(),
            // Keep the last known documents and mark them as stale.
            (None, Some(old)) => RemoteVersion { is_stale: true, ..RemoteVersion::clone(old) },
            (None, None) => RemoteVersion { is_stale: true, ..RemoteVersion::default() },
        };
        if remote.document.as_ref().is_some_and(|old| **old == document) {
            return;
        }
        let remote = Remote {
            service: remote.service.clone(),
            is_available: remote.is_available,
            transport: remote.transport.clone(),
            trust: remote.trust.clone(),
            document: Some(Arc::new(document)),
            resolution: LastResolution::default(),
        };
        let changed = ApiService {
            name: known.name.clone(),
            group: known.group.clone(),
            version: known.version.clone(),
            group_priority: known.group_priority,
            version_priority: known.version_priority,
            remote: Some(remote),
        };
        self.change(|services| _ = services.by_name.insert(name.into(), Arc::new(changed)));
    }

    fn target(&self, name: &str) -> Option<Target> {
        self.engine.storage().target("apiregistration.k8s.io", "v1", "apiservices", "", name)
    }
}

/// The result of a check.
#[derive(Default)]
pub(crate) struct Outcome {
    /// Whether the last attempt failed, so that it is retried soon.
    failed: bool,
    document: Option<RemoteVersion>,
}

/// Which APIServices to check, and when.
#[derive(Default)]
struct Work {
    all: BTreeMap<Str, Task>,
    running: JoinSet<(Str, Outcome)>,
}

struct Task {
    due: Instant,
    is_running: bool,
    /// Whether an event arrived during the check.
    again: bool,
    failures: u32,
}

impl Work {
    fn add(&mut self, name: &Str) {
        let now = Instant::now();
        let task = self.all.entry(name.clone()).or_insert(Task {
            due: now,
            is_running: false,
            again: false,
            failures: 0,
        });
        task.due = now;
        task.again = task.is_running;
    }

    fn add_all(&mut self, services: &ApiServices) {
        services.iter().for_each(|service| self.add(&service.name));
    }

    fn forget(&mut self, name: &str) {
        self.all.remove(name);
    }

    fn start_due(&mut self, aggregation: &Arc<Aggregation>) {
        let now = Instant::now();
        for (name, task) in self.all.iter_mut().filter(|(_, task)| !task.is_running && task.due <= now) {
            task.is_running = true;
            let (name, aggregation) = (name.clone(), Arc::clone(aggregation));
            self.running.spawn(async move {
                let outcome = availability::check(&aggregation, &name).await;
                (name, outcome)
            });
        }
    }

    fn next_due(&self) -> Option<Duration> {
        let due = self.all.values().filter(|task| !task.is_running).map(|task| task.due).min()?;
        Some(due.saturating_duration_since(Instant::now()))
    }

    fn finish(&mut self, name: &str, failed: bool) {
        let Some(task) = self.all.get_mut(name) else { return };
        task.is_running = false;
        task.failures = if failed { task.failures.saturating_add(1) } else { 0 };
        let delay = match (std::mem::take(&mut task.again), failed) {
            (true, _) => Duration::ZERO,
            (false, true) => {
                RETRY_MIN.saturating_mul(2u32.saturating_pow(task.failures.min(16))).min(RETRY_MAX)
            }
            (false, false) => RESYNC,
        };
        task.due = Instant::now().checked_add(delay).unwrap_or_else(Instant::now);
    }
}

fn is_available(tree: &Value) -> bool {
    let conditions = tree.items_at(&["status", "conditions"]);
    conditions.iter().any(|c| c.str_at(&["type"]) == "Available" && c.str_at(&["status"]) == "True")
}
