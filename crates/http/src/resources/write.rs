//! Creates, updates and patches.

use super::{Resources, media};
use crate::api::{ApiRequest, ApiResponse};
use crate::route::{Action, PatchType};
use pintle_auth::authz::forbidden;
use pintle_auth::{Attributes, Decision};
use pintle_engine::{Body, Change, Target, WriteRequest};
use pintle_meta::Status;
use pintle_meta::options::{PatchOptions, Query, WriteOptions};

impl Resources {
    pub(super) async fn write(&self, request: &ApiRequest, target: Target) -> Result<ApiResponse, Status> {
        let mut write = write_request(request, target)?;
        write.creation_refused = self.creation_refused(request, &write);
        let written = self.engine.write(&write).await?;
        let code = if written.created { 201 } else { 200 };
        let mut response = self.object_response(request, &write.target, &written.object, code)?;
        response.warnings.extend(written.warnings);
        Ok(response)
    }

    /// Why the user may not make the object, where the request might do so without being a create.
    fn creation_refused(&self, request: &ApiRequest, write: &WriteRequest) -> Option<Status> {
        let creates = match write.change {
            Change::Create(_) | Change::Patch(..) => false,
            Change::Replace(_) => write.target.kind.rules.create_on_update,
            Change::Apply { .. } => true,
        };
        if !creates {
            return None;
        }
        let info = &request.info;
        let attributes = Attributes {
            user: request.user.clone(),
            verb: "create".to_string(),
            resource_request: true,
            path: info.path.clone(),
            group: info.group.clone(),
            version: info.version.clone(),
            resource: info.resource.clone(),
            subresource: info.subresource.clone(),
            namespace: info.namespace.clone(),
            name: info.name.clone(),
            ..Attributes::default()
        };
        match self.access.authorizer.authorize(&attributes) {
            Decision::Allow(_) => None,
            Decision::Deny(reason) | Decision::NoOpinion(reason) => Some(forbidden(&attributes, &reason)),
        }
    }
}

/// A write as the engine takes it.
pub(super) fn write_request(request: &ApiRequest, target: Target) -> Result<WriteRequest, Status> {
    if request.target.action != Action::Create && target.name.is_empty() {
        return Err(Status::bad_request("name must be provided"));
    }
    let query = Query(&request.query);
    let body = |content| Body { bytes: request.body.clone(), media: media(content) };
    let (options, change) = match request.target.action {
        Action::Create => (WriteOptions::create(query)?, Change::Create(body(request.target.content))),
        Action::Patch(kind) => {
            let apply = matches!(kind, PatchType::ApplyYaml | PatchType::ApplyCbor);
            let options = PatchOptions::from_query(query, apply)?;
            let change = match kind {
                PatchType::Json => Change::Patch(pintle_engine::PatchType::Json, request.body.clone()),
                PatchType::Merge => Change::Patch(pintle_engine::PatchType::Merge, request.body.clone()),
                PatchType::StrategicMerge => {
                    Change::Patch(pintle_engine::PatchType::Strategic, request.body.clone())
                }
                PatchType::ApplyYaml => {
                    Change::Apply { body: body(crate::negotiate::Media::Yaml), force: options.force }
                }
                PatchType::ApplyCbor => {
                    Change::Apply { body: body(crate::negotiate::Media::Cbor), force: options.force }
                }
            };
            (options.write, change)
        }
        _ => (WriteOptions::update(query)?, Change::Replace(body(request.target.content))),
    };
    Ok(WriteRequest {
        target,
        change,
        dry_run: options.dry_run,
        field_manager: options.field_manager,
        user_agent: request.header("user-agent").to_string(),
        validation: options.field_validation,
        user: request.user.clone(),
        creation_refused: None,
    })
}
