//! PodTolerationRestriction: default and allowed tolerations of pods, by namespace annotation or cluster configuration.

use crate::config::{PluginConfig, Scheme};
use crate::quota::is_best_effort;
use crate::tolerations::{Toleration, merge};
use crate::{Attributes, ClusterState, Mutation, Operation, Plugin, Validation};
use pintle_kinds::validate_tolerations;
use pintle_meta::go_type::{GoStruct, GoType};
use pintle_meta::{FieldErrors, GroupResource, Status};
use pintle_value::{Map, Path, Str, Value, json};

const DEFAULTS: &str = "scheduler.alpha.kubernetes.io/defaultTolerations";
const WHITELIST: &str = "scheduler.alpha.kubernetes.io/tolerationsWhitelist";

const TOLERATION: GoStruct = GoStruct(
    "v1.Toleration",
    &[
        ("key", GoType::Text("string")),
        ("operator", GoType::Text("v1.TolerationOperator")),
        ("value", GoType::Text("string")),
        ("effect", GoType::Text("v1.TaintEffect")),
        ("tolerationSeconds", GoType::Int64("int64")),
    ],
);
const TOLERATIONS: GoType = GoType::Structs(&TOLERATION);
const CONFIGURATION: GoStruct = GoStruct(
    "Configuration",
    &[("default", GoType::Structs(&TOLERATION)), ("whitelist", GoType::Structs(&TOLERATION))],
);
const SCHEME: Scheme = Scheme {
    kinds: &[("podtolerationrestriction.admission.k8s.io/v1alpha1", "Configuration", &CONFIGURATION)],
    strict: false,
    place: "pkg/admission/podtolerationrestriction/config.go:32",
};

/// The cluster-wide configuration, for namespaces without annotation.
#[derive(Default)]
pub(crate) struct PodTolerationRestriction {
    defaults: Vec<Toleration>,
    whitelist: Vec<Toleration>,
}

impl PodTolerationRestriction {
    pub(crate) fn new(config: Option<&PluginConfig>) -> Result<Self, String> {
        let Some(config) = config else { return Ok(PodTolerationRestriction::default()) };
        let (_, tree) = config.decode(&SCHEME).map_err(|error| error.text())?;
        let mut errors = FieldErrors::new();
        let root = Path::of("podtolerationrestriction");
        for list in ["default", "whitelist"] {
            validate_tolerations(tree.items_at(&[list]), &root.field(list), &mut errors);
        }
        if !errors.is_empty() {
            // kube-apiserver prints the list of errors with Go's formatting, without commas.
            let texts: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
            return Err(format!("invalid config: [{}]", texts.join(" ")));
        }
        let read = |list: &str| tree.items_at(&[list]).iter().map(Toleration::of).collect();
        Ok(PodTolerationRestriction { defaults: read("default"), whitelist: read("whitelist") })
    }

    fn check(&self, request: &Attributes<'_>, pod: &Value, cluster: &dyn ClusterState) -> Result<(), Status> {
        let tolerations = of_pod(pod);
        if tolerations.is_empty() {
            return Ok(());
        }
        let own = of_namespace(request, WHITELIST, cluster)?;
        let (whitelist, scope) = match &own {
            Some(own) => (own.as_slice(), "namespace"),
            None => (self.whitelist.as_slice(), "cluster"),
        };
        let is_listed = |one: &Toleration| whitelist.iter().any(|listed| listed.covers(one));
        if whitelist.is_empty() || tolerations.iter().all(is_listed) {
            return Ok(());
        }
        Err(Status::unclassified(format!(
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its {scope} whitelist"
        )))
    }
}

impl Plugin for PodTolerationRestriction {
    fn mutate(&self, Mutation { request, object: pod, cluster }: Mutation<'_>) -> Result<(), Status> {
        if !is_ours(request) {
            return Ok(());
        }
        let mut more = Vec::new();
        if request.operation == Operation::Create {
            let own = of_namespace(request, DEFAULTS, cluster)?;
            more = own.unwrap_or_else(|| self.defaults.clone());
        }
        if !is_best_effort(pod) {
            more.push(Toleration {
                key: "node.kubernetes.io/memory-pressure".to_string(),
                operator: "Exists".to_string(),
                effect: "NoSchedule".to_string(),
                ..Toleration::default()
            });
        }
        if !more.is_empty() {
            let mut all = of_pod(pod);
            all.append(&mut more);
            let merged = merge(all).iter().map(Toleration::to_value).collect();
            pod.set_at(&["spec", "tolerations"], Value::Array(merged));
        }
        self.check(request, pod, cluster)
    }

    fn validate(&self, Validation { request, object, cluster, .. }: Validation<'_>) -> Result<(), Status> {
        match object.filter(|_| is_ours(request)) {
            Some(pod) => self.check(request, pod, cluster),
            None => Ok(()),
        }
    }
}

fn is_ours(request: &Attributes<'_>) -> bool {
    let writes = matches!(request.operation, Operation::Create | Operation::Update);
    writes && request.is("", "pods") && request.subresource.is_empty()
}

fn of_pod(pod: &Value) -> Vec<Toleration> {
    pod.items_at(&["spec", "tolerations"]).iter().map(Toleration::of).collect()
}

/// The value of a namespace's annotation; `None` if it is absent.
fn of_namespace(
    request: &Attributes<'_>,
    annotation: &str,
    cluster: &dyn ClusterState,
) -> Result<Option<Vec<Toleration>>, Status> {
    let Some(namespace) = cluster.object("", "namespaces", "", request.namespace) else {
        return Err(Status::not_found(&GroupResource::new("", "namespaces"), request.namespace));
    };
    let given = namespace.at(&["metadata", "annotations", annotation]).and_then(Value::as_str);
    match given {
        None => Ok(None),
        Some("") => Ok(Some(Vec::new())),
        Some(text) => read(text).map(Some).map_err(Status::unclassified),
    }
}

fn read(text: &str) -> Result<Vec<Toleration>, String> {
    let mut tree = json::parse(text.as_bytes()).map_err(|error| error.to_string())?.value;
    for toleration in tree.as_array_mut().into_iter().flatten() {
        fold_case(toleration);
    }
    if let Some(why) = TOLERATIONS.type_error(&tree, "v1") {
        return Err(why);
    }
    Ok(tree.as_array().unwrap_or_default().iter().map(Toleration::of).collect())
}

/// Renames fields that differ from those of a toleration in upper and lower case only: Go's decoder accepts them here.
fn fold_case(toleration: &mut Value) {
    let Some(given) = toleration.as_object() else { return };
    let canonical = |key: &Str| {
        let known = TOLERATION.1.iter().find(|(name, _)| key.eq_ignore_ascii_case(name));
        known.map_or_else(|| key.clone(), |(name, _)| Str::from(*name))
    };
    let renamed: Map = given.iter().map(|(key, value)| (canonical(key), value.clone())).collect();
    *toleration = renamed.into();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, admitted, kind, text};

    #[test]
    fn wider_tolerations_replace_narrower_ones() {
        for (all, want) in [
            (
                r#"[{"key":"a","operator":"Exists","effect":"NoSchedule"},{"key":"a","operator":"Exists"}]"#,
                "1",
            ),
            (r#"[{"operator":"Exists"},{"key":"a","operator":"Equal","value":"b"}]"#, "0"),
            (r#"[{"key":"a","value":"b"},{"key":"a","operator":"Equal","value":"b"}]"#, "0"),
            (r#"[{"key":"a","operator":"Equal","value":"b"},{"key":"a","value":"b"}]"#, "1"),
            (
                r#"[{"key":"a","operator":"Exists","effect":"NoExecute","tolerationSeconds":5},{"key":"a","operator":"Exists","effect":"NoExecute"}]"#,
                "1",
            ),
            (r#"[{"key":"a","operator":"Exists"},{"key":"b","operator":"Exists"}]"#, "0 1"),
        ] {
            let all = read(all).unwrap();
            let merged = merge(all.clone());
            let at = |one: &Toleration| all.iter().position(|other| other == one).unwrap().to_string();
            assert_eq!(merged.iter().map(at).collect::<Vec<_>>().join(" "), want, "{all:?}");
        }
    }

    #[test]
    fn the_namespace_decides_and_else_the_cluster() {
        let config = r#"{"apiVersion":"podtolerationrestriction.admission.k8s.io/v1alpha1","kind":"Configuration",
            "default":[{"key":"team","operator":"Exists"}],"whitelist":[{"key":"team","operator":"Exists"}]}"#;
        let plugin = PodTolerationRestriction::new(Some(&PluginConfig::of_text(config.as_bytes()))).unwrap();
        let cluster = |annotations: &str| {
            let namespace = format!(r#"{{"metadata":{{"name":"n","annotations":{annotations}}}}}"#);
            Objects::of(&[("", "namespaces", &namespace)])
        };
        let pods = kind("", "pods");
        let ask = |annotations: &str, pod: &str| {
            admitted(&plugin, &pods, pod, &cluster(annotations)).map(|(pod, _)| text(&pod))
        };
        assert_eq!(
            ask("{}", "{}").unwrap(),
            r#"{"spec":{"tolerations":[{"key":"team","operator":"Exists"}]}}"#
        );
        let other = r#"{"spec":{"tolerations":[{"key":"x","operator":"Exists"}]}}"#;
        let conflict = "pod tolerations (possibly merged with namespace default tolerations) conflict with its cluster whitelist";
        assert_eq!(ask("{}", other), Err(conflict.to_string()));
        let open = format!(r#"{{"{DEFAULTS}":"","{WHITELIST}":""}}"#);
        assert_eq!(ask(&open, other).unwrap(), other);
        let odd = format!(r#"{{"{DEFAULTS}":"[{{\"key\":5}}]"}}"#);
        assert_eq!(
            ask(&odd, "{}"),
            Err("json: cannot unmarshal number into Go struct field Toleration.key of type string"
                .to_string())
        );
    }
}
