//! The keys that servers on one etcd publish for each other: `masterleases/<address>` and
//! `peerserverleases/<identity>`.
//!
//! As in kube-apiserver these are Endpoints without a name, each under an etcd lease. They are not API objects: no
//! client can list or watch them.

use super::{Unreadable, kubernetes};
use crate::retry::Attempts;
use crate::{Storage, object};
use pintle_kinds::Kind;
use pintle_meta::Status;
use pintle_schema::proto;
use pintle_store::{Entry, Expect, Write, WriteError};
use pintle_value::Value;
use std::sync::Arc;
use std::time::Duration;

/// The prefix of the leases in which servers publish their address for the service `kubernetes`.
pub const MASTER_LEASES: &str = "/registry/masterleases/";
/// The prefix of the leases in which servers publish their address for their peers.
pub const PEER_LEASES: &str = "/registry/peerserverleases/";

/// The label with the identity of the server that wrote a lease for its peers.
pub const IDENTITY_LABEL: &str = "apiserverIdentity";

/// How often a renewal is retried after conflicts with other writes.
const ATTEMPTS_MAX: usize = 8;

/// Returns whether a key is that of a server's lease.
pub(super) fn is_member_key(key: &str) -> bool {
    [MASTER_LEASES, PEER_LEASES].iter().any(|folder| key.starts_with(folder))
}

impl Storage {
    /// Writes `endpoints` under `key` with a time to live. The generation increases with each write, as in
    /// kube-apiserver, so that successive values differ.
    pub async fn renew_member(&self, key: &str, endpoints: &Value, ttl: Duration) -> Result<(), Status> {
        let Some(kind) = self.endpoints_kind() else { return Ok(()) };
        let mut attempts = Attempts::new(ATTEMPTS_MAX);
        loop {
            let existing = self.store.snapshot_state().get(key).cloned();
            let generation = |entry: &Entry| {
                decode(&kind, &entry.value).ok()?.at(&["metadata", "generation"]).and_then(Value::as_int)
            };
            let generation = existing.as_ref().and_then(generation).unwrap_or(0);
            let mut tree = endpoints.clone();
            tree.set_at(&["metadata", "generation"], generation.saturating_add(1).into());
            let expect = existing.map_or(Expect::Absent, |entry| Expect::Revision(entry.modified));
            let write = Write::put(key, expect, object::encode(&kind, &tree)).with_ttl(Some(ttl));
            match self.store.write(write).await {
                Ok(_) => return Ok(()),
                Err(WriteError::Conflict { .. }) => {
                    attempts.again(|| Status::internal(&format!("{key} is being modified")))?;
                }
                Err(error) => return Err(crate::status::write_error(error)),
            }
        }
    }

    /// Removes this server's value under `key`. A missing value is not an error.
    pub async fn remove_member(&self, key: &str) -> Result<(), Status> {
        self.try_write(Write::delete(key, Expect::Any)).await.map(drop)
    }

    /// The addresses that live servers have written under `folder`, in the order of their keys.
    pub fn member_addresses(&self, folder: &str) -> Vec<String> {
        let Some(kind) = self.endpoints_kind() else { return Vec::new() };
        let state = self.store.snapshot_state();
        let members = state.prefix(folder);
        let read = members.filter_map(|(_, entry)| decode(&kind, &entry.value).ok());
        let address = |endpoints: Value| {
            let subset = endpoints.items_at(&["subsets"]).first()?;
            let address = subset.items_at(&["addresses"]).first()?.str_at(&["ip"]);
            Some(address.to_owned()).filter(|address| !address.is_empty())
        };
        read.filter_map(address).collect()
    }

    /// Host and port that the server with this identity has written under `folder`.
    pub fn member_endpoint(&self, folder: &str, identity: &str) -> Option<(String, u16)> {
        let kind = self.endpoints_kind()?;
        let state = self.store.snapshot_state();
        let mut members = state.prefix(folder).filter_map(|(_, entry)| decode(&kind, &entry.value).ok());
        let is_member =
            |endpoints: &Value| endpoints.str_at(&["metadata", "labels", IDENTITY_LABEL]) == identity;
        let endpoints = members.find(is_member)?;
        let subset = endpoints.items_at(&["subsets"]).first()?;
        let address = subset.items_at(&["addresses"]).first()?.str_at(&["ip"]);
        let port = subset.items_at(&["ports"]).first()?.get("port").and_then(Value::as_int)?;
        Some((address.to_owned(), u16::try_from(port).ok()?))
    }

    fn endpoints_kind(&self) -> Option<Arc<Kind>> {
        Some(self.registry.kinds().resource("", "v1", "endpoints")?.0)
    }
}

/// Decodes a stored value in any encoding.
fn decode(kind: &Kind, stored: &[u8]) -> Result<Value, Unreadable> {
    if !stored.starts_with(proto::MAGIC) {
        return kubernetes::parse_text(stored);
    }
    let unreadable = |error: proto::ProtoError| Unreadable(error.to_string());
    let envelope = proto::open(stored).map_err(unreadable)?;
    proto::decode(&kind.storage_version().schema, &envelope).map_err(unreadable)
}
