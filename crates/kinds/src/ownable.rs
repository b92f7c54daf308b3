//! Which fields a write through an endpoint can own at all. What the endpoint resets, it never owns.

use crate::{Hooks, Kind, Scope};

/// Paths from the root of an object; `*` is any item or key.
pub type Paths = &'static [&'static [&'static str]];

/// What a write can own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ownable {
    /// All but these and what is below them.
    AllBut(Paths),
    /// Only these and what is below them.
    Only(Paths),
}

const SPEC_AND_METADATA: Paths = &[&["spec"], &["metadata"]];

/// What a write of `scope` can own of an object of this kind; `hooks` are those of the version that it speaks.
pub fn ownable(kind: &Kind, hooks: &dyn Hooks, scope: Scope<'_>) -> Ownable {
    match (kind.group.as_str(), kind.plural.as_str(), scope) {
        ("", "pods", Scope::Sub("ephemeralcontainers")) => Ownable::Only(&[&["spec", "ephemeralContainers"]]),
        ("", "pods", Scope::Sub("resize")) => Ownable::Only(&[
            &["spec", "containers", "*", "resources"],
            &["spec", "containers", "*", "resizePolicy"],
            &["spec", "initContainers", "*", "resources"],
            &["spec", "initContainers", "*", "resizePolicy"],
        ]),
        (_, _, Scope::Sub("status")) if status_resets_metadata(kind) => Ownable::AllBut(SPEC_AND_METADATA),
        (_, _, scope) => Ownable::AllBut(hooks.reset_fields(scope)),
    }
}

/// Kinds whose status endpoint leaves the metadata alone too and that have nothing else to say in hooks of their own.
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

    const STATUS: Paths = &[&["status"]];

    #[test]
    fn what_an_endpoint_resets_is_not_owned() {
        let builtin = builtin();
        let of = |plural: &str, scope| {
            let kind = builtin.kinds.iter().find(|kind| kind.plural == plural).unwrap();
            ownable(kind, kind.hooks, scope)
        };
        assert_eq!(of("deployments", Scope::Main), Ownable::AllBut(STATUS));
        let labels: Paths = &[&["spec"], &["metadata", "labels"]];
        assert_eq!(of("deployments", Scope::Sub("status")), Ownable::AllBut(labels));
        assert_eq!(of("replicasets", Scope::Sub("status")), Ownable::AllBut(&[&["spec"]]));
        assert_eq!(of("flowschemas", Scope::Sub("status")), Ownable::AllBut(SPEC_AND_METADATA));
        assert!(matches!(of("pods", Scope::Sub("resize")), Ownable::Only(_)));
    }
}
