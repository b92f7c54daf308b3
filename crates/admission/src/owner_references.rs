//! OwnerReferencesPermissionEnforcement: setting owner references needs the right to delete the object, and
//! `blockOwnerDeletion` the right to update the owner's finalizers.

use crate::{Attributes, ClusterState, Operation, Plugin, Validation};
use pintle_auth::Authorizer;
use pintle_auth::authz::{Attributes as Question, Decision};
use pintle_meta::{GroupVersion, Status};
use pintle_value::Value;
use std::sync::Arc;

pub(crate) struct OwnerReferencesPermissionEnforcement(pub(crate) Arc<dyn Authorizer>);

impl Plugin for OwnerReferencesPermissionEnforcement {
    fn validate(&self, Validation { request, object, cluster, .. }: Validation<'_>) -> Result<(), Status> {
        let Some(object) = object.filter(|_| request.operation != Operation::Delete) else { return Ok(()) };
        // Old kubelets sent such updates; the status endpoint does not change owner references anyway.
        let is_pod_status = request.is("", "pods") && request.subresource == "status";
        let (new, old) = (owners(object), request.old.map(owners).unwrap_or_default());
        if is_pod_status || new == old {
            return Ok(());
        }
        if request.operation != Operation::Create
            && let Err(why) = self.may(question(request, "delete", request.subresource))
        {
            let why = format!("cannot set an ownerRef on a resource you can't delete: {why}, <nil>");
            return Err(request.forbidden(Some(object), &why));
        }
        // Of several references with one uid, the last counts.
        let was_blocking =
            |uid: &str| old.iter().rev().find(|o| o.str_at(&["uid"]) == uid).is_some_and(blocks);
        let blocking: Vec<&Value> =
            new.iter().filter(|o| blocks(o) && !was_blocking(o.str_at(&["uid"]))).collect();
        if blocking.is_empty() || self.may(anything(request)).is_ok() {
            return Ok(());
        }
        blocking.into_iter().try_for_each(|owner| self.may_block(request, object, owner, cluster))
    }
}

impl OwnerReferencesPermissionEnforcement {
    /// Returns the reason if the authorizer denies the request.
    fn may(&self, question: Question) -> Result<(), String> {
        match self.0.authorize(&question).wait() {
            Decision::Allow(_) => Ok(()),
            refusal => Err(refusal.reason().to_string()),
        }
    }

    fn may_block(
        &self,
        request: &Attributes<'_>,
        object: &Value,
        owner: &Value,
        cluster: &dyn ClusterState,
    ) -> Result<(), Status> {
        let (api_version, kind) = (owner.str_at(&["apiVersion"]), owner.str_at(&["kind"]));
        let version = GroupVersion::parse(api_version).unwrap_or_default();
        let Some((plural, namespaced)) = cluster.resource(&version, kind) else {
            let why = format!(
                "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for \
                 APIVersion {api_version} Kind {kind}: no matches for kind \"{kind}\" in version \"{api_version}\""
            );
            return Err(request.forbidden(Some(object), &why));
        };
        let finalizers = Question {
            group: version.group.to_string(),
            version: version.version.to_string(),
            resource: plural,
            namespace: if namespaced { request.namespace.to_string() } else { String::new() },
            name: owner.str_at(&["name"]).to_string(),
            ..question(request, "update", "finalizers")
        };
        self.may(finalizers).map_err(|why| {
            let why = format!(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set \
                 finalizers on: {why}, <nil>"
            );
            request.forbidden(Some(object), &why)
        })
    }
}

fn owners(object: &Value) -> Vec<Value> {
    object.items_at(&["metadata", "ownerReferences"]).to_vec()
}

fn blocks(owner: &Value) -> bool {
    owner.get("blockOwnerDeletion").and_then(Value::as_bool) == Some(true)
}

/// The authorizer's attributes for a verb on the request's object.
fn question(request: &Attributes<'_>, verb: &str, subresource: &str) -> Question {
    Question {
        user: request.user.clone().into(),
        verb: verb.to_string(),
        group: request.kind.group.to_string(),
        version: request.version.name.to_string(),
        resource: request.kind.plural.to_string(),
        subresource: subresource.to_string(),
        namespace: request.namespace.to_string(),
        name: request.name.to_string(),
        resource_request: true,
        ..Question::default()
    }
}

/// The authorizer's attributes for setting finalizers on any resource.
fn anything(request: &Attributes<'_>) -> Question {
    let all = || "*".to_string();
    Question {
        group: all(),
        version: all(),
        resource: all(),
        namespace: String::new(),
        name: all(),
        ..question(request, "update", "finalizers")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, kind, tree, with_request};
    use pintle_auth::authz::RulesFound;
    use pintle_auth::{Authorizing, UserInfo};

    /// An authorizer that allows the listed requests, each written as "verb resource/subresource".
    struct Allows(&'static [&'static str]);

    impl Authorizer for Allows {
        fn authorize<'a>(&'a self, question: &'a Question) -> Authorizing<'a> {
            let asked = format!("{} {}/{}", question.verb, question.resource, question.subresource);
            if self.0.contains(&asked.as_str()) {
                Decision::Allow(Default::default())
            } else {
                Decision::NoOpinion("no".to_string())
            }
            .into()
        }

        fn rules_for(&self, _user: &UserInfo, _namespace: &str) -> RulesFound {
            RulesFound::default()
        }
    }

    #[test]
    fn owners_need_rights() {
        let owned = |blocks: bool| {
            tree(&format!(
                r#"{{"metadata":{{"ownerReferences":[{{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u","blockOwnerDeletion":{blocks}}}]}}}}"#
            ))
        };
        let plain = tree("{}");
        const CANNOT_DELETE: &str = "cannot set an ownerRef on a resource you can't delete: no, <nil>";
        const CANNOT_BLOCK: &str = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: no, <nil>";
        for (allowed, old, new, answer) in [
            (&[][..], None, owned(false), ""),
            (&[], None, owned(true), CANNOT_BLOCK),
            (&["update pods/finalizers"], None, owned(true), ""),
            (&["update */finalizers"], None, owned(true), ""),
            (&[], Some(&plain), owned(false), CANNOT_DELETE),
            (&["delete configmaps/"], Some(&plain), owned(false), ""),
            (&["delete configmaps/"], Some(&plain), owned(true), CANNOT_BLOCK),
            (&[], Some(&owned(true)), owned(true), ""),
        ] {
            let plugin = OwnerReferencesPermissionEnforcement(Arc::new(Allows(allowed)));
            let result = with_request(&kind("", "configmaps"), old, |request| {
                plugin.validate(Validation {
                    request,
                    object: Some(&new),
                    cluster: &Objects::of(&[]),
                    warnings: &mut Vec::new(),
                })
            });
            let said = result.err().map(|status| status.message).unwrap_or_default();
            assert!(said.ends_with(answer) && said.is_empty() == answer.is_empty(), "{allowed:?}: {said}");
        }
    }
}
