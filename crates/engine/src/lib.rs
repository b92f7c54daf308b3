//! The pipelines: every read, write, deletion and watch of API objects.
//!
//! `write.rs` is every mutation top to bottom, `propose.rs` what the object would become, `delete.rs` how
//! objects go, `read.rs` get and list. Knows no HTTP; answers are objects or a `Status`.

mod allocate;
mod authorize;
mod crd;
pub mod decode;
mod delete;
pub mod environment;
mod internal;
mod metadata;
mod object;
mod ownership;
mod precondition;
mod propose;
mod read;
mod registry;
mod status;
mod subresource;
mod target;
mod validation;
mod watch;
mod write;

pub use delete::Deleted;
pub use environment::{Clock, Random};
pub use propose::{Body, Change, PatchType};
pub use read::{ListRequest, Listed};
pub use registry::{Kinds, Registry};
pub use subresource::{Access, Made, TokenObjects};
pub use target::{Target, object_key};
pub use watch::Watched;
pub use write::{Turns, WriteRequest, Written};

use pintle_admission::{Chain, World};
use pintle_auth::Authorizer;
use pintle_cache::{Cache, Object};
use pintle_kinds::service_allocation::Ranges;
use pintle_kinds::{Kind, Types};
use pintle_meta::{GroupVersion, Status, Timestamp};
use pintle_schema::{Schema, structural};
use pintle_store::{Expect, Revision, Store, StoreFault, Write, WriteError};
use pintle_value::Value;
use std::borrow::Cow;
use std::sync::Arc;
use write::Live;

/// The engine: one per server.
pub struct Engine {
    /// Where objects are kept.
    pub store: Arc<dyn Store>,
    /// The objects in memory.
    pub cache: Arc<Cache>,
    /// The kinds that are served.
    pub registry: Registry,
    /// The plugins that may change or refuse a write.
    pub admission: Chain,
    /// Decides what users may do, where that depends on the object.
    pub authorizer: Arc<dyn Authorizer>,
    /// The time.
    pub clock: Arc<dyn Clock>,
    /// Chance.
    pub random: Arc<dyn Random>,
    /// The schema of `metadata`, which custom resources share.
    pub metadata_schema: Schema,
    /// The schemas of kinds that are no resources.
    pub types: Types,
    /// Where services get their addresses and node ports from.
    pub service_ranges: Ranges,
    /// Who writes next where many want the same.
    pub turns: Turns,
}

impl Engine {
    /// The live object that `target` names, as it is kept and as a tree with its resourceVersion.
    fn live(&self, target: &Target) -> Result<Option<Live>, Status> {
        target.check_path_name()?;
        let Some(object) = self.kept(&target.kind, &target.object_key()) else { return Ok(None) };
        let tree = object::tree(&object)?;
        Ok(Some(Live { object, tree }))
    }

    fn kept(&self, kind: &Kind, key: &str) -> Option<Arc<Object>> {
        self.cache.resource(&kind.store_prefix)?.get(key)
    }

    /// Puts an object; answers with it as it is kept now.
    async fn commit(&self, target: &Target, write: Write, tree: &Value) -> Result<Arc<Object>, WriteError> {
        self.commit_along(target, write, tree, Vec::new()).await
    }

    /// Puts an object and, in the same transaction, what goes `along` with it.
    async fn commit_along(
        &self,
        target: &Target,
        mut write: Write,
        tree: &Value,
        mut along: Vec<Write>,
    ) -> Result<Arc<Object>, WriteError> {
        let extracted = object::extract(&target.kind, tree);
        let draft = self.cache.resource(&target.kind.store_prefix).map(|resource| resource.draft(extracted));
        if let Some(draft) = &draft {
            write.note = draft.note();
        }
        if along.is_empty() {
            self.store.write(write).await?;
        } else {
            along.push(write);
            self.store.commit(along).await?;
        }
        let committed = draft.and_then(|draft| draft.committed().cloned());
        committed.ok_or(WriteError::Unavailable(StoreFault::Stopped))
    }

    /// Removes an object and, in the same transaction, what it had taken. `last` is the object as it was.
    async fn erase(&self, target: &Target, expect: Expect, last: &Value) -> Result<Revision, WriteError> {
        let delete = Write::delete(target.store_key(), expect);
        let mut along = self.release(target, last);
        if along.is_empty() {
            return self.store.write(delete).await;
        }
        along.push(delete);
        let revisions = self.store.commit(along).await?;
        revisions.last().copied().ok_or(WriteError::Unavailable(StoreFault::Stopped))
    }

    /// The time, as metadata writes it.
    pub fn now_text(&self) -> String {
        self.time_text(self.clock.now().0)
    }

    fn time_text(&self, seconds: i64) -> String {
        Timestamp { seconds, nanos: 0 }.rfc3339().to_string()
    }

    fn is_registered(&self, kinds: &Kinds, kind: &str, version: &GroupVersion) -> bool {
        kinds.by_kind(version, kind.strip_suffix("List").unwrap_or(kind)).is_some()
    }

    /// `tree` (in the stored version) in the version that the request speaks.
    fn in_version<'t>(&self, target: &Target, tree: &'t Value) -> Cow<'t, Value> {
        if target.version == target.kind.storage {
            return Cow::Borrowed(tree);
        }
        let mut out = tree.clone();
        object::convert(&target.kind, &mut out, target.kind.storage, target.version);
        Cow::Owned(out)
    }

    /// An object as a tree in the version that the request speaks, with this resourceVersion (0 is none).
    pub fn tree_in(&self, target: &Target, object: &Object, revision: u64) -> Result<Value, Status> {
        let mut tree = object::tree(object)?;
        if revision == 0 {
            tree.remove_at(&["metadata", "resourceVersion"]);
        } else {
            tree.set_at(&["metadata", "resourceVersion"], revision.to_string().into());
        }
        object::convert(&target.kind, &mut tree, target.kind.storage, target.version);
        Ok(tree)
    }

    /// Turns a tree of the request's version into the stored version.
    fn to_storage(&self, target: &Target, tree: &mut Value) {
        object::convert(&target.kind, tree, target.version, target.kind.storage);
        let schema = &target.kind.storage_version().schema;
        if target.version != target.kind.storage && !schema.is_go() {
            structural::default(schema.arena(), schema.root(), tree);
        }
    }
}

impl World for Engine {
    fn object(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let kinds = self.registry.kinds();
        let kind = kinds.by_plural(group, plural)?;
        let object = self.kept(kind, &object_key(kind.namespaced, namespace, name))?;
        object::tree(&object).ok()
    }

    fn objects(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value> {
        let kinds = self.registry.kinds();
        let Some(kind) = kinds.by_plural(group, plural) else { return Vec::new() };
        let Some(resource) = self.cache.resource(&kind.store_prefix) else { return Vec::new() };
        let view = resource.view();
        let namespace = if namespace.is_empty() { None } else { Some(namespace) };
        view.range(namespace, None).filter_map(|object| object::tree(object).ok()).collect()
    }

    fn random(&self) -> u64 {
        self.random.number()
    }
}
