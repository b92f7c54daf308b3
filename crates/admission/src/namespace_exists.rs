//! NamespaceExists: refuses writes to a namespace that does not exist. NamespaceLifecycle includes this check.

use crate::{Plugin, Validation};
use pintle_meta::{GroupResource, Status};

pub(crate) struct NamespaceExists;

impl Plugin for NamespaceExists {
    fn validate(&self, Validation { request, cluster, .. }: Validation<'_>) -> Result<(), Status> {
        let exempt = request.namespace.is_empty() || request.is("", "namespaces");
        if exempt || cluster.object("", "namespaces", "", request.namespace).is_some() {
            return Ok(());
        }
        Err(Status::not_found(&GroupResource::new("", "namespaces"), request.namespace))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, admitted, kind};

    #[test]
    fn a_namespace_must_be_there() {
        let maps = kind("", "configmaps");
        let there = Objects::of(&[("", "namespaces", r#"{"metadata":{"name":"n"}}"#)]);
        assert!(admitted(&NamespaceExists, &maps, "{}", &there).is_ok());
        let missing = admitted(&NamespaceExists, &maps, "{}", &Objects::of(&[])).map(drop);
        assert_eq!(missing, Err("namespaces \"n\" not found".to_string()));
    }
}
