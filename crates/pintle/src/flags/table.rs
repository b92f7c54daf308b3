//! The table of all flags: kube-apiserver's names and types, and a few of our own. Parser and help derive from it.

/// The type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    /// `true` or `false`; the flag alone means `true`.
    Bool,
    /// Any text.
    Text,
    /// A whole number.
    Int,
    /// A number.
    Float,
    /// A Go duration: `1m30s`.
    Duration,
    /// An IP address.
    Ip,
    /// Texts, comma separated; the flag may be repeated.
    List,
    /// Texts; the flag may be repeated, and commas belong to the text.
    Values,
    /// Whole numbers, comma separated.
    IntList,
    /// `key=value`, comma separated; the flag may be repeated.
    Map,
}

/// One flag.
pub(crate) struct Flag {
    /// Name without dashes.
    pub(crate) name: &'static str,
    /// The type of the flag's value.
    pub(crate) type_: Type,
    /// The default value; "" means none.
    pub(crate) default: &'static str,
    /// The flag's help text; `None` if it is only accepted for compatibility and has no effect.
    pub(crate) help: Option<&'static str>,
}

impl Type {
    /// The name of a value in help and manual; "" for flags that need none.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Type::Bool => "",
            Type::Text => "string",
            Type::Int => "int",
            Type::Float => "float",
            Type::Duration => "duration",
            Type::Ip => "ip",
            Type::List => "strings",
            Type::Values => "value",
            Type::IntList => "ints",
            Type::Map => "key=value,...",
        }
    }
}

impl Flag {
    /// The help text.
    pub(crate) const fn text(&self) -> &'static str {
        match self.help {
            Some(text) => text,
            None => "Accepted for kube-apiserver's command lines, without effect",
        }
    }
}

const fn used(name: &'static str, type_: Type, default: &'static str, help: &'static str) -> Flag {
    Flag { name, type_, default, help: Some(help) }
}

const fn accepted(name: &'static str, type_: Type, default: &'static str) -> Flag {
    Flag { name, type_, default, help: None }
}

use Type::{Bool, Duration, Float, Int, IntList, Ip, List, Map, Text, Values};

/// All flags.
pub(crate) const FLAGS: &[Flag] = &[
    used("data-dir", Text, "./pintle-data", "Folder of data, keys and admin.kubeconfig"),
    used("ephemeral", Bool, "", "Store all data in memory"),
    used(
        "stop-with-stdin",
        Bool,
        "",
        "Stop when standard input ends. A program that starts the server with a pipe as its input never \
         leaves it behind, even if it is killed",
    ),
    used(
        "history-retention",
        List,
        "24h,256Mi",
        "How long old versions of objects are retained on disk for `pintle history`, and how many bytes \
         they may take; 0 retains none",
    ),
    used(
        "watch-history-bytes",
        Int,
        "67108864",
        "Memory for recent changes, from which watches resume and lists return earlier revisions. If it \
         is full, the oldest changes are dropped, and requests for them get 410 Gone",
    ),
    used(
        "console",
        Bool,
        "true",
        "Serve the web console at /console/. The default is false in place of a kube-apiserver",
    ),
    used(
        "controllers",
        List,
        "*",
        "Controllers to run inside the server: flow-schema, garbage-collector, namespace, clusterrole-aggregation, \
         resourcequota, root-ca-cert-publisher, serviceaccount, validatingadmissionpolicy-status. `*` enables all of \
         them, or all but the last five with flags of kube-apiserver; -name disables one. Under the name kube-apiserver the default is \
         flow-schema. $PINTLE_CONTROLLERS applies if the flag is not given",
    ),
    used(
        "advertise-address",
        Ip,
        "",
        "Address at which the cluster reaches this server (default: the bind address)",
    ),
    used("external-hostname", Text, "", "Host name in addresses that the server publishes"),
    used("feature-gates", Map, "", "Feature gates as Name=true|false"),
    used("min-request-timeout", Int, "1800", "Minimum seconds that a watch stays open"),
    used("request-timeout", Duration, "1m0s", "Time limit of requests other than watches"),
    used(
        "shutdown-delay-duration",
        Duration,
        "",
        "How long requests are still served after a signal to stop",
    ),
    used(
        "bind-address",
        Ip,
        "127.0.0.1",
        "Address to listen on. The default is 0.0.0.0 in place of a kube-apiserver",
    ),
    used(
        "cert-dir",
        Text,
        "",
        "Folder of apiserver.crt and apiserver.key, which are created there if no other certificate is \
         given",
    ),
    used("disable-http2-serving", Bool, "", "Serve only HTTP/1.1"),
    used(
        "strict-transport-security-directives",
        List,
        "",
        "Directives of the header Strict-Transport-Security: max-age=seconds, includeSubDomains, preload",
    ),
    used(
        "http2-max-streams-per-connection",
        Int,
        "",
        "Limit of concurrent requests on one HTTP/2 connection",
    ),
    used("secure-port", Int, "6443", "Port to listen on; 0 selects a free port and prints it"),
    used("tls-cert-file", Text, "", "PEM file of the serving certificate"),
    used("tls-private-key-file", Text, "", "PEM file of the serving key"),
    used(
        "anonymous-auth",
        Bool,
        "true",
        "Treat requests without credentials as anonymous instead of rejecting them",
    ),
    used("api-audiences", List, "", "Audiences of this server (default: the issuers)"),
    used("client-ca-file", Text, "", "PEM file of the CAs of client certificates"),
    used(
        "service-account-issuer",
        List,
        "",
        "Issuers of service account tokens; new tokens have the first one",
    ),
    used(
        "service-account-jwks-uri",
        Text,
        "",
        "URI at which the keys of service account tokens are published",
    ),
    used("service-account-key-file", List, "", "PEM files of keys that verify service account tokens"),
    used(
        "service-account-lookup",
        Bool,
        "true",
        "Accept a service account token only while its service account exists",
    ),
    used(
        "service-account-extend-token-expiration",
        Bool,
        "true",
        "Accept tokens of pods beyond their expiration, with a warning in the audit log and metrics",
    ),
    used("service-account-max-token-expiration", Duration, "", "Longest lifetime of a service account token"),
    used("token-auth-file", Text, "", "CSV file of static tokens: token,user,uid,\"group1,group2\""),
    used(
        "authorization-mode",
        List,
        "",
        "Authorizers in order: AlwaysAllow, AlwaysDeny, ABAC, RBAC, Node, Webhook",
    ),
    used(
        "runtime-config",
        Map,
        "",
        "API versions to enable or disable: group/version=true|false, api/all, api/beta, api/alpha",
    ),
    used(
        "default-not-ready-toleration-seconds",
        Int,
        "300",
        "How long pods tolerate nodes that are not ready",
    ),
    used(
        "default-unreachable-toleration-seconds",
        Int,
        "300",
        "How long pods tolerate nodes that are unreachable",
    ),
    used("service-node-port-range", Text, "30000-32767", "Range of node ports of services"),
    used(
        "admission-control",
        List,
        "",
        "All enabled admission plugins (deprecated: use --enable-admission-plugins and \
         --disable-admission-plugins)",
    ),
    used(
        "admission-control-config-file",
        Text,
        "",
        "File with an AdmissionConfiguration, which configures plugins",
    ),
    used("disable-admission-plugins", List, "", "Admission plugins to disable"),
    used("enable-admission-plugins", List, "", "Admission plugins to enable"),
    used("v", Int, "0", "Verbosity of the log: 0 little, 1 more, 3 requests, 4 all"),
    used(
        "service-account-signing-key-file",
        Text,
        "",
        "PEM file of the key that signs service account tokens",
    ),
    used(
        "service-account-signing-endpoint",
        Text,
        "",
        "Socket of an external process that signs service account tokens",
    ),
    used("event-ttl", Duration, "1h0m0s", "How long events are retained; 0 means forever"),
    used(
        "endpoint-reconciler-type",
        Text,
        "lease",
        "How the endpoints of the service kubernetes are maintained: none disables it, any other value \
         enables it",
    ),
    used("service-cluster-ip-range", Text, "", "CIDRs of service addresses"),
    used(
        "etcd-compaction-interval",
        Duration,
        "5m0s",
        "How long old revisions can be listed and watched; 0 means as long as there is memory",
    ),
    used("cors-allowed-origins", List, "", "Regular expressions of web origins that may use the API"),
    used(
        "emulated-version",
        List,
        "",
        "Earlier version whose feature gates and APIs the server has: 1.33 to 1.36",
    ),
    used(
        "emulation-forward-compatible",
        Bool,
        "",
        "With --emulated-version: serve the newer versions of resources of which an older one is served",
    ),
    used(
        "goaway-chance",
        Float,
        "",
        "Probability that an HTTP/2 request closes its connection (GOAWAY), at most 0.02",
    ),
    accepted("livez-grace-period", Duration, ""),
    used(
        "max-mutating-requests-inflight",
        Int,
        "200",
        "Concurrency of priority and fairness, added to --max-requests-inflight. Without priority and \
         fairness: limit of concurrent writes, 0 means none",
    ),
    used(
        "max-requests-inflight",
        Int,
        "400",
        "Concurrency of priority and fairness, added to --max-mutating-requests-inflight. Without \
         priority and fairness: limit of concurrent reads, 0 means none",
    ),
    used(
        "min-compatibility-version",
        List,
        "",
        "Earliest version that the server claims to be compatible with",
    ),
    used(
        "runtime-config-emulation-forward-compatible",
        Bool,
        "",
        "With --emulated-version: --runtime-config may enable what the emulated version did not have",
    ),
    used(
        "shutdown-send-retry-after",
        Bool,
        "",
        "Reject new requests with 429 during shutdown, while requests in flight finish",
    ),
    used(
        "shutdown-watch-termination-grace-period",
        Duration,
        "",
        "If it is not 0, watches end before the requests in flight",
    ),
    accepted("storage-initialization-timeout", Duration, "1m0s"),
    used("delete-collection-workers", Int, "1", "How many objects of a collection are deleted concurrently"),
    used(
        "enable-garbage-collector",
        Bool,
        "true",
        "Let deletions wait for the garbage collector (propagation policies Orphan and Foreground), and run it. Must be \
         the same for kube-controller-manager",
    ),
    used(
        "encryption-provider-config",
        Text,
        "",
        "File with an EncryptionConfiguration: which resources are encrypted in the store, and how",
    ),
    used(
        "encryption-provider-config-automatic-reload",
        Bool,
        "",
        "Check that file every minute and apply valid changes",
    ),
    used("etcd-cafile", Text, "", "PEM file of the CA of etcd's certificates"),
    used("etcd-certfile", Text, "", "PEM file of the client certificate for etcd"),
    used(
        "etcd-count-metric-poll-period",
        Duration,
        "1m0s",
        "How often objects are counted for the metrics; 0 means never",
    ),
    used(
        "etcd-db-metric-poll-interval",
        Duration,
        "30s",
        "How often the size of etcd is measured; 0 means never",
    ),
    used("etcd-healthcheck-timeout", Duration, "2s", "Time limit of the health check `etcd`"),
    used("etcd-keyfile", Text, "", "PEM file of the key for --etcd-certfile"),
    used("etcd-prefix", Text, "/registry", "Prefix of all keys in etcd"),
    used("etcd-readycheck-timeout", Duration, "2s", "Time limit of the readiness check `etcd-readiness`"),
    used(
        "etcd-servers",
        List,
        "",
        "Endpoints of etcd, comma separated. Without them data is stored in --data-dir",
    ),
    used(
        "etcd-servers-overrides",
        List,
        "",
        "Resources that are stored in another etcd: group/resource#servers, servers separated by \
         semicolons",
    ),
    used("lease-reuse-duration-seconds", Int, "60", "How long an etcd lease is shared by events, in seconds"),
    accepted("storage-backend", Text, ""),
    used(
        "storage-media-type",
        Text,
        "application/vnd.kubernetes.protobuf",
        "Encoding of built-in kinds in etcd",
    ),
    accepted("watch-cache", Bool, "true"),
    accepted("watch-cache-sizes", List, ""),
    accepted("permit-address-sharing", Bool, ""),
    used(
        "permit-port-sharing",
        Bool,
        "",
        "Let several servers listen on the same address and port (SO_REUSEPORT)",
    ),
    used("tls-cipher-suites", List, "", "Allowed cipher suites of TLS 1.2"),
    used("tls-curve-preferences", IntList, "", "Numbers of the allowed key exchanges"),
    used("tls-min-version", Text, "", "Minimum TLS version: VersionTLS12 or VersionTLS13"),
    used(
        "tls-sni-cert-key",
        Values,
        "",
        "Certificate for some server names: certfile,keyfile or certfile,keyfile:name,name",
    ),
    used("audit-log-batch-buffer-size", Int, "10000", "Limit of queued audit events in batch mode"),
    used("audit-log-batch-max-size", Int, "1", "Limit of audit events per batch"),
    used("audit-log-batch-max-wait", Duration, "", "Longest time that an audit event waits for its batch"),
    used("audit-log-batch-throttle-burst", Int, "", "Batches that may be written at once before throttling"),
    used("audit-log-batch-throttle-enable", Bool, "", "Throttle batches"),
    used("audit-log-batch-throttle-qps", Float, "", "Limit of batches per second"),
    used("audit-log-compress", Bool, "", "Compress rotated audit logs"),
    used("audit-log-format", Text, "json", "Format of the audit log: json or legacy"),
    used("audit-log-maxage", Int, "366", "Days that rotated audit logs are retained"),
    used("audit-log-maxbackup", Int, "100", "Limit of rotated audit logs"),
    used("audit-log-maxsize", Int, "100", "Megabytes at which the audit log is rotated"),
    used(
        "audit-log-mode",
        Text,
        "blocking",
        "How audit events are written: batch, blocking or blocking-strict",
    ),
    used("audit-log-path", Text, "", "File of the audit log; - is standard output"),
    used("audit-log-truncate-enabled", Bool, "", "Drop the objects of large audit events"),
    used("audit-log-truncate-max-batch-size", Int, "10485760", "Limit of bytes per batch"),
    used("audit-log-truncate-max-event-size", Int, "102400", "Limit of bytes per audit event"),
    used("audit-log-version", Text, "audit.k8s.io/v1", "Version of audit events: audit.k8s.io/v1"),
    used("audit-policy-file", Text, "", "File with the audit policy"),
    used("audit-webhook-batch-buffer-size", Int, "10000", "Limit of queued audit events in batch mode"),
    used("audit-webhook-batch-max-size", Int, "400", "Limit of audit events per batch"),
    used(
        "audit-webhook-batch-max-wait",
        Duration,
        "30s",
        "Longest time that an audit event waits for its batch",
    ),
    used(
        "audit-webhook-batch-throttle-burst",
        Int,
        "15",
        "Batches that may be sent at once before throttling",
    ),
    used("audit-webhook-batch-throttle-enable", Bool, "true", "Throttle batches"),
    used("audit-webhook-batch-throttle-qps", Float, "10", "Limit of batches per second"),
    used("audit-webhook-config-file", Text, "", "Kubeconfig of the webhook that receives audit events"),
    used("audit-webhook-initial-backoff", Duration, "10s", "Pause before a failed batch is sent again"),
    used(
        "audit-webhook-mode",
        Text,
        "batch",
        "How audit events are sent: batch, blocking or blocking-strict",
    ),
    used("audit-webhook-truncate-enabled", Bool, "", "Drop the objects of large audit events"),
    used("audit-webhook-truncate-max-batch-size", Int, "10485760", "Limit of bytes per batch"),
    used("audit-webhook-truncate-max-event-size", Int, "102400", "Limit of bytes per audit event"),
    used("audit-webhook-version", Text, "audit.k8s.io/v1", "Version of audit events: audit.k8s.io/v1"),
    accepted("contention-profiling", Bool, ""),
    used(
        "debug-socket-path",
        Text,
        "",
        "Unix socket for profiles and the log verbosity, without authentication",
    ),
    used(
        "enable-priority-and-fairness",
        Bool,
        "true",
        "Queue requests by FlowSchemas and PriorityLevelConfigurations instead of limiting reads and \
         writes",
    ),
    used("profiling", Bool, "true", "Serve /debug/pprof and /debug/flags"),
    used(
        "authentication-config",
        Text,
        "",
        "File with an AuthenticationConfiguration: JWT issuers and anonymous access",
    ),
    used(
        "authentication-token-webhook-cache-ttl",
        Duration,
        "2m0s",
        "How long answers of the token webhook are cached",
    ),
    used("authentication-token-webhook-config-file", Text, "", "Kubeconfig of the token webhook"),
    used(
        "authentication-token-webhook-version",
        Text,
        "v1beta1",
        "Version of the TokenReviews for the webhook: v1 or v1beta1",
    ),
    used(
        "enable-bootstrap-token-auth",
        Bool,
        "",
        "Accept Secrets of type bootstrap.kubernetes.io/token in kube-system as tokens",
    ),
    used("oidc-ca-file", Text, "", "PEM file of the CAs of the OpenID provider"),
    used("oidc-client-id", Text, "", "Required audience of the OpenID provider's tokens"),
    used("oidc-groups-claim", Text, "", "Claim with the groups of a user"),
    used("oidc-groups-prefix", Text, "", "Prefix of groups from the OpenID provider"),
    used("oidc-issuer-url", Text, "", "URL of an OpenID provider"),
    used("oidc-required-claim", Map, "", "Required claims: claim=value"),
    used("oidc-signing-algs", List, "RS256", "Allowed signature algorithms of the OpenID provider's tokens"),
    used("oidc-username-claim", Text, "sub", "Claim with the user name"),
    used(
        "oidc-username-prefix",
        Text,
        "",
        "Prefix of users from the OpenID provider; empty: the issuer; -: none",
    ),
    used(
        "requestheader-allowed-names",
        List,
        "",
        "Allowed common names of front proxies' certificates; empty: any",
    ),
    used("requestheader-client-ca-file", Text, "", "PEM file of the CAs of front proxies"),
    used(
        "requestheader-extra-headers-prefix",
        List,
        "",
        "Prefixes of the front proxy's headers with extra fields of the user",
    ),
    used("requestheader-group-headers", List, "", "Headers of the front proxy with the user's groups"),
    used("requestheader-uid-headers", List, "", "Headers of the front proxy with the user's uid"),
    used("requestheader-username-headers", List, "", "Headers of the front proxy with the user's name"),
    used(
        "authorization-config",
        Text,
        "",
        "File with an AuthorizationConfiguration: the authorizers and their order",
    ),
    used("authorization-policy-file", Text, "", "File of ABAC policies, one per line"),
    used(
        "authorization-webhook-cache-authorized-ttl",
        Duration,
        "5m0s",
        "How long allowing answers of the authorization webhook are cached",
    ),
    used(
        "authorization-webhook-cache-unauthorized-ttl",
        Duration,
        "30s",
        "How long other answers of the authorization webhook are cached",
    ),
    used("authorization-webhook-config-file", Text, "", "Kubeconfig of the authorization webhook"),
    used(
        "authorization-webhook-version",
        Text,
        "v1beta1",
        "Version of the SubjectAccessReviews for the webhook: v1 or v1beta1",
    ),
    used(
        "egress-selector-config-file",
        Text,
        "",
        "File with an EgressSelectorConfiguration: how the cluster is reached, Direct or HTTPConnect",
    ),
    accepted("apiserver-count", Int, "1"),
    accepted("default-watch-cache-size", Int, "100"),
    accepted("kubelet-port", Int, "10250"),
    accepted("kubelet-read-only-port", Int, "10255"),
    used(
        "allow-metric-labels",
        Map,
        "",
        "Allowed values of a label of a metric (METRIC,LABEL=VALUE,...); others are exported as unexpected",
    ),
    used("allow-metric-labels-manifest", Text, "", "YAML file with the entries of --allow-metric-labels"),
    used("disabled-metrics", List, "", "Names of metrics that are not exported"),
    used(
        "show-hidden-metrics-for-version",
        Text,
        "",
        "Export metrics under their deprecated names, too. The only valid value is the previous minor version, 1.35",
    ),
    accepted("log-flush-frequency", Duration, "5s"),
    accepted("log-json-info-buffer-size", Text, "0"),
    used(
        "log-json-split-stream",
        Bool,
        "",
        "In JSON, log only errors to standard error, the rest to standard output",
    ),
    accepted("log-text-info-buffer-size", Text, "0"),
    used(
        "log-text-split-stream",
        Bool,
        "",
        "As text, log only errors to standard error, the rest to standard output",
    ),
    used("logging-format", Text, "text", "Format of the log: text or json"),
    used("vmodule", Text, "", "Verbosity of single source files: pattern=N, comma separated"),
    used(
        "tracing-config-file",
        Text,
        "",
        "File with a TracingConfiguration: OTLP endpoint and sampling rate of traces",
    ),
    used(
        "aggregator-reject-forwarding-redirect",
        Bool,
        "true",
        "Reject redirects of extension servers instead of passing them on to clients",
    ),
    used("allow-privileged", Bool, "", "Allow privileged containers; =false rejects them"),
    used(
        "coordinated-leadership-lease-duration",
        Duration,
        "15s",
        "With CoordinatedLeaderElection: how long the Lease of the server that holds the elections is valid",
    ),
    used(
        "coordinated-leadership-renew-deadline",
        Duration,
        "10s",
        "With CoordinatedLeaderElection: how long that server tries to renew its Lease before it gives up",
    ),
    used(
        "coordinated-leadership-retry-period",
        Duration,
        "2s",
        "With CoordinatedLeaderElection: the interval between attempts to take or renew that Lease",
    ),
    used(
        "enable-aggregator-routing",
        Bool,
        "",
        "Send requests for extension servers and webhooks to the endpoints of their services",
    ),
    used("enable-logs-handler", Bool, "", "Serve the files of /var/log at /logs"),
    used(
        "kubelet-certificate-authority",
        Text,
        "",
        "PEM file of the CAs of kubelets; empty: certificates are not verified",
    ),
    used(
        "kubelet-client-certificate",
        Text,
        "",
        "PEM file of the client certificate for kubelets; reloaded when it changes",
    ),
    used("kubelet-client-key", Text, "", "PEM file of the key for --kubelet-client-certificate"),
    used(
        "kubelet-preferred-address-types",
        List,
        "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP",
        "Types of node addresses in the order in which they are tried",
    ),
    accepted("kubelet-timeout", Duration, "5s"),
    used(
        "kubernetes-service-node-port",
        Int,
        "",
        "Node port of the service kubernetes, if a server creates it; 0: it is of type ClusterIP",
    ),
    used(
        "max-connection-bytes-per-sec",
        Int,
        "",
        "Bytes a second that each stream to a pod, service or node carries in each direction; 0: any number",
    ),
    used(
        "peer-advertise-ip",
        Text,
        "",
        "Address at which other servers reach this one (default: the advertised one)",
    ),
    used(
        "peer-advertise-port",
        Text,
        "",
        "Port at which other servers reach this one (default: this server's port)",
    ),
    used(
        "peer-ca-file",
        Text,
        "",
        "CA of the certificates of other servers on the same etcd; requests that only they can answer are forwarded to them",
    ),
    used(
        "proxy-client-cert-file",
        Text,
        "",
        "PEM file of the client certificate for extension servers; reloaded when it changes",
    ),
    used("proxy-client-key-file", Text, "", "PEM file of the key for --proxy-client-cert-file"),
];
