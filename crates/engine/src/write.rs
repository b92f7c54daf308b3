//! Creates, replaces, patches and applies objects. `attempt` is the list of what happens to a write; `proposal` computes
//! the requested object, `commit` stores it.

mod commit;
mod proposal;
mod provision;

pub(crate) use proposal::{Proposal, note_request_patch};

use crate::precondition::{MODIFIED, check_revision};
use crate::propose::Change;
use crate::retry::{ATTEMPTS_MAX, Attempts};
use crate::{
    AccessObjects, Admission, Reader, Storage, Target, claim_rights, decode, metadata, object, ownership,
    signer_rights, subresource, validation,
};
use pintle_admission::{Attributes, EnginePlugin, Measuring, Operation, Options};
use pintle_auth::UserInfo;
use pintle_cache::Object;
use pintle_kinds::service_allocation::Ranges;
use pintle_kinds::{Generation, Requester, Scope, TEMPLATE_LABELS, features};
use pintle_meta::options::FieldValidation;
use pintle_meta::{FieldErrors, Status, rv};
use pintle_schema::typed::{self, Empties, Remaining};
use pintle_store::BoxFuture;
use pintle_value::{Str, Value};
use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

/// After how many conflicts a write waits for the contention lock.
const CONFLICTS_BEFORE_LOCK: usize = 8;
/// How many generated names are tried before a create fails because they are taken.
const GENERATED_NAMES_MAX: usize = 8;

const MANAGED_FIELDS: [&str; 2] = ["metadata", "managedFields"];

const DEFINITION_ENDING: &str = "create not allowed while custom resource definition is terminating";

/// Serializes writes that have repeated conflicts, such as many concurrent creates under one quota.
#[derive(Default)]
pub(crate) struct ContentionLock(tokio::sync::Mutex<()>);

/// A request to write an object.
pub struct WriteRequest {
    /// The object.
    pub target: Target,
    /// The requested change.
    pub change: Change,
    /// Whether the write stops before the commit.
    pub dry_run: bool,
    /// `fieldManager` of the options.
    pub field_manager: Str,
    /// The client's User-Agent.
    pub user_agent: String,
    /// How unknown fields are handled, if the client specifies it.
    pub validation: Option<FieldValidation>,
    /// The user.
    pub user: Arc<UserInfo>,
}

impl WriteRequest {
    /// How unknown fields are handled: as the client specifies, or by the default.
    pub(crate) fn validation(&self) -> FieldValidation {
        self.validation.unwrap_or_default()
    }

    /// The options of the request, as admission sees them.
    pub(crate) fn options(&self) -> Options<'_> {
        Options::Write { field_manager: &self.field_manager, validation: self.validation }
    }
}

/// The result of a write.
pub struct Written {
    /// The object in its new state, in the storage version.
    pub object: Arc<Object>,
    /// Whether the write created it.
    pub created: bool,
    /// The warnings for the client.
    pub warnings: Vec<String>,
    /// Whether the store was written to. It is not if the object did not change, or in a dry run.
    committed: bool,
}

/// Records the request's object for the audit event, in the form that kube-apiserver writes.
pub(crate) fn note_request_object(target: &Target, object: &Value) {
    note_request_object_in(target, object, None);
}

/// Records it with this `apiVersion`, if there is one.
pub(crate) fn note_request_object_in(target: &Target, object: &Value, api_version: Option<Str>) {
    pintle_audit::note_request_object(|| {
        let mut object = object.clone();
        if let Some(api_version) = api_version {
            object.set_at(&["apiVersion"], api_version.into());
        }
        typed::normalize_with(&target.kind_version().schema, &mut object, typed::Empties::PreserveSerialized);
        object
    });
}

/// Changes and deletes objects.
pub struct Writer {
    pub(crate) storage: Arc<Storage>,
    pub(crate) reader: Arc<Reader>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) access_objects: AccessObjects,
    pub(crate) service_ranges: Ranges,
    /// How many objects of a collection are deleted at the same time.
    pub(crate) deletion_workers: usize,
    /// Whether deletions that orphan dependents or delete them first wait for a garbage collector.
    pub(crate) garbage_collection: bool,
    /// Whether parts of a ResourceClaim's status need rights of their own.
    pub(crate) granular_claim_status: bool,
    pub(crate) contention_lock: ContentionLock,
    /// Waits until other parts of the server (RBAC, flow control) have applied a write.
    pub(crate) follower: OnceLock<Follower>,
}

/// Notifies a part of the server outside of the engine of changed objects, so that they take effect.
pub struct Follower {
    /// The store prefixes of the resources.
    pub prefixes: &'static [&'static str],
    /// Reads the objects from the cache. It is called before a write of one of them is answered.
    pub apply: Box<dyn Fn(&Storage) + Send + Sync>,
}

/// The outcome of one attempt that did not fail.
enum Outcome {
    /// The object is stored, or a dry run has completed.
    Written(Written),
    /// Another write changed the object first.
    Conflict,
    /// The generated name is taken: the next attempt generates another one.
    NameTaken(Status),
    /// The store refused the write, or its outcome is unknown. There is no further attempt, because it could apply
    /// the change twice.
    NotStored(Status),
}

impl Writer {
    /// Sets the follower of written objects. Only the first call has an effect.
    pub fn set_follower(&self, follower: Follower) {
        _ = self.follower.set(follower);
    }

    /// Creates, replaces, patches or applies an object.
    pub fn write<'a>(&'a self, request: &'a WriteRequest) -> BoxFuture<'a, Result<Written, Status>> {
        Box::pin(self.write_with_retries(request))
    }

    async fn write_with_retries(&self, request: &WriteRequest) -> Result<Written, Status> {
        let mut turn = None;
        let mut names_taken = 0_usize;
        // Whether the cached state that the attempt used is known to be current.
        let mut confirmed = !self.storage.store.is_shared();
        let mut attempts = Attempts::new(ATTEMPTS_MAX);
        let written = loop {
            // Do not hold the contention lock while webhooks run: a webhook may write to this server and would
            // deadlock.
            if attempts.conflicts() == CONFLICTS_BEFORE_LOCK && !self.admission.has_policies_or_webhooks() {
                turn = Some(self.contention_lock.0.lock().await);
            }
            let seen = self.storage.cache.progress();
            // Warnings are returned with the object or with the error.
            let mut warnings = Vec::new();
            let outcome = self.attempt(request, &mut warnings).await;
            if !confirmed && self.may_be_stale(request, &outcome, seen).await? {
                confirmed = true;
            } else {
                match outcome.map_err(|status| status.with_warnings(std::mem::take(&mut warnings)))? {
                    Outcome::Written(written) => break Written { warnings, ..written },
                    Outcome::Conflict => {}
                    Outcome::NotStored(status) => return Err(status.with_warnings(warnings)),
                    Outcome::NameTaken(status) => {
                        names_taken = names_taken.saturating_add(1);
                        if names_taken == GENERATED_NAMES_MAX {
                            return Err(status);
                        }
                    }
                }
            }
            attempts.again(|| modified(&request.target))?;
        };
        let faults = self.reader.convert_all(&request.target, std::slice::from_ref(&written.object)).await;
        if let Some(fault) = faults.into_first() {
            return Err(self.reader.unreadable_change_error(&request.target, &fault.object, &fault.why));
        }
        if !request.dry_run {
            self.take_effect(&request.target, written.object.key(), Some(written.object.revision())).await;
        }
        drop(turn);
        Ok(written)
    }

    /// Makes one attempt: reads the live object, computes the new one and stores it.
    async fn attempt(&self, request: &WriteRequest, warnings: &mut Vec<String>) -> Result<Outcome, Status> {
        let target = &request.target;
        let live = match request.change {
            Change::Create(_) => None,
            _ => self.working_live(target, request.dry_run).await?,
        };
        let stored = live.as_ref().map(|live| &live.tree);

        let mut proposal = self.propose(request, live.as_ref()).await?;
        warnings.append(&mut proposal.warnings);
        let mut compared = stored.map(Cow::Borrowed);
        if proposal.empties > Remaining::Nothing {
            align_empties(target, &proposal.object, &mut compared);
        }
        let asked = self.admit_mutating(request, compared.as_deref(), &mut proposal, warnings).await?;
        let (empties, shares_labels) = (proposal.empties, proposal.shares_template_labels);
        let other_kind = proposal.other_kind.take();
        let mut candidate = proposal.into_candidate(target)?;
        if asked {
            align_empties(target, &candidate, &mut compared);
        }
        let old = compared.as_deref();
        let generates_name = candidate.str_at(&["metadata", "name"]).is_empty();
        match (&live, &request.change) {
            (Some(live), _) => check_revision(target, &mut candidate, live)?,
            (None, Change::Replace(_) | Change::Apply { .. }) => {
                rv::parse_of_object(candidate.str_at(&["metadata", "resourceVersion"]))?;
            }
            (None, _) => {}
        }
        if let Some(stated) = other_kind {
            return Err(decode::other_kind(&stated, &target.kind.kind, &candidate));
        }

        let shares_labels = old.is_none() && shares_labels && has_template_labels(&candidate);
        self.prepare_candidate(request, old, stored, &mut candidate, warnings)?;
        if let Some(labels) = candidate.at(&TEMPLATE_LABELS).cloned().filter(|_| shares_labels) {
            candidate.set_at(&["metadata", "labels"], labels);
        }
        let mut extra_writes = self.allocate(request, old, &mut candidate)?;
        let is_as_recorded = !asked && target.subresource != "scale";
        self.validate(request, old, &mut candidate, empties, is_as_recorded, warnings).await?;
        canonicalize(request, old, &mut candidate, empties);
        if old.is_none() {
            self.authorize_creation(request).await?;
        }
        let mut measuring = self.admit_validating(request, old, &candidate, warnings).await?;
        let charged = self.charge(request, old, &candidate);
        measuring.observe(EnginePlugin::ResourceQuota, charged.is_err());
        drop(measuring);
        extra_writes.extend(charged?);

        let candidate = self.reader.to_storage(target, candidate).await?;
        match live {
            None => self.commit_create(request, candidate, generates_name, extra_writes).await,
            Some(live) => self.commit_update(request, live, candidate, extra_writes).await,
        }
    }

    /// Returns whether a result that was computed from cached state may be outdated by writes of other servers.
    /// kube-apiserver, too, returns such errors only after it has read etcd.
    async fn may_be_stale(
        &self,
        request: &WriteRequest,
        outcome: &Result<Outcome, Status>,
        seen: u64,
    ) -> Result<bool, Status> {
        let depends_on_state = match outcome {
            Ok(Outcome::Written(written)) => !written.created && !written.committed,
            Ok(Outcome::Conflict | Outcome::NameTaken(_) | Outcome::NotStored(_)) => false,
            Err(status) => {
                !matches!(request.change, Change::Create(_)) || matches!(status.code, 403 | 404 | 409)
            }
        };
        if !depends_on_state {
            return Ok(false);
        }
        self.storage.catch_up_all().await?;
        Ok(self.storage.cache.progress() > seen)
    }

    /// The namespace object of a target; `None` if it does not exist.
    fn namespace_of(&self, target: &Target) -> Option<Value> {
        let namespace = self.storage.target("", "v1", "namespaces", "", &target.namespace)?;
        self.reader.live(&namespace).ok()?.map(|live| live.tree)
    }

    /// Returns the live object in the version that the write works in.
    async fn working_live(&self, target: &Target, dry_run: bool) -> Result<Option<Live>, Status> {
        target.check_path_name()?;
        let Some(object) = self.storage.cached(&target.kind, &target.object_key()) else { return Ok(None) };
        // A dry run reports an unreadable object as a get does.
        let refuse = |why: &str| {
            if dry_run {
                self.reader.unreadable_error(target, &object, why)
            } else {
                self.reader.unreadable_change_error(target, &object, why)
            }
        };
        if let Some(why) = object.unreadable() {
            return Err(refuse(why));
        }
        let tree = object::tree(&target.kind, &object)?;
        if target.kind.conversion.is_none() && target.working() == target.kind.storage {
            return Ok(Some(Live { object, tree }));
        }
        let converted = self.reader.convert(&target.kind, tree, target.working()).await;
        let tree = converted.map_err(|status| refuse(&status.message))?;
        Ok(Some(Live { object, tree }))
    }

    /// Runs mutating admission on the object that the request reads and writes. Returns whether it called policies or
    /// webhooks.
    async fn admit_mutating(
        &self,
        request: &WriteRequest,
        old: Option<&Value>,
        proposal: &mut Proposal,
        warnings: &mut Vec<String>,
    ) -> Result<bool, Status> {
        let Proposal { object, scale, .. } = proposal;
        let name = admission_name(request, object);
        if old.is_none() && request.target.kind.rules.ending {
            return Err(Status::forbidden(&request.target.kind.group_resource(), &name, DEFINITION_ENDING));
        }
        let (old, object_target) = match scale {
            Some(scale) => (Some(&scale.old), &scale.target),
            None => (old, &request.target),
        };
        let attributes = attributes(request, old, &name);
        self.provision_namespace(&attributes, object).await?;
        self.admission.mutate_admitted(&attributes, object_target, Some(object), warnings).await
    }

    /// Runs validating admission, for a scale on the Scales of the old and the new object.
    async fn admit_validating(
        &self,
        request: &WriteRequest,
        old: Option<&Value>,
        candidate: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<Measuring<'_>, Status> {
        if let (Some(paths), Some(old)) = (subresource::scale::paths(&request.target), old) {
            return self.validate_scaled(request, paths, old, candidate, warnings).await;
        }
        let name = admission_name(request, candidate);
        let attributes = attributes(request, old, &name);
        self.admission.validate_admitted(&attributes, &request.target, Some(candidate), warnings).await
    }

    /// Sets what only the server decides. `stored` is `old` without the empty lists and maps that comparisons need.
    fn prepare_candidate(
        &self,
        request: &WriteRequest,
        old: Option<&Value>,
        stored: Option<&Value>,
        candidate: &mut Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let target = &request.target;
        let hooks = target.working_version().hooks;
        warnings.extend(metadata::dedup_owner_references(candidate, metadata::Dedup::Admission));
        match old {
            None => {
                warnings.extend(hooks.warnings_before_create(candidate));
                self.prepare_create(target, candidate)?;
                hooks.set_requester(candidate, &requester(&request.user));
            }
            Some(old) => prepare_update(target, candidate, old, stored.unwrap_or(old))?,
        }
        hooks.stamp(target.scope(), candidate, old, &self.storage.now_text());
        Ok(())
    }

    /// Validates metadata, schema and the rules of the kind. Reports all errors together. `is_as_recorded` is whether
    /// managedFields are as `ownership` wrote them.
    async fn validate(
        &self,
        request: &WriteRequest,
        old: Option<&Value>,
        candidate: &mut Value,
        empties: Remaining,
        is_as_recorded: bool,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let target = &request.target;
        let schema = &target.working_version().schema;
        // Empty lists and maps become absent when they are stored, but objects are validated as they were written.
        let empties = match empties {
            Remaining::Hidden => Empties::Preserve,
            _ => Empties::PreserveSerialized,
        };
        // The server wrote managedFields in this form; only policies and webhooks may have changed them since.
        let managed_fields = if is_as_recorded { candidate.remove_at(&MANAGED_FIELDS) } else { None };
        typed::normalize_with(schema, candidate, empties);
        if let Some(managed_fields) = managed_fields {
            candidate.set_at(&MANAGED_FIELDS, managed_fields);
        }
        match old {
            None => {
                let reserves_names = self.admission.plugins.allows_manifests();
                validation::create(target, candidate, &|| self.namespace_of(target), reserves_names)?;
            }
            Some(old) => {
                let mut refused = FieldErrors::new();
                target.kind.hooks.validate_update_in_namespace(
                    target.scope(),
                    candidate,
                    old,
                    &|| self.namespace_of(target),
                    &mut refused,
                );
                if claim_rights::applies_to(target) {
                    self.check_claim_rights(request, candidate, old, &mut refused).await;
                }
                validation::update(target, candidate, old, refused, warnings)?;
                if signer_rights::applies_to(target) {
                    self.check_signer_rights(request, candidate, old).await?;
                }
            }
        }
        // A write of the status that creates the object is a create like any other.
        if old.is_none() || target.scope() == Scope::Main {
            warnings.extend(target.working_version().hooks.warnings(candidate, old));
        }
        Ok(())
    }

    /// Prepares a new object: uid, creation time, name, generation.
    fn prepare_create(&self, target: &Target, object: &mut Value) -> Result<(), Status> {
        metadata::fill_system_fields(
            object,
            crate::environment::new_uid(&*self.storage.random),
            &self.storage.now_text(),
        );
        let prefix = object.str_at(&["metadata", "generateName"]);
        if object.str_at(&["metadata", "name"]).is_empty() && !prefix.is_empty() {
            let name = pintle_meta::generated::name(prefix, &mut || self.storage.random.number());
            object.set_at(&["metadata", "name"], Value::String(name));
        }
        metadata::default_namespace(object, target)?;
        target.kind.prepare_create(target.working_version().hooks, object);
        features::drop_disabled(object, &target.kind, None);
        if target.kind.rules.generation.starts_at_one() {
            metadata::set_generation(object, 1);
        }
        Ok(())
    }
}

/// The live object of a write: the cached object, and its tree with resourceVersion.
pub(crate) struct Live {
    pub(crate) object: Arc<Object>,
    pub(crate) tree: Value,
}

/// Returns whether an object has the labels of its pod template. Admission may have changed them.
fn has_template_labels(object: &Value) -> bool {
    let labels = |keys: &[&str]| object.at(keys).and_then(Value::as_object).filter(|map| !map.is_empty());
    labels(&["metadata", "labels"]) == labels(&TEMPLATE_LABELS)
}

/// Adds the empty lists and maps of `object` to `old`, so that comparisons take an empty and an absent one as equal.
fn align_empties(target: &Target, object: &Value, old: &mut Option<Cow<'_, Value>>) {
    if let Some(old) = old {
        typed::align_empties(&target.working_version().schema, object, old.to_mut());
    }
}

/// Brings a validated object into the form that is stored.
fn canonicalize(request: &WriteRequest, old: Option<&Value>, candidate: &mut Value, empties: Remaining) {
    let version = request.target.working_version();
    if empties == Remaining::Hidden {
        typed::normalize_with(&version.schema, candidate, Empties::PreserveSerialized);
    }
    version.hooks.canonicalize(candidate);
    if let Some(old) = old {
        ownership::keep_times(candidate, old);
    }
}

/// The error of a write that lost against other writes, in kube-apiserver's words.
fn modified(target: &Target) -> Status {
    Status::conflict(&target.group_resource(), &target.name, MODIFIED)
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

/// Prepares a changed object: copies what an update may not change from the old one. `stored` is `old` without the empty
/// lists and maps of `object`.
fn prepare_update(target: &Target, object: &mut Value, old: &Value, stored: &Value) -> Result<(), Status> {
    metadata::default_namespace(object, target)?;
    metadata::set_generation(object, metadata::generation(old));
    let hooks = target.working_version().hooks;
    let generation = target.kind.rules.generation;
    let changes_spec = matches!(target.scope(), Scope::Main | Scope::Sub("ephemeralcontainers" | "resize"));
    let counts = generation.counts_changes() && changes_spec;
    let compared = if generation == Generation::CountedExactly { stored } else { old };
    let counts_now = counts && hooks.counts_dropped_fields() && hooks.new_generation(object, compared);
    target.kind.prepare_update(hooks, target.scope(), object, old);
    features::drop_disabled(object, &target.kind, Some(old));
    metadata::inherit(object, old);
    if counts_now || counts && hooks.new_generation(object, compared) {
        metadata::set_generation(object, metadata::next_generation(old));
    }
    Ok(())
}
