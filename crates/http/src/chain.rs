//! The filter chain: every step that a request passes through, in order, in one function.

use crate::aggregate::{self, Aggregated};
use crate::api::{Api, ApiRequest, ApiResponse};
use crate::completion::Completion;
use crate::console::{self, Console};
use crate::cors::{self, Cors};
use crate::debug::{self, Profiler};
use crate::filter_metrics::{Filter, Steps};
use crate::flow::{Asking, FlowControl, Held};
use crate::handler_time::HandlerTime;
use crate::health::{self, Health};
use crate::lifecycle::{Lifecycle, Ordinary};
use crate::metrics::{self, Labels, LongRunning, Metrics};
use crate::negotiate::{Accept, Encoding, Media};
use crate::offload::{LARGE_BODY_BYTES, Offload};
use crate::openid::OpenId;
use crate::pages::Pages;
use crate::peer::Peer;
use crate::requestinfo::RequestInfo;
use crate::route;
use crate::spans::{self, RequestLog};
use crate::streams::{Streamed, Streams};
use crate::turns::ProcessorTurns;
use crate::{
    Body, auditing, compress, filter_metrics, headers, nonresource, passthrough, query, respond, target,
    websocket,
};
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use pintle_auth::impersonate::Impersonation;
use pintle_auth::{
    Attributes, Authenticated, Authenticator, Authorizer, Credentials, Decision, Unauthorized, UserInfo,
    authz, impersonate,
};
use pintle_controllers::aggregation::Aggregation;
use pintle_meta::Status;
use pintle_meta::duration::GoDuration;
use pintle_meta::selector::{FieldSelector, LabelSelector};
use pintle_trace::Trace;
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

/// The largest request body in bytes.
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// The code in the audit events of forwarded requests that timed out: the one of the proxy, which only the audit sees.
const PROXY_FAILED: u16 = 503;
const GATEWAY_TIMEOUT: u16 = 504;
/// The longest text of one warning, and of all warnings of an answer together, in characters.
const WARNING_CHARS_MAX: usize = 256;
const WARNINGS_CHARS_MAX: usize = 4 * 1024;

/// Everything that the filter chain needs to answer requests.
pub struct Context {
    /// Objects.
    pub api: Arc<dyn Api>,
    /// Who asks.
    pub authenticator: Arc<Authenticator>,
    /// What they may do.
    pub authorizer: Arc<dyn Authorizer>,
    /// Health checks.
    pub health: Arc<Health>,
    /// Counters.
    pub metrics: Arc<Metrics>,
    /// OpenID documents.
    pub openid: Option<OpenId>,
    /// The version that `/version` returns.
    pub git_version: String,
    /// The commit that the server was built from, or "".
    pub git_commit: &'static str,
    /// Host and port for clients, set once the server listens.
    pub address: OnceLock<String>,
    /// Whether CBOR is served.
    pub cbor: bool,
    /// Whether large answers are compressed.
    pub compression: bool,
    /// The value of `Strict-Transport-Security`, if the header is sent.
    pub strict_transport: Option<HeaderValue>,
    /// Acting as somebody else.
    pub impersonation: Impersonation,
    /// The longest duration of a request; watches are exempt.
    pub request_timeout: Duration,
    /// Extension servers.
    pub aggregation: Arc<Aggregation>,
    /// Nodes, pods and services.
    pub streams: Arc<Streams>,
    /// The thread pool for work that would block other requests.
    pub offload: Offload,
    /// Whether HTTP/2 connections of unauthenticated clients are closed after their answers
    /// (`UnauthenticatedHTTP2DOSMitigation`).
    pub closes_unauthenticated_http2: bool,
    /// The audit, if there is one.
    pub auditor: Option<Arc<pintle_audit::Auditor>>,
    /// The origins of web pages that may use the API.
    pub cors: Option<Cors>,
    /// Tracks requests in flight and the shutdown of the server.
    pub lifecycle: Arc<Lifecycle>,
    /// `/flagz` and `/statusz`.
    pub pages: Pages,
    /// `/debug`, unless profiling is off.
    pub profiler: Option<Arc<dyn Profiler>>,
    /// The exporter of traces, if tracing is configured.
    pub tracer: Option<Arc<pintle_trace::Exporter>>,
    /// The probability that an HTTP/2 request gets a GOAWAY.
    pub goaway_chance: f64,
    /// Decides which requests run, wait or are rejected.
    pub flow: FlowControl,
    /// Decides in which order clients are read from and requests run.
    pub turns: Arc<ProcessorTurns>,
    /// The web console, where it is on.
    pub console: Option<Console>,
}

/// A request whose method, path and headers have been parsed.
struct Read {
    info: RequestInfo,
    query: Vec<(String, String)>,
    accept: Accept,
    method: String,
}

/// Answers a request. Every step that a request passes through is named here, in order.
pub(crate) async fn handle<B>(context: &Context, peer: &Peer, request: Request<B>) -> Response<Body>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let began = Instant::now();
    let id = request_id(request.headers());
    let (parts, body) = request.into_parts();
    let mut record = Record::new(&parts.method, &context.lifecycle);
    // OpenAPI v3 documents are not compressed, because their entity tags are those of the plain text.
    let gzip = context.compression
        && !target::path(&parts).starts_with("/openapi/v3")
        && compress::asked_for(&headers::first(&parts.headers, "accept-encoding"));

    let origin = context.cors.as_ref().and_then(|cors| cors.allowed_origin(&parts.headers));
    maybe_send_goaway(context, peer, &parts);
    let answer = match read(&parts) {
        Err(response) => response,
        Ok(_) if let Some(late) = context.lifecycle.refusal(&parts) => {
            peer.close_after_answers();
            late
        }
        // A CORS preflight is answered without authentication.
        Ok(_) if origin.is_some() && parts.method == http::Method::OPTIONS => ApiResponse::empty(204),
        Ok(_) if expects_the_unknown(&parts) => ApiResponse::empty(417),
        Ok(read)
            if let Some(console) = &context.console
                && console::is_public(&read.info.path) =>
        {
            console.serve_public(context, peer, &parts, &read.info.path, body).await
        }
        Ok(read) => answer(context, peer, &parts, read, body, &id, began, &mut record).await,
    };

    let (answer, audit) =
        auditing::answered(record.audit, answer, record.long_running, record.forwarded).await;
    let mut response = finish(answer, record.warnings, gzip);
    if let Some(origin) = origin {
        cors::allow(response.headers_mut(), origin);
    }
    set(response.headers_mut(), "audit-id", &id);
    record.held.set_headers(response.headers_mut());
    if let Some(directives) = &context.strict_transport {
        response.headers_mut().insert("strict-transport-security", directives.clone());
    }
    let code = response.status().as_u16();
    let log = pintle_log::is_enabled(3).then(|| {
        Box::new(RequestLog {
            verb: record.verb.clone(),
            uri: target::path_and_query(&parts).to_string(),
            user_agent: headers::first(&parts.headers, "user-agent").into_owned(),
            id: id.clone(),
            client: peer.address.to_string(),
            classified: record.held.classified(),
        })
    });
    let completion = Completion {
        metrics: Arc::clone(&context.metrics),
        labels: record.labels,
        began,
        code,
        bytes: 0,
        audit,
        trace: record.trace,
        uri: parts.uri,
        log,
        held: record.held,
        rejected: record.rejected,
        _open: record.open,
        _ordinary: record.ordinary,
    };
    response.map(|body| completion.after(body))
}

/// The facts about a request that are recorded while it runs.
struct Record {
    labels: Labels,
    warnings: Vec<String>,
    /// Counts a long-running request.
    open: Option<LongRunning>,
    /// Shutdown waits for it, unless the request is long-running.
    ordinary: Option<Ordinary>,
    long_running: bool,
    /// The verb as kube-apiserver logs it.
    verb: String,
    trace: Option<Arc<Trace>>,
    audit: Option<Box<pintle_audit::Record>>,
    held: Held,
    rejected: bool,
    /// An extension server answers.
    forwarded: bool,
}

impl Record {
    fn new(method: &http::Method, lifecycle: &Arc<Lifecycle>) -> Self {
        Record {
            labels: Labels::other(method),
            warnings: Vec::new(),
            open: None,
            ordinary: Some(lifecycle.begin()),
            long_running: false,
            verb: method.to_string(),
            trace: None,
            audit: None,
            held: Held::default(),
            rejected: false,
            forwarded: false,
        }
    }
}

/// Returns whether an HTTP/1 client expects something other than `100 Continue`.
fn expects_the_unknown(parts: &http::request::Parts) -> bool {
    let expected = headers::first(&parts.headers, "expect");
    parts.version < http::Version::HTTP_2
        && !expected.is_empty()
        && !expected.eq_ignore_ascii_case("100-continue")
}

/// Authenticates, authorizes, routes and dispatches a request and reads its body.
#[expect(clippy::too_many_arguments, reason = "all that is known of a request, once")]
async fn answer<B>(
    context: &Context,
    peer: &Peer,
    parts: &http::request::Parts,
    read: Read,
    body: B,
    id: &str,
    began: Instant,
    record: &mut Record,
) -> ApiResponse
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    let errors = read.accept.for_errors(Media::WITHOUT_CBOR);
    let timeout = match request_timeout(context, &read) {
        Ok(timeout) => timeout,
        Err(status) => {
            let answer = respond::status(&status, errors);
            return auditing::refused_early(context, peer, parts, &read.info, id, answer).await;
        }
    };
    let Read { info, query, accept, method } = read;
    let info = Arc::new(info);

    let known = authenticate(context, peer, &parts.headers, &info.path).await;
    filter_metrics::authenticated(peer, known.as_ref().map(|known| &known.user), began.elapsed());
    note_identity(context, peer, parts, known.as_ref().ok().map(|known| &known.user));
    let Authenticated { user, remarks } = match known {
        Ok(known) => known,
        Err(_) => {
            let answer = respond::status(&respond::unauthorized(), errors);
            let answer = auditing::refused_early(context, peer, parts, &info, id, answer).await;
            context.turns.of_refusal(context.turns.key_of_address(peer.address.ip())).next().await;
            return answer;
        }
    };
    record.warnings.extend(remarks.warning.map(str::to_string));
    record.long_running = info.long_running();
    if record.long_running {
        record.ordinary = None;
    }
    let trace = spans::begin(context, parts, &info, &user, id, began);
    record.trace = Some(Arc::clone(&trace));
    trace.open("audit");
    let mut steps = Steps::begin();
    match auditing::received(context, peer, parts, &info, &user, &remarks, id).await {
        Ok(audit) => record.audit = audit,
        Err(answer) => return answer,
    }
    steps.end(Filter::Audit);
    trace.open(context.impersonation.filter_name());
    let user = match effective_user(context, user, &parts.headers, &info, record.audit.as_deref_mut()).await {
        Ok(user) => user,
        Err(refusal) => return refusal.response(parts, errors),
    };
    steps.end(if context.impersonation.is_constrained() {
        Filter::ConstrainedImpersonation
    } else {
        Filter::Impersonation
    });
    trace.open("priorityandfairness");
    let asking = Asking { info: &info, query: &query, user: &user, began, timeout };
    if let Err(answer) = context.flow.admit(&*context.api, &peer.turns, &asking, &mut record.held).await {
        record.rejected = true;
        let content_type = &*headers::first(&parts.headers, "content-type");
        record.labels = refused_labels(context, parts, &info, &query, &accept, content_type);
        return answer;
    }
    steps.end(Filter::Flow);
    trace.open("authorization");
    let user = match authorize(context, user, &info, record.audit.as_deref_mut()).await {
        Ok(user) => user,
        Err(refusal) => return refusal.response(parts, errors),
    };
    steps.end(Filter::Authorization);
    if let Some(service) = aggregate::find(&context.aggregation, &info.path)
        && let Some(remote) = &service.remote
    {
        record.forwarded = true;
        let deadline = began.checked_add(timeout).filter(|_| !info.long_running());
        let identity = &context.streams.identity;
        let request = Aggregated { parts, info: &info, query: &query, user: &user, id, identity, deadline };
        let work = request.serve(&context.aggregation, remote, passthrough::body(body));
        let Some(_) = deadline else { return work.await };
        return tokio::time::timeout(timeout, work).await.unwrap_or_else(|_| {
            metrics::count_termination(&Labels::forwarded(&info), GATEWAY_TIMEOUT);
            if let Some(audit) = &mut record.audit {
                audit.record_code(PROXY_FAILED);
            }
            respond::timed_out()
        });
    }
    let state = context.api.discovery();
    if !info.resource_request {
        if health::ENDPOINTS.iter().any(|name| info.path.strip_prefix('/') == Some(*name)) {
            record.labels = Labels::health(&info.path, &parts.method);
        }
        let certificates = &peer.certificates;
        let body = match console::serve(context, parts, certificates, &info.path, &user, body).await {
            Ok(answer) => return answer,
            Err(body) => body,
        };
        let debug = debug::Asked { method: &method, path: &info.path, query: &query };
        if let Some(answer) = debug::serve(context.profiler.as_ref(), &debug, body).await {
            return answer;
        }
        if let Some(answer) = context.health.serve(&info.path, &query).await {
            return answer;
        }
        let if_none_match = &*headers::first(&parts.headers, "if-none-match");
        let asked = nonresource::NonResourceRequest {
            method: &method,
            path: &info.path,
            query: &query,
            accept: &accept,
            if_none_match,
        };
        // Rendering the documents of thousands of kinds takes seconds, so do it on the offload pool.
        if info.path.starts_with("/openapi") {
            return context.offload.run(async { nonresource::serve(context, &state, &asked) }).await;
        }
        return nonresource::serve(context, &state, &asked);
    }
    // A path such as `//api/v1` counts as a resource for authorization, but nothing is served there.
    if !info.path.strip_prefix('/').is_some_and(|p| p.starts_with(&info.prefix)) {
        return respond::page_not_found();
    }
    let content_type = &*headers::first(&parts.headers, "content-type");
    let asked = route::RouteRequest { method: &method, accept: &accept, content_type, cbor: context.cbor };
    let routed = match route::route(&state, &info, &asked) {
        Ok(routed) => routed,
        Err(response) if method == "POST" && response.code == 415 => {
            record.labels = refused_labels(context, parts, &info, &query, &accept, "application/json");
            return response;
        }
        // kube-apiserver reads the body of an update before it checks the media type.
        Err(response) if method == "PUT" && response.code == 415 => {
            record.labels = refused_labels(context, parts, &info, &query, &accept, "application/json");
            return match read_body(&method, body).await {
                Ok(_) => response,
                Err(status) => respond::status(&status, Some(Encoding::Json { pretty: false })),
            };
        }
        Err(response) => return response,
    };
    if let Some(warning) = &routed.target.version().deprecation {
        record.warnings.push(warning.to_string());
        if let Some(audit) = &record.audit {
            audit.notes.annotate("k8s.io/deprecated", "true");
            if let Some(release) = filter_metrics::removed_release(warning) {
                audit.notes.annotate("k8s.io/removed-release", release);
            }
        }
    }
    record.labels = Labels::of(&info, &routed.target, &query);
    if let Some(warning) = &routed.target.version().deprecation {
        filter_metrics::deprecated(&record.labels, warning);
    }
    filter_metrics::field_validation(&query);
    record.verb = record.labels.verb.to_string();
    let long_running = info.long_running();
    if long_running {
        record.open = Some(LongRunning::begin(&record.labels));
    }
    let is_log = info.subresource == "log" && routed.target.action == route::Action::Get;
    if routed.target.action == route::Action::Connect || is_log {
        let errors = routed.errors;
        let target = &routed.target;
        let request = Streamed { parts, info: &info, target, query: &query, user: &user, errors };
        return request.serve(context, passthrough::body(body)).await;
    }
    let watches = matches!(routed.target.action, route::Action::Watch | route::Action::WatchOne);
    let wants_socket = watches && websocket::asked_for(&parts.headers);
    let socket = parts.extensions.get::<hyper::upgrade::OnUpgrade>().filter(|_| wants_socket).cloned();
    let notes = record.audit.as_ref().map(|audit| Arc::clone(&audit.notes));
    let is_write = info.is_write();
    let time = HandlerTime::of(routed.target.action, timeout);
    let errors = routed.errors;
    let work = async {
        let body = match read_body(&method, body).await {
            Ok(body) => body,
            Err(status) => return respond::status(&status, routed.errors),
        };
        let large = body.len() >= LARGE_BODY_BYTES;
        filter_metrics::body_read(&info, body.len());
        let request = ApiRequest {
            info,
            target: routed.target,
            method: parts.method.clone(),
            query,
            headers: parts.headers.clone(),
            body,
            user,
            accept: routed.accept,
            errors: routed.errors,
            id: id.to_string(),
        };
        let ends = [began.checked_add(timeout), Instant::now().checked_add(time.limit)];
        let deadline = ends.into_iter().flatten().min().filter(|_| !long_running);
        let served = pintle_engine::with_deadline(deadline, context.api.serve(request));
        let served = pintle_audit::with_notes(notes, served);
        let served = pintle_trace::with_trace(Some(trace), served);
        if large {
            return context.offload.run(served).await;
        }
        served.await
    };
    if long_running {
        let answer = work.await;
        return match socket {
            Some(upgrade) if answer.code == 200 => websocket::switch(&parts.headers, upgrade, answer),
            _ => answer,
        };
    }
    let answer = match began.elapsed() >= timeout {
        true => None,
        false => match tokio::time::timeout(time.limit, work).await {
            Ok(answer) => Some(answer),
            Err(_) => time.expired(errors),
        },
    };
    answer.unwrap_or_else(|| {
        if let Some(audit) = record.audit.as_deref().filter(|_| is_write) {
            auditing::timed_out(audit);
        }
        metrics::count_termination(&record.labels, GATEWAY_TIMEOUT);
        respond::timed_out()
    })
}

/// Parses path, query and Accept headers. The error is the answer to a request that cannot be parsed.
fn read(parts: &http::request::Parts) -> Result<Read, ApiResponse> {
    let path =
        query::unescape(target::path(parts), false).ok_or_else(|| respond::text(400, "400 Bad Request"))?;
    let query = query::parse(target::query(parts));
    let method = parts.method.as_str().to_string();
    let info = RequestInfo::parse(&method, &path, &query).map_err(|_| {
        let uri = target::path_and_query(parts);
        let why = format!("unable to determine kind and namespace from url, {uri}");
        let text = format!("Internal Server Error: {uri:?}: failed to create RequestInfo: {why}");
        respond::text(500, &authz::html_safe(&text))
    })?;
    let pretty = query::first(&query, "pretty");
    let value = |name| headers::first(&parts.headers, name);
    let accept = Accept::parse(&value("accept"), pretty, &value("user-agent"));
    Ok(Read { info, query, accept, method })
}

pub(crate) async fn authenticate(
    context: &Context,
    peer: &Peer,
    headers: &HeaderMap,
    path: &str,
) -> Result<Authenticated, Unauthorized> {
    let given = headers.get("authorization").map(headers::text);
    let authorization = given.or_else(|| websocket::authorization(headers).map(Into::into));
    let session = context.console.as_ref().and_then(|console| console.session(authorization.as_deref()));
    let credentials = match &session {
        Some(Some(stored)) => stored.get(path),
        // A session that is over: neither a certificate nor another authenticator is asked about its token.
        Some(None) => return Err(Unauthorized("the session of the console is over".to_string())),
        None => Credentials {
            peer: Some(&peer.certificates),
            authorization: authorization.as_deref(),
            headers: Some(headers),
            path,
        },
    };
    let began = Instant::now();
    let known = context.authenticator.authenticate(credentials, SystemTime::now()).await;
    if authorization.is_some() {
        filter_metrics::token_authenticated(known.is_ok(), began.elapsed());
    }
    known.inspect_err(|why| {
        // The reason never contains the credential.
        tracing::warn!(client = %peer.address, "refused credentials: {why}");
    })
}

/// A connection counts as unauthenticated until a request on it is authenticated. HTTP/2 is expensive and prone to
/// abuse: as in kube-apiserver, unauthenticated clients get their answer and must then connect again.
fn note_identity(context: &Context, peer: &Peer, parts: &http::request::Parts, user: Option<&UserInfo>) {
    if user.is_some_and(|user| !user.in_group(UserInfo::UNAUTHENTICATED)) {
        peer.authenticated();
    } else if context.closes_unauthenticated_http2 && parts.version == http::Version::HTTP_2 {
        peer.close_after_answers();
    }
}

/// Closes HTTP/2 connections at random (`--goaway-chance`), so that clients spread over the servers. Requests in flight
/// are answered.
fn maybe_send_goaway(context: &Context, peer: &Peer, parts: &http::request::Parts) {
    if context.goaway_chance <= 0.0 || parts.version != http::Version::HTTP_2 {
        return;
    }
    let mut bytes = [0u8; 4];
    if aws_lc_rs::rand::fill(&mut bytes).is_ok()
        && f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX) < context.goaway_chance
    {
        peer.close_after_answers();
    }
}

/// The reason why authorization stops a request.
enum Refusal {
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
    fn response(self, parts: &http::request::Parts, errors: Option<Encoding>) -> ApiResponse {
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

/// Returns the effective user after impersonation.
async fn effective_user(
    context: &Context,
    user: UserInfo,
    headers: &HeaderMap,
    info: &RequestInfo,
    audit: Option<&mut pintle_audit::Record>,
) -> Result<UserInfo, Refusal> {
    let given = headers.iter().filter(|(name, _)| name.as_str().starts_with("impersonate-"));
    let given = given.map(|(name, value)| (name.as_str(), headers::text(value)));
    let Some(wanted) = impersonate::wanted(given)? else { return Ok(user) };
    let attributes = attributes_of(info, user);
    let authorizer = &*context.authorizer;
    let (user, constraint) = context.impersonation.impersonate(authorizer, &wanted, &attributes).await?;
    if let Some(audit) = audit {
        audit.impersonates(&user, &constraint);
    }
    Ok(user)
}

/// The metric labels of a rejected request: those of its route, if it has one.
fn refused_labels(
    context: &Context,
    parts: &http::request::Parts,
    info: &RequestInfo,
    query: &[(String, String)],
    accept: &Accept,
    content_type: &str,
) -> Labels {
    let asked =
        route::RouteRequest { method: parts.method.as_str(), accept, content_type, cbor: context.cbor };
    match route::route(&context.api.discovery(), info, &asked) {
        Ok(routed) if info.resource_request => Labels::of(info, &routed.target, query),
        _ => Labels::other(&parts.method),
    }
}

/// Authorizes the request.
async fn authorize(
    context: &Context,
    user: UserInfo,
    info: &RequestInfo,
    audit: Option<&mut pintle_audit::Record>,
) -> Result<UserInfo, Refusal> {
    let attributes = attributes_of(info, user);
    let began = Instant::now();
    let decision = context.authorizer.authorize(&attributes).await;
    filter_metrics::authorized(&decision, began.elapsed());
    if let Some(audit) = audit {
        let (allowed, reason) = match &decision {
            Decision::Allow(reason) => (true, reason.as_str()),
            Decision::Deny(reason) | Decision::NoOpinion(reason) => (false, reason.as_str()),
            Decision::Failed(_) => (false, "internal error"),
        };
        auditing::authorized(&audit.notes, allowed, reason);
    }
    match decision {
        Decision::Allow(_) => Ok(attributes.user),
        Decision::Deny(reason) | Decision::NoOpinion(reason) => {
            Err(Refusal::Forbidden(authz::forbidden(&attributes, &reason)))
        }
        Decision::Failed(failure) => Err(Refusal::Failed(failure.error)),
    }
}

fn attributes_of(info: &RequestInfo, user: UserInfo) -> Attributes {
    Attributes {
        user,
        verb: info.verb.clone(),
        resource_request: info.resource_request,
        path: info.path.clone(),
        group: info.group.clone(),
        version: info.version.clone(),
        resource: info.resource.clone(),
        subresource: info.subresource.clone(),
        namespace: info.namespace.clone(),
        name: info.name.clone(),
        // A selector that cannot be parsed is dropped from the attributes: the request is then authorized as if it
        // selected everything.
        field_selector: FieldSelector::parse(&info.field_selector).unwrap_or_default(),
        label_selector: LabelSelector::parse(&info.label_selector)
            .map(|selector| selector.requirements().to_vec())
            .unwrap_or_default(),
    }
}

/// Reads the body, for methods that have one.
async fn read_body<B>(method: &str, body: B) -> Result<Bytes, Status>
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if matches!(method, "GET" | "HEAD" | "OPTIONS") {
        return Ok(Bytes::new());
    }
    match Limited::new(body, BODY_BYTES_MAX).collect().await {
        Ok(collected) => Ok(collected.to_bytes()),
        Err(e) if e.is::<LengthLimitError>() => Err(respond::too_large(BODY_BYTES_MAX)),
        Err(e) => Err(Status::bad_request(e.to_string())),
    }
}

/// Returns the time-out of a request. `?timeout=` may shorten the server's; it does not apply to watches.
fn request_timeout(context: &Context, read: &Read) -> Result<Duration, Status> {
    let asked = query::first(&read.query, "timeout").unwrap_or("");
    if asked.is_empty() || read.info.long_running() {
        return Ok(context.request_timeout);
    }
    let asked = GoDuration::parse(asked)
        .map_err(|e| Status::bad_request(format!("invalid timeout specified in the request URL - {e}")))?;
    let asked = Duration::from_nanos(u64::try_from(asked.0).unwrap_or(0));
    Ok(if asked.is_zero() { context.request_timeout } else { asked.min(context.request_timeout) })
}

/// Turns an answer into hyper's response: warnings, compression, caching headers.
fn finish(answer: ApiResponse, mut warnings: Vec<String>, gzip: bool) -> Response<Body> {
    let ApiResponse { code, mut headers, warnings: more, mut body } = answer;
    warnings.extend(more);
    add_warnings(&mut headers, &warnings);
    headers.entry("cache-control").or_insert(HeaderValue::from_static("no-cache, private"));
    let is_api = headers.get("content-type").is_some_and(|t| t.as_bytes().starts_with(b"application/"));
    let body = if gzip && is_api && compress::worth_it(&mut body) {
        headers.insert("content-encoding", HeaderValue::from_static("gzip"));
        headers.append("vary", HeaderValue::from_static("Accept-Encoding"));
        compress::gzip(body)
    } else {
        body
    };
    let mut response = Response::new(body);
    *response.status_mut() = StatusCode::from_u16(code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    *response.headers_mut() = headers;
    response
}

/// Adds `Warning` headers: each text once, without control characters. If they are too long together, all are
/// truncated, and those beyond the limit are dropped.
fn add_warnings(headers: &mut HeaderMap, warnings: &[String]) {
    let mut texts: Vec<&str> = Vec::new();
    for text in warnings {
        let is_fit = !text.is_empty() && !text.chars().any(char::is_control);
        if is_fit && !texts.contains(&text.as_str()) {
            texts.push(text);
        }
    }
    let chars: usize = texts.iter().map(|text| text.chars().count()).sum();
    let cut = chars > WARNINGS_CHARS_MAX;
    let mut written = 0;
    for text in texts {
        if cut && written >= WARNINGS_CHARS_MAX {
            return;
        }
        let end = text.char_indices().nth(WARNING_CHARS_MAX).map_or(text.len(), |(at, _)| at);
        let text = if cut { text.get(..end).unwrap_or(text) } else { text };
        written = written.saturating_add(text.chars().count());
        let quoted = text.replace('\\', "\\\\").replace('"', "\\\"");
        if let Ok(value) = HeaderValue::from_bytes(format!("299 - \"{quoted}\"").as_bytes()) {
            headers.append("warning", value);
        }
    }
}

/// The client's own request id, or a new one.
fn request_id(headers: &HeaderMap) -> String {
    match &*headers::first(headers, "audit-id") {
        "" => random_uuid(),
        given => given.to_string(),
    }
}

/// How many random bytes a thread draws at once. Drawing has a fixed cost: the 16 bytes of one id take half as long as these.
const RANDOM_BYTES: usize = 1024;

thread_local! {
    /// Random bytes that were drawn and are not used yet.
    static RANDOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A random (version 4) UUID.
fn random_uuid() -> String {
    let drawn = RANDOM.with_borrow_mut(|drawn| {
        if drawn.len() < 16 {
            drawn.resize(RANDOM_BYTES, 0);
            if aws_lc_rs::rand::fill(drawn).is_err() {
                drawn.clear();
            }
        }
        let bytes = drawn.last_chunk::<16>().copied()?;
        drawn.truncate(drawn.len().saturating_sub(16));
        Some(bytes)
    });
    drawn.map(|bytes| pintle_meta::generated::uid(bytes).into()).unwrap_or_default()
}

fn set(headers: &mut HeaderMap, name: &'static str, value: &str) {
    if let Ok(value) = HeaderValue::from_str(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_random_uuids() {
        let (a, b) = (random_uuid(), random_uuid());
        assert_ne!(a, b);
        assert_eq!(a.len(), 36);
        assert_eq!(a.as_bytes().get(14), Some(&b'4'));
    }

    #[test]
    fn warnings_are_quoted_and_written_once() {
        let mut headers = HeaderMap::new();
        add_warnings(&mut headers, &["a \"b\"".into(), "a \"b\"".into(), "c".into()]);
        let all: Vec<_> = headers.get_all("warning").iter().map(|v| v.to_str().unwrap()).collect();
        assert_eq!(all, ["299 - \"a \\\"b\\\"\"", "299 - \"c\""]);
    }
}
