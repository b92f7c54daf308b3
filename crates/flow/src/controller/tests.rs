use super::*;
use crate::LevelObject;
use pintle_value::{Value, json};
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

struct Simulation {
    controller: Arc<Controller<&'static str>>,
    time: Arc<AtomicU64>,
    signals: Arc<AtomicU64>,
}

fn simulate(seats: u64) -> Simulation {
    let (time, signals) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (clock, signal) = (Arc::clone(&time), Arc::clone(&signals));
    let controller = Controller::new(
        seats,
        Box::new(move || Duration::from_millis(clock.load(Ordering::Relaxed))),
        Box::new(move || _ = signal.fetch_add(1, Ordering::Relaxed)),
    );
    Simulation { controller: Arc::new(controller), time, signals }
}

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap().value
}

fn level(name: &str, shares: u64, lendable: u64, response: &str) -> LevelObject {
    let text = format!(
        r#"{{"metadata": {{"name": "{name}", "uid": "level-{name}"}}, "spec": {{"type": "Limited", "limited":
           {{"nominalConcurrencyShares": {shares}, "lendablePercent": {lendable}, "limitResponse": {response}}}}}}}"#
    );
    LevelObject::read(&parse(&text)).unwrap()
}

const REJECT: &str = r#"{"type": "Reject"}"#;
const QUEUE: &str = r#"{"type": "Queue", "queuing": {"queues": 8, "handSize": 2, "queueLengthLimit": 5}}"#;

fn schema(name: &str, level: &str, precedence: u64, user: &str) -> SchemaObject {
    let text = format!(
        r#"{{"metadata": {{"name": "{name}", "uid": "schema-{name}"}}, "spec": {{"matchingPrecedence": {precedence},
           "priorityLevelConfiguration": {{"name": "{level}"}}, "distinguisherMethod": {{"type": "ByUser"}}, "rules": [{{
           "subjects": [{{"kind": "User", "user": {{"name": "{user}"}}}}],
           "resourceRules": [{{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "namespaces": ["*"], "clusterScope": true}}]}}]}}}}"#
    );
    SchemaObject::read(&parse(&text))
}

impl Simulation {
    fn enter(&self, user: &str, group: &str) -> (Arc<Flow>, Entry<&'static str>) {
        let groups = [group.to_string()];
        let request = Digest {
            user,
            groups: &groups,
            verb: "get",
            resource_request: true,
            path: "/api/v1/nodes",
            group: "",
            resource: "nodes",
            subresource: "",
            namespace: "",
        };
        self.controller.enter(&request, ReadWrite::Read, |_| (Work::ONE, None), || "detail")
    }

    fn schema_of(&self, user: &str, group: &str) -> String {
        self.enter(user, group).0.schema.to_string()
    }

    fn seat(&self, user: &str) -> Seat<&'static str> {
        match self.enter(user, "system:authenticated").1 {
            Entry::Execute(seat) => seat,
            Entry::Wait(_) | Entry::Reject { .. } => panic!("there is a seat"),
        }
    }

    fn row(&self, name: &str) -> Option<LevelRow> {
        self.controller.level_rows().into_iter().find(|row| &*row.name == name)
    }
}

fn poll<D>(waiting: &mut Waiting<D>) -> Poll<Seat<D>> {
    pin!(waiting).as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn without_objects_the_mandatory_ones_are_in_force() {
    let simulation = simulate(600);
    assert_eq!(simulation.schema_of("boss", "system:masters"), "exempt");
    assert_eq!(simulation.schema_of("alice", "system:authenticated"), "catch-all");
    assert_eq!(simulation.schema_of("alice", "nobody"), "catch-all");
    assert!(simulation.enter("alice", "system:authenticated").0.schema_uid.is_empty());
}

#[test]
fn precedence_then_name_decide_and_schemas_without_a_level_do_not_count() {
    let simulation = simulate(600);
    let levels = || vec![level("a", 10, 0, REJECT)];
    let schemas = || {
        vec![
            schema("second", "a", 500, "alice"),
            schema("first", "a", 500, "alice"),
            schema("dangling", "none", 100, "alice"),
            schema("all", "a", 600, "*"),
        ]
    };
    simulation.controller.configure(levels(), schemas());
    assert_eq!(simulation.schema_of("alice", "system:authenticated"), "first");
    assert_eq!(simulation.schema_of("bob", "system:authenticated"), "all");
    assert_eq!(&simulation.enter("bob", "").0.level_uid[..], b"level-a");
    let more = levels().into_iter().chain([level("none", 1, 0, REJECT)]).collect();
    simulation.controller.configure(more, schemas());
    assert_eq!(simulation.schema_of("alice", "system:authenticated"), "dangling");
}

#[test]
fn a_level_whose_object_is_gone_stays_until_it_is_idle() {
    let simulation = simulate(600);
    simulation.controller.configure(vec![level("a", 10, 0, QUEUE)], vec![schema("s", "a", 500, "alice")]);
    let seat = simulation.seat("alice");
    simulation.controller.configure(Vec::new(), Vec::new());
    assert!(simulation.row("a").is_some_and(|row| row.is_quiescing && row.executing == 1));
    drop(seat);
    assert_eq!(simulation.signals.load(Ordering::Relaxed), 1);
    assert!(simulation.controller.maintain().1);
    simulation.controller.configure(Vec::new(), Vec::new());
    assert!(simulation.row("a").is_none());
}

#[test]
fn a_waiting_request_gets_a_seat_or_leaves_the_queue() {
    let simulation = simulate(2);
    simulation.controller.configure(vec![level("a", 1, 0, QUEUE)], vec![schema("s", "a", 500, "*")]);
    let first = simulation.seat("alice");
    let wait = || match simulation.enter("bob", "system:authenticated").1 {
        Entry::Wait(waiting) => waiting,
        Entry::Execute(_) | Entry::Reject { .. } => panic!("it waits"),
    };
    let (mut second, dropped, given_up) = (wait(), wait(), wait());
    assert!(poll(&mut second).is_pending());
    drop(dropped);
    assert!(matches!(given_up.leave_queue(), Err(1)));
    simulation.time.store(7, Ordering::Relaxed);
    drop(first);
    let Poll::Ready(seat) = poll(&mut second) else { panic!("there is a seat") };
    let row = simulation.row("a").unwrap();
    assert_eq!((row.executing, row.waiting, row.totals.cancelled, row.totals.dispatched), (1, 0, 2, 2));
    let requests = simulation.controller.request_rows();
    assert_eq!(requests.len(), 1);
    assert!(requests[0].by_user && requests[0].began == Some(Duration::from_millis(7)));
    drop(seat);
    let reports = simulation.controller.flow_reports();
    let (_, _, report) = reports.iter().find(|(schema, _, _)| &**schema == "s").unwrap();
    assert_eq!((report.dispatched, report.rejected), (2, [0, 0, 2]));
    assert_eq!((report.executing_requests, report.executing_seats, report.inqueue_requests), (0, 0, 0));
    assert_eq!(report.wait_executed.count(), 4);
}

#[test]
fn seats_that_are_not_needed_are_lent_after_ten_seconds() {
    let simulation = simulate(100);
    let levels = || vec![level("a", 50, 50, REJECT), level("b", 45, 50, REJECT)];
    simulation.controller.configure(levels(), vec![schema("s", "a", 500, "*")]);
    let current = |name: &str| {
        simulation.controller.level_reports().iter().find(|r| &*r.name == name).map_or(0, |r| r.current)
    };
    let before = current("a");
    let seats: Vec<_> = (0..before).map(|_| simulation.seat("alice")).collect();
    assert!(matches!(simulation.enter("alice", "").1, Entry::Reject { retry_after: 1 }));
    simulation.time.store(10_000, Ordering::Relaxed);
    simulation.controller.adjust();
    assert!(current("a") > before, "{before} {}", current("a"));
    drop(seats);
}

#[test]
fn flows_are_hashed_as_kube_apiserver_hashes_them() {
    // SHA-256 of "global-default\0alice", its first eight bytes.
    assert_eq!(hash("global-default", "alice"), 17_644_606_172_554_983_095);
    assert_ne!(hash("a", "b"), hash("ab", ""));
}
