//! Every mutation but deletion: one function from the request to the commit.

use crate::convert::Conversions;
use crate::propose::{self, Change, Proposed};
use crate::{Engine, Target, metadata, object, ownership, subresource};
use bytes::Bytes;
use pintle_admission::{Attributes, Operation};
use pintle_auth::UserInfo;
use pintle_cache::Object;
use pintle_kinds::{Asker, Generation, Scope};
use pintle_meta::options::FieldValidation;
use pintle_meta::{FieldErrors, Status, names, objectmeta, rv};
use pintle_schema::{Schema, Shape, structural, typed};
use pintle_store::{Expect, Revision, Write, WriteError};
use pintle_value::{Path, Str, Value};
use std::sync::Arc;

/// How often a write that names no resourceVersion is tried again when others get in between.
const ATTEMPTS_MAX: usize = 64;
/// How often a write may lose to others before those that lose take turns.
const CROWDED_AFTER: usize = 8;
/// How often a generated name is drawn anew when it is taken.
const GENERATED_NAMES_MAX: usize = 8;

const MODIFIED: &str =
    "the object has been modified; please apply your changes to the latest version and try again";

const DEFINITION_ENDING: &str = "create not allowed while custom resource definition is terminating";

/// Lets writes that keep losing to others (many at once under one quota) go one after another.
#[derive(Default)]
pub struct Turns(tokio::sync::Mutex<()>);

/// A write and who asks for it.
pub struct WriteRequest {
    /// What is written.
    pub target: Target,
    /// What shall be done.
    pub change: Change,
    /// Whether everything happens but the commit.
    pub dry_run: bool,
    /// `fieldManager` of the options.
    pub field_manager: Str,
    /// The client's User-Agent.
    pub user_agent: String,
    /// What becomes of unknown fields.
    pub validation: FieldValidation,
    /// Who asks.
    pub user: UserInfo,
}

/// What came of a write.
pub struct Written {
    /// The object as it is now, in the stored version.
    pub object: Arc<Object>,
    /// Whether the write made it.
    pub created: bool,
    /// What the client shall be told.
    pub warnings: Vec<String>,
}

enum Attempt {
    Done(Written),
    Again,
    NameTaken(Status),
}

impl Engine {
    /// Creates, replaces, patches or applies an object.
    pub async fn write(&self, request: &WriteRequest) -> Result<Written, Status> {
        let mut names_taken = 0;
        let mut turn = None;
        for tried in 0..ATTEMPTS_MAX {
            if tried == CROWDED_AFTER {
                turn = Some(self.turns.0.lock().await);
            }
            match self.attempt(request).await? {
                Attempt::Done(written) => {
                    if !request.dry_run {
                        self.wait_until_served(&request.target, written.object.revision()).await;
                    }
                    return Ok(written);
                }
                Attempt::Again => {}
                Attempt::NameTaken(status) => {
                    names_taken += 1;
                    if names_taken == GENERATED_NAMES_MAX {
                        return Err(status);
                    }
                }
            }
        }
        drop(turn);
        Err(Status::conflict(&request.target.group_resource(), &request.target.name, MODIFIED))
    }

    async fn attempt(&self, request: &WriteRequest) -> Result<Attempt, Status> {
        let live = match request.change {
            Change::Create(_) => None,
            _ => self.working_live(&request.target).await?,
        };
        let Proposed { object: mut candidate, mut warnings } = self.propose(request, live.as_ref()).await?;
        let target = &request.target;
        let live_tree = live.as_ref().map(|live| &live.tree);
        let generated = candidate.str_at(&["metadata", "name"]).is_empty();
        if let Some(live) = &live {
            check_revision(target, &mut candidate, live)?;
        }
        self.admit(request, live_tree, &mut candidate, &mut warnings)?;
        warnings.extend(metadata::dedup_owner_references(&mut candidate, metadata::Dedup::Admission));
        match live_tree {
            None => self.prepare_create(target, &mut candidate)?,
            Some(old) => prepare_update(target, &mut candidate, old)?,
        }
        let hooks = target.working_version().hooks;
        if live_tree.is_none() {
            hooks.asked_by(&mut candidate, &asker(&request.user));
        }
        hooks.stamp(target.scope(), &mut candidate, live_tree, &self.now_text());
        let mut along = self.allocate(request, live_tree, &mut candidate)?;
        typed::normalize(&target.working_version().schema, &mut candidate);
        match live_tree {
            None => validate_create(target, &candidate)?,
            Some(old) => validate_update(target, &candidate, old)?,
        }
        if target.scope() == Scope::Main {
            warnings.extend(hooks.warnings(&candidate, live_tree));
        }
        hooks.canonicalize(&mut candidate);
        if let Some(old) = live_tree {
            ownership::keep_times(&mut candidate, old);
        }
        if live_tree.is_none() {
            self.authorize_creation(request)?;
        }
        self.admit_finally(request, live_tree, &candidate, &mut warnings)?;
        along.extend(self.charge(request, live_tree, &candidate)?);
        let candidate = self.to_storage(target, candidate).await?;
        match live {
            None => self.commit_create(request, candidate, generated, along, warnings).await,
            Some(live) => self.commit_update(request, live, candidate, along, warnings).await,
        }
    }

    /// The live object in the version that the write works in.
    async fn working_live(&self, target: &Target) -> Result<Option<Live>, Status> {
        let Some(Live { object, tree }) = self.live(target)? else { return Ok(None) };
        if target.kind.conversion.is_none() && target.working() == target.kind.storage {
            return Ok(Some(Live { object, tree }));
        }
        let tree = self.convert(&target.kind, tree, target.working()).await?;
        Ok(Some(Live { object, tree }))
    }

    /// The object the client wants, in the version that the write works in.
    async fn propose(&self, request: &WriteRequest, live: Option<&Live>) -> Result<Proposed, Status> {
        let target = &request.target;
        let mut conversions = Conversions::default();
        let proposed = loop {
            let proposed = match subresource::scale::paths(target) {
                Some(paths) => self.propose_scale(request, live, paths, &conversions),
                None => {
                    let spoken = live.map(|live| self.spoken(target, &live.tree));
                    self.propose_on(request, target, spoken.as_deref(), &conversions)
                }
            };
            if !conversions.make(self, &target.kind).await {
                break proposed;
            }
        };
        let mut proposed = proposed?;
        if let Change::Replace(_) = request.change {
            check_uid(target, &proposed.object, live)?;
        }
        if live.is_none() && !matches!(request.change, Change::Create(_)) {
            let creates =
                target.kind.rules.create_on_update || matches!(request.change, Change::Apply { .. });
            if !creates || !target.subresource.is_empty() {
                return Err(Status::not_found(&target.group_resource(), &target.name));
            }
        }
        object::convert(&target.kind, &mut proposed.object, target.version, target.working());
        Ok(proposed)
    }

    /// The object the client wants, in the version of the request, as `spoken`, the live object, is.
    pub(crate) fn propose_on(
        &self,
        request: &WriteRequest,
        target: &Target,
        spoken: Option<&Value>,
        conversions: &Conversions,
    ) -> Result<Proposed, Status> {
        let now = self.now_text();
        let manager = metadata::manager(&request.field_manager, &request.user_agent);
        let kinds = self.registry.kinds();
        let registered = |kind: &str, gv: &pintle_meta::GroupVersion| self.is_registered(&kinds, kind, gv);
        let owner = ownership::Owner { manager: &manager, now: &now };
        let cx = propose::Context { target, validation: request.validation, registered: &registered };
        let proposed = match &request.change {
            Change::Create(body) => {
                let mut proposed = propose::decode_object(&cx, body)?;
                metadata::wipe_system_fields(&mut proposed.object);
                metadata::settle_namespace(&mut proposed.object, target)?;
                ownership::record_with(target, owner, None, &mut proposed.object, conversions);
                proposed
            }
            Change::Replace(body) => {
                let mut proposed = propose::decode_object(&cx, body)?;
                metadata::settle_namespace(&mut proposed.object, target)?;
                metadata::check_name(&proposed.object, target)?;
                ownership::record_with(target, owner, spoken, &mut proposed.object, conversions);
                proposed
            }
            Change::Patch(kind, body) => {
                let Some(spoken) = spoken else {
                    return Err(Status::not_found(&target.group_resource(), &target.name));
                };
                let mut proposed = propose::patch_object(&cx, spoken, *kind, body)?;
                ownership::record_with(target, owner, Some(spoken), &mut proposed.object, conversions);
                proposed
            }
            Change::Apply { body, force } => {
                let config = propose::Configuration::decode(body)?;
                let (mut object, unknown) =
                    ownership::apply(target, owner, spoken, &config.tree, *force, conversions)?;
                propose::complete(target, &mut object);
                let warnings = config.complaints(request.validation, &unknown)?;
                check_no_uid(target, &object, spoken)?;
                metadata::settle_namespace(&mut object, target)?;
                metadata::check_name(&object, target)?;
                Proposed { object, warnings }
            }
        };
        Ok(proposed)
    }

    fn admit(
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
        let before = candidate.at(&["metadata", "managedFields"]).cloned();
        self.admission.mutate(&attributes, candidate, self)?;
        warnings.extend(ownership::keep_readable(candidate, before));
        Ok(())
    }

    fn admit_finally(
        &self,
        request: &WriteRequest,
        old: Option<&Value>,
        candidate: &Value,
        warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        let name = admission_name(request, candidate);
        let attributes = attributes(request, old, &name);
        self.admission.validate(&attributes, Some(candidate), self, warnings)
    }

    /// The first state of a new object: uid, time, name, generation.
    fn prepare_create(&self, target: &Target, object: &mut Value) -> Result<(), Status> {
        metadata::fill_system_fields(object, crate::environment::new_uid(&*self.random), &self.now_text());
        let prefix = object.str_at(&["metadata", "generateName"]);
        if object.str_at(&["metadata", "name"]).is_empty() && !prefix.is_empty() {
            let name = pintle_meta::generated::name(prefix, &mut || self.random.number());
            object.set_at(&["metadata", "name"], Value::String(name));
        }
        metadata::settle_namespace(object, target)?;
        target.working_version().hooks.prepare_create(object);
        match target.kind.rules.generation {
            Generation::Counted | Generation::Fixed => metadata::set_generation(object, 1),
            Generation::CountedFromZero => metadata::set_generation(object, 0),
            Generation::Unset => {}
        }
        Ok(())
    }

    /// What becomes of a create whose name is taken: a generated name is drawn anew, a given one is refused.
    fn name_taken(&self, target: &Target, candidate: &Value, generated: bool) -> Result<Attempt, Status> {
        let resource = target.group_resource();
        if !candidate.str_at(&["metadata", "generateName"]).is_empty() {
            let status = Status::generate_name_conflict(&resource, &target.name, 1);
            return if generated { Ok(Attempt::NameTaken(status)) } else { Err(status) };
        }
        let mut status = Status::already_exists(&resource, &target.name);
        if self.live(target)?.is_some_and(|live| metadata::is_deleting(&live.tree)) {
            status.message = format!("object is being deleted: {}", status.message);
        }
        Err(status)
    }

    async fn commit_create(
        &self,
        request: &WriteRequest,
        mut candidate: Value,
        generated: bool,
        along: Vec<Write>,
        warnings: Vec<String>,
    ) -> Result<Attempt, Status> {
        let name = Str::from(candidate.str_at(&["metadata", "name"]));
        let target = request.target.named(&name);
        candidate.remove_at(&["metadata", "selfLink"]);
        let revision = candidate.remove_at(&["metadata", "resourceVersion"]);
        let named = revision.is_some_and(|v| v.as_str().is_some_and(|s| !s.is_empty() && s != "0"));
        if named && matches!(request.change, Change::Create(_)) {
            let why = "resourceVersion should not be set on objects to be created";
            return Err(Status::unclassified(why));
        }
        let encoded = object::encode(&target.kind, &candidate);
        if request.dry_run {
            if self.live(&target)?.is_some() {
                return self.name_taken(&target, &candidate, generated);
            }
            let object = object::unstored(&target, &encoded, &candidate, 0)?;
            return Ok(Attempt::Done(Written { object, created: true, warnings }));
        }
        let own = target.store_key();
        match self.put(request, &target, Expect::Absent, encoded, &mut candidate, along).await {
            Ok(object) => Ok(Attempt::Done(Written { object, created: true, warnings })),
            Err(WriteError::Conflict { key, .. })
                if key != own || !matches!(request.change, Change::Create(_)) =>
            {
                Ok(Attempt::Again)
            }
            Err(WriteError::Conflict { .. }) => self.name_taken(&target, &candidate, generated),
            Err(error) => Err(crate::status::write_error(error)),
        }
    }

    /// Stores `encoded`, which is `candidate`. One that is too large is tried without its managed fields, which
    /// nobody needs to keep but who applies.
    async fn put(
        &self,
        request: &WriteRequest,
        target: &Target,
        expect: Expect,
        encoded: Bytes,
        candidate: &mut Value,
        along: Vec<Write>,
    ) -> Result<Arc<Object>, WriteError> {
        let write = Write::put(target.store_key(), expect, encoded);
        match self.commit_along(target, write, candidate, along.clone()).await {
            Err(WriteError::TooLarge { .. }) if !matches!(request.change, Change::Apply { .. }) => {
                candidate.remove_at(&["metadata", "managedFields"]);
                let encoded = object::encode(&target.kind, candidate);
                let write = Write::put(target.store_key(), expect, encoded);
                self.commit_along(target, write, candidate, along).await
            }
            outcome => outcome,
        }
    }

    async fn commit_update(
        &self,
        request: &WriteRequest,
        live: Live,
        mut candidate: Value,
        along: Vec<Write>,
        warnings: Vec<String>,
    ) -> Result<Attempt, Status> {
        let target = &request.target;
        let removes =
            metadata::completes_deletion(&candidate, &live.tree) && target.kind.hooks.may_remove(&candidate);
        for key in ["resourceVersion", "selfLink"] {
            candidate.remove_at(&["metadata", key]);
        }
        let encoded = object::encode(&target.kind, &candidate);
        if encoded == *live.object.value() && !removes {
            return Ok(Attempt::Done(unchanged(Some(live), warnings)?));
        }
        if request.dry_run {
            let object = object::unstored(target, &encoded, &candidate, live.object.revision())?;
            return Ok(Attempt::Done(Written { object, created: false, warnings }));
        }
        let expect = Expect::Revision(Revision(live.object.revision()));
        let committed = if removes {
            // The client expects the object it wrote, at the revision it knew.
            let last = object::unstored(target, &encoded, &candidate, live.object.revision())?;
            self.erase(target, expect, &live.tree).await.map(|_| last)
        } else {
            self.put(request, target, expect, encoded, &mut candidate, along).await
        };
        match committed {
            Ok(object) => Ok(Attempt::Done(Written { object, created: false, warnings })),
            Err(WriteError::Conflict { .. }) => Ok(Attempt::Again),
            Err(error) => Err(crate::status::write_error(error)),
        }
    }
}

/// The live object of a write: as it is kept, and as a tree with its resourceVersion.
pub(crate) struct Live {
    pub(crate) object: Arc<Object>,
    pub(crate) tree: Value,
}

fn unchanged(live: Option<Live>, warnings: Vec<String>) -> Result<Written, Status> {
    let live = live.ok_or_else(|| Status::internal("an absent object cannot be unchanged"))?;
    Ok(Written { object: live.object, created: false, warnings })
}

fn asker(user: &UserInfo) -> Asker<'_> {
    Asker { name: &user.name, uid: &user.uid, groups: &user.groups, extra: &user.extra }
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
    }
}

/// A uid in the body of a PUT is a precondition.
fn check_uid(target: &Target, object: &Value, live: Option<&Live>) -> Result<(), Status> {
    let wanted = object.str_at(&["metadata", "uid"]);
    if wanted.is_empty() || (live.is_none() && !target.kind.rules.create_on_update) {
        return Ok(());
    }
    let actual = live.map(|live| live.tree.str_at(&["metadata", "uid"])).unwrap_or("");
    if wanted == actual {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: UID in precondition: {wanted}, UID in object meta: {actual}",
        target.store_key()
    );
    Err(Status::conflict(&target.group_resource(), &target.name, &why))
}

/// An object that an apply makes has no uid yet.
fn check_no_uid(target: &Target, object: &Value, live: Option<&Value>) -> Result<(), Status> {
    let uid = object.str_at(&["metadata", "uid"]);
    if live.is_some() || uid.is_empty() {
        return Ok(());
    }
    let why =
        format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
    Err(Status::conflict(&target.group_resource(), &target.name, &why))
}

/// Settles on which revision an update stands, or refuses it.
fn check_revision(target: &Target, object: &mut Value, live: &Live) -> Result<(), Status> {
    let resource = target.group_resource();
    let text = object.str_at(&["metadata", "resourceVersion"]);
    let named = rv::parse_of_object(text)?;
    let current = live.object.revision();
    if named == 0 && target.kind.rules.unconditional_update {
        object.set_at(&["metadata", "resourceVersion"], current.to_string().into());
        return Ok(());
    }
    if named == 0 {
        return Err(rv::version_required(&resource, &target.name));
    }
    if named != current {
        return Err(Status::conflict(&resource, &target.name, MODIFIED));
    }
    Ok(())
}

/// Brings a changed object in line with the one it replaces.
fn prepare_update(target: &Target, object: &mut Value, old: &Value) -> Result<(), Status> {
    metadata::settle_namespace(object, target)?;
    metadata::set_generation(object, metadata::generation(old));
    let hooks = target.working_version().hooks;
    hooks.prepare_update(target.scope(), object, old);
    metadata::inherit(object, old);
    let counted = matches!(target.kind.rules.generation, Generation::Counted | Generation::CountedFromZero);
    let changes_spec = matches!(target.scope(), Scope::Main | Scope::Sub("ephemeralcontainers" | "resize"));
    let counts = counted && changes_spec;
    if counts && hooks.new_generation(object, old) {
        metadata::set_generation(object, metadata::generation(old) + 1);
    }
    Ok(())
}

/// All that is wrong with a new object: the kind's own rules first, then those of any object.
fn validate_create(target: &Target, object: &Value) -> Result<(), Status> {
    let kind = &target.kind;
    let name = object.str_at(&["metadata", "name"]);
    let null = Value::Null;
    let meta = object.get("metadata").unwrap_or(&null);
    let path = Path::of("metadata");
    let mut errors = FieldErrors::new();
    if kind.hooks.validates_metadata() {
        let own_rule = |name: &str, prefix: bool| kind.hooks.name_errors(name, prefix);
        objectmeta::validate_create(meta, kind.namespaced, &own_rule, &path, &mut errors);
    }
    validate_by_schema(target, object, None, &mut errors);
    kind.hooks.validate_create_in(target.kind_version(), object, &mut errors);
    if errors.is_empty() {
        objectmeta::validate_create(meta, kind.namespaced, &names::path_segment_name, &path, &mut errors);
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid(&kind.group_kind(), name, &errors)) }
}

/// What the schema of a custom resource has against an object; built-in kinds are checked by their hooks.
fn validate_by_schema(target: &Target, object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let schema = &target.working_version().schema;
    if schema.is_go() {
        return;
    }
    let (arena, root) = (schema.arena(), schema.root());
    match target.scope() {
        Scope::Sub("status") => validate_status_by_schema(schema, object, old, errors),
        _ => structural::validate_change(arena, root, object, old, &Path::ROOT, errors),
    }
    subresource::scale::validate_numbers(target, object, errors);
    // Embedded objects are not looked at when the status is written: a quirk of kube-apiserver.
    if target.scope() != Scope::Sub("status") {
        structural::validate_embedded(arena, root, object, &Path::ROOT, errors);
    }
    let mut before = FieldErrors::new();
    if let Some(old) = old {
        structural::validate_lists(arena, root, old, &Path::ROOT, &mut before);
    }
    if before.is_empty() {
        structural::validate_lists(arena, root, object, &Path::ROOT, errors);
    }
}

/// The status is looked at on its own; its errors name what is in it from there.
fn validate_status_by_schema(schema: &Schema, object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let Shape::Struct(root) = &schema.node().shape else { return };
    let (Some(field), Some(status)) = (root.field("status"), object.get("status")) else { return };
    let mut found = FieldErrors::new();
    let old = old.and_then(|old| old.get("status"));
    structural::validate_change(schema.arena(), field.node, status, old, &Path::ROOT, &mut found);
    errors.0.extend(structural::within(found, "status").0);
}

/// All that is wrong with a changed object. Metadata is checked twice, by the rules of any object and by the
/// kind's, and its errors come twice, as kube-apiserver lists them.
fn validate_update(target: &Target, object: &Value, old: &Value) -> Result<(), Status> {
    let kind = &target.kind;
    let null = Value::Null;
    let (meta, old_meta) = (object.get("metadata").unwrap_or(&null), old.get("metadata").unwrap_or(&null));
    let path = Path::of("metadata");
    let mut errors = FieldErrors::new();
    objectmeta::validate_create(meta, kind.namespaced, &names::path_segment_name, &path, &mut errors);
    objectmeta::validate_update(meta, old_meta, &path, &mut errors);
    if kind.hooks.validates_metadata() {
        objectmeta::validate_update(meta, old_meta, &path, &mut errors);
        if kind.storage_version().schema.is_go() {
            objectmeta::validate_core_finalizers(meta, &path, &mut errors);
        }
    }
    validate_by_schema(target, object, Some(old), &mut errors);
    kind.hooks.validate_update_in(target.kind_version(), target.scope(), object, old, &mut errors);
    if errors.is_empty() {
        return Ok(());
    }
    Err(Status::invalid(&kind.group_kind(), object.str_at(&["metadata", "name"]), &errors))
}
