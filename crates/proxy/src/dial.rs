//! Opens connections: directly, through an HTTP CONNECT proxy or through a konnectivity server
//! (`--egress-selector-config-file`). Errors have the texts of Go's dialer, which clients of kube-apiserver see.

use crate::konnectivity;
use crate::tls::{self, TlsOptions};
use pintle_metrics::families;
use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

/// The longest time to open a connection.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
/// The size limit in bytes of a CONNECT proxy's answer.
const CONNECT_ANSWER_BYTES_MAX: usize = 64 * 1024;

/// A connection of any transport.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A byte stream behind a pointer.
pub type BoxStream = Box<dyn Stream>;

/// A connection that is being opened. The future is boxed, so that the code of all dialers is generated once and not
/// again for each caller.
pub type Dialing<'a> = Pin<Box<dyn Future<Output = Result<BoxStream, String>> + Send + 'a>>;

/// How connections are opened.
#[derive(Clone, Default)]
pub enum Dialer {
    /// Connects to the address itself.
    #[default]
    Direct,
    /// Connects through an HTTP CONNECT proxy.
    HttpConnect(Arc<ConnectProxy>),
    /// Connects through the konnectivity server on this unix socket.
    Konnectivity(Arc<Path>),
}

/// The dialers of `--egress-selector-config-file`: one for each selection that it has.
#[derive(Clone, Default)]
pub struct Egress {
    /// The dialer for nodes, pods and services.
    pub cluster: Option<Dialer>,
    /// The dialer for other servers of the control plane, such as webhooks at a URL.
    pub control_plane: Option<Dialer>,
    /// The dialer for etcd.
    pub etcd: Option<Dialer>,
}

impl Egress {
    /// The dialer for the cluster: direct, unless the file configures another one.
    pub fn to_cluster(&self) -> Dialer {
        self.cluster.clone().unwrap_or_default()
    }

    /// The dialer for the control plane: direct, unless the file configures another one.
    pub fn to_control_plane(&self) -> Dialer {
        self.control_plane.clone().unwrap_or_default()
    }
}

/// The address of an HTTP CONNECT proxy.
pub enum ConnectProxy {
    /// A Unix socket.
    Unix(PathBuf),
    /// A host and port, with TLS.
    Tls {
        /// Host.
        host: String,
        /// Port.
        port: u16,
        /// The trusted CAs of the proxy and our client certificate.
        options: TlsOptions,
    },
}

impl Dialer {
    /// Opens a connection. If `checked` has addresses, only these are used and the host is not looked up again; a proxy looks
    /// hosts up by itself. The error has the text of Go's dialer.
    pub fn dial<'a>(&'a self, host: &'a str, port: u16, checked: &'a [IpAddr]) -> Dialing<'a> {
        Box::pin(async move {
            let opened = async {
                match self {
                    Dialer::Direct => {
                        dial_tcp(host, port, checked).await.map(|stream| Box::new(stream) as BoxStream)
                    }
                    Dialer::HttpConnect(proxy) => proxy.dial(&host_port(host, port)).await,
                    Dialer::Konnectivity(socket) => {
                        konnectivity::dial(socket, &host_port(host, port), random_number()?).await
                    }
                }
            };
            // A konnectivity server has time limits of its own, with different errors.
            if let Dialer::Konnectivity(_) = self {
                return opened.await;
            }
            let late = || Err(format!("dial tcp {}: i/o timeout", host_port(host, port)));
            tokio::time::timeout(DIAL_TIMEOUT, opened).await.unwrap_or_else(|_| late())
        })
    }
}

impl ConnectProxy {
    async fn dial(&self, address: &str) -> Result<BoxStream, String> {
        let transport = match self {
            ConnectProxy::Unix(_) => "uds",
            ConnectProxy::Tls { .. } => "tcp",
        };
        let mut attempt = Attempt::begin("http_connect", transport);
        let (mut stream, own): (BoxStream, String) = match self {
            ConnectProxy::Unix(path) => {
                let own = path.display().to_string();
                let stream = UnixStream::connect(path)
                    .await
                    .map_err(|e| format!("dial unix {own}: connect: {}", cause_text(&e)))?;
                (Box::new(stream), own)
            }
            ConnectProxy::Tls { host, port, options } => {
                let stream: BoxStream = Box::new(dial_tcp(host, *port, &[]).await?);
                (tls::connect(stream, options, host).await?, host_port(host, *port))
            }
        };
        attempt.reached_proxy();
        tunnel(&mut stream, &own, address).await?;
        attempt.record_success();
        Ok(stream)
    }
}

/// A dial through a proxy, for metrics. One that is dropped before it succeeded counts as failed.
pub(crate) struct Attempt {
    protocol: &'static str,
    transport: &'static str,
    /// The stage of the dial: `connect` (to the proxy) or `proxy` (the proxy connects). `None` after success.
    stage: Option<&'static str>,
    began: Instant,
}

impl Attempt {
    pub(crate) fn begin(protocol: &'static str, transport: &'static str) -> Attempt {
        families::EGRESS_DIALS.inc(&[protocol, transport]);
        Attempt { protocol, transport, stage: Some("connect"), began: Instant::now() }
    }

    pub(crate) fn reached_proxy(&mut self) {
        self.stage = Some("proxy");
    }

    pub(crate) fn record_success(mut self) {
        self.stage = None;
        let seconds = self.began.elapsed().as_secs_f64();
        families::EGRESS_DIAL_SECONDS.observe(&[self.protocol, self.transport], seconds);
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(stage) = self.stage {
            families::EGRESS_DIAL_FAILURES.inc(&[self.protocol, stage, self.transport]);
        }
    }
}

/// Requests a connection to `address` from an HTTP CONNECT proxy.
async fn tunnel(stream: &mut BoxStream, proxy: &str, address: &str) -> Result<(), String> {
    let failed = |why: &str| {
        format!("reading HTTP response from CONNECT to {address} via proxy {proxy} failed: {why}")
    };
    let request = format!("CONNECT {address} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    stream.write_all(request.as_bytes()).await.map_err(|e| failed(&e.to_string()))?;
    stream.flush().await.map_err(|e| failed(&e.to_string()))?;
    let mut answer = Vec::with_capacity(256);
    // Read byte by byte: the bytes after the answer come from the backend behind the proxy.
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= CONNECT_ANSWER_BYTES_MAX {
            return Err(failed("the header is too long"));
        }
        let byte = stream.read_u8().await.map_err(|_| failed("unexpected EOF"))?;
        answer.push(byte);
    }
    let text = String::from_utf8_lossy(&answer);
    let status = text.lines().next().unwrap_or("").split_once(' ').map_or("", |(_, status)| status).trim();
    let code = status.split(' ').next().unwrap_or("");
    match code.parse::<u16>() {
        Ok(200) => Ok(()),
        Ok(code) => Err(format!("proxy error from {proxy} while dialing {address}, code {code}: {status}")),
        Err(_) => Err(failed("malformed HTTP response")),
    }
}

/// Opens a TCP connection, to the IPv4 addresses of a name first, as Go does.
async fn dial_tcp(host: &str, port: u16, checked: &[IpAddr]) -> Result<TcpStream, String> {
    let nobody = || format!("dial tcp: lookup {host}{}: no such host", nameserver());
    let mut addresses: Vec<SocketAddr> = match checked {
        [] => tokio::net::lookup_host((host, port)).await.map_err(|_| nobody())?.collect(),
        checked => checked.iter().map(|ip| SocketAddr::new(*ip, port)).collect(),
    };
    addresses.sort_by_key(SocketAddr::is_ipv6);
    let mut why = nobody();
    for address in addresses {
        match TcpStream::connect(address).await {
            Ok(stream) => {
                _ = stream.set_nodelay(true);
                return Ok(stream);
            }
            Err(error) => why = format!("dial tcp {address}: connect: {}", cause_text(&error)),
        }
    }
    Err(why)
}

/// A positive random number.
fn random_number() -> Result<i64, String> {
    let mut bytes = [0; 8];
    let random = rustls::crypto::aws_lc_rs::default_provider().secure_random;
    random.fill(&mut bytes).map_err(|_| "no random numbers")?;
    Ok(i64::from_be_bytes(bytes) & i64::MAX)
}

pub(crate) fn cause_text(error: &std::io::Error) -> String {
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".to_string(),
        ErrorKind::NetworkUnreachable => "network is unreachable".to_string(),
        ErrorKind::HostUnreachable => "no route to host".to_string(),
        ErrorKind::TimedOut => "connection timed out".to_string(),
        ErrorKind::NotFound => "no such file or directory".to_string(),
        ErrorKind::PermissionDenied => "permission denied".to_string(),
        _ => error.to_string(),
    }
}

/// The name server that Go's errors mention.
fn nameserver() -> String {
    let settings = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let server = settings.lines().find_map(|line| line.strip_prefix("nameserver")).map(str::trim);
    match server.filter(|server| !server.is_empty()) {
        Some(server) => format!(" on {}", host_port(server, 53)),
        None => String::new(),
    }
}

/// `host:port`, with brackets around addresses that have colons.
pub fn host_port(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::UnixListener;

    async fn answered(answer: &'static str) -> Result<(), String> {
        let path =
            std::env::temp_dir().join(format!("pintle-connect-{}-{}", std::process::id(), answer.len()));
        _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path).unwrap();
        let proxy = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 64];
            let size = stream.read(&mut request).await.unwrap();
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8_lossy(request.get(..size).unwrap()).into_owned()
        });
        let dialer = Dialer::HttpConnect(Arc::new(ConnectProxy::Unix(path.clone())));
        let dialed = dialer.dial("10.1.0.5", 80, &[]).await;
        assert_eq!(proxy.await.unwrap(), "CONNECT 10.1.0.5:80 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
        std::fs::remove_file(&path).unwrap();
        let own = path.display().to_string();
        dialed.map(|_| ()).map_err(|why| why.replace(&own, "PROXY"))
    }

    #[tokio::test]
    async fn an_egress_proxy_connects_or_says_why_not() {
        assert_eq!(answered("HTTP/1.1 200 OK\r\n\r\n").await, Ok(()));
        let refused = answered("HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n").await;
        let want = "proxy error from PROXY while dialing 10.1.0.5:80, code 502: 502 Bad Gateway";
        assert_eq!(refused, Err(want.to_string()));
        let cut = answered("HTTP/1.1 200").await;
        let want = "reading HTTP response from CONNECT to 10.1.0.5:80 via proxy PROXY failed: unexpected EOF";
        assert_eq!(cut, Err(want.to_string()));
    }

    #[tokio::test]
    async fn a_name_that_was_checked_is_not_looked_up_again() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let checked = ["127.0.0.1".parse().unwrap()];
        assert!(Dialer::Direct.dial("no.such.host.invalid", port, &checked).await.is_ok());
    }

    #[tokio::test]
    async fn nobody_listens() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let why = Dialer::Direct.dial("127.0.0.1", port, &[]).await.err();
        assert_eq!(why, Some(format!("dial tcp 127.0.0.1:{port}: connect: connection refused")));
    }
}
