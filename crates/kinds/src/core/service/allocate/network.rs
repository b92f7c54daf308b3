//! The networks that addresses of services are allocated from: those of the ServiceCIDRs.

use super::{Pool, family_of, probe, reserved};
use pintle_meta::net::{self, Cidr};
use pintle_value::Value;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The prefix of an IPv6 network is at least this long. Others have no addresses to allocate.
const V6_BITS_MIN: u8 = 64;

/// A network of one or more ServiceCIDRs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceNetwork {
    /// The network.
    pub cidr: Cidr,
    /// Whether addresses may be allocated: a ServiceCIDR has it that is ready and not being deleted.
    pub ready: bool,
}

/// The networks of ServiceCIDRs, each one once.
pub fn networks(service_cidrs: &[Value]) -> Vec<ServiceNetwork> {
    let mut networks: Vec<ServiceNetwork> = Vec::new();
    for object in service_cidrs {
        let ready = is_ready(object);
        let texts = object.items_at(&["spec", "cidrs"]).iter().filter_map(Value::as_str);
        for cidr in texts.filter_map(net::parse_cidr_sloppy) {
            match networks.iter_mut().find(|network| network.cidr == cidr) {
                Some(known) => known.ready |= ready,
                None if cidr.address.is_ipv4() || cidr.bits >= V6_BITS_MIN => {
                    networks.push(ServiceNetwork { cidr, ready });
                }
                None => {}
            }
        }
    }
    networks
}

/// Whether addresses may be allocated. Without a controller manager, nothing sets the condition.
fn is_ready(object: &Value) -> bool {
    let mut conditions = object.items_at(&["status", "conditions"]).iter();
    let condition = conditions.find(|condition| condition.str_at(&["type"]) == "Ready");
    condition.is_none_or(|condition| condition.str_at(&["status"]) == "True")
        && object.at(&["metadata", "deletionTimestamp"]).is_none()
}

/// `IPv4` or `IPv6`.
pub(super) fn family(cidr: &Cidr) -> &'static str {
    family_of(&net::ip_text(cidr.address))
}

impl ServiceNetwork {
    pub(super) fn family(&self) -> &'static str {
        family(&self.cidr)
    }

    /// Returns whether a service can have the address: it is in the network, and not the first one, and in IPv4 not the
    /// last one.
    pub fn has(&self, address: IpAddr) -> bool {
        self.cidr.address.is_ipv4() == address.is_ipv4()
            && bounds(&self.cidr).is_some_and(|(first, last)| (first..=last).contains(&address_bits(address)))
    }

    /// Any address that no service has: from the upper part of the network first, so that the lower part is left for
    /// requested addresses.
    pub(super) fn free_address(&self, pool: &mut Pool<'_>) -> Option<IpAddr> {
        let (first, last) = bounds(&self.cidr)?;
        let reserved = reserved(last.checked_sub(first)?.saturating_add(1), 16, 256);
        let v4 = self.cidr.address.is_ipv4();
        let free = |at: u128| !(pool.ip_taken)(address_of_bits(at, v4));
        let found = probe(first.saturating_add(reserved), last, (pool.random)(), &free);
        let found = found.or_else(|| {
            probe(first, first.saturating_add(reserved.checked_sub(1)?), (pool.random)(), &free)
        })?;
        Some(address_of_bits(found, v4))
    }
}

fn address_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

fn address_of_bits(bits: u128, v4: bool) -> IpAddr {
    match u32::try_from(bits) {
        Ok(bits) if v4 => IpAddr::V4(Ipv4Addr::from_bits(bits)),
        _ => IpAddr::V6(Ipv6Addr::from_bits(bits)),
    }
}

/// The first and last address that can be allocated: without the network and broadcast addresses.
/// The last of all addresses is a network without any.
fn bounds(network: &Cidr) -> Option<(u128, u128)> {
    let base = address_bits(network.network());
    let width = if network.address.is_ipv4() { 32 } else { 128 };
    let free_bits = u32::saturating_sub(width, u32::from(network.bits));
    let size = 1u128.checked_shl(free_bits).unwrap_or(0);
    let end = base.wrapping_add(size).wrapping_sub(1);
    let last = if network.address.is_ipv4() { end.saturating_sub(1) } else { end };
    Some((base.checked_add(1)?, last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::tree;

    #[test]
    fn a_network_is_ready_if_one_of_its_service_cidrs_is() {
        let object =
            |rest: &str| tree(&format!(r#"{{"spec":{{"cidrs":["10.0.0.0/24","fd00::/112"]}}{rest}}}"#));
        let condition = |status: &str| {
            object(&format!(r#","status":{{"conditions":[{{"type":"Ready","status":"{status}"}}]}}"#))
        };
        let deleted = object(r#","metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}"#);
        for (objects, ready) in [
            (vec![object("")], true),
            (vec![condition("True")], true),
            (vec![condition("False")], false),
            (vec![deleted.clone()], false),
            (vec![deleted, condition("True"), condition("False")], true),
        ] {
            let found = networks(&objects);
            let texts: Vec<String> = found.iter().map(|network| network.cidr.network_text()).collect();
            assert_eq!(texts, ["10.0.0.0/24", "fd00::/112"]);
            assert!(found.iter().all(|network| network.ready == ready), "{objects:?}");
        }
        assert!(networks(&[tree(r#"{"spec":{"cidrs":["fd00::/63"]}}"#)]).is_empty());
    }

    #[test]
    fn the_last_of_all_networks_has_no_address_to_allocate() {
        let network = |text: &str| net::parse_cidr_sloppy(text).unwrap();
        assert_eq!(bounds(&network("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff/128")), None);
        assert_eq!(bounds(&network("10.0.0.0/30")), Some((0x0a00_0001, 0x0a00_0002)));
    }
}
