//! Between an object in memory and the bytes of its store: form, then encryption, and back.

use super::{StoredForm, is_object_key};
use bytes::Bytes;
use pintle_cache::{mark_outdated, unreadable_value, untransformable_value};
use pintle_encrypt::{Encryption, TransformError};
use pintle_kinds::Kind;
use pintle_value::Str;
use std::collections::HashMap;
use std::sync::Arc;

/// Where the keys of all objects begin in this process. In etcd the prefix of the flag stands instead.
const PREFIX: &str = "/registry";

/// What every encrypted value begins with.
const SEALED: &[u8] = b"k8s:enc:";

/// How values are stored.
pub struct Codec {
    /// `None`: as they are in memory.
    form: Option<Arc<dyn StoredForm>>,
    encryption: Arc<Encryption>,
    /// Group and plural of the built-in resources, by where their objects are.
    resources: HashMap<Str, (Str, Str)>,
    /// What keys begin with in the store; some providers authenticate the whole key.
    prefix: String,
}

impl Codec {
    /// Values in `form` (`None`: as in memory) and encrypted. `prefix` is that of the store's keys.
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

    /// Whether values are stored as they are in memory.
    pub(super) fn is_identity(&self) -> bool {
        self.form.is_none() && self.encryption.is_plain()
    }

    /// Whether a stored value is the one in memory.
    pub(super) fn is_as_in_memory(&self, key: &str, stored: &[u8]) -> bool {
        !is_object_key(key) || self.is_identity() && !stored.starts_with(SEALED)
    }

    /// The bytes to store for an object in memory.
    pub fn encode(&self, key: &str, value: &Bytes) -> Result<Bytes, TransformError> {
        let formed = match &self.form {
            None => value.clone(),
            Some(form) => form.encode(key, value),
        };
        if !is_object_key(key) {
            return Ok(formed);
        }
        let (group, resource) = self.resource(key);
        self.encryption.seal(&group, &resource, &self.store_key(key), &formed)
    }

    /// The object in memory for stored bytes, be it one that cannot be read.
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

    /// Whether a stored value would be encrypted otherwise today.
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

    /// Group and plural of the resource that a key belongs to. Keys of custom resources name both.
    fn resource(&self, key: &str) -> (Str, Str) {
        let mut ends = key.match_indices('/').map(|(at, _)| at.saturating_add(1));
        let builtin = ends.find_map(|end| self.resources.get(key.get(..end)?));
        builtin.cloned().unwrap_or_else(|| {
            let mut parts = key.split('/').skip(2).map(Str::from);
            (parts.next().unwrap_or_default(), parts.next().unwrap_or_default())
        })
    }
}
