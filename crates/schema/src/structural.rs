//! Schemas of custom resources: compiled from a definition, they prune, default and validate plain JSON trees.

mod compile;
mod decode;
mod default;
mod embedded;
mod formats;
mod lists;
mod numbers;
mod prune;
mod validate;

pub use compile::compile;
pub use decode::{coerce, decode, decode_applied};
pub use default::{DEFAULTS_BYTES_MAX, DefaultsTooLarge, default, default_field, prune_nulls};
pub use embedded::{validate_embedded, validate_object};
pub use formats::is_for_texts;
pub use lists::validate_lists;
pub use numbers::to_whole;
pub use prune::{UnknownFields, prune};
pub use validate::{validate, validate_change, validate_default, within};
