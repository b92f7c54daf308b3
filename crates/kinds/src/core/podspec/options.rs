//! Validation options: rules that are relaxed on updates because the old object already violates them.

use super::{affinity, defaults::CONTAINER_LISTS, paths, resources, security, spread};
use crate::features;
use crate::fields::{flag, int, list, opt_flag, opt_text, quantity, text};
use pintle_meta::selector::label_validation::Leniency;
use pintle_meta::{FieldErrors, names};
use pintle_value::{Path, Value};

/// The relaxed rules, and whether the spec is that of a pod.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    /// The object is a pod, not something with a template.
    pub(crate) is_pod: bool,
    /// Accept invalid label values in affinity selectors.
    pub(crate) invalid_selector_values: bool,
    /// Accept huge page amounts that are not a multiple of the page size.
    pub(crate) indivisible_huge_pages: bool,
    /// Accept invalid selectors of topology spread constraints.
    pub(crate) invalid_spread_selector: bool,
    /// Apply the older rules to label keys of spread constraints.
    pub(crate) old_match_label_keys: bool,
    /// Accept token paths outside of their volume.
    pub(crate) nonlocal_token_path: bool,
    /// Accept sysctls of namespaces that are shared with the host.
    pub(crate) host_sysctls: bool,
    /// Accept invalid label values in required node affinity.
    pub(crate) invalid_node_affinity_values: bool,
    /// Accept block devices together with user namespaces.
    pub(crate) devices_with_user_namespaces: bool,
    /// Accept the toleration operators `Lt` and `Gt`.
    pub(crate) toleration_comparisons: bool,
    /// Accept the host network together with user namespaces.
    pub(crate) host_network_with_user_namespaces: bool,
    /// Accept an invalid deletion cost.
    pub(crate) invalid_deletion_cost: bool,
    /// Accept the resize policy RestartContainer on an init container that is not a sidecar.
    pub(crate) restart_container_for_init: bool,
    /// Accept any SELinux change policy, not only `Recursive`.
    pub(crate) any_selinux_change_policy: bool,
}

impl Options {
    /// The options for a pod spec, given the old one and its metadata.
    pub(crate) fn new(is_pod: bool, old: Option<(&Value, Option<&Value>)>) -> Self {
        let Some((spec, meta)) = old else { return Options { is_pod, ..Options::of_features() } };
        let annotations = meta.and_then(|m| m.get("annotations"));
        let features = Options::of_features();
        Options {
            is_pod,
            invalid_selector_values: affinity::has_invalid_selector(spec),
            indivisible_huge_pages: has_indivisible_huge_pages(spec),
            invalid_spread_selector: has_invalid_spread_selector(spec),
            old_match_label_keys: spread::has_invalid_match_label_keys(spec),
            nonlocal_token_path: has_nonlocal_token_path(spec),
            host_sysctls: security::has_host_sysctl(spec),
            invalid_node_affinity_values: has_invalid_node_affinity_value(spec),
            devices_with_user_namespaces: user_namespaces(spec) && has_devices(spec),
            toleration_comparisons: features.toleration_comparisons || has_toleration_comparison(spec),
            host_network_with_user_namespaces: features.host_network_with_user_namespaces
                || user_namespaces(spec) && flag(spec, "hostNetwork"),
            invalid_deletion_cost: !super::annotations::is_deletion_cost_valid(annotations),
            restart_container_for_init: has_restart_container_for_init(spec),
            any_selinux_change_policy: spec.at(&["securityContext", "seLinuxChangePolicy"]).is_some(),
        }
    }

    /// The options that enabled features add for every object.
    pub(crate) fn of_features() -> Self {
        Options {
            toleration_comparisons: features::is_enabled("TaintTolerationComparisonOperators"),
            host_network_with_user_namespaces: features::is_enabled("UserNamespacesHostNetworkSupport"),
            ..Options::default()
        }
    }

    /// The options for a template, given the old one.
    pub(crate) fn of_template(old: Option<&Value>) -> Self {
        let old = old.and_then(|t| Some((t.get("spec")?, t.get("metadata"))));
        Options::new(false, old)
    }
}

fn user_namespaces(spec: &Value) -> bool {
    opt_flag(spec, "hostUsers") == Some(false)
}

fn all_containers(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINER_LISTS.into_iter().flat_map(|name| list(spec, name))
}

fn has_devices(spec: &Value) -> bool {
    all_containers(spec).any(|c| !list(c, "volumeDevices").is_empty())
}

fn has_indivisible_huge_pages(spec: &Value) -> bool {
    let lists = all_containers(spec).flat_map(|c| ["limits", "requests"].map(|l| c.at(&["resources", l])));
    let lists = lists.chain([spec.get("overhead")]).flatten();
    lists
        .flat_map(|l| crate::fields::entries(Some(l)))
        .any(|(name, value)| !resources::is_huge_page_divisible(name, &quantity(Some(value))))
}

fn has_invalid_spread_selector(spec: &Value) -> bool {
    list(spec, "topologySpreadConstraints")
        .iter()
        .any(|c| Leniency::after(c.get("labelSelector")).invalid_values)
}

fn has_nonlocal_token_path(spec: &Value) -> bool {
    let sources = list(spec, "volumes").iter().flat_map(|v| v.items_at(&["projected", "sources"]));
    sources.filter_map(|s| s.get("serviceAccountToken")).any(|token| {
        let mut errors = FieldErrors::new();
        paths::local_non_reserved(&Path::ROOT, text(token, "path"), &mut errors);
        !errors.is_empty()
    })
}

fn has_invalid_node_affinity_value(spec: &Value) -> bool {
    let required =
        ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"];
    let expressions = spec.items_at(&required).iter().flat_map(|t| list(t, "matchExpressions"));
    let mut values = expressions.flat_map(|e| list(e, "values")).filter_map(Value::as_str);
    values.any(|v| !names::is_label_value(v).is_empty())
}

fn has_toleration_comparison(spec: &Value) -> bool {
    list(spec, "tolerations").iter().any(|t| matches!(text(t, "operator"), "Lt" | "Gt"))
}

fn has_restart_container_for_init(spec: &Value) -> bool {
    let plain =
        list(spec, "initContainers").iter().filter(|c| opt_text(c, "restartPolicy") != Some("Always"));
    let mut policies = plain.flat_map(|c| list(c, "resizePolicy"));
    policies.any(|p| text(p, "restartPolicy") == "RestartContainer")
}

/// Whether a spec has any scheduling gate.
pub(crate) fn is_gated(spec: &Value) -> bool {
    !list(spec, "schedulingGates").is_empty()
}

/// The generation of an object.
pub(crate) fn generation(object: &Value) -> i64 {
    object.get("metadata").map_or(0, |m| int(m, "generation"))
}
