//! The fields that a write through an endpoint can own: never those that the endpoint resets.

use crate::{Hooks, Kind, Scope};

/// Paths from the root of an object.
pub type Paths = &'static [&'static [&'static str]];

const SPEC_AND_METADATA: Paths = &[&["spec"], &["metadata"]];

/// The fields that a write of `scope` can never own in an object of this kind. `hooks` are those of the request's
/// version.
pub fn never_owned(kind: &Kind, hooks: &dyn Hooks, scope: Scope<'_>) -> Paths {
    match (kind.group.as_str(), kind.plural.as_str(), scope) {
        // These pod endpoints do not declare reset fields, so a writer owns everything that it sent.
        ("", "pods", Scope::Sub("ephemeralcontainers" | "resize")) => &[],
        (_, _, Scope::Sub("status")) if status_resets_metadata(kind) => SPEC_AND_METADATA,
        (_, _, scope) => hooks.reset_fields(scope),
    }
}

/// Kinds whose status endpoint also resets metadata and that have no other hooks.
fn status_resets_metadata(kind: &Kind) -> bool {
    matches!(
        (kind.group.as_str(), kind.plural.as_str()),
        ("flowcontrol.apiserver.k8s.io", "flowschemas" | "prioritylevelconfigurations")
            | ("networking.k8s.io", "servicecidrs")
            | ("storage.k8s.io", "volumeattachments")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    const SPEC: Paths = &[&["spec"]];
    const STATUS: Paths = &[&["status"]];

    #[test]
    fn what_an_endpoint_resets_is_not_owned() {
        let builtin = builtin();
        let of = |plural: &str, scope| {
            let kind = builtin.kinds.iter().find(|kind| kind.plural == plural).unwrap();
            never_owned(kind, kind.hooks, scope)
        };
        assert_eq!(of("deployments", Scope::Main), STATUS);
        let labels: Paths = &[&["spec"], &["metadata", "labels"]];
        assert_eq!(of("deployments", Scope::Sub("status")), labels);
        assert_eq!(of("replicasets", Scope::Sub("status")), SPEC);
        assert_eq!(of("flowschemas", Scope::Sub("status")), SPEC_AND_METADATA);
        assert!(of("pods", Scope::Sub("resize")).is_empty());
    }
}
