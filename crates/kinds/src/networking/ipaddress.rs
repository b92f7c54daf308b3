//! IPAddress: its name is the address, its reference the owner.

use crate::{Hooks, facts};
use pintle_meta::field::quoted;
use pintle_meta::{FieldErrors, net};
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
        let spec = object.get("spec").unwrap_or(&Value::Null);
        facts::check(spec, "networking/v1.IPAddressSpec", &Path::of("spec"), errors);
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
