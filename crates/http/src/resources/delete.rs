//! Deletions of objects and collections.

use super::{Resources, media};
use crate::api::{ApiRequest, ApiResponse};
use crate::negotiate::{self, Media};
use crate::respond;
use pintle_engine::{Deleted, Target};
use pintle_meta::Status;
use pintle_meta::options::{DeleteOptions, Query};

impl Resources {
    pub(super) async fn delete(&self, request: &ApiRequest, target: &Target) -> Result<ApiResponse, Status> {
        let options = delete_options(request)?;
        match self.engine.delete(target, &options, &request.user).await? {
            Deleted::Status(status) => Ok(respond::status(&status, Some(request.accept.encoding))),
            Deleted::Object { object, gone } => {
                // Only who asks in the old way for dependents to go too is told that the object waits.
                let code = if !gone && options.orphan_dependents == Some(false) { 202 } else { 200 };
                self.object_response(request, target, &object, code)
            }
        }
    }

    pub(super) async fn delete_collection(&self, request: &ApiRequest, target: Target) -> Result<ApiResponse, Status> {
        let list = self.list_request(request, target)?;
        let options = delete_options(request)?;
        options.check_collection()?;
        let listed = self.engine.delete_collection(&list, &options, &request.user).await?;
        self.list_response(request, &list.target, listed)
    }
}

/// The options in the body, or in the query where there is none.
fn delete_options(request: &ApiRequest) -> Result<DeleteOptions, Status> {
    if request.body.is_empty() {
        return DeleteOptions::from_query(Query(&request.query));
    }
    let content = negotiate::of_body(request.header("content-type"), Media::ALL)?;
    let tree = pintle_engine::decode::decode_options(&request.body, media(content))?;
    DeleteOptions::from_value(&tree)
}
