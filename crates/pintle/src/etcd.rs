//! The store on etcd: what the flags say about it, and how it is opened.

use crate::flags::{FlagError, Flags};
use pintle_engine::{KubernetesForm, StorageMediaType};
use pintle_http::health::Health;
use pintle_kinds::Kind;
use pintle_store::Store;
use pintle_store_etcd::{Endpoint, Etcd, Options, OptionsError, tls_config};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Where events are, which live for `--event-ttl`.
const EVENTS: &str = "/registry/events/";

/// Which etcd, and how.
pub(crate) struct EtcdSettings {
    options: Options,
    media: StorageMediaType,
    health_timeout: Duration,
    ready_timeout: Duration,
}

impl EtcdSettings {
    /// Reads the flags; `None` where they name no etcd.
    pub(crate) fn new(flags: &Flags) -> Result<Option<EtcdSettings>, FlagError> {
        let servers = flags.list("etcd-servers");
        if servers.is_empty() {
            return Ok(None);
        }
        if !flags.list("etcd-servers-overrides").is_empty() {
            let why =
                "--etcd-servers-overrides is not available here: objects would be stored in the wrong etcd";
            return Err(FlagError::new(why));
        }
        let bad = |error: OptionsError| FlagError::new(&format!("--etcd-servers: {error}"));
        let endpoints: Result<Vec<Endpoint>, _> = servers.iter().map(|text| Endpoint::parse(text)).collect();
        let path = |name: &str| Some(flags.text(name)).filter(|text| !text.is_empty()).map(PathBuf::from);
        let client = match (path("etcd-certfile"), path("etcd-keyfile")) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(FlagError::new("--etcd-certfile and --etcd-keyfile go together")),
        };
        let authority = path("etcd-cafile");
        let mut options = Options::new(endpoints.map_err(bad)?);
        if authority.is_some() || client.is_some() {
            let client = client.as_ref().map(|(certificate, key)| (certificate.as_path(), key.as_path()));
            options.tls = Some(tls_config(authority.as_deref().map(Path::new), client).map_err(bad)?);
        }
        let prefix = flags.text("etcd-prefix").trim_end_matches('/');
        options.prefix = if prefix.starts_with('/') { prefix.to_owned() } else { format!("/{prefix}") };
        options.compaction_interval = flags.duration("etcd-compaction-interval");
        options.lease_reuse =
            Duration::from_secs(u64::try_from(flags.int("lease-reuse-duration-seconds")).unwrap_or(0));
        let event_life = flags.duration("event-ttl");
        if !event_life.is_zero() {
            options.expiring = vec![(EVENTS, event_life)];
        }
        // The values of objects are in the cache.
        options.retains_value = |key| !pintle_engine::is_object_key(key);
        let media = flags.text("storage-media-type");
        let media = StorageMediaType::parse(media).ok_or_else(|| {
            FlagError::new(&format!("--storage-media-type {media:?} invalid, must be one of application/json, application/yaml, application/vnd.kubernetes.protobuf"))
        })?;
        Ok(Some(EtcdSettings {
            options,
            media,
            health_timeout: flags.duration("etcd-healthcheck-timeout"),
            ready_timeout: flags.duration("etcd-readycheck-timeout"),
        }))
    }

    /// How long a check of etcd may take.
    pub(crate) fn check_timeout(&self) -> Duration {
        self.health_timeout.min(self.ready_timeout)
    }

    /// Connects and loads, waiting until etcd is there.
    pub(crate) async fn connect(&self) -> Result<Etcd, OptionsError> {
        Etcd::connect(self.options.clone()).await
    }

    /// The form that objects have in etcd.
    pub(crate) fn form(&self, kinds: impl Iterator<Item = Arc<Kind>>, cbor: bool) -> KubernetesForm {
        KubernetesForm::new(kinds, self.media, cbor)
    }

    /// What keys in etcd begin with.
    pub(crate) fn prefix(&self) -> &str {
        &self.options.prefix
    }
}

/// Asks etcd whether it answers, every half of `limit`, and tells the health checks.
pub(crate) async fn check_health(store: Arc<dyn Store>, limit: Duration, health: Arc<Health>) {
    while store.health().is_ok() {
        health.set_store_failure(store.probe(limit).await.err());
        tokio::time::sleep(limit / 2).await;
    }
}
