//! Repairs the records of allocated addresses and node ports. A kube-apiserver that shares the store writes them before
//! their services, and may end in between; people may delete or change them.

use super::{ALLOCATOR, FAMILY_LABEL, MANAGED_BY_LABEL, addresses, family, ports};
use crate::{Writer, object};
use pintle_kinds::service_allocation::ServiceNetwork;
use pintle_meta::{Status, Timestamp, net};
use pintle_store::{Expect, Revision, Write};
use pintle_value::{Str, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// An address without its service is deleted after this many seconds: by then a request that creates the service has ended.
const ORPHANED_SECONDS: i64 = 60;
/// An address that is younger than its service, and not among its addresses, may be one that the service gets now.
const NEW_SECONDS: i64 = 5;
/// How many objects are read before other tasks run.
const OBJECTS_AT_ONCE: usize = 100;

/// A fault that was found, as kube-apiserver describes it in an Event.
#[derive(Debug)]
pub struct Finding {
    /// The service or IPAddress.
    pub regarding: Regarding,
    /// What was tried.
    pub action: &'static str,
    /// The fault in one word.
    pub reason: &'static str,
    /// The fault and what is done about it.
    pub note: String,
}

/// The object that a [`Finding`] is about.
#[derive(Clone, Debug, Default)]
pub struct Regarding {
    /// Whether it is a service; otherwise an IPAddress.
    pub is_service: bool,
    /// Empty for an IPAddress.
    pub namespace: Str,
    /// The name.
    pub name: Str,
    /// The UID.
    pub uid: Str,
    /// The revision that was read.
    pub revision: u64,
}

/// What must be known from one repair to the next.
#[derive(Default)]
pub struct Repairs {
    /// The revisions of the last changes to addresses and services.
    seen: Option<[Option<u64>; 2]>,
    /// Node ports that were allocated and that no service had.
    unused_ports: BTreeSet<i64>,
    /// Whether something was found that may be repaired later.
    is_pending: bool,
}

struct Service {
    regarding: Regarding,
    addresses: Vec<IpAddr>,
    needs_address: bool,
    is_external: bool,
    ports: BTreeSet<i64>,
    created: i64,
}

struct Address {
    regarding: Regarding,
    labels: [Str; 2],
    /// Group, resource, namespace and name.
    parent: [Str; 4],
    created: i64,
}

/// The services and their records.
struct State {
    networks: Vec<ServiceNetwork>,
    /// By name.
    addresses: BTreeMap<Str, Address>,
    /// By namespace and name.
    services: BTreeMap<(Str, Str), Service>,
}

impl Writer {
    /// Makes the records of addresses and node ports match the services, and returns what was found. Nothing is read if no
    /// service and no address changed since the last time.
    pub async fn repair_allocations(&self, repairs: &mut Repairs) -> Result<Vec<Finding>, Status> {
        let seen = [("networking.k8s.io", "ipaddresses"), ("", "services")]
            .map(|(group, plural)| self.changed_at(group, plural));
        if repairs.seen == Some(seen) && !repairs.is_pending {
            return Ok(Vec::new());
        }
        repairs.is_pending = false;
        // The addresses are read first: what is deleted until the services are read is not created again.
        let addresses = self.read_addresses().await;
        let services = self.read_services().await;
        let state = State { networks: self.service_networks(), addresses, services };
        let mut findings = Vec::new();
        for service in state.services.values().filter(|service| service.needs_address) {
            for ip in &service.addresses {
                self.repair_service(service, *ip, &state, &mut findings).await?;
            }
        }
        for address in state.addresses.values() {
            findings.extend(self.repair_address(address, &state, repairs).await?);
        }
        self.repair_node_ports(&state, repairs).await?;
        repairs.seen = Some(seen);
        Ok(findings)
    }

    fn changed_at(&self, group: &str, plural: &str) -> Option<u64> {
        let target = self.storage.target(group, "v1", plural, "", "")?;
        self.storage.cache().resource(&target.kind.store_prefix)?.changed_at()
    }

    async fn read_services(&self) -> BTreeMap<(Str, Str), Service> {
        let read = |regarding: Regarding, tree: &Value| {
            let kind = tree.str_at(&["spec", "type"]);
            let cluster_ip = tree.str_at(&["spec", "clusterIP"]);
            Service {
                addresses: addresses(Some(tree)),
                needs_address: kind != "ExternalName" && !matches!(cluster_ip, "" | "None"),
                is_external: kind == "ExternalName",
                ports: ports::of(Some(tree)),
                created: created(tree),
                regarding: Regarding { is_service: true, ..regarding },
            }
        };
        let key = |service: &Service| (service.regarding.namespace.clone(), service.regarding.name.clone());
        self.read_all("", "services", read)
            .await
            .into_iter()
            .map(|service| (key(&service), service))
            .collect()
    }

    async fn read_addresses(&self) -> BTreeMap<Str, Address> {
        let read = |regarding, tree: &Value| Address {
            regarding,
            labels: [FAMILY_LABEL, MANAGED_BY_LABEL]
                .map(|label| Str::from(tree.str_at(&["metadata", "labels", label]))),
            parent: ["group", "resource", "namespace", "name"]
                .map(|field| Str::from(tree.str_at(&["spec", "parentRef", field]))),
            created: created(tree),
        };
        let all = self.read_all("networking.k8s.io", "ipaddresses", read).await;
        all.into_iter().map(|address| (address.regarding.name.clone(), address)).collect()
    }

    /// Reads what `read` needs of all objects.
    async fn read_all<T>(&self, group: &str, plural: &str, read: impl Fn(Regarding, &Value) -> T) -> Vec<T> {
        let Some(target) = self.storage.target(group, "v1", plural, "", "") else { return Vec::new() };
        let resource = self.storage.cache().resource(&target.kind.store_prefix);
        let Some(view) = resource.map(|resource| resource.view()) else { return Vec::new() };
        let mut all = Vec::new();
        for (at, stored) in view.iter().enumerate() {
            if at.checked_rem(OBJECTS_AT_ONCE) == Some(0) {
                tokio::task::yield_now().await;
            }
            let Ok(tree) = object::tree(&target.kind, stored) else { continue };
            let regarding = Regarding {
                is_service: false,
                namespace: stored.namespace().unwrap_or_default().into(),
                name: stored.name().into(),
                uid: stored.uid().into(),
                revision: stored.revision(),
            };
            all.push(read(regarding, &tree));
        }
        all
    }

    /// Makes sure that an address of a service has its record.
    async fn repair_service(
        &self,
        service: &Service,
        ip: IpAddr,
        state: &State,
        findings: &mut Vec<Finding>,
    ) -> Result<(), Status> {
        let (text, family) = (net::ip_text(ip), family(ip));
        let (namespace, name) = (&service.regarding.namespace, &service.regarding.name);
        let finding = |reason, note| Finding {
            regarding: service.regarding.clone(),
            action: "ClusterIPAllocation",
            reason,
            note,
        };
        if !state.networks.iter().any(|network| network.has(ip)) {
            let note = format!(
                "Cluster IP [{family}]: {text} is not within any configured Service CIDR; please recreate service"
            );
            findings.push(finding("ClusterIPOutOfRange", note));
            return Ok(());
        }
        let Some(write) = self.put_address(ip, (namespace, name)) else { return Ok(()) };
        let Some(record) = state.addresses.get(text.as_str()) else {
            if self.storage.try_write(write).await? {
                let note = format!("Cluster IP [{family}]: {text} is not allocated; repairing");
                findings.push(finding("ClusterIPNotAllocated", note));
            }
            return Ok(());
        };
        let [group, resource, parent_namespace, parent_name] = &record.parent;
        let is_service = group.is_empty() && resource == "services";
        let is_own = is_service && parent_namespace == namespace && parent_name == name;
        let parent = state.services.get(&(parent_namespace.clone(), parent_name.clone()));
        let parent = parent.filter(|_| is_service);
        if is_own && record.has_labels(ip) {
            return Ok(());
        }
        if let Some(parent) = parent.filter(|_| !is_own)
            && parent.addresses.contains(&ip)
        {
            let note = format!(
                "Cluster IP [{family}]:{text} was assigned to multiple services; please recreate service"
            );
            findings.push(finding("ClusterIPAlreadyAllocated", note));
        }
        if parent.is_some() && record.has_labels(ip) {
            return Ok(());
        }
        if parent.is_none() {
            let note = format!(
                "the ClusterIP [{family}]: {text} for Service {namespace}/{name} has a wrong reference; repairing"
            );
            findings.push(finding("ClusterIPNotAllocated", note));
        }
        if let Some(delete) = self.delete_record(record)
            && self.storage.try_write(delete).await?
        {
            self.storage.try_write(write).await?;
        }
        Ok(())
    }

    /// Deletes an address that the server allocated for a service and that no service has.
    async fn repair_address(
        &self,
        address: &Address,
        state: &State,
        repairs: &mut Repairs,
    ) -> Result<Option<Finding>, Status> {
        let [group, resource, namespace, name] = &address.parent;
        if address.labels.last().is_none_or(|managed_by| managed_by != ALLOCATOR) {
            return Ok(None);
        }
        let text = &address.regarding.name;
        let (now, _) = self.storage.clock.now();
        let age = now.saturating_sub(address.created);
        let service = state.services.get(&(namespace.clone(), name.clone()));
        let (reason, note) = if !group.is_empty() || resource != "services" {
            let parent = format!(
                "&ParentReference{{Group:{group},Resource:{resource},Namespace:{namespace},Name:{name},}}"
            );
            let note = format!(
                "IPAddress {text} appears to have been modified, not referencing a Service {parent}: cleaning up"
            );
            ("IPAddressNotAllocated", note)
        } else if let Some(service) = service {
            if service.addresses.iter().any(|ip| net::ip_text(*ip) == *text) {
                return Ok(None);
            }
            let is_new = address.created > service.created && age < NEW_SECONDS;
            if is_new || (service.is_external && age < ORPHANED_SECONDS) {
                repairs.is_pending = true;
                return Ok(None);
            }
            let note = format!(
                "IPAddress: {text} for Service {namespace}/{name} has a wrong reference; cleaning up"
            );
            ("IPAddressWrongReference", note)
        } else if age > ORPHANED_SECONDS {
            let note = format!(
                "IPAddress: {text} for Service {namespace}/{name} appears to have leaked: cleaning up"
            );
            ("IPAddressNotAllocated", note)
        } else {
            repairs.is_pending = true;
            return Ok(None);
        };
        let Some(delete) = self.delete_record(address) else { return Ok(None) };
        let finding =
            Finding { regarding: address.regarding.clone(), action: "IPAddressAllocation", reason, note };
        Ok(self.storage.try_write(delete).await?.then_some(finding))
    }

    async fn repair_node_ports(&self, state: &State, repairs: &mut Repairs) -> Result<(), Status> {
        let wanted: BTreeSet<i64> =
            state.services.values().flat_map(|service| service.ports.iter().copied()).collect();
        let unused: BTreeSet<i64> = self.taken_ports().ports.difference(&wanted).copied().collect();
        // Beside other servers, a port is only released if no service had it the last time either.
        let is_shared = self.storage.store.is_shared();
        let in_flight: BTreeSet<i64> =
            unused.difference(&repairs.unused_ports).copied().filter(|_| is_shared).collect();
        repairs.is_pending |= !in_flight.is_empty();
        repairs.unused_ports = unused;
        for write in self.repair_ports(wanted, &in_flight) {
            self.storage.try_write(write).await?;
        }
        Ok(())
    }

    fn delete_record(&self, record: &Address) -> Option<Write> {
        let name = &record.regarding.name;
        let target = self.storage.target("networking.k8s.io", "v1", "ipaddresses", "", name)?;
        Some(Write::delete(target.store_key(), Expect::Revision(Revision(record.regarding.revision))))
    }
}

impl Address {
    fn has_labels(&self, ip: IpAddr) -> bool {
        self.labels == [family(ip), ALLOCATOR]
    }
}

/// When an object was created, in seconds.
fn created(tree: &Value) -> i64 {
    let text = tree.str_at(&["metadata", "creationTimestamp"]);
    Timestamp::parse(text).map(|time| time.seconds).unwrap_or_default()
}
