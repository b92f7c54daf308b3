//! Families of the server's parts: store, cache, watches, admission, the build.

use super::REQUEST_SECONDS;
use crate::Family;
use crate::Type::{Counter, Gauge, Histogram, LateGauge, Summary};

const ADMISSION_SECONDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
const EXPIRATION_SECONDS: &[f64] = &[
    0.0, 1800.0, 3600.0, 7200.0, 21_600.0, 43_200.0, 86_400.0, 172_800.0, 345_600.0, 604_800.0, 2.592e6,
    7.776e6, 1.5552e7, 3.1104e7,
];
const TOKEN_SECONDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
const READ_WAIT_SECONDS: &[f64] = &[0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0];
const WATCH_LIST_SECONDS: &[f64] =
    &[0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 15.0, 20.0, 30.0, 45.0, 60.0];
const EVENT_BYTES: &[f64] = &[1024.0, 2048.0, 4096.0, 8192.0, 16_384.0, 32_768.0, 65_536.0, 131_072.0];
const LEASE_OBJECTS: &[f64] = &[10.0, 50.0, 100.0, 500.0, 1000.0, 2500.0, 5000.0];
const RATCHETING_SECONDS: &[f64] =
    &[1e-5, 4e-5, 0.00016, 0.00064, 0.00256, 0.01024, 0.04096, 0.16384, 0.65536, 2.62144];
const KEY_SECONDS: &[f64] = &[
    5e-6, 1e-5, 2e-5, 4e-5, 8e-5, 0.00016, 0.00032, 0.00064, 0.00128, 0.00256, 0.00512, 0.01024, 0.02048,
    0.04096,
];

const SIGNER_SECONDS: &[f64] =
    &[0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];
const POLICY_SECONDS: &[f64] = &[5e-7, 0.001, 0.01, 0.1, 1.0];
const ARRIVAL_SECONDS: &[f64] =
    &[60.0, 120.0, 240.0, 480.0, 960.0, 1920.0, 3840.0, 7680.0, 15_360.0, 30_720.0];
const KMS_CALL_SECONDS: &[f64] = &[
    0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048, 0.4096,
    0.8192, 1.6384, 3.2768, 6.5536, 13.1072, 26.2144, 52.4288,
];
const TRANSFORM_SECONDS: &[f64] = &[
    5e-06, 1e-05, 2e-05, 4e-05, 8e-05, 0.00016, 0.00032, 0.00064, 0.00128, 0.00256, 0.00512, 0.01024,
    0.02048, 0.04096, 0.08192, 0.16384, 0.32768, 0.65536, 1.31072, 2.62144, 5.24288, 10.48576, 20.97152,
    41.94304, 83.88608,
];

const COMPARISON_SECONDS: &[f64] = &[0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 5.0];

const RESOURCE: &[&str] = &["group", "resource"];
const STORE: &[&str] = &["group", "operation", "resource"];
const KEY_ID: &[&str] = &["apiserver_id_hash", "key_id_hash", "provider_name", "transformation_type"];
const VALIDATING_POLICY: &[&str] = &["enforcement_action", "error_type", "policy", "policy_binding"];
const MUTATING_POLICY: &[&str] = &["error_type", "policy", "policy_binding"];
const EVENTS: &[&str] = &["group", "resource", "version"];
const STEP: &[&str] = &["operation", "rejected", "type"];

families! {
    /// All families of this table.
    SERVER:
    DISCOVERY_AGGREGATIONS = "aggregator_discovery_aggregation_count_total", Counter, &[], "How often the discovery document of all groups was put together.";
    DISCOVERY_WITHOUT_PEERS = "aggregator_discovery_nopeer_requests_total", Counter, &[], "Requests for discovery without that of other servers.";
    DISCOVERY_PEER_HITS = "aggregator_discovery_peer_aggregated_cache_hits_total", Counter, &[], "Requests for discovery with that of other servers which was at hand.";
    DISCOVERY_PEER_MISSES = "aggregator_discovery_peer_aggregated_cache_misses_total", Counter, &[], "The same where it was not at hand.";
    RATCHETING = "apiextensions_apiserver_validation_ratcheting_seconds", Histogram(RATCHETING_SECONDS), &[], "Time to compare old and new custom resources for validation.";
    ADMISSION_CONTROLLER = "apiserver_admission_controller_admission_duration_seconds", Histogram(ADMISSION_SECONDS), &["name", "operation", "rejected", "type"], "Durations of admission plugins.";
    ADMISSION_STEP = "apiserver_admission_step_admission_duration_seconds", Histogram(ADMISSION_SECONDS), STEP, "Durations of the two steps of admission.";
    ADMISSION_STEP_SUMMARY = "apiserver_admission_step_admission_duration_seconds_summary", Summary, STEP, "The same as a summary.";
    CACHE_LIST_FETCHED = "apiserver_cache_list_fetched_objects_total", Counter, &["group", "index", "resource"], "Objects that lists from the cache looked at.";
    CACHE_LIST_RETURNED = "apiserver_cache_list_returned_objects_total", Counter, RESOURCE, "Objects that lists from the cache returned.";
    CACHE_LISTS = "apiserver_cache_list_total", Counter, &["group", "index", "resource"], "Lists from the cache.";
    CLIENT_CERTIFICATE_EXPIRATION = "apiserver_client_certificate_expiration_seconds", Histogram(EXPIRATION_SECONDS), &[], "How long client certificates of requests are still valid.";
    SHARD_WATCHES = "apiserver_watch_shards_total", Gauge, RESOURCE, "Open watches of shards.";
    SHARD_FILTERED_EVENTS = "apiserver_watch_filtered_events_total", Counter, RESOURCE, "Objects of events that watches of shards left out.";
    DECODE_ERRORS = "apiserver_storage_decode_errors_total", Counter, RESOURCE, "Stored objects that could not be decoded for a request.";
    INITIAL_EVENTS = "apiserver_init_events_total", Counter, RESOURCE, "Events with which watches begin.";
    RESOURCE_OBJECTS = "apiserver_resource_objects", Gauge, RESOURCE, "Objects in the store.";
    RESOURCE_BYTES = "apiserver_resource_size_estimate_bytes", Gauge, RESOURCE, "Estimated size of the objects in the store.";
    OBJECT_COMPARISON = "apiserver_request_timestamp_comparison_time", Histogram(COMPARISON_SECONDS), &["code_path"], "Time to find out whether an update changes anything.";
    PEER_SYNC_ERRORS = "apiserver_peer_discovery_sync_errors_total", Counter, &["type"], "Failures to fetch the discovery of other servers.";
    PEER_ERRORS = "apiserver_peer_proxy_errors_total", Counter, &["group", "resource", "type", "version"], "Requests that could not be forwarded to another server.";
    PEER_REQUESTS = "apiserver_rerouted_request_total", Counter, &["code", "group", "resource", "version"], "Requests that were forwarded to another server; those without a resource are for discovery.";
    SELF_REQUESTS = "apiserver_selfrequest_total", Counter, &["group", "resource", "subresource", "verb"], "Writes of the server's own controllers.";
    KEY_GENERATION = "apiserver_storage_data_key_generation_duration_seconds", Histogram(KEY_SECONDS), &[], "Time to make keys of encryption at rest.";
    KEY_GENERATION_FAILURES = "apiserver_storage_data_key_generation_failures_total", Counter, &[], "Keys of encryption at rest that could not be made.";
    ENVELOPE_CACHE_MISSES = "apiserver_storage_envelope_transformation_cache_misses_total", Counter, &[], "Keys of encryption at rest that a KMS had to be asked for.";
    STORE_EVENTS = "apiserver_storage_events_received_total", Counter, RESOURCE, "Changes that came from the store.";
    STORE_LIST_EVALUATED = "apiserver_storage_list_evaluated_objects_total", Counter, RESOURCE, "Objects of lists from the store that were looked at.";
    STORE_LIST_FETCHED = "apiserver_storage_list_fetched_objects_total", Counter, RESOURCE, "Objects of lists from the store.";
    STORE_LIST_RETURNED = "apiserver_storage_list_returned_objects_total", Counter, RESOURCE, "Objects that lists from the store returned.";
    STORE_LISTS = "apiserver_storage_list_total", Counter, RESOURCE, "Lists from the store.";
    STORE_OBJECTS = "apiserver_storage_objects", Gauge, &["resource"], "Objects in the store.";
    STORE_BYTES = "apiserver_storage_size_bytes", Gauge, &["storage_cluster_id"], "Size of the store.";
    STREAM_TRANSLATIONS = "apiserver_stream_translator_requests_total", Counter, &["code"], "Commands in containers whose WebSocket was translated to SPDY.";
    STREAM_TUNNELS = "apiserver_stream_tunnel_requests_total", Counter, &["code"], "Forwarded ports whose SPDY frames came in a WebSocket.";
    STREAMING_REQUESTS = "apiserver_websocket_streaming_requests_total", Counter, &["proxy_type", "subresource"], "Streams to kubelets by who handles WebSockets.";
    CONSISTENT_READS = "apiserver_watch_cache_consistent_read_total", Counter, &["fallback", "group", "resource", "success"], "Lists from the cache that show everything written before.";
    CACHE_EVENTS_DISPATCHED = "apiserver_watch_cache_events_dispatched_total", Counter, RESOURCE, "Events that were sent to watches.";
    CACHE_EVENTS_RECEIVED = "apiserver_watch_cache_events_received_total", Counter, RESOURCE, "Changes that came to the cache.";
    CACHE_INITIALIZATIONS = "apiserver_watch_cache_initializations_total", Counter, RESOURCE, "How often the cache of a resource was loaded.";
    READ_WAIT = "apiserver_watch_cache_read_wait_seconds", Histogram(READ_WAIT_SECONDS), RESOURCE, "How long reads wait for the cache.";
    CACHE_REVISION = "apiserver_watch_cache_resource_version", Gauge, RESOURCE, "The revision that the cache has.";
    WATCH_EVENT_BYTES = "apiserver_watch_events_sizes", Histogram(EVENT_BYTES), EVENTS, "Sizes of events of watches.";
    WATCH_EVENTS = "apiserver_watch_events_total", Counter, EVENTS, "Events of watches.";
    WATCH_LIST_DURATION = "apiserver_watch_list_duration_seconds", Histogram(WATCH_LIST_SECONDS), &["group", "resource", "scope", "version"], "How long watches take to send what was there when they began.";
    TOKEN_FETCHES_ACTIVE = "authentication_token_cache_active_fetch_count", Gauge, &["status"], "Tokens that are being looked up.";
    TOKEN_FETCHES = "authentication_token_cache_fetch_total", Counter, &["status"], "Tokens that were looked up.";
    TOKEN_DURATION = "authentication_token_cache_request_duration_seconds", Histogram(TOKEN_SECONDS), &["status"], "Durations of token authentications.";
    TOKEN_REQUESTS = "authentication_token_cache_request_total", Counter, &["status"], "Token authentications.";
    UNEXPECTED_LABEL_VALUES = "cardinality_enforcement_unexpected_categorizations_total", Counter, &[], "Label values that were replaced because they are not allowed.";
    DISABLED_METRICS = "disabled_metrics_total", Counter, &[], "Metrics that flags turned off.";
    ETCD_BOOKMARKS = "etcd_bookmark_total", Counter, RESOURCE, "Notices of progress from etcd.";
    LEASE_OBJECT_COUNTS = "etcd_lease_object_counts", Histogram(LEASE_OBJECTS), &[], "Objects that share a lease in etcd.";
    ETCD_DURATION = "etcd_request_duration_seconds", Histogram(REQUEST_SECONDS), STORE, "Durations of requests to the store.";
    ETCD_REQUESTS = "etcd_requests_total", Counter, STORE, "Requests to the store.";
    HIDDEN_METRICS = "hidden_metrics_total", Counter, &[], "Metrics that are deprecated and not shown.";
    BUILD_INFO = "kubernetes_build_info", Gauge, &["build_date", "compiler", "git_commit", "git_tree_state", "git_version", "go_version", "major", "minor", "platform"], "The version of the server.";
    EXTERNAL_KEYS_TIMESTAMP = "apiserver_externaljwt_fetch_keys_data_timestamp", LateGauge, &[], "When the external signer of tokens got the keys that it last returned.";
    EXTERNAL_KEY_FETCHES = "apiserver_externaljwt_fetch_keys_request_total", Counter, &["code"], "Attempts to fetch the keys of the external signer of tokens.";
    EXTERNAL_KEYS_FETCHED = "apiserver_externaljwt_fetch_keys_success_timestamp", LateGauge, &[], "When the keys of the external signer of tokens were last fetched.";
    EXTERNAL_SIGNER_SECONDS = "apiserver_externaljwt_request_duration_seconds", Histogram(SIGNER_SECONDS), &["code", "method"], "Durations of calls to the external signer of tokens.";
    EXTERNAL_SIGN_REQUESTS = "apiserver_externaljwt_sign_request_total", Counter, &["code"], "Tokens that the external signer was asked for.";
    ENCRYPTION_RELOADED = "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds", Gauge, &["apiserver_id_hash", "status"], "When the encryption configuration was last reloaded.";
    ENCRYPTION_RELOADS = "apiserver_encryption_config_controller_automatic_reloads_total", Counter, &["apiserver_id_hash", "status"], "Reloads of the encryption configuration.";
    ENCRYPTION_CONFIG = "apiserver_encryption_config_controller_last_config_info", Gauge, &["apiserver_id_hash", "hash"], "The encryption configuration that is in force, by its hash.";
    MANIFEST_RELOADED_AT = "apiserver_manifest_admission_config_controller_automatic_reload_last_timestamp_seconds", Gauge, &["apiserver_id_hash", "plugin", "status"], "When the manifests of an admission plugin were last loaded, by status.";
    MANIFEST_RELOADS = "apiserver_manifest_admission_config_controller_automatic_reloads_total", Counter, &["apiserver_id_hash", "plugin", "status"], "Attempts to load the manifests of admission plugins.";
    MANIFEST_CONFIG_INFO = "apiserver_manifest_admission_config_controller_last_config_info", Gauge, &["apiserver_id_hash", "hash", "plugin"], "The manifests of admission plugins that are in force, by their hash.";
    KEY_CACHE_FILL = "apiserver_envelope_encryption_dek_cache_fill_percent", Gauge, &[], "How full the cache of KMS v1 is; v2 has none of this kind.";
    KEY_ARRIVALS = "apiserver_envelope_encryption_dek_cache_inter_arrival_time_seconds", Histogram(ARRIVAL_SECONDS), &["transformation_type"], "Times between uses of KMS v1.";
    KEY_CACHE_SIZE = "apiserver_envelope_encryption_dek_source_cache_size", Gauge, &["provider_name"], "Decrypted seeds that are remembered.";
    KEY_ID_INVALID = "apiserver_envelope_encryption_invalid_key_id_from_status_total", Counter, &["error", "provider_name"], "Key ids of KMS plugins that are not valid.";
    KEY_ID_USED = "apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds", Gauge, KEY_ID, "When a key of a KMS was last used.";
    KEY_ID_STATUS = "apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds", Gauge, &["apiserver_id_hash", "key_id_hash", "provider_name"], "When a KMS plugin last returned a key id.";
    KEY_ID_USES = "apiserver_envelope_encryption_key_id_hash_total", Counter, KEY_ID, "How often a key of a KMS was used.";
    KMS_SECONDS = "apiserver_envelope_encryption_kms_operations_latency_seconds", Histogram(KMS_CALL_SECONDS), &["grpc_status_code", "method_name", "provider_name"], "Durations of calls to KMS plugins.";
    TRANSFORMATION_SECONDS = "apiserver_storage_transformation_duration_seconds", Histogram(TRANSFORM_SECONDS), &["transformation_type", "transformer_prefix"], "Durations of encryption and decryption.";
    TRANSFORMATIONS = "apiserver_storage_transformation_operations_total", Counter, &["resource", "status", "transformation_type", "transformer_prefix"], "Values that were encrypted and decrypted.";
    VALIDATING_POLICY_SECONDS = "apiserver_validating_admission_policy_check_duration_seconds", Histogram(POLICY_SECONDS), VALIDATING_POLICY, "Durations of validating admission policies.";
    VALIDATING_POLICY_CHECKS = "apiserver_validating_admission_policy_check_total", Counter, VALIDATING_POLICY, "What came of validating admission policies.";
    MUTATING_POLICY_SECONDS = "apiserver_mutating_admission_policy_check_duration_seconds", Histogram(POLICY_SECONDS), MUTATING_POLICY, "Durations of mutating admission policies.";
    MUTATING_POLICY_CHECKS = "apiserver_mutating_admission_policy_check_total", Counter, MUTATING_POLICY, "What came of mutating admission policies.";
    FEATURES = "kubernetes_feature_enabled", Gauge, &["name", "stage"], "Feature gates: 1 is on.";
    REGISTERED_METRICS = "registered_metrics_total", Counter, &["deprecated_version", "stability_level"], "Metric families that the server has.";
    VERSION_INFO = "version_info", Gauge, &["binary", "component", "emulation", "min_compat"], "Versions of the server's API.";
}
