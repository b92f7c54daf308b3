//! AlwaysDeny: refuses every request.

use crate::{Attributes, ClusterState, Plugin};
use pintle_meta::Status;
use pintle_value::Value;

const WHY: &str = "admission control is denying all modifications";

pub(crate) struct AlwaysDeny;

impl Plugin for AlwaysDeny {
    fn name(&self) -> &'static str {
        "AlwaysDeny"
    }

    fn mutate(
        &self,
        request: &Attributes<'_>,
        object: &mut Value,
        _cluster: &dyn ClusterState,
    ) -> Result<(), Status> {
        Err(request.forbidden(Some(object), WHY))
    }

    fn validate(
        &self,
        request: &Attributes<'_>,
        object: Option<&Value>,
        _cluster: &dyn ClusterState,
        _warnings: &mut Vec<String>,
    ) -> Result<(), Status> {
        Err(request.forbidden(object, WHY))
    }
}
