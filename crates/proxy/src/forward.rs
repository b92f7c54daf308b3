//! One request to a backend and its response: the reverse proxy for aggregated APIs, nodes, pods and services, like
//! kube-apiserver's `UpgradeAwareHandler`. Bodies are streamed.

use crate::connection::{BROKEN, Connection};
use crate::header;
use crate::outgoing::Outgoing;
use crate::page_body::PageBody;
use crate::rewrite::{Links, Page};
use crate::sniff::media_type;
use crate::transport::{Address, BackendBody, BoxError, RequestBody, SendError, Transport, empty_body};
use crate::upgraded::Upgraded;
use crate::url::{escape_path, join};
use bytes::{Bytes, BytesMut};
use http::header::{
    CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderMap, HeaderName, HeaderValue, LOCATION,
    TRANSFER_ENCODING, UPGRADE,
};
use http::response::Parts;
use http::{Method, Request, Response, StatusCode, Uri};
use http_body::Body as _;
use pintle_value::quote::go_quoted;
use std::future::poll_fn;
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

/// The reason why the backend did not answer a request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ForwardError {
    /// The backend could not be reached or closed the connection.
    #[error("error trying to reach service: {0}")]
    Unreachable(SendError),
    /// The request cannot be sent, or a redirect cannot be rewritten.
    #[error("Internal error occurred: {0}")]
    Invalid(String),
    /// The response cannot be passed on.
    #[error("{0}")]
    Unusable(String),
    /// An upgrade failed.
    #[error("{0}")]
    Upgrade(String),
}

/// The response of a backend to an upgrade request.
pub enum Upgrade {
    /// The backend switched protocols: the head of its response, and the connection.
    Switched(Response<()>, Box<Upgraded>),
    /// The backend rejected the upgrade with its own error.
    Refused(Response<ProxyBody>),
}

/// How much of a page is read before its head is passed on.
const PAGE_START_BYTES: usize = 1 << 20;

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
        let path = escape_path(&self.path);
        if let Some(links) = &self.links {
            set_forwarded_headers(&mut self.headers, links, &path);
        }
        let request = self.request(path, body)?;
        let answer = transport.send(&self.to, request).await.map_err(ForwardError::Unreachable)?;
        let (mut parts, body) = answer.into_parts();
        if parts.status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(ForwardError::Unusable(unrequested_upgrade_error(&parts.headers)));
        }
        header::remove_hop_by_hop(&mut parts.headers);
        let body = self.adapt_response(&mut parts, body).await?;
        let body = with_media_type(&mut parts, body, &self.method).await;
        Ok(Response::from_parts(parts, body))
    }

    /// Adapts the head of a response and returns the body to pass on.
    async fn adapt_response(&self, parts: &mut Parts, body: BackendBody) -> Result<ProxyBody, ForwardError> {
        let redirect = parts.headers.get(LOCATION).map(|value| header::text(value).into_owned());
        let Some(location) = redirect.filter(|location| !location.is_empty()) else {
            let Some(links) = &self.links else { return Ok(ProxyBody::Plain(body)) };
            header::remove_cross_origin(&mut parts.headers);
            return page_or_plain(&mut parts.headers, links.clone(), body, &self.method).await;
        };
        if let Some(links) = &self.links {
            let link = links.rewrite(&location);
            let link = link.and_then(|link| HeaderValue::from_str(&link).map_err(|error| error.to_string()));
            let bad = |why| ForwardError::Invalid(format!("error trying to parse Location header: {why}"));
            parts.headers.insert(LOCATION, link.map_err(bad)?);
        }
        if self.rejects_redirects && parts.status.is_redirection() {
            let (refused, text) = refused_redirect().into_parts();
            *parts = refused;
            return Ok(text);
        }
        header::remove_cross_origin(&mut parts.headers);
        Ok(ProxyBody::Plain(body))
    }

    /// Sends an upgrade request to the backend, on a new connection.
    pub async fn upgrade(mut self, transport: &Transport) -> Result<Upgrade, ForwardError> {
        // The announced body is not sent: otherwise the backend would read the first bytes of the tunnel as the body.
        self.headers.remove(CONTENT_LENGTH);
        self.headers.remove(TRANSFER_ENCODING);
        header::append_forwarded_for(&mut self.headers, self.client);
        let request = self.request(escape_path(&self.path), empty_body())?;
        let stream = transport
            .connect_to_upgrade(&self.to)
            .await
            .map_err(|why| ForwardError::Upgrade(format!("error dialing backend: {why}")))?;
        let mut connection = Connection::for_upgrade(stream);
        let has_body = self.method != Method::HEAD;
        let answer = connection.send(Box::new(Outgoing::new(request)), has_body).await;
        let head = answer.map_err(|error| {
            let why = error.why.strip_prefix(BROKEN).unwrap_or(&error.why);
            ForwardError::Upgrade(if why == "EOF" { "unexpected EOF" } else { why }.to_string())
        })?;
        if head.status == StatusCode::SWITCHING_PROTOCOLS {
            return Ok(Upgrade::Switched(head.into_response(()), Box::new(connection.into_upgraded())));
        }
        if head.status.as_u16() < 400 {
            let why = format!("invalid upgrade response: status code {}", head.status.as_u16());
            return Err(ForwardError::Upgrade(why));
        }
        let mut response = head.into_response(ProxyBody::Plain(BackendBody::unpooled(connection)));
        header::remove_hop_by_hop(response.headers_mut());
        Ok(Upgrade::Refused(response))
    }

    /// The request for the backend. `target` is the escaped path.
    fn request(
        &mut self,
        mut target: String,
        body: RequestBody,
    ) -> Result<Request<RequestBody>, ForwardError> {
        if !target.starts_with('/') {
            target.insert(0, '/');
        }
        if !self.query.is_empty() {
            target.push('?');
            target.push_str(&self.query);
        }
        let invalid = |why: &dyn std::fmt::Display| ForwardError::Invalid(why.to_string());
        let uri = Uri::from_maybe_shared(Bytes::from(target)).map_err(|error| invalid(&error))?;
        let mut request = Request::new(body);
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri;
        *request.headers_mut() = std::mem::take(&mut self.headers);
        let host = HeaderValue::from_str(&self.host).map_err(|error| invalid(&error))?;
        request.headers_mut().insert(HOST, host);
        Ok(request)
    }
}

/// Sets the headers with the address that the client used. `path` is the escaped path at the backend.
fn set_forwarded_headers(headers: &mut HeaderMap, links: &Links, path: &str) {
    let mut uri = join(&[&links.prefix, path]);
    if path.ends_with('/') {
        // Go appends the slash even if the joined path already ends with one.
        uri.push('/');
    }
    let uri = if uri == "//" { "/" } else { &uri };
    for (name, text) in [
        (HeaderName::from_static("x-forwarded-uri"), uri),
        (HeaderName::from_static("x-forwarded-host"), &links.host),
        (HeaderName::from_static("x-forwarded-proto"), &links.scheme),
    ] {
        if let Some(value) = HeaderValue::from_str(text).ok().filter(|_| !text.is_empty()) {
            headers.insert(name, value);
        }
    }
}

fn refused_redirect() -> Response<ProxyBody> {
    let mut answer = Response::new(ProxyBody::Text(Some(Bytes::from_static(REDIRECTED.as_bytes()))));
    *answer.status_mut() = StatusCode::BAD_GATEWAY;
    // Go guesses the media type of a body without one.
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    answer
}

/// The body of a response: links in HTML pages are rewritten, everything else is passed unchanged. The beginning of a
/// page is read first, because an error there must become an error response.
async fn page_or_plain(
    headers: &mut HeaderMap,
    links: Links,
    body: BackendBody,
    method: &Method,
) -> Result<ProxyBody, ForwardError> {
    let text = |headers: &HeaderMap, name| {
        headers.get(name).map(|value| header::text(value).into_owned()).unwrap_or_default()
    };
    let media = text(headers, CONTENT_TYPE);
    if media.split(';').next().unwrap_or("").trim() != "text/html" {
        return Ok(ProxyBody::Plain(body));
    }
    let encoding = text(headers, CONTENT_ENCODING);
    let Some(page) = Page::new(links, &encoding) else { return Ok(ProxyBody::Plain(body)) };
    if *method == Method::HEAD {
        headers.remove(CONTENT_LENGTH);
        return Ok(ProxyBody::Plain(body));
    }
    headers.remove(CONTENT_LENGTH);
    let mut rest = ProxyBody::Page(Box::new(PageBody::new(body, page)));
    let mut start = BytesMut::new();
    while start.len() < PAGE_START_BYTES {
        match poll_fn(|cx| Pin::new(&mut rest).poll_chunk(cx)).await {
            Some(Ok(chunk)) => start.extend_from_slice(&chunk),
            Some(Err(error)) => return Err(ForwardError::Unusable(error.to_string())),
            None => return Ok(ProxyBody::Text(Some(start.freeze()).filter(|text| !text.is_empty()))),
        }
    }
    Ok(ProxyBody::Started(Some(start.freeze()), Box::new(rest)))
}

/// Guesses the media type of a body without one, as Go's server does.
async fn with_media_type(parts: &mut Parts, mut body: ProxyBody, method: &Method) -> ProxyBody {
    let is_encoded = parts.headers.get(CONTENT_ENCODING).is_some_and(|coding| !coding.is_empty());
    let has_no_body = *method == Method::HEAD || matches!(parts.status.as_u16(), 204 | 304);
    if parts.headers.contains_key(CONTENT_TYPE) || is_encoded || has_no_body {
        return body;
    }
    let first = match poll_fn(|cx| Pin::new(&mut body).poll_chunk(cx)).await {
        Some(Ok(first)) => first,
        // The body does not report its error again: without it, the response would look complete.
        Some(Err(error)) => return ProxyBody::Failed(Some(error)),
        None => return body,
    };
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static(media_type(&first)));
    ProxyBody::Started(Some(first), Box::new(body))
}

/// The error for a backend that switches protocols without a request to do so.
fn unrequested_upgrade_error(headers: &HeaderMap) -> String {
    let protocol = if header::is_upgrade(headers) {
        headers.get(UPGRADE).map(|value| header::text(value).into_owned()).unwrap_or_default()
    } else {
        String::new()
    };
    format!("backend tried to switch protocol {} when \"\" was requested", go_quoted(&protocol))
}

/// The body of a response for the client.
pub enum ProxyBody {
    /// Unchanged.
    Plain(BackendBody),
    /// HTML whose links are rewritten.
    Page(Box<PageBody<BackendBody>>),
    /// A text that is complete.
    Text(Option<Bytes>),
    /// A body whose beginning was read.
    Started(Option<Bytes>, Box<ProxyBody>),
    /// A body whose first read failed.
    Failed(Option<BoxError>),
}

impl ProxyBody {
    /// The next chunk; `None` at the end.
    pub fn poll_chunk(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, BoxError>>> {
        match self.get_mut() {
            ProxyBody::Plain(body) => poll_data(Pin::new(body), cx),
            ProxyBody::Text(text) => Poll::Ready(text.take().map(Ok)),
            ProxyBody::Failed(error) => Poll::Ready(error.take().map(Err)),
            ProxyBody::Started(start, rest) => match start.take() {
                Some(start) => Poll::Ready(Some(Ok(start))),
                None => Pin::new(&mut **rest).poll_chunk(cx),
            },
            ProxyBody::Page(page) => page.poll_chunk(cx),
        }
    }

    /// The number of remaining bytes, if it is known.
    pub fn remaining(&self) -> Option<u64> {
        match self {
            ProxyBody::Plain(body) => body.size_hint().exact(),
            ProxyBody::Text(text) => text.as_ref().map_or(Some(0), |text| u64::try_from(text.len()).ok()),
            ProxyBody::Started(start, rest) => {
                let read = u64::try_from(start.as_ref().map_or(0, Bytes::len)).ok()?;
                rest.remaining()?.checked_add(read)
            }
            ProxyBody::Page(..) | ProxyBody::Failed(_) => None,
        }
    }
}

/// The next bytes of a body that are not empty; `None` at the end.
pub(crate) fn poll_data<B>(
    mut body: Pin<&mut B>,
    cx: &mut Context<'_>,
) -> Poll<Option<Result<Bytes, BoxError>>>
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
