//! The pipelines: every read, write, deletion and watch of API objects.
//!
//! `write.rs` is every mutation top to bottom, `propose.rs` what the object would become, `delete.rs` how
//! objects go, `read.rs` get and list. Knows no HTTP; answers are objects or a `Status`.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod access_objects;
mod admit;
mod allocate;
mod answer;
mod authorize;
mod claim_rights;
mod computed;
mod convert;
mod crd;
pub mod decode;
mod delete;
pub mod environment;
mod history;
mod internal;
mod measures;
mod metadata;
mod metrics;
mod object;
mod ownership;
mod precondition;
mod propose;
mod read;
mod registry;
mod retry;
mod select;
mod status;
mod stored;
mod subresource;
mod target;
mod unreadable;
mod validation;
mod watch;
mod write;

pub use access_objects::AccessObjects;
pub use admit::{Hooks, PolicySlots};
pub use convert::{ConversionMetrics, InFlightConversions};
pub use delete::Deleted;
pub use environment::{Clock, Random};
pub use history::{ObjectHistory, ObjectVersion};
pub use propose::{Body, Change, PatchType};
pub use read::{ListRequest, Listed};
pub use registry::{BuiltInGroup, Kinds, Members, Registry};
pub use stored::{
    Codec, FormStore, KubernetesForm, MASTER_LEASES, PEER_LEASES, StorageMediaType, StoredForm, Unreadable,
    is_object_key,
};
pub use subresource::{Access, Backend, Location, Made, NodeSettings, TOKEN_SECONDS_EXTENDED, TokenObjects};
pub use target::{Target, object_key};
pub use watch::{Selection, Watched};
pub use write::{ContentionLock, WriteRequest, Written};

use bytes::Bytes;
use pintle_admission::{Chain, ClusterState};
use pintle_auth::Authorizer;
use pintle_cache::{Cache, Object};
use pintle_kinds::service_allocation::Ranges;
use pintle_kinds::{Kind, Types};
use pintle_meta::{GroupVersion, Status, Timestamp};
use pintle_schema::{Arena, NodeId, Schema};
use pintle_store::{Expect, Op, Revision, Store, StoreFault, Write, WriteError};
use pintle_value::Value;
use pintle_webhook::Caller;
use std::sync::{Arc, OnceLock};
use write::Live;

/// The engine: one per server.
pub struct Engine {
    /// Where objects are kept.
    pub store: Arc<dyn Store>,
    /// The objects in memory.
    pub cache: Arc<Cache>,
    /// The kinds that are served.
    pub registry: Registry,
    /// The admission plugins.
    pub admission: Chain,
    /// The authorizers that are built from objects. They are updated when such an object is written.
    pub access_objects: AccessObjects,
    /// Authorizes requests whose rights depend on the object.
    pub authorizer: Arc<dyn Authorizer>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub random: Arc<dyn Random>,
    /// The schema of `metadata`, shared by all custom resources.
    pub metadata_schema: Schema,
    /// The form of that schema for custom resources, built when the first of them needs it.
    pub custom_metadata: OnceLock<(Arc<Arena>, NodeId)>,
    /// The schemas of types that are not resources.
    pub types: Types,
    /// The ranges from which services get their cluster IPs and node ports.
    pub service_ranges: Ranges,
    /// Serializes writes to an object that has repeated conflicts.
    pub contention_lock: ContentionLock,
    /// Calls webhooks.
    pub webhooks: Arc<dyn Caller>,
    /// Metrics of webhook conversions.
    pub conversion_metrics: ConversionMetrics,
    /// Conversions that several watches wait for.
    pub in_flight_conversions: InFlightConversions,
    /// Whether undecodable objects are reported as such and may be deleted with
    /// `ignoreStoreReadErrorWithClusterBreakingPotential`.
    pub unsafe_deletion: bool,
    /// How many objects of a collection are deleted at the same time.
    pub deletion_workers: usize,
    /// Whether parts of a ResourceClaim's status need rights of their own (`DRAResourceClaimGranularStatusAuthorization`).
    pub granular_claim_status: bool,
    /// The admission webhooks.
    pub hooks: Hooks,
    /// The admission policies.
    pub policy_slots: PolicySlots,
}

impl Engine {
    /// The live object of `target`: the cached object and its tree with resourceVersion.
    fn live(&self, target: &Target) -> Result<Option<Live>, Status> {
        target.check_path_name()?;
        let Some(object) = self.kept(&target.kind, &target.object_key()) else { return Ok(None) };
        if let Some(why) = object.unreadable() {
            return Err(self.cannot_show(target, &object, why));
        }
        let tree = object::tree(&target.kind, &object)?;
        Ok(Some(Live { object, tree }))
    }

    fn kept(&self, kind: &Kind, key: &str) -> Option<Arc<Object>> {
        self.cache.resource(&kind.store_prefix)?.get(key)
    }

    /// Stores an object and returns it in its new state.
    async fn commit(&self, target: &Target, write: Write, tree: &Value) -> Result<Arc<Object>, WriteError> {
        self.commit_with(target, write, tree, Vec::new()).await
    }

    /// Stores an object and, in the same transaction, the extra writes in `extra_writes`.
    async fn commit_with(
        &self,
        target: &Target,
        mut write: Write,
        tree: &Value,
        mut extra_writes: Vec<Write>,
    ) -> Result<Arc<Object>, WriteError> {
        let extracted = object::extract_written(&target.kind, tree);
        let draft = self.cache.resource(&target.kind.store_prefix).map(|resource| resource.draft(extracted));
        if let Some(draft) = &draft {
            write.note = draft.note();
        }
        let value = match &write.op {
            Op::Put(value) => value.clone(),
            Op::Delete => Bytes::new(),
        };
        let operation = if write.expect == Expect::Absent { "create" } else { "update" };
        let _request = measures::StoreRequest::begin(target, operation);
        let revision = if extra_writes.is_empty() {
            self.store.write(write).await?
        } else {
            extra_writes.push(write);
            let revisions = self.store.commit(extra_writes).await?;
            revisions.last().copied().ok_or(WriteError::Unavailable(StoreFault::Stopped))?
        };
        if let Some(object) = draft.and_then(|draft| draft.committed().cloned()) {
            return Ok(object);
        }
        // The cache was reloaded or the resource registered again during the write.
        object::unstored(target, &value, tree, revision.0).map_err(|_| StoreFault::Stopped.into())
    }

    /// Removes an object and, in the same transaction, its allocations. `last` is its last state.
    async fn erase(&self, target: &Target, expect: Expect, last: &Value) -> Result<Revision, WriteError> {
        let delete = Write::delete(target.store_key(), expect);
        let _request = measures::StoreRequest::begin(target, "delete");
        let mut extra_writes = self.release(target, last);
        if extra_writes.is_empty() {
            return self.store.write(delete).await;
        }
        extra_writes.push(delete);
        let revisions = self.store.commit(extra_writes).await?;
        revisions.last().copied().ok_or(WriteError::Unavailable(StoreFault::Stopped))
    }

    /// The current time in the format of metadata.
    pub fn now_text(&self) -> String {
        self.time_text(self.clock.now().0)
    }

    fn time_text(&self, seconds: i64) -> String {
        Timestamp { seconds, nanos: 0 }.rfc3339().to_string()
    }

    fn is_registered(&self, kinds: &Kinds, kind: &str, version: &GroupVersion) -> bool {
        kinds.by_kind(version, kind.strip_suffix("List").unwrap_or(kind)).is_some()
    }

    /// Returns whether a version has this built-in kind or its list kind. The internal version has all kinds of its
    /// group.
    fn is_built_in(&self, kinds: &Kinds, kind: &str, version: &GroupVersion) -> bool {
        let kind = kind.strip_suffix("List").unwrap_or(kind);
        if version.version == decode::INTERNAL_VERSION {
            let is_it = |found: &Arc<Kind>| {
                found.group == version.group && found.kind == kind && found.storage_version().schema.is_go()
            };
            return kinds.all().any(is_it);
        }
        kinds.by_kind(version, kind).is_some_and(|(found, _)| found.storage_version().schema.is_go())
    }
}

impl Engine {
    /// The revision of the last change of a resource's objects; `None` if it has no objects.
    fn changed_at(&self, group: &str, plural: &str) -> Option<u64> {
        let kinds = self.registry.kinds();
        let kind = kinds.by_plural(group, plural)?;
        self.cache.resource(&kind.store_prefix)?.changed_at()
    }
}

impl ClusterState for Engine {
    fn object(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let kinds = self.registry.kinds();
        let kind = kinds.by_plural(group, plural)?;
        let object = self.kept(kind, &object_key(kind.namespaced, namespace, name))?;
        object::tree(kind, &object).ok()
    }

    fn objects(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value> {
        let kinds = self.registry.kinds();
        let Some(kind) = kinds.by_plural(group, plural) else { return Vec::new() };
        let Some(resource) = self.cache.resource(&kind.store_prefix) else { return Vec::new() };
        let view = resource.view();
        let namespace = if namespace.is_empty() { None } else { Some(namespace) };
        view.range(namespace, None).filter_map(|object| object::tree(kind, object).ok()).collect()
    }

    fn resource(&self, version: &GroupVersion, kind: &str) -> Option<(String, bool)> {
        let kinds = self.registry.kinds();
        let (kind, _) = kinds.by_kind(version, kind)?;
        Some((kind.plural.to_string(), kind.namespaced))
    }

    fn objects_in(&self, version: &GroupVersion, kind: &str, namespace: &str, name: &str) -> Vec<Value> {
        let kinds = self.registry.kinds();
        let Some((kind, at)) = kinds.by_kind(version, kind) else { return Vec::new() };
        let mut objects = match name {
            "" => self.objects(&kind.group, &kind.plural, namespace),
            name => self.object(&kind.group, &kind.plural, namespace, name).into_iter().collect(),
        };
        for object in &mut objects {
            object::convert(kind, object, kind.storage, at);
        }
        objects
    }

    fn random(&self) -> u64 {
        self.random.number()
    }
}
