//! Deletes objects and collections: finalizers, grace periods, propagation, preconditions.

use crate::allocate::is_service;
use crate::read::ListRequest;
use crate::retry::{ATTEMPTS_MAX, Attempt, Attempts, too_many_conflicts};
use crate::unreadable::Fault;
use crate::write::Live;
use crate::{Target, Writer, measures, metadata, object, precondition};
use pintle_admission::{Attributes, Operation, Options};
use pintle_auth::UserInfo;
use pintle_cache::Object;
use pintle_meta::options::{DeleteOptions, Propagation};
use pintle_meta::{FieldErrors, GroupKind, Status, Timestamp};
use pintle_store::{BoxFuture, Expect, Revision, StoreFault, Write, WriteError};
use pintle_value::{Path, Value};
use std::borrow::Cow;
use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;
use std::time::Duration;

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";

/// How many objects a page of a collection has that is deleted.
const COLLECTION_PAGE: i64 = 10_000;

/// The result of a deletion.
pub enum Deleted {
    /// The object is deleted, and its kind answers with a `Status`.
    Status(Box<Status>),
    /// The object: its last state if it is deleted, or its current state while finalizers or grace hold it.
    Object {
        /// The object.
        object: Arc<Object>,
        /// Whether the object is gone.
        gone: bool,
    },
}

/// One deletion: the target, its options and the requester.
struct Deletion<'a> {
    target: &'a Target,
    options: &'a DeleteOptions,
    /// The requester; `None` if the deletion follows from a request that was admitted already.
    user: Option<&'a UserInfo>,
    /// Whether the object is deleted by a deletecollection request, which does not name it.
    in_collection: bool,
}

/// The next step of a deletion.
enum Step {
    /// Remove the object now.
    Remove,
    /// Store the object in this state; it waits for its finalizers or its grace period.
    Mark(Value),
    /// Store the object in this state first, then remove it at once.
    MarkAndRemove(Value),
    /// A deletion is already in progress; nothing changes.
    Pending,
}

impl Writer {
    /// Deletes one object, at once or in two phases. Warnings for the client are added to `warnings`, or returned with
    /// the error.
    pub async fn delete(
        &self,
        target: &Target,
        options: &DeleteOptions,
        user: &UserInfo,
        warnings: &mut Vec<String>,
    ) -> Result<Deleted, Status> {
        if let Some(why) = target.kind.hooks.deletion_refusal(&target.name) {
            return Err(Status::forbidden(&target.group_resource(), &target.name, why));
        }
        // kube-apiserver reads the object from etcd before each deletion, so wait for the latest revision.
        self.storage.catch_up(target).await?;
        let deletion = Deletion { target, options, user: Some(user), in_collection: false };
        let deleted = self.carry_out(&deletion, warnings).await;
        deleted.map_err(|status| status.with_warnings(std::mem::take(warnings)))
    }

    /// Deletes one object as part of a request that was admitted already: admission does not run again.
    pub(crate) async fn delete_admitted(
        &self,
        target: &Target,
        options: &DeleteOptions,
    ) -> Result<Deleted, Status> {
        let deletion = Deletion { target, options, user: None, in_collection: false };
        self.carry_out(&deletion, &mut Vec::new()).await
    }

    fn carry_out<'a>(
        &'a self,
        deletion: &'a Deletion<'_>,
        warnings: &'a mut Vec<String>,
    ) -> BoxFuture<'a, Result<Deleted, Status>> {
        Box::pin(async move {
            let target = deletion.target;
            let deleted = self.delete_with_retries(deletion, warnings).await;
            let revision = match &deleted {
                Ok(Deleted::Object { object, .. }) if !deletion.options.dry_run => Some(object.revision()),
                _ => None,
            };
            self.take_effect(target, &target.object_key(), revision).await;
            deleted
        })
    }

    async fn delete_with_retries(
        &self,
        deletion: &Deletion<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Deleted, Status> {
        let mut attempts = Attempts::new(ATTEMPTS_MAX);
        loop {
            match self.attempt_delete(deletion, warnings).await? {
                Attempt::Done(deleted) => return Ok(deleted),
                Attempt::Conflict => attempts.again(|| too_many_conflicts(deletion.target))?,
            }
        }
    }

    async fn attempt_delete(
        &self,
        deletion: &Deletion<'_>,
        warnings: &mut Vec<String>,
    ) -> Result<Attempt<Deleted>, Status> {
        let Deletion { target, options, .. } = *deletion;
        let reading = pintle_trace::span("cacher.Get");
        let live = self.reader.live(target)?;
        drop(reading);
        let Some(live) = live else {
            return Err(Status::not_found(&target.group_resource(), &target.name));
        };
        if let Some(preconditions) = &options.preconditions {
            let metadata = live.tree.get("metadata").unwrap_or(&Value::Null);
            if target.kind.hooks.ends_in_two_phases() {
                preconditions.check_two_phased(&target.group_resource(), metadata)?
            } else {
                // Events have the group of their internal type, whichever group serves them.
                preconditions.check(
                    &GroupKind { group: target.kind.group.clone(), kind: target.kind.kind.clone() },
                    metadata,
                )?
            }
        }
        let step = self.next_step(target, &live.tree, options);
        if matches!(step, Step::Pending) {
            return Ok(Attempt::Done(pending(target, live)));
        }
        let live = Live { object: self.reader.unconverted(target, live.object), tree: live.tree };
        self.reader.prepare(target, std::slice::from_ref(&live.object)).await?;
        let old = if target.working() == target.kind.storage && target.kind.conversion.is_none() {
            Cow::Borrowed(&live.tree)
        } else {
            Cow::Owned(self.reader.tree_in(target, &live.object, live.object.revision())?)
        };
        let effective = self.effective_options(deletion, &live.tree);
        self.admit_deletion(deletion, &effective, &old, warnings).await?;
        drop(old);
        match step {
            Step::Pending => Ok(Attempt::Done(pending(target, live))),
            Step::Mark(marked) => self.store_marked(target, live, marked, options.dry_run).await,
            Step::Remove => {
                precondition::check_removal(target, &live, options)?;
                let tree = live.tree.clone();
                self.remove(target, live, tree, options.dry_run).await
            }
            Step::MarkAndRemove(marked) => {
                self.mark_and_remove(deletion, &effective, live, marked, warnings).await
            }
        }
    }

    async fn admit_deletion(
        &self,
        deletion: &Deletion<'_>,
        options: &DeleteOptions,
        old: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let Deletion { target, user: Some(user), in_collection, .. } = *deletion else { return Ok(()) };
        let is_namespace = target.kind.group.is_empty() && target.kind.plural == "namespaces";
        let attributes = Attributes {
            operation: Operation::Delete,
            kind: &target.kind,
            version: target.kind_version(),
            namespace: if is_namespace { &target.name } else { &target.namespace },
            name: if in_collection { "" } else { &target.name },
            subresource: &target.subresource,
            old: Some(old),
            user,
            dry_run: options.dry_run,
            options: Options::Delete(options),
        };
        self.admission.mutate_admitted(&attributes, target, None, warnings).await?;
        self.admission.validate_admitted(&attributes, target, None, warnings).await.map(drop)
    }

    /// The options, completed with the defaults of the object's kind.
    fn effective_options(&self, deletion: &Deletion<'_>, live: &Value) -> DeleteOptions {
        let Deletion { target, options, .. } = *deletion;
        let mut effective = options.clone();
        effective.grace_period_seconds =
            effective.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
        if let Grace::Wait(period) = self.grace(target, live, options) {
            effective.grace_period_seconds = Some(period);
        }
        if target.kind.hooks.ends_in_two_phases() {
            let preconditions = effective.preconditions.get_or_insert_default();
            preconditions.uid.get_or_insert_with(|| live.str_at(&["metadata", "uid"]).into());
        }
        effective
    }

    fn next_step(&self, target: &Target, live: &Value, options: &DeleteOptions) -> Step {
        let hooks = target.kind.hooks;
        let (seconds, _) = self.storage.clock.now();
        let mut object = live.clone();
        if !metadata::is_deleting(live) && hooks.begin_deletion(&mut object, &self.storage.time_text(seconds))
        {
            object.set_at(&["metadata", "deletionTimestamp"], self.storage.time_text(seconds).into());
            apply_propagation(target, &mut object, options);
            return Step::Mark(object);
        }
        if metadata::is_deleting(live) && !hooks.may_remove(live) {
            return Step::Pending;
        }
        let grace = match self.grace(target, live, options) {
            Grace::Pending => return Step::Pending,
            Grace::Shorten { seconds, deadline } => Some((seconds, deadline)),
            Grace::Wait(period) => {
                if metadata::generation(&object) > 0 {
                    metadata::set_generation(&mut object, metadata::next_generation(live));
                }
                Some((period, seconds.saturating_add(period)))
            }
            Grace::None => None,
        };
        if let Some((period, deadline)) = grace {
            object.set_at(&["metadata", "deletionTimestamp"], self.storage.time_text(deadline).into());
            object.set_at(&["metadata", "deletionGracePeriodSeconds"], Value::Int(period));
        }
        self.apply_propagation(target, &mut object, options);
        let held = !object.items_at(&["metadata", "finalizers"]).is_empty();
        match grace {
            Some((period, _)) if held || period > 0 => Step::Mark(object),
            Some(_) => Step::MarkAndRemove(object),
            None if held => {
                self.mark_as_deleting(&mut object, seconds);
                Step::Mark(object)
            }
            None => Step::Remove,
        }
    }

    /// Sets the finalizers of the garbage collector. Without one, nothing would remove them.
    fn apply_propagation(&self, target: &Target, object: &mut Value, options: &DeleteOptions) {
        if self.garbage_collection {
            apply_propagation(target, object, options);
        }
    }

    /// Sets the deletion fields of an object of a kind without graceful deletion, while finalizers hold it.
    fn mark_as_deleting(&self, object: &mut Value, now: i64) {
        if !metadata::is_deleting(object) && metadata::generation(object) > 0 {
            let next = metadata::next_generation(object);
            metadata::set_generation(object, next);
        }
        let later = object
            .at(&["metadata", "deletionTimestamp"])
            .and_then(Value::as_str)
            .and_then(|t| Timestamp::parse(t).ok())
            .is_none_or(|t| t.seconds > now);
        if later {
            object.set_at(&["metadata", "deletionTimestamp"], self.storage.time_text(now).into());
        }
        object.set_at(&["metadata", "deletionGracePeriodSeconds"], Value::Int(0));
    }

    /// Returns the grace period of this deletion.
    fn grace(&self, target: &Target, live: &Value, options: &DeleteOptions) -> Grace {
        let requested = options.grace_period_seconds.map(|seconds| if seconds < 0 { 1 } else { seconds });
        if !target.kind.hooks.is_graceful() {
            return Grace::None;
        }
        if !metadata::is_deleting(live) {
            return match target.kind.hooks.grace_seconds(live, requested) {
                Some(period) => Grace::Wait(period),
                None => Grace::None,
            };
        }
        let running =
            live.at(&["metadata", "deletionGracePeriodSeconds"]).and_then(Value::as_int).unwrap_or(0);
        let (now, _) = self.storage.clock.now();
        match requested {
            _ if running == 0 => Grace::None,
            Some(period) if period < running => {
                let deadline = live
                    .at(&["metadata", "deletionTimestamp"])
                    .and_then(Value::as_str)
                    .and_then(|t| Timestamp::parse(t).ok())
                    .map_or(now, |t| t.seconds);
                let deadline = deadline.saturating_sub(running).saturating_add(period);
                // A grace period that has already passed becomes one second, so that the deletion still counts as
                // graceful.
                let period = if deadline < now && period != 0 { 1 } else { period };
                Grace::Shorten { seconds: period, deadline: deadline.max(now) }
            }
            _ => Grace::Pending,
        }
    }

    async fn store_marked(
        &self,
        target: &Target,
        live: Live,
        mut marked: Value,
        dry_run: bool,
    ) -> Result<Attempt<Deleted>, Status> {
        marked.remove_at(&["metadata", "resourceVersion"]);
        let encoded = object::encode(&target.kind, &marked);
        if encoded == *live.object.value() {
            return Ok(Attempt::Done(Deleted::Object { object: live.object, gone: false }));
        }
        if dry_run {
            let object = object::unstored(target, &encoded, &marked, live.object.revision())?;
            return Ok(Attempt::Done(Deleted::Object { object, gone: false }));
        }
        let expect = Expect::Revision(Revision(live.object.revision()));
        // As in kube-apiserver, an event that waits for its finalizers has no time to live.
        let write = Write::put(target.store_key(), expect, encoded).with_ttl(Some(Duration::ZERO));
        match self.storage.commit(target, write, &marked).await {
            Ok(object) => Ok(Attempt::Done(Deleted::Object { object, gone: false })),
            Err(WriteError::Conflict { .. }) => Ok(Attempt::Conflict),
            Err(error) => Err(crate::status::write_error(error)),
        }
    }

    /// Writes the object with grace period 0, then removes it: watchers first see the end of the grace period, then the
    /// deletion. Admission runs for both.
    async fn mark_and_remove(
        &self,
        deletion: &Deletion<'_>,
        effective: &DeleteOptions,
        live: Live,
        marked: Value,
        warnings: &mut Vec<String>,
    ) -> Result<Attempt<Deleted>, Status> {
        let Deletion { target, options: &DeleteOptions { dry_run, .. }, .. } = *deletion;
        if dry_run {
            return self.remove(target, live, marked, dry_run).await;
        }
        match self.store_marked(target, live, marked.clone(), dry_run).await? {
            Attempt::Done(Deleted::Object { object, .. }) => {
                if self.admission.has_policies_or_webhooks() {
                    self.admit_deletion(deletion, effective, &object::tree(&target.kind, &object)?, warnings)
                        .await?;
                }
                let revision = object.revision();
                let live = Live { object, tree: marked.clone() };
                match self.remove(target, live, marked.clone(), dry_run).await? {
                    // If another request removed the object after this one marked it, the deletion has succeeded, as in
                    // kube-apiserver.
                    Attempt::Conflict if self.is_gone(target, &marked) => removed(target, marked, revision),
                    attempt => Ok(attempt),
                }
            }
            other => Ok(other),
        }
    }

    async fn remove(
        &self,
        target: &Target,
        live: Live,
        last: Value,
        dry_run: bool,
    ) -> Result<Attempt<Deleted>, Status> {
        let mut revision = live.object.revision();
        if !dry_run {
            match self.erase(target, Expect::Revision(Revision(revision)), &live.tree).await {
                Ok(removed) => revision = removed.0,
                Err(WriteError::Conflict { .. }) => return Ok(Attempt::Conflict),
                Err(error) => return Err(crate::status::write_error(error)),
            }
        }
        removed(target, last, revision)
    }

    /// Removes an object and, in the same transaction, its allocations. `last` is its last state.
    pub(crate) async fn erase(
        &self,
        target: &Target,
        expect: Expect,
        last: &Value,
    ) -> Result<Revision, WriteError> {
        let delete = Write::delete(target.store_key(), expect);
        let _request = measures::StoreRequest::begin(target, "delete");
        if !is_service(target) {
            return self.storage.store.write(delete).await;
        }
        let mut writes = self.release(last);
        writes.push(delete);
        let revisions = self.storage.store.commit(writes).await?;
        self.delete_endpoints(target).await;
        revisions.last().copied().ok_or(WriteError::Unavailable(StoreFault::Stopped))
    }

    /// Deletes the Endpoints of a deleted service, so that a new service of the same name does not find them.
    async fn delete_endpoints(&self, service: &Target) {
        let found = self.storage.target("", "v1", "endpoints", &service.namespace, &service.name);
        let Some(endpoints) = found else { return };
        match self.delete_admitted(&endpoints, &DeleteOptions::default()).await {
            Err(status) if status.code != 404 => {
                let Target { namespace, name, .. } = service;
                tracing::error!("delete service endpoints {namespace}/{name} failed: {}", status.message);
            }
            _ => {}
        }
    }

    /// Returns whether an object no longer exists, or another object has its name.
    fn is_gone(&self, target: &Target, object: &Value) -> bool {
        let uid = |tree: &Value| tree.str_at(&["metadata", "uid"]).to_string();
        match self.reader.live(target) {
            Ok(Some(live)) => uid(&live.tree) != uid(object),
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// Deletes an object that cannot be decoded. Refuses to delete one that can be decoded.
    pub async fn delete_corrupt(&self, target: &Target) -> Result<Status, Status> {
        target.check_path_name()?;
        let cached = self.storage.cached(&target.kind, &target.object_key());
        let fault = match cached {
            Some(cached) => self.reader.convert_all(target, &[cached]).await.into_first(),
            None => None,
        };
        let Some(Fault { object, .. }) = fault else {
            let mut errors = FieldErrors::new();
            let path = Path::of("ignoreStoreReadErrorWithClusterBreakingPotential");
            let why = "is exclusively used to delete corrupt object(s), try again by removing this option";
            errors.invalid(&path, true, why);
            let resource = target.group_resource();
            let kind = GroupKind::new(&resource.group, &resource.resource);
            return Err(Status::invalid(&kind, &target.name, &errors));
        };
        // kube-apiserver deletes it even in a dry run.
        let write = Write::delete(target.store_key(), Expect::Revision(Revision(object.revision())));
        self.storage.store.write(write).await.map_err(crate::status::write_error)?;
        Ok(Status::deleted_unread(&target.kind.kind, &target.name))
    }

    /// Deletes all objects that a list selects, and returns that list.
    pub async fn delete_collection(
        &self,
        list: &ListRequest,
        options: &DeleteOptions,
        user: &UserInfo,
        warnings: &mut Vec<String>,
    ) -> Result<crate::read::Listed, Status> {
        let listed = self.list_to_delete(list).await?;
        let queue = Mutex::new(listed.items.iter());
        let worker = async || {
            let mut warnings = Vec::new();
            loop {
                let item = queue.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some(item) = item else { return Ok(warnings) };
                let namespace = item.namespace().unwrap_or("").into();
                let target = Target { namespace, ..list.target.named(item.name()) };
                let deletion = Deletion { target: &target, options, user: Some(user), in_collection: true };
                match self.carry_out(&deletion, &mut warnings).await {
                    Ok(_) => {}
                    Err(status) if status.code == 404 => {}
                    // The other workers continue, as in kube-apiserver.
                    Err(status) => return Err(status.with_warnings(warnings)),
                }
            }
        };
        let workers = self.deletion_workers.clamp(1, listed.items.len().max(1));
        for done in join_all((0..workers).map(|_| worker()).collect()).await {
            warnings.append(&mut done?);
        }
        Ok(listed)
    }

    /// Lists what a request deletes. As in kube-apiserver, a request without a limit lists pages, so that its
    /// resourceVersion means that exact version, and its answer has the metadata of the first page.
    async fn list_to_delete(&self, list: &ListRequest) -> Result<crate::read::Listed, Status> {
        if list.options.limit != 0 {
            return self.reader.list(list).await;
        }
        let mut page = ListRequest { target: list.target.clone(), options: list.options.clone() };
        page.options.limit = COLLECTION_PAGE;
        let mut listed = self.reader.list(&page).await?;
        let mut token = listed.continue_token.clone();
        while !token.is_empty() {
            page.options.continue_token = token;
            page.options.resource_version = Default::default();
            page.options.resource_version_match = None;
            let next = self.reader.list(&page).await?;
            listed.items.extend(next.items);
            token = next.continue_token;
        }
        Ok(listed)
    }
}

/// Runs the futures at the same time within the caller's task.
async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut running: Vec<_> = futures.into_iter().map(|future| (Box::pin(future), None)).collect();
    poll_fn(|context| {
        let mut is_done = true;
        for (future, output) in running.iter_mut().filter(|(_, output)| output.is_none()) {
            match future.as_mut().poll(context) {
                Poll::Ready(value) => *output = Some(value),
                Poll::Pending => is_done = false,
            }
        }
        if is_done { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    running.into_iter().filter_map(|(_, output)| output).collect()
}

enum Grace {
    None,
    Wait(i64),
    Shorten { seconds: i64, deadline: i64 },
    Pending,
}

/// The answer after an object was removed; `last` is its last state.
fn removed(target: &Target, mut last: Value, revision: u64) -> Result<Attempt<Deleted>, Status> {
    if target.kind.rules.delete_returns_object {
        last.remove_at(&["metadata", "resourceVersion"]);
        let encoded = object::encode(&target.kind, &last);
        let object = object::unstored(target, &encoded, &last, revision)?;
        return Ok(Attempt::Done(Deleted::Object { object, gone: true }));
    }
    let status = Status::deleted(&target.group_resource(), &target.name, last.str_at(&["metadata", "uid"]));
    Ok(Attempt::Done(Deleted::Status(Box::new(status))))
}

/// The answer for a deletion that is already in progress: the object, or the `Status` with which its kind answers
/// deletions.
fn pending(target: &Target, live: Live) -> Deleted {
    let waits = target.kind.rules.delete_returns_object || !target.kind.hooks.may_remove(&live.tree);
    if waits {
        return Deleted::Object { object: live.object, gone: false };
    }
    let uid = live.tree.str_at(&["metadata", "uid"]);
    Deleted::Status(Box::new(Status::deleted(&target.group_resource(), &target.name, uid)))
}

/// Sets or removes the finalizers `orphan` and `foregroundDeletion`, which tell the garbage collector what to do with
/// dependents.
fn apply_propagation(target: &Target, object: &mut Value, options: &DeleteOptions) {
    let old = object.items_at(&["metadata", "finalizers"]);
    let mut new: Vec<Value> =
        old.iter().filter(|f| !matches!(f.as_str(), Some(ORPHAN | FOREGROUND))).cloned().collect();
    match propagation(target, object, options) {
        Propagation::Orphan => new.push(ORPHAN.into()),
        Propagation::Foreground => new.push(FOREGROUND.into()),
        Propagation::Background => {}
    }
    // A hash set, because an object may have tens of thousands of finalizers.
    let known: HashSet<&str> = new.iter().filter_map(Value::as_str).collect();
    let is_known = |finalizer: &Value| finalizer.as_str().is_some_and(|text| known.contains(text));
    let same = old.len() == new.len() && old.iter().all(is_known);
    if same {
        return;
    }
    if new.is_empty() {
        object.remove_at(&["metadata", "finalizers"]);
    } else {
        object.set_at(&["metadata", "finalizers"], Value::Array(new));
    }
}

/// Returns what happens to dependents: from the options, else from the existing finalizers, else from the kind's default.
fn propagation(target: &Target, object: &Value, options: &DeleteOptions) -> Propagation {
    if target.kind.rules.gc_unsupported {
        return Propagation::Background;
    }
    let orphan_or_background = |orphan| if orphan { Propagation::Orphan } else { Propagation::Background };
    if let Some(orphan) = options.orphan_dependents {
        return orphan_or_background(orphan);
    }
    let by_finalizer = |finalizer: &Value| match finalizer.as_str() {
        Some(ORPHAN) => Some(Propagation::Orphan),
        Some(FOREGROUND) => Some(Propagation::Foreground),
        _ => None,
    };
    let requested = options.propagation;
    let requested =
        requested.or_else(|| object.items_at(&["metadata", "finalizers"]).iter().find_map(by_finalizer));
    requested.unwrap_or_else(|| orphan_or_background(target.kind.rules.orphan_by_default))
}
