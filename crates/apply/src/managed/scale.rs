//! The `scale` subresource writes one field of its parent; its ownership is translated in both directions.

use super::entries::{Managed, ManagerId, Owned};
use crate::fieldset::{FieldPath, Set};
use pintle_value::{Str, Value};
use std::sync::Arc;

const SCALE_VERSION: &str = "autoscaling/v1";

/// The path of the replicas in a version of the parent; `None` if that version has no scale.
#[derive(Clone, Debug)]
pub struct ReplicasPath {
    /// `apiVersion` of the parent.
    pub api_version: Str,
    /// Path of the replicas.
    pub path: Option<FieldPath>,
}

fn replicas() -> FieldPath {
    FieldPath::of(&["spec", "replicas"])
}

fn mapping<'a>(paths: &'a [ReplicasPath], version: &str) -> Option<&'a ReplicasPath> {
    paths.iter().find(|p| p.api_version == version)
}

/// The managed fields of a scale object: those entries of the parent that own its replicas.
pub fn scale_to_subresource(parent: &[Value], paths: &[ReplicasPath]) -> Result<Vec<Value>, String> {
    let managed = Managed::decode(parent)?;
    let mut scale = Managed::default();
    for (id, owned) in managed.owners {
        let path = mapping(paths, &owned.version).and_then(|p| p.path.as_ref());
        if path.is_some_and(|path| owned.set.has(path)) {
            scale.times.extend(managed.times.get(&id).map(|time| (id.clone(), time.clone())));
            let mut set = Set::new();
            set.insert(&replicas());
            let version = SCALE_VERSION.into();
            let owned = Owned { set: set.into(), version, applied: owned.applied, entry: None };
            scale.owners.insert(id, owned);
        }
    }
    Ok(scale.encode())
}

/// The managed fields of the parent after its scale was written in `api_version`.
pub fn scale_to_parent(
    parent: &[Value],
    scale: &[Value],
    api_version: &str,
    paths: &[ReplicasPath],
) -> Result<Vec<Value>, String> {
    let before = Managed::decode(parent)?;
    let mut scale = Managed::decode(scale)?;
    let mut after = Managed::default();
    let mut keep = |id: ManagerId, owned: Owned| {
        after.times.extend(before.times.get(&id).map(|time| (id.clone(), time.clone())));
        after.owners.insert(id, owned);
    };
    for (id, mut owned) in before.owners.clone() {
        let Some(mapping) = mapping(paths, &owned.version) else { continue };
        if let Some(path) = mapping.path.as_ref().filter(|path| owned.set.has(path))
            && scale.owners.remove(&id).is_none()
        {
            // Another manager wrote the replicas.
            let mut gone = Set::new();
            gone.insert(path);
            owned.set = Arc::unwrap_or_clone(owned.set).difference(&gone).into();
            if owned.set.is_empty() {
                continue;
            }
        }
        keep(id, owned);
    }
    let path = mapping(paths, api_version).and_then(|p| p.path.as_ref());
    for (id, owned) in scale.owners {
        if let Some(path) = path.filter(|_| owned.set.has(&replicas())) {
            let mut set = Set::new();
            set.insert(path);
            let version = api_version.into();
            keep(id, Owned { set: set.into(), version, applied: owned.applied, entry: None });
        }
    }
    Ok(after.encode())
}
