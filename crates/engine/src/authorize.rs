//! Authorization that depends on stored objects: a PUT or apply of an object that does not exist also needs `create`.

use crate::Writer;
use crate::propose::Change;
use crate::write::WriteRequest;
use pintle_auth::authz::Attributes;
use pintle_meta::Status;

impl Writer {
    /// Refuses a write that would create the object if the user may not create it.
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
        self.admission.authorizer.authorize(&question).await.permit(&question)
    }
}
