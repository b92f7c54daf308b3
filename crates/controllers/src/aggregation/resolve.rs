//! Resolves the service of an extension server: to its cluster IP, one of its endpoints, or its external name.

use super::{ENDPOINT_SLICES, SERVICE_NAME, SERVICES, ServiceReference};
use pintle_engine::Engine;
use pintle_meta::field::quoted;
use pintle_proxy::Address;
use pintle_value::{Value, json};
use std::sync::{Arc, Mutex, PoisonError};

/// The last resolution of a service. Every request needs it, and reading the service and its EndpointSlices costs more than
/// forwarding the request.
#[derive(Default)]
pub(super) struct LastResolution(Mutex<Option<Arc<Resolution>>>);

/// Where a service is.
struct Resolution {
    /// The last changes of services and of EndpointSlices that it knows.
    changed_at: [Option<u64>; 2],
    /// Hosts and ports, of which each request takes one; never empty.
    hosts: Vec<(String, u16)>,
}

impl LastResolution {
    /// Resolves a service port to host and port. The error is kube-apiserver's.
    pub(super) fn resolve(
        &self,
        engine: &Engine,
        reference: &ServiceReference,
        to_endpoints: bool,
    ) -> Result<Address, String> {
        // Read this before the objects: what changes meanwhile is read again.
        let changed_at = [SERVICES, ENDPOINT_SLICES].map(|prefix| {
            engine.storage().cache().resource(prefix).and_then(|resource| resource.changed_at())
        });
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let current = match last.filter(|last| last.changed_at == changed_at) {
            Some(last) => last,
            None => {
                let hosts = hosts(engine, reference, to_endpoints)?;
                let current = Arc::new(Resolution { changed_at, hosts });
                *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&current));
                current
            }
        };
        current.choose(engine).ok_or_else(|| no_endpoints(&reference.name))
    }
}

impl Resolution {
    /// A random one of the hosts.
    fn choose(&self, engine: &Engine) -> Option<Address> {
        let (host, port) = match self.hosts.as_slice() {
            [one] => one,
            many => {
                let mut random = [0; 8];
                engine.storage().random_source().fill(&mut random);
                let count = u64::try_from(many.len()).unwrap_or(0);
                let chosen = u64::from_le_bytes(random).checked_rem(count)?;
                many.get(usize::try_from(chosen).unwrap_or(0))?
            }
        };
        Some(Address { tls: true, host: host.clone(), port: *port, checked: Vec::new() })
    }
}

fn no_endpoints(name: &str) -> String {
    format!("no endpoints available for service {}", quoted(name))
}

/// The hosts and ports of a service port. The error is kube-apiserver's.
fn hosts(
    engine: &Engine,
    reference: &ServiceReference,
    to_endpoints: bool,
) -> Result<Vec<(String, u16)>, String> {
    let ServiceReference { namespace, name, port } = reference;
    let target = engine.storage().target("", "v1", "services", namespace, name);
    let service = target.and_then(|target| engine.reader().object_tree(&target).ok().flatten());
    let service = service.ok_or_else(|| format!("service {} not found", quoted(name)))?;
    let kind = service.str_at(&["spec", "type"]);
    let is_own = matches!(kind, "ClusterIP" | "LoadBalancer" | "NodePort");
    let at = |host: &str| vec![(host.to_string(), *port)];
    match kind {
        "ExternalName" if !to_endpoints => return Ok(at(service.str_at(&["spec", "externalName"]))),
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
        return Ok(at(service.str_at(&["spec", "clusterIP"])));
    }
    let family = service.items_at(&["spec", "ipFamilies"]).first().and_then(Value::as_str).unwrap_or("");
    let ready = ready_endpoints(engine, reference, found.str_at(&["name"]), family);
    if ready.is_empty() { Err(no_endpoints(name)) } else { Ok(ready) }
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
