//! Sends a request that has passed the filters to what answers it: an extension server, a page, a stream to a node, or
//! the API.

use crate::aggregate::{self, Aggregated, Destination};
use crate::api::{ApiRequest, ApiResponse};
use crate::body::ClientBody;
use crate::chain::Record;
use crate::conditional::Conditions;
use crate::context::Context;
use crate::discovery::DiscoveryState;
use crate::handler_time::HandlerTime;
use crate::metrics::{self, Labels, LongRunning};
use crate::negotiate::{Accept, Encoding, Media};
use crate::offload::LARGE_BODY_BYTES;
use crate::peer::Peer;
use crate::peer_proxy::PeerProxy;
use crate::request_memory::HeldMemory;
use crate::requestinfo::RequestInfo;
use crate::route::{self, Action, Routed};
use crate::streams::Streamed;
use crate::{
    auditing, console, debug, filter_metrics, headers, logs, nonresource, passthrough, query, respond,
    target, websocket,
};
use bytes::Bytes;
use http::HeaderValue;
use http::header::{ACCEPT, CONTENT_TYPE, USER_AGENT};
use pintle_auth::{UserInfo, authz};
use pintle_controllers::aggregation::Remote;
use pintle_controllers::peers;
use pintle_meta::Status;
use pintle_meta::options::{Query, WriteOptions};
use pintle_proxy::Address;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The resource whose answer has all rules of a user, which may be hundreds of thousands.
const RULES_REVIEWS: &str = "selfsubjectrulesreviews";

/// The largest request body in bytes.
pub const BODY_BYTES_MAX: usize = 3 * 1024 * 1024;
/// The code in the audit events of forwarded requests that timed out. It is the proxy's own code, which only the
/// audit log contains.
const PROXY_FAILED: u16 = 503;
const GATEWAY_TIMEOUT: u16 = 504;

/// Where a request is forwarded to.
enum Forwarding<'a> {
    Extension(&'a Remote),
    Peer(&'a PeerProxy, Address),
}

/// A request whose method, path and headers have been parsed.
pub(crate) struct Call<'a> {
    pub(crate) context: &'a Context,
    pub(crate) peer: &'a Peer,
    pub(crate) parts: &'a http::request::Parts,
    pub(crate) id: &'a str,
    pub(crate) began: Instant,
    /// The time limit of the request; watches have none.
    pub(crate) timeout: Duration,
    pub(crate) info: Arc<RequestInfo>,
    pub(crate) query: Vec<(String, String)>,
    pub(crate) accept: Accept,
}

impl<'a> Call<'a> {
    /// Parses path, query and Accept headers. The error is the answer to a request that cannot be parsed.
    pub(crate) fn read(
        context: &'a Context,
        peer: &'a Peer,
        parts: &'a http::request::Parts,
        id: &'a str,
        began: Instant,
    ) -> Result<Self, ApiResponse> {
        let path = query::unescape(target::path(parts), false)
            .ok_or_else(|| respond::text(400, "400 Bad Request"))?;
        let query = query::parse(target::query(parts));
        let info = RequestInfo::parse(parts.method.as_str(), path, &query).map_err(|_| {
            let uri = target::begin(target::path_and_query(parts));
            let why = format!("unable to determine kind and namespace from url, {uri}");
            let text = format!("Internal Server Error: {uri:?}: failed to create RequestInfo: {why}");
            respond::text(500, &authz::html_safe(&text))
        })?;
        let pretty = query::first(&query, "pretty");
        let value = |name| headers::first(&parts.headers, name);
        let accept = peer.last_accept.parse(&value(ACCEPT), pretty, &value(USER_AGENT));
        let timeout = context.request_timeout;
        Ok(Call { context, peer, parts, id, began, timeout, info: Arc::new(info), query, accept })
    }

    /// The metric labels of a request that is refused: those of the route that it would have with this media type, if there is one.
    pub(crate) fn labels_as(&self, content_type: &str) -> Labels {
        match self.route(&self.context.api.discovery(), content_type) {
            Ok(routed) if self.info.resource_request => Labels::of(&self.info, &routed.target, &self.query),
            _ => Labels::unrouted(&self.parts.method, &self.info),
        }
    }

    fn method(&self) -> &'a str {
        self.parts.method.as_str()
    }

    fn route(&self, state: &DiscoveryState, content_type: &str) -> Result<Routed, ApiResponse> {
        let (method, cbor) = (self.method(), self.context.cbor);
        let request = route::RouteRequest { method, accept: &self.accept, content_type, cbor };
        route::route(state, &self.info, &request)
    }

    /// Answers the request of an authorized user. What ordinary requests for resources do not need is boxed: the future of a request
    /// has room for the largest branch, and is copied when it is made.
    pub(crate) async fn dispatch<B: ClientBody>(
        &mut self,
        user: Arc<UserInfo>,
        body: B,
        record: &mut Record,
    ) -> ApiResponse {
        if let Some(service) = aggregate::find(&self.context.aggregation, &self.info.path)
            && let Some(remote) = &service.remote
        {
            return Box::pin(self.forward(Forwarding::Extension(remote), &user, body, record)).await;
        }
        let state = self.context.api.discovery();
        if let Some(peers) = &self.context.peers
            && let errors = self.accept.for_errors(Media::WITHOUT_CBOR)
            && let Some(found) = peers.find(&state, &self.info, &self.parts.headers, errors)
        {
            return match found {
                Ok(to) => Box::pin(self.forward(Forwarding::Peer(peers, to), &user, body, record)).await,
                Err(refusal) => {
                    record.forwarded = true;
                    refusal
                }
            };
        }
        if !self.info.resource_request {
            return Box::pin(self.serve_page(&state, &user, body, record)).await;
        }
        // A path such as `//api/v1` counts as a resource for authorization, but nothing is served there.
        if !self.info.path.strip_prefix('/').is_some_and(|path| path.starts_with(self.info.prefix.as_str())) {
            return respond::page_not_found();
        }
        match self.route(&state, &headers::first(&self.parts.headers, CONTENT_TYPE)) {
            Ok(routed) => self.serve_resource(routed, user, body, record).await,
            Err(refusal) => Box::pin(self.refuse_route(refusal, &user, body, record)).await,
        }
    }

    /// Forwards the request to an extension server or a peer.
    async fn forward<B: ClientBody>(
        &self,
        to: Forwarding<'_>,
        user: &UserInfo,
        body: B,
        record: &mut Record,
    ) -> ApiResponse {
        record.forwarded = true;
        let Call { context, parts, id, .. } = *self;
        let (info, query, identity) = (&*self.info, &self.query, &context.streams.identity);
        let deadline = self.began.checked_add(self.timeout).filter(|_| !info.long_running());
        let notes = record.audit.as_ref().map(|audit| Arc::clone(&audit.notes));
        let notes = notes.as_deref();
        let client = self.peer.address.ip();
        let request = Aggregated { parts, client, info, query, user, id, identity, notes, deadline };
        let is_peer = matches!(to, Forwarding::Peer(..));
        let work = async {
            let body = passthrough::body(body);
            match to {
                Forwarding::Extension(remote) => request.serve(&context.aggregation, remote, body).await,
                Forwarding::Peer(proxy, to) => {
                    request.exchange(proxy.peers.transport(), to, Destination::Peer, body).await
                }
            }
        };
        let answer = match deadline {
            None => Ok(work.await),
            Some(_) => {
                // The least time that the timer measures is a millisecond.
                let left = self.timeout.saturating_sub(self.began.elapsed());
                if left.is_zero() { Err(()) } else { tokio::time::timeout(left, work).await.map_err(drop) }
            }
        };
        if is_peer {
            // A request that timed out has failed in the proxy.
            let code = answer.as_ref().map_or(PROXY_FAILED, |answer| answer.code);
            peers::count(&code.to_string(), &info.group, &info.version, &info.resource);
        }
        let answer = answer.unwrap_or_else(|()| {
            let labels = Labels::forwarded("apiserver", &parts.method, info);
            metrics::count_termination(&labels, GATEWAY_TIMEOUT);
            if let Some(audit) = &mut record.audit {
                audit.record_code(PROXY_FAILED);
            }
            respond::timed_out()
        });
        record.labels = self.page_labels(&answer);
        answer
    }

    /// The metric labels of a page. They depend on the answer, because its content type is a label.
    fn page_labels(&self, answer: &ApiResponse) -> Option<Labels> {
        let content_type = answer.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let content_type = content_type.unwrap_or("");
        Labels::of_page(&self.info.path, &self.parts.method, answer.code, content_type)
    }

    /// Answers a request for something other than a resource: console, debugging, health, discovery, documents.
    async fn serve_page<B: ClientBody>(
        &self,
        state: &Arc<DiscoveryState>,
        user: &UserInfo,
        body: B,
        record: &mut Record,
    ) -> ApiResponse {
        let answer = self.page(state, user, body).await;
        record.labels = self.page_labels(&answer);
        if let (Some(labels), Some(warning)) = (&record.labels, answer.warnings.first()) {
            filter_metrics::deprecated(labels, warning);
            if let Some(audit) = &record.audit {
                audit.notes.annotate("k8s.io/deprecated", "true");
            }
        }
        answer
    }

    async fn page<B: ClientBody>(
        &self,
        state: &Arc<DiscoveryState>,
        user: &UserInfo,
        body: B,
    ) -> ApiResponse {
        let Call { context, peer, parts, .. } = *self;
        let (method, path, query) = (self.method(), &*self.info.path, &self.query);
        let body = match console::serve(context, parts, &peer.certificates, path, user, body).await {
            Ok(answer) => return answer,
            Err(body) => body,
        };
        let debug = debug::DebugRequest { method, path, query };
        if let Some(answer) = debug::serve(context.profiler.as_ref(), &debug, body).await {
            return answer;
        }
        if context.serves_logs
            && let Some(answer) = logs::serve(parts, path, &self.accept).await
        {
            return answer;
        }
        if let Some(answer) = context.health.serve(path, query).await {
            return answer;
        }
        let if_none_match = &*headers::first(&parts.headers, "if-none-match");
        let accept = &self.accept;
        let accept_encoding = &*headers::first(&parts.headers, "accept-encoding");
        let request = nonresource::NonResourceRequest {
            method,
            path,
            query,
            accept,
            content_type: &headers::first(&parts.headers, "content-type"),
            if_none_match,
            conditions: &Conditions::of(&parts.method, &parts.headers),
            accept_encoding,
        };
        // Rendering the documents of thousands of kinds takes seconds, so do it on the offload pool.
        if path.starts_with("/openapi") {
            let key = context.turns.key_of_user(&user.name);
            return context.offload.run(key, async { nonresource::serve(context, state, &request) }).await;
        }
        nonresource::serve(context, state, &request)
    }

    /// Completes the answer to a request without a route.
    async fn refuse_route<B: ClientBody>(
        &self,
        refusal: ApiResponse,
        user: &UserInfo,
        body: B,
        record: &mut Record,
    ) -> ApiResponse {
        let method = self.method();
        if refusal.code != 415 || !matches!(method, "POST" | "PUT") {
            return refusal;
        }
        record.labels = Some(self.labels_as("application/json"));
        if method != "PUT" {
            return refusal;
        }
        // kube-apiserver reads the body and the options of an update before it checks the media type.
        if let Err(status) = self.read_body(user, body, record, &mut HeldMemory::default()).await {
            return respond::status(&status, Some(Encoding::Json { pretty: false }));
        }
        match WriteOptions::update(Query(&self.query)) {
            Ok(_) => refusal,
            Err(status) => {
                let errors = self.accept.for_errors(Media::served(self.context.cbor));
                respond::status(&status.with_warnings(refusal.warnings), errors)
            }
        }
    }

    /// Answers a request for a resource.
    async fn serve_resource<B: ClientBody>(
        &mut self,
        routed: Routed,
        user: Arc<UserInfo>,
        body: B,
        record: &mut Record,
    ) -> ApiResponse {
        let Call { context, parts, began, timeout, .. } = *self;
        self.record_route(&routed, record);
        let is_log = self.info.subresource == "log" && routed.target.action == Action::Get;
        if routed.target.action == Action::Connect || is_log {
            let (info, query, target) = (&*self.info, &self.query, &routed.target);
            let (client, errors) = (self.peer.address.ip(), routed.errors);
            let transform = routed.accept.transform;
            let request = Streamed { parts, client, info, target, query, user: &user, transform, errors };
            return Box::pin(request.serve(context, passthrough::body(body))).await;
        }
        if self.info.long_running() {
            let watches = matches!(routed.target.action, Action::Watch | Action::WatchOne);
            let wants_socket = watches && websocket::asked_for(&parts.headers);
            let socket =
                parts.extensions.get::<hyper::upgrade::OnUpgrade>().filter(|_| wants_socket).cloned();
            let answer = self.serve_api(routed, user, body, None, record).await;
            return match socket {
                Some(upgrade) if answer.code == 200 => websocket::switch(&parts.headers, upgrade, answer),
                _ => answer,
            };
        }
        let time = HandlerTime::of(routed.target.action, timeout);
        let errors = routed.errors;
        let now = Instant::now();
        let answer = if now.saturating_duration_since(began) >= timeout {
            None
        } else {
            let limit = now.checked_add(time.limit).unwrap_or(now);
            let deadline = began.checked_add(timeout).map_or(limit, |ends| ends.min(limit));
            // Pinned here: the timer would copy it, and it is large.
            let work = std::pin::pin!(self.serve_api(routed, user, body, Some(deadline), record));
            match tokio::time::timeout_at(limit.into(), work).await {
                Ok(answer) => Some(answer),
                Err(_) => time.expired(errors),
            }
        };
        answer.unwrap_or_else(|| {
            if let Some(audit) = record.audit.as_deref().filter(|_| self.info.is_write()) {
                auditing::timed_out(audit);
            }
            if let Some(labels) = &record.labels {
                metrics::count_termination(&labels.by_request(&self.info), GATEWAY_TIMEOUT);
            }
            respond::timed_out()
        })
    }

    /// Records the route of a request for metrics, log and audit, and warns of a deprecated version.
    fn record_route(&self, routed: &Routed, record: &mut Record) {
        let labels = Labels::of(&self.info, &routed.target, &self.query);
        if let Some(warning) = &routed.target.version().deprecation {
            record.warnings.push(warning.to_string());
            if let Some(audit) = &record.audit {
                audit.notes.annotate("k8s.io/deprecated", "true");
                if let Some(release) = filter_metrics::removed_release(warning) {
                    audit.notes.annotate("k8s.io/removed-release", release);
                }
            }
            filter_metrics::deprecated(&labels, warning);
        }
        filter_metrics::export_field_validation(&self.query);
        record.verb = Some(labels.verb);
        if self.info.long_running() {
            record.open = Some(LongRunning::begin(&labels.by_request(&self.info)));
        }
        record.labels = Some(labels);
    }

    /// Reads the body and lets the API answer. The request ends at `deadline`, unless it is long-running.
    async fn serve_api<B: ClientBody>(
        &mut self,
        routed: Routed,
        user: Arc<UserInfo>,
        body: B,
        deadline: Option<Instant>,
        record: &Record,
    ) -> ApiResponse {
        let Call { context, parts, .. } = *self;
        // Held until the answer is made.
        let mut memory = HeldMemory::default();
        let body = self.read_body(&user, body, record, &mut memory).await;
        let body = match body {
            Ok(body) => match self.reserve_objects(&routed, &user, &body, record, &mut memory).await {
                Ok(()) => body,
                Err(status) => return respond::status(&status, routed.errors),
            },
            Err(status) => return respond::status(&status, routed.errors),
        };
        let (info, query) = (Arc::clone(&self.info), std::mem::take(&mut self.query));
        let is_large = body.len() >= LARGE_BODY_BYTES || info.resource == RULES_REVIEWS;
        let query_bytes = target::query(parts).len();
        let key = context.turns.key_of_user(&user.name);
        let entry = context.offload.entry(&user.name, &info, query_bytes);
        filter_metrics::body_read(&info, body.len());
        let value = |name| parts.headers.get(name).cloned().unwrap_or(const { HeaderValue::from_static("") });
        let request = ApiRequest {
            info,
            target: routed.target,
            query,
            user_agent: value(USER_AGENT),
            content_type: value(CONTENT_TYPE),
            cbor: context.cbor,
            body,
            user,
            accept: routed.accept,
            errors: routed.errors,
        };
        let notes = record.audit.as_ref().map(|audit| Arc::clone(&audit.notes));
        let served = pintle_engine::with_deadline(deadline, context.api.serve(request));
        let served = pintle_audit::with_notes(notes, served);
        let served = pintle_trace::with_trace(record.trace.clone(), served);
        context.offload.execute(key, entry, is_large, served).await
    }

    /// Reads the body, for methods that have one.
    async fn read_body<B: ClientBody>(
        &self,
        user: &UserInfo,
        body: B,
        record: &Record,
        memory: &mut HeldMemory,
    ) -> Result<Bytes, Status> {
        if matches!(self.method(), "GET" | "HEAD" | "OPTIONS") {
            return Ok(Bytes::new());
        }
        self.context.request_memory.read_body(self.memory_of(user, record), body, memory).await
    }

    /// Waits until there is memory for the objects that a write decodes.
    async fn reserve_objects(
        &self,
        routed: &Routed,
        user: &UserInfo,
        body: &[u8],
        record: &Record,
        memory: &mut HeldMemory,
    ) -> Result<(), Status> {
        if !self.info.is_write() {
            return Ok(());
        }
        let stored = self.context.api.stored_bytes(routed.target.kind(), &self.info);
        let content_type = headers::first(&self.parts.headers, CONTENT_TYPE);
        let user = self.memory_of(user, record);
        let memory_of = &self.context.request_memory;
        memory_of.reserve_objects(user, content_type.as_bytes(), body, &stored, memory).await
    }

    /// Whose memory a request takes; `None` if it is exempt.
    fn memory_of(&self, user: &UserInfo, record: &Record) -> Option<u64> {
        (!record.held.is_exempt()).then(|| self.context.turns.key_of_user(&user.name))
    }
}
