//! Errors for objects that are stored but cannot be returned: their definition no longer has their version, or a
//! webhook fails to convert them.

use crate::{Reader, Storage, Target};
use pintle_cache::Object;
use pintle_meta::{Cause, Status};
use pintle_metrics::families;
use std::sync::Arc;
use std::time::Duration;

/// How many undecodable objects the error of a list names.
const NAMED_MAX: usize = 100;
/// How often values are read again if other servers write at the same time.
const REREADS_MAX: usize = 100;
/// The `Retry-After` for objects that cannot be returned to any client.
pub(crate) const RETRY_SECONDS: i32 = 1;

/// An object that cannot be returned, and the reason.
pub(crate) struct Fault {
    pub(crate) object: Arc<Object>,
    pub(crate) why: String,
}

/// The objects of a list that cannot be returned, up to the number that its error names.
#[derive(Default)]
pub(crate) struct Faults(Vec<Fault>);

impl Faults {
    /// Adds one more. Returns whether the limit is exceeded.
    pub(crate) fn add(&mut self, object: &Arc<Object>, why: &str) -> bool {
        self.0.push(Fault { object: object.clone(), why: why.to_string() });
        self.is_full()
    }

    /// Returns whether there are more unreadable objects than the error names.
    pub(crate) fn is_full(&self) -> bool {
        self.0.len() > NAMED_MAX
    }

    /// The first one, which the error of a single-object request reports.
    pub(crate) fn into_first(self) -> Option<Fault> {
        self.0.into_iter().next()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Storage {
    /// Returns whether stored values of built-in kinds cannot be decoded, or any value cannot be decrypted.
    /// kube-apiserver is not ready then.
    pub fn has_unreadable_values(&self) -> bool {
        let kinds = self.registry.kinds();
        kinds.all().any(|kind| {
            let is_builtin = kind.storage_version().schema.is_built_in();
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

    /// Reads the objects anew that could not be decrypted when they were loaded.
    pub async fn reread_untransformable(&self) {
        let kinds = self.registry.kinds();
        for kind in kinds.all() {
            let Some(resource) = self.cache.resource(&kind.store_prefix) else { continue };
            let is_lost = |resource: &pintle_cache::Resource| {
                resource.may_have_unreadable()
                    && resource.view().iter().any(|object| object.is_untransformable())
            };
            if !is_lost(&resource) {
                continue;
            }
            for _ in 0..REREADS_MAX {
                // The embedded store only has the latest state, so a write in between makes this a read of the past.
                let stored = self.store.read_at(&kind.store_prefix, self.store.revision()).await;
                if let Ok(stored) = stored {
                    resource.reread(&stored);
                    break;
                }
            }
        }
    }
}

impl Reader {
    /// The error for a request that reads or deletes the object.
    pub(crate) fn unreadable_error(&self, target: &Target, object: &Object, why: &str) -> Status {
        count(target, object);
        if !self.unsafe_deletion {
            return plain(object, why);
        }
        let key = target.key_of(object);
        Status::internal(&corrupt_text(key.strip_prefix("/registry").unwrap_or(&key), object, why))
    }

    /// The error for a request that changes the object.
    pub(crate) fn unreadable_change_error(&self, target: &Target, object: &Object, why: &str) -> Status {
        count(target, object);
        if self.unsafe_deletion { plain(object, &undecodable_text(object, why)) } else { plain(object, why) }
    }

    /// The error for a list that contains these objects.
    pub(crate) fn unreadable_list_error(&self, target: &Target, faults: &Faults) -> Status {
        let Faults(faults) = faults;
        // Without this feature, the list fails at the first such object.
        let counted = if self.unsafe_deletion { faults.len() } else { 1 };
        faults.iter().take(counted).for_each(|fault| count(target, &fault.object));
        if !self.unsafe_deletion {
            let first = faults.first().map(|Fault { object, why }| {
                if object.is_untransformable() {
                    format!("unable to transform key \"{}\": {why}", target.key_of(object))
                } else {
                    why.clone()
                }
            });
            return Status::unclassified(first.unwrap_or_default());
        }
        let resource = target.group_resource();
        let mut status =
            Status::store_read_error(format!("failed to read one or more {resource} from the storage"));
        let causes = faults.iter().enumerate().map(|(at, Fault { object, why })| {
            if at < NAMED_MAX {
                let key = target.key_of(object);
                let message = corrupt_text(&key, object, why);
                Cause { reason: "UnexpectedServerResponse".into(), message, field: key.into() }
            } else {
                Cause {
                    reason: "FieldValueTooMany".into(),
                    message: "too many errors, the list is truncated".to_string(),
                    ..Cause::default()
                }
            }
        });
        status.details.causes = causes.collect();
        status.details.name = "list".into();
        status.details.group = resource.group;
        status.details.kind = resource.resource;
        status
    }

    /// The error for a watch whose initial list fails with `unlisted`.
    pub(crate) fn unreadable_watch_error(&self, target: &Target, unlisted: &Status) -> Status {
        let gvk = target.kind_version().gvk(&target.kind);
        let go_type = if target.kind_version().schema.is_built_in() {
            // The internal Go type of kube-apiserver, in a package named after the group.
            let package = target.kind.group.split('.').next().filter(|name| !name.is_empty());
            format!("*{}.{}", package.unwrap_or("core"), gvk.kind)
        } else {
            format!("{}, Kind={}", gvk.group_version(), gvk.kind)
        };
        let why = format!("storage is (re)initializing: failed to list {go_type}: {}", unlisted.message);
        let resource = self.storage.cache.resource(&target.kind.store_prefix);
        let downtime = resource.map_or(Duration::ZERO, |resource| resource.unreadable_for());
        Status::too_many_requests(why, retry_seconds(downtime))
    }
}

/// Counts an object that cannot be decoded. One that cannot be decrypted is counted by the code that tries to decrypt
/// it.
fn count(target: &Target, object: &Object) {
    if !object.is_untransformable() {
        families::DECODE_ERRORS.inc(&[&target.kind.group, &target.kind.plural]);
    }
}

/// The seconds after which a client should retry to read an object that has been unreadable for so long: as in
/// kube-apiserver, the time grows.
fn retry_seconds(downtime: Duration) -> i32 {
    #[expect(clippy::cast_possible_truncation, reason = "it is between 1 and 30")]
    {
        (downtime.as_secs_f64() * 0.06).exp().clamp(1.0, 30.0) as i32
    }
}

fn corrupt_text(key: &str, object: &Object, why: &str) -> String {
    let why = undecodable_text(object, why);
    format!(
        "StorageError: corrupt object, Code: 7, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: {why}"
    )
}

fn undecodable_text(object: &Object, why: &str) -> String {
    if object.is_untransformable() {
        // kube-apiserver has not determined the revision when decryption fails, so its message says 0.
        format!("data from the storage is not transformable revision=0: {why}")
    } else {
        format!("object not decodable revision={}: {why}", object.revision())
    }
}

/// A decryption error is an internal error; a decoding error keeps its own code.
fn plain(object: &Object, why: &str) -> Status {
    if object.is_untransformable() { Status::internal(why) } else { Status::unclassified(why) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_retry_after_growing_delays() {
        for (seconds, expected) in [(0, 1), (11, 1), (12, 2), (30, 6), (56, 28), (57, 30), (100_000, 30)] {
            assert_eq!(retry_seconds(Duration::from_secs(seconds)), expected, "{seconds}");
        }
    }
}
