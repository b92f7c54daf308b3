//! The quota usage of ResourceClaims: devices by their class, and extended resources that represent a class.

use super::usage;
use crate::ClusterState;
use crate::resources::ResourceList;
use pintle_meta::Quantity;
use pintle_meta::quantity::Format;
use pintle_value::Value;

const NUMBER: &str = "count/resourceclaims.resource.k8s.io";
const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
const IMPLICIT: &str = "requests.deviceclass.resource.kubernetes.io/";
/// A claim of a pod's extended resources, made by the scheduler.
const EXTENDED_CLAIM: &str = "resource.kubernetes.io/extended-resource-claim";
/// The devices of a request for all devices of a class, at worst.
const ALL_DEVICES_MAX: i64 = 32;

/// Returns whether a resource name of a quota concerns ResourceClaims.
pub(super) fn tracks(name: &str, cluster: &dyn ClusterState) -> bool {
    if name == NUMBER || name.ends_with(OF_CLASS) {
        return true;
    }
    if let Some(class) = name.strip_prefix(IMPLICIT) {
        return cluster.object("resource.k8s.io", "deviceclasses", "", class).is_some();
    }
    let resource = name.strip_prefix("requests.").filter(|name| usage::is_counted_request(name));
    let stands = |resource: &str| {
        let classes = cluster.objects("resource.k8s.io", "deviceclasses", "");
        classes.iter().any(|class| class.str_at(&["spec", "extendedResourceName"]) == resource)
    };
    resource.is_some_and(stands)
}

/// The usage of a claim.
pub(super) fn of_claim(claim: &Value, cluster: &dyn ClusterState) -> ResourceList {
    let mut devices = ResourceList::new();
    for request in claim.items_at(&["spec", "devices", "requests"]) {
        let alternatives = request.items_at(&["firstAvailable"]);
        let of_request = match (alternatives, request.get("exactly")) {
            ([], None) => continue,
            ([], Some(exactly)) => most_of_each_class(std::slice::from_ref(exactly)),
            (alternatives, _) => most_of_each_class(alternatives),
        };
        crate::resources::add(&mut devices, &of_request);
    }
    let of_pod = owning_pod(claim, cluster).map(|pod| usage::of_pod(&pod, cluster.now())).unwrap_or_default();
    let mut out = ResourceList::from([(NUMBER.to_string(), Quantity::new(1, Format::DecimalSI))]);
    for (class, amount) in devices {
        let mut names = vec![format!("{IMPLICIT}{class}")];
        let found = cluster.object("resource.k8s.io", "deviceclasses", "", &class);
        let extended = found.as_ref().map_or("", |class| class.str_at(&["spec", "extendedResourceName"]));
        if !extended.is_empty() {
            names.push(format!("requests.{extended}"));
        }
        for name in names.into_iter().filter(|_| !class.is_empty()) {
            let mut rest = amount.clone();
            // The pod is charged for its extended resources, so the claim that fulfils them is not.
            if let Some(counted) = of_pod.get(&name) {
                rest.sub(counted);
            }
            if rest.sign() > 0 {
                out.insert(name, rest);
            }
        }
        out.insert(format!("{class}{OF_CLASS}"), amount);
    }
    out
}

/// The number of devices by class. Of alternatives, the one with the most devices of a class counts.
fn most_of_each_class(alternatives: &[Value]) -> ResourceList {
    let mut most = ResourceList::new();
    for one in alternatives {
        let count = match one.str_at(&["allocationMode"]) {
            "ExactCount" => one.get("count").and_then(Value::as_int).unwrap_or(0),
            "All" => ALL_DEVICES_MAX,
            _ => 0,
        };
        let class = one.str_at(&["deviceClassName"]).to_string();
        let more = ResourceList::from([(class, Quantity::new(count, Format::DecimalSI))]);
        crate::resources::raise(&mut most, &more);
    }
    most
}

/// The pod whose extended resources a claim fulfils. If the pod does not name its claim yet, that is its first one.
fn owning_pod(claim: &Value, cluster: &dyn ClusterState) -> Option<Value> {
    let owner = pod_owner(claim)?;
    let namespace = claim.str_at(&["metadata", "namespace"]);
    let pod = cluster.object("", "pods", namespace, owner.str_at(&["name"]))?;
    let uid = owner.str_at(&["uid"]);
    if pod.str_at(&["metadata", "uid"]) != uid {
        return None;
    }
    let key = |claim: &Value| {
        let text = |field| claim.str_at(&["metadata", field]).to_string();
        (text("creationTimestamp"), text("name"))
    };
    let is_first = match pod.at(&["status", "extendedResourceClaimStatus"]) {
        Some(status) => status.str_at(&["resourceClaimName"]) == claim.str_at(&["metadata", "name"]),
        None => {
            let all = cluster.objects("resource.k8s.io", "resourceclaims", namespace);
            let mut siblings =
                all.iter().filter(|one| pod_owner(one).is_some_and(|o| o.str_at(&["uid"]) == uid));
            !siblings.any(|one| key(one) < key(claim))
        }
    };
    is_first.then_some(pod)
}

/// The reference of a claim of extended resources to its pod.
fn pod_owner(claim: &Value) -> Option<&Value> {
    if claim.str_at(&["metadata", "annotations", EXTENDED_CLAIM]) != "true" {
        return None;
    }
    let mut owners = claim.items_at(&["metadata", "ownerReferences"]).iter();
    let controls = |owner: &&Value| owner.get("controller").and_then(Value::as_bool) == Some(true);
    let is_pod = |owner: &&Value| owner.str_at(&["kind"]) == "Pod" && owner.str_at(&["apiVersion"]) == "v1";
    owners.find(controls).filter(is_pod)
}
