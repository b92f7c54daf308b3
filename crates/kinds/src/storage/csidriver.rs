//! CSIDriver: the capabilities of a driver.

use crate::fields::{list, member, text};
use crate::{Hooks, facts};
use pintle_meta::FieldErrors;
use pintle_value::{Path, Value};
use std::collections::HashSet;

const TYPE: &str = "storage/v1.CSIDriverSpec";
const TOKEN_WARNING: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";

pub(crate) struct CsiDriver;

impl Hooks for CsiDriver {
    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let path = Path::of("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        let before_tokens = ["attachRequired", "podInfoOnMount", "storageCapacity", "fsGroupPolicy"];
        facts::check_fields(spec, TYPE, &before_tokens, &path, errors);
        validate_tokens(list(spec, "tokenRequests"), &path.field("tokenRequests"), errors);
        let after_tokens = ["volumeLifecycleModes", "seLinuxMount", "nodeAllocatableUpdatePeriodSeconds"];
        facts::check_fields(spec, TYPE, &after_tokens, &path, errors);
        let in_secrets = member(spec, "serviceAccountTokenInSecrets");
        if in_secrets.is_some() && list(spec, "tokenRequests").is_empty() {
            let at = path.field("serviceAccountTokenInSecrets");
            errors.invalid(
                &at,
                in_secrets,
                "serviceAccountTokenInSecrets is set but no tokenRequests are specified",
            );
        }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let requests = ["spec", "tokenRequests"];
        let asks = !object.items_at(&requests).is_empty();
        let unset = object.at(&["spec", "serviceAccountTokenInSecrets"]).is_none();
        let changed = old.is_none_or(|old| old.at(&requests) != object.at(&requests));
        if asks && unset && changed { vec![TOKEN_WARNING.to_string()] } else { Vec::new() }
    }
}

fn validate_tokens(requests: &[Value], path: &Path<'_>, errors: &mut FieldErrors) {
    let mut audiences = HashSet::new();
    for (i, request) in requests.iter().enumerate() {
        let path = path.index(i);
        let audience = text(request, "audience");
        if !audiences.insert(audience) {
            errors.duplicate(&path.field("audience"), audience);
            continue;
        }
        facts::check(request, "storage/v1.TokenRequest", &path, errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, defaulted};

    #[test]
    fn a_driver_of_nothing_gets_all_defaults() {
        let full = defaulted("storage/v1.CSIDriver", "{}");
        assert_eq!(
            full,
            r#"{"spec":{"attachRequired":true,"fsGroupPolicy":"ReadWriteOnceWithFSType","podInfoOnMount":false,"requiresRepublish":false,"seLinuxMount":false,"storageCapacity":false,"volumeLifecycleModes":["Persistent"]}}"#
        );
        assert_eq!(created(&CsiDriver, &full), Vec::<String>::new());
    }

    #[test]
    fn tokens_last_for_a_while() {
        let requests = [
            Value::from(pintle_value::Map::from_iter([
                ("audience", Value::from("a")),
                ("expirationSeconds", 599.into()),
            ])),
            Value::from(pintle_value::Map::from_iter([("audience", Value::from("a"))])),
        ];
        let mut errors = FieldErrors::new();
        validate_tokens(&requests, &Path::of("t"), &mut errors);
        assert_eq!(
            errors.aggregate_message(),
            r#"[t[0].expirationSeconds: Invalid value: 599: may not specify a duration less than 10 minutes, t[1].audience: Duplicate value: "a"]"#
        );
    }
}
