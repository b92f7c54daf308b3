//! Encodes objects in memory as stored bytes (storage format, then encryption) and decodes them.

use super::{StoredForm, is_object_key};
use bytes::Bytes;
use pintle_cache::{mark_outdated, unreadable_value, untransformable_value};
use pintle_encrypt::{Encryption, TransformError};
use pintle_kinds::Kind;
use pintle_value::{Str, Value};
use std::collections::HashMap;
use std::sync::Arc;

/// The prefix of all object keys in this process. In etcd, the value of `--etcd-prefix` replaces it.
const PREFIX: &str = "/registry";

/// The prefix of every encrypted value.
const SEALED: &[u8] = b"k8s:enc:";

/// Encodes and encrypts values for the store, and decodes them.
pub struct Codec {
    /// `None` if values are stored as they are in memory.
    form: Option<Arc<dyn StoredForm>>,
    encryption: Arc<Encryption>,
    /// Group and plural of the built-in resources, by the prefix of their keys.
    resources: HashMap<Str, (Str, Str)>,
    /// The prefix of keys in the store. Some providers authenticate the whole key.
    prefix: String,
}

impl Codec {
    /// A codec that stores values in `form` (`None`: as in memory) and encrypts them. `prefix` is the prefix of the
    /// store's keys.
    pub fn new<'k>(
        form: Option<Arc<dyn StoredForm>>,
        encryption: Arc<Encryption>,
        builtin: impl Iterator<Item = &'k Kind>,
        prefix: &str,
    ) -> Codec {
        let resources = builtin
            .map(|kind| (kind.store_prefix.clone(), (kind.group.clone(), kind.plural.clone())))
            .collect();
        Codec { form, encryption, resources, prefix: prefix.to_string() }
    }

    /// Returns whether values are stored in their form in memory.
    pub(super) fn is_identity(&self) -> bool {
        self.form.is_none() && self.encryption.is_plain()
    }

    /// Returns whether a stored value equals its form in memory.
    pub(super) fn is_as_in_memory(&self, key: &str, stored: &[u8]) -> bool {
        !is_object_key(key) || self.is_identity() && !stored.starts_with(SEALED)
    }

    /// The bytes to store for an object in memory. `tree` is the same object, if the caller has it.
    pub fn encode(&self, key: &str, value: &Bytes, tree: Option<&Value>) -> Result<Bytes, TransformError> {
        let formed = match &self.form {
            None => value.clone(),
            Some(form) => form.encode(key, value, tree),
        };
        if !is_object_key(key) || self.encryption.is_plain() {
            return Ok(formed);
        }
        let (group, resource) = self.resource(key);
        self.encryption.seal(&group, &resource, &self.store_key(key), &formed)
    }

    /// Decodes stored bytes. An undecodable value becomes an object that carries its error.
    pub fn decode(&self, key: &str, stored: &Bytes) -> Bytes {
        if self.is_as_in_memory(key, stored) {
            return stored.clone();
        }
        let (group, resource) = self.resource(key);
        let opened = match self.encryption.open(&group, &resource, &self.store_key(key), stored) {
            Ok(opened) => opened,
            Err(why) => return untransformable_value(&why.0),
        };
        let decoded = match &self.form {
            None => Ok(opened.value),
            Some(form) => form.decode(key, &opened.value),
        };
        match decoded {
            Ok(value) if opened.outdated => mark_outdated(value),
            Ok(value) => value,
            Err(why) => unreadable_value(&why.0),
        }
    }

    /// Returns whether a stored value would now be encrypted with another key or provider.
    pub(super) fn is_outdated(&self, key: &str, stored: &[u8]) -> bool {
        let (group, resource) = self.resource(key);
        is_object_key(key) && self.encryption.is_outdated(&group, &resource, stored)
    }

    /// Whether some values are encrypted.
    pub(super) fn encrypts(&self) -> bool {
        !self.encryption.is_plain()
    }

    fn store_key(&self, key: &str) -> String {
        format!("{}{}", self.prefix, key.strip_prefix(PREFIX).unwrap_or(key))
    }

    /// Group and plural of the resource that a key belongs to. Keys of custom resources contain both.
    fn resource(&self, key: &str) -> (Str, Str) {
        let mut ends = key.match_indices('/').map(|(at, _)| at.saturating_add(1));
        let builtin = ends.find_map(|end| self.resources.get(key.get(..end)?));
        builtin.cloned().unwrap_or_else(|| {
            let mut parts = key.split('/').skip(2).map(Str::from);
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
        })
    }
}
