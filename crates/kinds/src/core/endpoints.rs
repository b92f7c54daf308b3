//! Endpoints: subsets of addresses and ports.

use crate::{Hooks, Scope, check, facts};
use pintle_meta::{FieldErrors, net};
use pintle_value::{Path, Value};
use std::net::IpAddr;

const MANAGED_BY: &str = "endpoints.kubernetes.io/managed-by";
const CONTROLLER: &str = "endpoint-controller";

pub(crate) struct Endpoints;

impl Hooks for Endpoints {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let subsets = Path::of("subsets");
        for (i, subset) in object.items_at(&["subsets"]).iter().enumerate() {
            let path = subsets.index(i);
            let (ready, not_ready) =
                (subset.items_at(&["addresses"]), subset.items_at(&["notReadyAddresses"]));
            if ready.is_empty() && not_ready.is_empty() {
                errors.required(&path, "must specify `addresses` or `notReadyAddresses`");
            }
            for (field, addresses) in [("addresses", ready), ("notReadyAddresses", not_ready)] {
                for (j, address) in addresses.iter().enumerate() {
                    validate_address(address, &path.field(field).index(j), errors);
                }
            }
            let ports = subset.items_at(&["ports"]);
            for (j, port) in ports.iter().enumerate() {
                validate_port(port, ports.len() > 1, &path.field("ports").index(j), errors);
            }
        }
    }

    fn validate_update(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        // Older servers accepted what this one refuses, so unchanged subsets are not validated.
        if object.get("subsets") != old.get("subsets") {
            self.validate_create(object, errors);
        }
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        if object.str_at(&["metadata", "labels", MANAGED_BY]) == CONTROLLER {
            return Vec::new();
        }
        let subsets = Path::of("subsets");
        let mut out = Vec::new();
        for (i, subset) in object.items_at(&["subsets"]).iter().enumerate() {
            for field in ["addresses", "notReadyAddresses"] {
                for (j, address) in subset.items_at(&[field]).iter().enumerate() {
                    let (path, ip) = (subsets.index(i), address.str_at(&["ip"]));
                    out.extend(net::ip_warnings(&path.field(field).index(j).field("ip"), ip));
                }
            }
        }
        out
    }
}

fn validate_address(address: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check(address, "core/v1.EndpointAddress", path, errors);
    validate_endpoint_ip(address.str_at(&["ip"]), &path.field("ip"), errors);
}

fn validate_port(port: &Value, wants_name: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    if wants_name {
        check::required(port, "name", path, errors);
    }
    facts::check(port, "core/v1.EndpointPort", path, errors);
}

/// Requires an address that an endpoint can have: not loopback or link-local.
pub(crate) fn validate_endpoint_ip(text: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    let Some(address) = net::parse_ip_sloppy(text) else {
        return errors.invalid(path, text, "must be a valid IP address");
    };
    let address = address.to_canonical();
    let (link_local, local_multicast) = match address {
        IpAddr::V4(v4) => (v4.is_link_local(), v4.octets()[..3] == [224, 0, 0]),
        IpAddr::V6(v6) => {
            let [first, second, ..] = v6.octets();
            (first == 0xfe && second & 0xc0 == 0x80, first == 0xff && second & 0x0f == 0x02)
        }
    };
    if address.is_unspecified() {
        errors.invalid(path, text, &format!("may not be unspecified ({text})"));
    }
    if address.is_loopback() {
        errors.invalid(path, text, "may not be in the loopback range (127.0.0.0/8, ::1/128)");
    }
    if link_local {
        errors.invalid(path, text, "may not be in the link-local range (169.254.0.0/16, fe80::/10)");
    }
    if local_multicast {
        errors.invalid(path, text, "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::created;

    #[test]
    fn addresses_can_be_reached() {
        let object = r#"{"subsets":[{"addresses":[{"ip":""},{"ip":"127.0.0.1"},{"ip":"fe80::1"},{"ip":"224.0.0.5"}]},{}]}"#;
        assert_eq!(
            created(&Endpoints, object),
            [
                r#"subsets[0].addresses[0].ip: Invalid value: "": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
                r#"subsets[0].addresses[0].ip: Invalid value: "": must be a valid IP address"#,
                r#"subsets[0].addresses[1].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)"#,
                r#"subsets[0].addresses[2].ip: Invalid value: "fe80::1": may not be in the link-local range (169.254.0.0/16, fe80::/10)"#,
                r#"subsets[0].addresses[3].ip: Invalid value: "224.0.0.5": may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"#,
                "subsets[1]: Required value: must specify `addresses` or `notReadyAddresses`",
            ]
        );
    }
}
