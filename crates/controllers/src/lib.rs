//! In-process controllers: what a server without a controller manager needs done. Each can be turned off.
//!
//! Controllers read the cache and write through the engine; they never touch the store.

mod definition;
mod garbage;
mod namespace;

use pintle_engine::Engine;
use std::sync::Arc;
use tokio::task::JoinHandle;

/// The controllers there are, by the names that flags know them by.
pub const NAMES: [&str; 2] = ["garbage-collector", "namespace"];

/// Serves what definitions define, and starts that controller and those that `enabled` names. They end when the
/// cache shuts down.
pub fn start(engine: &Arc<Engine>, enabled: impl Fn(&str) -> bool) -> Vec<JoinHandle<()>> {
    let mut tasks = Vec::new();
    if let Some(definitions) = definition::Definitions::load(engine) {
        tasks.push(tokio::spawn(definitions.run()));
    }
    if enabled("namespace") {
        tasks.push(tokio::spawn(namespace::run(engine.clone())));
    }
    if enabled("garbage-collector") {
        tasks.push(tokio::spawn(garbage::run(engine.clone())));
    }
    tasks
}
