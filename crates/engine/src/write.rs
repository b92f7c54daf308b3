//! Creates, replaces, patches and applies objects: one function from the request to the commit.

use crate::convert::Conversions;
use crate::precondition::{MODIFIED, check_no_uid, check_revision, check_uid};
use crate::propose::{self, Change, Proposed};
use crate::{Engine, Target, claim_rights, metadata, object, ownership, subresource, validation};
use bytes::Bytes;
use pintle_admission::{Attributes, Operation, Options};
use pintle_auth::UserInfo;
use pintle_cache::Object;
use pintle_kinds::{Generation, Requester, Scope};
use pintle_meta::options::FieldValidation;
use pintle_meta::{FieldErrors, Status};
use pintle_schema::typed;
use pintle_store::{Expect, Revision, Write, WriteError};
use pintle_value::{Str, Value, json};
use std::sync::Arc;

/// How often a write without resourceVersion is retried after conflicts with other writes.
const ATTEMPTS_MAX: usize = 64;
/// After how many conflicts a write waits for the contention lock.
const CONFLICTS_BEFORE_LOCK: usize = 8;
/// How many generated names are tried before a create fails because they are taken.
const GENERATED_NAMES_MAX: usize = 8;

const DEFINITION_ENDING: &str = "create not allowed while custom resource definition is terminating";

/// Serializes writes that have repeated conflicts, such as many concurrent creates under one quota.
#[derive(Default)]
pub struct ContentionLock(tokio::sync::Mutex<()>);

/// A write and who asks for it.
pub struct WriteRequest {
    /// What is written.
    pub target: Target,
    /// What shall be done.
    pub change: Change,
    /// Whether the write stops before the commit.
    pub dry_run: bool,
    /// `fieldManager` of the options.
    pub field_manager: Str,
    /// The client's User-Agent.
    pub user_agent: String,
    /// How unknown fields are handled, if the client says so.
    pub validation: Option<FieldValidation>,
    /// Who asks.
    pub user: UserInfo,
}

impl WriteRequest {
    /// How unknown fields are handled: as the client says, or by the default.
    pub(crate) fn validation(&self) -> FieldValidation {
        self.validation.unwrap_or_default()
    }

    /// The options of the request, as admission sees them.
    pub(crate) fn options(&self) -> Options<'_> {
        Options::Write { field_manager: &self.field_manager, validation: self.validation }
    }
}

/// What came of a write.
pub struct Written {
    /// The object in its new state, in the storage version.
    pub object: Arc<Object>,
    /// Whether the write made it.
    pub created: bool,
    /// The warnings for the client.
    pub warnings: Vec<String>,
    /// Whether the store was written to. It is not if the object did not change, or in a dry run.
    pub(crate) committed: bool,
}

/// Records the request's object for the audit event, in the form that kube-apiserver writes.
pub(crate) fn note_request_object(target: &Target, object: &Value) {
    pintle_audit::note_request_object(|| {
        let mut object = object.clone();
        typed::normalize_with(&target.kind_version().schema, &mut object, typed::Empties::PreserveSerialized);
        object
    });
}

/// The patch for an audit event, if it is JSON.
fn json_document(body: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    json::print(&json::parse(body).ok()?.value, &mut out);
    Some(out)
}

enum Attempt {
    Done(Written),
    Again,
    NameTaken(Status),
}

impl Engine {
    /// Returns whether a result that was computed from cached state may be outdated by writes of other servers.
    /// kube-apiserver, too, returns such errors only after it has read etcd.
    async fn may_be_stale(
        &self,
        request: &WriteRequest,
        outcome: &Result<Attempt, Status>,
        seen: u64,
    ) -> Result<bool, Status> {
        let depends_on_state = match outcome {
            Ok(Attempt::Done(written)) => !written.created && !written.committed,
            Ok(Attempt::Again | Attempt::NameTaken(_)) => false,
            Err(status) => {
                !matches!(request.change, Change::Create(_)) || matches!(status.code, 403 | 404 | 409)
            }
        };
        if !depends_on_state {
            return Ok(false);
        }
        self.catch_up_all().await?;
        Ok(self.cache.progress() > seen)
    }

    /// Creates, replaces, patches or applies an object.
    pub async fn write(&self, request: &WriteRequest) -> Result<Written, Status> {
        let mut names_taken = 0_usize;
        let mut turn = None;
        // Whether the cached state that the attempt used is known to be current.
        let mut confirmed = !self.store.is_shared();
        for tried in 0..ATTEMPTS_MAX {
            // Do not hold the contention lock while webhooks run: a webhook may write to this server and would
            // deadlock.
            if tried == CONFLICTS_BEFORE_LOCK && !self.asks_others() {
                turn = Some(self.contention_lock.0.lock().await);
            }
            let seen = self.cache.progress();
            let outcome = match self.attempt(request).await {
                outcome if confirmed || !self.may_be_stale(request, &outcome, seen).await? => outcome?,
                _ => {
                    confirmed = true;
                    continue;
                }
            };
            match outcome {
                Attempt::Done(written) => {
                    let faults =
                        self.convert_all(&request.target, std::slice::from_ref(&written.object)).await;
                    if let Some(fault) = faults.into_first() {
                        return Err(self.cannot_change(&fault.object, &fault.why));
                    }
                    if !request.dry_run {
                        self.wait_until_served(&request.target, written.object.revision()).await;
                    }
                    return Ok(written);
                }
                Attempt::Again => {}
                Attempt::NameTaken(status) => {
                    names_taken = names_taken.saturating_add(1);
                    if names_taken == GENERATED_NAMES_MAX {
                        return Err(status);
                    }
                }
            }
        }
        drop(turn);
        Err(Status::conflict(&request.target.group_resource(), &request.target.name, MODIFIED))
    }

    /// Makes one attempt. Warnings are returned with the object or with the error.
    async fn attempt(&self, request: &WriteRequest) -> Result<Attempt, Status> {
        let mut warnings = Vec::new();
        let done = self.attempt_with(request, &mut warnings).await;
        done.map_err(|status| status.with_warnings(warnings))
    }

    async fn attempt_with(
        &self,
        request: &WriteRequest,
        warnings: &mut Vec<String>,
    ) -> Result<Attempt, Status> {
        let live = match request.change {
            Change::Create(_) => None,
            _ => self.working_live(&request.target, request.dry_run).await?,
        };
        let target = &request.target;
        let live_tree = live.as_ref().map(|live| &live.tree);
        let (mut candidate, hidden) = self.propose_admitted(request, live.as_ref(), warnings).await?;
        let generated = candidate.str_at(&["metadata", "name"]).is_empty();
        if let Some(live) = &live {
            check_revision(target, &mut candidate, live)?;
        }
        warnings.extend(metadata::dedup_owner_references(&mut candidate, metadata::Dedup::Admission));
        match live_tree {
            None => {
                self.prepare_create(target, &mut candidate)?;
                target.working_version().hooks.set_requester(&mut candidate, &requester(&request.user));
            }
            Some(old) => prepare_update(target, &mut candidate, old)?,
        }
        let hooks = target.working_version().hooks;
        hooks.stamp(target.scope(), &mut candidate, live_tree, &self.now_text());
        let mut extra_writes = self.allocate(request, live_tree, &mut candidate)?;
        // Empty values become absent when they are stored; only new objects are validated as they were written.
        let empties = match live_tree {
            None if hidden => typed::Empties::Preserve,
            None => typed::Empties::PreserveSerialized,
            Some(_) => typed::Empties::Remove,
        };
        typed::normalize_with(&target.working_version().schema, &mut candidate, empties);
        match live_tree {
            None => validation::create(target, &candidate, &|| self.namespace_of(target))?,
            Some(old) => {
                let mut refused = FieldErrors::new();
                if claim_rights::applies_to(target) {
                    self.check_claim_rights(request, &candidate, old, &mut refused).await;
                }
                validation::update(target, &candidate, old, refused, warnings)?;
            }
        }
        if matches!(request.change, Change::Apply { .. }) {
            pintle_schema::coerce(&target.working_version().schema, &mut candidate);
        }
        if target.scope() == Scope::Main {
            warnings.extend(hooks.warnings(&candidate, live_tree));
        }
        if hidden {
            typed::normalize_with(
                &target.working_version().schema,
                &mut candidate,
                typed::Empties::PreserveSerialized,
            );
        }
        hooks.canonicalize(&mut candidate);
        match live_tree {
            None => self.authorize_creation(request).await?,
            Some(old) => ownership::keep_times(&mut candidate, old),
        }
        self.admit_finally(request, live_tree, &candidate, warnings).await?;
        extra_writes.extend(self.charge(request, live_tree, &candidate)?);
        let candidate = self.to_storage(target, candidate).await?;
        match live {
            None => self.commit_create(request, candidate, generated, extra_writes, warnings.clone()).await,
            Some(live) => self.commit_update(request, live, candidate, extra_writes, warnings.clone()).await,
        }
    }

    /// The namespace object of a target; `None` if it does not exist.
    fn namespace_of(&self, target: &Target) -> Option<Value> {
        let namespace = self.target("", "v1", "namespaces", "", &target.namespace)?;
        self.live(&namespace).ok()?.map(|live| live.tree)
    }

    /// Returns the live object in the version that the write works in.
    async fn working_live(&self, target: &Target, dry_run: bool) -> Result<Option<Live>, Status> {
        target.check_path_name()?;
        let Some(object) = self.kept(&target.kind, &target.object_key()) else { return Ok(None) };
        // A dry run reports an unreadable object as a get does.
        let refuse = |why: &str| match dry_run {
            true => self.cannot_show(target, &object, why),
            false => self.cannot_change(&object, why),
        };
        if let Some(why) = object.unreadable() {
            return Err(refuse(why));
        }
        let tree = object::tree(&target.kind, &object)?;
        if target.kind.conversion.is_none() && target.working() == target.kind.storage {
            return Ok(Some(Live { object, tree }));
        }
        let converted = self.convert(&target.kind, tree, target.working()).await;
        let tree = converted.map_err(|status| refuse(&status.message))?;
        Ok(Some(Live { object, tree }))
    }

    /// Returns the requested object after mutating admission, in the version that the write works in, and whether it
    /// has empty lists or maps that JSON omits.
    async fn propose_admitted(
        &self,
        request: &WriteRequest,
        live: Option<&Live>,
        warnings: &mut Vec<String>,
    ) -> Result<(Value, bool), Status> {
        if let Some(paths) = subresource::scale::paths(&request.target) {
            return Ok((self.propose_scaled(request, live, paths, warnings).await?, false));
        }
        let Proposed { object: mut candidate, warnings: noted, empties } =
            self.propose(request, live).await?;
        warnings.extend(noted);
        self.admit(request, live.map(|live| &live.tree), &mut candidate, warnings).await?;
        Ok((candidate, empties))
    }

    /// Returns the requested object in the version that the write works in.
    async fn propose(&self, request: &WriteRequest, live: Option<&Live>) -> Result<Proposed, Status> {
        let target = &request.target;
        // kube-apiserver decodes a body before it looks up the object, but does not decode a patch of an object that
        // does not exist.
        if live.is_none() && matches!(request.change, Change::Apply { .. }) && !creates(request) {
            return Err(Status::not_found(&target.group_resource(), &target.name));
        }
        let mut conversions = Conversions::default();
        let proposed = loop {
            let live_in_request_version = live.map(|live| self.to_request_version(target, &live.tree));
            let proposed = self.propose_on(request, target, live_in_request_version.as_deref(), &conversions);
            if !conversions.make(self, &target.kind).await {
                break proposed;
            }
        };
        let mut proposed = proposed?.checked(|object| {
            if let Change::Replace(_) = request.change {
                check_uid(target, object, live, request.dry_run)?;
            }
            if live.is_none() && !creates(request) {
                return Err(Status::not_found(&target.group_resource(), &target.name));
            }
            Ok(())
        })?;
        object::convert(&target.kind, &mut proposed.object, target.version, target.working());
        Ok(proposed)
    }

    /// Returns the requested object in the version of the request. `live_in_request_version` is the live object in that version.
    pub(crate) fn propose_on(
        &self,
        request: &WriteRequest,
        target: &Target,
        live_in_request_version: Option<&Value>,
        conversions: &Conversions,
    ) -> Result<Proposed, Status> {
        let now = self.now_text();
        let manager = metadata::manager(&request.field_manager, &request.user_agent);
        let kinds = self.registry.kinds();
        let registered = |kind: &str, gv: &pintle_meta::GroupVersion| self.is_built_in(&kinds, kind, gv);
        let owner = ownership::Owner { manager: &manager, now: &now };
        let cx = propose::Context { target, validation: request.validation(), registered: &registered };
        let proposed = match &request.change {
            Change::Create(body) => {
                let decoded = propose::decode_object(&cx, body, typed::Empties::Preserve)?;
                note_request_object(target, &decoded.object);
                let mut proposed = decoded.checked(|object| {
                    metadata::wipe_system_fields(object);
                    metadata::default_namespace(object, target)
                })?;
                ownership::record_new(target, owner, &mut proposed, conversions);
                proposed
            }
            Change::Replace(body) => {
                let decoded = propose::decode_object(&cx, body, typed::Empties::PreserveSerialized)?;
                note_request_object(target, &decoded.object);
                let mut proposed = decoded.checked(|object| {
                    metadata::default_namespace(object, target)?;
                    metadata::check_name(object, target)
                })?;
                ownership::record_with(
                    target,
                    owner,
                    live_in_request_version,
                    &mut proposed.object,
                    conversions,
                );
                proposed
            }
            Change::Patch(kind, body) => {
                pintle_audit::note_request_document(|| json_document(body));
                let Some(live_in_request_version) = live_in_request_version else {
                    return Err(Status::not_found(&target.group_resource(), &target.name));
                };
                let mut proposed = propose::patch_object(&cx, live_in_request_version, *kind, body)?;
                ownership::record_with(
                    target,
                    owner,
                    Some(live_in_request_version),
                    &mut proposed.object,
                    conversions,
                );
                proposed
            }
            Change::Apply { body, force } => {
                let config = propose::Configuration::decode(body)?;
                pintle_audit::note_request_document(|| {
                    let mut out = Vec::new();
                    json::print(&config.tree, &mut out);
                    Some(out)
                });
                let (mut object, unknown) = ownership::apply(
                    target,
                    owner,
                    live_in_request_version,
                    &config.tree,
                    *force,
                    conversions,
                )?;
                propose::complete(target, &mut object, typed::Empties::PreserveSerialized);
                let warnings = config.complaints(request.validation(), &unknown)?;
                Proposed { object, warnings, empties: false }.checked(|object| {
                    check_no_uid(target, object, live_in_request_version)?;
                    metadata::default_namespace(object, target)?;
                    metadata::check_name(object, target)
                })?
            }
        };
        Ok(proposed)
    }

    async fn admit(
        &self,
        request: &WriteRequest,
        old: Option<&Value>,
        candidate: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let name = admission_name(request, candidate);
        if old.is_none() && request.target.kind.rules.ending {
            return Err(Status::forbidden(&request.target.kind.group_resource(), &name, DEFINITION_ENDING));
        }
        let attributes = attributes(request, old, &name);
        self.mutate_admitted(&attributes, &request.target, Some(candidate), warnings).await
    }

    async fn admit_finally(
        &self,
        request: &WriteRequest,
        old: Option<&Value>,
        candidate: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let name = admission_name(request, candidate);
        if let (Some(paths), Some(old)) = (subresource::scale::paths(&request.target), old) {
            return self.admit_scaled(request, paths, old, candidate, warnings).await;
        }
        let attributes = attributes(request, old, &name);
        self.validate_admitted(&attributes, &request.target, Some(candidate), warnings).await
    }

    /// Prepares a new object: uid, creation time, name, generation.
    fn prepare_create(&self, target: &Target, object: &mut Value) -> Result<(), Status> {
        metadata::fill_system_fields(object, crate::environment::new_uid(&*self.random), &self.now_text());
        let prefix = object.str_at(&["metadata", "generateName"]);
        if object.str_at(&["metadata", "name"]).is_empty() && !prefix.is_empty() {
            let name = pintle_meta::generated::name(prefix, &mut || self.random.number());
            object.set_at(&["metadata", "name"], Value::String(name));
        }
        metadata::default_namespace(object, target)?;
        target.working_version().hooks.prepare_create(object);
        match target.kind.rules.generation {
            Generation::Counted | Generation::Fixed => metadata::set_generation(object, 1),
            Generation::CountedFromZero => metadata::set_generation(object, 0),
            Generation::Unset => {}
        }
        Ok(())
    }

    /// Handles a create whose name is taken: a generated name is drawn again, a given one is refused.
    fn name_taken(&self, target: &Target, candidate: &Value, generated: bool) -> Result<Attempt, Status> {
        let resource = target.group_resource();
        if !candidate.str_at(&["metadata", "generateName"]).is_empty() {
            let status = Status::generate_name_conflict(&resource, &target.name, 1);
            return if generated { Ok(Attempt::NameTaken(status)) } else { Err(status) };
        }
        let mut status = Status::already_exists(&resource, &target.name);
        if self.live(target).ok().flatten().is_some_and(|live| metadata::is_deleting(&live.tree)) {
            status.message = format!("object is being deleted: {}", status.message);
        }
        Err(status)
    }

    async fn commit_create(
        &self,
        request: &WriteRequest,
        mut candidate: Value,
        generated: bool,
        extra_writes: Vec<Write>,
        warnings: Vec<String>,
    ) -> Result<Attempt, Status> {
        let name = Str::from(candidate.str_at(&["metadata", "name"]));
        let target = request.target.named(&name);
        candidate.remove_at(&["metadata", "selfLink"]);
        let revision = candidate.remove_at(&["metadata", "resourceVersion"]);
        // A resourceVersion that is not a number counts as absent.
        let number = |text: &str| text.parse::<u64>().ok().filter(|n| *n != 0 && !text.starts_with('+'));
        let named = revision.and_then(|v| v.as_str().and_then(number));
        let named = named.filter(|_| matches!(request.change, Change::Create(_)));
        // The storage layer refuses it. A dry run does not reach that layer and returns the resourceVersion that it was
        // sent.
        if named.is_some() && !request.dry_run {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Status::unclassified(why));
        }
        let encoded = object::encode(&target.kind, &candidate);
        if request.dry_run {
            if self.kept(&target.kind, &target.object_key()).is_some() {
                return self.name_taken(&target, &candidate, generated);
            }
            let object = object::unstored(&target, &encoded, &candidate, named.unwrap_or(0))?;
            return Ok(Attempt::Done(Written { object, created: true, warnings, committed: false }));
        }
        let own = target.store_key();
        let _span = pintle_trace::span("Create etcd3");
        match self.put(request, &target, Expect::Absent, encoded, &mut candidate, extra_writes).await {
            Ok(object) => Ok(Attempt::Done(Written { object, created: true, warnings, committed: true })),
            Err(WriteError::Conflict { key, .. })
                if key != own || !matches!(request.change, Change::Create(_)) =>
            {
                Ok(Attempt::Again)
            }
            Err(WriteError::Conflict { .. }) => self.name_taken(&target, &candidate, generated),
            Err(error) => Err(crate::status::write_error(error)),
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
        let write = Write::put(target.store_key(), expect, encoded);
        match self.commit_with(target, write, candidate, extra_writes.clone()).await {
            Err(WriteError::TooLarge { .. }) if !matches!(request.change, Change::Apply { .. }) => {
                candidate.remove_at(&["metadata", "managedFields"]);
                let encoded = object::encode(&target.kind, candidate);
                let write = Write::put(target.store_key(), expect, encoded);
                self.commit_with(target, write, candidate, extra_writes).await
            }
            outcome => outcome,
        }
    }

    async fn commit_update(
        &self,
        request: &WriteRequest,
        live: Live,
        mut candidate: Value,
        extra_writes: Vec<Write>,
        warnings: Vec<String>,
    ) -> Result<Attempt, Status> {
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
        let began = std::time::Instant::now();
        let encoded = object::encode(&target.kind, &candidate);
        let is_same = encoded == *live.object.value() && !removes;
        crate::measures::compared(is_same, began.elapsed());
        if is_same && !self.store.is_outdated(&target.store_key()).await {
            let object = live.object;
            return Ok(Attempt::Done(Written { object, created: false, warnings, committed: false }));
        }
        if request.dry_run {
            let object = object::unstored(target, &encoded, &candidate, live.object.revision())?;
            return Ok(Attempt::Done(Written { object, created: false, warnings, committed: false }));
        }
        let expect = Expect::Revision(Revision(live.object.revision()));
        let _span = pintle_trace::span("GuaranteedUpdate etcd3");
        let committed = if removes {
            // The client expects the object that it wrote, at the revision that it knew.
            let last = object::unstored(target, &encoded, &candidate, live.object.revision())?;
            self.erase(target, expect, &live.tree).await.map(|_| last)
        } else {
            self.put(request, target, expect, encoded, &mut candidate, extra_writes).await
        };
        match committed {
            Ok(object) => Ok(Attempt::Done(Written { object, created: false, warnings, committed: true })),
            Err(WriteError::Conflict { .. }) => Ok(Attempt::Again),
            Err(error) => Err(crate::status::write_error(error)),
        }
    }
}

/// The live object of a write: the cached object, and its tree with resourceVersion.
pub(crate) struct Live {
    pub(crate) object: Arc<Object>,
    pub(crate) tree: Value,
}

/// Returns whether a write creates the object if it does not exist.
fn creates(request: &WriteRequest) -> bool {
    let target = &request.target;
    match request.change {
        Change::Create(_) => true,
        _ if !target.subresource.is_empty() => false,
        Change::Apply { .. } => true,
        Change::Replace(_) | Change::Patch(..) => target.kind.rules.create_on_update,
    }
}

fn requester(user: &UserInfo) -> Requester<'_> {
    Requester { name: &user.name, uid: &user.uid, groups: &user.groups, extra: &user.extra }
}

fn admission_name(request: &WriteRequest, candidate: &Value) -> Str {
    if request.target.name.is_empty() {
        candidate.str_at(&["metadata", "name"]).into()
    } else {
        request.target.name.clone()
    }
}

pub(crate) fn attributes<'a>(
    request: &'a WriteRequest,
    old: Option<&'a Value>,
    name: &'a str,
) -> Attributes<'a> {
    let target = &request.target;
    let is_namespace = target.kind.group.is_empty() && target.kind.plural == "namespaces";
    Attributes {
        operation: if old.is_some() { Operation::Update } else { Operation::Create },
        kind: &target.kind,
        version: target.kind_version(),
        namespace: if is_namespace { name } else { &target.namespace },
        name,
        subresource: &target.subresource,
        old,
        user: &request.user,
        dry_run: request.dry_run,
        options: request.options(),
    }
}

/// Prepares a changed object: copies what an update may not change from the old one.
fn prepare_update(target: &Target, object: &mut Value, old: &Value) -> Result<(), Status> {
    metadata::default_namespace(object, target)?;
    metadata::set_generation(object, metadata::generation(old));
    let hooks = target.working_version().hooks;
    hooks.prepare_update(target.scope(), object, old);
    metadata::inherit(object, old);
    let counted = matches!(target.kind.rules.generation, Generation::Counted | Generation::CountedFromZero);
    let changes_spec = matches!(target.scope(), Scope::Main | Scope::Sub("ephemeralcontainers" | "resize"));
    let counts = counted && changes_spec;
    if counts && hooks.new_generation(object, old) {
        metadata::set_generation(object, metadata::next_generation(old));
    }
    Ok(())
}
