//! Writes in the same transaction as an object: the addresses and node ports of a service, and the quota usage of an
//! object. A write that loses a race for any of them starts again from the beginning.
//!
//! An allocated address is an IPAddress object. All allocated node ports are bits of one value, and each change of it
//! expects the revision that was read, so two services never get the same port.

mod counts;
mod ports;
mod quota;

use crate::write::WriteRequest;
use crate::{Target, Writer, environment, metadata, object, ownership};
use counts::Allocating;
use pintle_kinds::service_allocation::{self, Pool, Refusal};
use pintle_meta::{Status, net};
use pintle_schema::typed;
use pintle_store::{Expect, Revision, Write};
use pintle_value::Value;
use ports::Taken;
use std::net::IpAddr;

const MANAGER: &str = "kube-apiserver";

/// Returns whether the target's objects are Services, which have addresses and ports.
fn is_service(target: &Target) -> bool {
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
        let mut pool = Pool {
            ranges: &self.service_ranges,
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
            (Some(counted), Ok(())) => counted.succeeded(&self.service_ranges, candidate),
            (Some(counted), Err(refusal)) => counted.failed(&self.service_ranges, candidate, refusal),
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
            Allocating::begin(None, created).succeeded(&self.service_ranges, created);
        }
    }

    /// Returns the writes that release the allocations of an object that is deleted.
    pub(crate) fn release(&self, target: &Target, last: &Value) -> Vec<Write> {
        if is_service(target) {
            self.allocation_writes(self.taken_ports(), Some(last), None)
        } else {
            Vec::new()
        }
    }

    /// Returns the writes that change the allocations of a service from those of `old` to those of `new`.
    fn allocation_writes(&self, taken: Taken, old: Option<&Value>, new: Option<&Value>) -> Vec<Write> {
        let (had, has) = (addresses(old), addresses(new));
        let mut writes = Vec::new();
        if let Some(service) = new {
            let added = has.iter().filter(|ip| !had.contains(ip));
            writes.extend(added.filter_map(|ip| self.put_address(*ip, service)));
        }
        writes.extend(had.iter().filter(|ip| !has.contains(ip)).filter_map(|ip| self.delete_address(*ip)));
        writes.extend(self.port_writes(taken, &ports::of(old), &ports::of(new)));
        writes
    }

    fn address(&self, ip: IpAddr) -> Option<Target> {
        self.storage.target("networking.k8s.io", "v1", "ipaddresses", "", &net::ip_text(ip))
    }

    /// The write that creates the IPAddress of a service. It fails if another service owns the address.
    fn put_address(&self, ip: IpAddr, service: &Value) -> Option<Write> {
        let target = self.address(ip)?;
        let mut tree = Value::object();
        tree.set_at(&["kind"], "IPAddress".into());
        tree.set_at(&["apiVersion"], "networking.k8s.io/v1".into());
        tree.set_at(&["metadata", "name"], target.name.as_str().into());
        let family = if ip.is_ipv4() { "IPv4" } else { "IPv6" };
        tree.set_at(&["metadata", "labels", "ipaddress.kubernetes.io/ip-family"], family.into());
        tree.set_at(
            &["metadata", "labels", "ipaddress.kubernetes.io/managed-by"],
            "ipallocator.k8s.io".into(),
        );
        tree.set_at(&["spec", "parentRef", "resource"], "services".into());
        for key in ["namespace", "name"] {
            tree.set_at(&["spec", "parentRef", key], service.str_at(&["metadata", key]).into());
        }
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

    /// Allocates addresses and ports that services have without a record, and releases records that no service has.
    pub async fn repair_allocations(&self) -> Result<(), Status> {
        use pintle_admission::ClusterState;
        let services = self.storage.objects("", "services", "");
        let mut writes = Vec::new();
        for service in &services {
            for ip in addresses(Some(service)) {
                let known = self
                    .address(ip)
                    .is_some_and(|target| self.storage.cached(&target.kind, &target.name).is_some());
                writes.extend(self.put_address(ip, service).filter(|_| !known));
            }
        }
        writes.extend(self.repair_ports(&services));
        for write in writes {
            // Another server may repair the same record at the same time; a conflict is not an error.
            self.storage.try_write(write).await?;
        }
        Ok(())
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
