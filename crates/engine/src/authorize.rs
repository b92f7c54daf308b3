//! Rights that can only be asked for when the objects are known (a PUT or apply that turns out to create), and the
//! policy that roles and bindings make.

use crate::Engine;
use crate::propose::Change;
use crate::write::WriteRequest;
use pintle_auth::authz::Attributes;
use pintle_auth::authz::rbac::{Policy, PolicyKind};
use pintle_meta::Status;
use pintle_value::Value;

impl Engine {
    /// Refuses a write that would create, by a user who may not.
    pub(crate) async fn authorize_creation(&self, request: &WriteRequest) -> Result<(), Status> {
        if matches!(request.change, Change::Create(_)) {
            return Ok(());
        }
        let target = &request.target;
        let version = target.kind_version();
        let question = Attributes {
            user: request.user.clone(),
            verb: "create".into(),
            resource_request: true,
            group: version.group.to_string(),
            version: version.name.to_string(),
            resource: target.kind.plural.to_string(),
            subresource: target.subresource.to_string(),
            namespace: target.namespace.to_string(),
            name: target.name.to_string(),
            ..Attributes::default()
        };
        self.authorizer.authorize(&question).await.permit(&question)
    }
}

impl Engine {
    /// The policy as roles and bindings say it now.
    pub fn policy(&self) -> Policy {
        let mut policy = Policy::default();
        for resource in self.cache.resources() {
            let Some(kind) = policy_kind(resource.prefix()) else { continue };
            for object in resource.view().iter() {
                let tree =
                    pintle_value::json::parse(object.json()).map_or(Value::Null, |parsed| parsed.value);
                policy.insert(kind, &tree);
            }
        }
        policy
    }

    /// Whether objects under this prefix of the store are part of the policy.
    pub fn is_policy(prefix: &str) -> bool {
        policy_kind(prefix).is_some()
    }
}

fn policy_kind(prefix: &str) -> Option<PolicyKind> {
    match prefix {
        "/registry/roles/" => Some(PolicyKind::Role),
        "/registry/clusterroles/" => Some(PolicyKind::ClusterRole),
        "/registry/rolebindings/" => Some(PolicyKind::RoleBinding),
        "/registry/clusterrolebindings/" => Some(PolicyKind::ClusterRoleBinding),
        _ => None,
    }
}
