//! `ServerContext`: what the HTTP server needs to answer requests, from the parts and the configuration.

use super::parts::{OtherServers, Parts};
use crate::config::Config;
use crate::data_dir::DataDir;
use crate::emulation::Emulation;
use crate::operation::Operation;
use crate::profile::Profiles;
use crate::{flow, storage_metrics, upkeep};
use pintle_audit::Auditor;
use pintle_auth::impersonate::Impersonation;
use pintle_controllers::aggregation::Aggregation;
use pintle_engine::{Access, Engine};
use pintle_http::debug::Profiler;
use pintle_http::openid::OpenId;
use pintle_http::resources::Resources;
use pintle_http::server::ServerContext;
use pintle_http::version;
use pintle_http::{Api, Console, Metrics, Offload, PeerProxy};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};

/// The addresses of the server.
pub(super) struct Addresses {
    /// The address of the listener.
    pub(super) bound: SocketAddr,
    /// The address at which clients on this machine reach the listener.
    local: SocketAddr,
    /// The address that clients see in `/api` and OpenID discovery.
    published: String,
}

impl Addresses {
    pub(super) fn new(config: &Config) -> Self {
        let bound = config.bind;
        let local = SocketAddr::new(reachable(bound.ip()), bound.port());
        Addresses { bound, local, published: published(config, local) }
    }

    /// The URL in the administrator's kubeconfig. A server that listens only on loopback is not reachable at the advertised
    /// address.
    pub(super) fn admin_url(&self) -> String {
        if self.bound.ip().is_loopback() {
            format!("https://{}", self.local)
        } else {
            format!("https://{}", self.published)
        }
    }
}

/// Builds the context, and starts flow control and the exporter of traces.
pub(super) fn server_context(
    config: &Config,
    operation: &Operation,
    folder: &DataDir,
    parts: Parts,
    others: &OtherServers,
    addresses: &Addresses,
    auditor: Option<Arc<Auditor>>,
) -> ServerContext {
    let Parts { signing, objects, authenticator, authorizers, health, .. } = parts;
    let engine = objects.engine;
    let access = Access {
        authorizer: authorizers.clone(),
        authenticator: authenticator.clone(),
        token_seconds_max: signing.seconds_max,
        extend_tokens: config.extend_tokens,
        extended_token_seconds: signing.extended_seconds,
    };
    let aggregation = others.aggregation.clone();
    let min_timeout = config.min_request_timeout;
    let api: Arc<dyn Api> =
        Arc::new(Resources::new(engine.clone(), access, objects.types, min_timeout, aggregation.clone()));
    let published = &addresses.published;
    let jwks_uri = match config.jwks_uri.as_str() {
        "" => format!("https://{published}/openid/v1/jwks"),
        given => given.to_string(),
    };
    let metrics = metrics(config, &engine, folder, &aggregation);
    let flow = flow::start(config, &engine, &metrics, &health);
    let Emulation { minor, min_compatibility_minor, .. } = config.emulation;
    version::emulate(version::Emulation { minor, min_compatibility_minor });
    ServerContext {
        api,
        authenticator,
        authorizer: authorizers,
        health,
        metrics: Arc::new(metrics),
        openid: OpenId::new(config.issuers.first().map_or("", String::as_str), &jwks_uri, signing.keys),
        git_version: config.git_version.clone(),
        git_commit: env!("PINTLE_GIT_COMMIT"),
        address: OnceLock::from(published.clone()),
        cbor: config.gate("CBORServingAndStorage"),
        compression: config.gate("APIResponseCompression"),
        strict_transport: config.strict_transport.clone(),
        impersonation: Impersonation::new(config.gate("ConstrainedImpersonation")),
        request_timeout: config.request_timeout,
        offload: Offload::default(),
        closes_unauthenticated_http2: config.gate("UnauthenticatedHTTP2DOSMitigation"),
        aggregation,
        peers: others.peers.clone().map(PeerProxy::new),
        knows_peers: config.gate(upkeep::PEER_PROXY),
        streams: config.proxying.streams.clone(),
        auditor,
        cors: operation.cors.clone(),
        lifecycle: Arc::default(),
        pages: operation.pages(config),
        serves_logs: operation.serves_logs,
        profiler: operation.profiling.then(|| Arc::new(Profiles) as Arc<dyn Profiler>),
        tracer: operation.tracing.clone().map(|settings| {
            let name = ("service.name", "apiserver".to_string());
            let instance = ("service.instance.id", addresses.bound.to_string());
            pintle_trace::Exporter::start(settings, vec![name, instance])
        }),
        goaway_chance: operation.goaway_chance,
        flow,
        turns: Arc::default(),
        unread: Arc::default(),
        request_memory: pintle_http::request_memory::RequestMemory::default(),
        console: config.console.then(Console::default),
    }
}

/// The metrics with the sources that are read on scrape.
fn metrics(
    config: &Config,
    engine: &Arc<Engine>,
    folder: &DataDir,
    aggregation: &Arc<Aggregation>,
) -> Metrics {
    storage_metrics::describe_build(config);
    let metrics = Metrics::default();
    let (measured, data, counts) = (engine.clone(), folder.path().to_path_buf(), config.counts_objects);
    metrics.add_source(move || {
        storage_metrics::update(&measured, &data, counts);
        measured.writer().update_allocation_metrics();
    });
    let checked = aggregation.clone();
    metrics.add_source(move || checked.update_metrics());
    metrics
}

/// The address that clients see in `/api` and OpenID discovery: `--external-hostname` or `--advertise-address` if they
/// are given.
fn published(config: &Config, local: SocketAddr) -> String {
    match (config.external_host.as_str(), config.advertise_given) {
        ("", Some(ip)) => SocketAddr::new(ip, local.port()).to_string(),
        ("", None) => local.to_string(),
        (host, _) => match host.parse::<IpAddr>() {
            Ok(ip) => SocketAddr::new(ip, local.port()).to_string(),
            Err(_) => format!("{host}:{}", local.port()),
        },
    }
}

/// The address at which clients on this machine reach a listener.
fn reachable(ip: IpAddr) -> IpAddr {
    match ip {
        IpAddr::V4(v4) if v4.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(v6) if v6.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        other => other,
    }
}
