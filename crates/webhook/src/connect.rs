//! Connections to webhooks: opened with the caller's CAs, and pooled while idle.

use crate::{Fault, counts, go_error_text};
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use pintle_proxy::{Dialer, TlsOptions, Trust, tls};
use std::collections::HashMap;
use std::sync::Mutex;

/// The maximum number of idle connections of one webhook.
const IDLE_MAX: usize = 8;
/// The maximum number of webhooks with idle connections.
const WEBHOOKS_MAX: usize = 1024;

/// A connection for requests.
pub(crate) type Connection = SendRequest<Full<Bytes>>;
/// The server name, the address and the CAs in PEM.
pub(crate) type Key = (String, (String, u16), Vec<u8>);

/// Idle connections.
#[derive(Default)]
pub(crate) struct Connections(Mutex<HashMap<Key, Vec<Connection>>>);

impl Connections {
    /// Sends a request over an idle connection, or over the one that `open` opens. An idle connection that was closed
    /// before anything was sent is replaced. The caller passes the connection to [`Connections::keep_idle`] once it has
    /// read the response.
    pub(crate) async fn send(
        &self,
        key: &Key,
        mut request: Request<Full<Bytes>>,
        open: impl Future<Output = Result<Connection, Fault>>,
    ) -> Result<(Response<Incoming>, Connection), Fault> {
        if let Some(mut idle) = self.take(key)
            && idle.ready().await.is_ok()
        {
            match idle.try_send_request(request).await {
                Ok(response) => return Ok((response, idle)),
                Err(mut error) => match error.take_message() {
                    Some(unsent) => request = unsent,
                    None => return Err(Fault::Unreachable(go_error_text(error.error()))),
                },
            }
        }
        let mut fresh = open.await?;
        match fresh.send_request(request).await {
            Ok(response) => Ok((response, fresh)),
            Err(error) => Err(Fault::Unreachable(go_error_text(&error))),
        }
    }

    fn take(&self, key: &Key) -> Option<Connection> {
        self.0.lock().ok()?.get_mut(key)?.pop().filter(|connection| !connection.is_closed())
    }

    pub(crate) fn keep_idle(&self, key: Key, connection: Connection) {
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

/// Opens a connection to `place`, which must have a certificate for `name`; `certificate` is our own certificate with
/// its key. The error has Go's text.
pub(crate) async fn open(
    dialer: &Dialer,
    (host, port): &(String, u16),
    name: &str,
    ca_bundle: &[u8],
    certificate: Option<(Vec<u8>, Vec<u8>)>,
) -> Result<Connection, Fault> {
    let identity = certificate.map(|(certificate, key)| tls::Identity::from_pem(&certificate, &key));
    let identity = identity.transpose().map_err(Fault::Unusable)?;
    let options = TlsOptions::new(Trust::Bundle(ca_bundle), Some(name.to_string()), identity);
    let options = options.map_err(Fault::Unusable)?;
    connect(dialer, host, *port, name, &options).await.map_err(|why| {
        counts::connection_failed(&why);
        Fault::Unreachable(why)
    })
}

/// Opens a connection to a host that must have a certificate for `name`, unless `options` has another name.
pub(crate) async fn connect(
    dialer: &Dialer,
    host: &str,
    port: u16,
    name: &str,
    options: &TlsOptions,
) -> Result<Connection, String> {
    let stream = dialer.dial(host, port, &[]).await?;
    let stream = tls::connect(stream, options, name).await?;
    let (sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    // The task ends with the connection: when the webhook closes it, or when the sender is dropped.
    tokio::spawn(connection);
    Ok(sender)
}
