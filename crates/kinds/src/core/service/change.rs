//! Updates of a Service: fields that a type change drops, and immutable fields.

use super::addresses::{needs_cluster_ip, node_ports};
use super::{externally_accessible, is_headless, kind, needs_health_check, number, texts};
use pintle_meta::FieldErrors;
use pintle_meta::field::Named;
use pintle_value::{Path, Str, Value};
use std::collections::HashSet;

const STAYS: &str = "may not change once set";

/// Drops the fields that the new type does not have, if the client left them unchanged.
pub(super) fn drop_for_type(object: &mut Value, old: &Value) {
    let same = |object: &Value, field: &str| old.at(&["spec", field]) == object.at(&["spec", field]);
    let drop = |object: &mut Value, field: &str| _ = object.remove_at(&["spec", field]);
    if needs_cluster_ip(old) && !needs_cluster_ip(object) {
        if same(object, "clusterIP") && same(object, "clusterIPs") {
            drop(object, "clusterIP");
            drop(object, "clusterIPs");
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if same(object, field) {
                drop(object, field);
            }
        }
    }
    let has_node_ports = |v: &Value| matches!(kind(v), "NodePort" | "LoadBalancer");
    let keeps_node_ports = || {
        let before: HashSet<i64> = node_ports(old).into_iter().collect();
        node_ports(object).iter().all(|port| before.contains(port))
    };
    if has_node_ports(old) && !has_node_ports(object) && keeps_node_ports() {
        for port in object.at_mut(&["spec", "ports"]).and_then(Value::as_array_mut).into_iter().flatten() {
            port.remove_at(&["nodePort"]);
        }
    }
    if needs_health_check(old) && !needs_health_check(object) && same(object, "healthCheckNodePort") {
        drop(object, "healthCheckNodePort");
    }
    let (was_balancer, is_balancer) = (kind(old) == "LoadBalancer", kind(object) == "LoadBalancer");
    if was_balancer && !is_balancer {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(object, field) {
                drop(object, field);
            }
        }
    }
    if externally_accessible(old) && !externally_accessible(object) && same(object, "externalTrafficPolicy") {
        drop(object, "externalTrafficPolicy");
    }
    if !is_balancer {
        object.set_at(&["status", "loadBalancer"], Value::object());
    }
}

/// Validates an update.
pub(super) fn validate(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let named = kind(object) == "ExternalName" || kind(old) == "ExternalName";
    let (headless, was_headless) = (is_headless(object), is_headless(old));
    let both_headless = headless && was_headless;
    if !named && !both_headless {
        validate_addresses(object, old, errors);
    }
    if !named && headless == was_headless && !headless {
        validate_families(object, old, errors);
    }
    if kind(old) == "LoadBalancer" && kind(object) == "LoadBalancer" {
        let class = object.at(&["spec", "loadBalancerClass"]);
        if class != old.at(&["spec", "loadBalancerClass"]) {
            errors.invalid(&Path::of("spec.loadBalancerClass"), class, STAYS);
        }
    }
    super::validate::validate_balancer_class(object, errors);
    let port = ["spec", "healthCheckNodePort"];
    if needs_health_check(old) && needs_health_check(object) && number(old, &port) != number(object, &port) {
        errors.forbidden(&Path::of("spec.healthCheckNodePort"), "field is immutable");
    }
}

fn error_text(texts: &[&str]) -> Vec<Str> {
    texts.iter().map(|t| Str::from(*t)).collect()
}

fn validate_addresses(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let (before, after) = (texts(old, "clusterIPs"), texts(object, "clusterIPs"));
    let path = Path::of("spec.clusterIPs");
    let list = error_text(&after);
    if before.len() == after.len() {
        for (i, _) in before.iter().zip(&after).enumerate().filter(|(_, (b, a))| b != a) {
            errors.invalid(&path.index(i), list.as_slice(), STAYS);
        }
        return;
    }
    if before.len() > after.len() && after.is_empty() {
        errors.invalid(&path.index(0), list.as_slice(), "primary clusterIP can not be unset");
    }
    if let (Some(b), Some(a)) = (before.first(), after.first())
        && a != b
    {
        errors.invalid(&path.index(0), list.as_slice(), STAYS);
    }
    if before.len() > after.len() && after.len() == 1 {
        validate_release(object, "clusterIP", errors);
    }
}

fn validate_families(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let (before, after) = (texts(old, "ipFamilies"), texts(object, "ipFamilies"));
    let families = Path::of("spec.ipFamilies");
    let path = families.index(0);
    let ips = error_text(&texts(object, "clusterIPs"));
    let list = error_text(&after);
    if before.len() == after.len() {
        for _ in before.iter().zip(&after).filter(|(b, a)| b != a) {
            errors.invalid(&path, list.as_slice(), STAYS);
        }
        return;
    }
    if before.len() > after.len() && ips.is_empty() {
        errors.invalid(&path, list.as_slice(), "primary ipFamily can not be unset");
    }
    if let (Some(b), Some(a)) = (before.first(), after.first())
        && a != b
    {
        errors.invalid(&path, ips.as_slice(), STAYS);
    }
    if before.len() > after.len() && after.len() == 1 {
        validate_release(object, "ipFamily", errors);
    }
}

fn validate_release(object: &Value, what: &str, errors: &mut FieldErrors) {
    let policy = object.at(&["spec", "ipFamilyPolicy"]);
    let text = policy.and_then(Value::as_str);
    if text == Some("SingleStack") {
        return;
    }
    let spec = Path::of("spec");
    let detail = format!("must be set to 'SingleStack' when releasing the secondary {what}");
    match text {
        Some(text) => errors.invalid(&spec.field("ipFamilyPolicy"), Named(text), &detail),
        None => errors.invalid(&spec.field("ipFamilyPolicy"), policy, &detail),
    }
}
