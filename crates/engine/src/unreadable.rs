//! What is said of objects that are kept but cannot be shown: they are of a version that their definition has no more,
//! or a webhook does not convert them.

use crate::{Engine, Target};
use pintle_cache::Object;
use pintle_meta::{Cause, Status};
use std::sync::Arc;

/// How many objects that cannot be shown the error of a list names.
const NAMED_MAX: usize = 100;
/// When a client shall ask again for what nobody can be shown.
pub(crate) const RETRY_SECONDS: i32 = 1;

/// An object that cannot be shown.
pub(crate) struct Fault {
    pub(crate) object: Arc<Object>,
    pub(crate) why: String,
}

/// Those of a list, as many as are told.
#[derive(Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    /// Notes one more; whether that was one too many.
    pub(crate) fn add(&mut self, object: &Arc<Object>, why: &str) -> bool {
        self.0.push(Fault { object: object.clone(), why: why.to_string() });
        self.is_full()
    }

    /// Whether there are more than are told.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() > NAMED_MAX
    }

    /// The first one, by which a single object is told.
    pub(crate) fn into_first(self) -> Option<Fault> {
        self.0.into_iter().next()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Engine {
    /// Whether there are stored values of built-in kinds that cannot be read, or any that cannot be decrypted:
    /// kube-apiserver is not ready then.
    pub fn has_unreadable_values(&self) -> bool {
        let kinds = self.registry.kinds();
        kinds.all().any(|kind| {
            let is_builtin = kind.storage_version().schema.is_go();
            let resource =
                self.cache.resource(&kind.store_prefix).filter(|resource| resource.may_have_unreadable());
            resource.is_some_and(|resource| {
                let view = resource.view();
                view.iter().any(|object| {
                    object.unreadable().is_some() && (is_builtin || object.is_untransformable())
                })
            })
        })
    }

    /// The answer to who wants to see or delete the object.
    pub(crate) fn cannot_show(&self, target: &Target, object: &Object, why: &str) -> Status {
        if !self.unsafe_deletion {
            return plain(object, why);
        }
        let key = target.key_of(object);
        Status::internal(&corrupt(key.strip_prefix("/registry").unwrap_or(&key), object, why))
    }

    /// The answer to who wants to change the object.
    pub(crate) fn cannot_change(&self, object: &Object, why: &str) -> Status {
        match self.unsafe_deletion {
            true => plain(object, &undecodable(object, why)),
            false => plain(object, why),
        }
    }

    /// The answer to who wants to see a list in which these are.
    pub(crate) fn cannot_list(&self, target: &Target, faults: &Faults) -> Status {
        let Faults(faults) = faults;
        if !self.unsafe_deletion {
            let first = faults.first().map(|Fault { object, why }| match object.is_untransformable() {
                true => format!("unable to transform key \"{}\": {why}", target.key_of(object)),
                false => why.clone(),
            });
            return Status::unclassified(first.unwrap_or_default());
        }
        let resource = target.group_resource();
        let mut status =
            Status::store_read_error(format!("failed to read one or more {resource} from the storage"));
        let causes = faults.iter().enumerate().map(|(at, Fault { object, why })| match at < NAMED_MAX {
            true => {
                let key = target.key_of(object);
                let message = corrupt(&key, object, why);
                Cause { reason: "UnexpectedServerResponse".into(), message, field: key.into() }
            }
            false => Cause {
                reason: "FieldValueTooMany".into(),
                message: "too many errors, the list is truncated".to_string(),
                ..Cause::default()
            },
        });
        status.details.causes = causes.collect();
        status.details.name = "list".into();
        status.details.group = resource.group;
        status.details.kind = resource.resource;
        status
    }

    /// The answer to who wants to follow a collection that cannot be shown to begin with, because of this.
    pub(crate) fn cannot_follow(&self, target: &Target, unlisted: &Status) -> Status {
        let gvk = target.kind_version().gvk(&target.kind);
        let of = match target.kind_version().schema.is_go() {
            // The Go type that kube-apiserver has for all versions, in a package named after the group.
            true => {
                let package = target.kind.group.split('.').next().filter(|name| !name.is_empty());
                format!("*{}.{}", package.unwrap_or("core"), gvk.kind)
            }
            false => format!("{}, Kind={}", gvk.group_version(), gvk.kind),
        };
        let why = format!("storage is (re)initializing: failed to list {of}: {}", unlisted.message);
        Status::too_many_requests(why, RETRY_SECONDS)
    }
}

fn corrupt(key: &str, object: &Object, why: &str) -> String {
    let why = undecodable(object, why);
    format!(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    )
}

fn undecodable(object: &Object, why: &str) -> String {
    match object.is_untransformable() {
        // kube-apiserver does not look at the revision before it has decrypted the value.
        true => format!("data from the storage is not transformable revision=0: {why}"),
        false => format!("object not decodable revision={}: {why}", object.revision()),
    }
}

/// An error of decryption is one of the server, an error of decoding is passed on.
fn plain(object: &Object, why: &str) -> Status {
    match object.is_untransformable() {
        true => Status::internal(why),
        false => Status::unclassified(why),
    }
}
