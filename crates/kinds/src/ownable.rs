//! The fields that a write through an endpoint can own: never those that the endpoint resets.

use crate::{Hooks, Kind, Scope};

/// The paths that a write of `scope` can never own in an object of this kind. `hooks` are those of the request's version.
pub fn never_owned<'k>(kind: &'k Kind, hooks: &dyn Hooks, scope: Scope<'_>) -> Vec<&'k [&'static str]> {
    let part = match scope {
        Scope::Main => "object",
        Scope::Sub(name) => name,
    };
    match kind.strategy.resets.iter().find(|(known, _)| *known == part) {
        Some((_, paths)) => paths.iter().map(Vec::as_slice).collect(),
        None => hooks.reset_fields(scope).to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::builtin;

    #[test]
    fn fields_that_an_endpoint_resets_are_not_owned() {
        let builtin = builtin();
        for (plural, scope, expected) in [
            ("deployments", Scope::Main, "status"),
            ("deployments", Scope::Sub("status"), "spec metadata.labels"),
            ("replicasets", Scope::Sub("status"), "spec"),
            ("flowschemas", Scope::Sub("status"), "metadata spec"),
            ("pods", Scope::Sub("resize"), ""),
        ] {
            let kind = builtin.kinds.iter().find(|kind| kind.plural == plural).unwrap();
            let paths = never_owned(kind, kind.hooks, scope);
            let paths: Vec<String> = paths.iter().map(|path| path.join(".")).collect();
            assert_eq!(paths.join(" "), expected, "{plural}");
        }
    }
}
