//! Opens the store, loads the kinds, creates the objects of a fresh server, and keeps the RBAC policy up to date.

use crate::config::Config;
use crate::data_dir::DataDir;
use crate::etcd::EtcdSettings;
use crate::{encryption, manifests, progress, system_objects};
use pintle_admission::{Chain, Settings, SettingsError, WebhookConfig};
use pintle_auth::Authorizer;
use pintle_auth::authz::AlwaysAllow;
use pintle_cache::Cache;
use pintle_encrypt::{ConfigError, Encryption};
use pintle_engine::{AccessObjects, Clock, Codec, Engine, FormStore, Random, StoredForm};
use pintle_kinds::service_allocation::Ranges;
use pintle_kinds::{Kind, Types, builtin, builtin_selected, features};
use pintle_meta::{Status, net};
use pintle_store::{Embedded, OpenError, Options, Partition, Partitioned, Store};
use pintle_store_etcd::OptionsError;
use pintle_webhook::{Client, Credentials, Egress};
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
    let encryption = encryption::load(&config.encryption).await?;
    let builtin = builtin_selected(&|resource| config.runtime_config.selects(resource));
    let kinds: Vec<Arc<Kind>> = builtin.kinds.into_iter().map(Arc::new).collect();
    let codec = match &config.etcd {
        Some(etcd) => etcd_codec(etcd, config, &kinds, encryption.clone()),
        None => embedded_codec(&kinds, encryption.clone()),
    };
    let codec = Arc::new(codec);
    let stores = open_stores(config, folder, &kinds, &codec).await?;
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
        garbage_collection: config.garbage_collection,
        granular_claim_status: config.gate("DRAResourceClaimGranularStatusAuthorization"),
        routes_to_endpoints: config.proxying.routes_to_endpoints,
        egress: config.proxying.egress.clone(),
    };
    let served = Served { kinds, types: builtin.types };
    let (engine, types) = engine(stores, served, cache_options, admission, authorizer, settings);
    if let Err(status) = system_objects::create_missing(&engine, config).await {
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

/// Opens the embedded store, or connects to etcd and to those of `--etcd-servers-overrides`.
async fn open_stores(
    config: &Config,
    folder: &DataDir,
    kinds: &[Arc<Kind>],
    codec: &Arc<Codec>,
) -> Result<Stores, ObjectsError> {
    let options =
        Options { retention: config.retention, history: Some(config.history), ..Options::default() };
    let store: Arc<dyn Store> = match &config.etcd {
        Some(etcd) => Arc::new(etcd.connect().await?),
        None if config.ephemeral => Arc::new(Embedded::ephemeral(options)?),
        None => {
            let folder = folder.path().join("store");
            Arc::new(progress::during("reading the store", || Embedded::open(&folder, options))?)
        }
    };
    let mut stores = Stores { main: Arc::new(FormStore::new(store, codec.clone())), further: Vec::new() };
    if let Some(etcd) = &config.etcd {
        for (store, prefixes) in etcd.connect_overrides(kinds).await? {
            let store: Arc<dyn Store> = Arc::new(FormStore::new(Arc::new(store), codec.clone()));
            stores.further.push(Partition { store, prefixes });
        }
    }
    Ok(stores)
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
        garbage_collection: true,
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
    garbage_collection: bool,
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
    let store: Arc<dyn Store> = if stores.further.is_empty() {
        stores.main
    } else {
        Arc::new(Partitioned::new(stores.main, stores.further))
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
        garbage_collection: settings.garbage_collection,
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
