//! The last step of a write: stores the object, or answers as if it were stored.

use super::{Live, Outcome, WriteRequest, Written};
use crate::object::Form;
use crate::propose::Change;
use crate::status::write_error;
use crate::{Target, Writer, metadata, object};
use bytes::Bytes;
use pintle_cache::Object;
use pintle_meta::Status;
use pintle_store::{Expect, Revision, Write, WriteError};
use pintle_value::{Str, Value};
use std::sync::Arc;

impl Writer {
    /// Handles a create whose name is taken: a generated name is drawn again, a given one is refused.
    fn name_taken(&self, target: &Target, candidate: &Value, generated: bool) -> Result<Outcome, Status> {
        let resource = target.group_resource();
        if !candidate.str_at(&["metadata", "generateName"]).is_empty() {
            let status = Status::generate_name_conflict(&resource, &target.name, 1);
            return if generated { Ok(Outcome::NameTaken(status)) } else { Err(status) };
        }
        let mut status = Status::already_exists(&resource, &target.name);
        if self.reader.live(target).ok().flatten().is_some_and(|live| metadata::is_deleting(&live.tree)) {
            status.message = format!("object is being deleted: {}", status.message);
        }
        Err(status)
    }

    /// Stores a new object.
    pub(super) async fn commit_create(
        &self,
        request: &WriteRequest,
        mut candidate: Value,
        generated: bool,
        extra_writes: Vec<Write>,
    ) -> Result<Outcome, Status> {
        let name = Str::from(candidate.str_at(&["metadata", "name"]));
        let target = request.target.named(&name);
        candidate.remove_at(&["metadata", "selfLink"]);
        let revision = candidate.remove_at(&["metadata", "resourceVersion"]);
        // A resourceVersion that is not a number counts as absent.
        let number = |text: &str| text.parse::<u64>().ok().filter(|n| *n != 0 && !text.starts_with('+'));
        let text = revision.as_ref().and_then(Value::as_str).unwrap_or_default();
        let named = number(text);
        // The storage layer refuses it, unless the request may also update. A dry run does not reach that layer and
        // returns the resourceVersion that it was sent.
        if named.is_some() && !request.dry_run && matches!(request.change, Change::Create(_)) {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Status::unclassified(why));
        }
        if request.dry_run {
            if self.storage.cached(&target.kind, &target.object_key()).is_some() {
                return self.name_taken(&target, &candidate, generated);
            }
            let revision = named.filter(|revision| revision.to_string() == text);
            let encoded = match revision {
                None if !text.is_empty() => object::encode_with_version(&target.kind, &candidate, text),
                _ => object::encode(&target.kind, &candidate),
            };
            let object =
                object::unstored_in(&target, &encoded, &candidate, revision.unwrap_or(0), form_of(request))?;
            return Ok(written(object, true, false));
        }
        let encoded = object::encode(&target.kind, &candidate);
        let own = target.store_key();
        let _span = pintle_trace::span("Create etcd3");
        match self.put(request, &target, Expect::Absent, encoded, &mut candidate, extra_writes).await {
            Ok(object) => Ok(written(object, true, true)),
            Err(WriteError::Conflict { key, .. })
                if key != own || !matches!(request.change, Change::Create(_)) =>
            {
                Ok(Outcome::Conflict)
            }
            Err(WriteError::Conflict { .. }) => self.name_taken(&target, &candidate, generated),
            Err(error) => Ok(Outcome::NotStored(write_error(error))),
        }
    }

    /// Stores `encoded`, the encoded form of `candidate`. If it is too large, it is stored without managedFields, which
    /// only appliers need.
    async fn put(
        &self,
        request: &WriteRequest,
        target: &Target,
        expect: Expect,
        encoded: Bytes,
        candidate: &mut Value,
        extra_writes: Vec<Write>,
    ) -> Result<Arc<Object>, WriteError> {
        let form = form_of(request);
        let write = Write::put(target.store_key(), expect, encoded);
        match self.storage.commit_with(target, write, candidate, form, extra_writes.clone()).await {
            Err(WriteError::TooLarge { .. }) if !matches!(request.change, Change::Apply { .. }) => {
                candidate.remove_at(&["metadata", "managedFields"]);
                let encoded = object::encode(&target.kind, candidate);
                let write = Write::put(target.store_key(), expect, encoded);
                self.storage.commit_with(target, write, candidate, form, extra_writes).await
            }
            outcome => outcome,
        }
    }

    /// Stores a changed object, or removes it if the change completes its deletion.
    pub(super) async fn commit_update(
        &self,
        request: &WriteRequest,
        live: Live,
        mut candidate: Value,
        extra_writes: Vec<Write>,
    ) -> Result<Outcome, Status> {
        let target = &request.target;
        let removes =
            metadata::completes_deletion(&candidate, &live.tree) && target.kind.hooks.may_remove(&candidate);
        candidate.remove_at(&["metadata", "resourceVersion"]);
        // `selfLink` is never stored, but a dry run returns it, because it does not reach the store.
        let link = candidate.at(&["metadata", "selfLink"]).cloned();
        let shows_link = request.dry_run && link.is_some_and(|link| link.as_str() != Some(""));
        if !shows_link {
            candidate.remove_at(&["metadata", "selfLink"]);
        }
        let encoded = object::encode(&target.kind, &candidate);
        let is_same = encoded == *live.object.value() && !removes;
        if is_same && !self.storage.store.is_outdated(&target.store_key()).await {
            let object = live.object;
            return Ok(written(object, false, false));
        }
        if request.dry_run {
            let object =
                object::unstored_in(target, &encoded, &candidate, live.object.revision(), form_of(request))?;
            return Ok(written(object, false, false));
        }
        let expect = Expect::Revision(Revision(live.object.revision()));
        let _span = pintle_trace::span("GuaranteedUpdate etcd3");
        let committed = if removes {
            // The client expects the object that it wrote, at the revision that it knew.
            let last =
                object::unstored_in(target, &encoded, &candidate, live.object.revision(), form_of(request))?;
            self.erase(target, expect, &live.tree).await.map(|_| last)
        } else {
            self.put(request, target, expect, encoded, &mut candidate, extra_writes).await
        };
        match committed {
            Ok(object) => Ok(written(object, false, true)),
            Err(WriteError::Conflict { .. }) => Ok(Outcome::Conflict),
            Err(error) => Ok(Outcome::NotStored(write_error(error))),
        }
    }
}

/// The form of the object that a request writes. kube-apiserver decodes what it has stored before it answers; here, that
/// is done for custom resources that are written through a version that may not be the stored one, applied (which retains
/// unknown fields) or scaled (which may create objects without their defaults).
fn form_of(request: &WriteRequest) -> Form {
    let kind = &request.target.kind;
    let converts = kind.versions.len() > 1;
    let changes_values =
        request.target.subresource == "scale" || matches!(request.change, Change::Apply { .. });
    if kind.storage_version().schema.validates_objects() && (converts || changes_values) {
        Form::Undecoded
    } else {
        Form::Decoded
    }
}

fn written(object: Arc<Object>, created: bool, committed: bool) -> Outcome {
    Outcome::Written(Written { object, created, warnings: Vec::new(), committed })
}
