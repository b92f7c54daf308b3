//! The filter chain: every step that a request passes through, in order.

use crate::access::{self, Refusal};
use crate::api::ApiResponse;
use crate::body::ClientBody;
use crate::completion::Completion;
use crate::context::Context;
use crate::dispatch::Call;
use crate::filter_metrics::{Filter, Steps};
use crate::finish::finish;
use crate::flow::{FlowRequest, Held};
use crate::lifecycle::{Lifecycle, Ordinary};
use crate::metrics::{Labels, LongRunning};
use crate::negotiate::Media;
use crate::peer::Peer;
use crate::request_id::{AUDIT_ID, request_id};
use crate::spans::{self, RequestLog};
use crate::unread::{self, Reading};
use crate::{Body, auditing, compress, console, cors, filter_metrics, headers, query, respond, target};
use http::header::{
    ACCEPT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, STRICT_TRANSPORT_SECURITY, USER_AGENT,
};
use http::{HeaderValue, Request, Response};
use pintle_auth::{Authenticated, UserInfo};
use pintle_meta::Status;
use pintle_meta::duration::GoDuration;
use pintle_trace::Trace;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Answers a request: reads its head, passes it through the filters, dispatches it and completes the answer.
pub(crate) async fn handle<B: ClientBody>(
    context: &Context,
    peer: &Arc<Peer>,
    request: Request<B>,
) -> Response<Body> {
    let began = Instant::now();
    let id = request_id(request.headers());
    let (parts, body) = request.into_parts();
    let mut record = Record::new(&context.lifecycle);
    // OpenAPI v3 documents are not compressed, because their entity tags are those of the plain text.
    let gzip = context.compression
        && !target::path(&parts).starts_with("/openapi/v3")
        && compress::asked_for(&headers::first(&parts.headers, ACCEPT_ENCODING));

    let origin = context.cors.as_ref().and_then(|cors| cors.allowed_origin(&parts.headers));
    maybe_send_goaway(context, peer, &parts);
    let answer = match Call::read(context, peer, &parts, &id, began) {
        Err(response) => response,
        Ok(_) if let Some(late) = context.lifecycle.refusal(&parts) => {
            peer.close_after_answers();
            late
        }
        // A CORS preflight is answered without authentication.
        Ok(_) if origin.is_some() && parts.method == http::Method::OPTIONS => ApiResponse::empty(204),
        Ok(_) if expects_the_unknown(&parts) => ApiResponse::empty(417),
        Ok(call)
            if let Some(console) = &context.console
                && console::is_public(&call.info.path) =>
        {
            let served = Box::pin(console.serve_public(context, peer, &parts, &call.info.path, body));
            let served = tokio::time::timeout(context.request_timeout, served).await;
            served.unwrap_or_else(|_| respond::timed_out())
        }
        Ok(mut call) => match filter(&mut call, &mut record).await {
            Ok(user) => call.dispatch(user, body, &mut record).await,
            Err(refusal) => refusal,
        },
    };

    let (answer, audit) =
        auditing::answered(record.audit, answer, record.long_running, record.forwarded).await;
    let response = finish(answer, record.warnings, gzip);
    let bytes_held = unread::bytes_held(response.body());
    let mut response = response.map(unread::in_pieces);
    if let Some(origin) = origin {
        cors::allow(response.headers_mut(), origin);
    }
    if let Ok(value) = HeaderValue::from_str(&id) {
        headers::prepend(response.headers_mut(), AUDIT_ID, value);
    }
    record.held.set_headers(response.headers_mut());
    if let Some(directives) = &context.strict_transport {
        response.headers_mut().insert(STRICT_TRANSPORT_SECURITY, directives.clone());
    }
    let code = response.status().as_u16();
    let log = spans::are_requests_logged().then(|| {
        Box::new(RequestLog {
            verb: record.verb.map_or_else(|| parts.method.to_string(), str::to_string),
            uri: target::path_and_query(&parts).to_string(),
            user_agent: headers::first(&parts.headers, USER_AGENT).into_owned(),
            id: id.clone(),
            client: peer.address.to_string(),
            classified: record.held.classified(),
        })
    });
    if parts.method == http::Method::HEAD {
        without_body(&mut response);
    }
    if record.long_running {
        peer.began_to_watch();
    }
    let is_checked = matches!(response.body(), Body::Chunks(_)) && !record.long_running && !record.forwarded;
    let deadline = began.checked_add(context.request_timeout);
    let reading = is_checked.then(|| Reading::begin(&context.unread, peer, bytes_held, deadline));
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
        reading,
    };
    response.map(|body| completion.after(body))
}

/// Leaves out the body of an answer to HEAD. In HTTP/2 hyper would send it, which clients take for a protocol error.
fn without_body(response: &mut Response<Body>) {
    let body = std::mem::replace(response.body_mut(), Body::empty());
    if let Some(size) = body.size().filter(|size| *size > 0) {
        response.headers_mut().entry(CONTENT_LENGTH).or_insert(size.into());
    }
}

/// The facts about a request that are recorded while it runs.
pub(crate) struct Record {
    /// The metric labels of the request; `None` for requests that no route answers, which are not counted.
    pub(crate) labels: Option<Labels>,
    pub(crate) warnings: Vec<String>,
    /// Counts a long-running request.
    pub(crate) open: Option<LongRunning>,
    /// Makes shutdown wait for the request, unless it is long-running.
    pub(crate) ordinary: Option<Ordinary>,
    pub(crate) long_running: bool,
    /// The verb as kube-apiserver logs it; without a route, it is the method.
    pub(crate) verb: Option<&'static str>,
    pub(crate) trace: Option<Arc<Trace>>,
    pub(crate) audit: Option<Box<pintle_audit::Record>>,
    pub(crate) held: Held,
    pub(crate) rejected: bool,
    /// An extension server answers.
    pub(crate) forwarded: bool,
}

impl Record {
    fn new(lifecycle: &Arc<Lifecycle>) -> Self {
        Record {
            labels: None,
            warnings: Vec::new(),
            open: None,
            ordinary: Some(lifecycle.begin()),
            long_running: false,
            verb: None,
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
    let expected = headers::first(&parts.headers, EXPECT);
    parts.version < http::Version::HTTP_2
        && !expected.is_empty()
        && !expected.eq_ignore_ascii_case("100-continue")
}

/// Passes a request through the filters. Returns its effective user; the error is the answer of the filter that stops it.
async fn filter(call: &mut Call<'_>, record: &mut Record) -> Result<Arc<UserInfo>, ApiResponse> {
    let Call { context, peer, parts, id, began, .. } = *call;
    match request_timeout(call) {
        Ok(timeout) => call.timeout = timeout,
        Err(status) => {
            let answer = respond::status(&status, call.accept.for_errors(Media::WITHOUT_CBOR));
            return Err(Box::pin(refuse_early(call, answer, status.message)).await);
        }
    }
    let call = &*call;
    let refuse = |refusal: Refusal| refusal.response(parts, call.accept.for_errors(Media::WITHOUT_CBOR));
    let info = &call.info;
    let (Authenticated { user, remarks }, mut steps) = authenticate(call).await?;
    record.warnings.extend(remarks.warning.map(str::to_string));
    record.long_running = info.long_running();
    if record.long_running {
        record.ordinary = None;
    }

    let trace = spans::begin(context, parts, info, &user, id, began);
    record.trace = Some(Arc::clone(&trace));
    trace.open("audit", steps.began());
    record.audit = auditing::received(context, peer, parts, info, &user, &remarks, id).await?;
    // Steps that are left out take no time.
    let now = if record.audit.is_some() { Instant::now() } else { steps.began() };
    let now = steps.end(Filter::Audit, now);

    trace.open(context.impersonation.filter_name(), now);
    let audit = record.audit.as_deref_mut();
    let user = if !access::impersonates(&parts.headers) {
        Ok((user, now))
    } else {
        Box::pin(access::effective_user(context, user, &parts.headers, info, audit)).await
    };
    let (user, now) = user.map_err(refuse)?;
    let impersonation = if context.impersonation.is_constrained() {
        Filter::ConstrainedImpersonation
    } else {
        Filter::Impersonation
    };
    let now = steps.end(impersonation, now);

    trace.open("priorityandfairness", now);
    let asking = FlowRequest { info, query: &call.query, user: &user, began, timeout: call.timeout };
    if let Err(answer) = context.flow.admit(&*context.api, &peer.turns, &asking, &mut record.held).await {
        record.rejected = true;
        record.labels = Some(call.labels_as(&headers::first(&parts.headers, CONTENT_TYPE)));
        return Err(answer);
    }
    let now = steps.end(Filter::Flow, Instant::now());

    trace.open("authorization", now);
    let user = access::authorize(context, user, info, record.audit.as_deref_mut(), &mut steps).await;
    user.map_err(refuse)
}

/// Authenticates a request; the error is the answer. Also returns the steps that follow.
async fn authenticate(call: &Call<'_>) -> Result<(Authenticated, Steps), ApiResponse> {
    let Call { context, peer, parts, .. } = *call;
    let (known, now) = access::authenticate(context, peer, &parts.headers, &call.info.path).await;
    let took = now.saturating_duration_since(call.began);
    filter_metrics::authenticated(peer, known.as_ref().map(|known| &*known.user), took);
    access::note_identity(context, peer, parts, known.as_ref().ok().map(|known| &*known.user));
    match known {
        Ok(known) => Ok((known, Steps::begin(now))),
        Err(_) => {
            let errors = call.accept.for_errors(Media::WITHOUT_CBOR);
            let answer = respond::status(&respond::unauthorized(), errors);
            let attempts = access::attempts(&parts.headers, &call.query, peer);
            let answer = Box::pin(refuse_early(call, answer, attempts)).await;
            context.turns.turn_for_refusal(context.turns.key_of_address(peer.address.ip())).next().await;
            Err(answer)
        }
    }
}

/// Audits a refusal from before the request had a user. The message is recorded if the answer is not.
async fn refuse_early(call: &Call<'_>, answer: ApiResponse, message: String) -> ApiResponse {
    auditing::refused_early(call.context, call.peer, call.parts, &call.info, call.id, answer, message).await
}

/// Returns the time-out of a request. `?timeout=` may shorten the server's; it does not apply to watches.
fn request_timeout(call: &Call<'_>) -> Result<Duration, Status> {
    let longest = call.context.request_timeout;
    let requested = query::first(&call.query, "timeout").unwrap_or("");
    if requested.is_empty() || call.info.long_running() {
        return Ok(longest);
    }
    let requested = GoDuration::parse(requested)
        .map_err(|e| Status::bad_request(format!("invalid timeout specified in the request URL - {e}")))?;
    let requested = Duration::from_nanos(u64::try_from(requested.0).unwrap_or(0));
    Ok(if requested.is_zero() { longest } else { requested.min(longest) })
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
