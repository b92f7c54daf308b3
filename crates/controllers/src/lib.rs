//! In-process controllers: the work of a controller manager that a standalone server needs. Each can be turned off.
//!
//! Controllers read the cache and write through the engine; they never touch the store.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

pub mod aggregation;
mod authentication_config;
pub mod components;
mod definition;
mod election;
mod event;
mod feed;
mod flow_objects;
mod flow_schema;
mod garbage;
pub mod identity;
pub mod leader;
pub mod membership;
mod namespace;
pub mod peers;
mod per_namespace;
mod policy_status;
mod quota;
mod role_aggregation;
mod service_allocations;
pub mod storage_versions;

use per_namespace::PerNamespace;
use pintle_engine::Engine;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The controllers, by the names that flags use.
pub const NAMES: [&str; 8] = [
    role_aggregation::NAME,
    "flow-schema",
    "garbage-collector",
    "namespace",
    "resourcequota",
    "root-ca-cert-publisher",
    "serviceaccount",
    policy_status::NAME,
];

/// The controllers that `*` excludes if the command line is kube-apiserver's: a kube-controller-manager does their work,
/// or nothing does, as clients of a bare API server expect.
pub const NOT_BESIDE_OTHERS: [&str; 5] = [
    role_aggregation::NAME,
    "resourcequota",
    "root-ca-cert-publisher",
    "serviceaccount",
    policy_status::NAME,
];

/// Serves the existing definitions and starts the controllers that every server runs: the controller of definitions,
/// and the server's own controllers that `enabled` accepts. Events are deleted after `event_life`; zero means never.
/// The controllers end when the cache shuts down or with the runtime.
pub fn start(
    engine: &Arc<Engine>,
    event_life: Duration,
    enabled: impl Fn(&str) -> bool,
) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    if let Some(definitions) = definition::Definitions::load(engine) {
        tasks.push(tokio::spawn(definitions.run()));
    }
    if !event_life.is_zero() && !engine.storage().store().removes_expired() {
        tasks.push(tokio::spawn(event::run(engine.clone(), event_life)));
    }
    if enabled("flow-schema") {
        tasks.push(tokio::spawn(flow_schema::run(engine.clone())));
    }
    tasks
}

/// Starts the controllers that run on one server only, if `enabled` accepts them: in a cluster they are part of the
/// controller manager. They end when the cache shuts down, or when they are aborted. `root_ca` is the CA of the serving
/// certificate, in PEM.
pub fn start_elected(
    engine: &Arc<Engine>,
    root_ca: &str,
    enabled: impl Fn(&str) -> bool,
) -> Vec<JoinHandle<()>> {
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
        tasks.push(tokio::spawn(PerNamespace::service_account().run(engine.clone())));
    }
    if enabled("root-ca-cert-publisher") {
        tasks.push(tokio::spawn(PerNamespace::root_ca(root_ca).run(engine.clone())));
    }
    if enabled(role_aggregation::NAME) {
        tasks.push(tokio::spawn(role_aggregation::run(engine.clone())));
    }
    if enabled(policy_status::NAME) {
        tasks.push(tokio::spawn(policy_status::run(engine.clone())));
    }
    tasks
}

/// Starts the repair of the addresses and node ports of services, on each server as in kube-apiserver.
pub fn start_repairs(engine: &Arc<Engine>, hostname: String) -> JoinHandle<()> {
    tokio::spawn(service_allocations::run(engine.clone(), hostname))
}

/// Starts the controllers of coordinated leader election, which run on one server only.
pub fn start_elections(engine: &Arc<Engine>) -> Vec<JoinHandle<()>> {
    vec![tokio::spawn(election::run(engine.clone())), tokio::spawn(election::collect(engine.clone()))]
}

/// Maintains the default FlowSchemas and PriorityLevelConfigurations in `objects`.
pub fn start_flow_objects(engine: &Arc<Engine>, objects: Vec<pintle_value::Value>) -> JoinHandle<()> {
    tokio::spawn(flow_objects::run(engine.clone(), objects))
}

/// Starts the controllers for extension servers: APIServices are followed and checked, and the ConfigMap
/// `extension-apiserver-authentication` is maintained.
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
