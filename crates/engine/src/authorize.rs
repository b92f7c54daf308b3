//! Rights that can only be asked for when the objects are known: a PUT or apply that turns out to create.

use crate::Engine;
use crate::propose::Change;
use crate::write::WriteRequest;
use pintle_auth::authz::Attributes;
use pintle_meta::Status;

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
