//! Writes in the same transaction as an object: the addresses and node ports of a service, and the quota usage of an
//! object. A write that loses a race for any of them starts again from the beginning.
//!
//! An allocated address is an IPAddress object. All allocated node ports are bits of one value, and each change of it
//! expects the revision that was read, so two services never get the same port.

mod counts;
mod ports;
mod quota;
mod repair;

pub use repair::{Finding, Regarding, Repairs};

use crate::write::WriteRequest;
use crate::{Target, Writer, environment, metadata, object, ownership};
use counts::Allocating;
use pintle_admission::ClusterState;
use pintle_kinds::service_allocation::{self, Pool, Refusal, ServiceNetwork};
use pintle_meta::{Status, net};
use pintle_schema::typed;
use pintle_store::{Expect, Revision, Write};
use pintle_value::Value;
use ports::Taken;
use std::net::IpAddr;

const MANAGER: &str = "kube-apiserver";
/// The labels of an IPAddress that the server created for a service, and the value of the second one.
const FAMILY_LABEL: &str = "ipaddress.kubernetes.io/ip-family";
const MANAGED_BY_LABEL: &str = "ipaddress.kubernetes.io/managed-by";
const ALLOCATOR: &str = "ipallocator.k8s.io";

/// Returns whether the target's objects are Services, which have addresses and ports.
pub(crate) fn is_service(target: &Target) -> bool {
    target.kind.group.is_empty() && target.kind.plural == "services"
}

impl Writer {
    /// Allocates the addresses and ports that a service still needs. Returns the writes that must be in the same
    /// transaction as the service.
    pub(crate) fn allocate(
        &self,
        request: &WriteRequest,
        old: Option<&Value>,
        candidate: &mut Value,
    ) -> Result<Vec<Write>, Status> {
        let target = &request.target;
        if !is_service(target) || !target.subresource.is_empty() {
            return Ok(Vec::new());
        }
        let taken = self.taken_ports();
        let networks = self.service_networks();
        let mut pool = Pool {
            ranges: &self.service_ranges,
            networks: &networks,
            dry_run: request.dry_run,
            ip_taken: &|ip| {
                self.address(ip)
                    .is_some_and(|target| self.storage.cached(&target.kind, &target.name).is_some())
            },
            port_taken: &|port| taken.ports.contains(&port),
            random: &mut || self.storage.random.number(),
        };
        let name = candidate.str_at(&["metadata", "name"]).to_string();
        let counted = Some(Allocating::begin(old, candidate)).filter(|_| !request.dry_run);
        let allocated = service_allocation::allocate(candidate, old, &mut pool);
        match (counted, &allocated) {
            (Some(counted), Ok(())) => counted.succeeded(&networks, candidate),
            (Some(counted), Err(refusal)) => counted.failed(&networks, candidate, refusal),
            (None, _) => {}
        }
        allocated.map_err(|refusal| match refusal {
            Refusal::Invalid(errors) => Status::invalid(&target.group_kind(), &name, &errors),
            Refusal::Internal(why) => Status::internal(&why),
            Refusal::Duplicate(why) => Status::unclassified(why),
        })?;
        if request.dry_run {
            return Ok(Vec::new());
        }
        Ok(self.allocation_writes(taken, old, Some(candidate)))
    }

    /// Counts the addresses and ports of a service that the server created with them.
    pub(crate) fn count_allocations(&self, target: &Target, created: &Value) {
        if is_service(target) {
            Allocating::begin(None, created).succeeded(&self.service_networks(), created);
        }
    }

    /// The networks that addresses are allocated from: those of the ServiceCIDRs. The networks of the flags count as long
    /// as there is no ServiceCIDR; the server creates one for them.
    pub(crate) fn service_networks(&self) -> Vec<ServiceNetwork> {
        let networks =
            service_allocation::networks(&self.storage.objects("networking.k8s.io", "servicecidrs", ""));
        if !networks.is_empty() {
            return networks;
        }
        let of_flags = self.service_ranges.networks.iter();
        of_flags.map(|cidr| ServiceNetwork { cidr: *cidr, ready: true }).collect()
    }

    /// Returns the writes that release the allocations of a service that is deleted.
    pub(crate) fn release(&self, last: &Value) -> Vec<Write> {
        self.allocation_writes(self.taken_ports(), Some(last), None)
    }

    /// Returns the writes that change the allocations of a service from those of `old` to those of `new`.
    fn allocation_writes(&self, taken: Taken, old: Option<&Value>, new: Option<&Value>) -> Vec<Write> {
        let (had, has) = (addresses(old), addresses(new));
        let mut writes = Vec::new();
        if let Some(service) = new {
            let names = (service.str_at(&["metadata", "namespace"]), service.str_at(&["metadata", "name"]));
            let added = has.iter().filter(|ip| !had.contains(ip));
            writes.extend(added.filter_map(|ip| self.put_address(*ip, names)));
        }
        writes.extend(had.iter().filter(|ip| !has.contains(ip)).filter_map(|ip| self.delete_address(*ip)));
        writes.extend(self.port_writes(taken, &ports::of(old), &ports::of(new)));
        writes
    }

    fn address(&self, ip: IpAddr) -> Option<Target> {
        self.storage.target("networking.k8s.io", "v1", "ipaddresses", "", &net::ip_text(ip))
    }

    /// The write that creates the IPAddress of a service, given by its namespace and name. It fails if another service owns
    /// the address.
    fn put_address(&self, ip: IpAddr, service: (&str, &str)) -> Option<Write> {
        let target = self.address(ip)?;
        let mut tree = Value::object();
        tree.set_at(&["kind"], "IPAddress".into());
        tree.set_at(&["apiVersion"], "networking.k8s.io/v1".into());
        tree.set_at(&["metadata", "name"], target.name.as_str().into());
        tree.set_at(&["metadata", "labels", FAMILY_LABEL], family(ip).into());
        tree.set_at(&["metadata", "labels", MANAGED_BY_LABEL], ALLOCATOR.into());
        tree.set_at(&["spec", "parentRef", "resource"], "services".into());
        tree.set_at(&["spec", "parentRef", "namespace"], service.0.into());
        tree.set_at(&["spec", "parentRef", "name"], service.1.into());
        let now = self.storage.now_text();
        ownership::record(&target, ownership::Owner { manager: MANAGER, now: &now }, None, &mut tree);
        metadata::fill_system_fields(&mut tree, environment::new_uid(&*self.storage.random), &now);
        metadata::set_generation(&mut tree, i64::from(counts(&target)));
        typed::normalize(&target.kind.storage_version().schema, &mut tree);
        Some(Write::put(target.store_key(), Expect::Absent, object::encode(&target.kind, &tree)))
    }

    fn delete_address(&self, ip: IpAddr) -> Option<Write> {
        let target = self.address(ip)?;
        let cached = self.storage.cached(&target.kind, &target.name)?;
        Some(Write::delete(target.store_key(), Expect::Revision(Revision(cached.revision()))))
    }
}

/// Returns whether objects of this kind have a generation.
fn counts(target: &Target) -> bool {
    target.kind.rules.generation.starts_at_one()
}

/// The addresses of a service.
fn addresses(service: Option<&Value>) -> Vec<IpAddr> {
    let all = service.map(|s| s.items_at(&["spec", "clusterIPs"])).unwrap_or_default();
    let texts = all.iter().filter_map(Value::as_str);
    texts.filter_map(net::parse_ip_sloppy).map(|ip| ip.to_canonical()).collect()
}

fn family(ip: IpAddr) -> &'static str {
    if ip.is_ipv4() { "IPv4" } else { "IPv6" }
}
