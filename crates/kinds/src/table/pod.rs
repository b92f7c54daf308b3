//! Rows of pods: the state of a pod from its containers.

use super::cell::{condition, is_set, is_terminating, is_true, number, text};
use pintle_meta::{Timestamp, duration};
use pintle_value::Value;

/// The reason of a pod's deletion from an unreachable node.
const NODE_LOST: &str = "NodeLost";

/// The state derived from the containers.
#[derive(Default)]
struct State {
    reason: String,
    ready: usize,
    restarts: Restarts,
}

/// How often containers were restarted, and when last.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count = self.count.saturating_add(number(status, &["restartCount"]));
        let finished = Timestamp::parse(status.str_at(&["lastState", "terminated", "finishedAt"])).ok();
        self.last = self.last.max(finished.filter(|time| !time.is_zero()));
    }

    fn cell_text(self, now: Timestamp) -> String {
        match self.last {
            Some(last) if self.count != 0 => {
                let ago = duration::human(duration::GoDuration(now.nanos_since(&last)));
                format!("{} ({ago} ago)", self.count)
            }
            _ => self.count.to_string(),
        }
    }
}

/// Ready containers, status and restarts.
pub(super) fn pod_state(object: &Value, now: Timestamp) -> Vec<Value> {
    let init = object.items_at(&["spec", "initContainers"]);
    let total = object
        .items_at(&["spec", "containers"])
        .len()
        .saturating_add(init.iter().filter(|c| is_sidecar(c)).count());
    let state = summarize_state(object, init);
    vec![text(format!("{}/{total}", state.ready)), text(state.reason), text(state.restarts.cell_text(now))]
}

pub(super) fn pod_ip(object: &Value) -> Value {
    match object.items_at(&["status", "podIPs"]).first().map_or("", |ip| ip.str_at(&["ip"])) {
        "" => text("<none>"),
        ip => text(ip),
    }
}

/// The row's conditions: the pod has finished.
pub(super) fn conditions(object: &Value) -> Vec<Value> {
    let (phase, message) = match object.str_at(&["status", "phase"]) {
        phase @ "Succeeded" => (phase, "The pod has completed successfully."),
        phase @ "Failed" => (phase, "The pod failed."),
        _ => return Vec::new(),
    };
    let mut condition = Value::object();
    for (key, value) in [("type", "Completed"), ("status", "True"), ("reason", phase), ("message", message)] {
        condition.set_at(&[key], value.into());
    }
    vec![condition]
}

fn summarize_state(object: &Value, init: &[Value]) -> State {
    let conditions = object.items_at(&["status", "conditions"]);
    let phase = object.str_at(&["status", "phase"]);
    let reason = object.str_at(&["status", "reason"]);
    let reason = if reason.is_empty() { phase } else { reason };
    let mut state = State { reason: reason.to_string(), ..State::default() };
    let is_gated =
        |c: &Value| c.str_at(&["type"]) == "PodScheduled" && c.str_at(&["reason"]) == "SchedulingGated";
    if conditions.iter().any(is_gated) {
        state.reason = "SchedulingGated".to_string();
    }
    let mut sidecars = Restarts::default();
    let initializing = evaluate_init_containers(object, init, &mut state, &mut sidecars);
    if !initializing || is_true(conditions, "Initialized") {
        state.restarts = sidecars;
        evaluate_containers(object, conditions, &mut state);
    }
    if is_terminating(object) {
        if object.str_at(&["status", "reason"]) == NODE_LOST {
            state.reason = "Unknown".to_string();
        } else if !matches!(phase, "Succeeded" | "Failed") {
            state.reason = "Terminating".to_string();
        }
    }
    state
}

/// Returns whether an init container is a sidecar.
fn is_sidecar(container: &Value) -> bool {
    container.str_at(&["restartPolicy"]) == "Always"
}

/// Evaluates the init containers up to the first unfinished one. Returns whether there is one.
fn evaluate_init_containers(
    object: &Value,
    init: &[Value],
    state: &mut State,
    sidecars: &mut Restarts,
) -> bool {
    for (at, status) in object.items_at(&["status", "initContainerStatuses"]).iter().enumerate() {
        state.restarts.add(status);
        // Of several containers with one name the last one counts.
        let container =
            init.iter().rfind(|container| container.str_at(&["name"]) == status.str_at(&["name"]));
        let sidecar = container.is_some_and(is_sidecar);
        if sidecar {
            sidecars.add(status);
        }
        let terminated = status.at(&["state", "terminated"]).filter(|terminated| !terminated.is_null());
        if terminated.is_some_and(|terminated| number(terminated, &["exitCode"]) == 0) {
            continue;
        }
        if sidecar && status.get("started").and_then(Value::as_bool) == Some(true) {
            state.ready = state.ready.saturating_add(usize::from(is_ready(status)));
            continue;
        }
        let waiting = status.str_at(&["state", "waiting", "reason"]);
        state.reason = match terminated {
            Some(terminated) => format!("Init:{}", terminated_reason(terminated)),
            None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
            None => format!("Init:{at}/{}", init.len()),
        };
        return true;
    }
    false
}

fn evaluate_containers(object: &Value, conditions: &[Value], state: &mut State) {
    let mut running = false;
    let mut failed = None;
    for status in object.items_at(&["status", "containerStatuses"]).iter().rev() {
        state.restarts.add(status);
        let waiting = status.str_at(&["state", "waiting", "reason"]);
        let terminated = status.at(&["state", "terminated"]).filter(|terminated| !terminated.is_null());
        if !waiting.is_empty() {
            state.reason = waiting.to_string();
        } else if let Some(terminated) = terminated {
            state.reason = terminated_reason(terminated);
            if number(terminated, &["exitCode"]) != 0 {
                failed = Some(state.reason.clone());
            }
        } else if is_ready(status) && is_set(status, &["state", "running"]) {
            running = true;
            state.ready = state.ready.saturating_add(1);
        }
    }
    // A pod with a running container is not completed.
    if state.reason == "Completed" {
        if running
            && conditions.iter().any(|c| c.str_at(&["type"]) == "Ready" && c.str_at(&["status"]) == "True")
        {
            state.reason = "Running".to_string();
        } else if let Some(failed) = failed {
            state.reason = failed;
        } else if running {
            state.reason = "NotReady".to_string();
        }
    }
}

fn is_ready(status: &Value) -> bool {
    status.get("ready").and_then(Value::as_bool) == Some(true)
}

fn terminated_reason(terminated: &Value) -> String {
    match (terminated.str_at(&["reason"]), number(terminated, &["signal"])) {
        ("", 0) => format!("ExitCode:{}", number(terminated, &["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_string(),
    }
}

pub(super) fn readiness_gates(object: &Value) -> Value {
    let gates = object.items_at(&["spec", "readinessGates"]);
    if gates.is_empty() {
        return text("<none>");
    }
    let conditions = object.items_at(&["status", "conditions"]);
    let holds = |gate: &&Value| {
        let found = condition(conditions, gate.str_at(&["conditionType"]));
        found.is_some_and(|condition| condition.str_at(&["status"]) == "True")
    };
    text(format!("{}/{}", gates.iter().filter(holds).count(), gates.len()))
}
