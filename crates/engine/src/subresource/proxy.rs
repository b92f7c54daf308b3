//! What can be told of `proxy` without reaching anybody: whether the pod, the service or the node could be asked.

use crate::{Engine, Target};
use pintle_meta::Status;
use pintle_meta::field::quoted;
use pintle_value::Value;
use std::net::IpAddr;

/// What `scheme:name:port`, `name:port` or `name` asks for.
struct Place<'a> {
    name: &'a str,
    port: &'a str,
}

/// Reads the name of a proxied object; the scheme counts only in that it must be known.
fn place(text: &str) -> Option<Place<'_>> {
    let parts: Vec<&str> = text.split(':').collect();
    let (scheme, name, port) = match *parts.as_slice() {
        [name] => ("", name, ""),
        [name, port] => ("", name, port),
        [scheme, name, port] => (scheme, name, port),
        _ => return None,
    };
    (!name.is_empty() && matches!(scheme, "" | "http" | "https")).then_some(Place { name, port })
}

impl Engine {
    /// Why a request to a pod, service or node is not passed on; nothing, if somebody would have to be reached for that.
    pub(super) fn proxy_refusal(&self, target: &Target) -> Result<(), Status> {
        let Some(place) = place(&target.name) else {
            let what = target.kind.singular.as_str();
            return Err(Status::bad_request(format!("invalid {what} request {}", quoted(&target.name))));
        };
        match target.kind.plural.as_str() {
            "pods" => pod_refusal(&self.existing(&target.named(place.name))?),
            "services" => self.service_refusal(target, &place),
            _ => self.node_refusal(place.name),
        }
    }

    fn service_refusal(&self, target: &Target, place: &Place<'_>) -> Result<(), Status> {
        let mut port = place.port.to_string();
        if let Ok(number) = place.port.parse::<i64>() {
            let service = self.existing(&target.named(place.name))?;
            let own = |p: &&Value| p.at(&["port"]).and_then(Value::as_int) == Some(number);
            let Some(found) = service.items_at(&["spec", "ports"]).iter().find(own) else {
                let name = quoted(place.name);
                let why = format!("no service port {number} found for service {name}");
                return Err(Status::service_unavailable(why));
            };
            port = found.str_at(&["name"]).to_string();
        }
        let missing = || Status::not_found(&target.kind.group_resource(), place.name);
        // Of endpoints that are not there kube-apiserver says that the service is not.
        let endpoints = self.target("", "v1", "endpoints", &target.namespace, place.name);
        let endpoints = endpoints.and_then(|t| self.object_tree(&t).ok().flatten()).ok_or_else(missing)?;
        let subsets = endpoints.items_at(&["subsets"]);
        let none = |name: &str| {
            Err(Status::service_unavailable(format!("no endpoints available for service {}", quoted(name))))
        };
        if subsets.is_empty() {
            return none(place.name);
        }
        let has_port =
            |subset: &Value| subset.items_at(&["ports"]).iter().any(|p| p.str_at(&["name"]) == port);
        let reachable = subsets
            .iter()
            .filter(|subset| has_port(subset))
            .any(|subset| subset.items_at(&["addresses"]).iter().any(|a| self.is_address_of_pod(target, a)));
        if reachable { Ok(()) } else { none(&target.name) }
    }

    /// Requests are passed on only to addresses that are those of pods of the same namespace.
    fn is_address_of_pod(&self, service: &Target, address: &Value) -> bool {
        if address.str_at(&["targetRef", "namespace"]) != service.namespace.as_str() {
            return false;
        }
        let name = address.str_at(&["targetRef", "name"]);
        let pod = self.target("", "v1", "pods", &service.namespace, name);
        let pod = pod.and_then(|t| self.object_tree(&t).ok().flatten());
        let ip = address.str_at(&["ip"]);
        pod.is_some_and(|pod| pod.items_at(&["status", "podIPs"]).iter().any(|p| p.str_at(&["ip"]) == ip))
    }
}

fn pod_refusal(pod: &Value) -> Result<(), Status> {
    let address = pod.items_at(&["status", "podIPs"]).first().map_or("", |ip| ip.str_at(&["ip"]));
    let usable = address.parse::<IpAddr>().is_ok_and(|ip| match ip {
        IpAddr::V4(v4) => !v4.is_link_local() && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    } && !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast());
    if usable { Ok(()) } else { Err(Status::bad_request("address not allowed")) }
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn names_of_proxied_objects() {
        for (text, expected) in [
            ("a", Some(("a", ""))),
            ("a:80", Some(("a", "80"))),
            ("https:a:web", Some(("a", "web"))),
            ("http:a:", Some(("a", ""))),
            ("ftp:a:80", None),
            (":80", None),
            ("a:b:c:d", None),
        ] {
            assert_eq!(place(text).map(|p| (p.name, p.port)), expected, "{text}");
        }
    }
}
