//! `/healthz`, `/livez`, `/readyz`: named checks, one by one and together.

use crate::api::ApiResponse;
use crate::respond;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, RwLock};

/// What the server is checked for. Most names are those that monitoring of kube-apiserver looks for; what they stand
/// for is done before the server listens.
#[derive(Default)]
pub struct Health {
    ready: AtomicBool,
    stopping: AtomicBool,
    /// Why the store does not answer, if so.
    store_failure: Mutex<Option<String>>,
    /// Further checks of readiness.
    extra: RwLock<Vec<(&'static str, Check)>>,
    /// Whether what is stored can be read.
    storage: OnceLock<Check>,
}

type Check = Box<dyn Fn() -> bool + Send + Sync>;

const CHECKS: &[&str] = &[
    "ping",
    "log",
    "loopback-serving-certificate",
    "etcd",
    "etcd-readiness",
    "informer-sync",
    "poststarthook/start-apiserver-admission-initializer",
    "poststarthook/generic-apiserver-start-informers",
    "poststarthook/priority-and-fairness-config-consumer",
    "poststarthook/priority-and-fairness-filter",
    "poststarthook/storage-object-count-tracker-hook",
    "poststarthook/start-apiextensions-informers",
    "poststarthook/start-apiextensions-controllers",
    "poststarthook/crd-informer-synced",
    "poststarthook/start-system-namespaces-controller",
    "poststarthook/peer-endpoint-reconciler-controller",
    "poststarthook/start-cluster-authentication-info-controller",
    "poststarthook/start-kube-apiserver-identity-lease-controller",
    "poststarthook/start-kube-apiserver-identity-lease-garbage-collector",
    "poststarthook/storage-readiness",
    "poststarthook/start-legacy-token-tracking-controller",
    "poststarthook/start-service-ip-repair-controllers",
    "poststarthook/rbac/bootstrap-roles",
    "poststarthook/scheduling/bootstrap-system-priority-classes",
    "poststarthook/priority-and-fairness-config-producer",
    "poststarthook/bootstrap-controller",
    "poststarthook/start-kubernetes-service-cidr-controller",
    "poststarthook/start-kube-aggregator-informers",
    "poststarthook/apiservice-status-local-available-controller",
    "poststarthook/apiservice-status-remote-available-controller",
    "poststarthook/apiservice-registration-controller",
    "poststarthook/apiservice-discovery-controller",
    "poststarthook/kube-apiserver-autoregistration",
    "autoregister-completion",
    "poststarthook/apiservice-openapi-controller",
    "poststarthook/apiservice-openapiv3-controller",
    "shutdown",
];

/// Checks that only readiness has.
const READINESS_ONLY: &[&str] = &["etcd-readiness", "informer-sync", "shutdown"];

/// Checks that readiness does not have.
const LIVENESS_ONLY: &[&str] = &["loopback-serving-certificate"];

/// The three places where health is asked for.
pub(crate) const ENDPOINTS: &[&str] = &["healthz", "livez", "readyz"];

impl Health {
    /// Says that bootstrap is done and requests may come.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Says that the server is about to stop: readiness fails from now on.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Says why the store does not answer, or that it does.
    pub fn set_store_failure(&self, failure: Option<String>) {
        *self.store_failure.lock().unwrap_or_else(PoisonError::into_inner) = failure;
    }

    fn store_failure(&self) -> Option<String> {
        self.store_failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Adds a check that only readiness has. Must be quick.
    pub fn add_check(&self, name: &'static str, check: impl Fn() -> bool + Send + Sync + 'static) {
        self.extra.write().unwrap_or_else(PoisonError::into_inner).push((name, Box::new(check)));
    }

    /// Sets what says whether all stored values can be read. Must be quick.
    pub fn set_storage_check(&self, check: impl Fn() -> bool + Send + Sync + 'static) {
        // A second one changes nothing: there is one storage.
        _ = self.storage.set(Box::new(check));
    }

    /// The names of the checks of an endpoint.
    fn names(&self, endpoint: &str) -> Vec<&'static str> {
        let extra = self.extra.read().unwrap_or_else(PoisonError::into_inner);
        let extra = extra.iter().map(|(name, _)| *name).filter(|_| endpoint == "readyz");
        checks(endpoint).chain(extra).collect()
    }

    fn passes(&self, check: &str) -> bool {
        let readable = || self.storage.get().is_none_or(|check| check());
        match check {
            "poststarthook/storage-readiness" => readable(),
            "shutdown" => !self.stopping.load(Ordering::Acquire),
            "etcd" | "etcd-readiness" => self.store_failure().is_none(),
            "informer-sync" => self.ready.load(Ordering::Acquire) && readable(),
            "poststarthook/rbac/bootstrap-roles" | "poststarthook/bootstrap-controller" => {
                self.ready.load(Ordering::Acquire)
            }
            name => {
                let extra = self.extra.read().unwrap_or_else(PoisonError::into_inner);
                extra.iter().filter(|(known, _)| *known == name).all(|(_, check)| check())
            }
        }
    }

    /// Answers `/readyz`, `/livez/ping` and so on; `None` where there is no such check.
    pub(crate) fn serve(&self, path: &str, query: &[(String, String)]) -> Option<ApiResponse> {
        let path = path.strip_prefix('/')?;
        let (endpoint, check) = path.split_once('/').map_or((path, None), |(e, c)| (e, Some(c)));
        if !ENDPOINTS.contains(&endpoint) {
            return None;
        }
        match check {
            None => Some(self.all(endpoint, query)),
            Some(check) => {
                self.names(endpoint).into_iter().find(|name| *name == check).map(|name| self.one(name))
            }
        }
    }

    fn one(&self, check: &str) -> ApiResponse {
        if self.passes(check) {
            return ok("ok".into());
        }
        let why = match check {
            "etcd" | "etcd-readiness" => self.store_failure(),
            _ => None,
        };
        let why = why.unwrap_or_else(|| "check failed".to_owned());
        respond::text(500, &format!("internal server error: {why}"))
    }

    fn all(&self, endpoint: &str, query: &[(String, String)]) -> ApiResponse {
        let excluded: Vec<&str> =
            query.iter().filter(|(k, _)| k == "exclude").map(|(_, v)| v.as_str()).collect();
        let mut report = String::new();
        let mut failed = false;
        for check in self.names(endpoint) {
            _ = if excluded.contains(&check) {
                writeln!(report, "[+]{check} excluded: ok")
            } else if self.passes(check) {
                writeln!(report, "[+]{check} ok")
            } else {
                failed = true;
                writeln!(report, "[-]{check} failed: reason withheld")
            };
        }
        let mut unknown: Vec<&str> =
            excluded.into_iter().filter(|e| !self.names(endpoint).contains(e)).collect();
        if !unknown.is_empty() {
            unknown.sort_unstable();
            unknown.dedup();
            let list = unknown.iter().map(|n| format!("{n:?}")).collect::<Vec<_>>().join(", ");
            _ = writeln!(report, "warn: some health checks cannot be excluded: no matches for {list}");
        }
        if failed {
            return respond::text(500, &format!("{report}{endpoint} check failed"));
        }
        if query.iter().any(|(k, _)| k == "verbose") {
            return ok(format!("{report}{endpoint} check passed\n"));
        }
        ok("ok".into())
    }
}

/// The names of the checks of an endpoint.
pub(crate) fn checks(endpoint: &str) -> impl Iterator<Item = &'static str> {
    let left_out = if endpoint == "readyz" { LIVENESS_ONLY } else { READINESS_ONLY };
    CHECKS.iter().copied().filter(move |check| !left_out.contains(check))
}

fn ok(text: String) -> ApiResponse {
    let mut response = ApiResponse::new(200, "text/plain; charset=utf-8", text);
    response.set_header("x-content-type-options", "nosniff");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(health: &Health, uri: &str) -> Option<(u16, String)> {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let response = health.serve(path, &crate::query::parse(query))?;
        let crate::Body::Full(body) = response.body else { panic!("a full body") };
        Some((response.code, String::from_utf8(body.to_vec()).unwrap()))
    }

    #[test]
    fn readiness_comes_and_goes() {
        let health = Health::default();
        assert_eq!(ask(&health, "/readyz").unwrap().0, 500);
        assert_eq!(ask(&health, "/livez/ping"), Some((200, "ok".into())));
        health.set_ready();
        assert_eq!(ask(&health, "/readyz"), Some((200, "ok".into())));
        health.set_stopping();
        let (code, text) = ask(&health, "/readyz").unwrap();
        assert_eq!(code, 500);
        assert!(text.ends_with("[-]shutdown failed: reason withheld\nreadyz check failed\n"));
        assert_eq!(ask(&health, "/readyz?exclude=shutdown").unwrap().0, 200);
        assert_eq!(ask(&health, "/healthz").unwrap().0, 200);
        assert_eq!(ask(&health, "/livez/nope"), None);
        assert_eq!(ask(&health, "/healthz/"), None);
    }

    #[test]
    fn unknown_exclusions_are_mentioned() {
        let health = Health::default();
        health.set_ready();
        let (_, text) = ask(&health, "/livez?verbose&exclude=nope").unwrap();
        assert!(text.contains("no matches for \"nope\"\nlivez check passed\n"), "{text}");
    }
}
