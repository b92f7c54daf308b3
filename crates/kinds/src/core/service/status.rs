//! The status of a Service: the addresses of its load balancer.

use super::kind;
use crate::check;
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, names, net};
use pintle_value::{Path, Value};
use std::collections::HashSet;

const INGRESS: [&str; 3] = ["status", "loadBalancer", "ingress"];

/// The default `ipMode` of a load balancer address is VIP.
pub(super) fn default(object: &mut Value) {
    if kind(object) != "LoadBalancer" {
        return;
    }
    for ingress in object.at_mut(&INGRESS).and_then(Value::as_array_mut).into_iter().flatten() {
        if !ingress.str_at(&["ip"]).is_empty() && ingress.get("ipMode").is_none_or(Value::is_null) {
            ingress.set_at(&["ipMode"], "VIP".into());
        }
    }
}

/// Validates a status update.
pub(super) fn validate(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let path = Path::of("status.loadBalancer.ingress");
    let ingresses = object.items_at(&INGRESS);
    if kind(object) != "LoadBalancer" && !ingresses.is_empty() {
        return errors.forbidden(&path, "may only be used when `spec.type` is 'LoadBalancer'");
    }
    let known: HashSet<&str> =
        old.items_at(&INGRESS).iter().map(|i| i.str_at(&["ip"])).filter(|ip| !ip.is_empty()).collect();
    for (i, ingress) in ingresses.iter().enumerate() {
        validate_ingress(ingress, &known, &path.index(i), errors);
    }
}

fn validate_ingress(ingress: &Value, known: &HashSet<&str>, path: &Path<'_>, errors: &mut FieldErrors) {
    let ip = ingress.str_at(&["ip"]);
    if !ip.is_empty() {
        net::validate_ip_legacy(&path.field("ip"), ip, known, errors);
    }
    let mode = path.field("ipMode");
    match ingress.get("ipMode").and_then(Value::as_str) {
        None if !ip.is_empty() => errors.required(&mode, "must be specified when `ip` is set"),
        Some(_) if ip.is_empty() => errors.forbidden(&mode, "may not be specified when `ip` is not set"),
        None | Some("VIP" | "Proxy") => {}
        Some(other) => errors.not_supported(&mode, Named(other), &["Proxy", "VIP"]),
    }
    let hostname = ingress.str_at(&["hostname"]);
    if hostname.is_empty() {
        return;
    }
    let path = path.field("hostname");
    check::each(names::is_dns1123_subdomain(hostname), &path, hostname, errors);
    if net::parse_ip_sloppy(hostname).is_some() {
        errors.invalid(&path, hostname, "must be a DNS name, not an IP address");
    }
}
