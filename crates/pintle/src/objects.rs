//! Opens the store, loads the kinds, creates the objects of a fresh server, and keeps the RBAC policy up to date.

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::etcd::EtcdSettings;
use crate::{bootstrap, encryption, manifests, progress, reconcile_roles, runtime_config};
use pintle_admission::{Chain, Settings, SettingsError, WebhookConfig};
use pintle_auth::Authorizer;
use pintle_auth::authz::AlwaysAllow;
use pintle_cache::Cache;
use pintle_encrypt::{ConfigError, Encryption};
use pintle_engine::{AccessObjects, Clock, Codec, Engine, FormStore, Random, StoredForm};
use pintle_kinds::service_allocation::Ranges;
use pintle_kinds::{Kind, Types, builtin, builtin_selected, features};
use pintle_meta::{GroupVersion, Status, net};
use pintle_store::{Embedded, OpenError, Options, Partition, Partitioned, Store};
use pintle_store_etcd::OptionsError;
use pintle_value::{Str, Value};
use pintle_webhook::{Client, Credentials, Egress};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// The engine, and the schemas of kinds that are not resources.
pub(crate) struct Objects {
    pub(crate) engine: Arc<Engine>,
    pub(crate) types: Types,
    pub(crate) encryption: Arc<Encryption>,
    /// The main store, then the stores of some resources.
    pub(crate) stores: Vec<Arc<dyn Store>>,
}

/// Why the engine could not be built.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ObjectsError {
    #[error(transparent)]
    Admission(#[from] SettingsError),
    #[error("{0}{hint}", hint = recovery_hint(.0))]
    Store(#[from] OpenError),
    #[error(transparent)]
    Encryption(#[from] ConfigError),
    #[error(transparent)]
    Etcd(#[from] OptionsError),
    #[error("cannot make the objects of a fresh server: {}", .0.message)]
    Bootstrap(Box<Status>),
}

/// The prefix of all keys.
const KEY_PREFIX: &str = "/registry";

fn recovery_hint(error: &OpenError) -> &'static str {
    match error {
        OpenError::Corrupt { .. } => " (pintle recover --dry-run says what can be read and what is lost)",
        _ => "",
    }
}

/// Opens the store in `folder` (or in memory) and serves the built-in kinds from it.
pub(crate) async fn open(
    config: &Config,
    folder: &DataDir,
    authorizer: Arc<dyn Authorizer>,
    access_objects: AccessObjects,
) -> Result<Objects, ObjectsError> {
    features::configure(|gate| config.gate(gate));
    let admission = Chain::new(Settings {
        enabled: config.enabled_plugins.clone(),
        disabled: config.disabled_plugins.clone(),
        only: config.only_plugins.clone(),
        config_file: config.admission_config.clone(),
        allows_manifests: config.gate("ManifestBasedAdmissionControlConfig"),
        not_ready_seconds: config.not_ready_seconds,
        unreachable_seconds: config.unreachable_seconds,
        authorizer: authorizer.clone(),
    })?;
    let retention = config.retention;
    let options = Options { retention, history: Some(config.history), ..Options::default() };
    let encryption = encryption::load(&config.encryption).await?;
    let builtin = builtin_selected(&|resource| config.runtime_config.selects(resource));
    let kinds: Vec<Arc<Kind>> = builtin.kinds.into_iter().map(Arc::new).collect();
    let codec = match &config.etcd {
        Some(etcd) => etcd_codec(etcd, config, &kinds, encryption.clone()),
        None => embedded_codec(&kinds, encryption.clone()),
    };
    let store: Arc<dyn Store> = match &config.etcd {
        Some(etcd) => Arc::new(etcd.connect().await?),
        None if config.ephemeral => Arc::new(Embedded::ephemeral(options)?),
        None => {
            let folder = folder.path().join("store");
            Arc::new(progress::during("reading the store", || Embedded::open(&folder, options))?)
        }
    };
    let codec = Arc::new(codec);
    let main: Arc<dyn Store> = Arc::new(FormStore::new(store, codec.clone()));
    let mut stores = Stores { main, further: Vec::new() };
    if let Some(etcd) = &config.etcd {
        for (store, prefixes) in etcd.connect_overrides(&kinds).await? {
            let store: Arc<dyn Store> = Arc::new(FormStore::new(Arc::new(store), codec.clone()));
            stores.further.push(Partition { store, prefixes });
        }
    }
    let all: Vec<Arc<dyn Store>> = stores.all().cloned().collect();
    let cache_options = pintle_cache::Options {
        retention,
        snapshot_age_max: retention,
        history_bytes_max: config.watch_history_bytes,
        ..pintle_cache::Options::default()
    };
    let settings = EngineSettings {
        codec: Some(codec),
        access_objects,
        service_ranges: config.service_ranges.clone(),
        unsafe_deletion: config.gate("AllowUnsafeMalformedObjectDeletion"),
        deletion_workers: config.deletion_workers,
        granular_claim_status: config.gate("DRAResourceClaimGranularStatusAuthorization"),
        routes_to_endpoints: config.proxying.routes_to_endpoints,
        egress: config.proxying.egress.clone(),
    };
    let served = Served { kinds, types: builtin.types };
    let (engine, types) = engine(stores, served, cache_options, admission, authorizer, settings);
    if let Err(status) = bootstrap_objects(&engine, config).await {
        // With undecodable objects the server runs, so that it can report them, but it does not become ready.
        if !engine.storage().has_unreadable_values() {
            return Err(ObjectsError::Bootstrap(Box::new(status)));
        }
        tracing::error!("some stored values cannot be read: {}", status.message);
    }
    // The objects of a fresh server are created first: webhooks of manifests may need this server to run.
    manifests::load(&engine)?;
    Ok(Objects { engine, types, encryption, stores: all })
}

/// All built-in kinds in all versions, also those that are not served by default.
pub(crate) fn all_builtin_kinds() -> Vec<Arc<Kind>> {
    builtin_selected(&|_| true).kinds.into_iter().map(Arc::new).collect()
}

/// The storage format of the embedded store.
pub(crate) fn embedded_codec(kinds: &[Arc<Kind>], encryption: Arc<Encryption>) -> Codec {
    Codec::new(None, encryption, kinds.iter().map(|kind| &**kind), KEY_PREFIX)
}

/// The storage format of etcd.
pub(crate) fn etcd_codec(
    etcd: &EtcdSettings,
    config: &Config,
    kinds: &[Arc<Kind>],
    encryption: Arc<Encryption>,
) -> Codec {
    let form = etcd.form(kinds.iter().cloned(), config.gate("CBORServingAndStorage"));
    let form = Arc::new(form) as Arc<dyn StoredForm>;
    Codec::new(Some(form), encryption, kinds.iter().map(|kind| &**kind), etcd.prefix())
}

/// Creates the missing objects of a fresh server.
async fn bootstrap_objects(engine: &Arc<Engine>, config: &Config) -> Result<(), Status> {
    make(engine, config).await?;
    register_versions(engine).await?;
    unregister_versions(engine).await?;
    make_service_network(engine, config).await?;
    engine.writer().repair_allocations().await
}

/// Plugins that reject references to objects that a cluster would have. The engine in memory has no such objects.
const PLUGINS_OF_A_CLUSTER: [&str; 5] =
    ["NamespaceLifecycle", "PodSecurity", "Priority", "RuntimeClass", "ServiceAccount"];

/// The service networks in memory. They contain all addresses, because those of the cluster are unknown.
const ANY_SERVICE_NETWORKS: [&str; 2] = ["0.0.0.0/0", "::/0"];

/// An empty engine in memory, for validation.
pub(crate) fn in_memory() -> Result<Arc<Engine>, ObjectsError> {
    let authorizer: Arc<dyn Authorizer> = Arc::new(AlwaysAllow);
    let admission = Chain::new(Settings {
        disabled: PLUGINS_OF_A_CLUSTER.map(str::to_string).to_vec(),
        not_ready_seconds: 0,
        unreachable_seconds: 0,
        ..Settings::new(authorizer.clone())
    })?;
    let main: Arc<dyn Store> = Arc::new(Embedded::ephemeral(Options::default())?);
    let stores = Stores { main, further: Vec::new() };
    let networks = ANY_SERVICE_NETWORKS.iter().filter_map(|network| net::parse_cidr_sloppy(network));
    let service_ranges = Ranges { networks: networks.collect(), node_ports: 30_000..=32_767 };
    let settings = EngineSettings {
        codec: None,
        service_ranges,
        unsafe_deletion: false,
        deletion_workers: 1,
        granular_claim_status: true,
        routes_to_endpoints: false,
        access_objects: AccessObjects::default(),
        egress: Egress::default(),
    };
    let builtin = builtin();
    let served = Served { kinds: builtin.kinds.into_iter().map(Arc::new).collect(), types: builtin.types };
    Ok(engine(stores, served, pintle_cache::Options::default(), admission, authorizer, settings).0)
}

/// The parts of an engine that depend on the configuration.
struct EngineSettings {
    codec: Option<Arc<Codec>>,
    service_ranges: Ranges,
    unsafe_deletion: bool,
    deletion_workers: usize,
    granular_claim_status: bool,
    routes_to_endpoints: bool,
    access_objects: AccessObjects,
    egress: Egress,
}

/// The stores of objects.
struct Stores {
    main: Arc<dyn Store>,
    further: Vec<Partition>,
}

impl Stores {
    fn all(&self) -> impl Iterator<Item = &Arc<dyn Store>> {
        std::iter::once(&self.main).chain(self.further.iter().map(|partition| &partition.store))
    }
}

/// The built-in kinds.
struct Served {
    kinds: Vec<Arc<Kind>>,
    types: Types,
}

/// Builds an engine that serves the built-in kinds from these stores.
fn engine(
    stores: Stores,
    served: Served,
    cache_options: pintle_cache::Options,
    admission: Chain,
    authorizer: Arc<dyn Authorizer>,
    settings: EngineSettings,
) -> (Arc<Engine>, Types) {
    let prefixes = stores.further.iter().map(|partition| partition.prefixes.clone());
    let cache = Cache::with_stores(cache_options, prefixes.collect());
    let all: Vec<Arc<dyn Store>> = stores.all().cloned().collect();
    let store: Arc<dyn Store> = match stores.further.is_empty() {
        true => stores.main,
        false => Arc::new(Partitioned::new(stores.main, stores.further)),
    };
    let metadata_schema =
        served.types.by_go("meta/v1.ObjectMeta").unwrap_or_else(|| unreachable!("a built-in type"));
    let egress = &settings.egress;
    let caller = |config: &WebhookConfig| Arc::new(Client::new(config.credentials.clone(), egress.clone()));
    let hooks = pintle_engine::Hooks::new(
        caller(admission.mutating_webhooks()),
        caller(admission.validating_webhooks()),
    );
    let engine = Arc::new(Engine::new(pintle_engine::Options {
        store,
        codec: settings.codec,
        cache: cache.clone(),
        clock: Arc::new(SystemClock),
        random: Arc::new(SystemRandom),
        types: served.types.clone(),
        metadata_schema,
        plugins: admission,
        hooks,
        webhooks: Arc::new(Client::new(Credentials::default(), settings.egress)),
        authorizer,
        access_objects: settings.access_objects,
        service_ranges: settings.service_ranges,
        unsafe_deletion: settings.unsafe_deletion,
        deletion_workers: settings.deletion_workers,
        granular_claim_status: settings.granular_claim_status,
        routes_to_endpoints: settings.routes_to_endpoints,
    }));
    engine.storage().install_all(served.kinds.into_iter());
    for (index, store) in all.iter().enumerate() {
        match index.checked_sub(1) {
            None => cache.attach(&**store),
            Some(further) => cache.attach_further(further, &**store),
        }
    }
    tokio::spawn(cache.run());
    (engine, served.types)
}

/// Creates the missing objects of a fresh server, many concurrently, so that the store syncs them together. Namespaced
/// objects come after the namespaces.
async fn make(engine: &Arc<Engine>, config: &Config) -> Result<(), Status> {
    let today = engine.storage().now_text();
    let today = today.split('T').next().unwrap_or_default();
    let objects = bootstrap::objects(&config.kubernetes_service(), today, |gate| config.gate(gate));
    let served = served_versions(engine);
    let is_served = |object: &Value| {
        let spec = |key| Str::from(object.str_at(&["spec", key]));
        object.str_at(&["kind"]) != "APIService" || served.contains(&(spec("group"), spec("version")))
    };
    let (cluster, namespaced): (Vec<Value>, Vec<Value>) = objects
        .into_iter()
        .filter(is_served)
        .partition(|object| object.str_at(&["metadata", "namespace"]).is_empty());
    for wave in [cluster, namespaced] {
        let mut tasks = tokio::task::JoinSet::new();
        for object in wave {
            let Some(target) = target_of(engine, &object) else { continue };
            let engine = Arc::clone(engine);
            tasks.spawn(async move { make_one(&engine, &target, object).await });
        }
        while let Some(made) = tasks.join_next().await {
            made.map_err(|e| Status::internal(&e.to_string()))??;
        }
    }
    Ok(())
}

const AGGREGATOR: &str = "apiregistration.k8s.io";
/// The label of APIServices that are restored at start.
const AUTOMANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";

/// Creates one object if it is missing. An APIService of this server's own group is restored, unless its label was
/// removed.
async fn make_one(engine: &Engine, target: &pintle_engine::Target, object: Value) -> Result<(), Status> {
    let manager = bootstrap::manager(&target.kind.group);
    let spec = object.get("spec").cloned().unwrap_or_default();
    let is_registration = target.kind.kind == "APIService";
    let expected = object.clone();
    engine.writer().ensure(target, manager, object).await?;
    if target.kind.group == "rbac.authorization.k8s.io" {
        let Some(live) = engine.reader().object_tree(target)? else { return Ok(()) };
        if reconcile_roles::binds_another_role(&expected, &live) {
            let revision = live.str_at(&["metadata", "resourceVersion"]).parse().unwrap_or(0);
            engine.writer().forget(target, revision).await?;
            return engine.writer().ensure(target, manager, expected).await;
        }
        // Most roles are as they should be, and need no write.
        let mut reconciled = live.clone();
        reconcile_roles::reconcile(&expected, &mut reconciled);
        if reconciled == live {
            return Ok(());
        }
        let reconcile = |live: &mut Value| reconcile_roles::reconcile(&expected, live);
        return engine.writer().mutate(target, Some(manager), reconcile).await;
    }
    if !is_registration {
        return Ok(());
    }
    let restore = |live: &mut Value| {
        if live.str_at(&["metadata", "labels", AUTOMANAGED]) == "onstart" {
            live.set_at(&["spec"], spec.clone());
        }
    };
    engine.writer().mutate(target, Some(manager), restore).await
}

/// The group-versions with resources that are served.
fn served_versions(engine: &Engine) -> BTreeSet<(Str, Str)> {
    let kinds = engine.storage().registry().kinds();
    let mut versions = BTreeSet::new();
    for (group, members) in kinds.groups() {
        let own = members.iter().flat_map(|kind| &kind.versions);
        let served = own.filter(|version| version.served && version.group == *group);
        versions.extend(served.map(|version| (group.clone(), version.name.clone())));
    }
    versions
}

/// The APIService of a version.
fn registration(engine: &Engine, group: &str, version: &str) -> Option<pintle_engine::Target> {
    let name = format!("{version}.{group}");
    engine.storage().target(AGGREGATOR, "v1", "apiservices", "", &name)
}

/// Deletes the APIServices of versions that the server no longer serves, unless their label was removed.
async fn unregister_versions(engine: &Engine) -> Result<(), Status> {
    let served = served_versions(engine);
    for (own, _) in pintle_kinds::builtin_versions() {
        let version = (Str::from(own.group.as_str()), Str::from(own.version.as_str()));
        let target = registration(engine, &version.0, &version.1);
        let Some(target) = target.filter(|_| !served.contains(&version)) else { continue };
        let Some(live) = engine.reader().object_tree(&target)? else { continue };
        if live.str_at(&["metadata", "labels", AUTOMANAGED]) == "onstart" {
            let revision = live.str_at(&["metadata", "resourceVersion"]).parse().unwrap_or(0);
            engine.writer().forget(&target, revision).await?;
        }
    }
    Ok(())
}

/// Registers the versions that `--runtime-config` enables and that are not served by default.
async fn register_versions(engine: &Engine) -> Result<(), Status> {
    for (group, version) in served_versions(engine).iter().filter(|(group, _)| group.as_str() != AGGREGATOR) {
        let Some(target) = registration(engine, group, version) else { continue };
        let (group_priority, priority) = runtime_config::priorities(group, version);
        let mut object = Value::object();
        object.set_at(&["apiVersion"], format!("{AGGREGATOR}/v1").into());
        object.set_at(&["kind"], "APIService".into());
        object.set_at(&["metadata", "name"], target.name.as_str().into());
        object.set_at(&["metadata", "labels", AUTOMANAGED], "onstart".into());
        object.set_at(&["spec", "group"], group.as_str().into());
        object.set_at(&["spec", "version"], version.as_str().into());
        object.set_at(&["spec", "groupPriorityMinimum"], Value::Int(group_priority));
        object.set_at(&["spec", "versionPriority"], Value::Int(priority));
        engine.writer().ensure(&target, bootstrap::manager(AGGREGATOR), object).await?;
    }
    Ok(())
}

/// The namespaces that every server has.
const SYSTEM_NAMESPACES: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];

/// Recreates the system namespaces and the service `kubernetes` if they were deleted, or if etcd came back without them.
pub(crate) async fn ensure_system_objects(engine: &Engine, config: &Config) -> Result<(), Status> {
    let cache = engine.storage().cache();
    let has = |prefix: &str, key: &str| cache.resource(prefix).is_some_and(|all| all.get(key).is_some());
    if has("/registry/services/specs/", "default/kubernetes")
        && SYSTEM_NAMESPACES.iter().all(|name| has("/registry/namespaces/", name))
    {
        return Ok(());
    }
    let is_system = |object: &Value| matches!(object.str_at(&["kind"]), "Namespace" | "Service");
    let objects = bootstrap::objects(&config.kubernetes_service(), "", |_| false);
    for object in objects.into_iter().filter(is_system) {
        let Some(target) = target_of(engine, &object) else { continue };
        if engine.reader().object_tree(&target)?.is_none() {
            engine.writer().ensure(&target, bootstrap::manager(&target.kind.group), object).await?;
        }
    }
    engine.writer().repair_allocations().await
}

/// Creates the ServiceCIDR of the networks in the flags.
async fn make_service_network(engine: &Engine, config: &Config) -> Result<(), Status> {
    let networks = config.service_ranges.networks.iter().map(|network| Value::from(network.network_text()));
    let mut object = Value::object();
    object.set_at(&["kind"], "ServiceCIDR".into());
    object.set_at(&["apiVersion"], "networking.k8s.io/v1".into());
    object.set_at(&["metadata", "name"], "kubernetes".into());
    object.set_at(&["spec", "cidrs"], Value::Array(networks.collect()));
    let Some(target) = target_of(engine, &object) else { return Ok(()) };
    engine.writer().ensure(&target, bootstrap::manager(&target.kind.group), object).await?;
    let is_ready = |live: &Value| !live.items_at(&["status", "conditions"]).is_empty();
    if engine.reader().object_tree(&target)?.is_none_or(|live| is_ready(&live)) {
        return Ok(());
    }
    // kube-apiserver's controller applies this status with server-side apply.
    let mut ready = Value::object();
    for (key, text) in [
        ("type", "Ready"),
        ("status", "True"),
        ("message", "Kubernetes default Service CIDR is ready"),
        ("lastTransitionTime", &engine.storage().now_text()),
    ] {
        ready.set_at(&[key], text.into());
    }
    let mut status = Value::object();
    status.set_at(&["conditions"], Value::Array(vec![ready]));
    engine.writer().apply_status(&target, "kubernetes-service-cidr-controller", status).await
}

/// The target of an object; `None` if its kind is not served.
pub(crate) fn target_of(engine: &Engine, object: &Value) -> Option<pintle_engine::Target> {
    let version = GroupVersion::parse(object.str_at(&["apiVersion"])).unwrap_or_default();
    let kinds = engine.storage().registry().kinds();
    let (kind, at) = kinds.by_kind(&version, object.str_at(&["kind"]))?;
    Some(pintle_engine::Target {
        kind: kind.clone(),
        version: at,
        namespace: object.str_at(&["metadata", "namespace"]).into(),
        name: object.str_at(&["metadata", "name"]).into(),
        subresource: Default::default(),
    })
}

struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> (i64, u32) {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        (i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
    }
}

struct SystemRandom;

impl Random for SystemRandom {
    fn fill(&self, out: &mut [u8]) {
        // The generator seeds itself from the system. A server cannot continue without random numbers.
        if aws_lc_rs::rand::fill(out).is_err() {
            std::process::abort();
        }
    }
}
