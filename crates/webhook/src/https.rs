//! `HttpsClient`: requests to servers outside the cluster, such as token webhooks and OpenID providers. One client has
//! one set of CAs and credentials, and pools its connections.

use crate::connect::{self, Connections};
use crate::{Fault, Route};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header};
use http_body_util::Full;
use pintle_proxy::{BoxError, Dialer, TlsOptions, Trust, read_whole};
use std::time::Duration;

/// A client with its own CAs and credentials.
pub struct HttpsClient {
    options: TlsOptions,
    connections: Connections,
    dialer: Dialer,
}

/// The credentials of a client, and the CAs that it trusts.
#[derive(Clone, Default)]
pub struct Identity {
    /// PEM of the CAs; if empty, those of the system.
    pub authorities: Vec<u8>,
    /// PEM of certificate and key, if the client has one.
    pub certificate: Option<(Vec<u8>, Vec<u8>)>,
    /// The name that the server's certificate must have, if it is not the host.
    pub server_name: Option<String>,
}

/// One request.
pub struct HttpsRequest<'a> {
    /// Method.
    pub method: Method,
    /// An `https` address.
    pub url: &'a str,
    /// Headers beside `Host`.
    pub headers: Vec<(HeaderName, HeaderValue)>,
    /// Body; empty for none.
    pub body: Bytes,
    /// The time-out of the whole request.
    pub timeout: Duration,
    /// The size limit of the response.
    pub answer_bytes_max: usize,
}

/// A response with any code.
#[derive(Debug)]
pub struct HttpsAnswer {
    /// Code.
    pub code: u16,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
}

impl HttpsClient {
    /// Creates a client with this identity.
    pub fn new(identity: &Identity) -> Result<Self, String> {
        let client_certificate = match &identity.certificate {
            Some((certificate, key)) => Some(pintle_proxy::tls::Identity::from_pem(certificate, key)?),
            None => None,
        };
        let options = TlsOptions::new(
            Trust::Bundle(&identity.authorities),
            identity.server_name.clone(),
            client_certificate,
        )?;
        Ok(HttpsClient { options, connections: Connections::default(), dialer: Dialer::Direct })
    }

    /// Sets how connections are opened.
    pub fn with_dialer(self, dialer: Dialer) -> Self {
        HttpsClient { dialer, ..self }
    }

    /// Sends a request and reads the response. The error is that of Go's client. Redirects are not followed.
    pub async fn send(&self, request: HttpsRequest<'_>) -> Result<HttpsAnswer, String> {
        let verb = if request.method == Method::GET { "Get" } else { "Post" };
        let (url, timeout) = (request.url.to_string(), request.timeout);
        let why = match tokio::time::timeout(timeout, self.exchange(request)).await {
            Ok(Ok(answer)) => return Ok(answer),
            Ok(Err(Fault::Unreachable(why) | Fault::Unusable(why) | Fault::Unread(why))) => why,
            Err(_) => "context deadline exceeded".to_string(),
        };
        Err(format!("{verb} \"{url}\": {why}"))
    }

    async fn exchange(&self, request: HttpsRequest<'_>) -> Result<HttpsAnswer, Fault> {
        let Some(route) = Route::of_url(request.url) else {
            let scheme = request.url.split("://").next().unwrap_or("");
            return Err(Fault::Unreachable(format!("unsupported protocol scheme \"{scheme}\"")));
        };
        let mut message = Request::builder()
            .method(request.method)
            .uri(&route.path_and_query)
            .header(header::HOST, &route.authority);
        for (name, value) in request.headers {
            message = message.header(name, value);
        }
        let message = message.body(Full::new(request.body));
        let message = message.map_err(|error| Fault::Unusable(error.to_string()))?;
        let key = (route.authority.clone(), (route.host.clone(), route.port), Vec::new());
        let open = async {
            let opened = connect::connect(&self.dialer, &route.host, route.port, &route.host, &self.options);
            opened.await.map_err(Fault::Unreachable)
        };
        let (answer, connection) = self.connections.send(&key, message, open).await?;
        let answer = read(answer, request.answer_bytes_max).await?;
        self.connections.keep_idle(key, connection);
        Ok(answer)
    }
}

async fn read<B>(answer: http::Response<B>, bytes_max: usize) -> Result<HttpsAnswer, Fault>
where
    B: hyper::body::Body<Data = Bytes, Error: Into<BoxError>>,
{
    let (parts, body) = answer.into_parts();
    let body = read_whole(body, bytes_max).await.map_err(|error| Fault::Unread(error.to_string()))?;
    Ok(HttpsAnswer { code: parts.status.as_u16(), headers: parts.headers, body })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Frame;
    use std::convert::Infallible;
    use std::pin::Pin;
    use std::sync::Arc;
    use std::task::{Context, Poll};

    /// A body that arrives in chunks of a byte, each of which holds a buffer.
    struct Dribble {
        left: usize,
        buffer: Arc<[u8; 1]>,
        buffers_held_max: Arc<std::sync::atomic::AtomicUsize>,
    }

    struct Chunk(Arc<[u8; 1]>);

    impl AsRef<[u8]> for Chunk {
        fn as_ref(&self) -> &[u8] {
            &*self.0
        }
    }

    impl hyper::body::Body for Dribble {
        type Data = Bytes;
        type Error = Infallible;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
        ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
            let held = Arc::strong_count(&self.buffer).saturating_sub(1);
            self.buffers_held_max.fetch_max(held, std::sync::atomic::Ordering::Relaxed);
            let Some(left) = self.left.checked_sub(1) else { return Poll::Ready(None) };
            self.left = left;
            Poll::Ready(Some(Ok(Frame::data(Bytes::from_owner(Chunk(self.buffer.clone()))))))
        }
    }

    #[tokio::test]
    async fn chunks_of_an_answer_are_not_held_until_its_end() {
        let buffers_held_max = Arc::default();
        let body =
            Dribble { left: 1000, buffer: Arc::new([7]), buffers_held_max: Arc::clone(&buffers_held_max) };
        let Ok(answer) = read(http::Response::new(body), 1000).await else { panic!("the answer is read") };
        assert_eq!(answer.body.len(), 1000);
        assert!(buffers_held_max.load(std::sync::atomic::Ordering::Relaxed) <= 1);
    }
}
