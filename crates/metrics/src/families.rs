//! The table of all families. Names, types, labels and buckets are those of kube-apiserver, so that its dashboards and
//! alerts work.

use crate::Type::{Counter, Gauge, Histogram, Read, ReadCounter};
use crate::{Family, process, selection};
use std::sync::LazyLock;

/// Durations of requests, in seconds.
const REQUEST_SECONDS: &[f64] = &[
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0,
    20.0, 30.0, 45.0, 60.0,
];
/// The buckets of service level indicators, which start at 50 ms.
const SLI_SECONDS: &[f64] = &[
    0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0,
    45.0, 60.0,
];
/// Powers of two from a millisecond.
const DOUBLING_SECONDS: &[f64] = &[
    0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 2.048, 4.096, 8.192, 16.384,
];
const FILTER_SECONDS: &[f64] =
    &[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0, 10.0, 15.0, 30.0];
const RESPONSE_BYTES: &[f64] = &[1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9];
const BODY_BYTES: &[f64] = &[
    5e4, 1.5e5, 2.5e5, 3.5e5, 4.5e5, 5.5e5, 6.5e5, 7.5e5, 8.5e5, 9.5e5, 1.05e6, 1.15e6, 1.25e6, 1.35e6,
    1.45e6, 1.55e6, 1.65e6, 1.75e6, 1.85e6, 1.95e6, 2.05e6, 2.15e6, 2.25e6, 2.35e6, 2.45e6, 2.55e6, 2.65e6,
    2.75e6, 2.85e6, 2.95e6, 3.05e6,
];

/// The default buckets of Prometheus.
const DEFAULT_SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const JWT_BOUNDS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const CONDITION_SECONDS: &[f64] = &[0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];

/// Buckets of priority and fairness; `flow` repeats those that it counts itself.
const FLOW_SECONDS: &[f64] = &[0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0];
const FLOW_DEMANDS: &[f64] = &[0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];
const FLOW_REQUEST_RATIOS: &[f64] = &[0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
const FLOW_SEAT_RATIOS: &[f64] = &[0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
const FLOW_READ_WRITE_RATIOS: &[f64] =
    &[0.0, 0.001, 0.01, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];
const FLOW_LENGTHS: &[f64] = &[0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0];
const FLOW_WATCHES: &[f64] = &[0.0, 1.0, 10.0, 100.0, 1000.0, 10_000.0];
const FLOW_SEATS: &[f64] = &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0];

/// Labels of a flow, and of a priority level.
const FLOW: &[&str] = &["flow_schema", "priority_level"];
const LEVEL: &[&str] = &["priority_level"];
/// Labels of a request.
const REQUEST: &[&str] = &["component", "group", "resource", "scope", "subresource", "verb", "version"];

macro_rules! families {
    ($(#[$doc:meta])* $all:ident: $($id:ident = $name:literal, $type_:expr, $labels:expr, $help:literal;)*) => {
        $(#[doc = $help] pub static $id: Family = Family::new($name, $type_, $labels, $help);)*
        $(#[$doc])*
        pub static $all: &[&Family] = &[$(&$id),*];
    };
}

mod calls;
mod server;
mod stability;

pub use calls::*;
pub use server::*;
pub use stability::count_by_stability;

/// Deprecated names under which kube-apiserver exports a family once more with `--show-hidden-metrics-for-version`.
pub static HIDDEN: &[(&str, &Family)] = &[
    ("apiserver_flowcontrol_request_concurrency_in_use", &FLOW_EXECUTING_SEATS),
    ("apiserver_flowcontrol_request_concurrency_limit", &FLOW_NOMINAL_SEATS),
    ("apiserver_request_slo_duration_seconds", &REQUEST_SLI),
    ("kube_apiserver_pod_logs_pods_logs_backend_tls_failure_total", &LOG_TLS_FAILURES),
    ("kube_apiserver_pod_logs_pods_logs_insecure_backend_total", &LOG_BACKENDS),
];

/// All families of `/metrics` and the names under which they are exported, sorted by name. Must not be called before the [`Selection`]
/// applies.
///
/// [`Selection`]: crate::Selection
pub fn sorted() -> &'static [(&'static str, &'static Family)] {
    static SORTED: LazyLock<Vec<(&str, &Family)>> = LazyLock::new(|| {
        let all = ALL.iter().chain(SERVER).chain(CALLS).map(|family| (family.name(), *family));
        let hidden = HIDDEN.iter().copied().filter(|_| selection::shows_hidden());
        let mut all: Vec<(&str, &Family)> = all.chain(hidden).collect();
        all.sort_by_key(|(name, _)| *name);
        all
    });
    &SORTED
}

families! {
    /// The families of `/metrics/slis`.
    SLIS:
    HEALTHCHECK = "kubernetes_healthcheck", Gauge, &["name", "type"], "Result of a health check: 1 is good.";
    HEALTHCHECKS = "kubernetes_healthchecks_total", Counter, &["name", "status", "type"], "Results of all health checks.";
}

families! {
    /// The families of requests and of the process.
    ALL:
    AUDIT_EVENTS = "apiserver_audit_event_total", Counter, &[], "Audit events that were generated and sent to the backends.";
    AUDIT_LEVELS = "apiserver_audit_level_total", Counter, &["level"], "Policy levels of requests that are audited.";
    AUDIT_REJECTED = "apiserver_audit_requests_rejected_total", Counter, &[], "Requests that were rejected because an audit backend failed.";
    AUDIT_ERRORS = "apiserver_audit_error_total", Counter, &["plugin"], "Audit events that a backend lost.";
    AUTHENTICATION_RELOADED_AT = "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds", Gauge, &["apiserver_id_hash", "status"], "When the authentication configuration was last reloaded, by status.";
    AUTHENTICATION_RELOADS = "apiserver_authentication_config_controller_automatic_reloads_total", Counter, &["apiserver_id_hash", "status"], "Reloads of the authentication configuration by status.";
    AUTHENTICATION_CONFIG_INFO = "apiserver_authentication_config_controller_last_config_info", Gauge, &["apiserver_id_hash", "hash"], "The hash of the authentication configuration in effect.";
    KEY_SET_INFO = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info", Gauge, &["apiserver_id_hash", "hash", "jwt_issuer_hash"], "The last key set of an OpenID provider, by its hash.";
    KEY_SET_FETCHED_AT = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds", Gauge, &["apiserver_id_hash", "jwt_issuer_hash", "result"], "When the key set of an OpenID provider was last fetched, by result.";
    JWT_SECONDS = "apiserver_authentication_jwt_authenticator_latency_seconds", Histogram(JWT_BOUNDS), &["jwt_issuer_hash", "result"], "Durations of the authentication of tokens of OpenID providers that were not cached.";
    AUTHORIZATION_RELOADED_AT = "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds", Gauge, &["apiserver_id_hash", "status"], "When the authorization configuration was last reloaded, by status.";
    AUTHORIZATION_RELOADS = "apiserver_authorization_config_controller_automatic_reloads_total", Counter, &["apiserver_id_hash", "status"], "Reloads of the authorization configuration by status.";
    AUTHORIZATION_CONFIG_INFO = "apiserver_authorization_config_controller_last_config_info", Gauge, &["apiserver_id_hash", "hash"], "The hash of the authorization configuration that counts.";
    AUTHORIZATION_DECISIONS = "apiserver_authorization_decisions_total", Counter, &["decision", "name", "type"], "Decisions of authorizers by type and name.";
    MATCH_CONDITION_ERRORS = "apiserver_authorization_match_condition_evaluation_errors_total", Counter, &["name", "type"], "Match conditions of authorization webhooks that failed.";
    MATCH_CONDITION_SECONDS = "apiserver_authorization_match_condition_evaluation_seconds", Histogram(CONDITION_SECONDS), &["name", "type"], "Durations of evaluations of match conditions.";
    MATCH_CONDITION_EXCLUSIONS = "apiserver_authorization_match_condition_exclusions_total", Counter, &["name", "type"], "Requests about which a webhook was not asked because of its match conditions.";
    AUTHORIZATION_WEBHOOK_SECONDS = "apiserver_authorization_webhook_duration_seconds", Histogram(DEFAULT_SECONDS), &["name", "result"], "Durations of calls to authorization webhooks.";
    AUTHORIZATION_WEBHOOK_FAIL_OPEN = "apiserver_authorization_webhook_evaluations_fail_open_total", Counter, &["name", "result"], "Calls to authorization webhooks that failed and count as no opinion.";
    AUTHORIZATION_WEBHOOK_EVALUATIONS = "apiserver_authorization_webhook_evaluations_total", Counter, &["name", "result"], "Calls to authorization webhooks.";
    INFLIGHT = "apiserver_current_inflight_requests", Gauge, &["request_kind"], "Requests that are being worked on.";
    INQUEUE = "apiserver_current_inqueue_requests", Gauge, &["request_kind"], "Requests that wait in queues.";
    FLOW_EXECUTING = "apiserver_flowcontrol_current_executing_requests", Gauge, FLOW, "Requests that execute, of watches only until they have caught up.";
    FLOW_EXECUTING_SEATS = "apiserver_flowcontrol_current_executing_seats", Gauge, FLOW, "Seats that requests hold.";
    FLOW_INQUEUE = "apiserver_flowcontrol_current_inqueue_requests", Gauge, FLOW, "Requests that wait in queues of priority and fairness.";
    FLOW_INQUEUE_SEATS = "apiserver_flowcontrol_current_inqueue_seats", Gauge, FLOW, "Seats that requests in queues wait for.";
    FLOW_CURRENT_SEATS = "apiserver_flowcontrol_current_limit_seats", Gauge, LEVEL, "Seats of a priority level as they are divided now.";
    FLOW_CURRENT_R = "apiserver_flowcontrol_current_r", Gauge, LEVEL, "R at the time of the last change.";
    FLOW_DEMAND_SEATS = "apiserver_flowcontrol_demand_seats", Histogram(FLOW_DEMANDS), LEVEL, "Seats that a level could use, as a fraction of those it has; every nanosecond counts once.";
    FLOW_DEMAND_AVERAGE = "apiserver_flowcontrol_demand_seats_average", Gauge, LEVEL, "Average demand over the last ten seconds.";
    FLOW_DEMAND_WATERMARK = "apiserver_flowcontrol_demand_seats_high_watermark", Gauge, LEVEL, "Highest demand of the last ten seconds.";
    FLOW_DEMAND_SMOOTHED = "apiserver_flowcontrol_demand_seats_smoothed", Gauge, LEVEL, "Demand, smoothed.";
    FLOW_DEMAND_DEVIATION = "apiserver_flowcontrol_demand_seats_stdev", Gauge, LEVEL, "Standard deviation of demand over the last ten seconds.";
    FLOW_DISPATCH_R = "apiserver_flowcontrol_dispatch_r", Gauge, LEVEL, "R at the time of the last dispatch.";
    FLOW_DISPATCHED = "apiserver_flowcontrol_dispatched_requests_total", Counter, FLOW, "Requests that were executed by priority and fairness.";
    FLOW_LATEST_S = "apiserver_flowcontrol_latest_s", Gauge, LEVEL, "S of the request that was dispatched last.";
    FLOW_LOWER_SEATS = "apiserver_flowcontrol_lower_limit_seats", Gauge, LEVEL, "Seats that a priority level has at least.";
    FLOW_NEXT_DISCOUNTED_S = "apiserver_flowcontrol_next_discounted_s_bounds", Gauge, &["bound", "priority_level"], "Least and greatest S of the oldest requests of all queues, less the work in progress.";
    FLOW_NEXT_S = "apiserver_flowcontrol_next_s_bounds", Gauge, &["bound", "priority_level"], "Least and greatest S of the oldest requests of all queues.";
    FLOW_NOMINAL_SEATS = "apiserver_flowcontrol_nominal_limit_seats", Gauge, LEVEL, "Seats that a priority level has by its shares.";
    FLOW_REQUEST_UTILIZATION = "apiserver_flowcontrol_priority_level_request_utilization", Histogram(FLOW_REQUEST_RATIOS), &["phase", "priority_level"], "Requests that wait or execute, as a fraction of the limit; every nanosecond counts once.";
    FLOW_SEAT_UTILIZATION = "apiserver_flowcontrol_priority_level_seat_utilization", Histogram(FLOW_SEAT_RATIOS), &["phase", "priority_level"], "Seats in use, as a fraction of the limit; every nanosecond counts once.";
    FLOW_READ_WRITE = "apiserver_flowcontrol_read_vs_write_current_requests", Histogram(FLOW_READ_WRITE_RATIOS), &["phase", "request_kind"], "Requests that read or write, as a fraction of the limit; every nanosecond counts once.";
    FLOW_REJECTED = "apiserver_flowcontrol_rejected_requests_total", Counter, &["flow_schema", "priority_level", "reason"], "Requests that priority and fairness rejected.";
    FLOW_NO_ACCOMMODATION = "apiserver_flowcontrol_request_dispatch_no_accommodation_total", Counter, FLOW, "Attempts to dispatch a request that was too wide for the seats that were free.";
    FLOW_EXECUTION_SECONDS = "apiserver_flowcontrol_request_execution_seconds", Histogram(FLOW_SECONDS), &["flow_schema", "priority_level", "type"], "How long requests execute, watches until they have caught up.";
    FLOW_QUEUE_LENGTH = "apiserver_flowcontrol_request_queue_length_after_enqueue", Histogram(FLOW_LENGTHS), FLOW, "Length of a queue when a request has joined it.";
    FLOW_WAIT_SECONDS = "apiserver_flowcontrol_request_wait_duration_seconds", Histogram(FLOW_SECONDS), &["execute", "flow_schema", "priority_level"], "How long requests wait in queues.";
    FLOW_FAIR_FRACTION = "apiserver_flowcontrol_seat_fair_frac", Gauge, &[], "Fraction of its target that each level gets of the seats.";
    FLOW_TARGET_SEATS = "apiserver_flowcontrol_target_seats", Gauge, LEVEL, "Seats that a level claims when they are divided.";
    FLOW_UPPER_SEATS = "apiserver_flowcontrol_upper_limit_seats", Gauge, LEVEL, "Seats that a priority level has at most.";
    FLOW_WATCH_COUNT = "apiserver_flowcontrol_watch_count_samples", Histogram(FLOW_WATCHES), FLOW, "Watches that are notified of a write.";
    FLOW_ESTIMATED_SEATS = "apiserver_flowcontrol_work_estimated_seats", Histogram(FLOW_SEATS), FLOW, "Seats that requests are estimated to take.";
    LONG_RUNNING = "apiserver_longrunning_requests", Gauge, REQUEST, "Long-running requests that are open.";
    REQUEST_BODY = "apiserver_request_body_size_bytes", Histogram(BODY_BYTES), &["group", "resource", "verb"], "Sizes of request bodies.";
    REQUEST_DURATION = "apiserver_request_duration_seconds", Histogram(REQUEST_SECONDS), &["component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version"], "Durations of requests.";
    REQUEST_FILTER = "apiserver_request_filter_duration_seconds", Histogram(FILTER_SECONDS), &["filter"], "Durations of the filters before a request is handled.";
    REQUEST_SLI = "apiserver_request_sli_duration_seconds", Histogram(SLI_SECONDS), REQUEST, "Durations of requests without the time of webhooks and of waiting in queues.";
    DEPRECATED_REQUESTS = "apiserver_requested_deprecated_apis", Gauge, &["group", "removed_release", "resource", "subresource", "version"], "Deprecated APIs that were requested.";
    REQUEST_TERMINATIONS = "apiserver_request_terminations_total", Counter, &["code", "component", "group", "resource", "scope", "subresource", "verb", "version"], "Requests that the server ended in self-defence.";
    REQUEST_TOTAL = "apiserver_request_total", Counter, &["code", "component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version"], "Requests by verb, resource and status code.";
    RESPONSE_SIZES = "apiserver_response_sizes", Histogram(RESPONSE_BYTES), REQUEST, "Sizes of answers to gets and lists.";
    TLS_HANDSHAKE_ERRORS = "apiserver_tls_handshake_errors_total", Counter, &[], "TLS handshakes that failed.";
    AUTHENTICATED_USERS = "authenticated_user_requests", Counter, &["username"], "Requests by user; the user is \"other\" but for a few well-known names.";
    AUTHENTICATION_ATTEMPTS = "authentication_attempts", Counter, &["result"], "Authentications by result.";
    AUTHENTICATION_DURATION = "authentication_duration_seconds", Histogram(DOUBLING_SECONDS), &["result"], "Durations of authentications.";
    AUTHORIZATION_ATTEMPTS = "authorization_attempts_total", Counter, &["result"], "Authorizations by result.";
    AUTHORIZATION_DURATION = "authorization_duration_seconds", Histogram(DOUBLING_SECONDS), &["result"], "Durations of authorizations.";
    FIELD_VALIDATION = "field_validation_request_duration_seconds", Histogram(SLI_SECONDS), &["field_validation"], "Durations of writes by how they validate fields.";
    CPU_SECONDS = "process_cpu_seconds_total", ReadCounter(process::cpu_seconds), &[], "Processor time of the user and the system.";
    FILES_MAX = "process_max_fds", Read(process::open_files_max), &[], "Most open file descriptors.";
    NETWORK_RECEIVED = "process_network_receive_bytes_total", ReadCounter(process::network_received), &[], "Bytes received over the network.";
    NETWORK_SENT = "process_network_transmit_bytes_total", ReadCounter(process::network_sent), &[], "Bytes sent over the network.";
    FILES = "process_open_fds", Read(process::open_files), &[], "Open file descriptors.";
    RESIDENT_BYTES = "process_resident_memory_bytes", Read(process::resident_bytes), &[], "Resident memory.";
    START_TIME = "process_start_time_seconds", Read(process::start_time), &[], "When the process began, in seconds since 1970.";
    VIRTUAL_BYTES = "process_virtual_memory_bytes", Read(process::virtual_bytes), &[], "Virtual memory.";
    VIRTUAL_BYTES_MAX = "process_virtual_memory_max_bytes", Read(process::virtual_bytes_max), &[], "Most virtual memory.";
}
