//! Destinations of requests proxied to pods, services and nodes, and the addresses that are never proxied to.

use super::connect::{Backend, Location, NodeSettings};
use super::node::KubeletAddress;
use crate::{Target, Writer};
use pintle_meta::Status;
use pintle_meta::field::quoted;
use pintle_value::Value;
use std::net::IpAddr;

/// The parts of `scheme:name:port`, `name:port` or `name`.
struct Place<'a> {
    is_tls: bool,
    name: &'a str,
    port: &'a str,
}

/// Parses the name of a proxied object.
fn place(text: &str) -> Option<Place<'_>> {
    let parts: Vec<&str> = text.split(':').collect();
    let (scheme, name, port) = match *parts.as_slice() {
        [name] => ("", name, ""),
        [name, port] => ("", name, port),
        [scheme, name, port] => (scheme, name, port),
        _ => return None,
    };
    (!name.is_empty() && matches!(scheme, "" | "http" | "https")).then_some(Place {
        is_tls: scheme == "https",
        name,
        port,
    })
}

impl Writer {
    /// Returns the destination of a request to a pod, service or node.
    pub(super) async fn proxy_location(
        &self,
        target: &Target,
        path: &str,
        settings: &NodeSettings,
    ) -> Result<Location, Status> {
        let Some(place) = place(&target.name) else {
            let what = target.kind.singular.as_str();
            return Err(Status::bad_request(format!("invalid {what} request {}", quoted(&target.name))));
        };
        let mut checked = Vec::new();
        let (backend, is_tls, host, port) = match target.kind.plural.as_str() {
            "pods" => {
                let (host, port) = pod_address(&self.existing_object(&target.named(place.name))?, &place)?;
                (Backend::Workload, place.is_tls, host, port)
            }
            "services" => {
                let (host, port) = self.service_address(target, &place)?;
                (Backend::Workload, place.is_tls, host, port)
            }
            _ => {
                let KubeletAddress { host, port, .. } = self.kubelet(target, place.name, settings)?;
                checked = allowed_addresses(&host).await?;
                match place.port {
                    own if own.is_empty() || own == port.to_string() => (Backend::Kubelet, true, host, port),
                    other => (Backend::Workload, place.is_tls, host, port_number(other)?),
                }
            }
        };
        let (path, query, takes_websockets) = (path.to_string(), Vec::new(), false);
        Ok(Location { backend, takes_websockets, is_tls, host, port, checked, path, query })
    }

    fn service_address(&self, target: &Target, place: &Place<'_>) -> Result<(String, u16), Status> {
        let mut port = place.port.to_string();
        if let Ok(number) = place.port.parse::<i64>() {
            let service = self.existing_object(&target.named(place.name))?;
            let own = |p: &&Value| p.at(&["port"]).and_then(Value::as_int) == Some(number);
            let Some(found) = service.items_at(&["spec", "ports"]).iter().find(own) else {
                let name = quoted(place.name);
                let why = format!("no service port {number} found for service {name}");
                return Err(Status::service_unavailable(why));
            };
            port = found.str_at(&["name"]).to_string();
        }
        let missing = || Status::not_found(&target.kind.group_resource(), place.name);
        // kube-apiserver's NotFound for missing endpoints names the service.
        let endpoints = self.storage.target("", "v1", "endpoints", &target.namespace, place.name);
        let endpoints =
            endpoints.and_then(|t| self.reader.object_tree(&t).ok().flatten()).ok_or_else(missing)?;
        let subsets = endpoints.items_at(&["subsets"]);
        let none = |name: &str| {
            Err(Status::service_unavailable(format!("no endpoints available for service {}", quoted(name))))
        };
        if subsets.is_empty() {
            return none(place.name);
        }
        let mut reachable = Vec::new();
        for subset in subsets {
            let ports = subset.items_at(&["ports"]).iter().filter(|p| p.str_at(&["name"]) == port);
            let Some(number) = ports.filter_map(|p| p.get("port").and_then(Value::as_int)).next() else {
                continue;
            };
            let Ok(number) = u16::try_from(number) else { continue };
            let addresses = subset.items_at(&["addresses"]).iter();
            let own = addresses.filter(|address| self.is_address_of_pod(target, address));
            reachable.extend(own.map(|address| (address.str_at(&["ip"]).to_string(), number)));
        }
        let mut random = [0; 8];
        self.storage.random.fill(&mut random);
        let count = u64::try_from(reachable.len()).unwrap_or(0);
        let chosen = u64::from_le_bytes(random).checked_rem(count).and_then(|at| usize::try_from(at).ok());
        match chosen.and_then(|at| reachable.into_iter().nth(at)) {
            Some(address) => Ok(address),
            None => none(&target.name),
        }
    }

    /// Returns whether an endpoint address belongs to a pod of the service's namespace. Requests are only forwarded to
    /// such addresses.
    fn is_address_of_pod(&self, service: &Target, address: &Value) -> bool {
        if address.str_at(&["targetRef", "namespace"]) != service.namespace.as_str() {
            return false;
        }
        let name = address.str_at(&["targetRef", "name"]);
        let pod = self.storage.target("", "v1", "pods", &service.namespace, name);
        let pod = pod.and_then(|t| self.reader.object_tree(&t).ok().flatten());
        let ip = address.str_at(&["ip"]);
        pod.is_some_and(|pod| pod.items_at(&["status", "podIPs"]).iter().any(|p| p.str_at(&["ip"]) == ip))
    }
}

/// Address and port of a pod: the named port, else the first port of its containers, else the default of the scheme.
fn pod_address(pod: &Value, place: &Place<'_>) -> Result<(String, u16), Status> {
    let address = pod.items_at(&["status", "podIPs"]).first().map_or("", |ip| ip.str_at(&["ip"]));
    if !address.parse::<IpAddr>().is_ok_and(is_allowed) {
        return Err(not_allowed());
    }
    let first = pod.items_at(&["spec", "containers"]).iter().find_map(|container| {
        container.items_at(&["ports"]).first()?.get("containerPort").and_then(Value::as_int)
    });
    let port = match (place.port, first.and_then(|port| u16::try_from(port).ok())) {
        ("", Some(port)) => port,
        ("", None) => {
            if place.is_tls {
                443
            } else {
                80
            }
        }
        (named, _) => port_number(named)?,
    };
    Ok((address.to_string(), port))
}

fn port_number(text: &str) -> Result<u16, Status> {
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|_| is_number).ok_or_else(|| {
        let why = if is_number {
            format!("address {text}: invalid port")
        } else {
            format!("unknown port tcp/{text}")
        };
        Status::service_unavailable(format!("error trying to reach service: dial tcp: {why}"))
    })
}

fn not_allowed() -> Status {
    Status::bad_request("address not allowed")
}

/// Returns whether an address may be proxied to: no loopback, link-local or multicast address (Go's `IsGlobalUnicast`).
fn is_allowed(ip: IpAddr) -> bool {
    let ip = match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(ip, IpAddr::V4),
        v4 => v4,
    };
    let is_link = match ip {
        IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    };
    !is_link && !ip.is_unspecified() && !ip.is_loopback() && !ip.is_multicast()
}

/// The addresses of a node; refuses one whose name leads to an address that is not allowed (CVE-2022-3294).
async fn allowed_addresses(host: &str) -> Result<Vec<IpAddr>, Status> {
    let found: Vec<IpAddr> = match host.parse::<IpAddr>() {
        Ok(ip) => vec![ip],
        Err(_) => match tokio::net::lookup_host((host, 0)).await {
            Ok(addresses) => addresses.map(|address| address.ip()).collect(),
            Err(_) => return Err(Status::bad_request(format!("lookup {host}: no such host"))),
        },
    };
    if found.is_empty() {
        return Err(Status::bad_request("no addresses for hostname"));
    }
    if found.iter().copied().all(is_allowed) { Ok(found) } else { Err(not_allowed()) }
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn addresses_that_are_never_reached() {
        let is_allowed = |text: &str| super::is_allowed(text.parse().unwrap());
        for reached in ["10.244.0.9", "192.168.0.1", "8.8.8.8", "fd00::1", "2001:db8::1"] {
            assert!(is_allowed(reached), "{reached}");
        }
        for refused in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "169.254.169.254",
            "224.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "fe80::1",
            "ff02::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
        ] {
            assert!(!is_allowed(refused), "{refused}");
        }
    }

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
