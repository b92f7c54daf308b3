//! `pintle serve`: reads keys, connects the parts, listens, and shuts down gracefully.

mod checks;
mod context;
mod parts;

use crate::audit::AuditConfig;
use crate::config::Config;
use crate::data_dir::{DataDir, DataDirError};
use crate::flags::{FlagError, Flags};
use crate::kubeconfig::Kubeconfig;
use crate::objects::ObjectsError;
use crate::operation::{self, Operation};
use crate::pki::PkiError;
use crate::profile::Profiles;
use crate::program::Program;
use crate::reload::Reload;
use crate::shutdown::{self, StopRequest};
use crate::upkeep::Upkeep;
use crate::{config_file, descriptors, etcd_stand_in, flag_checks, idle, metric_flags, upkeep};
use context::{Addresses, server_context};
use parts::{Keys, ListenerTls, OtherServers, Parts};
use pintle_admission::SettingsError;
use pintle_auth::authn::x509::AuthorityError;
use pintle_http::debug_socket;
use pintle_http::{Server, ServerConfig};
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpSocket};

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
    match flag_checks::unknown_reconciler(flags) {
        Some(type_) => Err(ServeError::Reconciler(type_.to_string())),
        None => Ok(()),
    }
}

/// The stack for recursion over objects of the largest depth, 10,000 levels. The kernel allocates only the pages that are
/// used.
const STACK_BYTES: usize = 64 << 20;
/// How long a thread that took over from a heavy request stays without work. What it allocated and freed is returned to others only
/// when it ends, and a burst of heavy requests leaves dozens of such threads.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Runs the server until a signal.
pub(crate) fn run(flags: &Flags) -> Result<(), ServeError> {
    let began = Instant::now();
    operation::start_log(flags)?;
    flag_checks::check(flags)?;
    // kube-apiserver looks at TLS and traces before it reads files of users and rights.
    let operation = Arc::new(Operation::new(flags)?);
    let config = Config::new(flags)?;
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
    let input = config.stops_with_stdin.then(std::io::stdin);
    let stop_limit = shutdown::stop_limit(&config, &operation);
    let stop = StopRequest::listen(stop_limit, input).map_err(ServeError::Runtime)?;
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_stack_size(STACK_BYTES)
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .enable_all()
        .build()
        .map_err(ServeError::Runtime)?;
    // This runs on a thread of the runtime, because objects that are read at start may be as deep as those of
    // requests.
    let served = runtime.block_on(async {
        tokio::spawn(serve(config, operation, audit, stop, began)).await.map_err(ServeError::Ended)?
    });
    shutdown::end(runtime);
    served
}

/// Starts the parts of the server one after the other, answers requests until a signal, and stops them.
async fn serve(
    mut config: Config,
    operation: Arc<Operation>,
    audit: AuditConfig,
    mut stop: StopRequest,
    began: Instant,
) -> Result<(), ServeError> {
    let auditor = audit.open()?;
    // Listen first, to report an occupied port before the data is changed.
    let listener = listen(config.bind, config.shares_port).map_err(|e| ServeError::Listen(config.bind, e))?;
    // With port 0, the system has chosen one.
    config.bind = listener.local_addr().map_err(|e| ServeError::Listen(config.bind, e))?;
    // The server can also be stopped while it waits for its signer or for etcd.
    tokio::select! {
        () = choose_store(&mut config) => {}
        () = stop.wait() => return Ok(()),
    }
    let config = Arc::new(config);
    let keys = Keys::load(&config)?;
    pintle_metrics::set_server_id_hash(config_file::hash(upkeep::own_name().as_bytes()));
    let parts = tokio::select! {
        parts = Parts::open(&config, &keys) => parts?,
        () = stop.wait() => return Ok(()),
    };
    let tls = ListenerTls::new(&config, &operation, &keys, &parts.authenticator)?;

    let engine = Arc::clone(&parts.objects.engine);
    parts.start_tasks(&config);
    let others = OtherServers::start(&config, &engine);
    let upkeep = Upkeep::start(&engine, &config, config.bind, &keys.serving_authority).await;
    let addresses = Addresses::new(&config);
    let (authenticator, health) = (Arc::clone(&parts.authenticator), Arc::clone(&parts.health));
    let token_keys = parts.signing.keys.clone();
    let context =
        server_context(&config, &operation, &keys.folder, parts, &others, &addresses, auditor.clone());
    let server = Server::new(listener, server_config(&config, &operation, &tls), Arc::new(context));
    if let Some(socket) = operation.debug_socket.clone() {
        // The task ends with the runtime.
        tokio::spawn(serve_debug_socket(socket));
    }

    let url = addresses.admin_url();
    write_kubeconfig(&keys, &url)?;
    let reload = Reload {
        config: config.clone(),
        operation: operation.clone(),
        folder: keys.folder.clone(),
        authority: keys.authority.clone(),
        authenticator,
        certificates: tls.certificates,
        tls: tls.config,
        authentication: others.authentication,
        url: url.clone(),
        admin: keys.admin.certificate.clone(),
    };
    tokio::spawn(reload.run(engine.clone()));
    tokio::spawn(idle::release_program_when_idle());
    health.set_ready();
    keys.folder.write("port", addresses.bound.port().to_string().as_bytes())?;
    if keys.folder.exists() {
        print_welcome(&url, &keys.folder, &config, began);
    }
    tracing::info!(v = 0, "Serving securely on {}", addresses.bound);
    // Not earlier, because it would take a processor away from the start.
    token_keys.generate_in_background();

    let stop = async {
        stop.wait().await;
        tracing::info!("stopping");
        health.set_stopping();
        // Other servers take over from now on while requests are still answered.
        tokio::join!(upkeep.end(), tokio::time::sleep(config.shutdown_delay));
        if operation.ends_watches_first {
            engine.storage().cache().shutdown();
        }
    };
    server.run(stop, || engine.storage().cache().shutdown()).await;
    // An audit backend that does not answer must not prevent that the store is closed.
    let close_auditor = async {
        if let Some(auditor) = auditor {
            auditor.close().await;
        }
    };
    tokio::join!(engine.storage().store().close(), close_auditor);
    Ok(())
}

/// Keeps all data in memory if `--etcd-servers` names Pintle's stand-in for etcd.
async fn choose_store(config: &mut Config) {
    if let Some(etcd) = &config.etcd
        && etcd_stand_in::is_at(etcd).await
    {
        tracing::info!(v = 0, "--etcd-servers names Pintle's stand-in for etcd: all data is kept in memory");
        config.keep_in_memory();
    } else if config.program == Program::KubeApiserver && config.etcd.is_none() && config.ephemeral {
        tracing::warn!("without --etcd-servers and --data-dir all data is kept in memory");
    }
}

fn server_config(config: &Config, operation: &Operation, tls: &ListenerTls) -> ServerConfig {
    ServerConfig {
        tls: tls.config.clone(),
        streams_max: config.streams_max,
        connections_max: descriptors::connections_max(),
        drain_timeout: Operation::drain_timeout(config.request_timeout),
        watch_linger: operation.watch_linger(config.shutdown_delay),
        sends_retry_after: operation.sends_retry_after,
    }
}

/// As in kube-apiserver, a socket that cannot be served does not stop the server.
async fn serve_debug_socket(socket: PathBuf) {
    if let Err(why) = debug_socket::serve(&socket, Arc::new(Profiles)).await {
        tracing::error!("{why}");
    }
}

/// Writes the administrator's kubeconfig to the data folder.
fn write_kubeconfig(keys: &Keys, url: &str) -> Result<(), ServeError> {
    let kubeconfig = Kubeconfig {
        server: url,
        user: "admin",
        authority: &keys.serving_authority,
        certificate: &keys.admin.certificate,
        key: &keys.admin.key,
    };
    keys.folder.write("admin.kubeconfig", kubeconfig.render().as_bytes())?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[tokio::test]
    async fn a_port_is_shared_if_both_servers_permit_it() {
        let any = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0);
        for shares in [true, false] {
            let first = listen(any, shares).unwrap();
            assert_eq!(listen(first.local_addr().unwrap(), shares).is_ok(), shares);
        }
    }
}
