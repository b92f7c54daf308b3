//! Calls to webhooks: one POST over HTTPS to the endpoint of a clientConfig, with the errors of kube-apiserver's client.
//! Knows nothing about the content of requests and responses.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod budget;
mod connect;
mod counts;
mod credentials;
mod https;
mod kubeconfig;
mod route;

pub use credentials::Credentials;
pub use https::{HttpsAnswer, HttpsClient, HttpsRequest, Identity};
pub use kubeconfig::{
    Kubeconfig, ReviewClient, ReviewError, read_file as read_kubeconfig, validate as validate_kubeconfig,
};
pub use pintle_proxy::{CertificateFlaw, Dialer, Egress};

use budget::ResponseBudget;
use bytes::Bytes;
use connect::Connections;
use counts::CountedCall;
use credentials::User;
use http::{Method, Request, Response, header};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use pintle_kinds::endpoint::{Endpoint, Place};
use pintle_meta::{GroupResource, Status};
use pintle_value::json;
use route::Route;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// The size limit of a response.
const ANSWER_BYTES_MAX: usize = 128 << 20;
/// The error if responses of webhooks take too much memory.
const NO_MEMORY: &str = "responses of webhooks take too much memory";
/// The maximum number of bytes of an error response that is quoted.
const REFUSAL_BYTES_MAX: usize = 2048;
/// The maximum number of redirects of a call.
const REDIRECTS_MAX: usize = 10;

/// Resolves services to addresses.
pub trait Services: Send + Sync {
    /// Host and port of a service's port. The error is returned to clients.
    fn locate(&self, namespace: &str, name: &str, port: u16) -> Result<(String, u16), String>;
}

/// Why a call has no response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The configuration of the webhook is incomplete.
    #[error("{0}")]
    Unusable(String),
    /// The webhook could not be reached.
    #[error("{method} \"{url}\": {why}")]
    Unreachable {
        /// The method: `Post`, or `Get` after a redirect.
        method: &'static str,
        /// The URL.
        url: String,
        /// The reason.
        why: String,
    },
    /// The call timed out.
    #[error("{method} \"{url}\": context deadline exceeded")]
    Late {
        /// The method.
        method: &'static str,
        /// The URL.
        url: String,
    },
    /// The webhook returned an error.
    #[error("{why}")]
    Refused {
        /// The code of the error; 0 if the response is not an error but unusable.
        code: u16,
        /// The message.
        why: String,
    },
}

/// The pending response of a call.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Bytes, CallError>> + Send + 'a>>;

/// How long a call may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeout {
    /// The time after which the caller stops waiting.
    pub limit: Duration,
    /// The parameter `timeout` of the call: how many seconds the webhook has.
    pub parameter_seconds: u64,
}

impl From<Duration> for Timeout {
    fn from(limit: Duration) -> Self {
        Timeout { limit, parameter_seconds: limit.as_secs() }
    }
}

/// Calls webhooks.
pub trait Caller: Send + Sync {
    /// Posts JSON and waits for the response, no longer than the limit of `timeout`.
    fn call<'a>(
        &'a self,
        services: &'a dyn Services,
        endpoint: &'a Endpoint,
        body: Bytes,
        timeout: Timeout,
    ) -> Answer<'a>;
}

/// Calls webhooks over the network. Connections are pooled.
#[derive(Default)]
pub struct Client {
    connections: Connections,
    credentials: Credentials,
    egress: Egress,
    budget: ResponseBudget,
}

impl Client {
    /// Creates a client that sends `credentials` to the webhooks they are for. Services are reached through the cluster's
    /// egress, URLs through that of the control plane.
    pub fn new(credentials: Credentials, egress: Egress) -> Self {
        Client { credentials, egress, ..Client::default() }
    }
}

impl Caller for Client {
    fn call<'a>(
        &'a self,
        services: &'a dyn Services,
        endpoint: &'a Endpoint,
        body: Bytes,
        timeout: Timeout,
    ) -> Answer<'a> {
        Box::pin(async move {
            let mut hop = Hop {
                route: Route::new(endpoint, timeout.parameter_seconds),
                method: Method::POST,
                referer: None,
            };
            let called = self.repeat(services, endpoint, body, &mut hop);
            let answer = match tokio::time::timeout(timeout.limit, called).await {
                Ok(Ok(answer)) => answer,
                Ok(Err(Fault::Unusable(why))) => return Err(CallError::Unusable(why)),
                Ok(Err(Fault::Unreachable(why))) => return Err(hop.unreachable(why)),
                Ok(Err(Fault::Unread(why))) => return Err(CallError::Refused { code: 0, why }),
                Err(_) => return Err(CallError::Late { method: hop.verb(), url: hop.route.url() }),
            };
            answer.accepted(&hop.method)
        })
    }
}

/// Why a request failed.
enum Fault {
    Unusable(String),
    Unreachable(String),
    Unread(String),
}

/// One request of a call: the first, or one after a redirect.
struct Hop {
    route: Route,
    method: Method,
    /// The URL that redirected here, if there is one.
    referer: Option<String>,
}

impl Hop {
    fn verb(&self) -> &'static str {
        if self.method == Method::GET { "Get" } else { "Post" }
    }

    fn unreachable(&self, why: String) -> CallError {
        CallError::Unreachable { method: self.verb(), url: self.route.url(), why }
    }

    fn new_request(&self, body: Bytes) -> Result<Request<Full<Bytes>>, String> {
        let mut request = Request::builder()
            .method(self.method.clone())
            .uri(&self.route.path_and_query)
            .header(header::HOST, &self.route.authority)
            .header(header::USER_AGENT, "kube-apiserver-admission")
            .header(header::ACCEPT, "application/json, */*");
        if let Some(parent) = pintle_trace::traceparent() {
            request = request.header("traceparent", parent);
        }
        if let Some(referer) = &self.referer {
            request = request.header(header::REFERER, referer);
        }
        let has_body = self.method != Method::GET;
        if has_body {
            request = request.header(header::CONTENT_TYPE, JSON);
        }
        let body = if has_body { body } else { Bytes::new() };
        request.body(Full::new(body)).map_err(|error| error.to_string())
    }

    /// Makes the next request of a redirect; returns false if the response is none. The body is only sent again if the code
    /// requires it.
    fn follow_redirect(&mut self, answer: &Received) -> bool {
        let keeps_method = matches!(answer.code, 307 | 308);
        if !keeps_method && !matches!(answer.code, 301..=303) || answer.location.is_empty() {
            return false;
        }
        if !keeps_method {
            self.method = Method::GET;
        }
        self.referer = Some(self.route.url());
        self.route = self.route.moved(&answer.location);
        true
    }
}

/// A received response.
struct Received {
    code: u16,
    content_type: String,
    location: String,
    /// The requested time before the call is repeated, if the webhook requests that.
    retry_after: Option<Duration>,
    body: Bytes,
}

impl Received {
    /// The body of the response, unless it is an error.
    fn accepted(self, method: &Method) -> Result<Bytes, CallError> {
        let Received { code, content_type, body, .. } = self;
        if !(200..=206).contains(&code) {
            let why = refusal(code, method, &content_type, &body).message;
            return Err(CallError::Refused { code, why });
        }
        let media = content_type.split(';').next().unwrap_or("");
        if media.matches('/').count() > 1 {
            let why = "Internal error occurred: mime: unexpected content after media subtype".to_string();
            return Err(CallError::Refused { code: 500, why });
        }
        if body.is_empty() {
            let content_type_text = if content_type.is_empty() { JSON } else { &content_type };
            let why =
                format!("0-length response with status code: {code} and content type: {content_type_text}");
            return Err(CallError::Refused { code: 0, why });
        }
        Ok(body)
    }
}

const JSON: &str = "application/json";

impl Client {
    /// Calls the webhook, and repeats the call as long as it requests that.
    async fn repeat(
        &self,
        services: &dyn Services,
        endpoint: &Endpoint,
        body: Bytes,
        hop: &mut Hop,
    ) -> Result<Received, Fault> {
        let first = hop.route.clone();
        for _ in 0..kubeconfig::REPEATS_MAX {
            let answer = self.attempt(services, endpoint, body.clone(), hop).await?;
            let Some(pause) = answer.retry_after else { return Ok(answer) };
            tokio::time::sleep(pause).await;
            *hop = Hop { route: first.clone(), method: Method::POST, referer: None };
        }
        self.attempt(services, endpoint, body, hop).await
    }

    /// Calls the webhook once, and counts that.
    async fn attempt(
        &self,
        services: &dyn Services,
        endpoint: &Endpoint,
        body: Bytes,
        hop: &mut Hop,
    ) -> Result<Received, Fault> {
        // Hosts that a webhook redirects to do not count, so labels are only what is configured.
        let (host, size) = (hop.route.authority.clone(), body.len());
        let counted = CountedCall::begin(&host, size);
        let answer = self.follow(services, endpoint, body, hop).await;
        counted.end(answer.as_ref().ok().map(|answer| (answer.code, answer.body.len())));
        answer
    }

    /// Calls the webhook, and follows redirects.
    async fn follow(
        &self,
        services: &dyn Services,
        endpoint: &Endpoint,
        body: Bytes,
        hop: &mut Hop,
    ) -> Result<Received, Fault> {
        let own = hop.route.authority.clone();
        for _ in 0..=REDIRECTS_MAX {
            let place = if hop.route.authority == own {
                hop.route.locate_endpoint(services, endpoint).map_err(Fault::Unreachable)?
            } else {
                (hop.route.host.clone(), hop.route.port)
            };
            // Credentials are for the webhook, not for the hosts that it redirects to.
            let user = self.credentials.of(&hop.route.host_port()).filter(|_| hop.route.authority == own);
            let answer = self.send_once(hop, place, endpoint, user, body.clone()).await?;
            if !hop.follow_redirect(&answer) {
                return Ok(answer);
            }
        }
        Err(Fault::Unreachable(format!("stopped after {REDIRECTS_MAX} redirects")))
    }

    /// Sends one request.
    async fn send_once(
        &self,
        hop: &Hop,
        place: (String, u16),
        endpoint: &Endpoint,
        user: Option<&User>,
        body: Bytes,
    ) -> Result<Received, Fault> {
        let key = (hop.route.authority.clone(), place, endpoint.ca_bundle.clone());
        let mut request = hop.new_request(body).map_err(Fault::Unreachable)?;
        if let Some(user) = user {
            for (name, value) in user.headers().map_err(Fault::Unusable)? {
                request.headers_mut().append(name, value);
            }
        }
        let open = async {
            let certificate = user.map(User::certificate).transpose().map_err(Fault::Unusable)?.flatten();
            let dialer = match &endpoint.place {
                Place::Service { .. } => self.egress.to_cluster(),
                Place::Url(_) => self.egress.to_control_plane(),
            };
            connect::open(&dialer, &key.1, &hop.route.host, &endpoint.ca_bundle, certificate).await
        };
        let (answer, connection) = self.connections.send(&key, request, open).await?;
        let answer = read(answer, &self.budget).await?;
        self.connections.keep_idle(key, connection);
        Ok(answer)
    }
}

async fn read(answer: Response<Incoming>, budget: &ResponseBudget) -> Result<Received, Fault> {
    let code = answer.status().as_u16();
    let text = |name: header::HeaderName| {
        answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or("").to_string()
    };
    let (content_type, location) = (text(header::CONTENT_TYPE), text(header::LOCATION));
    let retry_after = kubeconfig::retry_after(code, answer.headers());
    let body = read_body(answer.into_body(), budget).await.map_err(|why| {
        Fault::Unread(format!(
            "unexpected error when reading response body. Please retry. Original error: {why}"
        ))
    })?;
    Ok(Received { code, content_type, location, retry_after, body })
}

async fn read_body(mut body: Incoming, budget: &ResponseBudget) -> Result<Bytes, &'static str> {
    let mut reading = budget.begin();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| "unexpected EOF")?;
        let Ok(part) = frame.into_data() else { continue };
        if reading.len().saturating_add(part.len()) > ANSWER_BYTES_MAX {
            return Err("length limit exceeded");
        }
        if !reading.push(&part) {
            return Err(NO_MEMORY);
        }
    }
    reading.end().ok_or(NO_MEMORY)
}

/// Go's error for a connection that ended before the response.
fn go_error_text(error: &hyper::Error) -> String {
    let mut source = std::error::Error::source(error);
    while let Some(inner) = source {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            return match io.kind() {
                std::io::ErrorKind::UnexpectedEof => "EOF".to_string(),
                std::io::ErrorKind::ConnectionReset => "read: connection reset by peer".to_string(),
                _ => io.to_string(),
            };
        }
        source = inner.source();
    }
    if error.is_incomplete_message() || error.is_closed() {
        return "EOF".to_string();
    }
    error.to_string()
}

/// The error for a response without success: the status in its body, or one by its code.
fn refusal(code: u16, method: &Method, content_type: &str, answer: &[u8]) -> Status {
    let tree = json::parse(answer).map(|parsed| parsed.value).unwrap_or_default();
    if tree.str_at(&["kind"]) == "Status" && tree.str_at(&["status"]) == "Failure" {
        return Status { empty_details: false, ..Status::from_value(&tree) };
    }
    let is_text = content_type.is_empty() || content_type.trim_start().starts_with("text/");
    let message = String::from_utf8_lossy(answer.get(..REFUSAL_BYTES_MAX).unwrap_or(answer));
    let message = if is_text { message.trim() } else { "unknown" };
    Status::generic_response(code, method.as_str(), &GroupResource::default(), "", message)
}

#[cfg(test)]
mod tests;
