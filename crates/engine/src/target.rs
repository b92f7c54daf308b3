//! The target of a request: a kind in a version, and possibly a namespace, a name and a subresource.

use pintle_cache::Object;
use pintle_kinds::{Kind, KindVersion, Scope};
use pintle_meta::field::quoted;
use pintle_meta::{GroupKind, GroupResource, Status, names};
use pintle_value::Str;
use std::sync::Arc;

/// The target of a request.
#[derive(Clone)]
pub struct Target {
    /// The kind.
    pub kind: Arc<Kind>,
    /// The index of the version that the request uses.
    pub version: usize,
    /// Namespace; "" for cluster-scoped kinds and requests across all namespaces.
    pub namespace: Str,
    /// Name of the object; "" for requests about the collection.
    pub name: Str,
    /// Subresource; "" for the object itself.
    pub subresource: Str,
}

impl Target {
    /// The version that the request uses.
    #[expect(clippy::indexing_slicing, reason = "the registry only hands out positions of existing versions")]
    pub fn kind_version(&self) -> &KindVersion {
        &self.kind.versions[self.version]
    }

    /// The index of the version that a write works in, from the live object to validation: the version of the request,
    /// or for built-in kinds the storage version, which their hooks expect.
    pub fn working(&self) -> usize {
        if self.kind_version().schema.converts_through_internal_version() {
            self.kind.storage
        } else {
            self.version
        }
    }

    /// The version that a write works in.
    #[expect(clippy::indexing_slicing, reason = "both are positions of existing versions")]
    pub fn working_version(&self) -> &KindVersion {
        &self.kind.versions[self.working()]
    }

    /// Group and plural, as error messages name the resource.
    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.kind_version().group.clone(), resource: self.kind.plural.clone() }
    }

    /// Group and kind, as validation errors name them.
    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.kind_version().group.clone(), kind: self.kind.kind.clone() }
    }

    /// This target with the name `name`.
    pub fn named(&self, name: &str) -> Target {
        Target { name: name.into(), ..self.clone() }
    }

    /// A subresource of the same object.
    pub fn sub(&self, subresource: &str) -> Target {
        Target { subresource: subresource.into(), ..self.clone() }
    }

    /// The part of the object that a write changes. A scale is written into the object itself.
    pub fn scope(&self) -> Scope<'_> {
        if matches!(self.subresource.as_str(), "" | "scale") {
            Scope::Main
        } else {
            Scope::Sub(&self.subresource)
        }
    }

    /// Refuses a name and a namespace that cannot be parts of a store key.
    pub(crate) fn check_path_name(&self) -> Result<(), Status> {
        if self.kind.namespaced && self.namespace.is_empty() {
            return Err(Status::bad_request("Namespace parameter required."));
        }
        if self.name.is_empty() {
            return Err(Status::bad_request("Name parameter required."));
        }
        let faults = names::path_segment_name(&self.name, false);
        if !faults.is_empty() {
            let why = format!("Name parameter invalid: {}: {}", quoted(&self.name), faults.join(";"));
            return Err(Status::bad_request(why));
        }
        // kube-apiserver checks names, but leaves namespaces to its storage layer.
        if self.kind.namespaced && matches!(self.namespace.as_str(), "." | "..") {
            return Err(Status::unclassified(format!("invalid key: {}", quoted(&self.error_key(true)))));
        }
        Ok(())
    }

    /// The object's key within its resource: `namespace/name`, or `name` for cluster-scoped kinds.
    pub fn object_key(&self) -> Str {
        object_key(self.kind.namespaced, &self.namespace, &self.name)
    }

    /// The object's key for error messages. In dry runs it lacks the prefix of all keys, as in kube-apiserver.
    pub(crate) fn error_key(&self, dry_run: bool) -> String {
        let key = self.store_key();
        let prefix = if dry_run { "/registry" } else { "" };
        key.strip_prefix(prefix).unwrap_or(&key).to_string()
    }

    /// The key in the store of an object of this kind.
    pub(crate) fn key_of(&self, object: &Object) -> String {
        format!("{}{}", self.kind.store_prefix, object.key().as_str())
    }

    /// The object's key in the store.
    pub fn store_key(&self) -> Arc<str> {
        let (namespace, slash) = if self.kind.namespaced { (self.namespace.as_str(), "/") } else { ("", "") };
        Arc::from([&self.kind.store_prefix, namespace, slash, &self.name].concat())
    }
}

/// An object's key within its resource: `namespace/name`, or `name` for cluster-scoped kinds.
pub fn object_key(namespaced: bool, namespace: &str, name: &str) -> Str {
    if !namespaced {
        return name.into();
    }
    let mut key = Str::with_capacity(namespace.len().saturating_add(name.len()).saturating_add(1));
    key.push_str(namespace);
    key.push('/');
    key.push_str(name);
    key
}
