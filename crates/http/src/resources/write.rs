//! Creates, updates and patches.

use super::{Resources, media, with_warnings};
use crate::api::{ApiRequest, ApiResponse};
use crate::headers;
use crate::route::{Action, PatchType};
use pintle_engine::{Body, Change, Target, WriteRequest};
use pintle_meta::Status;
use pintle_meta::options::{PatchOptions, Query, WriteOptions};

impl Resources {
    pub(super) async fn write(&self, request: &ApiRequest, target: Target) -> Result<ApiResponse, Status> {
        let write = write_request(request, target)?;
        let written = self.engine.writer().write(&write).await?;
        let code = if written.created { 201 } else { 200 };
        let answer = self.object_response(request, &write.target, &written.object, code).await;
        with_warnings(answer, written.warnings)
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
        user_agent: headers::text(&request.user_agent).into_owned(),
        validation: options.field_validation,
        user: request.user.clone(),
    })
}
