//! Coordinated leader election (feature gate CoordinatedLeaderElection): the server elects the holder of a Lease among its
//! LeaseCandidates. Before an election each candidate must have renewed lately; others are pinged and given time to answer.

use crate::identity::delete;
use pintle_cache::{CloseReason, Item, Object};
use pintle_engine::{Engine, Target};
use pintle_kinds::SemanticVersion;
use pintle_meta::{Status, Timestamp};
use pintle_value::{Str, Value, json};
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const GROUP: &str = "coordination.k8s.io";
const LEASES: &str = "/registry/leases/";
const CANDIDATES: &str = "/registry/leasecandidates/";
const MANAGER: &str = "kube-apiserver";
/// The only strategy that the server itself implements; other controllers implement others.
const OLDEST: &str = "OldestEmulationVersion";
/// How often a Lease with candidates is examined, so that its expiry is noticed.
const REQUEUE: Duration = Duration::from_secs(5);
/// How long candidates may take to answer a ping, and how long their answer is valid.
const ELECTION_SECONDS: i64 = 5;
/// The duration of a Lease after an election; its holder then renews it.
const LEASE_SECONDS: i64 = 5;
/// How long a candidate that does not renew remains a candidate. After half of this time an election makes it renew.
const CANDIDATE_SECONDS: i64 = 30 * 60;
const COLLECT_EVERY: Duration = Duration::from_secs(30 * 60);

/// The Leases to examine, and when: those whose candidates or which themselves changed. There are at most as many as objects.
type Queue = BTreeMap<(Str, Str), Instant>;

/// Holds elections until the cache shuts down.
pub(crate) async fn run(engine: Arc<Engine>) {
    if target(&engine, "leasecandidates", "", "").is_none() {
        return;
    }
    let mut watcher = engine.storage().cache().watch_resources(&[LEASES, CANDIDATES]);
    let mut queue = every_lease(&engine);
    loop {
        let next = queue.values().min().copied();
        tokio::select! {
            item = watcher.next() => match item {
                Some(Item::Event(delivery)) => {
                    let is_lease = delivery.source().is_some_and(|event| &**event.resource() == LEASES);
                    let object = delivery.object();
                    let key = if is_lease { Some(key(object)) } else { wanted_lease(object) };
                    queue.extend(key.map(|key| (key, Instant::now())));
                }
                Some(Item::Closed(CloseReason::Slow)) => {
                    watcher = engine.storage().cache().watch_resources(&[LEASES, CANDIDATES]);
                    queue = every_lease(&engine);
                }
                Some(Item::InitialEventsEnd(_) | Item::Bookmark(_)) => {}
                Some(Item::Closed(_)) | None => return,
            },
            () = tokio::time::sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
        }
        let now = Instant::now();
        let due = queue.extract_if(.., |_, at| *at <= now).map(|(key, _)| key).collect::<Vec<_>>();
        for (namespace, name) in due {
            let has_candidates = examine(&engine, &namespace, &name).await.unwrap_or_else(|why| {
                tracing::debug!(%namespace, lease = %name, error = %why, "an election did not succeed");
                true
            });
            if let Some(later) = now.checked_add(REQUEUE).filter(|_| has_candidates) {
                queue.insert((namespace, name), later);
            }
        }
    }
}

/// Deletes expired candidates, until the cache shuts down.
pub(crate) async fn collect(engine: Arc<Engine>) {
    loop {
        let now = now(&engine);
        let objects = engine.storage().cache().resource(CANDIDATES).map(|resource| resource.view());
        for object in objects.iter().flat_map(|view| view.iter()) {
            let is_alive = Candidate::read(object).is_some_and(|candidate| !candidate.has_expired(now));
            let namespace = object.namespace().unwrap_or_default();
            let Some(target) = target(&engine, "leasecandidates", namespace, object.name()) else { return };
            if !is_alive && let Err(status) = delete(&engine, &target).await {
                tracing::warn!(error = %status.message, "an expired LeaseCandidate stays for now");
            }
        }
        if engine.storage().cache().closed_within(COLLECT_EVERY).await {
            return;
        }
    }
}

fn target(engine: &Engine, plural: &str, namespace: &str, name: &str) -> Option<Target> {
    let version = if plural == "leases" { "v1" } else { "v1beta1" };
    engine.storage().target(GROUP, version, plural, namespace, name)
}

fn now(engine: &Engine) -> Timestamp {
    let (seconds, nanos) = engine.storage().clock().now();
    Timestamp { seconds, nanos }
}

/// The Leases of all candidates.
fn every_lease(engine: &Engine) -> Queue {
    let Some(resource) = engine.storage().cache().resource(CANDIDATES) else { return Queue::new() };
    let view = resource.view();
    view.iter().filter_map(|object| wanted_lease(object)).map(|key| (key, Instant::now())).collect()
}

fn key(object: &Object) -> (Str, Str) {
    (object.namespace().unwrap_or_default().into(), object.name().into())
}

/// The Lease that a candidate wants to hold.
fn wanted_lease(candidate: &Object) -> Option<(Str, Str)> {
    let tree = json::parse(candidate.json()).ok()?.value;
    Some((candidate.namespace()?.into(), tree.str_at(&["spec", "leaseName"]).into()))
}

/// Takes the next step of the election for a Lease. Returns whether it has candidates.
async fn examine(engine: &Engine, namespace: &str, name: &str) -> Result<bool, String> {
    let Some(resource) = engine.storage().cache().resource(CANDIDATES) else { return Ok(false) };
    let now = now(engine);
    let candidates: Vec<Candidate> = resource
        .view()
        .range(Some(namespace), None)
        .filter_map(|object| Candidate::read(object))
        .filter(|candidate| candidate.lease == name && !candidate.has_expired(now))
        .collect();
    let Some(target) = target(engine, "leases", namespace, name).filter(|_| !candidates.is_empty()) else {
        return Ok(false);
    };
    let failed = |status: Status| status.message;
    let lease = engine.reader().object_tree(&target).map_err(failed)?;
    match next_step(&candidates, lease.as_ref(), now)? {
        Step::Nothing => {}
        Step::Ping(names) => {
            for name in names {
                let Some(target) = self::target(engine, "leasecandidates", namespace, &name) else {
                    continue;
                };
                let ping = |tree: &mut Value| tree.set_at(&["spec", "pingTime"], now.to_value_micro());
                engine.writer().mutate(&target, Some(MANAGER), ping).await.map_err(failed)?;
            }
        }
        Step::Elect(outcome) if lease.is_none() => {
            engine
                .writer()
                .ensure(&target, MANAGER, outcome.new_lease(&target, now))
                .await
                .map_err(failed)?;
        }
        Step::Elect(outcome) => {
            let change = |lease: &mut Value| outcome.apply(lease, now);
            engine.writer().mutate(&target, Some(MANAGER), change).await.map_err(failed)?;
        }
    }
    Ok(true)
}

/// A LeaseCandidate that renewed at least once.
struct Candidate {
    name: Str,
    lease: Str,
    strategy: Str,
    emulation: Option<SemanticVersion>,
    binary: Option<SemanticVersion>,
    created: Str,
    renewed: Timestamp,
    pinged: Option<Timestamp>,
}

impl Candidate {
    fn read(object: &Object) -> Option<Candidate> {
        let tree = json::parse(object.json()).ok()?.value;
        let spec = |field: &str| tree.str_at(&["spec", field]);
        let time = |field: &str| Timestamp::parse_micro(spec(field)).ok();
        Some(Candidate {
            name: object.name().into(),
            lease: spec("leaseName").into(),
            strategy: spec("strategy").into(),
            emulation: SemanticVersion::parse(spec("emulationVersion")).ok(),
            binary: SemanticVersion::parse(spec("binaryVersion")).ok(),
            created: tree.str_at(&["metadata", "creationTimestamp"]).into(),
            renewed: time("renewTime")?,
            pinged: time("pingTime"),
        })
    }

    fn has_expired(&self, now: Timestamp) -> bool {
        after(self.renewed, CANDIDATE_SECONDS) < now
    }

    /// Whether the last ping is not answered.
    fn is_pending(&self) -> bool {
        self.pinged.is_some_and(|pinged| self.renewed < pinged)
    }

    fn has_renewed_lately(&self, now: Timestamp) -> bool {
        after(self.renewed, ELECTION_SECONDS) > now
    }
}

/// The next step of an election.
#[derive(Debug, PartialEq)]
enum Step {
    /// The Lease has the best holder, or candidates have time to answer.
    Nothing,
    /// These candidates must show that they are alive.
    Ping(Vec<Str>),
    Elect(Outcome),
}

/// The result of an election.
#[derive(Debug, PartialEq)]
struct Outcome {
    strategy: Str,
    /// The elected candidate; `None` if another controller implements the strategy.
    holder: Option<Str>,
}

fn next_step(candidates: &[Candidate], lease: Option<&Value>, now: Timestamp) -> Result<Step, String> {
    if !needs_election(candidates, lease, now)? {
        return Ok(Step::Nothing);
    }
    let may_answer = |c: &Candidate| c.pinged.is_some_and(|pinged| after(pinged, ELECTION_SECONDS) > now);
    let waits = candidates.iter().any(|c| c.is_pending() && may_answer(c));
    // A candidate that does not answer is not pinged again.
    let silent =
        candidates.iter().filter(|c| !c.has_renewed_lately(now) && !c.is_pending() && !may_answer(c));
    let silent: Vec<Str> = silent.map(|c| c.name.clone()).collect();
    if !silent.is_empty() {
        return Ok(Step::Ping(silent));
    }
    if waits {
        return Ok(Step::Nothing);
    }
    let alive: Vec<&Candidate> = candidates.iter().filter(|c| c.has_renewed_lately(now)).collect();
    let strategy = best_strategy(&alive)?.clone();
    let holder = match strategy.as_str() {
        OLDEST => Some(oldest(&alive).ok_or("no candidate has valid versions")?.name.clone()),
        _ => None,
    };
    Ok(Step::Elect(Outcome { strategy, holder }))
}

fn needs_election(candidates: &[Candidate], lease: Option<&Value>, now: Timestamp) -> Result<bool, String> {
    let Some(lease) = lease else { return Ok(true) };
    let holder = lease.str_at(&["spec", "holderIdentity"]);
    let is_old = |c: &Candidate| after(c.renewed, CANDIDATE_SECONDS / 2) < now;
    if has_lease_expired(lease, now) || holder.is_empty() || candidates.iter().any(is_old) {
        return Ok(true);
    }
    let all: Vec<&Candidate> = candidates.iter().collect();
    if best_strategy(&all)?.as_str() != OLDEST {
        return Ok(false);
    }
    Ok(oldest(&all).is_some_and(|best| best.name != holder))
}

/// The strategy of the candidates with the latest binary; an error if they differ.
fn best_strategy<'a>(candidates: &[&'a Candidate]) -> Result<&'a Str, String> {
    let binary = |c: &Candidate| c.binary.clone().unwrap_or_default();
    let mut best: &'a Candidate = candidates.first().ok_or("no available candidates")?;
    for candidate in candidates {
        match binary(best).partial_cmp(&binary(candidate)) {
            Some(Ordering::Less) => best = candidate,
            Some(Ordering::Equal) if best.strategy != candidate.strategy => {
                return Err(format!(
                    "candidates {:?}, {:?} at same binary version but received differing strategies {}, {}",
                    best.name, candidate.name, best.strategy, candidate.strategy
                ));
            }
            _ => {}
        }
    }
    Ok(&best.strategy)
}

/// The candidate with the oldest emulation version, then the oldest binary, then the oldest object.
fn oldest<'a>(candidates: &[&'a Candidate]) -> Option<&'a Candidate> {
    let valid = candidates.iter().copied().filter(|c| c.emulation.is_some() && c.binary.is_some());
    valid.min_by(|a, b| (&a.emulation, &a.binary, &a.created).cmp(&(&b.emulation, &b.binary, &b.created)))
}

impl Outcome {
    fn new_lease(&self, target: &Target, now: Timestamp) -> Value {
        let mut lease = Value::object();
        lease.set_at(&["apiVersion"], format!("{GROUP}/v1").into());
        lease.set_at(&["kind"], "Lease".into());
        lease.set_at(&["metadata", "name"], target.name.as_str().into());
        lease.set_at(&["metadata", "namespace"], target.namespace.as_str().into());
        lease.set_at(&["spec", "strategy"], Value::String(self.strategy.clone()));
        lease.set_at(&["spec", "leaseDurationSeconds"], LEASE_SECONDS.into());
        lease.set_at(&["spec", "renewTime"], now.to_value_micro());
        if let Some(holder) = &self.holder {
            lease.set_at(&["spec", "holderIdentity"], Value::String(holder.clone()));
        }
        lease
    }

    /// Changes an existing Lease. A live holder is only requested to hand over.
    fn apply(&self, lease: &mut Value, now: Timestamp) {
        let expired = has_lease_expired(lease, now);
        if lease.str_at(&["spec", "strategy"]) != self.strategy.as_str() {
            lease.set_at(&["spec", "strategy"], Value::String(self.strategy.clone()));
        }
        let Some(elected) = &self.holder else { return };
        let current: Str = lease.str_at(&["spec", "holderIdentity"]).into();
        if current == *elected {
            return;
        }
        if current.is_empty() || expired {
            lease.remove_at(&["spec", "preferredHolder"]);
            lease.remove_at(&["spec", "acquireTime"]);
            lease.set_at(&["spec", "holderIdentity"], Value::String(elected.clone()));
            lease.set_at(&["spec", "renewTime"], now.to_value_micro());
            lease.set_at(&["spec", "leaseDurationSeconds"], LEASE_SECONDS.into());
        } else {
            lease.set_at(&["spec", "preferredHolder"], Value::String(elected.clone()));
        }
    }
}

fn has_lease_expired(lease: &Value, now: Timestamp) -> bool {
    let renewed = Timestamp::parse_micro(lease.str_at(&["spec", "renewTime"])).ok();
    let seconds = lease.at(&["spec", "leaseDurationSeconds"]).and_then(Value::as_int);
    renewed.zip(seconds).is_none_or(|(renewed, seconds)| after(renewed, seconds) < now)
}

fn after(time: Timestamp, seconds: i64) -> Timestamp {
    Timestamp { seconds: time.seconds.saturating_add(seconds), ..time }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_seconds(10_000);

    fn candidate(name: &str, emulation: &str, binary: &str, renewed: i64, pinged: Option<i64>) -> Candidate {
        Candidate {
            name: name.into(),
            lease: "l".into(),
            strategy: if emulation.is_empty() { "example.com/mine".into() } else { OLDEST.into() },
            emulation: SemanticVersion::parse(emulation).ok(),
            binary: SemanticVersion::parse(binary).ok(),
            created: "2026-01-01T00:00:00Z".into(),
            renewed: Timestamp::from_seconds(renewed),
            pinged: pinged.map(Timestamp::from_seconds),
        }
    }

    fn lease(holder: &str, renewed: i64) -> Value {
        let mut lease = Value::object();
        lease.set_at(&["spec", "holderIdentity"], holder.into());
        lease.set_at(&["spec", "renewTime"], Timestamp::from_seconds(renewed).to_value_micro());
        lease.set_at(&["spec", "leaseDurationSeconds"], 5.into());
        lease
    }

    #[test]
    fn steps_of_an_election() {
        let elects =
            |holder: &str| Ok(Step::Elect(Outcome { strategy: OLDEST.into(), holder: Some(holder.into()) }));
        let fresh = |name, emulation| candidate(name, emulation, "1.36.0", 9_999, None);
        let ping = |name: &str| Ok(Step::Ping(vec![name.into()]));
        for (candidates, lease, expected) in [
            (vec![fresh("a", "1.36.0"), fresh("b", "1.35.0")], None, elects("b")),
            (vec![fresh("a", "1.36.0")], Some(lease("a", 9_999)), Ok(Step::Nothing)),
            (vec![fresh("a", "1.36.0"), fresh("b", "1.35.0")], Some(lease("a", 9_999)), elects("b")),
            (vec![candidate("a", "1.36.0", "1.36.0", 9_000, None)], None, ping("a")),
            (vec![candidate("a", "1.36.0", "1.36.0", 9_000, Some(9_998))], None, Ok(Step::Nothing)),
            (vec![candidate("a", "1.36.0", "1.36.0", 9_100, Some(9_000))], None, ping("a")),
            (
                vec![candidate("a", "1.36.0", "1.36.0", 8_500, Some(9_900)), fresh("b", "1.36.0")],
                Some(lease("a", 9_000)),
                elects("b"),
            ),
            (
                vec![candidate("a", "1.36.0", "1.36.0", 9_000, Some(9_900))],
                None,
                Err("no available candidates".to_string()),
            ),
            (
                vec![fresh("a", "1.36.0"), candidate("b", "", "1.37.0", 9_999, None)],
                None,
                Ok(Step::Elect(Outcome { strategy: "example.com/mine".into(), holder: None })),
            ),
        ] {
            let names: Vec<&str> = candidates.iter().map(|c| c.name.as_str()).collect();
            assert_eq!(next_step(&candidates, lease.as_ref(), NOW), expected, "{names:?}");
        }
    }
}
