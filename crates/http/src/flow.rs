//! Flow control in the filter chain: priority and fairness, or the plain limits on requests in flight. Decides when a
//! request gets its seat, how long it holds it, and how a rejected client is answered.

mod dump;
mod follow;
mod inflight;
mod report;

use crate::api::{Api, ApiResponse};
use crate::requestinfo::RequestInfo;
use crate::{query, respond};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use inflight::{InFlightGuard, InFlightLimits};
use pintle_auth::UserInfo;
use pintle_flow::estimate::{self, ListParameters, Stored};
use pintle_flow::{Controller, Digest, Entry, Estimate, Flow, ReadWrite, Seat, WatchRegistration, Work};
use pintle_meta::selector::FieldSelector;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

pub(crate) use dump::serve as serve_dump;

/// The longest time that a request waits for a seat; otherwise a quarter of its own deadline.
const WAIT_MAX: Duration = Duration::from_secs(60);
const SCHEMA_HEADER: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_HEADER: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// What limits requests.
pub enum FlowControl {
    /// Priority and fairness.
    Fair(Arc<Fair>),
    /// Limits on concurrent reads and concurrent writes.
    InFlight(InFlightLimits),
}

/// Priority and fairness, and what it needs from the server.
pub struct Fair {
    controller: Arc<Controller<Detail>>,
    /// Wakes the task that frees seats whose time has passed.
    due: Arc<tokio::sync::Notify>,
    /// The wall-clock time at which the controller's clock started.
    began: SystemTime,
}

/// What the dump of requests says about a request.
#[derive(Clone)]
pub(crate) struct Detail {
    info: Arc<RequestInfo>,
    user: Arc<str>,
}

/// What a request holds while it runs; released on drop.
#[derive(Default)]
pub(crate) struct Held {
    seat: Option<Seat<Detail>>,
    watch: Option<WatchRegistration>,
    in_flight: Option<InFlightGuard>,
    flow: Option<Arc<Flow>>,
    work: Option<Work>,
    /// When it got its seat.
    seated: Option<Instant>,
    /// When the seat is released at the latest, even if the client still reads.
    until: Option<Instant>,
    is_watch: bool,
}

/// The facts about a request that flow control uses.
pub(crate) struct Asking<'a> {
    pub(crate) info: &'a Arc<RequestInfo>,
    pub(crate) query: &'a [(String, String)],
    pub(crate) user: &'a UserInfo,
    pub(crate) began: Instant,
    /// The request's time-out; for watches that of other requests.
    pub(crate) timeout: Duration,
}

impl FlowControl {
    /// Priority and fairness with this many seats.
    pub fn fair(seats: u64) -> Self {
        let began = Instant::now();
        let due = Arc::new(tokio::sync::Notify::new());
        let notify = Arc::clone(&due);
        let controller =
            Controller::new(seats, Box::new(move || began.elapsed()), Box::new(move || notify.notify_one()));
        FlowControl::Fair(Arc::new(Fair { controller: Arc::new(controller), due, began: SystemTime::now() }))
    }

    /// At most so many concurrent reads and writes; 0 means no limit.
    pub fn in_flight(reads: u64, writes: u64) -> Self {
        FlowControl::InFlight(InFlightLimits::new(reads, writes))
    }

    /// Admits a request at once or when a seat is free. `Err` is the answer to a rejected request; `held` records the
    /// classification in either case.
    pub(crate) async fn admit(
        &self,
        api: &dyn Api,
        request: &Asking<'_>,
        held: &mut Held,
    ) -> Result<(), ApiResponse> {
        let is_watch = request.info.verb == "watch";
        match self {
            // Streams to pods and nodes do not occupy seats, and watches only while they start.
            FlowControl::Fair(_) if request.info.long_running() && !is_watch => Ok(()),
            FlowControl::Fair(fair) => {
                held.is_watch = is_watch;
                held.until = request.began.checked_add(request.timeout);
                let seat = fair.seat(api, request, held).await.map_err(too_many_requests)?;
                held.seat = Some(seat);
                held.seated = Some(Instant::now());
                if is_watch {
                    held.watch = fair.register_watch(request);
                }
                Ok(())
            }
            FlowControl::InFlight(_) if request.info.long_running() => Ok(()),
            FlowControl::InFlight(limits) => {
                let mutating = read_write(&request.info.verb) == ReadWrite::Write;
                match limits.enter(mutating) {
                    Some(guard) => held.in_flight = Some(guard),
                    // Members of `system:masters` are always admitted.
                    None if request.user.in_group(UserInfo::MASTERS) => {}
                    None => return Err(too_many_requests(1)),
                }
                Ok(())
            }
        }
    }
}

impl Fair {
    /// Waits for a seat. `Err` is the `Retry-After` in seconds.
    async fn seat(&self, api: &dyn Api, request: &Asking<'_>, held: &mut Held) -> Result<Seat<Detail>, u64> {
        let (info, user) = (request.info, request.user);
        let digest = Digest {
            user: &user.name,
            groups: &user.groups,
            verb: &info.verb,
            resource_request: info.resource_request,
            path: &info.path,
            group: &info.group,
            resource: &info.resource,
            subresource: &info.subresource,
            namespace: &info.namespace,
        };
        let detail = || Detail { info: Arc::clone(info), user: user.name.as_str().into() };
        let mut work = Work::ONE;
        let estimate = |level_seats| {
            let estimated = self.estimate(api, request, level_seats);
            work = estimated.0;
            estimated
        };
        let (flow, entry) = self.controller.enter(&digest, read_write(&info.verb), estimate, detail);
        held.flow = Some(flow);
        held.work = Some(work);
        match entry {
            Entry::Execute(seat) => Ok(seat),
            Entry::Reject { retry_after } => Err(retry_after),
            Entry::Wait(mut waiting) => {
                let limit =
                    request.timeout.div_f64(4.0).min(WAIT_MAX).saturating_sub(request.began.elapsed());
                match tokio::time::timeout(limit, &mut waiting).await {
                    Ok(seat) => Ok(seat),
                    Err(_) => waiting.give_up(),
                }
            }
        }
    }

    /// Estimates the work of a request, and how many watches it notifies.
    fn estimate(&self, api: &dyn Api, request: &Asking<'_>, level_seats: u64) -> Estimate {
        let info = request.info;
        match info.verb.as_str() {
            "list" | "watch" => {
                let work = match list_parameters(info, request.query) {
                    Some(parameters) => parameters.work(api.stored(&info.group, &info.resource), level_seats),
                    None => estimate::unreadable_list(level_seats),
                };
                (work, None)
            }
            // Issuing a token changes no watched object.
            "create" if info.resource == "serviceaccounts" && info.subresource == "token" => {
                (Work::ONE, None)
            }
            "create" | "update" | "patch" | "delete" => {
                let watches = self.controller.watches();
                let count = watches.interested(&info.group, &info.resource, &info.namespace, &info.name);
                (estimate::write(count, level_seats), Some(count))
            }
            _ => (Work::ONE, None),
        }
    }

    /// Registers a watch, so that the estimate of writes includes its notification.
    fn register_watch(&self, request: &Asking<'_>) -> Option<WatchRegistration> {
        let info = request.info;
        if info.resource == "pods" {
            // Watches of one node's pods are indexed: a write notifies hardly any of them.
            let selector = query::first(request.query, "fieldSelector").map(FieldSelector::parse);
            let of_a_node = matches!(&selector, Some(Ok(selector)) if selector.required_value("spec.nodeName").is_some_and(|node| !node.is_empty()));
            if of_a_node {
                return None;
            }
        }
        let watches = self.controller.watches();
        Some(watches.register(&info.group, &info.resource, &info.namespace, &info.name))
    }
}

/// What is logged of how a request was classified.
pub(crate) struct Classified {
    pub(crate) flow: Arc<Flow>,
    pub(crate) work: Work,
    /// When it got its seat; none if it was rejected.
    pub(crate) seated: Option<Instant>,
}

impl Held {
    /// How priority and fairness classified the request, if it did.
    pub(crate) fn classified(&self) -> Option<Classified> {
        Some(Classified { flow: self.flow.clone()?, work: self.work?, seated: self.seated })
    }

    /// Adds the headers that tell the client how its request was classified.
    pub(crate) fn set_headers(&self, headers: &mut HeaderMap) {
        let Some(flow) = &self.flow else { return };
        let value = |uid: &Bytes| HeaderValue::from_maybe_shared(uid.clone()).ok();
        if let (Some(schema), Some(level)) = (value(&flow.schema_uid), value(&flow.level_uid)) {
            headers.insert(SCHEMA_HEADER, schema);
            headers.insert(LEVEL_HEADER, level);
        }
    }

    /// Called when a chunk of the answer was produced or is pending. A watch releases its seat once it has caught up;
    /// others when their time has passed, even if their clients still read.
    pub(crate) fn progressed(&mut self, is_pending: bool) {
        let is_over = || self.until.is_some_and(|until| Instant::now() >= until);
        if self.seat.is_some() && ((self.is_watch && is_pending) || is_over()) {
            self.seat = None;
        }
    }
}

/// Whether a verb reads or writes. Unknown verbs count as writes.
fn read_write(verb: &str) -> ReadWrite {
    match verb {
        "get" | "list" => ReadWrite::Read,
        "watch" => ReadWrite::Watch,
        _ => ReadWrite::Write,
    }
}

/// Parses the list parameters; `None` if they are invalid.
fn list_parameters<'a>(info: &RequestInfo, query: &'a [(String, String)]) -> Option<ListParameters<'a>> {
    let text = |key: &str| query::first(query, key).unwrap_or("");
    let limit = match text("limit") {
        "" => 0,
        limit => limit.parse::<i64>().ok()?,
    };
    if !text("timeoutSeconds").is_empty() {
        text("timeoutSeconds").parse::<i64>().ok()?;
    }
    Some(ListParameters {
        watch: info.verb == "watch",
        single: !info.name.is_empty(),
        limit: u64::try_from(limit).unwrap_or(0),
        resource_version: text("resourceVersion"),
        resource_version_match: text("resourceVersionMatch"),
        continues: !text("continue").is_empty(),
        send_initial_events: matches!(text("sendInitialEvents"), "1" | "t" | "T" | "true" | "TRUE" | "True"),
        selects: !text("fieldSelector").is_empty() || !text("labelSelector").is_empty(),
    })
}

fn too_many_requests(retry_after: u64) -> ApiResponse {
    let mut response = respond::text(429, "Too many requests, please try again later.");
    response.set_header("retry-after", &retry_after.to_string());
    response
}

/// Number and size of a resource's objects, for estimates: [`Api::stored`].
pub type StoredObjects = Stored;
