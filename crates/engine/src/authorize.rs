//! Authorization that depends on stored objects: a PUT or apply of an object that does not exist also needs `create`.

use crate::propose::Change;
use crate::write::WriteRequest;
use crate::{Target, Writer};
use pintle_auth::UserInfo;
use pintle_auth::authz::Attributes;
use pintle_meta::Status;
use std::sync::Arc;

impl Writer {
    /// Refuses a write that would create the object if the user may not create it.
    pub(crate) async fn authorize_creation(&self, request: &WriteRequest) -> Result<(), Status> {
        if matches!(request.change, Change::Create(_)) {
            return Ok(());
        }
        let question = creation_of(&request.target, request.user.clone());
        self.admission.authorizer.authorize(&question).await.permit(&question)
    }
}

/// The attributes of a request to create the target.
pub(crate) fn creation_of(target: &Target, user: Arc<UserInfo>) -> Attributes {
    let version = target.kind_version();
    Attributes {
        user,
        verb: "create".into(),
        resource_request: true,
        group: version.group.to_string(),
        version: version.name.to_string(),
        resource: target.kind.plural.to_string(),
        subresource: target.subresource.to_string(),
        namespace: target.namespace.to_string(),
        name: target.name.to_string(),
        ..Attributes::default()
    }
}
