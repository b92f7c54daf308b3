//! `/healthz`, `/livez` and `/readyz`: named checks, single or together. Any part of the server can add one.

use crate::api::ApiResponse;
use crate::respond;
use pintle_metrics::families;
use std::fmt::Write;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// The names of the server's checks. Most are those that monitoring of kube-apiserver expects; the steps that they
/// name are complete before the server listens, so these checks always pass.
pub struct Health {
    ready: Arc<AtomicBool>,
    stopping: Arc<AtomicBool>,
    checks: RwLock<Vec<Check>>,
}

/// Returns the reason why a check fails. It is called for each request and must not block.
pub type CheckFn = dyn Fn() -> Result<(), String> + Send + Sync;

/// A check that waits for another server. It must have a time limit of its own.
pub type SlowCheckFn = dyn Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync;

#[derive(Clone)]
enum Run {
    AtOnce(Arc<CheckFn>),
    Slow(Arc<SlowCheckFn>),
}

impl Run {
    async fn outcome(&self) -> Result<(), String> {
        match self {
            Run::AtOnce(run) => run(),
            Run::Slow(run) => run().await,
        }
    }
}

/// The endpoints that include a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// `/healthz`, `/livez` and `/readyz`.
    Everywhere,
    /// `/readyz` alone.
    Readiness,
    /// `/healthz` and `/livez` alone.
    Liveness,
    /// `/healthz` and `/readyz`: a restart of the server would not help.
    ExceptLiveness,
}

impl Scope {
    fn is_served_at(self, endpoint: &str) -> bool {
        match self {
            Scope::Everywhere => true,
            Scope::Readiness => endpoint == "readyz",
            Scope::Liveness => endpoint != "readyz",
            Scope::ExceptLiveness => endpoint != "livez",
        }
    }
}

#[derive(Clone)]
struct Check {
    name: Arc<str>,
    scope: Scope,
    run: Run,
}

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

/// Checks that only `/readyz` has.
const READINESS_ONLY: &[&str] = &["etcd-readiness", "informer-sync", "shutdown"];

/// Checks that `/readyz` does not have.
const LIVENESS_ONLY: &[&str] = &["loopback-serving-certificate"];

/// The three health endpoints.
pub(crate) const ENDPOINTS: &[&str] = &["healthz", "livez", "readyz"];

impl Default for Health {
    fn default() -> Self {
        let (ready, stopping) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let check = |name: &&str| {
            let (ready, stopping) = (Arc::clone(&ready), Arc::clone(&stopping));
            let run: Arc<CheckFn> = match *name {
                "shutdown" => Arc::new(move || {
                    if stopping.load(Ordering::Acquire) {
                        Err("process is shutting down".into())
                    } else {
                        Ok(())
                    }
                }),
                "informer-sync"
                | "poststarthook/rbac/bootstrap-roles"
                | "poststarthook/bootstrap-controller" => {
                    Arc::new(move || ready.load(Ordering::Acquire).then_some(()).ok_or("not finished".into()))
                }
                _ => Arc::new(|| Ok(())),
            };
            let scope = match *name {
                name if READINESS_ONLY.contains(&name) => Scope::Readiness,
                name if LIVENESS_ONLY.contains(&name) => Scope::Liveness,
                _ => Scope::Everywhere,
            };
            Check { name: Arc::from(*name), scope, run: Run::AtOnce(run) }
        };
        Health { checks: RwLock::new(CHECKS.iter().map(check).collect()), ready, stopping }
    }
}

impl Health {
    /// Marks bootstrap as complete: requests may be sent.
    pub fn set_ready(&self) {
        self.ready.store(true, Ordering::Release);
    }

    /// Marks the server as stopping: readiness fails from now on.
    pub fn set_stopping(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Sets the function of the check with this name. A new check is listed after the check `after`, or last but for
    /// `shutdown` if there is no such check. An existing one keeps its position and scope.
    pub fn set_check(
        &self,
        name: &str,
        scope: Scope,
        after: &str,
        run: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.insert_check(name, scope, after, Run::AtOnce(Arc::new(run)));
    }

    /// Adds a check that takes time. Each request waits for it.
    pub fn set_slow_check(
        &self,
        name: &str,
        scope: Scope,
        after: &str,
        run: impl Fn() -> Pin<Box<dyn Future<Output = Result<(), String>> + Send>> + Send + Sync + 'static,
    ) {
        self.insert_check(name, scope, after, Run::Slow(Arc::new(run)));
    }

    fn insert_check(&self, name: &str, scope: Scope, after: &str, run: Run) {
        let mut checks = self.checks.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(check) = checks.iter_mut().find(|check| &*check.name == name) {
            check.run = run;
            return;
        }
        let behind = checks.iter().position(|check| &*check.name == after).map(|at| at.saturating_add(1));
        let at = behind.unwrap_or(checks.len().saturating_sub(1));
        checks.insert(at, Check { name: Arc::from(name), scope, run });
    }

    /// Removes a check.
    pub fn remove_check(&self, name: &str) {
        self.checks.write().unwrap_or_else(PoisonError::into_inner).retain(|check| &*check.name != name);
    }

    /// The names of the checks of an endpoint.
    pub(crate) fn check_names(&self, endpoint: &str) -> Vec<Arc<str>> {
        self.checks(endpoint).into_iter().map(|check| check.name).collect()
    }

    fn checks(&self, endpoint: &str) -> Vec<Check> {
        let checks = self.checks.read().unwrap_or_else(PoisonError::into_inner);
        checks.iter().filter(|check| check.scope.is_served_at(endpoint)).cloned().collect()
    }

    /// Answers `/readyz`, `/livez/ping` and similar paths; `None` if there is no such check.
    pub(crate) async fn serve(&self, path: &str, query: &[(String, String)]) -> Option<ApiResponse> {
        let path = path.strip_prefix('/')?;
        let (endpoint, check) = path.split_once('/').map_or((path, None), |(e, c)| (e, Some(c)));
        if !ENDPOINTS.contains(&endpoint) {
            return None;
        }
        match check {
            None => Some(self.run_all_checks(endpoint, query).await),
            Some(name) => {
                let check = self.checks(endpoint).into_iter().find(|check| &*check.name == name)?;
                Some(run_one_check(&check).await)
            }
        }
    }

    async fn run_all_checks(&self, endpoint: &str, query: &[(String, String)]) -> ApiResponse {
        let excluded: Vec<&str> =
            query.iter().filter(|(k, _)| k == "exclude").map(|(_, v)| v.as_str()).collect();
        let checks = self.checks(endpoint);
        let mut report = String::new();
        let mut failed = false;
        for Check { name, run, .. } in &checks {
            if excluded.contains(&&**name) {
                _ = writeln!(report, "[+]{name} excluded: ok");
                continue;
            }
            let result = run.outcome().await;
            let (value, status) = if result.is_ok() { (1.0, "success") } else { (0.0, "error") };
            families::HEALTHCHECK.set(&[name, endpoint], value);
            families::HEALTHCHECKS.inc(&[name, status, endpoint]);
            match result {
                Ok(()) => _ = writeln!(report, "[+]{name} ok"),
                Err(why) => {
                    failed = true;
                    tracing::warn!(check = &**name, "{endpoint} check failed: {why}");
                    _ = writeln!(report, "[-]{name} failed: reason withheld");
                }
            }
        }
        let is_unknown = |name: &&str| !checks.iter().any(|check| &*check.name == *name);
        let mut unknown: Vec<&str> = excluded.into_iter().filter(is_unknown).collect();
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
            return text_answer(format!("{report}{endpoint} check passed\n"));
        }
        text_answer("ok".into())
    }
}

async fn run_one_check(check: &Check) -> ApiResponse {
    match check.run.outcome().await {
        Ok(()) => ApiResponse::new(200, "text/plain; charset=utf-8", "ok"),
        Err(why) => respond::text(500, &format!("internal server error: {why}")),
    }
}

fn text_answer(text: String) -> ApiResponse {
    let mut response = ApiResponse::new(200, "text/plain; charset=utf-8", text);
    response.set_header("x-content-type-options", "nosniff");
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn respond_to(health: &Health, uri: &str) -> Option<ApiResponse> {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        let query = crate::query::parse(query);
        let mut serving = std::pin::pin!(health.serve(path, &query));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        let std::task::Poll::Ready(response) = serving.as_mut().poll(&mut context) else { panic!("waits") };
        response
    }

    fn get(health: &Health, uri: &str) -> Option<(u16, String)> {
        let response = respond_to(health, uri)?;
        let crate::Body::Full(body) = response.body else { panic!("a full body") };
        Some((response.code, String::from_utf8(body.to_vec()).unwrap()))
    }

    #[test]
    fn a_single_check_that_passes_has_only_a_content_type() {
        let health = Health::default();
        health.set_ready();
        for (uri, nosniff) in [("/readyz/ping", false), ("/readyz", true), ("/readyz?verbose", true)] {
            let response = respond_to(&health, uri).unwrap();
            assert_eq!(response.headers.contains_key("x-content-type-options"), nosniff, "{uri}");
        }
    }

    #[test]
    fn readiness_comes_and_goes() {
        let health = Health::default();
        assert_eq!(get(&health, "/readyz").unwrap().0, 500);
        assert_eq!(get(&health, "/livez/ping"), Some((200, "ok".into())));
        health.set_ready();
        assert_eq!(get(&health, "/readyz"), Some((200, "ok".into())));
        health.set_stopping();
        let (code, text) = get(&health, "/readyz").unwrap();
        assert_eq!(code, 500);
        assert!(text.ends_with("[-]shutdown failed: reason withheld\nreadyz check failed\n"));
        assert_eq!(get(&health, "/readyz?exclude=shutdown").unwrap().0, 200);
        assert_eq!(get(&health, "/healthz").unwrap().0, 200);
        assert_eq!(get(&health, "/livez/nope"), None);
        assert_eq!(get(&health, "/healthz/"), None);
    }

    #[test]
    fn a_failed_store_shows_everywhere_and_heals() {
        let health = Health::default();
        health.set_ready();
        let fault = Arc::new(std::sync::Mutex::new(Err("disk full".to_string())));
        for name in ["etcd", "etcd-readiness"] {
            let fault = Arc::clone(&fault);
            health.set_check(name, Scope::Everywhere, "", move || fault.lock().unwrap().clone());
        }
        for endpoint in ["/healthz", "/livez", "/readyz"] {
            let (code, text) = get(&health, endpoint).unwrap();
            assert_eq!(code, 500, "{endpoint}");
            assert!(text.contains("[-]etcd failed: reason withheld\n"), "{text}");
            assert_eq!(text.contains("etcd-readiness"), endpoint == "/readyz", "{text}");
        }
        assert_eq!(get(&health, "/readyz/etcd"), Some((500, "internal server error: disk full\n".into())));
        assert_eq!(get(&health, "/livez?exclude=etcd").unwrap().0, 200);
        *fault.lock().unwrap() = Ok(());
        assert_eq!(get(&health, "/readyz"), Some((200, "ok".into())));
    }

    #[test]
    fn checks_come_and_go() {
        let health = Health::default();
        health.set_check("kms-provider-0", Scope::Everywhere, "etcd", || Err("no answer".into()));
        health.set_check("last", Scope::Readiness, "nowhere", || Ok(()));
        let names = health.check_names("readyz");
        let at = |name: &str| names.iter().position(|n| &**n == name).unwrap();
        assert_eq!((at("kms-provider-0"), at("last")), (at("etcd") + 1, at("shutdown") - 1));
        assert!(!health.check_names("livez").iter().any(|name| &**name == "last"));
        assert_eq!(get(&health, "/livez/kms-provider-0").unwrap().0, 500);
        health.remove_check("kms-provider-0");
        assert_eq!(get(&health, "/livez/kms-provider-0"), None);
    }

    #[test]
    fn unknown_exclusions_are_mentioned() {
        let health = Health::default();
        health.set_ready();
        let (_, text) = get(&health, "/livez?verbose&exclude=nope").unwrap();
        assert!(text.contains("no matches for \"nope\"\nlivez check passed\n"), "{text}");
    }
}
