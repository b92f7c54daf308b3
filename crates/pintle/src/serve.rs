//! `pintle serve`: reads keys, connects the parts, listens, and shuts down gracefully.

use crate::audit::AuditConfig;
use crate::config::Config;
use crate::data_dir::{DataDir, DataDirError};
use crate::emulation::Emulation;
use crate::flags::{FlagError, Flags};
use crate::kubeconfig::Kubeconfig;
use crate::objects::{Objects, ObjectsError};
use crate::operation::{self, Operation};
use crate::pki::{self, Authority, KeyFolder, PkiError};
use crate::profile::Profiles;
use crate::program::Program;
use crate::reload::{self, Reload};
use crate::upkeep::Upkeep;
use crate::{
    authenticator, bootstrap, config_file, descriptors, etcd_stand_in, flow, metric_flags, objects,
    storage_metrics, token_signing, upkeep,
};
use arc_swap::ArcSwap;
use pintle_admission::SettingsError;
use pintle_auth::Authorizer;
use pintle_auth::authn::x509::AuthorityError;
use pintle_auth::impersonate::Impersonation;
use pintle_controllers::aggregation::Aggregation;
use pintle_controllers::peers::Peers;
use pintle_encrypt::Encryption;
use pintle_engine::{Access, AccessObjects, Engine};
use pintle_http::debug::Profiler;
use pintle_http::debug_socket;
use pintle_http::health::{Health, Scope};
use pintle_http::openid::OpenId;
use pintle_http::resources::Resources;
use pintle_http::server::ServerContext;
use pintle_http::tls::{self, ServingCertificates};
use pintle_http::version;
use pintle_http::{Api, Console, Metrics, Offload, PeerProxy, Server, ServerConfig};
use pintle_store::Store;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, OnceLock};
use std::time::Instant;
use tokio::net::{TcpListener, TcpSocket};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

/// Why the server cannot run, in one line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ServeError {
    #[error(transparent)]
    Flag(#[from] FlagError),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Objects(#[from] ObjectsError),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error("cannot listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    #[error("--client-ca-file: {0}")]
    ClientCa(#[from] AuthorityError),
    #[error("{}", tls_error(.0))]
    Tls(#[from] rustls::Error),
    #[error("failed to load SNI cert and key: {0}")]
    NamedCertificate(PkiError),
    #[error("error building peer proxy handler, {0} not specified")]
    PeerProxy(&'static str),
    #[error("Reconciler not implemented: {0}")]
    Reconciler(String),
    #[error("cannot start: {0}")]
    Runtime(std::io::Error),
    #[error("the server ended unexpectedly: {0}")]
    Ended(tokio::task::JoinError),
}

impl ServeError {
    /// Whether the error is in a configuration file.
    pub(crate) fn is_of_a_file(&self) -> bool {
        matches!(self, ServeError::Objects(ObjectsError::Encryption(_) | ObjectsError::Admission(_)))
    }

    /// The exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            // kube-apiserver exits with another code here.
            ServeError::Objects(ObjectsError::Admission(SettingsError::PluginFile(_)))
            | ServeError::Reconciler(_) => 255,
            _ => 1,
        }
    }
}

/// The text of a TLS error; for errors that an administrator may cause, Go's text.
fn tls_error(error: &rustls::Error) -> String {
    match error {
        rustls::Error::InconsistentKeys(_) => "tls: private key does not match public key".to_string(),
        other => format!("TLS: {other}"),
    }
}

/// Refuses flags that kube-apiserver refuses after all others.
fn check_late(flags: &Flags) -> Result<(), ServeError> {
    if !flags.text("peer-ca-file").is_empty() {
        for (flag, name) in
            [("proxy-client-cert-file", "proxy-cert-file"), ("proxy-client-key-file", "proxy-key-file")]
        {
            if flags.text(flag).is_empty() {
                return Err(ServeError::PeerProxy(name));
            }
        }
    }
    match crate::flag_checks::unknown_reconciler(flags) {
        Some(type_) => Err(ServeError::Reconciler(type_.to_string())),
        None => Ok(()),
    }
}

/// The stack for recursion over objects of the largest depth, 10,000 levels. The kernel allocates only the pages that are
/// used.
const STACK_BYTES: usize = 64 << 20;

/// Runs the server until a signal.
pub(crate) fn run(flags: &Flags) -> Result<(), ServeError> {
    let began = Instant::now();
    operation::start_log(flags)?;
    let config = Config::new(flags)?;
    let operation = Arc::new(Operation::new(flags)?);
    let audit = AuditConfig::new(flags)?;
    check_late(flags)?;
    // Their errors are those of `flag_checks`.
    metric_flags::read(flags).unwrap_or_default().apply();
    if config.gate("NativeHistograms") {
        pintle_metrics::enable_native_histograms();
    }
    pintle_kinds::set_allow_privileged(config.allows_privileged);
    let without_effect = flags.without_effect();
    if !without_effect.is_empty() {
        tracing::info!("flags without effect here: --{}", without_effect.join(", --"));
    }
    descriptors::raise_limit();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .enable_all()
        .build()
        .map_err(ServeError::Runtime)?;
    // This runs on a thread of the runtime, because objects that are read at start may be as deep as those of
    // requests.
    runtime.block_on(async {
        tokio::spawn(serve(config, operation, audit, began)).await.map_err(ServeError::Ended)?
    })
}

async fn serve(
    mut config: Config,
    operation: Arc<Operation>,
    audit: AuditConfig,
    began: Instant,
) -> Result<(), ServeError> {
    let auditor = audit.open().map_err(ServeError::Runtime)?;
    let mut signals = Signals::new().map_err(ServeError::Runtime)?;
    // Listen first, to report an occupied port before the data is changed.
    let listener = listen(config.bind, config.shares_port).map_err(|e| ServeError::Listen(config.bind, e))?;
    // With port 0, the system has chosen one.
    config.bind = listener.local_addr().map_err(|e| ServeError::Listen(config.bind, e))?;
    let keeps_in_memory = async { matches!(&config.etcd, Some(etcd) if etcd_stand_in::is_at(etcd).await) };
    let keeps_in_memory = tokio::select! {
        answer = keeps_in_memory => answer,
        () = signals.next() => return Ok(()),
    };
    if keeps_in_memory {
        tracing::info!(v = 0, "--etcd-servers names Pintle's stand-in for etcd: all data is kept in memory");
        config.keep_in_memory();
    } else if config.program == Program::KubeApiserver && config.etcd.is_none() && config.ephemeral {
        tracing::warn!("without --etcd-servers and --data-dir all data is kept in memory");
    }
    let config = Arc::new(config);
    let folder = match &config.data_dir {
        Some(path) => DataDir::open(path)?,
        None if config.program == Program::KubeApiserver => DataDir::none(),
        None => DataDir::temporary()?,
    };
    let folder = Arc::new(folder);
    let key_folder = KeyFolder((!config.ephemeral).then_some(&folder));
    let authority = Arc::new(Authority::load_or_make(key_folder)?);
    let (serving, serving_authority) = reload::serving_pair(&config, &authority, key_folder)?;
    let admin = authority.admin(key_folder)?;

    pintle_metrics::set_server_id_hash(config_file::hash(upkeep::own_name().as_bytes()));
    // Signals must also work while the server waits for its signer or for etcd.
    let signing = tokio::select! {
        signing = token_signing::start(&config, key_folder) => signing?,
        () = signals.next() => return Ok(()),
    };
    let lasting = config.authorization.lasting(&config)?;
    let authorizers = config.authorization.start(&lasting)?;
    let authorizer: Arc<dyn Authorizer> = authorizers.clone();
    let access_objects = AccessObjects { rbac: lasting.rbac.clone(), node: lasting.node.clone() };
    let opened = tokio::select! {
        opened = objects::open(&config, &folder, authorizer.clone(), access_objects) => opened?,
        () = signals.next() => return Ok(()),
    };
    let Objects { engine, types, encryption, stores } = opened;
    let authenticator = Arc::new(authenticator::build(&config, &authority, &engine, &signing.keys)?);
    let usual = pki::serving_certificate(&serving, folder.path())?;
    let certificates = ServingCertificates::new(usual, reload::named_certificates(&operation)?)?;
    let certificates = Arc::new(certificates);
    let hints = reload::hints(&authenticator);
    let tls = tls::server_config(certificates.clone(), hints, config.http2, &operation.tls)?;
    let tls = Arc::new(ArcSwap::new(tls));

    let health = Arc::new(Health::default());
    add_checks(&health, &config, &engine, &stores, &encryption);
    // The task ends with the runtime.
    tokio::spawn(crate::encryption::follow_readability(encryption, engine.clone()));
    engine.writer().load_access_objects();
    // The task ends with the runtime.
    let server_id = upkeep::own_identity(&engine, None).name;
    tokio::spawn(config.authentication.clone().follow(authenticator.clone(), server_id.clone()));
    tokio::spawn(config.authorization.clone().follow(lasting, authorizers, server_id));
    tokio::spawn(engine.writer().clone().follow_access_objects());
    tokio::spawn(crate::manifests::follow(engine.clone()));
    pintle_controllers::start_flow_objects(&engine, bootstrap::flow_objects());
    pintle_controllers::start(&engine, config.event_life, |name| config.runs_controller(name));
    let aggregation = Aggregation::new(engine.clone(), config.proxying.aggregation.clone());
    let (authentication, authentication_data) = watch::channel(config.proxying.authentication.clone());
    pintle_controllers::start_aggregation(&engine, &aggregation, authentication_data);
    let peers = config.proxying.peers.clone().filter(|_| config.gate(upkeep::PEER_PROXY));
    let peers = peers.map(|transport| Peers::new(engine.clone(), &upkeep::own_name(), transport));
    // Ends when the cache shuts down.
    peers.iter().for_each(|peers| _ = tokio::spawn(Arc::clone(peers).run()));
    let access = Access {
        authorizer: authorizer.clone(),
        authenticator: authenticator.clone(),
        token_seconds_max: signing.seconds_max,
        extend_tokens: config.extend_tokens,
        extended_token_seconds: signing.extended_seconds,
    };
    let resources =
        Resources::new(engine.clone(), access, types, config.min_request_timeout, aggregation.clone());
    let api: Arc<dyn Api> = Arc::new(resources);

    let address = config.bind;
    let upkeep = Upkeep::start(&engine, &config, address, &serving_authority).await;
    let local = SocketAddr::new(reachable(address.ip()), address.port());
    let public = published(&config, local);
    let jwks_uri = match config.jwks_uri.as_str() {
        "" => format!("https://{public}/openid/v1/jwks"),
        given => given.to_string(),
    };
    let streams = config.proxying.streams.clone();
    let metrics = metrics(&config, &engine, &folder, &aggregation);
    let flow = flow::start(&config, &engine, &metrics, &health);
    let Emulation { minor, min_compatibility_minor, .. } = config.emulation;
    version::emulate(version::Emulation { minor, min_compatibility_minor });
    let context = Arc::new(ServerContext {
        api: Arc::clone(&api),
        authenticator: authenticator.clone(),
        authorizer,
        health: Arc::clone(&health),
        metrics: Arc::new(metrics),
        openid: OpenId::new(config.issuers.first().map_or("", String::as_str), &jwks_uri, signing.keys),
        git_version: config.git_version.clone(),
        git_commit: env!("PINTLE_GIT_COMMIT"),
        address: OnceLock::from(public.clone()),
        cbor: config.gate("CBORServingAndStorage"),
        compression: config.gate("APIResponseCompression"),
        strict_transport: config.strict_transport.clone(),
        impersonation: Impersonation::new(config.gate("ConstrainedImpersonation")),
        request_timeout: config.request_timeout,
        offload: Offload::default(),
        closes_unauthenticated_http2: config.gate("UnauthenticatedHTTP2DOSMitigation"),
        aggregation,
        peers: peers.map(PeerProxy::new),
        knows_peers: config.gate(upkeep::PEER_PROXY),
        streams,
        auditor: auditor.clone(),
        cors: operation.cors.clone(),
        lifecycle: Arc::default(),
        pages: operation.pages(&config),
        serves_logs: operation.serves_logs,
        profiler: operation.profiling.then(|| Arc::new(Profiles) as Arc<dyn Profiler>),
        tracer: operation.tracing.clone().map(|settings| {
            let name = ("service.name", "apiserver".to_string());
            let instance = ("service.instance.id", format!("{address}"));
            pintle_trace::Exporter::start(settings, vec![name, instance])
        }),
        goaway_chance: operation.goaway_chance,
        flow,
        turns: Arc::default(),
        console: config.console.then(Console::default),
    });
    let server_config = ServerConfig {
        tls: tls.clone(),
        streams_max: config.streams_max,
        connections_max: descriptors::connections_max(),
        drain_timeout: Operation::drain_timeout(config.request_timeout),
        watch_linger: operation.watch_linger(config.shutdown_delay),
        sends_retry_after: operation.sends_retry_after,
    };
    let server = Server::new(listener, server_config, context);
    if let Some(socket) = operation.debug_socket.clone() {
        // The task ends with the runtime. As in kube-apiserver, a socket that cannot be served does not stop the
        // server.
        tokio::spawn(async move {
            if let Err(why) = debug_socket::serve(&socket, Arc::new(Profiles)).await {
                tracing::error!("{why}");
            }
        });
    }

    // A server that listens only on loopback is not reachable at the advertised address.
    let url = format!("https://{}", if address.ip().is_loopback() { local.to_string() } else { public });
    let kubeconfig = Kubeconfig {
        server: &url,
        user: "admin",
        authority: &serving_authority,
        certificate: &admin.certificate,
        key: &admin.key,
    };
    folder.write("admin.kubeconfig", kubeconfig.render().as_bytes())?;
    let reload = Reload {
        config: config.clone(),
        operation: operation.clone(),
        folder: folder.clone(),
        authority: authority.clone(),
        authenticator,
        certificates,
        tls,
        authentication,
        url: url.clone(),
        admin: admin.certificate.clone(),
    };
    tokio::spawn(reload.run(engine.clone()));
    health.set_ready();
    folder.write("port", address.port().to_string().as_bytes())?;
    if folder.exists() {
        print_welcome(&url, &folder, &config, began);
    }
    tracing::info!(v = 0, "Serving securely on {address}");

    let stop = async {
        signals.next().await;
        tracing::info!("stopping");
        health.set_stopping();
        tokio::spawn(async move {
            signals.next().await;
            std::process::exit(130);
        });
        // Other servers take over from now on while requests are still answered.
        tokio::join!(upkeep.end(), tokio::time::sleep(config.shutdown_delay));
        if operation.ends_watches_first {
            engine.storage().cache().shutdown();
        }
    };
    server.run(stop, || engine.storage().cache().shutdown()).await;
    if let Some(auditor) = auditor {
        auditor.close().await;
    }
    engine.storage().store().close().await;
    Ok(())
}

/// The connections that may wait until they are accepted.
const BACKLOG: u32 = 1024;

/// Listens on an address. Unlike in kube-apiserver, `--permit-address-sharing` is not needed to listen again at once.
fn listen(address: SocketAddr, shares_port: bool) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(shares_port)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// Adds the health checks of the store, of encryption and of stored objects.
fn add_checks(
    health: &Health,
    config: &Config,
    engine: &Arc<Engine>,
    stores: &[Arc<dyn Store>],
    encryption: &Arc<Encryption>,
) {
    match &config.etcd {
        Some(etcd) => etcd.add_checks(stores, health),
        None => {
            for check in ["etcd", "etcd-readiness"] {
                let store = engine.storage().store().clone();
                // The text before the reason is kube-apiserver's, because monitoring searches for it.
                let run =
                    move || store.health().map_err(|fault| format!("error getting data from etcd: {fault}"));
                health.set_check(check, Scope::Everywhere, "", run);
            }
        }
    }
    if encryption.has_kms() || config.encryption.reload {
        let separate = if config.encryption.reload { 0 } else { encryption.separate_kms_checks() };
        let numbers = (0..separate).rev().map(|number| (format!("kms-provider-{number}"), Some(number)));
        let whole = (separate == 0).then(|| ("kms-providers".to_string(), None));
        for (name, number) in numbers.chain(whole) {
            let encryption = encryption.clone();
            health.set_slow_check(&name, Scope::ExceptLiveness, "etcd-readiness", move || {
                let encryption = encryption.clone();
                let check = tokio::task::spawn_blocking(move || encryption.check_kms(number));
                Box::pin(async move { check.await.unwrap_or_else(|error| Err(error.to_string())) })
            });
        }
    }
    if config.encryption.reload {
        // The file is followed from the start, so the hook is finished at once.
        let check = "poststarthook/start-encryption-provider-config-automatic-reload";
        health.set_check(check, Scope::Everywhere, "", || Ok(()));
    }
    if config.proxying.aggregation.client_certificate.is_some() {
        // The files are already followed, so the hook has finished.
        let (check, after) = (
            "poststarthook/aggregator-reload-proxy-client-cert",
            "poststarthook/start-kubernetes-service-cidr-controller",
        );
        health.set_check(check, Scope::Everywhere, after, || Ok(()));
    }
    if config.gate(upkeep::ELECTIONS) {
        let (check, after) = (
            "poststarthook/start-kube-apiserver-coordinated-leader-election-controller",
            "poststarthook/start-system-namespaces-controller",
        );
        health.set_check(check, Scope::Everywhere, after, || Ok(()));
    }
    if config.proxying.peers.is_some() && config.gate(upkeep::PEER_PROXY) {
        let mut after = "poststarthook/peer-endpoint-reconciler-controller";
        for check in [
            "poststarthook/mixed-version-proxy-handler",
            "poststarthook/local-discovery-cache-sync",
            "poststarthook/peer-discovery-workers",
        ] {
            // Peers are followed from the start; a request before the first look is answered as by a server without peers.
            health.set_check(check, Scope::Everywhere, after, || Ok(()));
            after = check;
        }
    }
    if config.gate(upkeep::STORAGE_VERSIONS) {
        // The versions are reported before the first request is answered.
        let (check, after) = (
            "poststarthook/built-in-resources-storage-version-updater",
            "poststarthook/apiservice-discovery-controller",
        );
        health.set_check(check, Scope::Everywhere, after, || Ok(()));
    }
    for check in ["poststarthook/storage-readiness", "informer-sync"] {
        let engine = engine.clone();
        health.set_check(check, Scope::Everywhere, "", move || {
            match engine.storage().has_unreadable_values() {
                true => Err("some stored values cannot be read".into()),
                false => Ok(()),
            }
        });
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

/// Prints a few lines for the user.
fn print_welcome(url: &str, folder: &DataDir, config: &Config, began: Instant) {
    let kubeconfig = folder.path().join("admin.kubeconfig");
    let data = if config.ephemeral { "in memory".to_string() } else { folder.path().display().to_string() };
    let lines = format!(
        "pintle serves the Kubernetes API at {url} (ready after {:.1} ms)\n  export KUBECONFIG={}\n  data: {data}\n",
        began.elapsed().as_secs_f64() * 1e3,
        kubeconfig.display(),
    );
    _ = std::io::stderr().write_all(lines.as_bytes());
}

/// The signals that shut the server down.
struct Signals {
    terminate: Signal,
    interrupt: Signal,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        Ok(Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_is_shared_if_both_servers_permit_it() {
        let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        for shares in [true, false] {
            let first = listen(any, shares).unwrap();
            assert_eq!(listen(first.local_addr().unwrap(), shares).is_ok(), shares);
        }
    }
}
