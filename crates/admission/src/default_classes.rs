//! DefaultStorageClass and DefaultIngressClass: set the default class on claims and ingresses without one.

use crate::{Attributes, Mutation, Operation, Plugin, Resources};
use pintle_meta::Status;
use pintle_value::Value;

const DEFAULT_STORAGE: &str = "storageclass.kubernetes.io/is-default-class";
const DEFAULT_STORAGE_BETA: &str = "storageclass.beta.kubernetes.io/is-default-class";
const STORAGE_BETA: &str = "volume.beta.kubernetes.io/storage-class";
const DEFAULT_INGRESS: &str = "ingressclass.kubernetes.io/is-default-class";
const INGRESS_OLD: &str = "kubernetes.io/ingress.class";

pub(crate) struct DefaultStorageClass;

impl Plugin for DefaultStorageClass {
    fn resources(&self) -> Resources {
        &[("", "persistentvolumeclaims")]
    }

    fn mutate(&self, Mutation { request, object: claim, cluster }: Mutation<'_>) -> Result<(), Status> {
        let ours = request.is("", "persistentvolumeclaims") && is_create(request);
        let named = claim.at(&["spec", "storageClassName"]).is_some()
            || claim.at(&["metadata", "annotations", STORAGE_BETA]).is_some();
        if !ours || named {
            return Ok(());
        }
        let classes = cluster.objects("storage.k8s.io", "storageclasses", "");
        if let Some(class) = newest(classes, &[DEFAULT_STORAGE, DEFAULT_STORAGE_BETA]) {
            claim.set_at(&["spec", "storageClassName"], class.into());
        }
        Ok(())
    }
}

pub(crate) struct DefaultIngressClass;

impl Plugin for DefaultIngressClass {
    fn resources(&self) -> Resources {
        &[("networking.k8s.io", "ingresses")]
    }

    fn mutate(&self, Mutation { request, object: ingress, cluster }: Mutation<'_>) -> Result<(), Status> {
        let ours = request.is("networking.k8s.io", "ingresses") && is_create(request);
        let named = ingress.at(&["spec", "ingressClassName"]).is_some()
            || ingress.at(&["metadata", "annotations", INGRESS_OLD]).is_some();
        if !ours || named {
            return Ok(());
        }
        let classes = cluster.objects("networking.k8s.io", "ingressclasses", "");
        if let Some(class) = newest(classes, &[DEFAULT_INGRESS]) {
            ingress.set_at(&["spec", "ingressClassName"], class.into());
        }
        Ok(())
    }
}

fn is_create(request: &Attributes<'_>) -> bool {
    request.operation == Operation::Create && request.subresource.is_empty()
}

/// The newest class that is marked as default; of two with the same age, the first by name.
fn newest(mut classes: Vec<Value>, marks: &[&str]) -> Option<String> {
    classes.retain(|c| marks.iter().any(|mark| c.str_at(&["metadata", "annotations", mark]) == "true"));
    let time = |c: &Value| c.str_at(&["metadata", "creationTimestamp"]).to_string();
    let name = |c: &Value| c.str_at(&["metadata", "name"]).to_string();
    classes.iter().min_by_key(|c| (std::cmp::Reverse(time(c)), name(c))).map(name)
}
