//! Kubernetes' extensions of the language: its types, functions and costs.

pub mod authorizer;
pub mod cidr;
pub mod cost;
pub mod format;
pub mod ip;
pub mod jsonpatch;
pub mod lists;
pub mod quantity;
pub mod regex;
pub mod semver;
pub mod url;

use super::Library;

/// The libraries that every expression of Kubernetes 1.36 can use, beside cel-go's own.
pub fn libraries() -> Vec<Library> {
    vec![
        url::library(),
        regex::library(),
        lists::library(),
        authorizer::library(),
        authorizer::selectors(),
        quantity::library(),
        ip::library(),
        cidr::library(),
        format::library(),
        semver::library(1),
        Library { pricing: Some(cost::tracker), ..Library::default() },
    ]
}
