//! Node ports that are taken: one value for all of them, as kube-apiserver has it. Every change of it is conditional on
//! the revision that was read, so two services never get the same port, on however many servers.

use crate::Engine;
use crate::stored::range::{NODE_PORTS, decode_ports, encode_ports};
use pintle_store::{Expect, Revision, Write};
use pintle_value::Value;
use std::collections::BTreeSet;

/// The allocation as it is stored.
pub(super) struct Taken {
    /// The ports.
    pub(super) ports: BTreeSet<i64>,
    /// Its revision; none where there is no allocation.
    revision: Option<Revision>,
}

/// The ports that a service has on nodes.
pub(super) fn of(service: Option<&Value>) -> BTreeSet<i64> {
    let Some(service) = service else { return BTreeSet::new() };
    let ports = service.items_at(&["spec", "ports"]).iter().filter_map(|port| port.get("nodePort"));
    let health = service.at(&["spec", "healthCheckNodePort"]);
    ports.chain(health).filter_map(Value::as_int).filter(|port| *port != 0).collect()
}

impl Engine {
    /// The ports that are taken now.
    pub(super) fn taken_ports(&self) -> Taken {
        let state = self.store.snapshot_state();
        let entry = state.get(NODE_PORTS);
        let range = &self.service_ranges.node_ports;
        let ports = entry.and_then(|entry| decode_ports(range, &entry.value));
        Taken { ports: ports.unwrap_or_default(), revision: entry.map(|entry| entry.modified) }
    }

    /// What turns one set of ports of a service into another. The allocation must be as it was in `taken`.
    pub(super) fn port_writes(
        &self,
        taken: Taken,
        had: &BTreeSet<i64>,
        has: &BTreeSet<i64>,
    ) -> Option<Write> {
        let mut ports = taken.ports.clone();
        had.difference(has).for_each(|port| _ = ports.remove(port));
        ports.extend(has.difference(had));
        (ports != taken.ports).then(|| self.put_ports(taken.revision, &ports))
    }

    fn put_ports(&self, revision: Option<Revision>, ports: &BTreeSet<i64>) -> Write {
        let expect = revision.map_or(Expect::Absent, Expect::Revision);
        Write::put(NODE_PORTS, expect, encode_ports(&self.service_ranges.node_ports, ports))
    }

    /// What brings the taken ports in line with the services that there are.
    pub(super) fn repair_ports(&self, services: &[Value]) -> Vec<Write> {
        let wanted: BTreeSet<i64> = services.iter().flat_map(|service| of(Some(service))).collect();
        let taken = self.taken_ports();
        let range = &self.service_ranges.node_ports;
        let wanted = wanted.into_iter().filter(|port| range.contains(port)).collect();
        let is_right = taken.revision.is_some() && taken.ports == wanted;
        let mut writes: Vec<Write> = Vec::new();
        if !is_right {
            writes.push(self.put_ports(taken.revision, &wanted));
        }
        // Earlier versions of this server had a key for each port.
        let state = self.store.snapshot_state();
        let old = format!("{NODE_PORTS}/");
        let stale = state.prefix(&old);
        writes.extend(stale.map(|(key, entry)| Write::delete(key.clone(), Expect::Revision(entry.modified))));
        writes
    }
}
