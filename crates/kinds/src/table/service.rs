//! Rows of services and endpoints.

use super::cell::{number, text, texts, with_more};
use pintle_value::Value;
use std::collections::BTreeSet;

/// How many endpoints a cell contains.
const ENDPOINTS_SHOWN: usize = 3;

pub(super) fn external_ips(object: &Value) -> String {
    let external = texts(object, &["spec", "externalIPs"]);
    match object.str_at(&["spec", "type"]) {
        "ClusterIP" | "NodePort" if external.is_empty() => "<none>".to_string(),
        "ClusterIP" | "NodePort" => external.join(","),
        "LoadBalancer" => {
            let mut all = load_balancer(object);
            all.extend(external.iter().map(ToString::to_string));
            if all.is_empty() { "<pending>".to_string() } else { all.join(",") }
        }
        "ExternalName" => object.str_at(&["spec", "externalName"]).to_string(),
        _ => "<unknown>".to_string(),
    }
}

/// The distinct addresses of a load balancer, in order.
pub(super) fn load_balancer(object: &Value) -> Vec<String> {
    let addresses = object.items_at(&["status", "loadBalancer", "ingress"]).iter().map(|ingress| {
        let ip = ingress.str_at(&["ip"]);
        if ip.is_empty() { ingress.str_at(&["hostname"]) } else { ip }
    });
    let sorted: BTreeSet<&str> = addresses.filter(|address| !address.is_empty()).collect();
    sorted.into_iter().map(ToString::to_string).collect()
}

pub(super) fn ports_text(ports: &[Value]) -> String {
    let ports_text: Vec<String> = ports
        .iter()
        .map(|port| {
            let (number_, protocol) = (number(port, &["port"]), port.str_at(&["protocol"]));
            match number(port, &["nodePort"]) {
                node_port @ 1.. => format!("{number_}:{node_port}/{protocol}"),
                _ => format!("{number_}/{protocol}"),
            }
        })
        .collect();
    if ports_text.is_empty() { "<none>".to_string() } else { ports_text.join(",") }
}

/// The first addresses of all subsets, with each port.
pub(super) fn addresses(subsets: &[Value]) -> String {
    if subsets.is_empty() {
        return "<none>".to_string();
    }
    let mut endpoints = Vec::new();
    let mut count = 0_usize;
    for subset in subsets {
        let addresses = subset.items_at(&["addresses"]);
        let ports = subset.items_at(&["ports"]);
        count = addresses.len().saturating_mul(ports.len().max(1)).saturating_add(count);
        let ips = || addresses.iter().map(|address| address.str_at(&["ip"]));
        if ports.is_empty() {
            endpoints.extend(ips().take(ENDPOINTS_SHOWN).map(ToString::to_string));
        }
        for port in ports {
            let port = number(port, &["port"]);
            endpoints.extend(ips().take(ENDPOINTS_SHOWN).map(|ip| host_port(ip, port)));
        }
        endpoints.truncate(ENDPOINTS_SHOWN);
    }
    let endpoints: Vec<&str> = endpoints.iter().map(String::as_str).collect();
    with_more(&endpoints, count, ENDPOINTS_SHOWN)
}

/// IPv6 addresses are in brackets.
fn host_port(ip: &str, port: i64) -> String {
    if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") }
}

pub(super) fn cluster_ip(object: &Value) -> Value {
    let ip = object.items_at(&["spec", "clusterIPs"]).first().and_then(Value::as_str);
    text(ip.unwrap_or("<none>"))
}
