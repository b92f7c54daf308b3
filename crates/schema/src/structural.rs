//! Custom resources' schemas: compiled from a definition, they prune, default and validate plain JSON trees.

mod compile;
mod decode;
mod default;
mod prune;
mod validate;

pub use compile::compile;
pub use decode::decode;
pub use default::{default, prune_nulls};
pub use prune::prune;
pub use validate::validate;
