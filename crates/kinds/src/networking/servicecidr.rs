//! ServiceCIDR: one immutable network per family.

use crate::error_text::Internal;
use crate::fields::texts;
use crate::{Hooks, Scope};
use pintle_meta::{FieldErrors, net, objectmeta};
use pintle_value::{Path, Str, Value};

pub(crate) struct ServiceCidr;

impl Hooks for ServiceCidr {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate_cidrs(object, errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope != Scope::Main {
            return;
        }
        let (before, after) = (cidrs(old), cidrs(object));
        let path = Path::of("spec.cidrs");
        let grows = before.len() == 1 && after.len() == 2;
        if before.len() != after.len() && !grows {
            return errors.invalid(&path, object.at(&["spec", "cidrs"]), objectmeta::IMMUTABLE);
        }
        for (i, (_, new)) in before.iter().zip(&after).enumerate().filter(|(_, (b, a))| b != a) {
            errors.invalid(&path.index(i), *new, objectmeta::IMMUTABLE);
        }
        if grows {
            validate_cidrs(object, errors);
        }
    }
}

fn cidrs(object: &Value) -> Vec<&str> {
    object.get("spec").map(|s| texts(s, "cidrs")).unwrap_or_default()
}

fn validate_cidrs(object: &Value, errors: &mut FieldErrors) {
    let all = cidrs(object);
    let path = Path::of("spec.cidrs");
    if all.is_empty() {
        return errors.required(&path, "at least one CIDR required");
    }
    if all.len() > 2 {
        return errors.invalid(
            &path,
            Internal(object.get("spec"), "networking/v1.ServiceCIDRSpec"),
            "may only hold up to 2 values",
        );
    }
    for (i, cidr) in all.iter().enumerate() {
        net::validate_cidr(&path.index(i), cidr, errors);
    }
    let family = |cidr: &&str| net::parse_cidr_sloppy(cidr).map(|c| c.address.to_canonical().is_ipv4());
    if let [Some(first), Some(second)] = all.iter().map(family).collect::<Vec<_>>().as_slice()
        && first == second
    {
        let error_text: Vec<Str> = all.iter().map(|c| Str::from(*c)).collect();
        let detail =
            "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64";
        errors.invalid(&path, error_text.as_slice(), detail);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, updated};

    #[test]
    fn networks_are_few_and_stay() {
        assert_eq!(
            created(&ServiceCidr, r#"{"spec":{"cidrs":["192.0.2.0/24","2001:db8::/112","x"]}}"#),
            [
                r#"spec.cidrs: Invalid value: {"CIDRs":["192.0.2.0/24","2001:db8::/112","x"]}: may only hold up to 2 values"#
            ]
        );
        let (old, new) = (r#"{"spec":{"cidrs":["10.0.0.0/24"]}}"#, r#"{"spec":{"cidrs":["10.1.0.0/24"]}}"#);
        assert_eq!(
            updated(&ServiceCidr, Scope::Main, new, old),
            [r#"spec.cidrs[0]: Invalid value: "10.1.0.0/24": field is immutable"#]
        );
    }
}
