//! AlwaysDeny: refuses every request.

use crate::{Mutation, Plugin, Validation};
use pintle_meta::Status;

const WHY: &str = "admission control is denying all modifications";

pub(crate) struct AlwaysDeny;

impl Plugin for AlwaysDeny {
    fn mutate(&self, Mutation { request, object, .. }: Mutation<'_>) -> Result<(), Status> {
        Err(request.forbidden(Some(object), WHY))
    }

    fn validate(&self, Validation { request, object, .. }: Validation<'_>) -> Result<(), Status> {
        Err(request.forbidden(object, WHY))
    }
}
