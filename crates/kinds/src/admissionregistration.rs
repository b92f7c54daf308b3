//! Group admissionregistration.k8s.io.

mod binding;
pub mod expressions;
mod policy;
mod rules;
mod webhooks;

pub(crate) use binding::PolicyBinding;
pub(crate) use policy::Policy;
pub(crate) use webhooks::WebhookConfiguration;

use crate::fields;
use pintle_value::Value;

/// The suffix of names that are reserved for configuration from manifest files.
const STATIC_SUFFIX: &str = ".static.k8s.io";

/// Whether a kind mutates or only validates.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Mutating,
    Validating,
}

/// The warnings about a name that is reserved for configuration from manifest files.
fn name_warnings(object: &Value) -> Vec<String> {
    let name = object.get("metadata").map_or("", |metadata| fields::text(metadata, "name"));
    if !name.ends_with(STATIC_SUFFIX) {
        return Vec::new();
    }
    let suffix = pintle_meta::field::quoted(STATIC_SUFFIX);
    vec![format!(
        "metadata.name: names ending with {suffix} are reserved for static manifest-based configurations and cannot be managed via the API"
    )]
}
