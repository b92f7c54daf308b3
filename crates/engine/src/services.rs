//! Resolves the services of webhooks and extension servers: to their cluster IPs, their endpoints, or their external names.

use crate::Storage;
use crate::environment::Random;
use pintle_admission::ClusterState;
use pintle_meta::field::quoted;
use pintle_value::{Value, json};
use pintle_webhook::Services;

/// The prefix of the keys of EndpointSlices.
pub const ENDPOINT_SLICES: &str = "/registry/endpointslices/";
/// The label that names the service of an EndpointSlice.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";

impl Storage {
    /// The hosts and ports of a service port, never empty. The error is kube-apiserver's.
    pub fn service_hosts(
        &self,
        namespace: &str,
        name: &str,
        port: u16,
    ) -> Result<Vec<(String, u16)>, String> {
        let service = self.object("", "services", namespace, name);
        let service = service.ok_or_else(|| format!("service {} not found", quoted(name)))?;
        let to_endpoints = self.routes_to_endpoints;
        let kind = service.str_at(&["spec", "type"]);
        let is_own = matches!(kind, "ClusterIP" | "LoadBalancer" | "NodePort");
        let at = |host: &str| vec![(host.to_string(), port)];
        match kind {
            "ExternalName" if !to_endpoints => return Ok(at(service.str_at(&["spec", "externalName"]))),
            _ if !is_own => return Err(format!("unsupported service type {}", quoted(kind))),
            "ClusterIP" if !to_endpoints && service.str_at(&["spec", "clusterIP"]) == "None" => {
                return Err("cannot route to service with ClusterIP \"None\"".to_string());
            }
            _ => {}
        }
        let ports = service.items_at(&["spec", "ports"]);
        let found = ports.iter().find(|p| p.get("port").and_then(Value::as_int) == Some(i64::from(port)));
        let found =
            found.ok_or_else(|| format!("no service port {port} found for service {}", quoted(name)))?;
        if !to_endpoints {
            return Ok(at(service.str_at(&["spec", "clusterIP"])));
        }
        let family = service.items_at(&["spec", "ipFamilies"]).first().and_then(Value::as_str).unwrap_or("");
        let ready = self.ready_endpoints(namespace, name, found.str_at(&["name"]), family);
        if ready.is_empty() { Err(no_endpoints(name)) } else { Ok(ready) }
    }

    /// The EndpointSlices of a service.
    pub fn endpoint_slices(&self, namespace: &str, name: &str) -> Vec<Value> {
        let Some(resource) = self.cache.resource(ENDPOINT_SLICES) else { return Vec::new() };
        let view = resource.view();
        let own = view.range(Some(namespace), None).filter(|object| object.label(SERVICE_NAME) == Some(name));
        own.filter_map(|object| Some(json::parse(object.json()).ok()?.value)).collect()
    }

    /// Addresses and ports of the ready endpoints, of the service's first IP family if it has any.
    fn ready_endpoints(
        &self,
        namespace: &str,
        name: &str,
        port_name: &str,
        family: &str,
    ) -> Vec<(String, u16)> {
        let mut of_family = Vec::new();
        let mut others = Vec::new();
        for slice in self.endpoint_slices(namespace, name) {
            let Some(port) = slice_port(&slice, port_name) else { continue };
            let into = if slice.str_at(&["addressType"]) == family { &mut of_family } else { &mut others };
            for endpoint in slice.items_at(&["endpoints"]).iter().filter(|e| is_ready_endpoint(e)) {
                let address = endpoint.items_at(&["addresses"]).first().and_then(Value::as_str);
                into.extend(address.map(|address| (address.to_string(), port)));
            }
        }
        if of_family.is_empty() { others } else { of_family }
    }
}

impl Services for Storage {
    fn locate(&self, namespace: &str, name: &str, port: u16) -> Result<(String, u16), String> {
        let hosts = self.service_hosts(namespace, name, port)?;
        choose_host(&*self.random, name, &hosts).cloned()
    }
}

/// A random one of the hosts of the service `name`.
pub fn choose_host<'a>(
    random: &dyn Random,
    name: &str,
    hosts: &'a [(String, u16)],
) -> Result<&'a (String, u16), String> {
    if let [one] = hosts {
        return Ok(one);
    }
    let mut bytes = [0; 8];
    random.fill(&mut bytes);
    let count = u64::try_from(hosts.len()).unwrap_or(0);
    let chosen = u64::from_le_bytes(bytes).checked_rem(count).and_then(|at| usize::try_from(at).ok());
    chosen.and_then(|at| hosts.get(at)).ok_or_else(|| no_endpoints(name))
}

fn no_endpoints(name: &str) -> String {
    format!("no endpoints available for service {}", quoted(name))
}

/// Returns whether an endpoint is ready; a missing condition counts as ready.
pub fn is_ready_endpoint(endpoint: &Value) -> bool {
    endpoint.at(&["conditions", "ready"]).and_then(Value::as_bool) != Some(false)
}

/// The number of the port of this name, if an EndpointSlice has it.
pub fn slice_port(slice: &Value, name: &str) -> Option<u16> {
    let port = slice.items_at(&["ports"]).iter().find(|port| {
        port.get("name").and_then(Value::as_str).unwrap_or("") == name && port.get("port").is_some()
    })?;
    port.get("port").and_then(Value::as_int).and_then(|number| u16::try_from(number).ok())
}
