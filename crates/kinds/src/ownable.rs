//! Which fields a write through an endpoint can own at all. What the endpoint resets, it never owns.

use crate::{Kind, Scope};

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

const STATUS: Paths = &[&["status"]];
const SPEC_AND_METADATA: Paths = &[&["spec"], &["metadata"]];

/// What a write of `scope` can own of an object of this kind.
pub fn ownable(kind: &Kind, scope: Scope<'_>) -> Ownable {
    match (kind.group.as_str(), kind.plural.as_str(), scope) {
        ("", "pods", Scope::Sub("ephemeralcontainers")) => Ownable::Only(&[&["spec", "ephemeralContainers"]]),
        ("", "pods", Scope::Sub("resize")) => Ownable::Only(&[
            &["spec", "containers", "*", "resources"],
            &["spec", "containers", "*", "resizePolicy"],
            &["spec", "initContainers", "*", "resources"],
            &["spec", "initContainers", "*", "resizePolicy"],
        ]),
        (group, plural, scope) => Ownable::AllBut(match reset(group, plural, scope) {
            Some(paths) => paths,
            None => kind.hooks.reset_fields(scope),
        }),
    }
}

/// The fields that built-in kinds reset, where they are not just the spec or the status.
fn reset(group: &str, plural: &str, scope: Scope<'_>) -> Option<Paths> {
    let Scope::Sub(sub) = scope else {
        return (plural == "certificatesigningrequests").then_some(&[&["spec"], &["status"]]);
    };
    let resets_metadata = matches!(
        (group, plural),
        ("admissionregistration.k8s.io", "validatingadmissionpolicies")
            | ("apiextensions.k8s.io", "customresourcedefinitions")
            | ("apiregistration.k8s.io", "apiservices")
            | ("flowcontrol.apiserver.k8s.io", "flowschemas" | "prioritylevelconfigurations")
            | ("internal.apiserver.k8s.io", "storageversions")
            | ("networking.k8s.io", "servicecidrs")
            | ("resource.k8s.io", "resourceclaims" | "devicetaintrules")
            | ("storage.k8s.io", "volumeattachments")
            | ("storagemigration.k8s.io", "storageversionmigrations")
    );
    match (plural, sub) {
        ("certificatesigningrequests", "approval") => Some(&[&["spec"], &["status", "certificate"]]),
        ("certificatesigningrequests", "status") => Some(&[&["spec"], &["status", "conditions"]]),
        ("deployments", "status") => Some(&[&["spec"], &["metadata", "labels"]]),
        ("pods", "status") => {
            Some(&[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]])
        }
        ("namespaces", "finalize") => Some(STATUS),
        (_, "status") if resets_metadata => Some(SPEC_AND_METADATA),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    #[test]
    fn what_an_endpoint_resets_is_not_owned() {
        let builtin = builtin();
        let of = |plural: &str, scope| {
            let kind = builtin.kinds.iter().find(|kind| kind.plural == plural).unwrap();
            ownable(kind, scope)
        };
        assert_eq!(of("deployments", Scope::Main), Ownable::AllBut(STATUS));
        let labels: Paths = &[&["spec"], &["metadata", "labels"]];
        assert_eq!(of("deployments", Scope::Sub("status")), Ownable::AllBut(labels));
        assert_eq!(of("replicasets", Scope::Sub("status")), Ownable::AllBut(&[&["spec"]]));
        assert_eq!(of("flowschemas", Scope::Sub("status")), Ownable::AllBut(SPEC_AND_METADATA));
        assert!(matches!(of("pods", Scope::Sub("resize")), Ownable::Only(_)));
    }
}
