//! Conversion of objects between the versions of a kind: within the server, or by the webhook that the kind's
//! definition names.
//!
//! A webhook call is asynchronous. Synchronous code uses conversions that were made earlier: they are cached beside
//! the object (`prepare`, then `tree_in`), or in `Conversions`, which records the missing ones so that the code can
//! run again once they are made.

mod in_flight_conversions;
mod limits;
mod metrics;
mod review;

pub(crate) use in_flight_conversions::InFlightConversions;

use crate::unreadable::Faults;
use crate::{Reader, Target, object};
use bytes::Bytes;
use limits::{batches, check_converted, shortened};
use metrics::Failure;
use pintle_cache::Object;
use pintle_kinds::Kind;
use pintle_kinds::endpoint::Conversion;
use pintle_meta::{GroupVersionKind, Status};
use pintle_schema::{structural, typed};
use pintle_value::{Value, json};
use pintle_webhook::CallError;
use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The time limit of a call to a conversion webhook.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Go's client appends this to an error when its own time-out ended the request.
const LATE: &str = " (Client.Timeout exceeded while awaiting headers)";

impl Reader {
    /// Converts `tree`, in any version of the kind, to the version with index `to`.
    pub(crate) async fn convert(&self, kind: &Kind, tree: Value, to: usize) -> Result<Value, Status> {
        let mut made = self.convert_as_is(kind, tree, to).await?;
        if kind.conversion.is_some() {
            object::coerce(kind, &mut made, to);
        }
        Ok(made)
    }

    /// Like `convert`, but retains fields that the version's schema does not have.
    async fn convert_as_is(&self, kind: &Kind, mut tree: Value, to: usize) -> Result<Value, Status> {
        let from = version_of(kind, &tree);
        let Some(conversion) = kind.conversion.as_ref().filter(|_| from != to) else {
            object::convert(kind, &mut tree, from, to);
            return Ok(tree);
        };
        let made = self.call_webhook(kind, conversion, vec![tree], to).await;
        let made = made.map_err(|(_, why)| Status::unclassified(why))?;
        made.into_iter().next().ok_or_else(|| Status::internal("a conversion has no outcome"))
    }

    /// Converts these objects ahead, so that `tree_in` can return them in the version of the request. Returns the error
    /// of the first object that cannot be converted.
    pub async fn prepare(&self, target: &Target, objects: &[Arc<Object>]) -> Result<(), Status> {
        match self.convert_all(target, objects).await.into_first() {
            None => Ok(()),
            Some(fault) => Err(self.unreadable_error(target, &fault.object, &fault.why)),
        }
    }

    /// Like `prepare`, for callers that report unconvertible objects in another way.
    pub(crate) async fn convert_all(&self, target: &Target, objects: &[Arc<Object>]) -> Faults {
        let mut faults = Faults::default();
        for object in objects {
            if let Some(why) = object.unreadable()
                && faults.add(object, why)
            {
                return faults;
            }
        }
        let Some(conversion) = &target.kind.conversion else { return faults };
        let due: Vec<&Arc<Object>> = objects
            .iter()
            .filter(|object| object.unreadable().is_none() && self.needs_webhook(target, object))
            .collect();
        for batch in batches(&due, |object| object.json().len()) {
            match self.convert_batch(target, conversion, batch).await {
                Ok(()) => {}
                // If the webhook cannot be reached, do not retry it for each object.
                Err((Failure::Call, why)) => _ = batch.iter().any(|object| faults.add(object, &why)),
                Err(_) => self.convert_singly(target, conversion, batch, &mut faults).await,
            }
            if faults.is_full() {
                break;
            }
        }
        faults
    }

    /// Returns the object without its cached conversion, so that `prepare` calls the webhook again.
    pub(crate) fn unconverted(&self, target: &Target, object: Arc<Object>) -> Arc<Object> {
        match target.kind.conversion {
            Some(_) if stored_version(&target.kind, &object) != target.version => {
                Arc::new(object.without_encodings())
            }
            _ => object,
        }
    }

    /// Returns whether the object needs a webhook conversion before it can be returned.
    fn needs_webhook(&self, target: &Target, object: &Object) -> bool {
        target.kind.conversion.is_some()
            && stored_version(&target.kind, object) != target.version
            && object.converted(slot(target.version)).is_none()
    }

    async fn convert_batch(
        &self,
        target: &Target,
        conversion: &Conversion,
        batch: &[&Arc<Object>],
    ) -> Result<(), (Failure, String)> {
        let trees =
            batch.iter().map(|object| object::tree(&target.kind, object)).collect::<Result<Vec<_>, _>>();
        let trees = trees.map_err(|status| (Failure::Invalid, status.message))?;
        let made = self.call_webhook(&target.kind, conversion, trees, target.version).await?;
        for (object, mut tree) in batch.iter().zip(made) {
            tree.remove_at(&["metadata", "resourceVersion"]);
            object::coerce(&target.kind, &mut tree, target.version);
            let out = json::bytes(&tree);
            check_converted(&out).map_err(|why| (Failure::Invalid, why))?;
            object.cache_converted(slot(target.version), out.into());
        }
        Ok(())
    }

    /// Converts objects one by one to find those that cannot be converted.
    async fn convert_singly(
        &self,
        target: &Target,
        conversion: &Conversion,
        batch: &[&Arc<Object>],
        faults: &mut Faults,
    ) {
        for object in batch {
            if let Err((_, why)) = self.convert_batch(target, conversion, std::slice::from_ref(object)).await
                && (faults.add(object, &why) || !self.unsafe_deletion)
            {
                return;
            }
        }
    }

    /// Returns whether the stored bytes can be sent as they are in answers of this target, with only the
    /// resourceVersion added.
    pub fn can_send_stored_bytes(&self, target: &Target) -> bool {
        target.version == target.kind.storage && target.kind.conversion.is_none()
    }

    /// Returns an object as a tree in the version of the request, with this resourceVersion (0: none). Objects that a
    /// webhook converts must have been passed to `prepare` first.
    pub fn tree_in(&self, target: &Target, object: &Object, revision: u64) -> Result<Value, Status> {
        let converted = match target.kind.conversion {
            Some(_) if stored_version(&target.kind, object) != target.version => {
                let found = object.converted(slot(target.version));
                Some(found.ok_or_else(|| Status::internal("an object is encoded before it is converted"))?)
            }
            _ => None,
        };
        let mut tree = match converted {
            Some(bytes) => json::parse(&bytes)
                .map(|parsed| parsed.value)
                .map_err(|e| Status::internal(&e.to_string()))?,
            None => object::tree(&target.kind, object)?,
        };
        match revision {
            0 => _ = tree.remove_at(&["metadata", "resourceVersion"]),
            _ => tree.set_at(&["metadata", "resourceVersion"], revision.to_string().into()),
        }
        if target.kind.conversion.is_none() {
            object::convert(&target.kind, &mut tree, target.kind.storage, target.version);
        }
        Ok(tree)
    }

    /// Converts `tree` from the version that writes work in to the version of the request.
    pub(crate) fn to_request_version<'t>(&self, target: &Target, tree: &'t Value) -> Cow<'t, Value> {
        let (from, to) = (target.working(), target.version);
        if from == to {
            return Cow::Borrowed(tree);
        }
        let mut out = tree.clone();
        object::convert(&target.kind, &mut out, from, to);
        Cow::Owned(out)
    }

    /// Converts `tree` from the version that writes work in to the stored form. The stored version's defaults are
    /// applied, because its readers expect them.
    pub(crate) async fn to_storage(&self, target: &Target, tree: Value) -> Result<Value, Status> {
        let schema = &target.kind.storage_version().schema;
        if target.working() == target.kind.storage {
            let mut tree = tree;
            // A create removes the status, and readers see its default.
            if schema.validates_objects() {
                structural::default_field(schema.arena(), schema.root(), "status", &mut tree)
                    .map_err(|error| Status::entity_too_large(&error.to_string()))?;
            }
            return Ok(tree);
        }
        let mut tree = self.convert(&target.kind, tree, target.kind.storage).await?;
        structural::default(schema.arena(), schema.root(), &mut tree)
            .map_err(|error| Status::entity_too_large(&error.to_string()))?;
        Ok(tree)
    }

    /// Calls the conversion webhook for `trees`, none of which is in the version `to` yet.
    async fn call_webhook(
        &self,
        kind: &Kind,
        conversion: &Conversion,
        trees: Vec<Value>,
        to: usize,
    ) -> Result<Vec<Value>, (Failure, String)> {
        let began = Instant::now();
        let from = trees.first().map(|tree| version_of(kind, tree)).unwrap_or(kind.storage);
        let outcome = self.send_review(kind, conversion, &trees, from, to).await;
        let failure = outcome.as_ref().err().map(|(failure, _)| *failure);
        metrics::observe(kind, from, to, failure, began.elapsed());
        outcome
    }

    async fn send_review(
        &self,
        kind: &Kind,
        conversion: &Conversion,
        trees: &[Value],
        from: usize,
        to: usize,
    ) -> Result<Vec<Value>, (Failure, String)> {
        let names = |at: usize| kind.versions.get(at).map(|v| v.gvk(kind)).unwrap_or_default();
        let kind_text = gvk_text(&names(from));
        let uid = crate::environment::new_uid(&*self.storage.random);
        let desired = names(to).group_version().to_string();
        let Some(version) = review::version(&conversion.review_versions) else {
            return Err((Failure::Call, "no supported conversion review versions".to_string()));
        };
        let body = review::request(version, &uid, &desired, trees);
        let answer = self
            .webhooks
            .call(&*self.storage, &conversion.endpoint, Bytes::from(body), TIMEOUT.into())
            .await
            .inspect_err(crate::answer::audit_flaw)
            .map_err(|error| {
                let limit = if matches!(error, CallError::Late { .. }) { LATE } else { "" };
                (Failure::Call, format!("conversion webhook for {kind_text} failed: {error}{limit}"))
            })?;
        let objects = review::objects(version, &uid, &answer).map_err(|error| {
            let failure = if error.is_undecodable { Failure::Call } else { Failure::Malformed };
            (failure, format!("conversion webhook for {kind_text} failed: {}", shortened(error.why)))
        })?;
        if objects.len() != trees.len() {
            let why = format!(
                "conversion webhook for {kind_text} returned {} objects, expected {}",
                objects.len(),
                trees.len()
            );
            return Err((Failure::Partial, why));
        }
        let pairs = trees.iter().zip(objects).enumerate();
        pairs
            .map(|(index, (original, converted))| {
                let place = review::Place { kind: &kind_text, index, in_list: trees.len() > 1 };
                let accepted = review::accept(original, converted, &names(to), &place);
                accepted.map_err(|why| (Failure::Invalid, shortened(why)))
            })
            .collect()
    }
}

/// A kind as Go prints it.
fn gvk_text(gvk: &GroupVersionKind) -> String {
    format!("{}, Kind={}", gvk.group_version(), gvk.kind)
}

/// The index of a tree's version among the versions of its kind.
pub(crate) fn version_of(kind: &Kind, tree: &Value) -> usize {
    let own = tree.str_at(&["apiVersion"]);
    let is_own = |v: &pintle_kinds::KindVersion| crate::decode::api_version(&v.group, &v.name) == own;
    kind.versions.iter().position(is_own).unwrap_or(kind.storage)
}

/// The index of the version that an object is stored in. Objects that a webhook converts stay in the version in which
/// they were written; all others are in the storage version.
fn stored_version(kind: &Kind, object: &Object) -> usize {
    if kind.conversion.is_none() {
        return kind.storage;
    }
    // Stored members are sorted, so apiVersion comes first.
    let Some(rest) = object.json().strip_prefix(b"{\"apiVersion\":\"") else { return kind.storage };
    let text = rest.split(|byte| *byte == b'"').next().unwrap_or_default();
    let is_own = |v: &pintle_kinds::KindVersion| {
        crate::decode::api_version(&v.group, &v.name).as_str().as_bytes() == text
    };
    kind.versions.iter().position(is_own).unwrap_or(kind.storage)
}

fn slot(version: usize) -> u16 {
    u16::try_from(version).unwrap_or(u16::MAX)
}

/// Collects the conversions that synchronous code needs, so that an async caller can make them and run it again.
#[derive(Default)]
pub(crate) struct Conversions {
    made: Vec<(Value, usize, Result<Value, String>)>,
    wanted: RefCell<Vec<(Value, usize)>>,
}

/// The maximum number of times that synchronous code is run again with the conversions that it recorded as missing.
const ROUNDS_MAX: usize = 16;

impl Conversions {
    /// Returns `tree` in the version `to` if that conversion has been made; otherwise records that it is needed.
    pub(crate) fn get(&self, kind: &Kind, tree: &Value, to: usize) -> Result<Value, String> {
        let from = version_of(kind, tree);
        if from == to || kind.conversion.is_none() {
            let mut out = tree.clone();
            if kind.storage_version().schema.converts_through_internal_version() {
                // Built-in kinds only convert to and from the storage version.
                object::convert(kind, &mut out, from, kind.storage);
                object::convert(kind, &mut out, kind.storage, to);
                // The fields that Go always writes are there again, even if the object was pruned before.
                if let Some(version) = kind.versions.get(to).filter(|_| from != to) {
                    typed::normalize(&version.schema, &mut out);
                }
            } else {
                object::relabel(kind, &mut out, to);
            }
            return Ok(out);
        }
        if let Some((_, _, made)) =
            self.made.iter().find(|(source, version, _)| *version == to && source == tree)
        {
            return made.clone();
        }
        self.wanted.borrow_mut().push((tree.clone(), to));
        Err("the conversion is under way".to_string())
    }

    /// Makes the conversions that were recorded as missing. Returns false if there were none.
    pub(crate) async fn make(&mut self, reader: &Reader, kind: &Kind) -> bool {
        let wanted = std::mem::take(self.wanted.get_mut());
        if wanted.is_empty() || self.made.len() > ROUNDS_MAX {
            return false;
        }
        for (tree, to) in wanted {
            let made = reader.convert_as_is(kind, tree.clone(), to).await.map_err(|status| status.message);
            self.made.push((tree, to, made));
        }
        true
    }
}
