//! Resolves the service of an extension server, and caches the result.

use super::{SERVICES, ServiceReference};
use pintle_engine::Engine;
use pintle_engine::services::{ENDPOINT_SLICES, choose_host};
use pintle_proxy::Address;
use std::sync::{Arc, Mutex, PoisonError};

/// The last resolution of a service. Every request needs it, and reading the service and its EndpointSlices costs more than
/// forwarding the request.
#[derive(Default)]
pub(super) struct LastResolution(Mutex<Option<Arc<Resolution>>>);

/// The addresses of a service.
struct Resolution {
    /// The revisions of the last changes of services and of EndpointSlices when it was resolved.
    changed_at: [Option<u64>; 2],
    /// Hosts and ports, of which each request takes one; never empty.
    hosts: Vec<(String, u16)>,
}

impl LastResolution {
    /// Resolves a service port to host and port. The error is kube-apiserver's.
    pub(super) fn resolve(&self, engine: &Engine, reference: &ServiceReference) -> Result<Address, String> {
        let storage = engine.storage();
        // Read this before the objects, so that a later change makes the next call read them again.
        let changed_at = [SERVICES, ENDPOINT_SLICES]
            .map(|prefix| storage.cache().resource(prefix).and_then(|resource| resource.changed_at()));
        let last = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let current = match last.filter(|last| last.changed_at == changed_at) {
            Some(last) => last,
            None => {
                let ServiceReference { namespace, name, port } = reference;
                let hosts = storage.service_hosts(namespace, name, *port)?;
                let current = Arc::new(Resolution { changed_at, hosts });
                *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&current));
                current
            }
        };
        let chosen = choose_host(storage.random_source(), &reference.name, &current.hosts)?;
        let (host, port) = chosen.clone();
        Ok(Address { tls: true, host, port, checked: Vec::new() })
    }
}
