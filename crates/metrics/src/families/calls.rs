//! Families of admission, impersonation, tokens, allocation, expressions, and of calls to webhooks and other servers.

use super::{CONDITION_SECONDS, DEFAULT_SECONDS, DOUBLING_SECONDS};
use crate::Family;
use crate::Type::{Counter, Gauge, Histogram, LateCounter};

const WEBHOOK_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0];
const CONVERSION_SECONDS: &[f64] =
    &[0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0];
const CALL_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
const EGRESS_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 2.5, 12.5];
const GRAPH_ACTION_SECONDS: &[f64] =
    &[0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048];
const CALL_BYTES: &[f64] = &[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16_384.0,
    65_536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
];

const CONDITION: &[&str] = &["kind", "name", "operation", "type"];
const CONVERSION: &[&str] = &["failure_type", "result"];
const IMPERSONATION: &[&str] = &["decision", "mode"];
const CALL: &[&str] = &["host", "verb"];
const ALLOCATION: &[&str] = &["cidr", "scope"];
const POD_SECURITY: &[&str] = &["request_operation", "resource", "subresource"];

families! {
    /// All families of this table.
    CALLS:
    UNAVAILABLE_SERVICES = "aggregator_unavailable_apiservice", Gauge, &["name"], "Whether an APIService is unavailable: 1 is unavailable.";
    SERVICE_FAILURES = "aggregator_unavailable_apiservice_total", Counter, &["name", "reason"], "How often an APIService became unavailable.";
    CONDITION_ERRORS = "apiserver_admission_match_condition_evaluation_errors_total", Counter, CONDITION, "Match conditions of admission that failed.";
    CONDITION_DURATION = "apiserver_admission_match_condition_evaluation_seconds", Histogram(CONDITION_SECONDS), CONDITION, "Durations of evaluations of match conditions of admission.";
    CONDITION_EXCLUSIONS = "apiserver_admission_match_condition_exclusions_total", Counter, CONDITION, "Requests that match conditions excluded from admission by a webhook.";
    WEBHOOK_DURATION = "apiserver_admission_webhook_admission_duration_seconds", Histogram(WEBHOOK_SECONDS), &["name", "operation", "rejected", "type"], "Durations of admission webhooks.";
    WEBHOOK_FAIL_OPEN = "apiserver_admission_webhook_fail_open_count", Counter, &["name", "type"], "Admission webhooks that failed and were ignored.";
    WEBHOOK_REJECTIONS = "apiserver_admission_webhook_rejection_count", Counter, &["error_type", "name", "operation", "rejection_code", "type"], "Requests that admission webhooks, or their failure, rejected.";
    WEBHOOK_REQUESTS = "apiserver_admission_webhook_request_total", Counter, &["code", "name", "operation", "rejected", "type"], "Calls to admission webhooks; codes above 600 count as 600.";
    CEL_COMPILATION = "apiserver_cel_compilation_duration_seconds", Histogram(DEFAULT_SECONDS), &[], "Time to compile the validation rules of a node of a schema.";
    CEL_EVALUATION = "apiserver_cel_evaluation_duration_seconds", Histogram(DEFAULT_SECONDS), &[], "Time to evaluate the validation rules of a value and of all within it.";
    CONVERSION_DURATION = "apiserver_conversion_webhook_duration_seconds", Histogram(CONVERSION_SECONDS), CONVERSION, "Durations of conversion webhooks.";
    CONVERSION_REQUESTS = "apiserver_conversion_webhook_request_total", Counter, CONVERSION, "Calls to conversion webhooks.";
    DEFINITION_CONVERSION = "apiserver_crd_conversion_webhook_duration_seconds", Histogram(DOUBLING_SECONDS), &["crd_name", "from_version", "succeeded", "to_version"], "Durations of conversions by webhooks, of each definition.";
    EGRESS_DIAL_SECONDS = "apiserver_egress_dialer_dial_duration_seconds", Histogram(EGRESS_SECONDS), &["protocol", "transport"], "Time to open connections through egress proxies.";
    EGRESS_DIAL_FAILURES = "apiserver_egress_dialer_dial_failure_count", Counter, &["protocol", "stage", "transport"], "Connections through egress proxies that failed, by stage.";
    EGRESS_DIALS = "apiserver_egress_dialer_dial_start_total", Counter, &["protocol", "transport"], "Connections through egress proxies that were begun.";
    IMPERSONATIONS = "apiserver_impersonation_attempts_total", Counter, IMPERSONATION, "Impersonations by mode.";
    IMPERSONATION_SECONDS = "apiserver_impersonation_attempts_duration_seconds", Histogram(DOUBLING_SECONDS), IMPERSONATION, "Durations of impersonations.";
    IMPERSONATION_CHECKS = "apiserver_impersonation_authorization_attempts_total", Counter, IMPERSONATION, "Rights that were checked for impersonations.";
    IMPERSONATION_CHECK_SECONDS = "apiserver_impersonation_authorization_attempts_duration_seconds", Histogram(DOUBLING_SECONDS), IMPERSONATION, "Durations of these checks.";
    ADDRESSES_ALLOCATED = "kube_apiserver_clusterip_allocator_allocated_ips", Gauge, &["cidr"], "Addresses of services that are taken.";
    ADDRESS_ALLOCATION_SECONDS = "kube_apiserver_clusterip_allocator_allocation_duration_seconds", Histogram(DEFAULT_SECONDS), &["cidr"], "Time to allocate the addresses of a service.";
    ADDRESS_ALLOCATION_ERRORS = "kube_apiserver_clusterip_allocator_allocation_errors_total", Counter, ALLOCATION, "Addresses that could not be allocated.";
    ADDRESS_ALLOCATIONS = "kube_apiserver_clusterip_allocator_allocation_total", Counter, ALLOCATION, "Addresses that were allocated.";
    ADDRESSES_AVAILABLE = "kube_apiserver_clusterip_allocator_available_ips", Gauge, &["cidr"], "Addresses of services that are free.";
    PORTS_ALLOCATED = "kube_apiserver_nodeport_allocator_allocated_ports", Gauge, &[], "Node ports that are taken.";
    PORT_ALLOCATION_ERRORS = "kube_apiserver_nodeport_allocator_allocation_errors_total", Counter, &["scope"], "Node ports that could not be allocated.";
    PORT_ALLOCATIONS = "kube_apiserver_nodeport_allocator_allocation_total", Counter, &["scope"], "Node ports that were allocated.";
    PORTS_AVAILABLE = "kube_apiserver_nodeport_allocator_available_ports", Gauge, &[], "Node ports that are free.";
    WEBHOOK_MISSING_SAN = "apiserver_webhooks_x509_missing_san_total", Counter, &[], "Calls of webhooks that failed because the certificate has no alternative names.";
    WEBHOOK_INSECURE_SHA1 = "apiserver_webhooks_x509_insecure_sha1_total", Counter, &[], "Calls of webhooks that failed because the certificate is signed with SHA-1.";
    AGGREGATOR_MISSING_SAN = "apiserver_kube_aggregator_x509_missing_san_total", Counter, &[], "Requests to extension servers whose certificate has no alternative names.";
    AGGREGATOR_INSECURE_SHA1 = "apiserver_kube_aggregator_x509_insecure_sha1_total", Counter, &[], "Requests to extension servers whose certificate is signed with SHA-1.";
    LOG_TLS_FAILURES = "kube_apiserver_pod_logs_backend_tls_failure_total", LateCounter, &[], "Requests for logs of pods that failed because of the kubelet's certificate.";
    LOG_BACKENDS = "kube_apiserver_pod_logs_insecure_backend_total", Counter, &["usage"], "Requests for logs of pods by whether the kubelet's certificate is verified.";
    GRAPH_SECONDS = "node_authorizer_graph_actions_duration_seconds", Histogram(GRAPH_ACTION_SECONDS), &["operation"], "Durations of changes of the graph of what nodes need.";
    POD_SECURITY_ERRORS = "pod_security_errors_total", Counter, &["fatal", "request_operation", "resource", "subresource"], "Errors that kept pod security from evaluating a request as usual.";
    POD_SECURITY_EVALUATIONS = "pod_security_evaluations_total", Counter, &["decision", "mode", "policy_level", "policy_version", "request_operation", "resource", "subresource"], "Decisions of pod security.";
    POD_SECURITY_EXEMPTIONS = "pod_security_exemptions_total", Counter, POD_SECURITY, "Requests that are exempt from pod security.";
    CALL_DURATION = "rest_client_request_duration_seconds", Histogram(CALL_SECONDS), CALL, "Durations of calls to webhooks.";
    CALL_REQUEST_BYTES = "rest_client_request_size_bytes", Histogram(CALL_BYTES), CALL, "Sizes of the requests of these calls.";
    CALL_REQUESTS = "rest_client_requests_total", Counter, &["code", "host", "method"], "Calls to webhooks by status code.";
    CALL_RESPONSE_BYTES = "rest_client_response_size_bytes", Histogram(CALL_BYTES), CALL, "Sizes of the answers.";
    LEGACY_AUTO_INVALID_USES = "serviceaccount_invalid_legacy_auto_token_uses_total", Counter, &[], "Uses of generated tokens of Secrets that are marked as invalid.";
    LEGACY_AUTO_USES = "serviceaccount_legacy_auto_token_uses_total", Counter, &[], "Uses of generated tokens of Secrets.";
    LEGACY_MANUAL_USES = "serviceaccount_legacy_manual_token_uses_total", Counter, &[], "Uses of tokens of Secrets that somebody created.";
    LEGACY_TOKENS = "serviceaccount_legacy_tokens_total", Counter, &[], "Uses of tokens without audiences.";
    STALE_TOKENS = "serviceaccount_stale_tokens_total", Counter, &[], "Uses of extended tokens that should have been refreshed.";
    VALID_TOKENS = "serviceaccount_valid_tokens_total", Counter, &[], "Uses of extended tokens that need no refresh yet.";
}
