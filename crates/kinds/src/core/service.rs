//! Service: defaults, fields that a type change drops, warnings. The engine allocates addresses and node ports between
//! `prepare_*` and `validate_*`, with `allocate`.

pub mod addresses;
pub mod allocate;
mod change;
mod status;
mod validate;

use crate::{Hooks, Scope, fill, metadata};
use pintle_meta::{FieldErrors, names, net};
use pintle_value::{Path, Value};

const AFFINITY_SECONDS: i64 = 10800;
const TOPOLOGY_HINTS: &str = "service.kubernetes.io/topology-aware-hints";
const TOPOLOGY_MODE: &str = "service.kubernetes.io/topology-mode";

pub(crate) struct Service;

impl Hooks for Service {
    fn prepare_create(&self, object: &mut Value) {
        addresses::normalize(object, None);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        if scope != Scope::Main {
            return;
        }
        addresses::keep_allocated(object, old);
        addresses::normalize(object, Some(old));
        change::drop_for_type(object, old);
    }

    fn hides_from_readers(&self) -> bool {
        true
    }

    /// The policy of a service whose type does not use it comes back with another type.
    fn hide_from_readers(&self, object: &mut Value) -> bool {
        kind(object) == "ExternalName" && object.remove_at(&["spec", "internalTrafficPolicy"]).is_some()
    }

    fn name_errors(&self, name: &str, prefix: bool) -> Vec<String> {
        names::dns_label(name, prefix)
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        validate::validate_service(object, None, errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        if scope != Scope::Main {
            return status::validate(object, old, errors);
        }
        change::validate(object, old, errors);
        validate::validate_service(object, Some(old), errors);
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut out = Vec::new();
        if metadata::annotation(object, TOPOLOGY_HINTS).is_some() {
            out.push(format!(
                "annotation {TOPOLOGY_HINTS} is deprecated, please use {TOPOLOGY_MODE} instead"
            ));
        }
        address_warnings(object, &mut out);
        ignored_warnings(object, &mut out);
        out
    }
}

/// Returns `spec.type`.
pub(super) fn kind(object: &Value) -> &str {
    object.str_at(&["spec", "type"])
}

/// The strings of a list in the spec.
pub(super) fn texts<'a>(object: &'a Value, field: &str) -> Vec<&'a str> {
    object.items_at(&["spec", field]).iter().map(|v| v.as_str().unwrap_or("")).collect()
}

/// A number of the spec or a port; 0 if unset.
pub(super) fn number(object: &Value, keys: &[&str]) -> i64 {
    object.at(keys).and_then(Value::as_int).unwrap_or(0)
}

/// The only address is `None`.
pub(super) fn is_headless(object: &Value) -> bool {
    texts(object, "clusterIPs") == ["None"]
}

/// Returns whether the service is reachable from outside of the cluster.
pub(super) fn externally_accessible(object: &Value) -> bool {
    match kind(object) {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !object.items_at(&["spec", "externalIPs"]).is_empty(),
        _ => false,
    }
}

/// Returns whether a load balancer needs a health check node port.
pub(super) fn needs_health_check(object: &Value) -> bool {
    kind(object) == "LoadBalancer" && object.str_at(&["spec", "externalTrafficPolicy"]) == "Local"
}

/// Defaults that depend on the type, the affinity and the addresses.
pub(crate) fn default_from_others(object: &mut Value) {
    match object.str_at(&["spec", "sessionAffinity"]) {
        "None" => _ = object.remove_at(&["spec", "sessionAffinityConfig"]),
        "ClientIP" => {
            let timeout = ["spec", "sessionAffinityConfig", "clientIP", "timeoutSeconds"];
            if object.at(&timeout).is_none_or(Value::is_null) {
                object.remove_at(&["spec", "sessionAffinityConfig"]);
                object.set_at(&timeout, AFFINITY_SECONDS.into());
            }
        }
        _ => {}
    }
    let accessible = externally_accessible(object);
    if let Some(spec) = object.get_mut("spec").filter(|_| accessible) {
        fill::zero(spec, "externalTrafficPolicy", "Cluster");
    }
    status::default(object);
}

/// A port of the pods is the service's own, unless it is given.
pub(crate) fn default_target_port(port: &mut Value) {
    let number = number(port, &["port"]);
    fill::zero(port, "targetPort", number);
}

fn address_warnings(object: &Value, out: &mut Vec<String>) {
    let spec = Path::of("spec");
    let text = |field: &str| object.str_at(&["spec", field]);
    let of_list = |field: &str, warn: fn(&Path<'_>, &str) -> Vec<String>| -> Vec<String> {
        let path = spec.field(field);
        texts(object, field).iter().enumerate().flat_map(|(i, value)| warn(&path.index(i), value)).collect()
    };
    let headless = kind(object) == "ClusterIP" && text("clusterIP") == "None";
    if !matches!(text("clusterIP"), "" | "None") {
        out.extend(of_list("clusterIPs", net::ip_warnings));
    }
    let external = !object.items_at(&["spec", "externalIPs"]).is_empty();
    if headless {
        if !text("loadBalancerIP").is_empty() {
            out.push("spec.loadBalancerIP is ignored for headless services".to_string());
        }
        if external {
            out.push("spec.externalIPs is ignored for headless services".to_string());
        }
        if text("sessionAffinity") != "None" {
            out.push("spec.SessionAffinity is ignored for headless services".to_string());
        }
    }
    out.extend(of_list("externalIPs", net::ip_warnings));
    if external && !headless && kind(object) != "ExternalName" {
        out.push(
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters".to_string(),
        );
    }
    if !text("loadBalancerIP").is_empty() {
        out.extend(net::ip_warnings(&spec.field("loadBalancerIP"), text("loadBalancerIP")));
    }
    out.extend(of_list("loadBalancerSourceRanges", net::cidr_warnings));
}

fn ignored_warnings(object: &Value, out: &mut Vec<String>) {
    let external_name = kind(object) == "ExternalName";
    if external_name && !object.items_at(&["spec", "externalIPs"]).is_empty() {
        out.push(r#"spec.externalIPs is ignored when spec.type is "ExternalName""#.to_string());
    }
    if !external_name && !object.str_at(&["spec", "externalName"]).is_empty() {
        out.push(r#"spec.externalName is ignored when spec.type is not "ExternalName""#.to_string());
    }
    if object.str_at(&["spec", "trafficDistribution"]) == "PreferClose" {
        out.push(
            r#"spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone""#.to_string(),
        );
    }
}

#[cfg(test)]
mod tests;
