//! Resolves the service of an extension server: to its cluster IP, one of its endpoints, or its external name.

use super::{ENDPOINT_SLICES, SERVICE_NAME, ServiceReference};
use pintle_engine::Engine;
use pintle_meta::field::quoted;
use pintle_proxy::Address;
use pintle_value::{Value, json};

/// Resolves a service port to host and port. The error is kube-apiserver's.
pub(super) fn resolve(
    engine: &Engine,
    reference: &ServiceReference,
    to_endpoints: bool,
) -> Result<Address, String> {
    let ServiceReference { namespace, name, port } = reference;
    let target = engine.storage().target("", "v1", "services", namespace, name);
    let service = target.and_then(|target| engine.reader().object_tree(&target).ok().flatten());
    let service = service.ok_or_else(|| format!("service {} not found", quoted(name)))?;
    let kind = service.str_at(&["spec", "type"]);
    let is_own = matches!(kind, "ClusterIP" | "LoadBalancer" | "NodePort");
    let at = |host: &str, port: u16| Address { tls: true, host: host.to_string(), port, checked: Vec::new() };
    match kind {
        "ExternalName" if !to_endpoints => return Ok(at(service.str_at(&["spec", "externalName"]), *port)),
        _ if !is_own => return Err(format!("unsupported service type {}", quoted(kind))),
        "ClusterIP" if !to_endpoints && service.str_at(&["spec", "clusterIP"]) == "None" => {
            return Err("cannot route to service with ClusterIP \"None\"".to_string());
        }
        _ => {}
    }
    let ports = service.items_at(&["spec", "ports"]);
    let found = ports.iter().find(|p| p.get("port").and_then(Value::as_int) == Some(i64::from(*port)));
    let found = found.ok_or_else(|| format!("no service port {port} found for service {}", quoted(name)))?;
    if !to_endpoints {
        return Ok(at(service.str_at(&["spec", "clusterIP"]), *port));
    }
    let none = || format!("no endpoints available for service {}", quoted(name));
    let family = service.items_at(&["spec", "ipFamilies"]).first().and_then(Value::as_str).unwrap_or("");
    let ready = ready_endpoints(engine, reference, found.str_at(&["name"]), family);
    let mut random = [0; 8];
    engine.storage().random_source().fill(&mut random);
    let count = u64::try_from(ready.len()).unwrap_or(0);
    let chosen = usize::try_from(u64::from_le_bytes(random).checked_rem(count).unwrap_or(0)).unwrap_or(0);
    ready.into_iter().nth(chosen).map(|(host, port)| at(&host, port)).ok_or_else(none)
}

/// The EndpointSlices of a service.
pub(super) fn endpoint_slices(engine: &Engine, reference: &ServiceReference) -> Vec<Value> {
    let Some(resource) = engine.storage().cache().resource(ENDPOINT_SLICES) else { return Vec::new() };
    let view = resource.view();
    let own = view
        .range(Some(&reference.namespace), None)
        .filter(|object| object.label(SERVICE_NAME) == Some(reference.name.as_str()));
    own.filter_map(|object| Some(json::parse(object.json()).ok()?.value)).collect()
}

/// Returns whether an endpoint is ready; a missing condition counts as ready.
pub(super) fn is_ready(endpoint: &Value) -> bool {
    endpoint.at(&["conditions", "ready"]).and_then(Value::as_bool) != Some(false)
}

/// The number of the port of this name, if a slice has it.
pub(super) fn port_named(slice: &Value, name: &str) -> Option<u16> {
    let port = slice.items_at(&["ports"]).iter().find(|port| {
        port.get("name").and_then(Value::as_str).unwrap_or("") == name && port.get("port").is_some()
    })?;
    port.get("port").and_then(Value::as_int).and_then(|number| u16::try_from(number).ok())
}

/// Addresses and ports of the ready endpoints, of the service's first IP family if it has any.
fn ready_endpoints(
    engine: &Engine,
    reference: &ServiceReference,
    port_name: &str,
    family: &str,
) -> Vec<(String, u16)> {
    let mut of_family = Vec::new();
    let mut others = Vec::new();
    for slice in endpoint_slices(engine, reference) {
        let Some(port) = port_named(&slice, port_name) else { continue };
        let into = if slice.str_at(&["addressType"]) == family { &mut of_family } else { &mut others };
        for endpoint in slice.items_at(&["endpoints"]).iter().filter(|endpoint| is_ready(endpoint)) {
            let address = endpoint.items_at(&["addresses"]).first().and_then(Value::as_str);
            into.extend(address.map(|address| (address.to_string(), port)));
        }
    }
    if of_family.is_empty() { others } else { of_family }
}
