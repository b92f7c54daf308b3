//! Reads of objects that are computed for each request: `componentstatuses`.

use super::Resources;
use crate::api::{ApiRequest, ApiResponse};
use crate::route::Action;
use pintle_engine::Target;
use pintle_meta::{GroupResource, Status};

impl Resources {
    /// A get or a list of components; there are no other verbs.
    pub(super) async fn computed(&self, request: &ApiRequest, target: Target) -> Result<ApiResponse, Status> {
        match request.target.action {
            Action::Get => {}
            Action::List => {
                let list = self.list_request(request, target)?;
                let listed = self.engine.reader().computed_list(&list, &self.components.list().await)?;
                return self.list_response(request, &list.target, listed);
            }
            _ => return Err(Status::method_not_supported(&target.group_resource(), "watch")),
        }
        let found = self.components.get(&target.name).await;
        // kube-apiserver has the singular here.
        let resource = GroupResource { group: "".into(), resource: target.kind.singular.clone() };
        let tree = found.ok_or_else(|| Status::not_found(&resource, &target.name))?;
        let object = self.engine.reader().computed_object(&target, &tree)?;
        self.object_response(request, &target, &object, 200).await
    }
}
