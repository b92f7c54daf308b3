//! StorageObjectInUseProtection and PersistentVolumeClaimResize.

use crate::{Mutation, Operation, Plugin, Resources, Validation};
use pintle_meta::{Quantity, Status};
use pintle_value::Value;

const STORAGE_BETA: &str = "volume.beta.kubernetes.io/storage-class";

/// Adds a finalizer to volumes, claims and classes, so that they are not removed while in use.
pub(crate) struct StorageObjectInUseProtection;

impl Plugin for StorageObjectInUseProtection {
    fn resources(&self) -> Resources {
        &[
            ("", "persistentvolumes"),
            ("", "persistentvolumeclaims"),
            ("storage.k8s.io", "volumeattributesclasses"),
        ]
    }

    fn mutate(&self, Mutation { request, object, .. }: Mutation<'_>) -> Result<(), Status> {
        if request.operation != Operation::Create || !request.subresource.is_empty() {
            return Ok(());
        }
        let finalizer = match (request.kind.group.as_str(), request.kind.plural.as_str()) {
            ("", "persistentvolumes") => "kubernetes.io/pv-protection",
            ("", "persistentvolumeclaims") => "kubernetes.io/pvc-protection",
            ("storage.k8s.io", "volumeattributesclasses") => "kubernetes.io/vac-protection",
            _ => return Ok(()),
        };
        add_finalizer(object, finalizer);
        Ok(())
    }
}

/// Adds a finalizer to an object that does not have it.
pub(crate) fn add_finalizer(object: &mut Value, finalizer: &str) {
    let mut finalizers = object.items_at(&["metadata", "finalizers"]).to_vec();
    if !finalizers.iter().any(|present| present.as_str() == Some(finalizer)) {
        finalizers.push(finalizer.into());
        object.set_at(&["metadata", "finalizers"], Value::Array(finalizers));
    }
}

/// Allows claims to grow only if their storage class allows expansion.
pub(crate) struct PersistentVolumeClaimResize;

impl Plugin for PersistentVolumeClaimResize {
    fn resources(&self) -> Resources {
        &[("", "persistentvolumeclaims")]
    }

    fn validate(&self, Validation { request, object, cluster, .. }: Validation<'_>) -> Result<(), Status> {
        let ours = request.is("", "persistentvolumeclaims") && request.subresource.is_empty();
        let (Some(claim), Some(old)) = (object.filter(|_| ours), request.old) else { return Ok(()) };
        if request.operation != Operation::Update || size(claim) <= size(old) {
            return Ok(());
        }
        if old.str_at(&["status", "phase"]) != "Bound" {
            return Err(request.forbidden(Some(claim), "Only bound persistent volume claims can be expanded"));
        }
        let class = class(claim);
        let may = !class.is_empty()
            && class == self::class(old)
            && cluster
                .object("storage.k8s.io", "storageclasses", "", class)
                .is_some_and(|c| c.get("allowVolumeExpansion").and_then(Value::as_bool) == Some(true));
        if may {
            return Ok(());
        }
        let why = "only dynamically provisioned pvc can be resized and \
                   the storageclass that provisions the pvc must support resize";
        Err(request.forbidden(Some(claim), why))
    }
}

fn size(claim: &Value) -> Option<Quantity> {
    Quantity::from_value(claim.at(&["spec", "resources", "requests", "storage"])?).ok()
}

/// The storage class of a claim. The old annotation counts even if it is empty.
pub(crate) fn class(claim: &Value) -> &str {
    match claim.at(&["metadata", "annotations", STORAGE_BETA]) {
        Some(old) => old.as_str().unwrap_or(""),
        None => claim.str_at(&["spec", "storageClassName"]),
    }
}
