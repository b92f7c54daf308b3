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
    /// What its value must look like.
    pub(crate) type_: Type,
    /// The default value; "" means none.
    pub(crate) default: &'static str,
    /// Its help text; `None` if it is only accepted for compatibility and has no effect.
    pub(crate) help: Option<&'static str>,
}

impl Type {
    /// What help and manual call a value; "" for flags that need none.
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
    /// What it does, for people.
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

/// Returns whether ignoring a flag changes nothing that a cluster could notice, such as memory, time and log limits of
/// kube-apiserver's internals.
pub(crate) fn is_harmless(name: &str) -> bool {
    const PREFIXES: [&str; 4] = ["log-", "watch-cache", "storage-", "show-hidden-"];
    const NAMES: [&str; 11] = [
        "apiserver-count",
        "contention-profiling",
        "debug-socket-path",
        "default-watch-cache-size",
        "enable-garbage-collector",
        "enable-logs-handler",
        "kubelet-port",
        "kubelet-read-only-port",
        "livez-grace-period",
        "permit-address-sharing",
        "permit-port-sharing",
    ];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

use Type::{Bool, Duration, Float, Int, IntList, Ip, List, Map, Text, Values};

/// All flags.
pub(crate) const FLAGS: &[Flag] = &[
    used("data-dir", Text, "./pintle-data", "Folder of data, keys and admin.kubeconfig"),
    used("ephemeral", Bool, "", "Keep all data in memory"),
    used(
        "history-retention",
        List,
        "24h,256Mi",
        "How long the past of objects is kept on disk for pintle history, and how many bytes it may take there; 0 keeps none",
    ),
    used(
        "watch-history-bytes",
        Int,
        "67108864",
        "Memory for recent changes, from which watches go on and lists show earlier revisions; beyond it the oldest are \
         forgotten and answered with 410 Gone",
    ),
    used(
        "console",
        Bool,
        "true",
        "Whether the web console is served at /console/; in the place of a kube-apiserver the default is false",
    ),
    used(
        "controllers",
        List,
        "*",
        "Controllers that run inside the server: flow-schema, garbage-collector, namespace, resourcequota, root-ca-cert-publisher, serviceaccount. \
         * is all of them, on a command line of kube-apiserver without the last three; -name leaves one out. Under the name \
         kube-apiserver the default is flow-schema. $PINTLE_CONTROLLERS counts where the flag is not given",
    ),
    used(
        "advertise-address",
        Ip,
        "",
        "Address at which the cluster reaches this server; empty: the bind address",
    ),
    used("external-hostname", Text, "", "Host name in published addresses"),
    used("feature-gates", Map, "", "Feature gates as Name=true|false"),
    used("min-request-timeout", Int, "1800", "Least seconds that a watch is left open"),
    used("request-timeout", Duration, "1m0s", "How long an ordinary request may take"),
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
        "Address to listen on; in the place of a kube-apiserver the default is 0.0.0.0",
    ),
    used(
        "cert-dir",
        Text,
        "",
        "Folder that may hold apiserver.crt and apiserver.key, and where they are made if no other certificate is named",
    ),
    used("disable-http2-serving", Bool, "", "Whether only HTTP/1.1 is spoken"),
    used(
        "strict-transport-security-directives",
        List,
        "",
        "What browsers are told of HTTPS: max-age=seconds, includeSubDomains, preload",
    ),
    used("http2-max-streams-per-connection", Int, "", "Most requests at once on one HTTP/2 connection"),
    used("secure-port", Int, "6443", "Port to listen on; 0 takes a free one and says which"),
    used("tls-cert-file", Text, "", "PEM file of the serving certificate"),
    used("tls-private-key-file", Text, "", "PEM file of the serving key"),
    used(
        "anonymous-auth",
        Bool,
        "true",
        "Whether requests without credentials are anonymous rather than refused",
    ),
    used("api-audiences", List, "", "Audiences of this server; empty: the issuers"),
    used("client-ca-file", Text, "", "PEM file of the authorities whose client certificates are believed"),
    used("service-account-issuer", List, "", "Issuers of service-account tokens; the first one signs"),
    used("service-account-jwks-uri", Text, "", "Where the keys of service-account tokens are published"),
    used(
        "service-account-key-file",
        List,
        "",
        "PEM files of keys that service-account tokens are verified with",
    ),
    used(
        "service-account-lookup",
        Bool,
        "true",
        "Whether a token counts only while its service account exists",
    ),
    used(
        "service-account-extend-token-expiration",
        Bool,
        "true",
        "Whether tokens of pods live longer than they say and old ones are only remarked upon",
    ),
    used("service-account-max-token-expiration", Duration, "", "Longest life of a service-account token"),
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
        "Groups and versions to serve or not: group/version=true|false, api/all, api/beta, api/alpha",
    ),
    used(
        "default-not-ready-toleration-seconds",
        Int,
        "300",
        "How long pods stay on nodes that are not ready",
    ),
    used(
        "default-unreachable-toleration-seconds",
        Int,
        "300",
        "How long pods stay on nodes that cannot be reached",
    ),
    used("service-node-port-range", Text, "30000-32767", "Ports that services may have on nodes"),
    used(
        "admission-control",
        List,
        "",
        "All admission plugins in force (deprecated: use the two flags below)",
    ),
    used("admission-control-config-file", Text, "", "AdmissionConfiguration: how plugins are configured"),
    used("disable-admission-plugins", List, "", "Admission plugins to turn off"),
    used("enable-admission-plugins", List, "", "Admission plugins to turn on"),
    used("v", Int, "0", "How much is logged: 0 little, 1 more, 3 requests, 4 all"),
    used(
        "service-account-signing-key-file",
        Text,
        "",
        "PEM file of the key that signs service-account tokens",
    ),
    used(
        "service-account-signing-endpoint",
        Text,
        "",
        "Socket of a process that signs service-account tokens in place of a key",
    ),
    used("event-ttl", Duration, "1h0m0s", "How long events are kept; 0: for ever"),
    used(
        "endpoint-reconciler-type",
        Text,
        "lease",
        "Whether clients in the cluster are told this address by the service kubernetes: none, or another word",
    ),
    used("service-cluster-ip-range", Text, "", "Network of service addresses"),
    used(
        "etcd-compaction-interval",
        Duration,
        "5m0s",
        "How long old revisions can be watched and listed; 0: as long as there is room",
    ),
    used(
        "cors-allowed-origins",
        List,
        "",
        "Regular expressions of the origins of web pages that may use the API",
    ),
    accepted("emulated-version", List, ""),
    accepted("emulation-forward-compatible", Bool, ""),
    used(
        "goaway-chance",
        Float,
        "",
        "How likely a request of HTTP/2 is to be the last one of its connection: at most 0.02",
    ),
    accepted("livez-grace-period", Duration, ""),
    used(
        "max-mutating-requests-inflight",
        Int,
        "200",
        "Seats of priority and fairness, together with --max-requests-inflight; without it: most writes at once, 0 is any",
    ),
    used(
        "max-requests-inflight",
        Int,
        "400",
        "Seats of priority and fairness, together with --max-mutating-requests-inflight; without it: most reads at once, 0 is any",
    ),
    accepted("min-compatibility-version", List, ""),
    accepted("runtime-config-emulation-forward-compatible", Bool, ""),
    used(
        "shutdown-send-retry-after",
        Bool,
        "",
        "Whether new requests are answered 429 while those in flight finish at the end",
    ),
    used(
        "shutdown-watch-termination-grace-period",
        Duration,
        "",
        "Whether watches end before the requests in flight: any time but 0",
    ),
    accepted("storage-initialization-timeout", Duration, "1m0s"),
    used(
        "delete-collection-workers",
        Int,
        "1",
        "How many objects of a collection are deleted at the same time",
    ),
    accepted("enable-garbage-collector", Bool, "true"),
    used(
        "encryption-provider-config",
        Text,
        "",
        "File that says which resources are encrypted in the store, and how",
    ),
    used(
        "encryption-provider-config-automatic-reload",
        Bool,
        "",
        "Look at that file every minute and put a new valid one in force",
    ),
    used("etcd-cafile", Text, "", "PEM file of the authority that etcd's certificates are checked with"),
    used("etcd-certfile", Text, "", "PEM file of the certificate shown to etcd"),
    used(
        "etcd-count-metric-poll-period",
        Duration,
        "1m0s",
        "How often objects are counted for the metrics; 0: never",
    ),
    used("etcd-db-metric-poll-interval", Duration, "30s", "How often etcd is asked for its size; 0: never"),
    used("etcd-healthcheck-timeout", Duration, "2s", "How long the health check `etcd` may take"),
    used("etcd-keyfile", Text, "", "PEM file of that certificate's key"),
    used("etcd-prefix", Text, "/registry", "What all keys in etcd begin with"),
    used("etcd-readycheck-timeout", Duration, "2s", "How long the readiness check `etcd-readiness` may take"),
    used(
        "etcd-servers",
        List,
        "",
        "Endpoints of the etcd to store in, comma separated; without them data goes to --data-dir",
    ),
    used(
        "etcd-servers-overrides",
        List,
        "",
        "Resources that lie in an etcd of their own: group/resource#servers, servers separated by semicolons",
    ),
    used(
        "lease-reuse-duration-seconds",
        Int,
        "60",
        "How much longer than needed etcd leases live, to be shared",
    ),
    accepted("storage-backend", Text, ""),
    used(
        "storage-media-type",
        Text,
        "application/vnd.kubernetes.protobuf",
        "How built-in kinds are written to etcd",
    ),
    accepted("watch-cache", Bool, "true"),
    accepted("watch-cache-sizes", List, ""),
    accepted("permit-address-sharing", Bool, ""),
    accepted("permit-port-sharing", Bool, ""),
    used("tls-cipher-suites", List, "", "Suites of TLS 1.2 that may be used"),
    used("tls-curve-preferences", IntList, "", "Numbers of the key exchanges that may be used"),
    used("tls-min-version", Text, "", "VersionTLS12 or VersionTLS13"),
    used(
        "tls-sni-cert-key",
        Values,
        "",
        "Certificate for certain names: certfile,keyfile or certfile,keyfile:name,name",
    ),
    used(
        "audit-log-batch-buffer-size",
        Int,
        "10000",
        "Most audit events that wait to be written in batch mode",
    ),
    used("audit-log-batch-max-size", Int, "1", "Most audit events that are written together"),
    used("audit-log-batch-max-wait", Duration, "", "Longest time that an audit event waits for others"),
    used(
        "audit-log-batch-throttle-burst",
        Int,
        "",
        "Batches that may be written at once before they are throttled",
    ),
    used("audit-log-batch-throttle-enable", Bool, "", "Whether batches are throttled"),
    used("audit-log-batch-throttle-qps", Float, "", "Most batches a second"),
    used("audit-log-compress", Bool, "", "Whether rotated audit logs are compressed"),
    used("audit-log-format", Text, "json", "Lines of the audit log: json or legacy"),
    used("audit-log-maxage", Int, "366", "Most days that rotated audit logs are kept"),
    used("audit-log-maxbackup", Int, "100", "Most rotated audit logs"),
    used("audit-log-maxsize", Int, "100", "Megabytes at which the audit log is rotated"),
    used(
        "audit-log-mode",
        Text,
        "blocking",
        "How audit events are written: batch, blocking or blocking-strict",
    ),
    used("audit-log-path", Text, "", "File of the audit log; - is standard output"),
    used("audit-log-truncate-enabled", Bool, "", "Whether large audit events lose their objects"),
    used(
        "audit-log-truncate-max-batch-size",
        Int,
        "10485760",
        "Most bytes of events that are written together",
    ),
    used("audit-log-truncate-max-event-size", Int, "102400", "Most bytes of an audit event"),
    used("audit-log-version", Text, "audit.k8s.io/v1", "Version of audit events: audit.k8s.io/v1"),
    used("audit-policy-file", Text, "", "File that says what is audited"),
    used(
        "audit-webhook-batch-buffer-size",
        Int,
        "10000",
        "Most audit events that wait to be sent in batch mode",
    ),
    used("audit-webhook-batch-max-size", Int, "400", "Most audit events that are sent together"),
    used(
        "audit-webhook-batch-max-wait",
        Duration,
        "30s",
        "Longest time that an audit event waits for others",
    ),
    used(
        "audit-webhook-batch-throttle-burst",
        Int,
        "15",
        "Batches that may be sent at once before they are throttled",
    ),
    used("audit-webhook-batch-throttle-enable", Bool, "true", "Whether batches are throttled"),
    used("audit-webhook-batch-throttle-qps", Float, "10", "Most batches a second"),
    used("audit-webhook-config-file", Text, "", "Kubeconfig of the webhook that takes audit events"),
    used("audit-webhook-initial-backoff", Duration, "10s", "Pause before a failed batch is sent again"),
    used(
        "audit-webhook-mode",
        Text,
        "batch",
        "How audit events are sent: batch, blocking or blocking-strict",
    ),
    used("audit-webhook-truncate-enabled", Bool, "", "Whether large audit events lose their objects"),
    used(
        "audit-webhook-truncate-max-batch-size",
        Int,
        "10485760",
        "Most bytes of events that are sent together",
    ),
    used("audit-webhook-truncate-max-event-size", Int, "102400", "Most bytes of an audit event"),
    used("audit-webhook-version", Text, "audit.k8s.io/v1", "Version of audit events: audit.k8s.io/v1"),
    accepted("contention-profiling", Bool, ""),
    accepted("debug-socket-path", Text, ""),
    used(
        "enable-priority-and-fairness",
        Bool,
        "true",
        "Queue requests by FlowSchemas and PriorityLevelConfigurations instead of limiting reads and writes",
    ),
    used("profiling", Bool, "true", "Whether /debug/pprof and /debug/flags are served"),
    used(
        "authentication-config",
        Text,
        "",
        "File of an AuthenticationConfiguration: providers of tokens, and who may be anonymous",
    ),
    used(
        "authentication-token-webhook-cache-ttl",
        Duration,
        "2m0s",
        "How long answers of the token webhook count",
    ),
    used("authentication-token-webhook-config-file", Text, "", "Kubeconfig of a webhook that knows tokens"),
    used(
        "authentication-token-webhook-version",
        Text,
        "v1beta1",
        "Version of the TokenReviews that the webhook is sent: v1 or v1beta1",
    ),
    used(
        "enable-bootstrap-token-auth",
        Bool,
        "",
        "Whether Secrets of type bootstrap.kubernetes.io/token in kube-system are tokens",
    ),
    used("oidc-ca-file", Text, "", "PEM file of the authorities of the OpenID provider"),
    used("oidc-client-id", Text, "", "Audience that tokens of the OpenID provider must have"),
    used("oidc-groups-claim", Text, "", "Claim that names the groups of a user"),
    used("oidc-groups-prefix", Text, "", "What groups of the OpenID provider begin with"),
    used("oidc-issuer-url", Text, "", "Address of an OpenID provider"),
    used("oidc-required-claim", Map, "", "Claims that tokens must have: claim=value"),
    used(
        "oidc-signing-algs",
        List,
        "RS256",
        "Algorithms that tokens of the OpenID provider may be signed with",
    ),
    used("oidc-username-claim", Text, "sub", "Claim that names the user"),
    used(
        "oidc-username-prefix",
        Text,
        "",
        "What users of the OpenID provider begin with; empty: the issuer; -: nothing",
    ),
    used(
        "requestheader-allowed-names",
        List,
        "",
        "Names that the certificate of a front proxy may have; empty: any",
    ),
    used("requestheader-client-ca-file", Text, "", "PEM file of the authorities of front proxies"),
    used(
        "requestheader-extra-headers-prefix",
        List,
        "",
        "How headers begin that say more of the user of a front proxy",
    ),
    used("requestheader-group-headers", List, "", "Headers that name groups of the user of a front proxy"),
    used("requestheader-uid-headers", List, "", "Headers that name the uid of the user of a front proxy"),
    used("requestheader-username-headers", List, "", "Headers that name the user of a front proxy"),
    used("authorization-config", Text, "", "File that says who decides what may be done"),
    used("authorization-policy-file", Text, "", "File of ABAC policies, one a line"),
    used(
        "authorization-webhook-cache-authorized-ttl",
        Duration,
        "5m0s",
        "How long an answer of the authorization webhook counts that allows",
    ),
    used(
        "authorization-webhook-cache-unauthorized-ttl",
        Duration,
        "30s",
        "How long another answer of the authorization webhook counts",
    ),
    used("authorization-webhook-config-file", Text, "", "Kubeconfig of a webhook that decides"),
    used(
        "authorization-webhook-version",
        Text,
        "v1beta1",
        "Version of the SubjectAccessReviews that the webhook is sent: v1 or v1beta1",
    ),
    used(
        "egress-selector-config-file",
        Text,
        "",
        "YAML file that says how the cluster is reached: Direct or HTTPConnect",
    ),
    accepted("apiserver-count", Int, "1"),
    accepted("default-watch-cache-size", Int, "100"),
    accepted("kubelet-port", Int, "10250"),
    accepted("kubelet-read-only-port", Int, "10255"),
    accepted("allow-metric-labels", Map, ""),
    accepted("allow-metric-labels-manifest", Text, ""),
    accepted("disabled-metrics", List, ""),
    accepted("show-hidden-metrics-for-version", Text, ""),
    accepted("log-flush-frequency", Duration, "5s"),
    accepted("log-json-info-buffer-size", Text, ""),
    accepted("log-json-split-stream", Bool, ""),
    accepted("log-text-info-buffer-size", Text, ""),
    accepted("log-text-split-stream", Bool, ""),
    used("logging-format", Text, "text", "Lines of the log: text or json"),
    used("vmodule", Text, "", "Verbosity of single source files: pattern=N, comma separated"),
    used(
        "tracing-config-file",
        Text,
        "",
        "File of a TracingConfiguration: where traces are sent by OTLP, and how many",
    ),
    accepted("aggregator-reject-forwarding-redirect", Bool, "true"),
    used("allow-privileged", Bool, "", "Whether containers may be privileged; =false refuses them"),
    accepted("coordinated-leadership-lease-duration", Duration, "15s"),
    accepted("coordinated-leadership-renew-deadline", Duration, "10s"),
    accepted("coordinated-leadership-retry-period", Duration, "2s"),
    used(
        "enable-aggregator-routing",
        Bool,
        "",
        "Whether requests to extension servers go to the endpoints of their services",
    ),
    accepted("enable-logs-handler", Bool, ""),
    used(
        "kubelet-certificate-authority",
        Text,
        "",
        "PEM file of the authorities of kubelets; empty: any certificate is believed",
    ),
    used(
        "kubelet-client-certificate",
        Text,
        "",
        "PEM file of the certificate that kubelets are shown; read again when it changes",
    ),
    used("kubelet-client-key", Text, "", "PEM file of its key"),
    used(
        "kubelet-preferred-address-types",
        List,
        "Hostname,InternalDNS,InternalIP,ExternalDNS,ExternalIP",
        "Types of node addresses in the order in which they are tried",
    ),
    accepted("kubelet-timeout", Duration, "5s"),
    accepted("kubernetes-service-node-port", Int, ""),
    accepted("max-connection-bytes-per-sec", Int, ""),
    used(
        "peer-advertise-ip",
        Text,
        "",
        "Address at which other servers reach this one; empty: the advertised one",
    ),
    used(
        "peer-advertise-port",
        Text,
        "",
        "Port at which other servers reach this one; empty: that of this server",
    ),
    accepted("peer-ca-file", Text, ""),
    used(
        "proxy-client-cert-file",
        Text,
        "",
        "PEM file of the certificate that extension servers are shown; read again when it changes",
    ),
    used("proxy-client-key-file", Text, "", "PEM file of its key"),
];
