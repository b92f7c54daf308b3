//! The stability levels that kube-apiserver gives its families.

use super::sorted;
use std::collections::BTreeMap;

/// Families whose name, type and labels do not change.
const STABLE: &[&str] = &[
    "apiserver_admission_controller_admission_duration_seconds",
    "apiserver_admission_step_admission_duration_seconds",
    "apiserver_admission_webhook_admission_duration_seconds",
    "apiserver_current_inflight_requests",
    "apiserver_longrunning_requests",
    "apiserver_request_duration_seconds",
    "apiserver_request_total",
    "apiserver_requested_deprecated_apis",
    "apiserver_response_sizes",
    "apiserver_storage_objects",
    "apiserver_storage_size_bytes",
];

/// Families whose labels may only be extended.
const BETA: &[&str] = &[
    "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds",
    "apiserver_authentication_config_controller_automatic_reloads_total",
    "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds",
    "apiserver_authorization_config_controller_automatic_reloads_total",
    "apiserver_cel_compilation_duration_seconds",
    "apiserver_cel_evaluation_duration_seconds",
    "apiserver_flowcontrol_current_executing_requests",
    "apiserver_flowcontrol_current_executing_seats",
    "apiserver_flowcontrol_current_inqueue_requests",
    "apiserver_flowcontrol_dispatched_requests_total",
    "apiserver_flowcontrol_nominal_limit_seats",
    "apiserver_flowcontrol_rejected_requests_total",
    "apiserver_flowcontrol_request_wait_duration_seconds",
    "apiserver_storage_events_received_total",
    "apiserver_validating_admission_policy_check_duration_seconds",
    "apiserver_validating_admission_policy_check_total",
    "apiserver_watch_list_duration_seconds",
    "disabled_metrics_total",
    "hidden_metrics_total",
    "kubernetes_build_info",
    "kubernetes_feature_enabled",
    "registered_metrics_total",
];

/// Families that are deprecated, with the version since which they are. Those of [`super::HIDDEN`] are exported on request only.
const DEPRECATED: &[(&str, &str)] = &[
    ("apiserver_flowcontrol_request_concurrency_in_use", "1.31.0"),
    ("apiserver_flowcontrol_request_concurrency_limit", "1.30.0"),
    ("apiserver_request_slo_duration_seconds", "1.27.0"),
    ("apiserver_storage_objects", "1.34.0"),
    ("kube_apiserver_pod_logs_pods_logs_backend_tls_failure_total", "1.27.0"),
    ("kube_apiserver_pod_logs_pods_logs_insecure_backend_total", "1.27.0"),
];

/// The number of exported families by the version since which they are deprecated and by stability level.
pub fn count_by_stability() -> BTreeMap<[&'static str; 2], u64> {
    let mut counts = BTreeMap::new();
    for (name, _) in sorted() {
        let deprecated =
            DEPRECATED.iter().find(|(known, _)| known == name).map_or("", |(_, version)| version);
        let level = match name {
            name if STABLE.contains(name) => "STABLE",
            name if BETA.contains(name) => "BETA",
            _ => "ALPHA",
        };
        let count: &mut u64 = counts.entry([deprecated, level]).or_default();
        *count = count.saturating_add(1);
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::super::HIDDEN;
    use super::*;

    #[test]
    fn the_tables_name_families_that_exist() {
        let exists = |name: &str| {
            sorted().iter().any(|(known, _)| *known == name) || HIDDEN.iter().any(|(known, _)| *known == name)
        };
        for name in STABLE.iter().chain(BETA).chain(DEPRECATED.iter().map(|(name, _)| name)) {
            assert!(exists(name), "{name}");
        }
        assert_eq!(count_by_stability().get(&["1.34.0", "STABLE"]), Some(&1));
    }
}
