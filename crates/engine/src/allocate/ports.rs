//! Node ports that are taken: one key each, which names the service that has it.

use crate::Engine;
use pintle_store::{Expect, Write};
use pintle_value::Value;
use std::collections::{BTreeMap, BTreeSet};

const PREFIX: &str = "/registry/ranges/servicenodeports/";

/// Where a port is taken.
pub(super) fn key(port: i64) -> String {
    format!("{PREFIX}{port}")
}

/// The ports that a service has on nodes.
pub(super) fn of(service: Option<&Value>) -> BTreeSet<i64> {
    let Some(service) = service else { return BTreeSet::new() };
    let ports = service.items_at(&["spec", "ports"]).iter().filter_map(|port| port.get("nodePort"));
    let health = service.at(&["spec", "healthCheckNodePort"]);
    ports.chain(health).filter_map(Value::as_int).filter(|port| *port != 0).collect()
}

fn owner(service: &Value) -> String {
    format!("{}/{}", service.str_at(&["metadata", "namespace"]), service.str_at(&["metadata", "name"]))
}

impl Engine {
    /// What turns one set of ports into another. `service` has the new ones.
    pub(super) fn settle_ports(
        &self,
        had: &BTreeSet<i64>,
        has: &BTreeSet<i64>,
        service: Option<&Value>,
    ) -> Vec<Write> {
        let state = self.store.snapshot_state();
        let mut writes = Vec::new();
        if let Some(service) = service {
            let added = has.difference(had);
            writes.extend(added.map(|port| Write::put(key(*port), Expect::Absent, owner(service))));
        }
        for key in had.difference(has).map(|port| key(*port)) {
            if let Some(entry) = state.get(&key) {
                writes.push(Write::delete(key, Expect::Revision(entry.modified)));
            }
        }
        writes
    }

    /// What brings the taken ports in line with the services that there are.
    pub(super) fn repair_ports(&self, services: &[Value]) -> Vec<Write> {
        let mut wanted: BTreeMap<String, String> = BTreeMap::new();
        for service in services {
            wanted.extend(of(Some(service)).into_iter().map(|port| (key(port), owner(service))));
        }
        let state = self.store.snapshot_state();
        let stale = state.prefix(PREFIX).filter(|(key, _)| !wanted.contains_key(&***key));
        let mut writes: Vec<Write> =
            stale.map(|(key, entry)| Write::delete(key.clone(), Expect::Revision(entry.modified))).collect();
        let missing = wanted.iter().filter(|(key, _)| state.get(key).is_none());
        writes.extend(missing.map(|(key, owner)| Write::put(key.as_str(), Expect::Absent, owner.clone())));
        writes
    }
}
