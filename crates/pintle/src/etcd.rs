//! The etcd store: its flags, and opening it.

use crate::egress;
use crate::flags::{FlagError, Flags};
use pintle_engine::{KubernetesForm, StorageMediaType};
use pintle_http::health::{Health, Scope};
use pintle_kinds::Kind;
use pintle_proxy::Dialer;
use pintle_store::{BoxFuture, Store};
use pintle_store_etcd::{Dial, Endpoint, Etcd, Options, OptionsError, Tls};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The prefix of events, which expire after `--event-ttl`.
const EVENTS: &str = "/registry/events/";

/// kube-apiserver's error for an invalid flag.
pub(crate) const BAD_OVERRIDE: &str = "--etcd-servers-overrides invalid, must be of format: group/resource#servers, where servers are URLs, semicolon separated";

/// An etcd that stores only some resources.
struct Override {
    endpoints: Vec<Endpoint>,
    /// Groups and resources.
    resources: Vec<(String, String)>,
}

/// The etcd and its options.
pub(crate) struct EtcdSettings {
    options: Options,
    overrides: Vec<Override>,
    media: StorageMediaType,
    health_timeout: Duration,
    ready_timeout: Duration,
}

/// Opens connections to etcd as `--egress-selector-config-file` specifies.
fn dial_through(dialer: Dialer) -> Dial {
    Arc::new(move |host, port| {
        let dialer = dialer.clone();
        Box::pin(async move {
            let stream = dialer.dial(&host, port, &[]).await?;
            Ok(Box::new(stream) as Box<dyn pintle_store_etcd::Stream>)
        })
    })
}

impl EtcdSettings {
    /// Parses the flags; `None` if they name no etcd.
    pub(crate) fn new(flags: &Flags) -> Result<Option<EtcdSettings>, FlagError> {
        let servers = flags.list("etcd-servers");
        if servers.is_empty() {
            return Ok(None);
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
            options.tls = Some(Tls::new(authority, client).map_err(bad)?);
        }
        options.dial = egress::read(flags)?.unwrap_or_default().etcd.map(dial_through);
        let prefix = flags.text("etcd-prefix").trim_end_matches('/');
        options.prefix = if prefix.starts_with('/') { prefix.to_owned() } else { format!("/{prefix}") };
        options.compaction_interval = flags.duration("etcd-compaction-interval");
        options.lease_reuse =
            Duration::from_secs(u64::try_from(flags.int("lease-reuse-duration-seconds")).unwrap_or(0));
        let event_life = flags.duration("event-ttl");
        if !event_life.is_zero() {
            options.expiring = vec![(EVENTS, event_life)];
        }
        // The values of objects are in the cache, so the store need not retain them.
        options.retains_value = |key| !pintle_engine::is_object_key(key);
        let media = flags.text("storage-media-type");
        let media = StorageMediaType::parse(media).ok_or_else(|| {
            FlagError::new(&format!("--storage-media-type {media:?} invalid, must be one of application/json, application/yaml, application/vnd.kubernetes.protobuf"))
        })?;
        Ok(Some(EtcdSettings {
            options,
            overrides: overrides(&flags.list("etcd-servers-overrides"))?,
            media,
            health_timeout: flags.duration("etcd-healthcheck-timeout"),
            ready_timeout: flags.duration("etcd-readycheck-timeout"),
        }))
    }

    /// Host and port of the endpoint, if there is exactly one and it has no TLS.
    pub(crate) fn only_plain_endpoint(&self) -> Option<(&str, u16)> {
        match self.options.endpoints.as_slice() {
            [only] if self.options.tls.is_none() => only.plain_address(),
            _ => None,
        }
    }

    /// Hosts and ports of the endpoints.
    pub(crate) fn endpoints(&self) -> String {
        let endpoints: Vec<String> = self.options.endpoints.iter().map(Endpoint::authority).collect();
        endpoints.join(", ")
    }

    /// Connects and loads, waiting until etcd is available.
    pub(crate) async fn connect(&self) -> Result<Etcd, OptionsError> {
        Etcd::connect(self.options.clone()).await
    }

    /// Connects to each etcd that stores some of these kinds; also returns the prefixes of their keys.
    pub(crate) async fn connect_overrides(
        &self,
        kinds: &[Arc<Kind>],
    ) -> Result<Vec<(Etcd, Vec<Arc<str>>)>, OptionsError> {
        let mut connected = Vec::new();
        for one in &self.overrides {
            let options = Options { endpoints: one.endpoints.clone(), ..self.options.clone() };
            connected.push((Etcd::connect(options).await?, one.store_prefixes(kinds)));
        }
        Ok(connected)
    }

    /// Whether some resources are stored in an etcd of their own.
    pub(crate) fn has_overrides(&self) -> bool {
        !self.overrides.is_empty()
    }

    /// Adds the checks of every etcd, the main one first, under kube-apiserver's names.
    pub(crate) fn add_checks(&self, stores: &[Arc<dyn Store>], health: &Health) {
        let mut before = "etcd-readiness".to_string();
        for (index, store) in stores.iter().enumerate() {
            let (check, readiness) = match index.checked_sub(1) {
                None => ("etcd".to_string(), "etcd-readiness".to_string()),
                Some(number) => {
                    (format!("etcd-override-{number}"), format!("etcd-override-readiness-{number}"))
                }
            };
            let probe = Arc::new(Probe::new(store.clone(), self.health_timeout));
            health.set_slow_check(&check, Scope::Everywhere, &before, move || probe.clone().run());
            let probe = Arc::new(Probe::new(store.clone(), self.ready_timeout));
            health.set_slow_check(&readiness, Scope::Readiness, &check, move || probe.clone().run());
            before = readiness;
        }
    }

    /// The storage format of objects in etcd.
    pub(crate) fn form(&self, kinds: impl Iterator<Item = Arc<Kind>>, cbor: bool) -> KubernetesForm {
        KubernetesForm::new(kinds, self.media, cbor)
    }

    /// The prefix of keys in etcd.
    pub(crate) fn prefix(&self) -> &str {
        &self.options.prefix
    }
}

impl Override {
    fn store_prefixes(&self, kinds: &[Arc<Kind>]) -> Vec<Arc<str>> {
        let is_named = |kind: &&Arc<Kind>| {
            self.resources.iter().any(|(group, resource)| {
                *resource == kind.plural
                    && (*group == kind.group || kind.versions.iter().any(|version| *group == version.group))
            })
        };
        // Definitions, custom resources and APIServices are always in the main etcd.
        let may_move = |kind: &&Arc<Kind>| {
            !matches!(kind.group.as_str(), "apiextensions.k8s.io" | "apiregistration.k8s.io")
        };
        let named = kinds.iter().filter(is_named).filter(may_move);
        named.map(|kind| Arc::from(kind.store_prefix.as_str())).collect()
    }
}

/// Parses `group/resource#server;server`. The same servers in any order are one etcd.
fn overrides(texts: &[String]) -> Result<Vec<Override>, FlagError> {
    let bad = || FlagError::new(BAD_OVERRIDE);
    let mut found: Vec<(Vec<&str>, Override)> = Vec::new();
    for text in texts {
        let (name, servers) = text.split_once('#').ok_or_else(bad)?;
        let (group, resource) = name.split_once('/').ok_or_else(bad)?;
        let mut servers: Vec<&str> = servers.split(';').collect();
        if resource.contains('/') || servers.iter().any(|server| server.is_empty() || server.contains('#')) {
            return Err(bad());
        }
        let endpoints: Result<Vec<Endpoint>, _> = servers.iter().map(|text| Endpoint::parse(text)).collect();
        let endpoints =
            endpoints.map_err(|error| FlagError::new(&format!("--etcd-servers-overrides: {error}")))?;
        servers.sort_unstable();
        let resource = (group.to_owned(), resource.to_owned());
        match found.iter_mut().find(|(known, _)| *known == servers) {
            Some((_, known)) => known.resources.push(resource),
            None => found.push((servers, Override { endpoints, resources: vec![resource] })),
        }
    }
    Ok(found.into_iter().map(|(_, one)| one).collect())
}

/// One health check of an etcd. Like kube-apiserver's, it runs within the request, at most once per half of the time
/// limit; in between, the last result is returned.
struct Probe {
    store: Arc<dyn Store>,
    limit: Duration,
    last: Mutex<Verdict>,
}

struct Verdict {
    /// The start of the probe that gave the outcome.
    probed: Option<Instant>,
    /// The start of the last probe, which may still be running.
    began: Option<Instant>,
    outcome: Result<(), String>,
}

impl Probe {
    fn new(store: Arc<dyn Store>, limit: Duration) -> Probe {
        let outcome = Err("etcd client connection not yet established".to_owned());
        Probe { store, limit, last: Mutex::new(Verdict { probed: None, began: None, outcome }) }
    }

    fn lock(&self) -> MutexGuard<'_, Verdict> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(self: Arc<Probe>) -> BoxFuture<'static, Result<(), String>> {
        Box::pin(async move {
            let now = Instant::now();
            {
                let mut last = self.lock();
                if last.began.is_some_and(|began| now.duration_since(began).saturating_mul(2) < self.limit) {
                    return last.outcome.clone();
                }
                last.began = Some(now);
            }
            let outcome = self.store.probe(self.limit).await;
            let mut last = self.lock();
            if last.probed.is_none_or(|probed| probed < now) {
                last.probed = Some(now);
                last.outcome = outcome.clone();
            }
            outcome
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overrides_are_read() {
        let read = |texts: &[&str]| {
            let texts: Vec<String> = texts.iter().map(|text| text.to_string()).collect();
            overrides(&texts).map(|all| all.into_iter().map(|one| one.resources.len()).collect::<Vec<_>>())
        };
        let same =
            ["/events#http://a:1;http://b:1", "apps/deployments#http://b:1;http://a:1", "/pods#http://c:1"];
        assert_eq!(read(&same).ok(), Some(vec![2, 1]));
        for bad in [
            "",
            "events#http://a:1",
            "/events",
            "/events#",
            "/events#http://a:1;",
            "a/b/c#http://a:1",
            "/a#x#y",
        ] {
            assert_eq!(
                read(&[bad]).err().map(|error| error.to_string()).as_deref(),
                Some(BAD_OVERRIDE),
                "{bad}"
            );
        }
    }
}
