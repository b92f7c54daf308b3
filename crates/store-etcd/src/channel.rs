//! The connection to etcd: one at a time, to any of the endpoints, made anew whenever it breaks.

use crate::grpc::{self, CallError, Messages, code};
use crate::options::{Dial, Endpoint, Options, Stream};
use crate::tls::Tls;
use bytes::Bytes;
use h2::SendStream;
use h2::client::{self, Connection, SendRequest};
use http::Uri;
use rustls::pki_types::ServerName;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;

/// How long connecting to one endpoint may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How often the connection is asked for a sign of life, and how long that may take.
const PING_EVERY: Duration = Duration::from_secs(5);
const PING_MAX: Duration = Duration::from_secs(5);
/// Between attempts to connect: the first pause, doubled up to the last.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How much an answer may be ahead of its reader.
const WINDOW_BYTES: u32 = 16 << 20;

/// Calls of etcd's services.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Method {
    Range,
    Txn,
    Compact,
    LeaseGrant,
    Status,
    Watch,
}

impl Method {
    /// In the order of their numbers.
    const ALL: [Method; 6] =
        [Method::Range, Method::Txn, Method::Compact, Method::LeaseGrant, Method::Status, Method::Watch];

    fn path(self) -> &'static str {
        match self {
            Method::Range => "/etcdserverpb.KV/Range",
            Method::Txn => "/etcdserverpb.KV/Txn",
            Method::Compact => "/etcdserverpb.KV/Compact",
            Method::LeaseGrant => "/etcdserverpb.Lease/LeaseGrant",
            Method::Status => "/etcdserverpb.Maintenance/Status",
            Method::Watch => "/etcdserverpb.Watch/Watch",
        }
    }
}

#[derive(Clone)]
struct Live {
    sender: SendRequest<Bytes>,
    /// The address of each [`Method`].
    uris: Arc<[Uri]>,
}

impl Live {
    fn uri(&self, method: Method) -> Result<Uri, CallError> {
        let uri = self.uris.get(method as usize).cloned();
        uri.ok_or_else(|| CallError::NotSent("the call has no address".into()))
    }
}

/// A handle on whatever connection there is.
pub(crate) struct Channel {
    live: watch::Receiver<Option<Live>>,
    /// Asks for another endpoint.
    rotate: Arc<Notify>,
}

impl Channel {
    /// The handle, and the task that keeps a connection alive until the handle is dropped.
    pub(crate) fn new(options: &Options) -> (Arc<Channel>, impl Future<Output = ()> + Send + 'static) {
        let (publish, live) = watch::channel(None);
        let rotate = Arc::new(Notify::new());
        let keeper = Keeper {
            endpoints: options.endpoints.clone(),
            tls: options.tls.clone(),
            dial: options.dial.clone(),
            publish,
            rotate: rotate.clone(),
        };
        (Arc::new(Channel { live, rotate }), keeper.run())
    }

    /// Makes one call as soon as there is a connection. Sends it once.
    pub(crate) async fn call(&self, method: Method, message: &Bytes) -> Result<Bytes, CallError> {
        if message.len() > grpc::REQUEST_BYTES_MAX {
            // What kube-apiserver answers when its own client refuses.
            let text = "rpc error: code = ResourceExhausted desc = trying to send message larger than max";
            let message = format!("{text} ({} vs. {})", message.len(), grpc::REQUEST_BYTES_MAX);
            return Err(CallError::Status { code: code::RESOURCE_EXHAUSTED, message });
        }
        let live = self.live().await?;
        let uri = live.uri(method)?;
        grpc::unary(live.sender, uri, message, false).await
    }

    /// Makes one call of a member that has a leader; another one answers with an error.
    pub(crate) async fn call_led(&self, method: Method, message: &Bytes) -> Result<Bytes, CallError> {
        let live = self.live().await?;
        let uri = live.uri(method)?;
        grpc::unary(live.sender, uri, message, true).await
    }

    /// Makes a call that changes nothing, again and again until etcd answers.
    pub(crate) async fn read(&self, method: Method, message: &Bytes) -> Result<Bytes, CallError> {
        let mut pause = PAUSE_MIN;
        loop {
            match self.call(method, message).await {
                Err(CallError::Status {
                    code: code::UNAVAILABLE | code::DEADLINE_EXCEEDED,
                    message: text,
                }) => {
                    tracing::debug!(?method, text, "etcd does not answer");
                    self.rotate();
                }
                Err(CallError::NotSent(_) | CallError::Lost(_)) if self.live.has_changed().is_ok() => {}
                outcome => return outcome,
            }
            sleep(pause).await;
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    /// Opens a watch.
    pub(crate) async fn watch(&self, message: &Bytes) -> Result<(SendStream<Bytes>, Messages), CallError> {
        let live = self.live().await?;
        let uri = live.uri(Method::Watch)?;
        grpc::stream(live.sender, uri, message).await
    }

    /// Says that the member behind the connection is of no use: the next one gets a try.
    pub(crate) fn rotate(&self) {
        self.rotate.notify_one();
    }

    async fn live(&self) -> Result<Live, CallError> {
        let closed = || CallError::NotSent("the store is closed".into());
        if let Some(live) = &*self.live.borrow() {
            return Ok(live.clone());
        }
        let mut live = self.live.clone();
        let live = live.wait_for(Option::is_some).await.map_err(|_| closed())?;
        live.clone().ok_or_else(closed)
    }
}

/// The address of each method, made once for all calls on a connection.
fn uris(endpoint: &Endpoint) -> Result<Arc<[Uri]>, String> {
    let scheme = if endpoint.tls { "https" } else { "http" };
    let authority = endpoint.authority();
    let uri = |method: Method| {
        let uri = Uri::builder().scheme(scheme).authority(authority.as_str());
        uri.path_and_query(method.path()).build().map_err(|error| error.to_string())
    };
    Method::ALL.into_iter().map(uri).collect()
}

/// Owns the connection.
struct Keeper {
    endpoints: Vec<Endpoint>,
    tls: Option<Tls>,
    dial: Option<Dial>,
    publish: watch::Sender<Option<Live>>,
    rotate: Arc<Notify>,
}

impl Keeper {
    async fn run(self) {
        let publish = &self.publish;
        tokio::select! {
            () = self.keep() => {}
            () = publish.closed() => {}
        }
    }

    async fn keep(&self) {
        let mut pause = PAUSE_MIN;
        for attempt in 0usize.. {
            let index = attempt.checked_rem(self.endpoints.len());
            let Some(endpoint) = index.and_then(|index| self.endpoints.get(index)) else { return };
            match timeout(CONNECT_MAX, self.connect(endpoint)).await {
                Ok(Ok((live, connection))) => {
                    tracing::debug!(endpoint = endpoint.authority(), "connected to etcd");
                    let connected = Instant::now();
                    self.publish.send_replace(Some(live));
                    self.serve(connection).await;
                    self.publish.send_replace(None);
                    // A member that does not accept the certificate ends the connection only after the handshake.
                    if connected.elapsed() > PAUSE_MAX {
                        pause = PAUSE_MIN;
                    }
                    tracing::warn!(endpoint = endpoint.authority(), "the connection to etcd is gone");
                }
                Ok(Err(why)) => {
                    tracing::warn!(endpoint = endpoint.authority(), why, "cannot connect to etcd");
                }
                Err(_) => {
                    tracing::warn!(endpoint = endpoint.authority(), "connecting to etcd takes too long")
                }
            }
            sleep(pause).await;
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    async fn connect(
        &self,
        endpoint: &Endpoint,
    ) -> Result<(Live, Connection<Box<dyn Stream>, Bytes>), String> {
        let uris = uris(endpoint)?;
        let socket = self.dial(endpoint).await?;
        let stream: Box<dyn Stream> = match (&self.tls, endpoint.tls) {
            (Some(tls), true) => {
                let name = ServerName::try_from(endpoint.host.clone()).map_err(|error| error.to_string())?;
                let tls = TlsConnector::from(tls.config());
                Box::new(tls.connect(name, socket).await.map_err(|error| error.to_string())?)
            }
            (None, true) => return Err("an https endpoint needs --etcd-cafile".to_owned()),
            (_, false) => socket,
        };
        let mut builder = client::Builder::new();
        builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES);
        builder.enable_push(false);
        let (sender, connection) = builder.handshake(stream).await.map_err(|error| error.to_string())?;
        Ok((Live { sender, uris }, connection))
    }

    async fn dial(&self, endpoint: &Endpoint) -> Result<Box<dyn Stream>, String> {
        if let Some(dial) = &self.dial {
            return dial(endpoint.host.clone(), endpoint.port).await;
        }
        let socket = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await;
        let socket = socket.map_err(|error| error.to_string())?;
        // Small requests must not wait for one another.
        socket.set_nodelay(true).map_err(|error| error.to_string())?;
        Ok(Box::new(socket))
    }

    /// Drives the connection until it breaks, shows no sign of life, or another endpoint is asked for.
    async fn serve(&self, mut connection: Connection<Box<dyn Stream>, Bytes>) {
        let mut pings = connection.ping_pong();
        let alive = async {
            let Some(pings) = &mut pings else { return std::future::pending().await };
            loop {
                sleep(PING_EVERY).await;
                match timeout(PING_MAX, pings.ping(h2::Ping::opaque())).await {
                    Ok(Ok(_)) => {}
                    Ok(Err(_)) | Err(_) => return,
                }
            }
        };
        tokio::select! {
            _ = &mut connection => {}
            () = alive => {}
            () = self.rotated() => {}
        }
    }

    async fn rotated(&self) {
        self.rotate.notified().await;
        if self.endpoints.len() < 2 {
            std::future::pending::<()>().await;
        }
    }
}
