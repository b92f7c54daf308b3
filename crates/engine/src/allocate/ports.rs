//! The node port allocation: one value for all ports, as in kube-apiserver. Every change is conditional on the revision
//! that was read, so two services never get the same port, on any number of servers.

use crate::Writer;
use crate::stored::range::{NODE_PORTS, decode_ports, encode_ports};
use pintle_store::{Expect, Revision, Write};
use pintle_value::Value;
use std::collections::BTreeSet;

/// The node port allocation and its revision in the store.
pub(super) struct Taken {
    /// The ports.
    pub(super) ports: BTreeSet<i64>,
    /// The allocation's revision; `None` if the allocation does not exist yet.
    revision: Option<Revision>,
}

/// The node ports of a service.
pub(super) fn of(service: Option<&Value>) -> BTreeSet<i64> {
    let Some(service) = service else { return BTreeSet::new() };
    let ports = service.items_at(&["spec", "ports"]).iter().filter_map(|port| port.get("nodePort"));
    let health = service.at(&["spec", "healthCheckNodePort"]);
    ports.chain(health).filter_map(Value::as_int).filter(|port| *port != 0).collect()
}

impl Writer {
    /// Reads the current allocation.
    pub(super) fn taken_ports(&self) -> Taken {
        let state = self.storage.store.snapshot_state();
        let entry = state.get(NODE_PORTS);
        let range = &self.service_ranges.node_ports;
        let ports = entry.and_then(|entry| decode_ports(range, &entry.value));
        Taken { ports: ports.unwrap_or_default(), revision: entry.map(|entry| entry.modified) }
    }

    /// Returns the writes that change a service's ports from one set to another, conditional on the revision in
    /// `taken`.
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

    /// Returns the writes that make the allocation match the ports of all services. Ports in `in_flight` stay allocated:
    /// another server may be about to store their services.
    pub(super) fn repair_ports(&self, wanted: BTreeSet<i64>, in_flight: &BTreeSet<i64>) -> Vec<Write> {
        let taken = self.taken_ports();
        let range = &self.service_ranges.node_ports;
        let wanted = wanted.into_iter().filter(|port| range.contains(port));
        let wanted = wanted.chain(taken.ports.intersection(in_flight).copied()).collect();
        let is_right = taken.revision.is_some() && taken.ports == wanted;
        let mut writes: Vec<Write> = Vec::new();
        if !is_right {
            writes.push(self.put_ports(taken.revision, &wanted));
        }
        // Earlier versions of this server stored one key for each port.
        let state = self.storage.store.snapshot_state();
        let old = format!("{NODE_PORTS}/");
        let stale = state.prefix(&old);
        writes.extend(stale.map(|(key, entry)| Write::delete(key.clone(), Expect::Revision(entry.modified))));
        writes
    }
}
