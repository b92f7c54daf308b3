//! Rows of the networking group.

use super::cell::{default_marked, is_set, text};
use super::service::load_balancer;
use pintle_value::Value;

const DEFAULT_CLASS_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";
/// How many hosts a cell shows.
const HOSTS_SHOWN: usize = 3;

pub(super) fn parent_reference(object: &Value) -> Value {
    let part = |key: &str| object.str_at(&["spec", "parentRef", key]);
    let mut parent = part("resource").to_lowercase();
    for (before, after) in [(".", part("group").to_lowercase()), ("/", part("namespace").to_string())] {
        if !after.is_empty() {
            parent = format!("{parent}{before}{after}");
        }
    }
    parent = format!("{parent}/{}", part("name"));
    if !is_set(object, &["spec", "parentRef"]) {
        parent = "<none>".to_string();
    }
    text(parent)
}

fn hosts_text(rules: &[Value]) -> String {
    let mut hosts = Vec::new();
    let mut more = false;
    for rule in rules {
        // Rules without a host count as more, too.
        more |= hosts.len() == HOSTS_SHOWN;
        let host = rule.str_at(&["host"]);
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    match hosts.join(",") {
        _ if hosts.is_empty() => "*".to_string(),
        hosts if more => format!("{hosts} + {} more...", rules.len().saturating_sub(HOSTS_SHOWN)),
        hosts => hosts,
    }
}

pub(super) fn ingress_class_name(object: &Value) -> Value {
    default_marked(object, &[DEFAULT_CLASS_ANNOTATION])
}

pub(super) fn ingress_class_parameters(object: &Value) -> Value {
    let Some(parameters) = object.at(&["spec", "parameters"]).filter(|parameters| !parameters.is_null())
    else {
        return text("<none>");
    };
    let group = parameters.get("apiGroup").and_then(Value::as_str).map(|group| format!(".{group}"));
    let part = |key: &str| parameters.str_at(&[key]);
    text(format!("{}{}/{}", part("kind"), group.unwrap_or_default(), part("name")))
}

pub(super) fn ingress_hosts(object: &Value) -> Value {
    text(hosts_text(object.items_at(&["spec", "rules"])))
}

pub(super) fn ingress_address(object: &Value) -> Value {
    text(load_balancer(object).join(","))
}

pub(super) fn ingress_ports(object: &Value) -> Value {
    text(if object.items_at(&["spec", "tls"]).is_empty() { "80" } else { "80, 443" })
}
