//! `Config`: the validated flags.

mod service_network;

use crate::authentication::Authentication;
use crate::authorization::Authorization;
use crate::bootstrap::KubernetesService;
use crate::emulation::Emulation;
use crate::encryption::EncryptionFlags;
use crate::endpoint;
use crate::etcd::EtcdSettings;
use crate::flags::{FlagError, Flags};
use crate::flow::FlowFlags;
use crate::history;
use crate::program::Program;
use crate::proxying::Proxying;
use crate::runtime_config::{self, RuntimeConfig};
use http::HeaderValue;
use pintle_controllers::leader::Terms;
use pintle_http::version::GIT_VERSION;
use pintle_kinds::service_allocation::Ranges;
use pintle_store::HistoryRetention;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use service_network::{Network, node_ports, service_network_errors, service_networks};
use service_network::{service_network, service_ranges};

/// The configuration of the server.
pub(crate) struct Config {
    pub(crate) bind: SocketAddr,
    /// The data folder. `None` means that all data is in memory, and files for users are in a temporary folder.
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) ephemeral: bool,
    /// Whether the server stops when its standard input ends.
    pub(crate) stops_with_stdin: bool,
    /// Whether `--data-dir` was given.
    data_dir_given: bool,
    /// The program name under which the process was started.
    pub(crate) program: Program,
    /// The memory limit of recent changes, for watches.
    pub(crate) watch_history_bytes: usize,
    /// Whether the web console is served.
    pub(crate) console: bool,
    /// Whether containers may be privileged.
    pub(crate) allows_privileged: bool,
    pub(crate) cert_dir: Option<PathBuf>,
    /// Encryption at rest.
    pub(crate) encryption: EncryptionFlags,
    /// Certificate and key of the server, if they are given.
    pub(crate) serving_files: Option<(PathBuf, PathBuf)>,
    pub(crate) client_ca_file: Option<PathBuf>,
    pub(crate) token_file: Option<PathBuf>,
    pub(crate) authorization: Authorization,
    pub(crate) service_network: Network,
    pub(crate) issuers: Vec<String>,
    pub(crate) audiences: Vec<String>,
    pub(crate) account_key_files: Vec<PathBuf>,
    pub(crate) account_signing_key_file: Option<PathBuf>,
    /// Socket of an external process that signs service account tokens, or "".
    pub(crate) account_signing_endpoint: String,
    pub(crate) jwks_uri: String,
    pub(crate) gates: BTreeMap<&'static str, bool>,
    pub(crate) anonymous: bool,
    pub(crate) authentication: Authentication,
    pub(crate) token_webhook: TokenWebhookConfig,
    pub(crate) front_proxy: FrontProxyConfig,
    pub(crate) bootstrap_tokens: bool,
    /// Whether tokens of Secrets are accepted only while the Secret contains them.
    pub(crate) lookup_tokens: bool,
    pub(crate) request_timeout: Duration,
    pub(crate) min_request_timeout: Duration,
    /// The value of `--controllers`.
    pub(crate) controllers: Vec<String>,
    pub(crate) enabled_plugins: Vec<String>,
    /// `--admission-control`, which names all enabled plugins.
    pub(crate) only_plugins: Vec<String>,
    pub(crate) admission_config: Option<PathBuf>,
    pub(crate) disabled_plugins: Vec<String>,
    /// The service CIDRs, at most one per family, and the node port range.
    pub(crate) service_ranges: Ranges,
    /// The node port of the service `kubernetes`; 0 if it has none.
    pub(crate) service_node_port: u16,
    /// Which versions of the API are served.
    pub(crate) runtime_config: RuntimeConfig,
    /// Whether other servers may listen on the same port.
    pub(crate) shares_port: bool,
    /// The Lease of the server that holds elections among LeaseCandidates.
    pub(crate) leadership: Terms,
    /// The version that the server emulates.
    pub(crate) emulation: Emulation,
    /// The longest lifetime of a service account token in seconds; 0 means no limit.
    pub(crate) token_seconds_max: i64,
    pub(crate) extend_tokens: bool,
    pub(crate) not_ready_seconds: i64,
    pub(crate) unreachable_seconds: i64,
    pub(crate) shutdown_delay: Duration,
    pub(crate) http2: bool,
    pub(crate) streams_max: u32,
    /// The header `Strict-Transport-Security`, if it is configured.
    pub(crate) strict_transport: Option<HeaderValue>,
    pub(crate) external_host: String,
    /// The address at which the cluster reaches this server, if there is one.
    pub(crate) advertise: Option<IpAddr>,
    /// The value of `--advertise-address`.
    pub(crate) advertise_given: Option<IpAddr>,
    /// The address for other servers, if it differs (`--peer-advertise-ip` and `-port`).
    peer_given: Option<SocketAddr>,
    /// Whether no kube-apiserver flags are used: then no other process manages service accounts and quotas.
    pub(crate) alone: bool,
    /// Whether old revisions are compacted.
    pub(crate) compacts: bool,
    /// How often the size of the store is measured; zero means never.
    pub(crate) measure_every: Duration,
    /// Whether objects are counted for the metrics.
    pub(crate) counts_objects: bool,
    /// How many objects of a collection are deleted at the same time.
    pub(crate) deletion_workers: usize,
    /// Whether deletions wait for a garbage collector, and the one in this process runs.
    pub(crate) garbage_collection: bool,
    /// Whether the endpoints of the service `kubernetes` are updated.
    pub(crate) publishes_endpoint: bool,
    /// The time to live of events; zero means forever.
    pub(crate) event_life: Duration,
    /// How long revisions are retained for lists and watches.
    pub(crate) retention: Duration,
    /// How long old versions of objects are retained on disk.
    pub(crate) history: HistoryRetention,
    /// The etcd to store in; `None` means the embedded store.
    pub(crate) etcd: Option<EtcdSettings>,
    /// The version that clients see.
    pub(crate) git_version: String,
    /// Requests that are forwarded to other servers.
    pub(crate) proxying: Proxying,
    pub(crate) flow: FlowFlags,
}

/// `--authentication-token-webhook-*`: the token webhook.
#[derive(Clone, Debug, Default)]
pub(crate) struct TokenWebhookConfig {
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) version: String,
    /// How long the webhook's answers are cached.
    pub(crate) life: Duration,
}

/// `--requestheader-*`: the front proxy.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrontProxyConfig {
    pub(crate) authority_file: Option<PathBuf>,
    pub(crate) allowed_names: Vec<String>,
    pub(crate) username_headers: Vec<String>,
    pub(crate) uid_headers: Vec<String>,
    pub(crate) group_headers: Vec<String>,
    pub(crate) extra_prefixes: Vec<String>,
}

impl FrontProxyConfig {
    fn new(flags: &Flags) -> Self {
        FrontProxyConfig {
            authority_file: path(flags, "requestheader-client-ca-file"),
            allowed_names: flags.list("requestheader-allowed-names"),
            username_headers: flags.list("requestheader-username-headers"),
            uid_headers: flags.list("requestheader-uid-headers"),
            group_headers: flags.list("requestheader-group-headers"),
            extra_prefixes: flags.list("requestheader-extra-headers-prefix"),
        }
    }
}

/// The maximum number of objects of a collection that are deleted concurrently, even if the flag is higher.
const DELETION_WORKERS_MAX: usize = 100;
/// The default issuer of service account tokens.
const DEFAULT_ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
/// The default limit of concurrent streams on an HTTP/2 connection.
const DEFAULT_STREAMS_MAX: u32 = 100;

/// Practically forever; history is still limited by size.
const RETENTION_MAX: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Flags without which kube-apiserver does not start, or that configure identities. If one is given, Pintle replaces a
/// kube-apiserver in a cluster.
const OF_KUBE_APISERVER: [&str; 9] = [
    "authentication-config",
    "client-ca-file",
    "etcd-servers",
    "service-account-issuer",
    "service-account-key-file",
    "service-account-signing-endpoint",
    "service-account-signing-key-file",
    "service-cluster-ip-range",
    "token-auth-file",
];

impl Config {
    /// Returns whether a controller runs in this process: if it is named, or by `*` unless `-name` excludes it or
    /// another process does its work.
    pub(crate) fn runs_controller(&self, name: &str) -> bool {
        let says = |text: &str| self.controllers.iter().any(|c| c == text);
        // Priority and fairness sets the condition of flow schemas itself.
        if name == "flow-schema" && !self.flow.fair {
            return false;
        }
        if name == "garbage-collector" && !self.garbage_collection {
            return false;
        }
        let by_default = self.alone || !pintle_controllers::NOT_BESIDE_OTHERS.contains(&name);
        says(name) || (says("*") && by_default && !says(&format!("-{name}")))
    }

    /// Reads the flags, which must be validated (`flag_checks::check`).
    pub(crate) fn new(flags: &Flags) -> Result<Self, FlagError> {
        let port = u16::try_from(flags.int("secure-port")).unwrap_or(0);
        let program = Program::current();
        let stands_in = stands_in_for_kube_apiserver(flags, program);
        let ip = bind_ip(flags, stands_in);
        let data_dir_given = flags.given("data-dir");
        let ephemeral = is_ephemeral(flags, program);
        let serving_files = serving_files(flags)?;
        // kube-apiserver looks at these before it reads files about users and rights.
        let runtime_config = selected_versions(flags)?;
        let flow = FlowFlags::new(flags)?;
        let issuers = non_empty(flags.values("service-account-issuer"), DEFAULT_ISSUER);
        let audiences = match flags.list("api-audiences") {
            none if none.is_empty() => issuers.clone(),
            some => some,
        };
        Ok(Config {
            bind: SocketAddr::new(ip, port),
            data_dir: (!ephemeral || data_dir_given).then(|| PathBuf::from(flags.text("data-dir"))),
            ephemeral,
            stops_with_stdin: flags.bool("stop-with-stdin"),
            data_dir_given,
            program,
            watch_history_bytes: usize::try_from(flags.int("watch-history-bytes")).unwrap_or(0),
            // In place of a kube-apiserver, Pintle serves only the versions that kube-apiserver serves.
            console: flags.bool("console") && (flags.given("console") || !stands_in),
            allows_privileged: allows_privileged(flags, program),
            cert_dir: path(flags, "cert-dir"),
            encryption: EncryptionFlags {
                file: path(flags, "encryption-provider-config"),
                reload: flags.bool("encryption-provider-config-automatic-reload"),
                kms_v1: flags.gates()?.get("KMSv1") == Some(&true),
            },
            serving_files,
            client_ca_file: path(flags, "client-ca-file"),
            token_file: path(flags, "token-auth-file"),
            authorization: Authorization::new(flags)?,
            service_network: service_network(flags)?,
            issuers: issuers.clone(),
            audiences,
            account_key_files: flags
                .list("service-account-key-file")
                .into_iter()
                .map(PathBuf::from)
                .collect(),
            account_signing_key_file: path(flags, "service-account-signing-key-file"),
            account_signing_endpoint: flags.text("service-account-signing-endpoint").to_string(),
            jwks_uri: flags.text("service-account-jwks-uri").to_string(),
            gates: flags.gates()?,
            anonymous: flags.bool("anonymous-auth"),
            authentication: Authentication::new(flags, &issuers)?,
            token_webhook: TokenWebhookConfig {
                kubeconfig: path(flags, "authentication-token-webhook-config-file"),
                version: flags.text("authentication-token-webhook-version").to_string(),
                life: flags.duration("authentication-token-webhook-cache-ttl"),
            },
            front_proxy: FrontProxyConfig::new(flags),
            bootstrap_tokens: flags.bool("enable-bootstrap-token-auth"),
            lookup_tokens: flags.bool("service-account-lookup"),
            request_timeout: flags.duration("request-timeout"),
            min_request_timeout: Duration::from_secs(
                u64::try_from(flags.int("min-request-timeout")).unwrap_or(0),
            ),
            controllers: controllers(flags, program)?,
            enabled_plugins: flags.raw_list("enable-admission-plugins"),
            only_plugins: flags.raw_list("admission-control"),
            admission_config: path(flags, "admission-control-config-file"),
            disabled_plugins: flags.raw_list("disable-admission-plugins"),
            service_node_port: u16::try_from(flags.int("kubernetes-service-node-port")).unwrap_or(0),
            service_ranges: service_ranges(flags)?,
            runtime_config,
            emulation: Emulation::of(flags)?,
            leadership: leadership_terms(flags),
            shares_port: flags.bool("permit-port-sharing"),
            token_seconds_max: token_seconds_max(flags)?,
            extend_tokens: flags.bool("service-account-extend-token-expiration"),
            not_ready_seconds: flags.int("default-not-ready-toleration-seconds"),
            unreachable_seconds: flags.int("default-unreachable-toleration-seconds"),
            shutdown_delay: flags.duration("shutdown-delay-duration"),
            http2: !flags.bool("disable-http2-serving"),
            streams_max: match u32::try_from(flags.int("http2-max-streams-per-connection")) {
                Ok(0) | Err(_) => DEFAULT_STREAMS_MAX,
                Ok(n) => n,
            },
            strict_transport: strict_transport(flags)?,
            external_host: flags.text("external-hostname").to_string(),
            advertise: flags.ip("advertise-address").or_else(|| endpoint::host_address(ip)),
            advertise_given: flags.ip("advertise-address"),
            peer_given: match (flags.ip("peer-advertise-ip"), flags.text("peer-advertise-port").parse()) {
                (Some(ip), Ok(port)) => Some(SocketAddr::new(ip, port)),
                _ => None,
            },
            alone: !stands_in,
            compacts: !flags.duration("etcd-compaction-interval").is_zero(),
            measure_every: flags.duration("etcd-db-metric-poll-interval"),
            counts_objects: !flags.duration("etcd-count-metric-poll-period").is_zero(),
            deletion_workers: usize::try_from(flags.int("delete-collection-workers"))
                .map_or(1, |workers| workers.clamp(1, DELETION_WORKERS_MAX)),
            garbage_collection: flags.bool("enable-garbage-collector"),
            publishes_endpoint: flags.text("endpoint-reconciler-type") != "none",
            event_life: flags.duration("event-ttl"),
            retention: match flags.duration("etcd-compaction-interval") {
                Duration::ZERO => RETENTION_MAX,
                interval => interval,
            },
            history: history::retention(&flags.list("history-retention"))
                .map_err(|why| FlagError::new(&why))?,
            etcd: EtcdSettings::new(flags)?,
            git_version: match flags.text("version") {
                name if name.starts_with('v') => name.to_string(),
                _ => GIT_VERSION.to_string(),
            },
            proxying: Proxying::new(flags)?,
            flow,
        })
    }

    /// Stores everything in memory instead of in etcd.
    pub(crate) fn keep_in_memory(&mut self) {
        self.etcd = None;
        self.ephemeral = true;
        self.data_dir.take_if(|_| !self.data_dir_given);
    }

    /// The address for other servers, given the port that this one listens on.
    pub(crate) fn peer_address(&self, port: u16) -> Option<SocketAddr> {
        self.peer_given.or_else(|| Some(SocketAddr::new(self.advertise?, port)))
    }

    /// All feature gates: name, stage as in metrics, and whether they are enabled.
    pub(crate) fn gate_stages(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        crate::flags::gate_stages(self.emulation.minor).map(|(name, stage)| (name, stage, self.gate(name)))
    }

    /// The service `kubernetes`, as the server creates it.
    pub(crate) fn kubernetes_service(&self) -> KubernetesService {
        KubernetesService {
            address: self.service_network.first_host(),
            port: self.bind.port(),
            node_port: self.service_node_port,
        }
    }

    /// Whether a feature gate is enabled.
    pub(crate) fn gate(&self, name: &str) -> bool {
        self.gates.get(name).copied().unwrap_or(false)
    }
}

/// A cluster must be able to reach its API server, but a standalone Pintle listens only on loopback.
fn bind_ip(flags: &Flags, stands_in: bool) -> IpAddr {
    match flags.ip("bind-address") {
        Some(ip) if flags.given("bind-address") || !stands_in => ip,
        _ if stands_in => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        _ => IpAddr::V4(Ipv4Addr::LOCALHOST),
    }
}

/// A kube-apiserver has no data folder, because its data is in etcd.
fn is_ephemeral(flags: &Flags, program: Program) -> bool {
    match program {
        Program::KubeApiserver if !flags.given("ephemeral") => !flags.given("data-dir"),
        _ => flags.bool("ephemeral"),
    }
}

/// The files of the serving certificate and of its key; both flags or none must be given.
fn serving_files(flags: &Flags) -> Result<Option<(PathBuf, PathBuf)>, FlagError> {
    match (path(flags, "tls-cert-file"), path(flags, "tls-private-key-file")) {
        (Some(certificate), Some(key)) => Ok(Some((certificate, key))),
        (None, None) => Ok(None),
        _ => Err(FlagError::new("missing filename for serving cert")),
    }
}

/// Returns whether Pintle runs in place of a kube-apiserver: under its name, or with its flags.
fn stands_in_for_kube_apiserver(flags: &Flags, program: Program) -> bool {
    program == Program::KubeApiserver || OF_KUBE_APISERVER.iter().any(|name| flags.given(name))
}

/// kube-apiserver refuses privileged containers by default. A standalone Pintle allows them, because only its user
/// runs pods on it. A server that signs tokens with keys of the cluster (without such a flag kube-apiserver does not
/// start) has kube-apiserver's default.
fn allows_privileged(flags: &Flags, program: Program) -> bool {
    let signs = ["service-account-signing-endpoint", "service-account-signing-key-file"];
    let is_alone = program != Program::KubeApiserver && !signs.iter().any(|name| flags.given(name));
    if flags.given("allow-privileged") { flags.bool("allow-privileged") } else { is_alone }
}

/// The environment variable that replaces `--controllers`, for users who cannot change the command line.
const CONTROLLERS_VARIABLE: &str = "PINTLE_CONTROLLERS";

/// Names of controllers, `-name` and `*`. Under the name kube-apiserver, only the controllers of that program run by
/// default: test suites that start it finalize namespaces and remove dependents themselves.
fn controllers(flags: &Flags, program: Program) -> Result<Vec<String>, FlagError> {
    let named = match std::env::var(CONTROLLERS_VARIABLE) {
        _ if flags.given("controllers") => flags.list("controllers"),
        Ok(text) => text.split(',').map(str::trim).filter(|s| !s.is_empty()).map(str::to_string).collect(),
        Err(_) if program == Program::KubeApiserver => vec!["flow-schema".to_string()],
        Err(_) => flags.list("controllers"),
    };
    for item in &named {
        let name = item.strip_prefix('-').unwrap_or(item);
        if item != "*" && !pintle_controllers::NAMES.contains(&name) {
            let all = pintle_controllers::NAMES.into_iter();
            return Err(FlagError::new(&crate::commands::unknown("controller", name, all)));
        }
    }
    Ok(named)
}

fn path(flags: &Flags, name: &str) -> Option<PathBuf> {
    Some(flags.text(name)).filter(|t| !t.is_empty()).map(PathBuf::from)
}

fn non_empty(list: Vec<String>, default: &str) -> Vec<String> {
    if list.is_empty() { vec![default.to_string()] } else { list }
}

/// The longest life of a token, in seconds; 0 if the flag does not limit it.
pub(crate) fn token_seconds_max(flags: &Flags) -> Result<i64, FlagError> {
    const SECOND: i64 = 1_000_000_000;
    let nanos = flags.signed_duration("service-account-max-token-expiration").0;
    let seconds = nanos / SECOND;
    if nanos != 0 && (nanos < 3600 * SECOND || seconds > 1 << 32) {
        let why = "the service-account-max-token-expiration must be between 1 hour and 2^32 seconds";
        return Err(FlagError::new(why));
    }
    Ok(seconds)
}

/// The header that tells browsers to use TLS only.
pub(crate) fn strict_transport(flags: &Flags) -> Result<Option<HeaderValue>, FlagError> {
    let directives = flags.list("strict-transport-security-directives");
    let known = |directive: &String| {
        let age = directive.strip_prefix("max-age=").filter(|age| !age.contains('='));
        age.is_some() || matches!(directive.as_str(), "includeSubDomains" | "preload")
    };
    if directives.is_empty() {
        return Ok(None);
    }
    match HeaderValue::from_str(&directives.join("; ")).ok().filter(|_| directives.iter().all(known)) {
        Some(value) => Ok(Some(value)),
        None => Err(FlagError::new(
            "--strict-transport-security-directives invalid, allowed values: max-age=expireTime, includeSubDomains, \
             preload. see https://tools.ietf.org/html/rfc6797#section-6.1 for more information",
        )),
    }
}

fn leadership_terms(flags: &Flags) -> Terms {
    Terms {
        name: "leader-election-controller",
        duration: flags.duration("coordinated-leadership-lease-duration"),
        renew_deadline: flags.duration("coordinated-leadership-renew-deadline"),
        retry: flags.duration("coordinated-leadership-retry-period"),
    }
}

fn selected_versions(flags: &Flags) -> Result<RuntimeConfig, FlagError> {
    RuntimeConfig::parse(&runtime_config::entries(flags), Emulation::of(flags)?)
        .map_err(|why| FlagError::new(&why))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{Invocation, parse};

    #[test]
    fn browsers_are_told_what_the_flag_says() {
        for (given, want) in [
            ("", Some(None)),
            ("max-age=31536000,includeSubDomains", Some(Some("max-age=31536000; includeSubDomains"))),
            ("preload", Some(Some("preload"))),
            ("max-age=1=2", None),
            ("for-ever", None),
        ] {
            let line = format!("--strict-transport-security-directives={given}");
            let Ok(Invocation::Serve(flags)) = parse([line]) else { panic!("{given}") };
            let header = strict_transport(&flags).ok();
            let header = header.as_ref().map(|value| value.as_ref().map(|value| value.to_str().unwrap()));
            assert_eq!(header, want, "{given}");
        }
    }
}
