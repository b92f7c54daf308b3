//! Operations of the server itself: writes of its controllers, objects that it needs, and reads of stored trees.

use crate::decode::Media;
use crate::registry::BuiltInGroup;
use crate::retry::{ATTEMPTS_MAX, Attempts, too_many_conflicts};
use crate::write::Live;
use crate::{Body, Change, Reader, Storage, Target, WriteRequest, Writer, metadata, object, ownership};
use pintle_auth::UserInfo;
use pintle_cache::{Extract, Object, ReadForm, Registration};
use pintle_kinds::{Kind, KindVersion, features};
use pintle_meta::Status;
use pintle_meta::options::FieldValidation;
use pintle_schema::typed;
use pintle_store::{BoxFuture, Expect, Revision, Write, WriteError};
use pintle_value::{Str, Value, json};
use std::sync::Arc;

impl Storage {
    /// Registers the built-in kinds and loads their objects into the cache.
    pub fn install_all(&self, kinds: impl Iterator<Item = Arc<Kind>>) {
        for kind in kinds {
            self.load(&kind);
            self.registry.install(kind);
        }
    }

    /// Registers the kind of a definition, replacing an older kind of the same name. If nothing changed that affects
    /// decoded objects, they stay cached and watches continue; otherwise they are decoded again. `ends_watches` ends
    /// the watches in either case.
    pub fn define(&self, kind: Arc<Kind>, ends_watches: bool) -> Result<(), BuiltInGroup> {
        // Check this first: the objects of a built-in kind must never be decoded with the schema of a definition.
        self.registry.check_definable(&kind)?;
        let kinds = self.registry.kinds();
        let alike = kinds.by_plural(&kind.group, &kind.plural).is_some_and(|old| reads_alike(old, &kind));
        let resource = self.cache.resource(&kind.store_prefix).filter(|_| alike);
        let reader = object::KindExtract(kind.clone());
        let unchanged =
            |object: &Object| object.is_as_stored() && reader.read(object.value()).1 == ReadForm::AsStored;
        match resource {
            Some(resource) if resource.view().iter().all(|object| unchanged(object)) => {
                resource.set_reader(Arc::new(reader));
                self.registry.define(kind)?;
                if ends_watches {
                    resource.end_watches();
                }
                Ok(())
            }
            _ => {
                self.load(&kind);
                self.registry.define(kind)
            }
        }
    }

    /// Unregisters the kind of a definition. Its objects stay in the store.
    pub fn undefine(&self, group: &str, plural: &str) {
        if let Some(kind) = self.registry.undefine(group, plural) {
            self.cache.unregister(&kind.store_prefix);
        }
    }

    /// Loads the objects of a kind into the cache.
    fn load(&self, kind: &Arc<Kind>) {
        self.cache.register(Registration {
            prefix: Arc::from(kind.store_prefix.as_str()),
            namespaced: kind.namespaced,
            extract: Arc::new(object::KindExtract(kind.clone())),
        });
    }

    /// Resolves a resource to a target; `None` if the resource is not served.
    pub fn target(
        &self,
        group: &str,
        version: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Target> {
        let (kind, version) = self.registry.kinds().resource(group, version, plural)?;
        Some(Target {
            kind,
            version,
            namespace: namespace.into(),
            name: name.into(),
            subresource: Str::default(),
        })
    }

    /// The user as which the server itself acts.
    pub fn system_user(&self) -> Arc<UserInfo> {
        UserInfo::new("system:apiserver", &[UserInfo::MASTERS, UserInfo::AUTHENTICATED]).into()
    }

    /// Makes a write; returns `false` if it conflicts with another one, which another server may have made.
    pub(crate) async fn try_write(&self, write: Write) -> Result<bool, Status> {
        match self.store.write(write).await {
            Ok(_) => Ok(true),
            Err(WriteError::Conflict { .. }) => Ok(false),
            Err(error) => Err(crate::status::write_error(error)),
        }
    }
}

impl Reader {
    /// Returns an object as a tree in the storage version, with its resourceVersion.
    pub fn object_tree(&self, target: &Target) -> Result<Option<Value>, Status> {
        Ok(self.live(target)?.map(|live| live.tree))
    }
}

impl Writer {
    /// Removes an object if it is still at this revision, whatever finalizers it has.
    pub async fn forget(&self, target: &Target, revision: u64) -> Result<(), Status> {
        let delete = Write::delete(target.store_key(), Expect::Revision(Revision(revision)));
        self.storage.try_write(delete).await.map(drop)
    }

    /// Changes an existing object without running admission. `manager` becomes the owner of the change, if given. If
    /// the change removes the last finalizer of an object that is being deleted, the object is removed. A missing
    /// object is not an error.
    pub async fn mutate(
        &self,
        target: &Target,
        manager: Option<&str>,
        change: impl Fn(&mut Value) + Sync,
    ) -> Result<(), Status> {
        let revision =
            || self.storage.cached(&target.kind, &target.object_key()).map(|object| object.revision());
        let before = revision();
        let change = |tree: &mut Value| {
            change(tree);
            Ok(())
        };
        self.update(target, manager, false, &change).await?;
        // kube-apiserver's controllers send a request only if something changes.
        if revision() != before {
            crate::measures::self_request(target, "PUT");
        }
        Ok(())
    }

    /// Changes an existing object with a function that may refuse, without running admission. Returns the object's new
    /// state, or `None` if it does not exist. `manager` becomes the owner of the change, if given. If the change removes
    /// the last finalizer of an object that is being deleted, the object is removed.
    pub(crate) fn update<'a>(
        &'a self,
        target: &'a Target,
        manager: Option<&'a str>,
        dry_run: bool,
        change: &'a (dyn Fn(&mut Value) -> Result<(), Status> + Sync),
    ) -> BoxFuture<'a, Result<Option<Arc<Object>>, Status>> {
        Box::pin(self.update_with_retries(target, manager, dry_run, change))
    }

    async fn update_with_retries(
        &self,
        target: &Target,
        manager: Option<&str>,
        dry_run: bool,
        change: &(dyn Fn(&mut Value) -> Result<(), Status> + Sync),
    ) -> Result<Option<Arc<Object>>, Status> {
        let mut attempts = Attempts::new(ATTEMPTS_MAX);
        loop {
            let Some(Live { object: live, tree: old }) = self.reader.live(target)? else { return Ok(None) };
            let mut tree = old.clone();
            change(&mut tree)?;
            typed::normalize(&target.kind.storage_version().schema, &mut tree);
            if let Some(manager) = manager.filter(|_| tree != old) {
                let owner = ownership::Owner { manager, now: &self.storage.now_text() };
                ownership::record(target, owner, Some(&old), &mut tree);
            }
            let removes = metadata::completes_deletion(&tree, &old) && target.kind.hooks.may_remove(&tree);
            tree.remove_at(&["metadata", "resourceVersion"]);
            let encoded = object::encode(&target.kind, &tree);
            if dry_run || (encoded == *live.value() && !removes) {
                return Ok(Some(live));
            }
            let expect = Expect::Revision(Revision(live.revision()));
            let committed = if removes {
                self.erase(target, expect, &old).await.map(|_| live)
            } else {
                self.storage.commit(target, Write::put(target.store_key(), expect, encoded), &tree).await
            };
            match committed {
                Ok(object) => return Ok(Some(object)),
                Err(WriteError::Conflict { .. }) => attempts.again(|| too_many_conflicts(target))?,
                Err(error) => return Err(crate::status::write_error(error)),
            }
        }
    }

    /// Applies the status of an object with server-side apply, as a controller does. A missing object is not an
    /// error.
    pub async fn apply_status(&self, target: &Target, manager: &str, status: Value) -> Result<(), Status> {
        let mut object = Value::object();
        object.set_at(&["status"], status);
        match self.apply(&target.sub("status"), manager, object).await {
            Err(status) if status.code == 404 => Ok(()),
            other => other,
        }
    }

    /// Applies fields of an object with server-side apply and force, as a controller does.
    pub async fn apply(&self, target: &Target, manager: &str, mut object: Value) -> Result<(), Status> {
        let gvk = target.kind_version().gvk(&target.kind);
        object.set_at(&["apiVersion"], gvk.group_version().to_string().as_str().into());
        object.set_at(&["kind"], gvk.kind.as_str().into());
        object.set_at(&["metadata", "name"], target.name.as_str().into());
        let bytes = json::bytes(&object);
        let request = WriteRequest {
            target: target.clone(),
            change: Change::Apply { body: Body { bytes: bytes.into(), media: Media::Json }, force: true },
            dry_run: false,
            field_manager: manager.into(),
            user_agent: String::new(),
            validation: Some(FieldValidation::Strict),
            user: self.storage.system_user(),
        };
        self.write(&request).await.map(drop)
    }

    /// Creates an object that the server needs, unless it exists. The tree is in the storage version.
    pub fn ensure<'a>(
        &'a self,
        target: &'a Target,
        manager: &'a str,
        tree: Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.create_if_missing(target, manager, tree))
    }

    async fn create_if_missing(&self, target: &Target, manager: &str, mut tree: Value) -> Result<(), Status> {
        let kind = &target.kind;
        let target = target.named(tree.str_at(&["metadata", "name"]));
        if self.storage.cached(kind, &target.object_key()).is_some() {
            return Ok(());
        }
        crate::measures::self_request(&target, "POST");
        metadata::fill_system_fields(
            &mut tree,
            crate::environment::new_uid(&*self.storage.random),
            &self.storage.now_text(),
        );
        metadata::default_namespace(&mut tree, &target)?;
        kind.storage_version().apply_defaults(&mut tree);
        typed::normalize(&kind.storage_version().schema, &mut tree);
        let owner = ownership::Owner { manager, now: &self.storage.now_text() };
        // As in any other write, fields that the kind's defaulting sets have no owner.
        ownership::record(&target, owner, None, &mut tree);
        kind.prepare_create(kind.hooks, &mut tree);
        features::drop_disabled(&mut tree, kind, None);
        kind.hooks.canonicalize(&mut tree);
        if kind.rules.generation.starts_at_one() {
            metadata::set_generation(&mut tree, 1);
        }
        typed::normalize(&kind.storage_version().schema, &mut tree);
        tree.remove_at(&["metadata", "resourceVersion"]);
        self.storage
            .try_write(Write::put(target.store_key(), Expect::Absent, object::encode(kind, &tree)))
            .await?;
        self.count_allocations(&target, &tree);
        Ok(())
    }
}

/// Returns whether objects decoded under the old kind are valid under the new one.
fn reads_alike(old: &Kind, new: &Kind) -> bool {
    let same_version = |a: &KindVersion, b: &KindVersion| {
        let fields = |v: &KindVersion| {
            v.selectable.iter().map(|f| (f.label.clone(), f.path.clone())).collect::<Vec<_>>()
        };
        a.name == b.name && fields(a) == fields(b)
    };
    old.store_prefix == new.store_prefix
        && old.namespaced == new.namespaced
        && old.storage == new.storage
        && old.kind == new.kind
        && old.conversion == new.conversion
        && old.versions.len() == new.versions.len()
        && old.versions.iter().zip(&new.versions).all(|(a, b)| same_version(a, b))
}
