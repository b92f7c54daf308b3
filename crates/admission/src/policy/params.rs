//! Parameters of policies: the objects that a binding refers to.

use crate::ClusterState;
use pintle_meta::GroupVersion;
use pintle_meta::selector::LabelSelector;
use pintle_value::{Str, Value};

/// The kind of a policy's parameters.
pub(super) struct ParamKind {
    pub(super) version: GroupVersion,
    pub(super) kind: Str,
}

/// How a binding selects parameters.
pub(super) struct ParamRef {
    name: Str,
    namespace: Str,
    selector: Option<Result<LabelSelector, String>>,
    /// Whether requests are denied if no parameter is found.
    denies: bool,
}

impl ParamKind {
    pub(super) fn read(spec: &Value) -> Option<Self> {
        let kind = spec.at(&["paramKind"]).filter(|kind| !kind.is_null())?;
        let version = GroupVersion::parse(kind.str_at(&["apiVersion"])).unwrap_or_default();
        Some(ParamKind { version, kind: kind.str_at(&["kind"]).into() })
    }

    /// Checks that the parameter kind exists.
    pub(super) fn check(&self, cluster: &dyn ClusterState) -> Result<(), String> {
        let GroupVersion { group, version } = &self.version;
        match cluster.resource(&self.version, &self.kind) {
            Some(_) => Ok(()),
            None => Err(format!(
                "failed to find resource referenced by paramKind: '{group}/{version}, Kind={}'",
                self.kind
            )),
        }
    }
}

impl ParamRef {
    pub(super) fn read(spec: &Value) -> Option<Self> {
        let params = spec.at(&["paramRef"]).filter(|params| !params.is_null())?;
        Some(ParamRef {
            name: params.str_at(&["name"]).into(),
            namespace: params.str_at(&["namespace"]).into(),
            selector: params.at(&["selector"]).filter(|s| !s.is_null()).map(LabelSelector::from_value),
            denies: params.str_at(&["parameterNotFoundAction"]) == "Deny",
        })
    }
}

/// The parameters to evaluate a policy with, one after the other; empty if the policy is skipped.
pub(super) fn collect(
    kind: &Option<ParamKind>,
    params: &Option<ParamRef>,
    namespace: &str,
    cluster: &dyn ClusterState,
) -> Result<Vec<Option<Value>>, String> {
    let (Some(kind), Some(params)) = (kind, params) else { return Ok(vec![None]) };
    let namespaced = cluster.resource(&kind.version, &kind.kind).is_some_and(|(_, namespaced)| namespaced);
    let namespace = match (namespaced, params.namespace.as_str(), namespace) {
        (true, "", "") => {
            let why =
                "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources";
            return Err(why.to_string());
        }
        (true, "", own) => own,
        (true, other, _) => other,
        (false, "", _) => "",
        (false, ..) => {
            let why = "paramRef.namespace must not be provided for a cluster-scoped `paramKind`";
            return Err(why.to_string());
        }
    };
    let objects = |name: &str| cluster.objects_in(&kind.version, &kind.kind, namespace, name);
    let found = match (params.name.as_str(), &params.selector) {
        ("", Some(selector)) => {
            let selector = selector.as_ref().map_err(Clone::clone)?;
            objects("").into_iter().filter(|object| selector.matches_object(object)).collect()
        }
        ("", None) => return Err("one of name or selector must be provided".to_string()),
        (name, _) => objects(name),
    };
    if found.is_empty() && params.denies {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_string());
    }
    Ok(found.into_iter().map(Some).collect())
}
