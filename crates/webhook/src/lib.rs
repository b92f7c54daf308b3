//! Calls to webhooks: one POST over HTTPS to where a clientConfig points, with the errors that kube-apiserver's client
//! gives. Knows nothing of what is asked or answered.

mod connect;
mod verify;

use bytes::Bytes;
use connect::Connections;
use http::{Method, Request, header};
use http_body_util::{BodyExt, Full, Limited};
use pintle_kinds::endpoint::{Endpoint, Place};
use pintle_meta::{GroupResource, Status};
use pintle_value::json;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Largest answer that is read.
const ANSWER_BYTES_MAX: usize = 128 << 20;

/// Where services are reached.
pub trait Services: Send + Sync {
    /// Host and port of a service's port. The error is what clients are told.
    fn locate(&self, namespace: &str, name: &str, port: u16) -> Result<(String, u16), String>;
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The webhook could not be asked.
    #[error("Post \"{url}\": {why}")]
    Unreachable {
        /// What was asked.
        url: String,
        /// What is in the way.
        why: String,
    },
    /// The webhook answered with an error.
    #[error("{0}")]
    Refused(String),
}

/// A future that a trait can name.
pub type Answer<'a> = Pin<Box<dyn Future<Output = Result<Bytes, CallError>> + Send + 'a>>;

/// Somebody who can call webhooks.
pub trait Caller: Send + Sync {
    /// Posts JSON and waits for the answer to it, no longer than `timeout`.
    fn call<'a>(
        &'a self,
        services: &'a dyn Services,
        endpoint: &'a Endpoint,
        body: Bytes,
        timeout: Duration,
    ) -> Answer<'a>;
}

/// Calls webhooks over the network. Connections are kept for the next call.
#[derive(Default)]
pub struct Client {
    connections: Connections,
}

/// Codes of answers that are read.
const SUCCESS: std::ops::RangeInclusive<u16> = 200..=206;
const TIMED_OUT: &str = "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";

impl Caller for Client {
    fn call<'a>(
        &'a self,
        services: &'a dyn Services,
        endpoint: &'a Endpoint,
        body: Bytes,
        timeout: Duration,
    ) -> Answer<'a> {
        Box::pin(async move {
            let route = Route::new(endpoint, timeout);
            let unreachable = |why: String| CallError::Unreachable { url: route.url(), why };
            let place = route.locate(services, endpoint).map_err(unreachable)?;
            let posted = tokio::time::timeout(timeout, self.post(&route, place, endpoint, body)).await;
            match posted {
                Ok(Ok(answer)) if SUCCESS.contains(&answer.code) && !answer.body.is_empty() => {
                    Ok(answer.body)
                }
                Ok(Ok(answer)) => Err(CallError::Refused(refusal(&answer))),
                Ok(Err(why)) => Err(unreachable(why)),
                Err(_) => Err(unreachable(TIMED_OUT.to_string())),
            }
        })
    }
}

impl Client {
    /// Posts; a kept connection that turns out to be closed is replaced once.
    async fn post(
        &self,
        route: &Route,
        place: (String, u16),
        endpoint: &Endpoint,
        body: Bytes,
    ) -> Result<Answered, String> {
        let key = (route.authority.clone(), place, endpoint.ca_bundle.clone());
        if let Some(mut kept) = self.connections.take(&key)
            && kept.ready().await.is_ok()
            && let Ok(answer) = exchange(&mut kept, route, body.clone()).await
        {
            self.connections.keep(key, kept);
            return Ok(answer);
        }
        let mut fresh = connect::open(&key.1, &route.host, &endpoint.ca_bundle).await?;
        let answer = exchange(&mut fresh, route, body).await?;
        self.connections.keep(key, fresh);
        Ok(answer)
    }
}

async fn exchange(
    connection: &mut connect::Connection,
    route: &Route,
    body: Bytes,
) -> Result<Answered, String> {
    let request = Request::builder()
        .method(Method::POST)
        .uri(&route.path_and_query)
        .header(header::HOST, &route.authority)
        .header(header::USER_AGENT, "kube-apiserver")
        .header(header::ACCEPT, "application/json, */*")
        .header(header::CONTENT_TYPE, "application/json")
        .body(Full::new(body))
        .map_err(|error| error.to_string())?;
    let answer = connection.send_request(request).await.map_err(|error| error.to_string())?;
    let code = answer.status().as_u16();
    let content_type = answer.headers().get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default().to_string();
    let body = Limited::new(answer.into_body(), ANSWER_BYTES_MAX).collect().await;
    let body = body.map_err(|error| error.to_string())?.to_bytes();
    Ok(Answered { code, content_type, body })
}

/// What a webhook answered.
struct Answered {
    code: u16,
    content_type: String,
    body: Bytes,
}

/// How much of an answer that is no success is told.
const TOLD_BYTES_MAX: usize = 2048;

/// What a client is told of an answer that is no success: the status in it, or what its code means.
fn refusal(answer: &Answered) -> String {
    let Answered { code, content_type, body } = answer;
    if SUCCESS.contains(code) {
        return format!("0-length response with status code: {code} and content type: {content_type}");
    }
    let tree = json::parse(body).map(|parsed| parsed.value).unwrap_or_default();
    if tree.str_at(&["kind"]) == "Status" && tree.str_at(&["status"]) == "Failure" {
        return tree.str_at(&["message"]).to_string();
    }
    let said = String::from_utf8_lossy(body.get(..TOLD_BYTES_MAX).unwrap_or(body));
    let is_text = content_type.is_empty() || content_type.trim_start().starts_with("text/");
    let said = if is_text { said.trim() } else { "unknown" };
    Status::generic_response(*code, "POST", &GroupResource::default(), "", said).message
}

/// The parts of a webhook's address.
struct Route {
    /// The name that the certificate must be for.
    host: String,
    port: u16,
    authority: String,
    path_and_query: String,
}

impl Route {
    fn new(endpoint: &Endpoint, timeout: Duration) -> Self {
        let (authority, path) = match &endpoint.place {
            Place::Url(url) => {
                let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                match rest.find('/') {
                    Some(at) => (rest.get(..at).unwrap_or(""), rest.get(at..).unwrap_or("/")),
                    None => (rest, "/"),
                }
            }
            Place::Service { path, .. } => ("", path.as_str()),
        };
        let authority = match &endpoint.place {
            Place::Url(_) => authority.to_string(),
            Place::Service { namespace, name, port, .. } => format!("{name}.{namespace}.svc:{port}"),
        };
        let (host, port) = split_port(&authority);
        let slash = if path.starts_with('/') { "" } else { "/" };
        let path_and_query = format!("{slash}{path}?timeout={}s", timeout.as_secs());
        Route { host, port, authority, path_and_query }
    }

    fn url(&self) -> String {
        format!("https://{}{}", self.authority, self.path_and_query)
    }

    fn locate(&self, services: &dyn Services, endpoint: &Endpoint) -> Result<(String, u16), String> {
        match &endpoint.place {
            Place::Url(_) => Ok((self.host.clone(), self.port)),
            Place::Service { namespace, name, port, .. } => services.locate(namespace, name, *port),
        }
    }
}

/// Host and port of an authority; brackets are for addresses with colons.
fn split_port(authority: &str) -> (String, u16) {
    const HTTPS: u16 = 443;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().unwrap_or(HTTPS)),
        _ => (authority, HTTPS),
    };
    (host.trim_start_matches('[').trim_end_matches(']').to_string(), port)
}

#[cfg(test)]
mod tests;
