//! `Kind`: all that the server knows of one kind of object, built-in or custom.

use crate::Hooks;
use crate::endpoint::Conversion;
use pintle_meta::{GroupKind, GroupResource, GroupVersionKind};
use pintle_schema::Schema;
use pintle_value::Str;
use std::sync::Arc;

/// One kind. Shared as `Arc<Kind>`; a changed definition makes a new one.
pub struct Kind {
    /// API group; "" is the core group.
    pub group: Str,
    /// Kind, such as `ConfigMap`.
    pub kind: Str,
    /// Kind of its lists, such as `ConfigMapList`.
    pub list_kind: Str,
    /// Plural resource name, as in URLs.
    pub plural: Str,
    /// Singular name.
    pub singular: Str,
    /// Short names for kubectl.
    pub short_names: Vec<Str>,
    /// Categories for kubectl (`all`).
    pub categories: Vec<Str>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// The versions, best first.
    pub versions: Vec<KindVersion>,
    /// Which of `versions` is kept in the store.
    pub storage: usize,
    /// What can be done with its collection and objects.
    pub verbs: Verbs,
    /// `storageVersionHash` of discovery.
    pub storage_version_hash: Str,
    /// Where its objects are in the store: `/registry/<prefix>/[namespace/]name`.
    pub store_prefix: Str,
    /// Rules of its update and deletion.
    pub rules: Rules,
    /// What no schema can say.
    pub hooks: &'static dyn Hooks,
    /// Which definition it was made of, and which state of it; "" for built-in kinds.
    pub definition: Str,
    /// Who turns its objects from one version into another, where that is left to others.
    pub conversion: Option<Arc<Conversion>>,
}

impl Kind {
    /// Group and plural, as store errors name it.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.plural.clone() }
    }

    /// The verbs that discovery tells: once its definition is on the way out, none that would write objects.
    pub fn published_verbs(&self) -> Verbs {
        match self.rules.ending {
            true => Verbs { create: false, patch: false, update: false, ..self.verbs },
            false => self.verbs,
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

    /// Whether its objects have fields whose text is stored as a client sent it (`RawExtension`). Those of custom
    /// resources never do, and their schemas are not compiled to find out.
    pub fn has_raw(&self) -> bool {
        self.definition.is_empty() && self.storage_version().schema.has_raw()
    }

    /// The version that is kept in the store.
    #[expect(clippy::indexing_slicing, reason = "every kind has a storage version")]
    pub fn storage_version(&self) -> &KindVersion {
        &self.versions[self.storage]
    }
}

/// One version of a kind.
pub struct KindVersion {
    /// Name, such as `v1`.
    pub name: Str,
    /// Whether requests for it are answered.
    pub served: bool,
    /// Group of this version, where a kind is served by two groups (`Event`); else the kind's own.
    pub group: Str,
    /// Its compiled schema.
    pub schema: Schema,
    /// Whether it can be written in protobuf.
    pub protobuf: bool,
    /// Subresources of this version.
    pub subresources: Vec<Subresource>,
    /// Fields that field selectors may name, beside `metadata.name` and `metadata.namespace`.
    pub selectable: Vec<SelectableField>,
    /// Whether field selectors may name `metadata.namespace`.
    pub namespace_selectable: bool,
    /// The error for other labels: `{}` stands for the label, `{q}` for the label in quotes.
    pub unsupported_label: Str,
    /// Columns of its Tables; empty means Name and Created At.
    pub columns: Vec<Column>,
    /// A warning that each request for it gets.
    pub deprecation: Option<Str>,
    /// What no schema can say of a write in this version.
    pub hooks: &'static dyn Hooks,
}

impl KindVersion {
    /// Group, version and kind of an object in this version.
    pub fn gvk(&self, kind: &Kind) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.name.clone(), kind: kind.kind.clone() }
    }

    /// The error for a field selector that names `label`, which is none that can be selected.
    pub fn unsupported(&self, label: &str) -> String {
        let quoted = pintle_meta::field::quoted(label);
        self.unsupported_label.replace("{q}", &quoted).replace("{}", label)
    }

    /// The subresource of this name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }
}

/// What can be done, one bit a verb.
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
    /// Kind of what it reads and writes.
    pub gvk: GroupVersionKind,
    /// What can be done with it.
    pub verbs: Verbs,
    /// For `scale`: where replicas and the selector are.
    pub scale: Option<ScalePaths>,
}

/// Where the `scale` subresource finds its numbers, as field names from the object's root.
#[derive(Clone, Debug, Default)]
pub struct ScalePaths {
    /// `spec.replicas`
    pub spec_replicas: Vec<Str>,
    /// `status.replicas`
    pub status_replicas: Vec<Str>,
    /// Where the selector is, if there is one: text, or in built-in kinds a label selector or a map of labels
    pub label_selector: Vec<Str>,
}

/// The error of kinds that know no label but `metadata.name` and `metadata.namespace`.
pub const UNSUPPORTED_LABEL: &str =
    r#"{q} is not a known field selector: only "metadata.name", "metadata.namespace""#;

/// A field that field selectors may name.
#[derive(Clone, Debug)]
pub struct SelectableField {
    /// The name in selectors: `status.phase`.
    pub label: Str,
    /// Where its value is in the stored version, as field names from the object's root. Empty: it is what
    /// `Hooks::selectable` says, or always "".
    pub path: Vec<Str>,
    /// What an unset field counts as ("" but for a few: `false` of booleans).
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
    /// 0 is always shown, others only in wide output.
    pub priority: i64,
    /// JSON path of the cell, for custom resources.
    pub path: Str,
}

/// Rules of update and deletion that differ from kind to kind.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// PUT of a missing object creates it.
    pub create_on_update: bool,
    /// An update need not name a resourceVersion.
    pub unconditional_update: bool,
    /// What `metadata.generation` does.
    pub generation: Generation,
    /// Deletion answers with the object, not with a `Status`.
    pub delete_returns_object: bool,
    /// Default propagation of a deletion is to orphan dependents (old kinds).
    pub orphan_by_default: bool,
    /// Dependents are not looked after at all (events): no finalizers for their sake.
    pub gc_unsupported: bool,
    /// The kind's definition is ending: no new objects are taken.
    pub ending: bool,
    /// An apply is refused if it changes anything or if nobody owns a field yet. So it is with the scale of custom
    /// resources: kube-apiserver takes what is no typed scale for a custom resource, and of another group at that.
    pub unappliable: bool,
}

/// What `metadata.generation` does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Generation {
    /// It is never set.
    #[default]
    Unset,
    /// It is 1 at first and counts changes of all but metadata and status.
    Counted,
    /// It is 1 and stays.
    Fixed,
    /// It is unset at first and counts changes.
    CountedFromZero,
}

impl Default for Rules {
    fn default() -> Self {
        Rules {
            create_on_update: false,
            unconditional_update: true,
            generation: Generation::Unset,
            delete_returns_object: false,
            orphan_by_default: false,
            gc_unsupported: false,
            ending: false,
            unappliable: false,
        }
    }
}
