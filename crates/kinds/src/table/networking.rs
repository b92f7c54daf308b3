//! Rows of the networking group.

use super::BuiltinPrinter;
use super::cell::{age, is_set, name, selector, text, text_at, text_or, texts};
use super::service::load_balancer;
use pintle_meta::Timestamp;
use pintle_value::Value;

pub(super) const PRINTERS: &[BuiltinPrinter] = &[
    BuiltinPrinter { kind: "networking.k8s.io/IPAddress", needs: &["spec.parentRef"], cells: ip_address },
    BuiltinPrinter {
        kind: "networking.k8s.io/Ingress",
        needs: &["spec.ingressClassName", "spec.rules.host", "spec.tls#", "status.loadBalancer"],
        cells: ingress,
    },
    BuiltinPrinter {
        kind: "networking.k8s.io/IngressClass",
        needs: &["metadata.annotations", "spec"],
        cells: ingress_class,
    },
    BuiltinPrinter {
        kind: "networking.k8s.io/NetworkPolicy",
        needs: &["spec.podSelector"],
        cells: network_policy,
    },
    BuiltinPrinter { kind: "networking.k8s.io/ServiceCIDR", needs: &["spec.cidrs"], cells: service_cidr },
];

const DEFAULT_CLASS_ANNOTATION: &str = "ingressclass.kubernetes.io/is-default-class";
/// How many hosts a cell shows.
const HOSTS_SHOWN: usize = 3;

fn ip_address(object: &Value, now: Timestamp) -> Vec<Value> {
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
    // There is a cell for the age, although it has no column.
    vec![name(object), text(parent), age(object, now)]
}

fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text_or(object, &["spec", "ingressClassName"], "<none>"),
        text(hosts(object.items_at(&["spec", "rules"]))),
        text(load_balancer(object).join(",")),
        text(if object.items_at(&["spec", "tls"]).is_empty() { "80" } else { "80, 443" }),
        age(object, now),
    ]
}

fn hosts(rules: &[Value]) -> String {
    let mut error_text = Vec::new();
    let mut more = false;
    for rule in rules {
        // Rules without a host count as more, too.
        more |= error_text.len() == HOSTS_SHOWN;
        let host = rule.str_at(&["host"]);
        if !more && !host.is_empty() {
            error_text.push(host);
        }
    }
    match error_text.join(",") {
        _ if error_text.is_empty() => "*".to_string(),
        hosts if more => format!("{hosts} + {} more...", rules.len() - HOSTS_SHOWN),
        hosts => hosts,
    }
}

fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let is_default = object.str_at(&["metadata", "annotations", DEFAULT_CLASS_ANNOTATION]) == "true";
    let error_text =
        format!("{}{}", object.str_at(&["metadata", "name"]), if is_default { " (default)" } else { "" });
    let parameters = object.at(&["spec", "parameters"]).filter(|parameters| !parameters.is_null());
    let parameters = parameters.map(|parameters| {
        let group = parameters.get("apiGroup").and_then(Value::as_str).map(|group| format!(".{group}"));
        let part = |key: &str| parameters.str_at(&[key]);
        format!("{}{}/{}", part("kind"), group.unwrap_or_default(), part("name"))
    });
    vec![
        text(error_text),
        text_at(object, &["spec", "controller"]),
        text(parameters.unwrap_or_else(|| "<none>".to_string())),
        age(object, now),
    ]
}

fn network_policy(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), selector(object.at(&["spec", "podSelector"])), age(object, now)]
}

fn service_cidr(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(texts(object, &["spec", "cidrs"]).join(",")), age(object, now)]
}
