//! IPAddress: its name is the address, its reference the owner.

use crate::fields::{member, text};
use crate::{Hooks, check};
use pintle_meta::field::quoted;
use pintle_meta::{FieldErrors, names, net};
use pintle_value::{Path, Value};

pub(crate) struct IpAddress;

impl Hooks for IpAddress {
    fn name_errors(&self, name: &str, _prefix: bool) -> Vec<String> {
        let mut errors = FieldErrors::new();
        net::validate_ip(&Path::ROOT, name, &mut errors);
        let opening = format!("Invalid value: {}: ", quoted(name));
        errors.0.iter().map(|e| e.body.strip_prefix(&opening).unwrap_or(&e.body).to_string()).collect()
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let path = Path::of("spec.parentRef");
        let Some(parent) = object.get("spec").and_then(|s| member(s, "parentRef")) else {
            return errors.required(&path, "");
        };
        let group = text(parent, "group");
        if !group.is_empty() {
            check::dns_subdomain(&path.field("group"), group, errors);
        }
        for field in ["resource", "name", "namespace"] {
            match text(parent, field) {
                "" if field == "namespace" => {}
                "" => errors.required(&path.field(field), ""),
                value => {
                    check::each(names::path_segment_name(value, false), &path.field(field), value, errors)
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_canonical_addresses() {
        for (name, expected) in [
            ("192.0.2.1", vec![]),
            ("x", vec!["must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"]),
            ("2001:DB8::1", vec![r#"must be in canonical form ("2001:db8::1")"#]),
        ] {
            assert_eq!(IpAddress.name_errors(name, false), expected);
        }
    }
}
