//! In-process controllers: what a server without a controller manager needs done. Each can be turned off.
//!
//! Controllers read the cache and write through the engine; they never touch the store.

pub mod aggregation;
mod authentication_config;
mod definition;
mod event;
mod flow_objects;
mod flow_schema;
mod garbage;
pub mod identity;
pub mod leader;
pub mod membership;
mod namespace;
mod quota;
mod service_account;

use pintle_engine::Engine;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The controllers there are, by the names that flags know them by.
pub const NAMES: [&str; 5] =
    ["flow-schema", "garbage-collector", "namespace", "resourcequota", "serviceaccount"];

/// Those that `*` does not mean where the command line is one of kube-apiserver: what they do is then done by a
/// kube-controller-manager, or by nobody, as clients of a plain API server expect.
pub const NOT_BESIDE_OTHERS: [&str; 2] = ["resourcequota", "serviceaccount"];

/// Serves what definitions define, and starts the controllers that every server runs: that of definitions, and those
/// that `enabled` names of the ones that are part of the server itself. Events live for `event_life`; zero is for ever.
/// They end when the cache shuts down or with the runtime.
pub fn start(
    engine: &Arc<Engine>,
    event_life: Duration,
    enabled: impl Fn(&str) -> bool,
) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    if let Some(definitions) = definition::Definitions::load(engine) {
        tasks.push(tokio::spawn(definitions.run()));
    }
    if !event_life.is_zero() && !engine.store.removes_expired() {
        tasks.push(tokio::spawn(event::run(engine.clone(), event_life)));
    }
    if enabled("flow-schema") {
        tasks.push(tokio::spawn(flow_schema::run(engine.clone())));
    }
    tasks
}

/// Starts the controllers that run on one server only, as far as `enabled` names them: in a cluster they are those of
/// the controller manager. They end when the cache shuts down, or when they are aborted.
pub fn start_elected(engine: &Arc<Engine>, enabled: impl Fn(&str) -> bool) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    if enabled("namespace") {
        tasks.push(tokio::spawn(namespace::run(engine.clone())));
    }
    if enabled("garbage-collector") {
        tasks.push(tokio::spawn(garbage::run(engine.clone())));
    }
    if enabled("resourcequota") {
        tasks.push(tokio::spawn(quota::run(engine.clone())));
    }
    if enabled("serviceaccount") {
        tasks.push(tokio::spawn(service_account::run(engine.clone())));
    }
    tasks
}

/// Keeps the flow schemas and priority levels of a fresh server, `objects`.
pub fn start_flow_objects(engine: &Arc<Engine>, objects: Vec<pintle_value::Value>) -> JoinHandle<()> {
    tokio::spawn(flow_objects::run(engine.clone(), objects))
}

/// Starts what extension servers need: APIServices are followed and checked, and the ConfigMap is kept that tells
/// extension servers about authentication.
pub fn start_aggregation(
    engine: &Arc<Engine>,
    aggregation: &Arc<aggregation::Aggregation>,
    authentication: watch::Receiver<Vec<(&'static str, String)>>,
) -> Vec<JoinHandle<()>> {
    let mut tasks = vec![tokio::spawn(Arc::clone(aggregation).run())];
    if !authentication.borrow().is_empty() {
        tasks.push(tokio::spawn(authentication_config::run(engine.clone(), authentication)));
    }
    tasks
}
