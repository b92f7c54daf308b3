//! Field ownership: updates `metadata.managedFields` for every write, and implements server-side apply.
//!
//! The engine passes whole objects in the version of the request and the time as text; conversion to other versions is a
//! trait.

mod apply;
mod blame;
mod conflict;
mod entries;
mod equality;
mod last_applied;
mod owners;
mod prune;
mod scale;
mod update;
mod zero;

pub use apply::{Applied, apply, cannot_convert};
pub use blame::{Blame, Line, Manager, blame};
pub use conflict::Conflict;
pub use entries::resets_managed_fields;
pub use equality::{Comparison, check_managed_fields, keep_times};
pub use scale::{ReplicasPath, scale_to_parent, scale_to_subresource};
pub use update::update;
pub use zero::zero_object;

use crate::fieldset::Filter;
use crate::typed::{self, Duplicates, Type};
use pintle_meta::{GroupVersion, GroupVersionKind, Status};
use pintle_schema::Schema;
use pintle_value::{Str, Value};
use std::borrow::Cow;

/// The versions of a kind, as field ownership needs them.
pub trait Versions {
    /// The schema of an `apiVersion`; `None` if the kind does not have this version (any more).
    fn schema(&self, api_version: &str) -> Option<Schema>;

    /// Converts the object to another `apiVersion` that has a schema.
    fn convert(&self, object: &Value, api_version: &str) -> Result<Value, String>;

    /// The error for an `apiVersion` without a schema; `None` if its managers are dropped silently.
    fn unknown_version(&self, _api_version: &str) -> Option<String> {
        None
    }

    /// The reason why neither an empty object nor the result of an apply can be converted; `None` if they can.
    fn unappliable(&self) -> Option<String> {
        None
    }

    /// The fields that a write through this endpoint can own, per `apiVersion`: those that its strategy resets are
    /// excluded.
    fn filter(&self, _api_version: &str) -> Option<&Filter> {
        None
    }
}

/// The kind that is written.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// Kind and version of the request; all objects are in this version.
    pub kind: &'a GroupVersionKind,
    /// The kind's versions.
    pub versions: &'a dyn Versions,
}

/// The manager, endpoint and time of a write.
#[derive(Clone, Copy, Debug)]
pub struct Owner<'a> {
    /// Name of the field manager; "" is `unknown`.
    pub manager: &'a str,
    /// The subresource that is written, or "".
    pub subresource: &'a str,
    /// The time in RFC 3339, whole seconds, UTC.
    pub now: &'a str,
}

/// The reason why field ownership could not be determined.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// Other managers own the fields that would change: 409.
    #[error("{}", conflict::message(.0))]
    Conflicts(Vec<Conflict>),
    /// The configuration cannot be applied here: 400.
    #[error("{0}")]
    BadRequest(String),
    /// Any other error, for which kube-apiserver returns 500 without a reason.
    #[error("{0}")]
    Failed(String),
}

impl ApplyError {
    /// The response to the client.
    pub fn to_status(&self) -> Status {
        match self {
            ApplyError::Conflicts(conflicts) => conflict::conflict_status(conflicts),
            ApplyError::BadRequest(text) => Status::bad_request(text.clone()),
            ApplyError::Failed(text) => Status::unclassified(text.clone()),
        }
    }
}

/// `namespace/name; group/version, Kind=kind`, the form in errors.
pub fn described(object: &Value) -> String {
    let [name, namespace] = ["name", "namespace"].map(|key| object.str_at(&["metadata", key]));
    format!("{namespace}/{name}; {}", kind_of(object))
}

/// The kind that an object states; empty if its `apiVersion` is invalid.
fn kind_of(object: &Value) -> GroupVersionKind {
    match GroupVersion::parse(object.str_at(&["apiVersion"])) {
        Ok(version) => GroupVersionKind {
            group: version.group,
            version: version.version,
            kind: object.str_at(&["kind"]).into(),
        },
        Err(_) => GroupVersionKind::default(),
    }
}

/// An object and the `apiVersion` it is in. Its managed fields, if it has them, are neither compared nor converted.
#[derive(Clone)]
struct Versioned<'v> {
    value: Cow<'v, Value>,
    version: Str,
}

impl<'v> Versioned<'v> {
    fn borrowed(value: &'v Value, version: &str) -> Self {
        Versioned { value: Cow::Borrowed(value), version: version.into() }
    }

    fn owned(value: Value, version: &str) -> Self {
        Versioned { value: Cow::Owned(value), version: version.into() }
    }
}

impl Context<'_> {
    fn api_version(&self) -> Str {
        if self.kind.group.is_empty() {
            return self.kind.version.clone();
        }
        self.kind.group_version().to_string().into()
    }

    /// The schema of the request's version.
    fn schema(&self) -> Result<Schema, ApplyError> {
        let missing = || ApplyError::Failed(format!("no corresponding type for {}", self.kind));
        self.versions.schema(&self.api_version()).ok_or_else(missing)
    }

    /// The object in another version; none if there is no such version.
    fn convert<'v>(&self, object: &Versioned<'v>, to: &str) -> Result<Option<Versioned<'v>>, String> {
        if object.version == to {
            return Ok(Some(object.clone()));
        }
        let Some(schema) = self.versions.schema(to) else {
            return self.versions.unknown_version(to).map_or(Ok(None), Err);
        };
        let value = match object.value.at(&["metadata", "managedFields"]) {
            Some(_) => self.versions.convert(&without_managed_fields(&object.value), to)?,
            None => self.versions.convert(&object.value, to)?,
        };
        typed::validate(&value, Type::of(&schema), Duplicates::Refused)
            .map_err(|errors| errors.to_string())?;
        Ok(Some(Versioned::owned(value, to)))
    }

    /// Calls `look` with the type of a version, which is known to exist.
    fn typed<T>(&self, version: &str, look: impl FnOnce(Type<'_>) -> T) -> Result<T, ApplyError> {
        let missing = || ApplyError::Failed(format!("no corresponding type for {version}"));
        let schema = self.versions.schema(version).ok_or_else(missing)?;
        Ok(look(Type::of(&schema)))
    }
}

/// A copy of an object without its managed fields.
pub(crate) fn without_managed_fields(object: &Value) -> Value {
    let Value::Object(map) = object else { return object.clone() };
    let members = map.iter().map(|(key, member)| match (key.as_str(), member) {
        ("metadata", Value::Object(metadata)) => {
            let rest = metadata.iter().filter(|(name, _)| *name != "managedFields");
            let rest = rest.map(|(name, value)| (name.clone(), value.clone()));
            (key.clone(), Value::Object(rest.collect()))
        }
        _ => (key.clone(), member.clone()),
    });
    Value::Object(members.collect())
}

#[cfg(test)]
mod tests;
