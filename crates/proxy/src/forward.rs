//! One request to a backend and its response: the reverse proxy for aggregated APIs, nodes, pods and services, like
//! kube-apiserver's `UpgradeAwareHandler`. Bodies are streamed.

use crate::header;
use crate::rewrite::{Links, Page};
use crate::transport::{
    Address, BackendBody, BoxError, RequestBody, SendError, Transport, describe, empty_body,
};
use crate::url::{escape_path, join};
use bytes::Bytes;
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderValue, LOCATION, TRANSFER_ENCODING,
};
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::Body as _;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use std::net::IpAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// A request for a backend.
pub struct Forward {
    /// Method.
    pub method: Method,
    /// Headers, without credentials.
    pub headers: HeaderMap,
    /// The address of the backend.
    pub to: Address,
    /// The path at the backend, decoded.
    pub path: String,
    /// The query without its `?`, as it is sent.
    pub query: String,
    /// The `Host` header.
    pub host: String,
    /// The address of the client.
    pub client: Option<IpAddr>,
    /// How links and redirects in the response are rewritten; `None`: not at all, and the backend gets no forwarding
    /// headers.
    pub links: Option<Links>,
    /// Whether a redirect is rejected.
    pub rejects_redirects: bool,
}

/// Why the backend did not answer a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// The backend could not be reached or closed the connection.
    #[error("error trying to reach service: {0}")]
    Unreachable(SendError),
    /// The response cannot be passed on.
    #[error("{0}")]
    Invalid(String),
    /// An upgrade failed.
    #[error("{0}")]
    Upgrade(String),
}

/// The response of a backend to an upgrade request.
pub enum Upgrade {
    /// It switched protocols: the head of its response, and the connection.
    Switched(Response<()>, Box<Upgraded>),
    /// It rejected the upgrade with its own error.
    Refused(Response<ProxyBody>),
}

const REDIRECTED: &str = "the backend attempted to redirect this request, which is not permitted";

impl Forward {
    /// Sends the request and returns the response, whose body is still arriving.
    pub async fn send(
        mut self,
        transport: &Transport,
        body: RequestBody,
    ) -> Result<Response<ProxyBody>, ForwardError> {
        header::remove_hop_by_hop(&mut self.headers);
        header::append_forwarded_for(&mut self.headers, self.client);
        if let Some(links) = &self.links {
            tell_origin(&mut self.headers, links, &self.path);
        }
        let request = self.request(body)?;
        let answer = transport.send(&self.to, request).await.map_err(ForwardError::Unreachable)?;
        let (mut parts, body) = answer.into_parts();
        header::remove_hop_by_hop(&mut parts.headers);
        let redirect = parts.headers.get(LOCATION).map(|value| header::text(value).into_owned());
        if let Some(location) = redirect.filter(|location| !location.is_empty()) {
            if self.rejects_redirects && parts.status.is_redirection() {
                return Ok(refused_redirect());
            }
            if let Some(links) = &self.links {
                let rewritten = links.rewrite(&location).and_then(|link| HeaderValue::from_str(&link).ok());
                let bad = || ForwardError::Invalid("error trying to parse Location header".to_string());
                parts.headers.insert(LOCATION, rewritten.ok_or_else(bad)?);
            }
            header::remove_cross_origin(&mut parts.headers);
            return Ok(Response::from_parts(parts, ProxyBody::Plain(body)));
        }
        let Some(links) = self.links else { return Ok(Response::from_parts(parts, ProxyBody::Plain(body))) };
        header::remove_cross_origin(&mut parts.headers);
        let body = page_or_plain(&mut parts.headers, links, body, &self.method);
        Ok(Response::from_parts(parts, body))
    }

    /// Sends an upgrade request to the backend, on a new connection.
    pub async fn upgrade(mut self, transport: &Transport) -> Result<Upgrade, ForwardError> {
        // The announced body is not sent: the backend must not read the first bytes of the tunnel as the body.
        self.headers.remove(CONTENT_LENGTH);
        self.headers.remove(TRANSFER_ENCODING);
        header::append_forwarded_for(&mut self.headers, self.client);
        let request = self.request(empty_body())?;
        let stream = transport
            .connect(&self.to)
            .await
            .map_err(|why| ForwardError::Upgrade(format!("error dialing backend: {why}")))?;
        let broken = |error: hyper::Error| {
            let why = describe(&error);
            ForwardError::Upgrade(if why == "EOF" { "unexpected EOF".to_string() } else { why })
        };
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
        // The task ends when the connection is passed on, or with the sender.
        tokio::spawn(connection.with_upgrades());
        let mut answer = sender.send_request(request).await.map_err(broken)?;
        let code = answer.status();
        if code == StatusCode::SWITCHING_PROTOCOLS {
            let upgraded = hyper::upgrade::on(&mut answer).await.map_err(broken)?;
            return Ok(Upgrade::Switched(answer.map(|_| ()), Box::new(upgraded)));
        }
        if code.as_u16() < 400 {
            let why = format!("invalid upgrade response: status code {}", code.as_u16());
            return Err(ForwardError::Upgrade(why));
        }
        let (mut parts, incoming) = answer.into_parts();
        header::remove_hop_by_hop(&mut parts.headers);
        Ok(Upgrade::Refused(Response::from_parts(parts, ProxyBody::Refusal(incoming, sender))))
    }

    fn request(&mut self, body: RequestBody) -> Result<Request<RequestBody>, ForwardError> {
        let mut target = escape_path(&self.path);
        if !target.starts_with('/') {
            target.insert(0, '/');
        }
        if !self.query.is_empty() {
            target.push('?');
            target.push_str(&self.query);
        }
        let invalid = |why: &dyn std::fmt::Display| ForwardError::Invalid(why.to_string());
        let uri: Uri = target.parse().map_err(|error| invalid(&error))?;
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = std::mem::take(&mut self.headers);
        let host = HeaderValue::from_str(&self.host).map_err(|error| invalid(&error))?;
        request.headers_mut().insert(HOST, host);
        Ok(request)
    }
}

/// Sets the headers with the address that the client used.
fn tell_origin(headers: &mut HeaderMap, links: &Links, path: &str) {
    let mut uri = join(&[&links.prefix, &escape_path(path)]);
    if path.ends_with('/') {
        // Go appends the slash even if the joined path already ends with one.
        uri.push('/');
    }
    let uri = if uri == "//" { "/".to_string() } else { uri };
    for (name, text) in
        [("x-forwarded-uri", &uri), ("x-forwarded-host", &links.host), ("x-forwarded-proto", &links.scheme)]
    {
        if let Some(value) = HeaderValue::from_str(text).ok().filter(|_| !text.is_empty()) {
            headers.insert(name, value);
        }
    }
}

fn refused_redirect() -> Response<ProxyBody> {
    let mut answer = Response::new(ProxyBody::Text(Some(Bytes::from_static(REDIRECTED.as_bytes()))));
    *answer.status_mut() = StatusCode::BAD_GATEWAY;
    // Go guesses the type of a body that has none.
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// The body of a response: links in HTML pages are rewritten, everything else is passed unchanged.
fn page_or_plain(headers: &mut HeaderMap, links: Links, body: BackendBody, method: &Method) -> ProxyBody {
    let text = |headers: &HeaderMap, name| {
        headers.get(name).map(|value| header::text(value).into_owned()).unwrap_or_default()
    };
    let media = text(headers, CONTENT_TYPE);
    let is_html = media.split(';').next().unwrap_or("").trim() == "text/html";
    if !is_html || *method == Method::HEAD {
        return ProxyBody::Plain(body);
    }
    match Page::new(links, &text(headers, CONTENT_ENCODING)) {
        Some(page) => {
            headers.remove(CONTENT_LENGTH);
            ProxyBody::Page(body, Some(Box::new(page)))
        }
        None => ProxyBody::Plain(body),
    }
}

/// The body of a response for the client.
pub enum ProxyBody {
    /// Unchanged.
    Plain(BackendBody),
    /// HTML whose links are rewritten.
    Page(BackendBody, Option<Box<Page>>),
    /// A text of this server.
    Text(Option<Bytes>),
    /// The body of a backend that rejected an upgrade, and its connection.
    Refusal(hyper::body::Incoming, http1::SendRequest<RequestBody>),
}

impl ProxyBody {
    /// The next chunk; `None` at the end.
    pub fn poll_chunk(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        match self.get_mut() {
            ProxyBody::Plain(body) => poll_data(Pin::new(body), cx),
            ProxyBody::Refusal(body, _) => poll_data(Pin::new(body), cx),
            ProxyBody::Text(text) => Poll::Ready(text.take().map(Ok)),
            ProxyBody::Page(body, page) => loop {
                let Some(rewriter) = page.as_mut() else { return Poll::Ready(None) };
                let made = match ready!(poll_data(Pin::new(body), cx)) {
                    Some(Ok(piece)) => rewriter.push(&piece),
                    Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                    None => match page.take() {
                        Some(rewriter) => rewriter.finish(),
                        None => return Poll::Ready(None),
                    },
                };
                match made {
                    Ok(piece) if piece.is_empty() && page.is_some() => {}
                    Ok(piece) if piece.is_empty() => return Poll::Ready(None),
                    Ok(piece) => return Poll::Ready(Some(Ok(piece))),
                    Err(error) => return Poll::Ready(Some(Err(error.into()))),
                }
            },
        }
    }

    /// The number of remaining bytes, if it is known.
    pub fn remaining(&self) -> Option<u64> {
        match self {
            ProxyBody::Plain(body) => body.size_hint().exact(),
            ProxyBody::Refusal(body, _) => body.size_hint().exact(),
            ProxyBody::Text(text) => text.as_ref().map_or(Some(0), |text| u64::try_from(text.len()).ok()),
            ProxyBody::Page(..) => None,
        }
    }
}

fn poll_data<B>(mut body: Pin<&mut B>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    loop {
        match ready!(body.as_mut().poll_frame(cx)) {
            Some(Ok(frame)) => match frame.into_data() {
                Ok(data) if data.is_empty() => {}
                Ok(data) => return Poll::Ready(Some(Ok(data))),
                // Trailers: clients of the API do not read them.
                Err(_) => {}
            },
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        }
    }
}
