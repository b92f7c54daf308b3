//! Subresources with a kind of their own, and resources that can only be created.

use super::write::write_request;
use super::{Resources, with_warnings};
use crate::api::{ApiRequest, ApiResponse};
use crate::route::Action;
use pintle_engine::Target;
use pintle_meta::Status;
use pintle_meta::options::{GetOptions, Query};
use pintle_value::Value;

impl Resources {
    /// Answers a request for a subresource with a kind of its own: `scale` is read and written; the other
    /// subresources are only created.
    pub(super) async fn answer_with_own_kind(
        &self,
        request: &ApiRequest,
        target: Target,
    ) -> Result<ApiResponse, Status> {
        match request.target.action {
            Action::Create => self.create_virtual(request, target).await,
            Action::Get => {
                let options = GetOptions::from_query(Query(&request.query));
                let object = self.engine.reader().get(&target, &options.resource_version).await?;
                let parent = self.engine.reader().tree_in(&target, &object, object.revision())?;
                self.tree_response(request, &self.engine.reader().scale_tree(&target, &parent, false)?, 200)
            }
            _ => {
                let write = write_request(request, target)?;
                let written = self.engine.writer().write(&write).await?;
                let parent = self.engine.reader().tree_in(
                    &write.target,
                    &written.object,
                    written.object.revision(),
                )?;
                let scale = self.engine.reader().scale_tree(&write.target, &parent, true)?;
                with_warnings(self.tree_response(request, &scale, 200), written.warnings)
            }
        }
    }

    /// A create that stores no object of its own: reviews, bindings, evictions, tokens.
    pub(super) async fn create_virtual(
        &self,
        request: &ApiRequest,
        target: Target,
    ) -> Result<ApiResponse, Status> {
        let write = write_request(request, target)?;
        let made = self.engine.writer().create_virtual(&write, &self.access).await?;
        // A result that is a failure without being an error, such as an eviction blocked by several budgets, has its
        // own code.
        let code = made.tree.at(&["code"]).and_then(Value::as_int).and_then(|code| u16::try_from(code).ok());
        with_warnings(self.tree_response(request, &made.tree, code.unwrap_or(201)), made.warnings)
    }
}
