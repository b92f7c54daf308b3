//! The form in which a store holds objects, and the conversion between it and the form in memory.
//!
//! In memory an object is its JSON in the storage version (`pintle_cache::value_header`, then the JSON). The embedded
//! store holds the same bytes. etcd holds the format of kube-apiserver ([`KubernetesForm`]), so that both servers can
//! share it. [`FormStore`] converts between the two: code above it sees the form in memory, whichever store is used.
//! A [`Codec`] also encrypts and decrypts the resources that `--encryption-provider-config` names. A value that
//! cannot be read becomes an unreadable object, never an error of the whole resource.

mod codec;
mod definition;
mod kubernetes;
mod member;
pub(crate) mod range;
mod store;
#[cfg(test)]
mod tests;
mod versions;

pub use codec::Codec;
pub use kubernetes::{KubernetesForm, StorageMediaType};
pub use member::{IDENTITY_LABEL, MASTER_LEASES, PEER_LEASES};
pub use store::FormStore;
pub use versions::{decodable_versions, encoding_version};

use bytes::Bytes;
use pintle_value::Value;

/// The format of values in a store. Implementations are pure: the same input gives the same bytes.
pub trait StoredForm: Send + Sync {
    /// The bytes to store for an object in memory. `key` says which resource it belongs to; `tree` is the same object, if
    /// the caller has it, and saves parsing `value`.
    fn encode(&self, key: &str, value: &Bytes, tree: Option<&Value>) -> Bytes;

    /// The object in memory for stored bytes.
    fn decode(&self, key: &str, stored: &Bytes) -> Result<Bytes, Unreadable>;
}

/// The reason why a stored value cannot be read, with kube-apiserver's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unreadable(pub String);

/// Returns whether a key holds an API object. Other keys (allocation ranges, the leases of servers, the compaction
/// protocol) have formats of their own, which are neither converted nor encrypted.
pub fn is_object_key(key: &str) -> bool {
    let Some(path) = key.strip_prefix("/registry/") else { return false };
    !["ranges/", "masterleases/", "peerserverleases/"].iter().any(|folder| path.starts_with(folder))
}
