//! The version in which built-in kinds are stored in etcd, and other versions with identical messages.

use pintle_kinds::Kind;
use pintle_value::Str;

/// Versions of a kind that differ from the storage version only in name: their messages have the same fields with the
/// same numbers. `stored` is the version that kube-apiserver v1.36 writes.
struct Row {
    group: &'static str,
    plural: &'static str,
    /// The `apiVersion` that is written; "" means the storage version.
    stored: &'static str,
    /// Other `apiVersion`s that are decoded.
    read: &'static [&'static str],
}

const ADMISSION: &[&str] = &["admissionregistration.k8s.io/v1beta1", "admissionregistration.k8s.io/v1alpha1"];
const APPS: &[&str] = &["apps/v1beta1", "apps/v1beta2", "extensions/v1beta1"];
const FLOW: &[&str] = &[
    "flowcontrol.apiserver.k8s.io/v1beta1",
    "flowcontrol.apiserver.k8s.io/v1beta2",
    "flowcontrol.apiserver.k8s.io/v1beta3",
];
const RBAC: &[&str] = &["rbac.authorization.k8s.io/v1beta1"];
const STORAGE: &[&str] = &["storage.k8s.io/v1beta1", "storage.k8s.io/v1alpha1"];

const ROWS: &[Row] = &[
    row("admissionregistration.k8s.io", "mutatingadmissionpolicies", ADMISSION)
        .stored("admissionregistration.k8s.io/v1beta1"),
    row("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", ADMISSION)
        .stored("admissionregistration.k8s.io/v1beta1"),
    row("admissionregistration.k8s.io", "validatingadmissionpolicies", ADMISSION),
    row("admissionregistration.k8s.io", "validatingadmissionpolicybindings", ADMISSION),
    row("admissionregistration.k8s.io", "mutatingwebhookconfigurations", ADMISSION),
    row("admissionregistration.k8s.io", "validatingwebhookconfigurations", ADMISSION),
    row("apiregistration.k8s.io", "apiservices", &["apiregistration.k8s.io/v1beta1"]),
    row("apps", "controllerrevisions", APPS),
    row("apps", "daemonsets", APPS),
    row("apps", "deployments", APPS),
    row("apps", "replicasets", APPS),
    row("apps", "statefulsets", APPS),
    row("batch", "cronjobs", &["batch/v1beta1"]),
    row("certificates.k8s.io", "certificatesigningrequests", &["certificates.k8s.io/v1beta1"]),
    row("coordination.k8s.io", "leases", &["coordination.k8s.io/v1beta1"]),
    row("discovery.k8s.io", "endpointslices", &["discovery.k8s.io/v1beta1"]),
    row("flowcontrol.apiserver.k8s.io", "flowschemas", FLOW),
    row("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations", FLOW),
    row("networking.k8s.io", "ingressclasses", &["networking.k8s.io/v1beta1"]),
    row("networking.k8s.io", "ipaddresses", &["networking.k8s.io/v1beta1"]),
    row("networking.k8s.io", "networkpolicies", &["extensions/v1beta1"]),
    row("networking.k8s.io", "servicecidrs", &["networking.k8s.io/v1beta1"]),
    row("node.k8s.io", "runtimeclasses", &["node.k8s.io/v1beta1"]),
    row("policy", "poddisruptionbudgets", &["policy/v1beta1"]),
    row("rbac.authorization.k8s.io", "clusterrolebindings", RBAC),
    row("rbac.authorization.k8s.io", "clusterroles", RBAC),
    row("rbac.authorization.k8s.io", "rolebindings", RBAC),
    row("rbac.authorization.k8s.io", "roles", RBAC),
    row("scheduling.k8s.io", "priorityclasses", &["scheduling.k8s.io/v1beta1", "scheduling.k8s.io/v1alpha1"]),
    row("resource.k8s.io", "devicetaintrules", &[]).stored("resource.k8s.io/v1alpha3"),
    row("storage.k8s.io", "csidrivers", STORAGE),
    row("storage.k8s.io", "csinodes", STORAGE),
    row("storage.k8s.io", "csistoragecapacities", STORAGE),
    row("storage.k8s.io", "storageclasses", STORAGE),
    row("storage.k8s.io", "volumeattachments", STORAGE),
    row("storage.k8s.io", "volumeattributesclasses", STORAGE),
];

const fn row(group: &'static str, plural: &'static str, read: &'static [&'static str]) -> Row {
    Row { group, plural, stored: "", read }
}

impl Row {
    const fn stored(mut self, version: &'static str) -> Row {
        self.stored = version;
        self
    }
}

fn find(kind: &Kind) -> Option<&'static Row> {
    ROWS.iter().find(|row| row.group == kind.group && row.plural == kind.plural)
}

/// The `apiVersion` with which objects of a built-in kind are stored.
pub(super) fn stored_as(kind: &Kind) -> Str {
    match find(kind).map_or("", |row| row.stored) {
        "" => {
            let version = kind.storage_version();
            crate::decode::api_version(&version.group, &version.name)
        }
        stored => Str::from(stored),
    }
}

/// The `apiVersion` with which kube-apiserver v1.36 stores objects of a built-in kind in etcd, and so does this server.
pub fn encoding_version(kind: &Kind) -> Str {
    if kind.group == "apiextensions.k8s.io" && kind.plural == "customresourcedefinitions" {
        Str::from(super::definition::V1BETA1)
    } else {
        stored_as(kind)
    }
}

/// The `apiVersion`s in which stored objects of a built-in kind are decoded: those of its own group, the best first, then
/// others.
pub fn decodable_versions(kind: &Kind) -> Vec<Str> {
    let known = kind.versions.iter().map(|v| crate::decode::api_version(&v.group, &v.name));
    let read = find(kind).map_or(&[][..], |row| row.read).iter().map(|version| Str::from(*version));
    let mut all: Vec<Str> = known.chain(read).chain([encoding_version(kind)]).collect();
    let place = |version: &Str| {
        let (group, name) = version.split_once('/').unwrap_or(("", version));
        (group != kind.group.as_str(), std::cmp::Reverse(crate::crd::version_order(name)))
    };
    all.sort_by_cached_key(place);
    all.dedup();
    all
}

/// The index of the version that decodes a stored message of this `apiVersion`.
pub(super) fn position(kind: &Kind, api_version: &str) -> Option<usize> {
    let named = |version: &pintle_kinds::KindVersion| {
        crate::decode::api_version(&version.group, &version.name) == api_version
    };
    kind.versions.iter().position(named).or_else(|| {
        let row = find(kind)?;
        row.read.contains(&api_version).then_some(kind.storage)
    })
}
