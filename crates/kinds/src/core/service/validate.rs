//! Validates the spec of a Service.

use super::{
    TOPOLOGY_HINTS, TOPOLOGY_MODE, externally_accessible, is_headless, kind, needs_health_check, number,
    texts,
};
use crate::core::endpoints::validate_endpoint_ip;
use crate::{check, facts, metadata};
use pintle_meta::field::{Named, Plain};
use pintle_meta::selector::label_validation::validate_labels;
use pintle_meta::{FieldErrors, names, net};
use pintle_value::{Path, Str, Value};
use std::collections::HashSet;

const AFFINITY_SECONDS_MAX: i64 = 86400;
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_BALANCERS: &str = "may only be used when `type` is 'LoadBalancer'";

const DISTRIBUTIONS: [&str; 3] = ["PreferClose", "PreferSameZone", "PreferSameNode"];

/// Checks a service, new or changed.
pub(super) fn validate_service(object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let spec = Path::of("spec");
    validate_topology(object, errors);
    let ports = object.items_at(&["spec", "ports"]);
    if ports.is_empty() && !is_headless(object) && kind(object) != "ExternalName" {
        errors.required(&spec.field("ports"), "");
    }
    validate_type_and_addresses(object, errors);
    let mut seen = check::Unique::default();
    for (i, port) in ports.iter().enumerate() {
        validate_service_port(port, ports.len() > 1, &mut seen, &spec.field("ports").index(i), errors);
    }
    let selector = object.at(&["spec", "selector"]).and_then(Value::as_object);
    validate_labels(selector, &spec.field("selector"), errors);
    validate_affinity(object, errors);
    validate_cluster_ips(object, old, errors);
    validate_external_ips(object, old, errors);
    validate_spec(object, &["type"], errors);
    validate_node_ports(object, errors);
    refuse_duplicate_ports(object, errors);
    validate_source_ranges(object, old, errors);
    let allocates = object.at(&["spec", "allocateLoadBalancerNodePorts"]).is_some();
    let is_balancer = kind(object) == "LoadBalancer";
    if allocates && !is_balancer {
        errors.forbidden(&spec.field("allocateLoadBalancerNodePorts"), ONLY_BALANCERS);
    } else if is_balancer && !allocates {
        errors.required(&Path::of("allocateLoadBalancerNodePorts"), "");
    }
    validate_balancer_class(object, errors);
    validate_external_traffic(object, errors);
    validate_internal_traffic(object, errors);
    if let Some(distribution) = object.at(&["spec", "trafficDistribution"]).and_then(Value::as_str)
        && !DISTRIBUTIONS.contains(&distribution)
    {
        errors.not_supported(&spec.field("trafficDistribution"), distribution, &DISTRIBUTIONS);
    }
}

/// Checks the facts of these fields of the spec.
fn validate_spec(object: &Value, fields: &[&str], errors: &mut FieldErrors) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    facts::check_fields(spec, "core/v1.ServiceSpec", fields, &Path::of("spec"), errors);
}

fn validate_topology(object: &Value, errors: &mut FieldErrors) {
    let (hints, mode) =
        (metadata::annotation(object, TOPOLOGY_HINTS), metadata::annotation(object, TOPOLOGY_MODE));
    if let (Some(hints), Some(mode)) = (hints, mode)
        && hints != mode
    {
        let detail = format!("must match annotations[{TOPOLOGY_HINTS}] when both are specified");
        errors.invalid(&Path::of("metadata.annotations").key(TOPOLOGY_MODE), mode, &detail);
    }
}

fn validate_type_and_addresses(object: &Value, errors: &mut FieldErrors) {
    let spec = Path::of("spec");
    match kind(object) {
        kind @ ("LoadBalancer" | "NodePort") if is_headless(object) => {
            let detail = format!("may not be set to 'None' for {kind} services");
            errors.invalid(&spec.field("clusterIPs").index(0), "None", &detail);
        }
        "ExternalName" => {
            let detail = "may not be set for ExternalName services";
            for field in ["clusterIPs", "ipFamilies"] {
                if !texts(object, field).is_empty() {
                    errors.forbidden(&spec.field(field), detail);
                }
            }
            if object.at(&["spec", "ipFamilyPolicy"]).is_some() {
                errors.forbidden(&spec.field("ipFamilyPolicy"), detail);
            }
            let name = object.str_at(&["spec", "externalName"]);
            let name = name.strip_suffix('.').unwrap_or(name);
            let path = spec.field("externalName");
            if name.is_empty() {
                errors.required(&path, "");
            } else {
                check::each(names::is_dns1123_subdomain(name), &path, name, errors);
            }
        }
        _ => {}
    }
}

fn validate_service_port<'a>(
    port: &'a Value,
    wants_name: bool,
    seen: &mut check::Unique<&'a str>,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let name = port.str_at(&["name"]);
    if name.is_empty() {
        if wants_name {
            errors.required(&path.field("name"), "");
        }
    } else {
        check::each(names::is_dns1123_label(name), &path.field("name"), name, errors);
        seen.check(name, &path.field("name"), name, errors);
    }
    facts::check(port, "core/v1.ServicePort", path, errors);
}

fn validate_affinity(object: &Value, errors: &mut FieldErrors) {
    validate_spec(object, &["sessionAffinity"], errors);
    let path = Path::of("spec.sessionAffinityConfig");
    let config = object.at(&["spec", "sessionAffinityConfig"]);
    match object.str_at(&["spec", "sessionAffinity"]) {
        "ClientIP" => {
            let detail = "when session affinity type is ClientIP";
            let Some(config) = config else { return errors.required(&path, detail) };
            let path = path.field("clientIP");
            let Some(client) = config.get("clientIP") else { return errors.required(&path, detail) };
            let path = path.field("timeoutSeconds");
            let Some(seconds) = client.get("timeoutSeconds").and_then(Value::as_int) else {
                return errors.required(&path, detail);
            };
            if !(1..=AFFINITY_SECONDS_MAX).contains(&seconds) {
                let detail = format!("must be greater than 0 and less than {AFFINITY_SECONDS_MAX}");
                errors.invalid(&path, seconds, &detail);
            }
        }
        "None" if config.is_some() => {
            errors.forbidden(&path, "must not be set when session affinity is None");
        }
        _ => {}
    }
}

/// Checks `clusterIP`, `clusterIPs`, `ipFamilies` and `ipFamilyPolicy` together.
pub(super) fn validate_cluster_ips(object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    if kind(object) == "ExternalName" {
        return;
    }
    let path = Path::of("spec.clusterIPs");
    let ips = texts(object, "clusterIPs");
    let list: Vec<Str> = ips.iter().map(|ip| Str::from(*ip)).collect();
    match (object.str_at(&["spec", "clusterIP"]), ips.first()) {
        ("", None) => {}
        ("", Some(_)) => {
            errors.invalid(&path, list.as_slice(), "must be empty when `clusterIP` is not specified");
        }
        (_, None) => errors.required(&path, ""),
        (single, Some(first)) if single != *first => {
            errors.invalid(&path, list.as_slice(), "first value must match `clusterIP`");
        }
        _ => {}
    }
    validate_families(object, errors);
    let known = old.map(|old| texts(old, "clusterIPs")).into_iter().flatten().collect();
    let before = errors.0.len();
    for (i, ip) in ips.iter().enumerate() {
        if i == 0 && *ip == "None" {
            if ips.len() > 1 {
                errors.invalid(&path, list.as_slice(), "'None' must be the first and only value");
            }
            continue;
        }
        net::validate_ip_legacy(&path.index(i), ip, &known, errors);
    }
    let complaints = errors.0.len() > before;
    if ips.len() > 2 {
        errors.invalid(&path, list.as_slice(), "may only hold up to 2 values");
    }
    if complaints {
        return;
    }
    let is_v6 = |ip: &str| super::addresses::family_of(ip) == "IPv6";
    let v6 = ips.iter().filter(|ip| is_v6(ip)).count();
    if ips.len() > 1 && (v6 == 0 || v6 == ips.len()) {
        errors.invalid(&path, list.as_slice(), "may specify no more than one IP for each IP family");
    }
    if is_headless(object) {
        return;
    }
    for (i, (ip, family)) in ips.iter().zip(texts(object, "ipFamilies")).enumerate() {
        let mismatch = (family == "IPv4" && is_v6(ip)) || (family == "IPv6" && !is_v6(ip));
        if mismatch {
            let detail = format!("expected an {family} value as indicated by `ipFamilies[{i}]`");
            errors.invalid(&path.index(i), *ip, &detail);
        }
    }
}

fn validate_families(object: &Value, errors: &mut FieldErrors) {
    let path = Path::of("spec.ipFamilies");
    let mut seen = check::Unique::default();
    for (i, family) in texts(object, "ipFamilies").into_iter().enumerate() {
        if !matches!(family, "IPv4" | "IPv6") {
            errors.not_supported(&path.index(i), Named(family), &["IPv4", "IPv6"]);
        }
        seen.check(family, &path.index(i), Named(family), errors);
    }
    validate_spec(object, &["ipFamilyPolicy"], errors);
}

fn validate_external_ips(object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let path = Path::of("spec.externalIPs");
    let known = old.map(|old| texts(old, "externalIPs")).into_iter().flatten().collect();
    for (i, ip) in texts(object, "externalIPs").into_iter().enumerate() {
        let before = errors.0.len();
        net::validate_ip_legacy(&path.index(i), ip, &known, errors);
        if errors.0.len() == before {
            validate_endpoint_ip(ip, &path.index(i), errors);
        }
    }
}

fn validate_node_ports(object: &Value, errors: &mut FieldErrors) {
    let path = Path::of("spec.ports");
    let ports = object.items_at(&["spec", "ports"]);
    let set = || ports.iter().enumerate().filter(|(_, p)| number(p, &["nodePort"]) != 0);
    if kind(object) == "ClusterIP" {
        for (i, _) in set() {
            errors.forbidden(&path.index(i).field("nodePort"), "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = check::Unique::default();
    for (i, port) in set() {
        let value = number(port, &["nodePort"]);
        seen.check((port.str_at(&["protocol"]), value), &path.index(i).field("nodePort"), value, errors);
    }
}

fn refuse_duplicate_ports(object: &Value, errors: &mut FieldErrors) {
    let path = Path::of("spec.ports");
    let mut seen = check::Unique::default();
    for (i, port) in object.items_at(&["spec", "ports"]).iter().enumerate() {
        let (protocol, value) = (port.str_at(&["protocol"]), number(port, &["port"]));
        if seen.is_repeated((protocol, value)) {
            let protocol = pintle_meta::field::ErrorText::error_text(&Named(protocol));
            let error_text = format!(
                r#"{{"Name":"","Protocol":{protocol},"AppProtocol":null,"Port":{value},"TargetPort":0,"NodePort":0}}"#
            );
            errors.duplicate(&path.index(i), Plain(&error_text));
        }
    }
}

fn validate_source_ranges(object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let balancer = kind(object) == "LoadBalancer";
    let ranges = texts(object, "loadBalancerSourceRanges");
    if !ranges.is_empty() {
        let path = Path::of("spec.LoadBalancerSourceRanges");
        if !balancer {
            errors.forbidden(&path, ONLY_BALANCERS);
        }
        let known = old.map(|old| texts(old, "loadBalancerSourceRanges")).into_iter().flatten();
        let known = known.map(str::trim).collect();
        for (i, range) in ranges.into_iter().enumerate() {
            net::validate_cidr_legacy(&path.index(i), range.trim(), &known, errors);
        }
        return;
    }
    let Some(ranges) = metadata::annotation(object, SOURCE_RANGES) else { return };
    let annotations = Path::of("metadata.annotations");
    let path = annotations.key(SOURCE_RANGES);
    if !balancer {
        errors.forbidden(&path, ONLY_BALANCERS);
    }
    let unchanged = old.is_some_and(|old| metadata::annotation(old, SOURCE_RANGES).unwrap_or("") == ranges);
    if !unchanged && !ranges.trim().is_empty() {
        for range in ranges.trim().split(',') {
            net::validate_cidr_legacy(&path, range.trim(), &HashSet::new(), errors);
        }
    }
}

/// Checks the class of the load balancer.
pub(super) fn validate_balancer_class(object: &Value, errors: &mut FieldErrors) {
    let Some(class) = object.at(&["spec", "loadBalancerClass"]).and_then(Value::as_str) else { return };
    let path = Path::of("spec.loadBalancerClass");
    if kind(object) != "LoadBalancer" {
        return errors.forbidden(&path, ONLY_BALANCERS);
    }
    check::each(names::is_qualified_name(class), &path, class, errors);
}

fn validate_external_traffic(object: &Value, errors: &mut FieldErrors) {
    let spec = Path::of("spec");
    let policy = object.str_at(&["spec", "externalTrafficPolicy"]);
    let path = spec.field("externalTrafficPolicy");
    if externally_accessible(object) {
        validate_spec(object, &["externalTrafficPolicy"], errors);
    } else if !policy.is_empty() {
        errors.invalid(&path, Named(policy), "may only be set for externally-accessible services");
    }
    let port = number(object, &["spec", "healthCheckNodePort"]);
    let path = spec.field("healthCheckNodePort");
    match (needs_health_check(object), port) {
        (false, 0) => {}
        (false, port) => {
            let detail =
                "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
            errors.invalid(&path, port, detail);
        }
        (true, 0) => errors.required(&path, ""),
        (true, port) => {
            check::each(names::is_valid_port_num(port), &path, port, errors);
        }
    }
}

fn validate_internal_traffic(object: &Value, errors: &mut FieldErrors) {
    let path = Path::of("spec.internalTrafficPolicy");
    match object.at(&["spec", "internalTrafficPolicy"]).and_then(Value::as_str) {
        None if matches!(kind(object), "NodePort" | "LoadBalancer" | "ClusterIP") => {
            errors.required(&path, "")
        }
        None | Some("Cluster" | "Local") => {}
        Some(other) => errors.not_supported(&path, Named(other), &["Cluster", "Local"]),
    }
}
