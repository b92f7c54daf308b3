//! Selectors: label selectors and field selectors, as query parameters and as objects.

pub mod field;
pub mod label;
mod label_matcher;
mod label_text;
pub mod label_validation;

pub use field::FieldSelector;
pub use label::{LabelSelector, Operator, Requirement};
pub use label_matcher::LabelMatcher;
