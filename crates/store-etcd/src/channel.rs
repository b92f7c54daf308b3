//! The connection to etcd: one at a time, to any of the endpoints, reopened whenever it breaks.
//!
//! Reads are repeated, writes never. If a member becomes unusable, reads and the watch move to the next one, but
//! writes in flight keep the old connection until they are answered: closing it would leave their outcomes unknown.

use crate::grpc::{self, CallError, code};
use crate::http2::{self, Connection, Driver, Handler};
use crate::options::{Dial, Endpoint, Options, Stream};
use crate::tls::Tls;
use bytes::Bytes;
use rustls::pki_types::ServerName;
use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::io::split;
use tokio::net::TcpStream;
use tokio::sync::{Notify, mpsc, watch};
use tokio::time::{Instant, sleep, timeout};
use tokio_rustls::TlsConnector;

/// How long connecting to one endpoint may take.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// The interval of keep-alive pings, which must be answered within the same time. By default etcd ends connections
/// that ping more often than every five seconds.
const PING_EVERY: Duration = Duration::from_millis(5_100);
/// The first pause between attempts to connect; it doubles up to the last one.
const PAUSE_MIN: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(1);
/// How long writes may keep a connection that was replaced. etcd itself gives up after seven seconds.
const RETIRED_MAX: Duration = Duration::from_secs(10);
/// The error of a member for reads that began under the previous leader. The next read succeeds there.
const LEADER_CHANGED: &str = "etcdserver: leader changed";

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
    /// All methods, in the order of their numbers.
    const ALL: [Method; 6] =
        [Method::Range, Method::Txn, Method::Compact, Method::LeaseGrant, Method::Status, Method::Watch];

    /// Whether the call may be sent again if its answer is lost.
    fn is_repeatable(self) -> bool {
        match self {
            Method::Range | Method::Status | Method::Watch => true,
            Method::Txn | Method::Compact | Method::LeaseGrant => false,
        }
    }

    fn method_path(self) -> &'static str {
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
    connection: Arc<Connection>,
    headers: Arc<[Headers]>,
}

/// The headers of the requests of a [`Method`], by whether the member must have a leader.
struct Headers {
    any: Bytes,
    led: Bytes,
}

impl Live {
    fn headers(&self, method: Method) -> Result<&Headers, CallError> {
        let headers = self.headers.get(method as usize);
        headers.ok_or_else(|| CallError::NotSent("the call has no address".into()))
    }
}

/// A handle on the current connection.
pub(crate) struct Channel {
    live: watch::Receiver<Option<Live>>,
    /// Requests another endpoint.
    rotate: Arc<Notify>,
}

impl Channel {
    /// The handle, and the task that keeps a connection alive until the handle is dropped.
    pub(crate) fn new(options: &Options) -> (Arc<Channel>, impl Future<Output = ()> + Send + 'static) {
        let (publish, live) = watch::channel(None);
        let rotate = Arc::new(Notify::new());
        let keeper = ConnectionOwner {
            endpoints: options.endpoints.clone(),
            tls: options.tls.clone(),
            dial: options.dial.clone(),
            publish,
            rotate: rotate.clone(),
        };
        (Arc::new(Channel { live, rotate }), keeper.run())
    }

    /// Makes one call once there is a connection. The request is sent once.
    pub(crate) async fn call(&self, method: Method, message: &Bytes) -> Result<Bytes, CallError> {
        if message.len() > grpc::REQUEST_BYTES_MAX {
            // kube-apiserver returns this error when its own client refuses a request.
            let text = "rpc error: code = ResourceExhausted desc = trying to send message larger than max";
            let message = format!("{text} ({} vs. {})", message.len(), grpc::REQUEST_BYTES_MAX);
            return Err(CallError::Status { code: code::RESOURCE_EXHAUSTED, message });
        }
        let live = self.live_connection().await?;
        live.connection.unary(&live.headers(method)?.any, message, method.is_repeatable()).await
    }

    /// Makes one call of a member that has a leader; another one answers with an error.
    pub(crate) async fn call_led(&self, method: Method, message: &Bytes) -> Result<Bytes, CallError> {
        let live = self.live_connection().await?;
        live.connection.unary(&live.headers(method)?.led, message, method.is_repeatable()).await
    }

    /// Makes a read-only call, and repeats it until etcd answers.
    pub(crate) async fn read(&self, method: Method, message: &Bytes) -> Result<Bytes, CallError> {
        let mut pause = PAUSE_MIN;
        loop {
            match self.call(method, message).await {
                Err(CallError::Status { message: text, .. }) if text == LEADER_CHANGED => {}
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

    /// Opens a watch on a member that has a leader, and passes its messages to `handler` until the handler breaks or
    /// the watch ends.
    pub(crate) async fn watch(&self, message: &Bytes, handler: Handler) -> Result<(), CallError> {
        let live = self.live_connection().await?;
        live.connection.stream(&live.headers(Method::Watch)?.led, message, handler).await
    }

    /// Marks the member of the current connection as unusable: the next member is tried.
    pub(crate) fn rotate(&self) {
        self.rotate.notify_one();
    }

    async fn live_connection(&self) -> Result<Live, CallError> {
        let closed = || CallError::NotSent("the store is closed".into());
        if let Some(live) = &*self.live.borrow() {
            return Ok(live.clone());
        }
        let mut live = self.live.clone();
        let live = live.wait_for(Option::is_some).await.map_err(|_| closed())?;
        live.clone().ok_or_else(closed)
    }
}

/// The headers of each method, encoded once for all calls on a connection.
fn headers(endpoint: &Endpoint) -> Arc<[Headers]> {
    let authority = endpoint.authority();
    let encode =
        |method: Method, led| http2::request_headers(endpoint.tls, &authority, method.method_path(), led);
    let all = Method::ALL.into_iter();
    all.map(|method| Headers { any: encode(method, false), led: encode(method, true) }).collect()
}

/// Owns the connection. The drivers of connections run in its task and share its waker.
struct ConnectionOwner {
    endpoints: Vec<Endpoint>,
    tls: Option<Tls>,
    dial: Option<Dial>,
    publish: watch::Sender<Option<Live>>,
    rotate: Arc<Notify>,
}

impl ConnectionOwner {
    async fn run(self) {
        let publish = &self.publish;
        let (retire, retired) = mpsc::channel(1);
        tokio::select! {
            () = self.keep_connected(retire) => {}
            () = drive_retired(retired) => {}
            () = publish.closed() => {}
        }
    }

    async fn keep_connected(&self, retire: mpsc::Sender<Running>) {
        let mut pause = PAUSE_MIN;
        for attempt in 0usize.. {
            let index = attempt.checked_rem(self.endpoints.len());
            let Some(endpoint) = index.and_then(|index| self.endpoints.get(index)) else { return };
            match timeout(CONNECT_MAX, self.connect(endpoint)).await {
                Ok(Ok((live, driver))) => {
                    tracing::debug!(endpoint = endpoint.authority(), "connected to etcd");
                    let connected = Instant::now();
                    let connection = live.connection.clone();
                    self.publish.send_replace(Some(live));
                    let replaced = self.serve(&connection, driver).await;
                    self.publish.send_replace(None);
                    if let Some(running) = replaced {
                        connection.retire_for_another();
                        // The receiver accepts it at once and exists as long as this task.
                        let _ = retire.send(running).await;
                    }
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

    async fn connect(&self, endpoint: &Endpoint) -> Result<(Live, Driver), String> {
        // The driver runs in this task.
        let waker = poll_fn(|context| Poll::Ready(context.waker().clone())).await;
        let (connection, driver) = match (&self.tls, endpoint.tls) {
            (_, false) if self.dial.is_none() => {
                // Both directions of a socket can be used at once.
                let (reader, writer) = dial_directly(endpoint).await?.into_split();
                http2::begin(Box::new(reader), Box::new(writer), waker)
            }
            (_, false) => {
                let (reader, writer) = split(self.dial(endpoint).await?);
                http2::begin(Box::new(reader), Box::new(writer), waker)
            }
            (Some(tls), true) => {
                let name = ServerName::try_from(endpoint.host.clone()).map_err(|error| error.to_string())?;
                let socket = self.dial(endpoint).await?;
                let stream = TlsConnector::from(tls.config()).connect(name, socket).await;
                let (reader, writer) = split(stream.map_err(|error| error.to_string())?);
                http2::begin(Box::new(reader), Box::new(writer), waker)
            }
            (None, true) => return Err("an https endpoint needs --etcd-cafile".to_owned()),
        };
        Ok((Live { connection, headers: headers(endpoint) }, driver))
    }

    async fn dial(&self, endpoint: &Endpoint) -> Result<Box<dyn Stream>, String> {
        match &self.dial {
            Some(dial) => dial(endpoint.host.clone(), endpoint.port).await,
            None => Ok(Box::new(dial_directly(endpoint).await?)),
        }
    }

    /// Drives the connection until it breaks, stops answering pings, or another endpoint is requested. In the last
    /// case it returns the driver, which still works.
    async fn serve(&self, connection: &Connection, driver: Driver) -> Option<Running> {
        let silent = async {
            let mut before = None;
            while before != Some(connection.received()) {
                before = Some(connection.received());
                connection.ping();
                sleep(PING_EVERY).await;
            }
        };
        let mut running: Running = Box::pin(driver.run());
        tokio::select! {
            why = &mut running => tracing::debug!(why, "the connection to etcd ended"),
            () = silent => {}
            () = self.wait_for_rotation() => return Some(running),
        }
        None
    }

    async fn wait_for_rotation(&self) {
        self.rotate.notified().await;
        if self.endpoints.len() < 2 {
            std::future::pending::<()>().await;
        }
    }
}

/// A driver at work.
type Running = Pin<Box<dyn Future<Output = String> + Send>>;

/// Drives the most recently replaced connection until its writes are answered.
async fn drive_retired(mut retired: mpsc::Receiver<Running>) {
    let mut next = retired.recv().await;
    while let Some(running) = next {
        let mut running = pin!(timeout(RETIRED_MAX, running));
        next = tokio::select! {
            _ = &mut running => retired.recv().await,
            newer = retired.recv() => newer,
        };
    }
}

async fn dial_directly(endpoint: &Endpoint) -> Result<TcpStream, String> {
    let socket = TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await;
    let socket = socket.map_err(|error| error.to_string())?;
    // Small requests must be sent without delay.
    socket.set_nodelay(true).map_err(|error| error.to_string())?;
    Ok(socket)
}
