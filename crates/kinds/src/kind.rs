//! `Kind`: everything that the server knows about one kind of object, built-in or custom.

use crate::core::podspec::disabled;
use crate::endpoint::Conversion;
use crate::error_text::Internal;
use crate::{Defaults, Hooks, Scope, check, hooks};
use pintle_meta::{FieldErrors, GroupKind, GroupResource, GroupVersionKind};
use pintle_schema::Schema;
use pintle_value::{Path, Str, Value};
use std::sync::Arc;

/// One kind. Shared as `Arc<Kind>`; a changed definition makes a new one.
pub struct Kind {
    /// API group; "" is the core group.
    pub group: Str,
    /// Kind, such as `ConfigMap`.
    pub kind: Str,
    /// The kind of lists of these objects, such as `ConfigMapList`.
    pub list_kind: Str,
    /// Plural resource name, as in URLs.
    pub plural: Str,
    /// Singular name.
    pub singular: Str,
    /// Short names for kubectl.
    pub short_names: Vec<Str>,
    /// Categories for kubectl (`all`).
    pub categories: Vec<Str>,
    /// Whether the kind's objects live in namespaces.
    pub namespaced: bool,
    /// The versions, best first.
    pub versions: Vec<KindVersion>,
    /// The index of the storage version in `versions`.
    pub storage: usize,
    /// The verbs of its collection and objects.
    pub verbs: Verbs,
    /// `storageVersionHash` of discovery.
    pub storage_version_hash: Str,
    /// The prefix of its objects in the store: `/registry/<prefix>/[namespace/]name`.
    pub store_prefix: Str,
    /// The rules of its updates and deletions.
    pub rules: Rules,
    /// How writes change the parts of an object, before the hooks.
    pub strategy: Strategy,
    /// The behaviour that no schema can express.
    pub hooks: &'static dyn Hooks,
    /// Identifies the definition that it was compiled from, and its state; "" for built-in kinds.
    pub definition: Str,
    /// The webhook that converts its objects, if there is one.
    pub conversion: Option<Arc<Conversion>>,
}

impl Kind {
    /// Group and plural, as store errors name it.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.plural.clone() }
    }

    /// The verbs that discovery publishes: once the definition is terminating, no verbs that write objects.
    pub fn published_verbs(&self) -> Verbs {
        if self.rules.ending {
            Verbs { create: false, patch: false, update: false, ..self.verbs }
        } else {
            self.verbs
        }
    }

    /// Group and kind, as validation errors name it.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    /// The version of this name, if it is served.
    pub fn version(&self, name: &str) -> Option<&KindVersion> {
        self.versions.iter().find(|v| v.name == name && v.served)
    }

    /// Returns whether its objects have fields whose text is stored as the client sent it (`RawExtension`). Custom
    /// resources never have, and their schemas are not compiled for this.
    pub fn has_raw(&self) -> bool {
        self.definition.is_empty() && self.storage_version().schema.has_raw()
    }

    /// Prepares a new object: resets the status, drops fields of disabled features, sets what only the server decides.
    pub fn prepare_create(&self, hooks: &dyn Hooks, object: &mut Value) {
        match &self.strategy.status {
            Some(Value::Null) => _ = object.remove_at(&["status"]),
            Some(status) => object.set_at(&["status"], status.clone()),
            None => {}
        }
        self.drop_pod_fields(object, None);
        hooks.prepare_create(object);
    }

    /// Reports the immutable fields that an update of the object changes.
    pub fn validate_immutable_fields(&self, object: &Value, old: &Value, errors: &mut FieldErrors) {
        for field in &self.strategy.immutable {
            let (new, old) = (object.at(&field.keys), old.at(&field.keys));
            let path = Path::of(field.error_path);
            match field.struct_type {
                None => check::immutable(new, old, &path, errors),
                Some(_) if new == old => {}
                Some(name) => errors.invalid(&path, Internal(new, name), check::IMMUTABLE),
            }
        }
    }

    /// The fields that the cache extracts from stored objects: those that the storage version selects by, then those
    /// that only other versions select by.
    pub fn extracted_fields(&self) -> impl Iterator<Item = &SelectableField> {
        let stored = &self.storage_version().selectable;
        let others = self.versions.iter().flat_map(|version| &version.selectable);
        let only_others = others.filter(move |field| {
            !field.path.is_empty() && !stored.iter().any(|known| known.path == field.path)
        });
        stored.iter().chain(only_others)
    }

    /// Prepares an update: copies what this scope may not change from `old`.
    pub fn prepare_update(&self, hooks: &dyn Hooks, scope: Scope<'_>, object: &mut Value, old: &Value) {
        match (self.strategy.keep, scope) {
            (Keep::Nothing, _) => {}
            (Keep::Spec, Scope::Main) => hooks::take(object, old, &["status"]),
            (Keep::Spec, Scope::Sub("status")) => hooks::take(object, old, &["spec"]),
            (Keep::Spec, Scope::Sub(_)) => {}
            (Keep::Metadata, scope) => hooks::keep_named_metadata(scope, object, old),
            (Keep::Everything, scope) => hooks::keep_other_side(scope, object, old),
        }
        if scope == Scope::Main {
            self.drop_pod_fields(object, Some(old));
        }
        hooks.prepare_update(scope, object, old);
    }

    fn drop_pod_fields(&self, object: &mut Value, old: Option<&Value>) {
        let path = self.strategy.pod_spec.as_slice();
        if !path.is_empty() {
            disabled::drop_fields(object.at_mut(path), old.and_then(|old| old.at(path)));
        }
    }

    /// The version in which objects are stored.
    #[expect(clippy::indexing_slicing, reason = "every kind has a storage version")]
    pub fn storage_version(&self) -> &KindVersion {
        &self.versions[self.storage]
    }
}

/// One version of a kind.
pub struct KindVersion {
    /// Name, such as `v1`.
    pub name: Str,
    /// Whether requests in this version are answered.
    pub served: bool,
    /// The group of this version, if the kind is served by two groups (`Event`); else the kind's own.
    pub group: Str,
    /// The version's compiled schema.
    pub schema: Schema,
    /// Whether the version can be written in protobuf.
    pub protobuf: bool,
    /// Subresources of this version.
    pub subresources: Vec<Subresource>,
    /// The labels that field selectors support, in addition to `metadata.name` and `metadata.namespace`.
    pub selectable: Vec<SelectableField>,
    /// Whether field selectors support `metadata.namespace`.
    pub namespace_selectable: bool,
    /// The error for other labels: `{}` is replaced by the label, `{q}` by the quoted label.
    pub unsupported_label: Str,
    /// The columns of Tables of the kind; empty means Name and Created At.
    pub columns: Vec<Column>,
    /// The deprecation warning that each request gets.
    pub deprecation: Option<Str>,
    /// What unset fields get when an object is decoded, if the kind has defaults.
    pub defaults: Option<Arc<Defaults>>,
    /// The behaviour of writes in this version that the schema cannot express.
    pub hooks: &'static dyn Hooks,
}

impl KindVersion {
    /// Applies the defaults (Go's `SetDefaults_*`), as on every decode.
    pub fn apply_defaults(&self, object: &mut Value) {
        if let Some(defaults) = &self.defaults {
            defaults.apply(object);
        }
    }

    /// Group, version and kind of an object in this version.
    pub fn gvk(&self, kind: &Kind) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.name.clone(), kind: kind.kind.clone() }
    }

    /// The error for a field selector with the unsupported `label`.
    pub fn unsupported(&self, label: &str) -> String {
        let quoted = pintle_meta::field::quoted(label);
        self.unsupported_label.replace("{q}", &quoted).replace("{}", label)
    }

    /// The subresource of this name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }
}

/// A set of verbs, one bit each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own verbs")]
pub struct Verbs {
    pub create: bool,
    pub delete: bool,
    pub deletecollection: bool,
    pub get: bool,
    pub list: bool,
    pub patch: bool,
    pub update: bool,
    pub watch: bool,
}

impl Verbs {
    /// The verbs in a comma-separated list.
    pub fn of(names: &str) -> Self {
        let has = |verb: &str| names.split(',').any(|name| name == verb);
        Verbs {
            create: has("create"),
            delete: has("delete"),
            deletecollection: has("deletecollection"),
            get: has("get"),
            list: has("list"),
            patch: has("patch"),
            update: has("update"),
            watch: has("watch"),
        }
    }
}

/// A subresource: `status`, `scale`, `token`, …
#[derive(Clone, Debug)]
pub struct Subresource {
    /// Last part of the path.
    pub name: Str,
    /// The kind that the subresource reads and writes.
    pub gvk: GroupVersionKind,
    /// The verbs that the subresource supports.
    pub verbs: Verbs,
    /// For `scale`: the paths of replicas and selector.
    pub scale: Option<ScalePaths>,
}

/// The paths of the `scale` subresource, as field names from the object's root.
#[derive(Clone, Debug, Default)]
pub struct ScalePaths {
    /// `spec.replicas`
    pub spec_replicas: Vec<Str>,
    /// `status.replicas`
    pub status_replicas: Vec<Str>,
    /// The path of the selector, if there is one: a string, or in built-in kinds a label selector or a map of labels
    pub label_selector: Vec<Str>,
}

/// The error of kinds that only support `metadata.name` and `metadata.namespace`.
pub const UNSUPPORTED_LABEL: &str =
    r#"{q} is not a known field selector: only "metadata.name", "metadata.namespace""#;

/// A label that field selectors support.
#[derive(Clone, Debug)]
pub struct SelectableField {
    /// The name in selectors: `status.phase`.
    pub label: Str,
    /// The path of its value in the storage version, as field names from the object's root. If empty,
    /// `Hooks::selectable` computes it, or it is always "".
    pub path: Vec<Str>,
    /// The value of an unset field (usually "", but `false` for booleans).
    pub unset: Str,
}

/// A column of a Table.
#[derive(Clone, Debug)]
pub struct Column {
    /// Header.
    pub name: Str,
    /// `string`, `integer`, `number`, `boolean`, `date`
    pub type_: Str,
    /// `name`, `date-time`, … or ""
    pub format: Str,
    /// Text for people.
    pub description: Str,
    /// 0 is always printed, higher ones only in wide output.
    pub priority: i64,
    /// JSON path of the cell, for custom resources.
    pub path: Str,
}

/// How writes change the parts of an object.
#[derive(Clone, Debug, Default)]
pub struct Strategy {
    /// The status of a new object, if it is not taken from the client; `null` means that it has none.
    pub status: Option<Value>,
    /// The parts of the old object that writes keep.
    pub keep: Keep,
    /// The path of a pod spec whose fields may be behind feature gates, or empty.
    pub pod_spec: Vec<&'static str>,
    /// The fields that an update of the object may not change.
    pub immutable: Vec<ImmutableField>,
    /// The paths that a write of `object`, or of the named subresource, cannot change, where they are not the usual ones.
    pub resets: Vec<(&'static str, Vec<Vec<&'static str>>)>,
}

/// A field that an update may not change.
#[derive(Clone, Debug)]
pub struct ImmutableField {
    /// The names of the fields from the object's root.
    pub keys: Vec<&'static str>,
    /// The field's path in errors.
    pub error_path: &'static str,
    /// The Go type that errors print its value as, if it is a struct.
    pub struct_type: Option<&'static str>,
}

/// The parts of the old object that a write of the status keeps. Unless it keeps nothing, other writes keep the status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keep {
    /// Nothing: there is no status, or the hooks decide.
    #[default]
    Nothing,
    /// The spec.
    Spec,
    /// The spec and some of the metadata. Other changes of metadata are left to validation.
    Metadata,
    /// All but the status.
    Everything,
}

/// Rules of updates and deletions that differ between kinds.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// A PUT of a missing object creates it.
    pub create_on_update: bool,
    /// An apply to the status of a missing object creates it.
    pub create_on_status_apply: bool,
    /// An update need not have a resourceVersion.
    pub unconditional_update: bool,
    /// How `metadata.generation` changes.
    pub generation: Generation,
    /// A deletion returns the object instead of a `Status`.
    pub delete_returns_object: bool,
    /// The default propagation of a deletion is to orphan dependents (legacy kinds).
    pub orphan_by_default: bool,
    /// The kind has no garbage collection (events): no finalizers are set for dependents.
    pub gc_unsupported: bool,
    /// A deletion cannot ignore that an object is unreadable.
    pub unsafe_deletion_unsupported: bool,
    /// kube-apiserver has no watch cache for the kind (events), so its store reports wrong resourceVersions.
    pub uncached: bool,
    /// Finalizers without a domain must be standard ones. Leases, RuntimeClasses, admission policies and webhooks, and
    /// kinds of kube-apiserver's other internal servers, do not have this rule.
    pub standard_finalizers: bool,
    /// How an update of the object validates its metadata.
    pub metadata_on_update: MetadataOnUpdate,
    /// The kind's definition is terminating: creates are refused.
    pub ending: bool,
    /// An apply is refused if it changes anything or if a field has no owner yet. This applies to the scale of custom
    /// resources: kube-apiserver takes an untyped scale for a custom resource of another group.
    pub unappliable: bool,
}

/// How an update of an object (not of a subresource) validates its metadata.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MetadataOnUpdate {
    /// By the rules of changes.
    #[default]
    AsChange,
    /// By the rules of changes, then by those of new objects, so that some errors appear twice.
    AsChangeThenAsNew,
    /// By the rules of new objects, then, after the rules of the kind, by those of changes.
    AsNewThenAsChange,
    /// By the rules of new objects.
    AsNew,
}

/// How `metadata.generation` changes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generation {
    /// The generation is never set.
    #[default]
    Unset,
    /// The generation starts at 1 and increases with changes outside of metadata and status.
    Counted,
    /// As `Counted`, but an empty list or map in an update is a change, because Go compares these kinds with
    /// `reflect.DeepEqual`, and stored objects have none. For all other kinds an empty list equals an absent one.
    CountedExactly,
    /// The generation is 1 and stays.
    Fixed,
    /// The generation starts unset and increases with changes.
    CountedFromZero,
}

impl Generation {
    /// Returns whether a new object has the generation 1.
    pub fn starts_at_one(self) -> bool {
        matches!(self, Generation::Counted | Generation::CountedExactly | Generation::Fixed)
    }

    /// Returns whether changes increase it.
    pub fn counts_changes(self) -> bool {
        matches!(self, Generation::Counted | Generation::CountedExactly | Generation::CountedFromZero)
    }
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            create_on_update: false,
            create_on_status_apply: false,
            unconditional_update: true,
            generation: Generation::Unset,
            delete_returns_object: false,
            orphan_by_default: false,
            gc_unsupported: false,
            unsafe_deletion_unsupported: false,
            uncached: false,
            standard_finalizers: true,
            metadata_on_update: MetadataOnUpdate::AsChange,
            ending: false,
            unappliable: false,
        }
    }
}
