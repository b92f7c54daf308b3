//! Flow control in the filter chain: priority and fairness, or the plain limits on requests in flight. Decides when a
//! request gets its seat, how long it holds it, and how a rejected client is answered.

mod dump;
mod follow;
mod inflight;
mod report;

use crate::api::{Api, ApiResponse};
use crate::requestinfo::RequestInfo;
use crate::turns::{ClientTurns, Turn};
use crate::{headers, query, respond, spans};
use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue};
use inflight::{InFlightGuard, InFlightLimits};
use pintle_auth::UserInfo;
use pintle_flow::estimate::{self, ListParameters, Stored};
use pintle_flow::{Controller, Digest, Entry, Estimate, Flow, ReadWrite, Seat, WatchRegistration, Work};
use pintle_meta::selector::FieldSelector;
use pintle_meta::strconv;
use pintle_metrics::{Family, families};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

pub(crate) use dump::serve as serve_dump;

/// The longest time that a request waits for a seat; otherwise a quarter of its own deadline.
const WAIT_MAX: Duration = Duration::from_secs(60);
/// How often the gauges of requests that execute and that wait are updated.
const WATERMARK_INTERVAL: Duration = Duration::from_secs(1);
const SCHEMA_HEADER: HeaderName = HeaderName::from_static("x-kubernetes-pf-flowschema-uid");
const LEVEL_HEADER: HeaderName = HeaderName::from_static("x-kubernetes-pf-prioritylevel-uid");

/// The filter that limits concurrent requests.
pub enum FlowControl {
    /// Priority and fairness.
    Fair(Arc<Fair>),
    /// Limits on concurrent reads and concurrent writes.
    InFlight(InFlightLimits),
}

/// Priority and fairness, with the parts of the server that it depends on.
pub struct Fair {
    controller: Arc<Controller<Detail>>,
    /// Wakes the task that frees seats whose time has passed.
    due: Arc<tokio::sync::Notify>,
    /// The wall-clock time at which the controller's clock started.
    began: SystemTime,
    /// Held while the objects are read and put in force.
    reading: Mutex<()>,
}

/// A request in the dump of requests.
#[derive(Clone)]
pub(crate) struct Detail {
    info: Arc<RequestInfo>,
    user: Arc<str>,
}

/// The seat and permits that a request holds while it runs; released on drop.
#[derive(Default)]
pub(crate) struct Held {
    seat: Option<Seat<Detail>>,
    watch: Option<WatchRegistration>,
    in_flight: Option<InFlightGuard>,
    flow: Option<Arc<Flow>>,
    work: Option<Work>,
    /// The time at which the request got its seat.
    seated: Option<Instant>,
    /// The time at which the seat is released at the latest, even if the client has not read the whole answer.
    until: Option<Instant>,
    is_watch: bool,
    is_exempt: bool,
    /// The request's turns on a processor, unless it is exempt or long-running.
    turn: Option<Turn>,
}

/// The facts about a request that flow control uses.
pub(crate) struct FlowRequest<'a> {
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
        let (controller, began) = (Arc::new(controller), SystemTime::now());
        FlowControl::Fair(Arc::new(Fair { controller, due, began, reading: Mutex::default() }))
    }

    /// At most so many concurrent reads and writes; 0 means no limit.
    pub fn in_flight(reads: u64, writes: u64) -> Self {
        FlowControl::InFlight(InFlightLimits::new(reads, writes))
    }

    /// Admits a request when a seat is free and it is its turn to run. `Err` is the answer to a rejected request; `held` records
    /// the classification in either case.
    pub(crate) async fn admit(
        &self,
        api: &dyn Api,
        turns: &ClientTurns,
        request: &FlowRequest<'_>,
        held: &mut Held,
    ) -> Result<(), ApiResponse> {
        let seated = self.seat(api, request, held).await;
        let is_exempt = match self {
            FlowControl::Fair(_) => {
                held.flow.as_ref().is_some_and(|flow| &*flow.level == pintle_flow::EXEMPT)
            }
            FlowControl::InFlight(_) => request.user.in_group(UserInfo::MASTERS),
        };
        held.is_exempt = is_exempt;
        let key = turns.all().key_of_user(&request.user.name);
        turns.set_user(key, is_exempt);
        let has_turn = turns.take_unused();
        if let Err(retry_after) = seated {
            turns.all().turn_for_refusal(key).next().await;
            return Err(too_many_requests(retry_after));
        }
        if !is_exempt {
            let mut turn = turns.all().turn_for_request(key);
            if !has_turn {
                turn.next().await;
            }
            // Streams to pods and nodes produce their chunks elsewhere.
            held.turn = Some(turn).filter(|_| held.is_watch || !request.info.long_running());
        }
        Ok(())
    }

    /// Updates the gauges of requests that execute and that wait: like those of kube-apiserver they are the maximum of the
    /// last second. Runs until it is dropped.
    pub(crate) async fn update_watermarks(&self) {
        let mut ticks = tokio::time::interval(WATERMARK_INTERVAL);
        loop {
            ticks.tick().await;
            match self {
                FlowControl::Fair(fair) => {
                    let [reads, writes, waiting_reads, waiting_writes] = fair.controller.take_watermarks();
                    set_watermarks(&families::INFLIGHT, [reads, writes]);
                    set_watermarks(&families::INQUEUE, [waiting_reads, waiting_writes]);
                }
                FlowControl::InFlight(limits) => {
                    let counts =
                        limits.take_watermarks().map(|count| u32::try_from(count).unwrap_or(u32::MAX));
                    set_watermarks(&families::INFLIGHT, counts);
                }
            }
        }
    }

    /// Waits for a seat. `Err` is the `Retry-After` in seconds.
    async fn seat(&self, api: &dyn Api, request: &FlowRequest<'_>, held: &mut Held) -> Result<(), u64> {
        let is_watch = request.info.verb == "watch";
        match self {
            // Streams to pods and nodes do not occupy seats, and watches only while they start.
            FlowControl::Fair(_) if request.info.long_running() && !is_watch => Ok(()),
            FlowControl::Fair(fair) => {
                held.is_watch = is_watch;
                held.until = request.began.checked_add(request.timeout);
                held.seat = Some(fair.seat(api, request, held).await?);
                // Only the request log contains the time of execution.
                held.seated = spans::are_requests_logged().then(Instant::now);
                if is_watch {
                    held.watch = fair.register_watch(request);
                }
                Ok(())
            }
            FlowControl::InFlight(_) if request.info.long_running() => Ok(()),
            FlowControl::InFlight(limits) => {
                let mutating = read_write(&request.info.verb) == ReadWrite::Write;
                held.in_flight = limits.enter(mutating);
                // Members of `system:masters` are always admitted.
                let is_admitted = held.in_flight.is_some() || request.user.in_group(UserInfo::MASTERS);
                is_admitted.then_some(()).ok_or(1)
            }
        }
    }
}

fn set_watermarks(family: &Family, [reads, writes]: [u32; 2]) {
    family.set(&["readOnly"], f64::from(reads));
    family.set(&["mutating"], f64::from(writes));
}

impl Fair {
    /// Waits for a seat. `Err` is the `Retry-After` in seconds.
    async fn seat(
        &self,
        api: &dyn Api,
        request: &FlowRequest<'_>,
        held: &mut Held,
    ) -> Result<Seat<Detail>, u64> {
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
                    Err(_) => waiting.leave_queue(),
                }
            }
        }
    }

    /// Estimates the work of a request, and how many watches it notifies.
    fn estimate(&self, api: &dyn Api, request: &FlowRequest<'_>, level_seats: u64) -> Estimate {
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
    fn register_watch(&self, request: &FlowRequest<'_>) -> Option<WatchRegistration> {
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

/// The classification of a request, for the log.
pub(crate) struct Classified {
    pub(crate) flow: Arc<Flow>,
    pub(crate) work: Work,
    /// When the request got its seat; none if it was rejected.
    pub(crate) seated: Option<Instant>,
}

impl Held {
    /// Returns whether the request waits for no others.
    pub(crate) fn is_exempt(&self) -> bool {
        self.is_exempt
    }

    /// How priority and fairness classified the request, if it did.
    pub(crate) fn classified(&self) -> Option<Classified> {
        Some(Classified { flow: self.flow.clone()?, work: self.work?, seated: self.seated })
    }

    /// Adds the headers that tell the client how its request was classified.
    pub(crate) fn set_headers(&self, out: &mut HeaderMap) {
        let Some(flow) = &self.flow else { return };
        let value = |uid: &Bytes| HeaderValue::from_maybe_shared(uid.clone()).ok();
        if let (Some(schema), Some(level)) = (value(&flow.schema_uid), value(&flow.level_uid)) {
            headers::prepend(out, SCHEMA_HEADER, schema);
            headers::prepend(out, LEVEL_HEADER, level);
        }
    }

    /// Called when a chunk of the answer was produced or is pending. A watch releases its seat once it has caught up;
    /// others when their time has passed, even if their clients still read.
    pub(crate) fn progressed(&mut self, is_pending: bool) {
        let is_over = || self.until.is_some_and(|until| Instant::now() >= until);
        if self.seat.is_some() && ((self.is_watch && is_pending) || is_over()) {
            self.seat = None;
        }
        if self.is_watch && is_pending {
            self.turn = None;
        }
    }

    /// Is ready when the next chunk of the answer may be produced.
    pub(crate) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.turn.as_mut().map_or(Poll::Ready(()), |turn| turn.poll_next(cx))
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
        send_initial_events: strconv::parse_bool(text("sendInitialEvents")) == Some(true),
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
