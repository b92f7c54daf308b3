//! LimitRanger: applies a namespace's default requests and limits to containers, and enforces its bounds on pods and
//! claims.

use crate::resources::{self, ResourceList};
use crate::{Attributes, Mutation, Operation, Plugin, Resources, Validation};
use pintle_meta::{Quantity, Status};
use pintle_value::Value;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";
/// Larger values cannot be expressed in thousandths.
const MILLI_VALUE_MAX: i64 = i64::MAX / 1000;

pub(crate) struct LimitRanger;

impl Plugin for LimitRanger {
    fn resources(&self) -> Resources {
        &[("", "pods"), ("", "persistentvolumeclaims")]
    }

    fn mutate(&self, Mutation { request, object, cluster }: Mutation<'_>) -> Result<(), Status> {
        if !applies(request) || !request.is("", "pods") {
            return Ok(());
        }
        for range in cluster.objects("", "limitranges", request.namespace) {
            set_defaults(object, &range);
        }
        Ok(())
    }

    fn validate(&self, Validation { request, object, cluster, .. }: Validation<'_>) -> Result<(), Status> {
        let Some(object) = object.filter(|_| applies(request)) else { return Ok(()) };
        for range in cluster.objects("", "limitranges", request.namespace) {
            let errors = match request.kind.plural.as_str() {
                "pods" => check_pod(object, &range),
                _ => check_claim(object, &range),
            };
            if let Some(why) = resources::join_errors(errors) {
                return Err(request.forbidden(Some(object), &why));
            }
        }
        Ok(())
    }
}

/// Returns whether LimitRanger applies: new pods, resized pods, and claims, unless they are being deleted.
fn applies(request: &Attributes<'_>) -> bool {
    if request.old.is_some_and(|old| old.at(&["metadata", "deletionTimestamp"]).is_some()) {
        return false;
    }
    let pods = request.is("", "pods");
    match (request.operation, request.subresource) {
        (Operation::Update, "resize") => pods,
        (Operation::Create, "") => pods || request.is("", "persistentvolumeclaims"),
        (Operation::Update, "") => request.is("", "persistentvolumeclaims"),
        _ => false,
    }
}

fn set_defaults(pod: &mut Value, range: &Value) {
    let (mut requests, mut limits) = (Value::object(), Value::object());
    for limit in range.items_at(&["spec", "limits"]).iter().filter(|l| l.str_at(&["type"]) == "Container") {
        for (into, from) in [(&mut requests, "defaultRequest"), (&mut limits, "default")] {
            for (name, amount) in
                limit.get(from).and_then(Value::as_object).into_iter().flat_map(|m| m.iter())
            {
                into.set_at(&[name], amount.clone());
            }
        }
    }
    let mut notes = Vec::new();
    for (list, word) in [("containers", "container"), ("initContainers", "init container")] {
        let containers = pod.at_mut(&["spec", list]).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten() {
            let name = container.str_at(&["name"]).to_string();
            let set_limits = fill(container, "limits", &limits);
            let set_requests = fill(container, "requests", &requests);
            for (set, kind) in [(set_requests, "request"), (set_limits, "limit")] {
                if !set.is_empty() {
                    notes.push(format!("{} {kind} for {word} {name}", set.join(", ")));
                }
            }
        }
    }
    if !notes.is_empty() {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        pod.set_at(&["metadata", "annotations", ANNOTATION], note.into());
    }
}

/// Sets missing values; returns their names, in order.
fn fill(container: &mut Value, side: &str, defaults: &Value) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in defaults.as_object().into_iter().flat_map(|map| map.iter()) {
        if container.at(&["resources", side, name]).is_none() {
            container.set_at(&["resources", side, name], amount.clone());
            set.push(name.to_string());
        }
    }
    set.sort();
    set
}

fn check_claim(claim: &Value, range: &Value) -> Vec<String> {
    let requests = resources::list(claim.at(&["spec", "resources", "requests"]));
    let none = ResourceList::new();
    let mut errors = Vec::new();
    let limits = range.items_at(&["spec", "limits"]).iter();
    for limit in limits.filter(|l| l.str_at(&["type"]) == "PersistentVolumeClaim") {
        for (name, least) in resources::list(limit.get("min")) {
            errors.extend(min_error("PersistentVolumeClaim", &name, &least, &requests, &none));
        }
        for (name, most) in resources::list(limit.get("max")) {
            errors.extend(max_request_error("PersistentVolumeClaim", &name, &most, &requests));
        }
    }
    errors
}

fn check_pod(pod: &Value, range: &Value) -> Vec<String> {
    let mut errors = Vec::new();
    for limit in range.items_at(&["spec", "limits"]) {
        match limit.str_at(&["type"]) {
            "Container" => {
                let lists = ["containers", "initContainers"];
                for container in lists.iter().flat_map(|list| pod.items_at(&["spec", list])) {
                    let requests = resources::list(container.at(&["resources", "requests"]));
                    let limits = resources::list(container.at(&["resources", "limits"]));
                    check_bounds("Container", limit, &requests, &limits, &mut errors);
                }
            }
            "Pod" => {
                let of_pod = |side| {
                    resources::of_pod(pod, side, |container| resources::of(container, side), is_pod_level)
                };
                let (requests, limits) = (of_pod("requests"), of_pod("limits"));
                check_bounds("Pod", limit, &requests, &limits, &mut errors);
            }
            _ => {}
        }
    }
    errors
}

/// Of the resources of the whole pod, kube-apiserver considers these here; quotas also consider huge pages.
fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory")
}

fn check_bounds(
    kind: &str,
    limit: &Value,
    requests: &ResourceList,
    limits: &ResourceList,
    errors: &mut Vec<String>,
) {
    for (name, least) in resources::list(limit.get("min")) {
        errors.extend(min_error(kind, &name, &least, requests, limits));
    }
    for (name, most) in resources::list(limit.get("max")) {
        errors.extend(max_error(kind, &name, &most, requests, limits));
    }
    for (name, ratio) in resources::list(limit.get("maxLimitRequestRatio")) {
        errors.extend(ratio_error(kind, &name, &ratio, requests, limits));
    }
}

/// Whole numbers to compare a request and a limit (zero if missing) with their bound: thousandths, unless one of the three
/// is too large for that.
fn comparable(request: Option<&Quantity>, limit: Option<&Quantity>, bound: &Quantity) -> (i64, i64, i64) {
    let all = [request, limit, Some(bound)];
    let values = all.map(|amount| amount.map_or(0, Quantity::value));
    let [request, limit, bound] = if values.iter().all(|value| *value <= MILLI_VALUE_MAX) {
        all.map(|amount| amount.map_or(0, Quantity::milli_value))
    } else {
        values
    };
    (request, limit, bound)
}

fn min_error(
    kind: &str,
    name: &str,
    least: &Quantity,
    requests: &ResourceList,
    limits: &ResourceList,
) -> Option<String> {
    let rule = format!("minimum {name} usage per {kind} is {least}");
    let limit = limits.get(name);
    let Some(request) = requests.get(name) else { return Some(format!("{rule}.  No request is specified")) };
    let (asked, allowed, bound) = comparable(Some(request), limit, least);
    if asked < bound {
        return Some(format!("{rule}, but request is {request}"));
    }
    let limit = limit.filter(|_| allowed < bound)?;
    Some(format!("{rule}, but limit is {limit}"))
}

fn max_request_error(kind: &str, name: &str, most: &Quantity, requests: &ResourceList) -> Option<String> {
    let rule = format!("maximum {name} usage per {kind} is {most}");
    let Some(request) = requests.get(name) else { return Some(format!("{rule}.  No request is specified")) };
    let (asked, _, bound) = comparable(Some(request), None, most);
    (asked > bound).then(|| format!("{rule}, but request is {request}"))
}

fn max_error(
    kind: &str,
    name: &str,
    most: &Quantity,
    requests: &ResourceList,
    limits: &ResourceList,
) -> Option<String> {
    let rule = format!("maximum {name} usage per {kind} is {most}");
    let request = requests.get(name);
    let Some(limit) = limits.get(name) else { return Some(format!("{rule}.  No limit is specified")) };
    let (asked, allowed, bound) = comparable(request, Some(limit), most);
    if allowed > bound {
        return Some(format!("{rule}, but limit is {limit}"));
    }
    let request = request.filter(|_| asked > bound)?;
    Some(format!("{rule}, but request is {request}"))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the ratio is shown with six digits, as kube-apiserver computes it"
)]
fn ratio_error(
    kind: &str,
    name: &str,
    ratio: &Quantity,
    requests: &ResourceList,
    limits: &ResourceList,
) -> Option<String> {
    let rule = format!("{name} max limit to request ratio per {kind} is {ratio}");
    let (request, limit) = (requests.get(name), limits.get(name));
    let Some(request) = request.filter(|r| !r.is_zero()) else {
        return Some(format!("{rule}, but no request is specified or request is 0"));
    };
    let Some(limit) = limit.filter(|l| !l.is_zero()) else {
        return Some(format!("{rule}, but no limit is specified or limit is 0"));
    };
    let (asked, allowed, _) = comparable(Some(request), Some(limit), ratio);
    let observed = allowed as f64 / asked as f64;
    let over = if ratio.value() <= MILLI_VALUE_MAX {
        observed * 1000.0 > ratio.milli_value() as f64
    } else {
        observed > ratio.value() as f64
    };
    over.then(|| format!("{rule}, but provided ratio is {observed:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Objects, admitted, kind, text};

    const RANGE: &str = r#"{"metadata":{"name":"l"},"spec":{"limits":[
        {"type":"Container","default":{"cpu":"500m"},"defaultRequest":{"cpu":"100m"},"max":{"cpu":"1"},"min":{"cpu":"50m"},"maxLimitRequestRatio":{"cpu":"5"}},
        {"type":"Pod","max":{"memory":"1Gi"}},
        {"type":"PersistentVolumeClaim","min":{"storage":"1Gi"},"max":{"storage":"2Gi"}}]}}"#;

    #[test]
    fn containers_get_defaults_and_have_bounds() {
        let pods = kind("", "pods");
        let cluster = Objects::of(&[("", "limitranges", RANGE)]);
        let pod = |resources: &str| {
            format!(r#"{{"spec":{{"containers":[{{"name":"c","resources":{resources}}}]}}}}"#)
        };
        let (given, _) =
            admitted(&LimitRanger, &pods, &pod(r#"{"limits":{"memory":"1Mi"}}"#), &cluster).unwrap();
        let resources = given.items_at(&["spec", "containers"])[0].get("resources").unwrap();
        assert_eq!(text(resources), r#"{"limits":{"cpu":"500m","memory":"1Mi"},"requests":{"cpu":"100m"}}"#);
        assert_eq!(
            given.str_at(&["metadata", "annotations", ANNOTATION]),
            "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
        );
        for (resources, why) in [
            (r#"{"limits":{"memory":"2Gi"}}"#, "maximum memory usage per Pod is 1Gi, but limit is 2Gi"),
            (r#"{}"#, "maximum memory usage per Pod is 1Gi.  No limit is specified"),
            (
                r#"{"limits":{"cpu":"2","memory":"1Mi"},"requests":{"cpu":"1"}}"#,
                "maximum cpu usage per Container is 1, but limit is 2",
            ),
            (
                r#"{"limits":{"cpu":"1","memory":"1Mi"},"requests":{"cpu":"100m"}}"#,
                "cpu max limit to request ratio per Container is 5, but provided ratio is 10.000000",
            ),
            (
                r#"{"limits":{"cpu":"60m","memory":"1Mi"},"requests":{"cpu":"20m"}}"#,
                "minimum cpu usage per Container is 50m, but request is 20m",
            ),
        ] {
            let refusal = admitted(&LimitRanger, &pods, &pod(resources), &cluster).unwrap_err();
            assert_eq!(refusal, format!("pods \"x\" is forbidden: {why}"));
        }
    }

    #[test]
    fn claims_have_bounds() {
        let claims = kind("", "persistentvolumeclaims");
        let cluster = Objects::of(&[("", "limitranges", RANGE)]);
        for (size, why) in [
            ("1.5Gi", ""),
            ("1Mi", "minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"),
            ("3Gi", "maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"),
        ] {
            let claim = format!(r#"{{"spec":{{"resources":{{"requests":{{"storage":"{size}"}}}}}}}}"#);
            let refusal = admitted(&LimitRanger, &claims, &claim, &cluster).err().unwrap_or_default();
            let expected = if why.is_empty() {
                String::new()
            } else {
                format!("persistentvolumeclaims \"x\" is forbidden: {why}")
            };
            assert_eq!(refusal, expected);
        }
    }
}
