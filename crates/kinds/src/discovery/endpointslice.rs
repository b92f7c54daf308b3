//! EndpointSlice: endpoints and ports of one address type.

use crate::core::endpoints::validate_endpoint_ip;
use crate::{Hooks, Scope, check, facts};
use pintle_meta::field::Named;
use pintle_meta::selector::label_validation::validate_labels;
use pintle_meta::{FieldErrors, names, net, objectmeta};
use pintle_value::{Path, Value};
use std::collections::HashSet;

const PORT: &str = "discovery/v1.EndpointPort";
const ENDPOINT: &str = "discovery/v1.Endpoint";
const ENDPOINTS_MAX: usize = 1000;
const PORTS_MAX: usize = 20000;
const TOPOLOGY_LABELS_MAX: usize = 16;
const HINTS_MAX: usize = 8;
const HOSTNAME: &str = "kubernetes.io/hostname";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
const CONTROLLERS: [&str; 2] =
    ["endpointslice-controller.k8s.io", "endpointslicemirroring-controller.k8s.io"];

pub(crate) struct EndpointSlice;

impl Hooks for EndpointSlice {
    fn prepare_create(&self, object: &mut Value) {
        drop_topology(object, None);
    }

    fn prepare_update(&self, _scope: Scope<'_>, object: &mut Value, old: &Value) {
        drop_topology(object, Some(old));
    }

    fn new_generation(&self, object: &Value, old: &Value) -> bool {
        let labels = ["metadata", "labels"];
        object.get("addressType") != old.get("addressType")
            || ["endpoints", "ports"].iter().any(|field| object.items_at(&[field]) != old.items_at(&[field]))
            || object.at(&labels) != old.at(&labels)
    }

    fn counts_dropped_fields(&self) -> bool {
        true
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_type(object, errors);
        validate_ports(object, errors);
        validate_endpoints(object, errors);
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        validate_type(object, errors);
        validate_ports(object, errors);
        // Older servers accepted what this one refuses, so unchanged endpoints are not validated.
        if object.get("endpoints") != old.get("endpoints") {
            validate_endpoints(object, errors);
        }
        let kind = object.str_at(&["addressType"]);
        if kind != old.str_at(&["addressType"]) {
            errors.invalid(&Path::of("addressType"), Named(kind), objectmeta::IMMUTABLE);
        }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut out = Vec::new();
        if old.is_none() && object.str_at(&["addressType"]) == "FQDN" {
            out.push("spec.addressType: FQDN endpoints are deprecated".to_string());
        }
        if CONTROLLERS.contains(&object.str_at(&["metadata", "labels", MANAGED_BY])) {
            return out;
        }
        let endpoints = Path::of("endpoints");
        for (i, endpoint) in object.items_at(&["endpoints"]).iter().enumerate() {
            for (j, address) in endpoint.items_at(&["addresses"]).iter().enumerate() {
                let path = endpoints.index(i);
                let path = path.field("addresses");
                out.extend(net::ip_warnings(&path.index(j), address.as_str().unwrap_or("")));
            }
        }
        out
    }
}

/// Drops `deprecatedTopology`, which can no longer be written; its node name becomes `nodeName`.
fn drop_topology(object: &mut Value, old: Option<&Value>) {
    if old.is_some_and(|old| old.get("endpoints") == object.get("endpoints")) {
        return;
    }
    let hostname = ["deprecatedTopology", HOSTNAME];
    let known: HashSet<&str> = old
        .map_or(&[] as &[Value], |old| old.items_at(&["endpoints"]))
        .iter()
        .map(|e| e.str_at(&hostname))
        .collect();
    for endpoint in object.get_mut("endpoints").and_then(Value::as_array_mut).into_iter().flatten() {
        let name = endpoint.str_at(&hostname);
        let known = !name.is_empty() && known.contains(name);
        if endpoint.get("nodeName").is_none() && known && names::dns_subdomain(name, false).is_empty() {
            let name = Value::from(name);
            endpoint.set_at(&["nodeName"], name);
        }
        endpoint.remove_at(&["deprecatedTopology"]);
    }
}

fn validate_type(object: &Value, errors: &mut FieldErrors) {
    facts::check_fields(object, "discovery/v1.EndpointSlice", &["addressType"], &Path::ROOT, errors);
}

fn validate_ports(object: &Value, errors: &mut FieldErrors) {
    let ports = object.items_at(&["ports"]);
    let list = Path::of("ports");
    if ports.len() > PORTS_MAX {
        return errors.too_many(&list, ports.len(), PORTS_MAX);
    }
    let mut seen = check::Unique::default();
    for (i, port) in ports.iter().enumerate() {
        let path = list.index(i);
        let name = port.str_at(&["name"]);
        facts::check_fields(port, PORT, &["name"], &path, errors);
        seen.check(name, &path.field("name"), Named(name), errors);
        facts::check_fields(port, PORT, &["protocol", "appProtocol"], &path, errors);
    }
}

fn validate_endpoints(object: &Value, errors: &mut FieldErrors) {
    let endpoints = object.items_at(&["endpoints"]);
    let list = Path::of("endpoints");
    if endpoints.len() > ENDPOINTS_MAX {
        return errors.too_many(&list, endpoints.len(), ENDPOINTS_MAX);
    }
    let kind = object.str_at(&["addressType"]);
    for (i, endpoint) in endpoints.iter().enumerate() {
        validate_endpoint(endpoint, kind, &list.index(i), errors);
    }
}

fn validate_endpoint(endpoint: &Value, kind: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let addresses = endpoint.items_at(&["addresses"]);
    let at = path.field("addresses");
    facts::check_fields(endpoint, ENDPOINT, &["addresses"], path, errors);
    for (i, address) in addresses.iter().enumerate() {
        validate_address(address.as_str().unwrap_or(""), kind, &at, i, errors);
    }
    facts::check_fields(endpoint, ENDPOINT, &["nodeName"], path, errors);
    let topology = endpoint.get("deprecatedTopology").and_then(Value::as_object);
    let at = path.field("deprecatedTopology");
    if let Some(count) = topology.map(|t| t.len()).filter(|n| *n > TOPOLOGY_LABELS_MAX) {
        errors.too_many(&at, count, TOPOLOGY_LABELS_MAX);
    }
    validate_labels(topology, &at, errors);
    facts::check_fields(endpoint, ENDPOINT, &["hostname"], path, errors);
    if let Some(hints) = endpoint.get("hints") {
        validate_hints(hints, &path.field("hints"), errors);
    }
}

fn validate_address(address: &str, kind: &str, list: &Path<'_>, i: usize, errors: &mut FieldErrors) {
    let path = list.index(i);
    let before = errors.0.len();
    match kind {
        "IPv4" => net::validate_ip_legacy(&path, address, &HashSet::new(), errors),
        "IPv6" => net::validate_ip(&path, address, errors),
        "FQDN" => return names::fully_qualified_domain_name(&path, address, errors),
        _ => return,
    }
    if errors.0.len() > before {
        return;
    }
    let is_v4 = net::parse_ip_sloppy(address).is_some_and(|a| a.to_canonical().is_ipv4());
    if is_v4 != (kind == "IPv4") {
        errors.invalid(list, address, &format!("must be an {kind} address"));
    }
    validate_endpoint_ip(address, &path, errors);
}

/// A rule of names, which returns the errors of a name.
type NameRule = fn(&str) -> Vec<String>;

fn validate_hints(hints: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let rules: [(&str, NameRule); 2] =
        [("forZones", names::is_label_value), ("forNodes", |name| names::dns_subdomain(name, false))];
    for (field, rule) in rules {
        let list = path.field(field);
        let items = hints.items_at(&[field]);
        if items.len() > HINTS_MAX {
            return errors.too_many(&list, items.len(), HINTS_MAX);
        }
        let mut seen = check::Unique::default();
        for (i, item) in items.iter().enumerate() {
            let name = item.str_at(&["name"]);
            let path = list.index(i);
            seen.check(name, &path.field("name"), name, errors);
            check::each(rule(name), &path.field("name"), name, errors);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, defaulted};

    #[test]
    fn ports_get_names_and_protocols() {
        assert_eq!(
            defaulted("discovery/v1.EndpointSlice", r#"{"ports":[{"port":80}]}"#),
            r#"{"ports":[{"name":"","port":80,"protocol":"TCP"}]}"#
        );
    }

    #[test]
    fn addresses_are_of_the_type() {
        let object = r#"{"addressType":"IPv6","endpoints":[{"addresses":["192.0.2.1"]},{"addresses":["FD00::A"]},{}]}"#;
        assert_eq!(
            created(&EndpointSlice, object),
            [
                r#"endpoints[0].addresses: Invalid value: "192.0.2.1": must be an IPv6 address"#,
                r#"endpoints[1].addresses[0]: Invalid value: "FD00::A": must be in canonical form ("fd00::a")"#,
                "endpoints[2].addresses: Required value: must contain at least 1 address",
            ]
        );
    }
}
