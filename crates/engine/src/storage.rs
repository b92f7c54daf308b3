//! The stored objects and the kinds that are served: lookups, and conditional commits that return the committed object.

use crate::environment::{Clock, Random};
use crate::object::Form;
use crate::registry::{Kinds, Registry};
use crate::{Codec, Target, decode, measures, object, object_key};
use arc_swap::ArcSwapOption;
use bytes::Bytes;
use pintle_admission::ClusterState;
use pintle_admission::policy::GROUP;
use pintle_cache::{Cache, Object, Resource};
use pintle_kinds::{Kind, KindVersion, Types};
use pintle_meta::{GroupVersion, Timestamp};
use pintle_schema::{Arena, NodeId, Schema};
use pintle_store::{Expect, Op, Store, StoreFault, Write, WriteError};
use pintle_value::{Str, Value, is_same_text};
use std::cell::RefCell;
use std::sync::{Arc, OnceLock};

/// The objects of a server, in the store and in memory, and their kinds.
pub struct Storage {
    pub(crate) store: Arc<dyn Store>,
    /// The codec of the store, if it encodes objects. Objects whose tree is known are encoded from the tree.
    pub(crate) codec: Option<Arc<Codec>>,
    pub(crate) cache: Arc<Cache>,
    pub(crate) registry: Registry,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) random: Arc<dyn Random>,
    /// The schemas of types that are not resources.
    pub(crate) types: Types,
    /// The schema of `metadata`, shared by all custom resources.
    pub(crate) metadata_schema: Schema,
    /// The form of that schema for custom resources, built when the first of them needs it.
    pub(crate) custom_metadata: OnceLock<(Arc<Arena>, NodeId)>,
    pub(crate) admission_resources: AdmissionResources,
    /// Whether webhooks and extension servers are reached at the endpoints of their services.
    pub(crate) routes_to_endpoints: bool,
}

thread_local! {
    /// The last time that was written as text, in seconds, and its text.
    static LAST_TIME: RefCell<(i64, String)> = const { RefCell::new((0, String::new())) };
}

impl Storage {
    /// The store of all objects.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The objects in memory.
    pub fn cache(&self) -> &Arc<Cache> {
        &self.cache
    }

    /// The kinds that are served.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The current time.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// The random source.
    pub fn random_source(&self) -> &dyn Random {
        &*self.random
    }

    /// The schema of `metadata`.
    pub fn metadata_schema(&self) -> &Schema {
        &self.metadata_schema
    }

    /// An object as it is in the cache.
    pub(crate) fn cached(&self, kind: &Kind, key: &str) -> Option<Arc<Object>> {
        self.cache.resource(&kind.store_prefix)?.get(key)
    }

    /// Stores an object and returns it in its new state.
    pub(crate) async fn commit(
        &self,
        target: &Target,
        write: Write,
        tree: &Value,
    ) -> Result<Arc<Object>, WriteError> {
        self.commit_with(target, write, tree, Form::Decoded, Vec::new()).await
    }

    /// Stores an object and, in the same transaction, the extra writes in `extra_writes`.
    pub(crate) async fn commit_with(
        &self,
        target: &Target,
        mut write: Write,
        tree: &Value,
        form: Form,
        mut extra_writes: Vec<Write>,
    ) -> Result<Arc<Object>, WriteError> {
        let value = match &write.op {
            Op::Put(value) => value.clone(),
            Op::Delete => Bytes::new(),
        };
        let draft = self.cache.resource(&target.kind.store_prefix).map(|resource| {
            let (extracted, read_form) = object::prepare(&target.kind, &value, tree, form);
            resource.draft(extracted, read_form)
        });
        if let Some(draft) = &draft {
            write.note = draft.note();
        }
        if let Some(codec) = &self.codec {
            write = codec.encode_write(write, Some(tree))?;
        }
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
        object::unstored_in(target, &value, tree, revision.0, form).map_err(|_| StoreFault::Stopped.into())
    }

    /// The current time in the format of metadata.
    pub fn now_text(&self) -> String {
        let now = self.clock.now().0;
        // Each write needs the time several times, and all writes within a second get the same text.
        LAST_TIME.with_borrow_mut(|(seconds, text)| {
            if *seconds != now || text.is_empty() {
                (*seconds, *text) = (now, self.time_text(now));
            }
            text.clone()
        })
    }

    pub(crate) fn time_text(&self, seconds: i64) -> String {
        Timestamp { seconds, nanos: 0 }.rfc3339().to_string()
    }

    pub(crate) fn is_registered(&self, kinds: &Kinds, kind: &str, version: &GroupVersion) -> bool {
        kinds.by_kind(version, kind.strip_suffix("List").unwrap_or(kind)).is_some()
    }

    /// Returns whether a version has this built-in kind or its list kind. The internal version has all kinds of its
    /// group.
    pub(crate) fn is_built_in(&self, kinds: &Kinds, kind: &str, version: &GroupVersion) -> bool {
        if decode::is_in_every_version(kind) {
            let is_it = |known: &KindVersion| known.name == version.version && known.group == version.group;
            return kinds
                .all()
                .any(|found| found.versions.iter().any(|v| is_it(v) && v.schema.is_built_in()));
        }
        let kind = kind.strip_suffix("List").unwrap_or(kind);
        if version.version == decode::INTERNAL_VERSION {
            let is_it = |found: &Arc<Kind>| {
                found.group == version.group
                    && found.kind == kind
                    && found.storage_version().schema.is_built_in()
            };
            return kinds.all().any(is_it);
        }
        kinds.by_kind(version, kind).is_some_and(|(found, _)| found.storage_version().schema.is_built_in())
    }
}

/// The resources that configure admission, in the group of [`pintle_admission::policy::GROUP`]. Every write asks when they
/// changed.
const ADMISSION_RESOURCES: [&str; 6] = [
    "mutatingadmissionpolicies",
    "validatingadmissionpolicies",
    "mutatingwebhookconfigurations",
    "validatingwebhookconfigurations",
    "mutatingadmissionpolicybindings",
    "validatingadmissionpolicybindings",
];

/// The cached resources that configure admission, found once.
#[derive(Default)]
pub(crate) struct AdmissionResources([ArcSwapOption<FoundResource>; ADMISSION_RESOURCES.len()]);

struct FoundResource {
    /// [`Cache::registrations`] when it was looked up.
    registrations: u64,
    resource: Arc<Resource>,
}

impl Storage {
    /// The revision of the last change of a resource that configures admission; `None` if it has no objects.
    pub(crate) fn admission_changed_at(&self, plural: &str) -> Option<u64> {
        let place = ADMISSION_RESOURCES.iter().position(|known| is_same_text(known, plural))?;
        let slot = self.admission_resources.0.get(place)?;
        let registrations = self.cache.registrations();
        if let Some(found) = slot.load().as_ref().filter(|found| found.registrations == registrations) {
            return found.resource.changed_at();
        }
        let kinds = self.registry.load();
        let kind = kinds.by_plural(GROUP, plural);
        let resource = kind.and_then(|kind| self.cache.resource(&kind.store_prefix))?;
        let changed_at = resource.changed_at();
        slot.store(Some(Arc::new(FoundResource { registrations, resource })));
        changed_at
    }
}

impl Storage {
    /// A namespace that can be read, with its kind.
    fn namespace<'k>(&self, kinds: &'k Kinds, name: &str) -> Option<(&'k Arc<Kind>, Arc<Object>)> {
        let kind = kinds.by_plural("", "namespaces")?;
        let object = self.cached(kind, name).filter(|object| object.unreadable().is_none())?;
        Some((kind, object))
    }

    /// The objects of a kind that satisfy `is_wanted`, in one namespace or in all ("").
    fn objects_if(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        is_wanted: impl Fn(&Object) -> bool,
    ) -> Vec<Value> {
        let kinds = self.registry.kinds();
        let Some(kind) = kinds.by_plural(group, plural) else { return Vec::new() };
        let Some(resource) = self.cache.resource(&kind.store_prefix) else { return Vec::new() };
        let view = resource.view();
        let namespace = if namespace.is_empty() { None } else { Some(namespace) };
        let wanted = view.range(namespace, None).filter(|object| is_wanted(object));
        wanted.filter_map(|object| object::tree(kind, object).ok()).collect()
    }
}

impl ClusterState for Storage {
    fn object(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let kinds = self.registry.kinds();
        let kind = kinds.by_plural(group, plural)?;
        let object = self.cached(kind, &object_key(kind.namespaced, namespace, name))?;
        object::tree(kind, &object).ok()
    }

    fn namespace_phase(&self, name: &str) -> Option<Str> {
        let kinds = self.registry.kinds();
        let (kind, object) = self.namespace(&kinds, name)?;
        // It is a selectable field, so the cache has extracted it.
        let fields = &kind.storage_version().selectable;
        let index = fields.iter().position(|field| field.label == "status.phase")?;
        Some(object.field(index).into())
    }

    fn namespace_labels(&self, name: &str) -> Option<Vec<(Str, Str)>> {
        let kinds = self.registry.kinds();
        let (_, object) = self.namespace(&kinds, name)?;
        Some(object.labels().to_vec())
    }

    fn objects_containing(&self, group: &str, plural: &str, json: &str) -> Vec<Value> {
        let contains =
            |object: &Object| memchr::memmem::find(object.stored_json(), json.as_bytes()).is_some();
        self.objects_if(group, plural, "", contains)
    }

    fn objects(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value> {
        self.objects_if(group, plural, namespace, |_| true)
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
        // What a webhook converts stays in its stored version; the caller converts it.
        if kind.conversion.is_none() {
            for object in &mut objects {
                object::convert(kind, object, kind.storage, at);
            }
        }
        objects
    }

    fn random(&self) -> u64 {
        self.random.number()
    }

    fn now(&self) -> i64 {
        self.clock.now().0
    }
}
