//! Connections to webhooks: opened with the caller's authorities, kept while they are idle.

use crate::{Fault, verify};
use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::{Arc, Mutex};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

/// Idle connections kept for one webhook.
const IDLE_MAX: usize = 8;
/// Webhooks that connections are kept for.
const WEBHOOKS_MAX: usize = 1024;

/// A connection that a request can be sent over.
pub(crate) type Connection = SendRequest<Full<Bytes>>;
/// Name, place and authorities.
pub(crate) type Key = (String, (String, u16), Vec<u8>);

/// Idle connections.
#[derive(Default)]
pub(crate) struct Connections(Mutex<HashMap<Key, Vec<Connection>>>);

impl Connections {
    pub(crate) fn take(&self, key: &Key) -> Option<Connection> {
        self.0.lock().ok()?.get_mut(key)?.pop().filter(|connection| !connection.is_closed())
    }

    pub(crate) fn keep(&self, key: Key, connection: Connection) {
        let Ok(mut all) = self.0.lock() else { return };
        if all.len() >= WEBHOOKS_MAX && !all.contains_key(&key) {
            all.clear();
        }
        let idle = all.entry(key).or_default();
        idle.retain(|connection| !connection.is_closed());
        if idle.len() < IDLE_MAX {
            idle.push(connection);
        }
    }
}

/// Opens a connection to `place` whose certificate is for `name`. The error is in Go's words.
pub(crate) async fn open(
    (host, port): &(String, u16),
    name: &str,
    ca_bundle: &[u8],
) -> Result<Connection, Fault> {
    let config = verify::config(ca_bundle).map_err(Fault::Unusable)?;
    connect(host, *port, name, config).await.map_err(Fault::Unreachable)
}

async fn connect(host: &str, port: u16, name: &str, config: ClientConfig) -> Result<Connection, String> {
    let stream = dial(host, port).await?;
    _ = stream.set_nodelay(true);
    let server_name =
        ServerName::try_from(name.to_string()).map_err(|_| format!("tls: invalid server name \"{name}\""))?;
    let tls = TlsConnector::from(Arc::new(config))
        .connect(server_name, stream)
        .await
        .map_err(|error| verify::in_words(&error, name))?;
    let (sender, connection) =
        http1::handshake(TokioIo::new(tls)).await.map_err(|error| error.to_string())?;
    // Ends with the connection: when the webhook closes it, or when the sender is dropped.
    tokio::spawn(connection);
    Ok(sender)
}

/// Whom names are asked of, as Go's errors tell it.
fn nameserver() -> String {
    let settings = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let server = settings.lines().find_map(|line| line.strip_prefix("nameserver"));
    let Some(server) = server.map(str::trim).filter(|server| !server.is_empty()) else {
        return String::new();
    };
    match server.contains(':') {
        true => format!(" on [{server}]:53"),
        false => format!(" on {server}:53"),
    }
}

async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let shown = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
    let mut addresses = tokio::net::lookup_host((host, port))
        .await
        .map_err(|_| format!("dial tcp: lookup {host}{}: no such host", nameserver()))?
        .collect::<Vec<_>>();
    // Go's dialer prefers IPv4, too, where a name has both.
    addresses.sort_by_key(std::net::SocketAddr::is_ipv6);
    let mut why = format!("dial tcp: lookup {host}{}: no such host", nameserver());
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => return Ok(stream),
            Err(error) => {
                let cause = match error.kind() {
                    ErrorKind::ConnectionRefused => "connection refused".to_string(),
                    ErrorKind::NetworkUnreachable => "network is unreachable".to_string(),
                    ErrorKind::HostUnreachable => "no route to host".to_string(),
                    ErrorKind::TimedOut => "i/o timeout".to_string(),
                    _ => error.to_string(),
                };
                let at = if host.parse::<std::net::IpAddr>().is_ok() { &shown } else { &address.to_string() };
                why = format!("dial tcp {at}: connect: {cause}");
            }
        }
    }
    Err(why)
}
