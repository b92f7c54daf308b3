//! Metrics of the steps before a request is handled: authentication, authorization and body sizes.

use crate::peer::Peer;
use crate::requestinfo::RequestInfo;
use pintle_auth::{Decision, Unauthorized, UserInfo};
use pintle_metrics::{Family, Handle, families};
use std::sync::LazyLock;
use std::time::Duration;

/// A step that is measured.
#[derive(Clone, Copy)]
pub(crate) enum Filter {
    Authentication,
    Authorization,
}

/// Series with one label, resolved once.
type Series<const N: usize> = LazyLock<[Handle; N]>;

const FILTERS: [&str; 2] = ["authentication", "authorization"];
const AUTHENTICATION_RESULTS: [&str; 3] = ["success", "failure", "error"];
const AUTHORIZATION_RESULTS: [&str; 4] = ["allowed", "denied", "no-opinion", "error"];

static FILTER_SECONDS: Series<2> =
    LazyLock::new(|| FILTERS.map(|name| families::REQUEST_FILTER.with(&[name])));
static AUTHENTICATIONS: Series<3> =
    LazyLock::new(|| AUTHENTICATION_RESULTS.map(|result| families::AUTHENTICATION_ATTEMPTS.with(&[result])));
static AUTHENTICATION_SECONDS: Series<3> =
    LazyLock::new(|| AUTHENTICATION_RESULTS.map(|result| families::AUTHENTICATION_DURATION.with(&[result])));
static AUTHORIZATIONS: Series<4> =
    LazyLock::new(|| AUTHORIZATION_RESULTS.map(|result| families::AUTHORIZATION_ATTEMPTS.with(&[result])));
static AUTHORIZATION_SECONDS: Series<4> =
    LazyLock::new(|| AUTHORIZATION_RESULTS.map(|result| families::AUTHORIZATION_DURATION.with(&[result])));
static USERS: Series<4> = LazyLock::new(|| {
    ["admin", "email_id", "kube_proxy", "other"].map(|name| families::AUTHENTICATED_USERS.with(&[name]))
});

/// Measures a step.
pub(crate) fn filter(filter: Filter, took: Duration) {
    observe(&FILTER_SECONDS, filter as usize, &families::REQUEST_FILTER, took);
}

/// Counts an authentication and observes the remaining validity of the client certificate.
pub(crate) fn authenticated(peer: &Peer, user: Result<&UserInfo, &Unauthorized>, took: Duration) {
    filter(Filter::Authentication, took);
    // Requests without credentials fail; refused credentials are errors, as in kube-apiserver.
    let result = user.map_or_else(|refusal| if refusal.is_of_credentials() { 2 } else { 1 }, |_| 0);
    count(&AUTHENTICATIONS, result);
    observe(&AUTHENTICATION_SECONDS, result, &families::AUTHENTICATION_DURATION, took);
    let Ok(user) = user else { return };
    count(&USERS, user_group(&user.name));
    if let Some(seconds) = peer.certificates.seconds_left() {
        families::CLIENT_CERTIFICATE_EXPIRATION.observe(&[], seconds);
    }
}

/// Counts the authentication of a token. Nothing is cached here, so each one is a lookup.
pub(crate) fn token_authenticated(succeeded: bool, took: Duration) {
    static SERIES: LazyLock<[Handle; 5]> = LazyLock::new(|| {
        families::TOKEN_FETCHES_ACTIVE.set(&["blocked"], 0.0);
        [
            families::TOKEN_REQUESTS.with(&["miss"]),
            families::TOKEN_DURATION.with(&["miss"]),
            families::TOKEN_FETCHES.with(&["ok"]),
            families::TOKEN_FETCHES.with(&["error"]),
            families::TOKEN_FETCHES_ACTIVE.with(&["in_flight"]),
        ]
    });
    let [requests, duration, ok, failed, _active] = &*SERIES;
    requests.add(1);
    duration.observe(families::TOKEN_DURATION.buckets(), took.as_secs_f64());
    if succeeded { ok } else { failed }.add(1);
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
    count(&AUTHORIZATIONS, result);
    observe(&AUTHORIZATION_SECONDS, result, &families::AUTHORIZATION_DURATION, took);
}

/// Counts the size of a body.
pub(crate) fn body_read(info: &RequestInfo, bytes: usize) {
    if matches!(info.verb.as_str(), "create" | "update" | "patch" | "delete" | "deletecollection") {
        #[expect(clippy::cast_precision_loss, reason = "a size to be put in a bucket")]
        families::REQUEST_BODY.observe(&[&info.group, &info.resource, &info.verb], bytes as f64);
    }
}

fn count<const N: usize>(series: &Series<N>, index: usize) {
    if let Some(series) = series.get(index) {
        series.add(1);
    }
}

fn observe<const N: usize>(series: &Series<N>, index: usize, family: &Family, took: Duration) {
    if let Some(series) = series.get(index) {
        series.observe(family.buckets(), took.as_secs_f64());
    }
}
