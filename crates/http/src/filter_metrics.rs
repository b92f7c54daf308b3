//! Metrics of the steps before a request is handled: authentication, authorization and body sizes.

use crate::metrics::Labels;
use crate::peer::Peer;
use crate::requestinfo::RequestInfo;
use pintle_auth::{Decision, Unauthorized, UserInfo};
use pintle_metrics::{Family, Handle, families};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// A step that is measured.
#[derive(Clone, Copy)]
pub(crate) enum Filter {
    Authentication,
    Audit,
    Impersonation,
    ConstrainedImpersonation,
    Flow,
    Authorization,
}

/// The series of a family with one label. A series is exported from its first use on, as in kube-apiserver, and resolved
/// once.
struct Series<const N: usize> {
    family: &'static Family,
    labels: [&'static str; N],
    handles: [OnceLock<Handle>; N],
}

impl<const N: usize> Series<N> {
    const fn new(family: &'static Family, labels: [&'static str; N]) -> Self {
        Series { family, labels, handles: [const { OnceLock::new() }; N] }
    }

    fn handle(&self, index: usize) -> Option<&Handle> {
        let label = *self.labels.get(index)?;
        Some(self.handles.get(index)?.get_or_init(|| self.family.with(&[label])))
    }

    fn count_at(&self, index: usize) {
        if let Some(handle) = self.handle(index) {
            handle.add(1);
        }
    }

    fn observe_at(&self, index: usize, took: Duration) {
        if let Some(handle) = self.handle(index) {
            handle.observe(self.family.buckets(), took.as_secs_f64());
        }
    }
}

const AUTHENTICATION_RESULTS: [&str; 3] = ["success", "failure", "error"];
const AUTHORIZATION_RESULTS: [&str; 4] = ["allowed", "denied", "no-opinion", "error"];
const USER_GROUPS: [&str; 4] = ["admin", "email_id", "kube_proxy", "other"];

static FILTER_SECONDS: Series<6> = Series::new(
    &families::REQUEST_FILTER,
    [
        "authentication",
        "audit",
        "impersonation",
        "constrainedimpersonation",
        "priorityandfairness",
        "authorization",
    ],
);
static AUTHENTICATIONS: Series<3> = Series::new(&families::AUTHENTICATION_ATTEMPTS, AUTHENTICATION_RESULTS);
static AUTHENTICATION_SECONDS: Series<3> =
    Series::new(&families::AUTHENTICATION_DURATION, AUTHENTICATION_RESULTS);
static AUTHORIZATIONS: Series<4> = Series::new(&families::AUTHORIZATION_ATTEMPTS, AUTHORIZATION_RESULTS);
static AUTHORIZATION_SECONDS: Series<4> =
    Series::new(&families::AUTHORIZATION_DURATION, AUTHORIZATION_RESULTS);
static USERS: Series<4> = Series::new(&families::AUTHENTICATED_USERS, USER_GROUPS);

/// Measures steps that follow each other. The caller reads the clock, because what one moment ends and begins is more than a step.
pub(crate) struct Steps(Instant);

impl Steps {
    /// Starts the first step.
    pub(crate) fn begin(now: Instant) -> Self {
        Steps(now)
    }

    /// When the step began.
    pub(crate) fn began(&self) -> Instant {
        self.0
    }

    /// Ends a step and starts the next one. Returns when that was.
    pub(crate) fn end(&mut self, filter: Filter, now: Instant) -> Instant {
        let began = std::mem::replace(&mut self.0, now);
        FILTER_SECONDS.observe_at(filter as usize, now.saturating_duration_since(began));
        now
    }
}

/// Counts an authentication and observes the remaining validity of the client certificate.
pub(crate) fn authenticated(peer: &Peer, user: Result<&UserInfo, &Unauthorized>, took: Duration) {
    FILTER_SECONDS.observe_at(Filter::Authentication as usize, took);
    // Requests without credentials fail; refused credentials are errors, as in kube-apiserver.
    let result = user.map_or_else(|refusal| if refusal.is_of_credentials() { 2 } else { 1 }, |_| 0);
    AUTHENTICATIONS.count_at(result);
    AUTHENTICATION_SECONDS.observe_at(result, took);
    let Ok(user) = user else { return };
    USERS.count_at(user_group(&user.name));
    if let Some(seconds) = peer.certificates.seconds_left() {
        families::CLIENT_CERTIFICATE_EXPIRATION.observe(&[], seconds);
    }
}

/// User names would make too many series; kube-apiserver counts only a few by name.
fn user_group(name: &str) -> usize {
    match name {
        "admin" => 0,
        name if name.contains('@') => 1,
        "system:kube-proxy" | "kube_proxy" => 2,
        _ => 3,
    }
}

/// Counts an authorization.
pub(crate) fn authorized(decision: &Decision, took: Duration) {
    let result = match decision {
        Decision::Allow(_) => 0,
        Decision::Deny(_) => 1,
        Decision::NoOpinion(_) => 2,
        Decision::Failed(_) => 3,
    };
    AUTHORIZATIONS.count_at(result);
    AUTHORIZATION_SECONDS.observe_at(result, took);
}

/// Counts a request in a deprecated version.
pub(crate) fn deprecated(labels: &Labels, warning: &str) {
    let release = removed_release(warning).unwrap_or("");
    families::DEPRECATED_REQUESTS
        .set(&[&labels.group, release, &labels.resource, &labels.subresource, &labels.version], 1.0);
}

/// The release that a deprecation warning names as the first one without this version.
pub(crate) fn removed_release(warning: &str) -> Option<&str> {
    let (_, rest) = warning.split_once(", unavailable in v")?;
    rest.split_once('+').map(|(release, _)| release)
}

/// Exports the series of the `fieldValidation` of a request. kube-apiserver creates it, but never observes a duration.
pub(crate) fn export_field_validation(query: &[(String, String)]) {
    static SERIES: Series<5> =
        Series::new(&families::FIELD_VALIDATION, ["", "Ignore", "Warn", "Strict", "invalid"]);
    let mut asked = query.iter().filter(|(key, _)| key == "fieldValidation").map(|(_, value)| value.as_str());
    let index = match (asked.next(), asked.next()) {
        (None, _) => 0,
        (Some("Ignore"), None) => 1,
        (Some("Warn"), None) => 2,
        (Some("Strict"), None) => 3,
        (Some(""), None) => 0,
        _ => 4,
    };
    SERIES.handle(index);
}

/// Counts the size of a body.
pub(crate) fn body_read(info: &RequestInfo, bytes: usize) {
    if info.is_write() {
        let verb = if info.verb == "deletecollection" { "delete_collection" } else { &info.verb };
        #[expect(clippy::cast_precision_loss, reason = "a size to be put in a bucket")]
        families::REQUEST_BODY.observe(&[&info.group, &info.resource, verb], bytes as f64);
    }
}
