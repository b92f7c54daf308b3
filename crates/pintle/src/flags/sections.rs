//! The sections of `--help`: kube-apiserver's names and order, and ours before them.

use super::OWN_FLAGS;
use super::table::{FLAGS, Flag};

/// The section of a flag that no section names.
const OTHER: &str = "Misc";

/// A section and the flags in it.
pub(crate) struct Section {
    /// The section's name, without `flags`.
    pub(crate) name: &'static str,
    flags: &'static [&'static str],
}

impl Section {
    /// The flags of the table that are in this section, by name.
    pub(crate) fn flags(&self) -> Vec<&'static Flag> {
        let is_here = |flag: &&Flag| match SECTIONS.iter().find(|section| section.flags.contains(&flag.name))
        {
            Some(section) => section.name == self.name,
            None => self.name == OTHER,
        };
        let mut flags: Vec<&Flag> = FLAGS.iter().filter(is_here).collect();
        flags.sort_by_key(|flag| flag.name);
        flags
    }
}

/// All sections, in the order in which they are printed.
pub(crate) const SECTIONS: &[Section] = &[
    Section { name: "Pintle", flags: &OWN_FLAGS },
    Section {
        name: "Generic",
        flags: &[
            "advertise-address",
            "cors-allowed-origins",
            "emulated-version",
            "emulation-forward-compatible",
            "external-hostname",
            "feature-gates",
            "goaway-chance",
            "livez-grace-period",
            "max-mutating-requests-inflight",
            "max-requests-inflight",
            "min-compatibility-version",
            "min-request-timeout",
            "request-timeout",
            "runtime-config-emulation-forward-compatible",
            "shutdown-delay-duration",
            "shutdown-send-retry-after",
            "shutdown-watch-termination-grace-period",
            "storage-initialization-timeout",
            "strict-transport-security-directives",
        ],
    },
    Section {
        name: "Etcd",
        flags: &[
            "delete-collection-workers",
            "enable-garbage-collector",
            "encryption-provider-config",
            "encryption-provider-config-automatic-reload",
            "etcd-cafile",
            "etcd-certfile",
            "etcd-compaction-interval",
            "etcd-count-metric-poll-period",
            "etcd-db-metric-poll-interval",
            "etcd-healthcheck-timeout",
            "etcd-keyfile",
            "etcd-prefix",
            "etcd-readycheck-timeout",
            "etcd-servers",
            "etcd-servers-overrides",
            "lease-reuse-duration-seconds",
            "storage-backend",
            "storage-media-type",
            "watch-cache",
            "watch-cache-sizes",
        ],
    },
    Section {
        name: "Secure serving",
        flags: &[
            "bind-address",
            "cert-dir",
            "disable-http2-serving",
            "http2-max-streams-per-connection",
            "permit-address-sharing",
            "permit-port-sharing",
            "secure-port",
            "tls-cert-file",
            "tls-cipher-suites",
            "tls-curve-preferences",
            "tls-min-version",
            "tls-private-key-file",
            "tls-sni-cert-key",
        ],
    },
    Section {
        name: "Auditing",
        flags: &[
            "audit-log-batch-buffer-size",
            "audit-log-batch-max-size",
            "audit-log-batch-max-wait",
            "audit-log-batch-throttle-burst",
            "audit-log-batch-throttle-enable",
            "audit-log-batch-throttle-qps",
            "audit-log-compress",
            "audit-log-format",
            "audit-log-maxage",
            "audit-log-maxbackup",
            "audit-log-maxsize",
            "audit-log-mode",
            "audit-log-path",
            "audit-log-truncate-enabled",
            "audit-log-truncate-max-batch-size",
            "audit-log-truncate-max-event-size",
            "audit-log-version",
            "audit-policy-file",
            "audit-webhook-batch-buffer-size",
            "audit-webhook-batch-max-size",
            "audit-webhook-batch-max-wait",
            "audit-webhook-batch-throttle-burst",
            "audit-webhook-batch-throttle-enable",
            "audit-webhook-batch-throttle-qps",
            "audit-webhook-config-file",
            "audit-webhook-initial-backoff",
            "audit-webhook-mode",
            "audit-webhook-truncate-enabled",
            "audit-webhook-truncate-max-batch-size",
            "audit-webhook-truncate-max-event-size",
            "audit-webhook-version",
        ],
    },
    Section {
        name: "Features",
        flags: &["contention-profiling", "debug-socket-path", "enable-priority-and-fairness", "profiling"],
    },
    Section {
        name: "Authentication",
        flags: &[
            "anonymous-auth",
            "api-audiences",
            "authentication-config",
            "authentication-token-webhook-cache-ttl",
            "authentication-token-webhook-config-file",
            "authentication-token-webhook-version",
            "client-ca-file",
            "enable-bootstrap-token-auth",
            "oidc-ca-file",
            "oidc-client-id",
            "oidc-groups-claim",
            "oidc-groups-prefix",
            "oidc-issuer-url",
            "oidc-required-claim",
            "oidc-signing-algs",
            "oidc-username-claim",
            "oidc-username-prefix",
            "requestheader-allowed-names",
            "requestheader-client-ca-file",
            "requestheader-extra-headers-prefix",
            "requestheader-group-headers",
            "requestheader-uid-headers",
            "requestheader-username-headers",
            "service-account-extend-token-expiration",
            "service-account-issuer",
            "service-account-jwks-uri",
            "service-account-key-file",
            "service-account-lookup",
            "service-account-max-token-expiration",
            "token-auth-file",
        ],
    },
    Section {
        name: "Authorization",
        flags: &[
            "authorization-config",
            "authorization-mode",
            "authorization-policy-file",
            "authorization-webhook-cache-authorized-ttl",
            "authorization-webhook-cache-unauthorized-ttl",
            "authorization-webhook-config-file",
            "authorization-webhook-version",
        ],
    },
    Section { name: "API enablement", flags: &["runtime-config"] },
    Section { name: "Egress selector", flags: &["egress-selector-config-file"] },
    Section {
        name: "Admission",
        flags: &[
            "admission-control",
            "admission-control-config-file",
            "default-not-ready-toleration-seconds",
            "default-unreachable-toleration-seconds",
            "disable-admission-plugins",
            "enable-admission-plugins",
        ],
    },
    Section {
        name: "Metrics",
        flags: &[
            "allow-metric-labels",
            "allow-metric-labels-manifest",
            "disabled-metrics",
            "show-hidden-metrics-for-version",
        ],
    },
    Section {
        name: "Logs",
        flags: &[
            "log-flush-frequency",
            "log-json-info-buffer-size",
            "log-json-split-stream",
            "log-text-info-buffer-size",
            "log-text-split-stream",
            "logging-format",
            "v",
            "vmodule",
        ],
    },
    Section { name: "Traces", flags: &["tracing-config-file"] },
    Section {
        name: "Misc",
        flags: &[
            "aggregator-reject-forwarding-redirect",
            "allow-privileged",
            "coordinated-leadership-lease-duration",
            "coordinated-leadership-renew-deadline",
            "coordinated-leadership-retry-period",
            "enable-aggregator-routing",
            "enable-logs-handler",
            "endpoint-reconciler-type",
            "event-ttl",
            "kubelet-certificate-authority",
            "kubelet-client-certificate",
            "kubelet-client-key",
            "kubelet-preferred-address-types",
            "kubelet-timeout",
            "kubernetes-service-node-port",
            "max-connection-bytes-per-sec",
            "peer-advertise-ip",
            "peer-advertise-port",
            "peer-ca-file",
            "proxy-client-cert-file",
            "proxy-client-key-file",
            "service-account-signing-endpoint",
            "service-account-signing-key-file",
            "service-cluster-ip-range",
            "service-node-port-range",
        ],
    },
    Section {
        name: "Deprecated",
        flags: &["apiserver-count", "default-watch-cache-size", "kubelet-port", "kubelet-read-only-port"],
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flag_is_in_one_section() {
        let count: usize = SECTIONS.iter().map(|section| section.flags().len()).sum();
        assert_eq!(count, FLAGS.len());
        for section in SECTIONS {
            for name in section.flags {
                let known = FLAGS.iter().filter(|flag| flag.name == *name).count();
                assert_eq!(known, 1, "{name} of section {}", section.name);
            }
        }
    }
}
