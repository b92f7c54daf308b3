//! Metrics of the allocation of addresses and node ports.

use super::{addresses, ports};
use crate::Writer;
use pintle_kinds::service_allocation::{Refusal, ServiceNetwork};
use pintle_meta::net::Cidr;
use pintle_metrics::families;
use pintle_value::Value;
use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Instant;

/// The addresses and ports that a service requests and had before. Dry runs are not counted.
pub(super) struct Allocating {
    began: Instant,
    had: (Vec<IpAddr>, BTreeSet<i64>),
    requested: (Vec<IpAddr>, BTreeSet<i64>),
}

impl Allocating {
    pub(super) fn begin(old: Option<&Value>, candidate: &Value) -> Self {
        Allocating {
            began: Instant::now(),
            had: (addresses(old), ports::of(old)),
            requested: (addresses(Some(candidate)), ports::of(Some(candidate))),
        }
    }

    /// Counts the addresses and ports that a service got.
    pub(super) fn succeeded(self, networks: &[ServiceNetwork], candidate: &Value) {
        self.count_addresses(networks, candidate);
        for port in ports::of(Some(candidate)).difference(&self.had.1) {
            families::PORT_ALLOCATIONS.inc(&[scope(self.requested.1.contains(port))]);
        }
    }

    fn count_addresses(&self, networks: &[ServiceNetwork], candidate: &Value) {
        let seconds = self.began.elapsed().as_secs_f64();
        for ip in addresses(Some(candidate)).iter().filter(|ip| !self.had.0.contains(ip)) {
            let cidr = network_of(networks, Some(*ip));
            families::ADDRESS_ALLOCATIONS.inc(&[&cidr, scope(self.requested.0.contains(ip))]);
            families::ADDRESS_ALLOCATION_SECONDS.observe(&[&cidr], seconds);
        }
    }

    /// Counts the address or port that a service did not get. The error says which of them it is; ports are allocated
    /// after the addresses.
    pub(super) fn failed(self, networks: &[ServiceNetwork], candidate: &Value, refusal: &Refusal) {
        let (is_address, scope) = match refusal {
            Refusal::Invalid(errors) => {
                let field = errors.0.first().map_or("", |error| error.field.as_str());
                match field {
                    field if field.starts_with("spec.clusterIPs") => (true, "static"),
                    field if field.contains("odePort") => (false, "static"),
                    // The families of the service are invalid; nothing was allocated.
                    _ => return,
                }
            }
            Refusal::Internal(why) => (why.contains("serviceIP"), "dynamic"),
            // All ports of the service were allocated.
            Refusal::Duplicate(_) => return,
        };
        if is_address {
            let requested = self.requested.0.into_iter().find(|ip| !self.had.0.contains(ip));
            // No allocator is responsible for an address outside of all networks.
            if requested.is_some_and(|ip| !networks.iter().any(|network| network.cidr.contains(ip))) {
                return;
            }
            families::ADDRESS_ALLOCATION_ERRORS.inc(&[&network_of(networks, requested), scope]);
        } else {
            self.count_addresses(networks, candidate);
            families::PORT_ALLOCATION_ERRORS.inc(&[scope]);
        }
    }
}

fn scope(is_asked: bool) -> &'static str {
    if is_asked { "static" } else { "dynamic" }
}

/// The network of an address, or the first one for an address outside of all of them.
fn network_of(networks: &[ServiceNetwork], ip: Option<IpAddr>) -> String {
    let own = networks.iter().find(|network| ip.is_some_and(|ip| network.cidr.contains(ip)));
    own.or(networks.first()).map(|network| network.cidr.network_text()).unwrap_or_default()
}

impl Writer {
    /// Updates the gauges of addresses and node ports.
    #[expect(clippy::cast_precision_loss, reason = "figures of metrics are floats")]
    pub fn update_allocation_metrics(&self) {
        let target = self.storage.target("networking.k8s.io", "v1", "ipaddresses", "", "");
        let resource = target.and_then(|target| self.storage.cache().resource(&target.kind.store_prefix));
        let view = resource.map(|resource| resource.view());
        for ServiceNetwork { cidr: network, .. } in &self.service_networks() {
            let names = view.iter().flat_map(|view| view.iter()).map(|object| object.name());
            let own = names.filter_map(pintle_meta::net::parse_ip_sloppy).filter(|ip| network.contains(*ip));
            let allocated = own.count() as f64;
            let cidr = network.network_text();
            families::ADDRESSES_ALLOCATED.set(&[&cidr], allocated);
            families::ADDRESSES_AVAILABLE.set(&[&cidr], (hosts(network) - allocated).max(0.0));
        }
        let range = &self.service_ranges.node_ports;
        let size = range.end().saturating_sub(*range.start()).saturating_add(1);
        let allocated = self.taken_ports().ports.len() as f64;
        families::PORTS_ALLOCATED.set(&[], allocated);
        families::PORTS_AVAILABLE.set(&[], size as f64 - allocated);
    }
}

/// How many addresses of a network can be allocated: not its first one, and in IPv4 not its last one.
fn hosts(network: &Cidr) -> f64 {
    let (width, not_used) = if network.address.is_ipv4() { (32_i32, 2.0) } else { (128, 1.0) };
    let free_bits = width.saturating_sub(i32::from(network.bits));
    (2.0_f64.powi(free_bits) - not_used).clamp(0.0, i64::MAX as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_meta::net::parse_cidr_sloppy;

    #[test]
    fn networks_have_as_many_addresses_as_can_be_allocated() {
        for (cidr, want) in [("10.0.0.0/24", 254.0), ("10.0.0.0/32", 0.0), ("fd00::/112", 65_535.0)] {
            assert_eq!(parse_cidr_sloppy(cidr).map(|network| hosts(&network)), Some(want), "{cidr}");
        }
    }
}
