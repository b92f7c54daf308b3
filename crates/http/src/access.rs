//! Who makes a request and what they may do: authentication, impersonation and authorization.

use crate::api::ApiResponse;
use crate::context::Context;
use crate::filter_metrics::{Filter, Steps};
use crate::negotiate::Encoding;
use crate::peer::Peer;
use crate::requestinfo::RequestInfo;
use crate::{auditing, filter_metrics, headers, query, respond, target, websocket};
use http::HeaderMap;
use pintle_auth::{
    Attributes, Authenticated, Credentials, Decision, Unauthorized, UserInfo, authz, impersonate,
};
use pintle_meta::Status;
use pintle_meta::selector::{FieldSelector, LabelSelector};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

/// The longest reason for refused credentials in the log.
const REASON_CHARS_MAX: usize = 1000;

/// How many requests for the console an unauthenticated client may send on one HTTP/2 connection: three pages.
const VISITOR_ANSWERS_MAX: usize = 64;

/// Authenticates a request for `path` by its headers, the certificate of its connection or a session of the console. Also returns when
/// it was authenticated.
pub(crate) async fn authenticate(
    context: &Context,
    peer: &Peer,
    headers: &HeaderMap,
    path: &str,
) -> (Result<Authenticated, Unauthorized>, Instant) {
    let given = headers.get(http::header::AUTHORIZATION).map(headers::text);
    let authorization = given.or_else(|| websocket::authorization(headers).map(Into::into));
    let session = context.console.as_ref().and_then(|console| console.session(authorization.as_deref()));
    let credentials = match &session {
        Some(Some(stored)) => stored.get(path),
        // The session has ended. Do not try the certificate or another authenticator with its token.
        Some(None) => {
            let over = Unauthorized("the session of the console is over".to_string());
            return (Err(over), Instant::now());
        }
        None => Credentials {
            peer: Some(&peer.certificates),
            authorization: authorization.as_deref(),
            headers: Some(headers),
            path,
        },
    };
    let known = context.authenticator.authenticate(credentials, SystemTime::now()).await;
    let now = Instant::now();
    if let Err(why) = &known {
        // The reason never contains the credential. It may quote parts of a token, which anyone can make long.
        let why: String = why.to_string().chars().take(REASON_CHARS_MAX).collect();
        tracing::warn!(client = %peer.address, "refused credentials: {why}");
    }
    (known, now)
}

/// Which credentials a refused request had, as kube-apiserver's audit says it.
pub(crate) fn attempts(headers: &HeaderMap, query: &[(String, String)], peer: &Peer) -> String {
    let authorization = headers.get(http::header::AUTHORIZATION).map(headers::text).unwrap_or_default();
    let authorization = authorization.trim();
    let scheme = authorization.split_once(' ').map(|(scheme, _)| scheme);
    let is = |name: &str| scheme.is_some_and(|scheme| scheme.eq_ignore_ascii_case(name));
    let has_token = !query::first(query, "access_token").unwrap_or_default().trim().is_empty();
    let attempts: Vec<&str> = [
        (is("basic"), "basic"),
        (is("bearer"), "bearer"),
        (has_token, "access_token"),
        (!peer.certificates.is_empty(), "x509"),
    ]
    .into_iter()
    .filter(|(was_attempted, _)| *was_attempted)
    .map(|(_, name)| name)
    .collect();
    if attempts.is_empty() {
        "Authentication failed, no credentials provided".to_string()
    } else {
        format!("Authentication failed, attempted: {}", attempts.join(", "))
    }
}

/// A connection counts as unauthenticated until a request on it is authenticated. HTTP/2 is expensive and prone to
/// abuse: as in kube-apiserver, unauthenticated clients get their answer and must then connect again.
pub(crate) fn note_identity(
    context: &Context,
    peer: &Peer,
    parts: &http::request::Parts,
    user: Option<&UserInfo>,
) {
    if user.is_some_and(|user| !user.in_group(UserInfo::UNAUTHENTICATED)) {
        peer.authenticated();
    } else if context.closes_unauthenticated_http2 && parts.version == http::Version::HTTP_2 {
        peer.close_after_answers();
    }
}

/// Notes that a client loads the console before it signs in. A browser loads the page with some twenty requests on one
/// connection and shows nothing if one of them fails, so the connection accepts more than those of other unauthenticated clients.
pub(crate) fn note_visitor(context: &Context, peer: &Peer, parts: &http::request::Parts) {
    if !context.closes_unauthenticated_http2 || parts.version != http::Version::HTTP_2 {
        return;
    }
    peer.visits();
    if peer.count_answer() > VISITOR_ANSWERS_MAX {
        peer.close_after_answers();
    }
}

/// The reason why authorization stops a request.
pub(crate) enum Refusal {
    /// The user may not make it.
    Forbidden(Status),
    /// An authorizer failed, and no other one allowed the request.
    Failed(String),
}

impl From<Status> for Refusal {
    fn from(status: Status) -> Self {
        Refusal::Forbidden(status)
    }
}

impl Refusal {
    /// The answer to the client.
    pub(crate) fn response(self, parts: &http::request::Parts, errors: Option<Encoding>) -> ApiResponse {
        match self {
            Refusal::Forbidden(status) => {
                let mut response = respond::status(&status, errors);
                response.set_header("x-content-type-options", "nosniff");
                response
            }
            // kube-apiserver answers this with plain text.
            Refusal::Failed(why) => {
                let uri = target::path_and_query(parts);
                let text = format!("Internal Server Error: {uri:?}: {why}");
                respond::text(500, &authz::html_safe(&text))
            }
        }
    }
}

/// Returns whether a request has headers of impersonation.
pub(crate) fn impersonates(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| name.as_str().starts_with("impersonate-"))
}

/// Returns the effective user of a request with headers of impersonation, and when that was decided.
pub(crate) async fn effective_user(
    context: &Context,
    user: Arc<UserInfo>,
    headers: &HeaderMap,
    info: &RequestInfo,
    audit: Option<&mut pintle_audit::Record>,
) -> Result<(Arc<UserInfo>, Instant), Refusal> {
    let given = headers.iter().filter(|(name, _)| name.as_str().starts_with("impersonate-"));
    let given = given.map(|(name, value)| (name.as_str(), headers::text(value)));
    let Some(wanted) = impersonate::wanted(given)? else { return Ok((user, Instant::now())) };
    let attributes = attributes_of(info, user);
    let authorizer = &*context.authorizer;
    let (user, constraint) = context.impersonation.impersonate(authorizer, &wanted, &attributes).await?;
    if let Some(audit) = audit {
        audit.impersonates(&user, &constraint);
    }
    Ok((user.into(), Instant::now()))
}

/// Authorizes a request; `steps` are at the beginning of that. Returns its user.
pub(crate) async fn authorize(
    context: &Context,
    user: Arc<UserInfo>,
    info: &RequestInfo,
    audit: Option<&mut pintle_audit::Record>,
    steps: &mut Steps,
) -> Result<Arc<UserInfo>, Refusal> {
    let attributes = attributes_of(info, user);
    let decision = context.authorizer.authorize(&attributes).await;
    let now = Instant::now();
    filter_metrics::authorized(&decision, now.saturating_duration_since(steps.began()));
    if let Some(audit) = audit {
        let (allowed, reason) = match &decision {
            Decision::Allow(reason) => (true, &**reason),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => (false, reason.as_str()),
            Decision::Failed(_) => (false, "internal error"),
        };
        auditing::authorized(&audit.notes, allowed, reason);
    }
    match decision {
        Decision::Allow(_) => {
            // As in kube-apiserver, a filter that stops a request is not measured.
            steps.end(Filter::Authorization, now);
            Ok(attributes.user)
        }
        Decision::Deny(reason) | Decision::NoOpinion(reason) => {
            let attributes = match attributes.user.in_group(UserInfo::UNAUTHENTICATED) {
                true => beginnings(attributes),
                false => attributes,
            };
            Err(Refusal::Forbidden(authz::forbidden(&attributes, &reason)))
        }
        Decision::Failed(failure) => Err(Refusal::Failed(failure.error)),
    }
}

/// The attributes as the refusal of a request without credentials repeats them.
fn beginnings(attributes: Attributes) -> Attributes {
    let begin = |text: String| target::begin(&text).to_string();
    Attributes {
        verb: begin(attributes.verb),
        path: begin(attributes.path),
        group: begin(attributes.group),
        resource: begin(attributes.resource),
        subresource: begin(attributes.subresource),
        namespace: begin(attributes.namespace),
        name: begin(attributes.name),
        ..attributes
    }
}

fn attributes_of(info: &RequestInfo, user: Arc<UserInfo>) -> Attributes {
    Attributes {
        user,
        verb: info.verb.as_str().into(),
        resource_request: info.resource_request,
        // Authorizers look at the path of other requests only.
        path: if info.resource_request { String::new() } else { info.path.clone() },
        group: info.group.as_str().into(),
        version: info.version.as_str().into(),
        resource: info.resource.as_str().into(),
        subresource: info.subresource.as_str().into(),
        namespace: info.namespace.as_str().into(),
        name: info.name.as_str().into(),
        // A selector that cannot be parsed is dropped from the attributes: the request is then authorized as if it
        // selected everything.
        field_selector: if info.field_selector.is_empty() {
            FieldSelector::default()
        } else {
            FieldSelector::parse(&info.field_selector).unwrap_or_default()
        },
        label_selector: if info.label_selector.is_empty() {
            Vec::new()
        } else {
            LabelSelector::parse(&info.label_selector)
                .map(|selector| selector.requirements().to_vec())
                .unwrap_or_default()
        },
    }
}
