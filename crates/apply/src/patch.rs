//! The patch formats: each turns a document and a patch into a new document. Only the strategic merge patch uses the
//! schema.

pub mod go_text;
pub mod json;
pub mod merge;
pub mod restore;
pub mod strategic;

use pintle_meta::{FieldErrors, GroupKind, GroupResource, Status};
use pintle_value::Path;

/// Why a patch was not applied.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PatchError {
    /// The patch itself is malformed: 400 with this text.
    #[error("{0}")]
    Malformed(String),
    /// More operations than allowed: 413.
    #[error("The allowed maximum operations in a JSON patch is {max}, got {got}")]
    TooManyOperations {
        /// The number of operations.
        got: usize,
        /// The limit.
        max: usize,
    },
    /// The patch does not apply to the document: 422. Clients receive a fixed message; this text is for the log.
    #[error("{0}")]
    DoesNotApply(String),
    /// A `test` operation failed; otherwise like `DoesNotApply`.
    #[error("{0}")]
    TestFailed(String),
    /// The result is not a valid object of its type: 422 with the patch or the result as bad value.
    #[error("{detail}")]
    Invalid {
        /// The bad value: a strategic merge patch, or the result of the other patches as JSON.
        go_text: String,
        /// The error.
        detail: String,
    },
    /// An error without a code in kube-apiserver: 500 with this text.
    #[error("{0}")]
    Unclassified(String),
}

impl PatchError {
    /// The response to the client.
    pub fn to_status(&self) -> Status {
        match self {
            PatchError::Malformed(text) => Status::bad_request(text.clone()),
            PatchError::TooManyOperations { .. } => Status::entity_too_large(&self.to_string()),
            PatchError::DoesNotApply(text) | PatchError::TestFailed(text) => {
                Status::generic_response(422, "", &GroupResource::default(), "", text)
            }
            PatchError::Invalid { go_text, detail } => {
                let mut errors = FieldErrors::new();
                errors.invalid(&Path::of("patch"), go_text.as_str(), detail);
                Status::invalid(&GroupKind::default(), "", &errors)
            }
            PatchError::Unclassified(text) => Status::unclassified(text.clone()),
        }
    }
}

pub(crate) fn too_deep() -> PatchError {
    PatchError::Malformed(format!("exceeded max depth of {}", crate::DEPTH_MAX))
}
