//! What the filter chain needs to answer requests.

use crate::api::Api;
use crate::console::Console;
use crate::cors::Cors;
use crate::debug::Profiler;
use crate::flow::FlowControl;
use crate::health::Health;
use crate::lifecycle::Lifecycle;
use crate::metrics::Metrics;
use crate::offload::Offload;
use crate::openid::OpenId;
use crate::pages::Pages;
use crate::peer_proxy::PeerProxy;
use crate::request_memory::RequestMemory;
use crate::streams::Streams;
use crate::turns::ProcessorTurns;
use crate::unread::UnreadAnswers;
use http::HeaderValue;
use pintle_auth::impersonate::Impersonation;
use pintle_auth::{Authenticator, Authorizer};
use pintle_controllers::aggregation::Aggregation;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Everything that the filter chain needs to answer requests.
pub struct Context {
    /// Serves objects.
    pub api: Arc<dyn Api>,
    /// Authenticates requests.
    pub authenticator: Arc<Authenticator>,
    /// Authorizes requests.
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
    /// Decides who may act as another user.
    pub impersonation: Impersonation,
    /// The longest duration of a request; watches are exempt.
    pub request_timeout: Duration,
    /// Extension servers.
    pub aggregation: Arc<Aggregation>,
    /// Other servers on the same store, if requests are forwarded to them.
    pub peers: Option<PeerProxy>,
    /// Whether the feature gate of the peers is enabled.
    pub knows_peers: bool,
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
    /// Whether `/logs` is served (`--enable-logs-handler`).
    pub serves_logs: bool,
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
    /// Long answers that are being sent.
    pub unread: Arc<UnreadAnswers>,
    /// The memory for bodies and objects of requests in flight.
    pub request_memory: RequestMemory,
    /// The web console, where it is on.
    pub console: Option<Console>,
}
