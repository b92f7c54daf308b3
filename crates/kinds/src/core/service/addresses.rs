//! The rules of a Service's addresses and families that its allocation needs, and that hold before and after it.
//!
//! All of this is pure: which families there are is an argument, and what is taken is not known here.

use super::{kind, number, texts};
use crate::hooks::take;
use pintle_meta::field::Named;
use pintle_meta::{FieldErrors, net};
use pintle_value::{Path, Str, Value};
use std::collections::{HashMap, HashSet};

const IPV4: &str = "IPv4";
const IPV6: &str = "IPv6";
const SINGLE: &str = "SingleStack";
const DUAL: &str = "RequireDualStack";

/// The address families of the service CIDRs, the default one first.
pub type Families<'a> = &'a [&'a str];

/// Returns whether the service has cluster IPs.
pub fn needs_cluster_ip(service: &Value) -> bool {
    kind(service) != "ExternalName"
}

/// Returns whether the service's ports get node ports.
pub fn needs_node_ports(service: &Value) -> bool {
    let allocates = service.at(&["spec", "allocateLoadBalancerNodePorts"]).and_then(Value::as_bool);
    match kind(service) {
        "NodePort" => true,
        "LoadBalancer" => allocates.unwrap_or(true),
        _ => false,
    }
}

/// Returns whether the service gets a health check node port.
pub fn needs_health_check_port(service: &Value) -> bool {
    super::needs_health_check(service)
}

/// Makes `clusterIP` and `clusterIPs` consistent, for clients that know only one of them.
pub fn normalize(object: &mut Value, old: Option<&Value>) {
    let single: Str = object.str_at(&["spec", "clusterIP"]).into();
    let unset = texts(object, "clusterIPs").is_empty();
    let alone = |ip: &Str| Value::Array(vec![Value::String(ip.clone())]);
    let Some(old) = old else {
        if !single.is_empty() && unset {
            object.set_at(&["spec", "clusterIPs"], alone(&single));
        }
        return;
    };
    let old_single = old.str_at(&["spec", "clusterIP"]);
    if !texts(old, "clusterIPs").is_empty() && unset && old_single == single {
        take(object, old, &["spec", "clusterIPs"]);
    }
    if old_single == single || texts(old, "clusterIPs") != texts(object, "clusterIPs") {
        return;
    }
    if !old_single.is_empty() && single.is_empty() {
        object.remove_at(&["spec", "clusterIPs"]);
    } else {
        object.set_at(&["spec", "clusterIPs"], alone(&single));
    }
}

/// Restores allocated values that the client omitted, so that the same manifest can be applied again.
pub fn keep_allocated(object: &mut Value, old: &Value) {
    if needs_cluster_ip(old) && needs_cluster_ip(object) {
        if object.str_at(&["spec", "clusterIP"]).is_empty() {
            take(object, old, &["spec", "clusterIP"]);
        }
        if texts(object, "clusterIPs").is_empty() && !texts(old, "clusterIPs").is_empty() {
            take(object, old, &["spec", "clusterIPs"]);
        }
    }
    if needs_node_ports(old) && needs_node_ports(object) {
        keep_node_ports(object, old);
    }
    let port = ["spec", "healthCheckNodePort"];
    if needs_health_check_port(old) && needs_health_check_port(object) && number(object, &port) == 0 {
        take(object, old, &port);
    }
}

/// The node ports that are set.
pub fn node_ports(service: &Value) -> Vec<i64> {
    let ports = service.items_at(&["spec", "ports"]).iter();
    ports.map(|p| number(p, &["nodePort"])).filter(|p| *p != 0).collect()
}

fn keep_node_ports(object: &mut Value, old: &Value) {
    let [before, after] =
        [old, object].map(|service| -> HashSet<i64> { node_ports(service).into_iter().collect() });
    // Of ports with the same name the last one counts.
    let old = old.items_at(&["spec", "ports"]).iter();
    let by_name: HashMap<&str, i64> = old.map(|p| (p.str_at(&["name"]), number(p, &["nodePort"]))).collect();
    for port in object.at_mut(&["spec", "ports"]).and_then(Value::as_array_mut).into_iter().flatten() {
        if number(port, &["nodePort"]) != 0 {
            continue;
        }
        let Some(known) = by_name.get(port.str_at(&["name"])).copied() else { continue };
        if known != 0 && !(before.contains(&known) && after.contains(&known)) {
            port.set_at(&["nodePort"], known.into());
        }
    }
}

/// Sets `ipFamilyPolicy` and `ipFamilies`, or returns errors, which are the complete answer.
pub fn default_ip_families(
    object: &mut Value,
    old: Option<&Value>,
    families: Families<'_>,
) -> Result<(), FieldErrors> {
    if kind(object) == "ExternalName" || old.is_some_and(|old| prefers_dual_as_before(object, old)) {
        return Ok(());
    }
    default_ip_family_policy(object, old);
    let mut errors = FieldErrors::new();
    super::validate::validate_cluster_ips(object, old, &mut errors);
    into_result(errors)?;
    let mut errors = FieldErrors::new();
    if let Some(old) = old {
        follow_policy(object, old, &mut errors);
    }
    check_single_stack(object, &mut errors);
    infer_families(object, families, &mut errors);
    into_result(errors)?;
    let default = families.first().copied().unwrap_or(IPV4);
    if object.str_at(&["spec", "clusterIP"]) == "None" && is_empty_map(object.at(&["spec", "selector"])) {
        complete_families(object, default, true);
        return Ok(());
    }
    let mut errors = FieldErrors::new();
    check_configured(object, families, &mut errors);
    into_result(errors)?;
    complete_families(object, default, families.len() == 2);
    Ok(())
}

fn into_result(errors: FieldErrors) -> Result<(), FieldErrors> {
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

fn policy(service: &Value) -> &str {
    service.str_at(&["spec", "ipFamilyPolicy"])
}

fn is_empty_map(map: Option<&Value>) -> bool {
    map.and_then(Value::as_object).is_none_or(|m| m.is_empty())
}

/// A service that prefers dual stack does not change because the cluster has.
pub(super) fn prefers_dual_as_before(object: &Value, old: &Value) -> bool {
    let preferred = |p: &str| p == "PreferDualStack";
    kind(old) == kind(object)
        && matches!(kind(object), "ClusterIP" | "NodePort" | "LoadBalancer")
        && preferred(policy(object))
        && (policy(old).is_empty() || preferred(policy(old)))
        && texts(old, "clusterIPs") == texts(object, "clusterIPs")
        && texts(old, "ipFamilies") == texts(object, "ipFamilies")
}

fn default_ip_family_policy(object: &mut Value, old: Option<&Value>) {
    if object.at(&["spec", "ipFamilyPolicy"]).is_some() {
        return;
    }
    let headless = object.str_at(&["spec", "clusterIP"]) == "None";
    let chosen = match old.map(policy).filter(|p| !p.is_empty()) {
        Some(before) => before,
        None if headless && is_empty_map(object.at(&["spec", "selector"])) => DUAL,
        None => SINGLE,
    };
    object.set_at(&["spec", "ipFamilyPolicy"], chosen.into());
}

/// A single-stack policy removes the second address; otherwise it must stay.
fn follow_policy(object: &mut Value, old: &Value, errors: &mut FieldErrors) {
    let single = policy(object) == SINGLE;
    let path = Path::of("spec.ipFamilyPolicy");
    for (field, words) in [("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")] {
        let same = texts(old, field) == texts(object, field);
        let (before, after) = (texts(old, field).len(), texts(object, field).len());
        if single && same && after > 1 {
            if let Some(items) = object.at_mut(&["spec", field]).and_then(Value::as_array_mut) {
                items.truncate(1);
            }
        } else if !single && after != 0 && after < before {
            let detail = format!("must be 'SingleStack' to release the secondary {words}");
            errors.invalid(&path, Named(policy(object)), &detail);
        }
    }
}

fn check_single_stack(object: &Value, errors: &mut FieldErrors) {
    if policy(object) != SINGLE {
        return;
    }
    for (field, words) in [("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")] {
        if texts(object, field).len() == 2 {
            let detail = format!(
                "must be 'RequireDualStack' or 'PreferDualStack' when multiple {words} are specified"
            );
            errors.invalid(&Path::of("spec.ipFamilyPolicy"), Named(SINGLE), &detail);
        }
    }
}

/// Derives the families from the addresses.
fn infer_families(object: &mut Value, families: Families<'_>, errors: &mut FieldErrors) {
    let ips: Vec<Str> = texts(object, "clusterIPs").into_iter().map(Str::from).collect();
    let mut known: Vec<Value> = object.items_at(&["spec", "ipFamilies"]).to_vec();
    for (i, ip) in ips.iter().enumerate().take_while(|(_, ip)| *ip != "None") {
        let family = family_of(ip);
        if i < known.len() {
            continue;
        }
        if families.contains(&family) {
            known.push(family.into());
        } else {
            let detail = format!("{family} is not configured on this cluster");
            errors.invalid(&Path::of("spec.clusterIPs").index(i), ips.as_slice(), &detail);
        }
    }
    if !known.is_empty() {
        object.set_at(&["spec", "ipFamilies"], Value::Array(known));
    }
}

fn check_configured(object: &Value, families: Families<'_>, errors: &mut FieldErrors) {
    let spec = Path::of("spec");
    if policy(object) == DUAL && families.len() < 2 {
        let detail = "this cluster is not configured for dual-stack services";
        errors.invalid(&spec.field("ipFamilyPolicy"), Named(DUAL), detail);
    }
    for (i, family) in texts(object, "ipFamilies").into_iter().enumerate() {
        if !families.contains(&family) {
            errors.invalid(
                &spec.field("ipFamilies").index(i),
                Named(family),
                "not configured on this cluster",
            );
        }
    }
}

/// Adds the default family if none was requested, and the other one if both are requested and available.
fn complete_families(object: &mut Value, default: &str, both: bool) {
    let mut known: Vec<Value> = object.items_at(&["spec", "ipFamilies"]).to_vec();
    if known.is_empty() {
        known.push(default.into());
    }
    if both && policy(object) != SINGLE && known.len() < 2 {
        let first = known.first().and_then(Value::as_str).unwrap_or("");
        known.push(if first == IPV4 { IPV6 } else { IPV4 }.into());
    }
    object.set_at(&["spec", "ipFamilies"], Value::Array(known));
}

/// `IPv4` or `IPv6`, judged by the text of an address.
pub fn family_of(ip: &str) -> &'static str {
    if net::parse_ip_sloppy(ip).is_some_and(|a| a.is_ipv6() && !net::ip_text(a).contains('.')) {
        IPV6
    } else {
        IPV4
    }
}
