//! Authorizes updates of a ResourceClaim's status, which also need rights for the allocation and for the devices of
//! each driver.

use crate::propose::Change;
use crate::write::WriteRequest;
use crate::{Target, Writer};
use pintle_auth::authz::{Attributes, forbidden};
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};
use std::collections::BTreeSet;

/// The key in the extra fields of a service account user that names the node its token is bound to.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// Returns whether the target is the status subresource of a ResourceClaim.
pub(crate) fn applies_to(target: &Target) -> bool {
    target.subresource == "status"
        && target.kind.group == "resource.k8s.io"
        && target.kind.kind == "ResourceClaim"
}

impl Writer {
    /// Appends an error for each part of a ResourceClaim's status that the user may not change.
    pub(crate) async fn check_claim_rights(
        &self,
        request: &WriteRequest,
        new: &Value,
        old: &Value,
        errors: &mut FieldErrors,
    ) {
        if !self.granular_claim_status {
            return;
        }
        let verb = if matches!(request.change, Change::Replace(_)) { "update" } else { "patch" };
        let changed = |key: &str| part(new, key) != part(old, key);
        if changed("allocation") || changed("reservedFor") {
            let question = access_attributes(request, verb, "binding", "", "");
            if let Some(why) = self.refusal(&question).await {
                let detail = format!(
                    "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
                     verb=\"{verb}\" permission: {why}"
                );
                errors.forbidden(&Path::of("status.allocation"), &detail);
            }
        }
        // Without an allocation no device can be reported.
        if part(new, "allocation").is_none() {
            return;
        }
        let arbitrary = format!("arbitrary-node:{verb}");
        let verbs = if is_on_allocated_node(request, new) {
            vec![format!("associated-node:{verb}"), arbitrary]
        } else {
            vec![arbitrary]
        };
        for driver in changed_drivers(new, old) {
            let mut first = None;
            for verb in &verbs {
                let question = access_attributes(request, verb, "driver", &request.target.namespace, &driver);
                match self.refusal(&question).await {
                    None => {
                        first = None;
                        break;
                    }
                    Some(why) => first = first.or(Some(why)),
                }
            }
            if let Some(why) = first {
                let detail = format!(
                    "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {why}",
                    verbs.join(" ")
                );
                errors.forbidden(&Path::of("status.devices"), &detail);
            }
        }
    }

    /// Returns the message of a denial, or `None` if the request is allowed.
    async fn refusal(&self, question: &Attributes) -> Option<String> {
        let decision = self.admission.authorizer.authorize(question).await;
        if decision.is_allowed() {
            return None;
        }
        let reason = match (decision.error(), decision.reason()) {
            (Some(error), "") => error.to_string(),
            (Some(error), reason) => format!("{error}: {reason}"),
            (None, reason) => reason.to_string(),
        };
        Some(forbidden(question, &reason).message.to_string())
    }
}

fn access_attributes(
    request: &WriteRequest,
    verb: &str,
    subresource: &str,
    namespace: &str,
    name: &str,
) -> Attributes {
    let version = request.target.kind_version();
    Attributes {
        user: request.user.clone(),
        verb: verb.into(),
        resource_request: true,
        group: version.group.to_string(),
        version: version.name.to_string(),
        resource: request.target.kind.plural.to_string(),
        subresource: subresource.into(),
        namespace: namespace.into(),
        name: name.into(),
        ..Attributes::default()
    }
}

/// A part of the status; `None` if it is absent or empty.
fn part<'a>(claim: &'a Value, key: &str) -> Option<&'a Value> {
    let found = claim.at(&["status", key])?;
    let is_empty = found.is_null() || found.as_array().is_some_and(<[Value]>::is_empty);
    (!is_empty).then_some(found)
}

/// The drivers whose devices were added, changed or removed.
fn changed_drivers(new: &Value, old: &Value) -> BTreeSet<String> {
    let key =
        |device: &Value| ["driver", "pool", "device", "shareID"].map(|k| device.str_at(&[k]).to_string());
    let all = |claim: &Value| claim.items_at(&["status", "devices"]).to_vec();
    let (new, old) = (all(new), all(old));
    let missing_in = |others: &[Value], device: &Value| {
        !others.iter().any(|other| key(other) == key(device) && other == device)
    };
    let added = new.iter().filter(|device| missing_in(&old, device));
    let removed = old.iter().filter(|device| missing_in(&new, device));
    added.chain(removed).map(|device| device.str_at(&["driver"]).to_string()).collect()
}

/// Returns whether the user is a service account whose token is bound to the node that the claim is allocated on.
fn is_on_allocated_node(request: &WriteRequest, claim: &Value) -> bool {
    let [term] = claim.items_at(&["status", "allocation", "nodeSelector", "nodeSelectorTerms"]) else {
        return false;
    };
    let ([], [field]) = (term.items_at(&["matchExpressions"]), term.items_at(&["matchFields"])) else {
        return false;
    };
    let [node] = field.items_at(&["values"]) else { return false };
    let is_by_name = field.str_at(&["key"]) == "metadata.name" && field.str_at(&["operator"]) == "In";
    let is_account = request.user.name.starts_with("system:serviceaccount:");
    let bound_to = request.user.extra.get(NODE_NAME).map(Vec::as_slice);
    is_by_name
        && is_account
        && matches!(bound_to, Some([name]) if Some(name.as_str()) == node.as_str()
            && names::dns_subdomain(name, false).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    #[test]
    fn drivers_whose_devices_changed() {
        let claim = |devices: &str| {
            json::parse(format!("{{\"status\":{{\"devices\":[{devices}]}}}}").as_bytes()).unwrap().value
        };
        let a = r#"{"driver":"a","pool":"p","device":"d"}"#;
        let changed = r#"{"driver":"a","pool":"p","device":"d","data":1}"#;
        let b = r#"{"driver":"b","pool":"p","device":"d"}"#;
        for (new, old, want) in [
            (a.to_string(), a.to_string(), vec![]),
            (changed.to_string(), a.to_string(), vec!["a"]),
            (format!("{a},{b}"), a.to_string(), vec!["b"]),
            (String::new(), format!("{a},{b}"), vec!["a", "b"]),
        ] {
            let found: Vec<String> = changed_drivers(&claim(&new), &claim(&old)).into_iter().collect();
            assert_eq!(found, want, "{new} {old}");
        }
    }
}
