//! Node: taints, pod CIDRs, and what its kubelet reports.

use super::podspec::resources::validate_quantity_value;
use super::resources::amounts;
use crate::error_text::Internal;
use crate::fields::{list, member, opt_int, text, texts};
use crate::{Hooks, Scope, check};
use pintle_meta::field::{ErrorKind, ErrorText, quoted};
use pintle_meta::selector::label_validation::validate_label_name;
use pintle_meta::{FieldErrors, names, net};
use pintle_value::{Path, Str, Value};
use std::collections::HashSet;

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
const SET_ONCE_CIDR: &str = "node updates may not change podCIDR except from \"\" to valid";
const SET_ONCE_PROVIDER: &str = "node updates may not change providerID except from \"\" to valid";
const FEATURE_WORDS: &str = "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes";
pub(crate) struct Node;

impl Hooks for Node {
    fn prepare_create(&self, object: &mut Value) {
        object.remove_at(&["spec", "configSource"]);
        object.remove_at(&["status", "config"]);
    }

    fn prepare_update(&self, scope: Scope<'_>, object: &mut Value, old: &Value) {
        if scope == Scope::Main {
            if old.at(&["spec", "configSource"]).is_none() {
                object.remove_at(&["spec", "configSource"]);
            }
            return;
        }
        if old.at(&["status", "config"]).is_none() {
            object.remove_at(&["status", "config"]);
        }
    }

    fn validate_create(&self, object: &Value, errors: &mut FieldErrors) {
        let meta = Path::of("metadata");
        validate_taints(object.items_at(&["spec", "taints"]), &meta.field("taints"), errors);
        validate_resources(object, errors);
        let swap = object.at(&["status", "nodeInfo", "swap"]).and_then(|s| opt_int(s, "capacity"));
        if let Some(capacity) = swap {
            check::positive(&meta.field("nodeSwapStatus.capacity"), capacity, errors);
        }
        validate_features(object, errors);
        validate_pod_cidrs(object, errors);
    }

    fn validate_update(&self, scope: Scope<'_>, object: &Value, _old: &Value, errors: &mut FieldErrors) {
        if scope == Scope::Main {
            self.validate_create(object, errors);
        }
    }

    fn validate_against_old(&self, _scope: Scope<'_>, object: &Value, old: &Value, errors: &mut FieldErrors) {
        validate_resources(object, errors);
        validate_features(object, errors);
        validate_addresses(object, errors);
        validate_set_once(object, old, errors);
        validate_taints(object.items_at(&["spec", "taints"]), &Path::of("metadata.taints"), errors);
        if object.at(&["spec", "externalID"]) != old.at(&["spec", "externalID"]) {
            errors.forbidden(&Path::of("spec.externalID"), "may not be updated");
        }
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut out = Vec::new();
        let Some(spec) = object.get("spec") else { return out };
        if member(spec, "configSource").is_some() {
            out.push("spec.configSource: the feature is removed".to_string());
        }
        if !text(spec, "externalID").is_empty() {
            out.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_string());
        }
        let path = Path::of("spec.podCIDRs");
        for (i, cidr) in texts(spec, "podCIDRs").into_iter().enumerate() {
            out.extend(net::cidr_warnings(&path.index(i), cidr));
        }
        out
    }
}

/// The default of `allocatable` is the capacity. An empty one is lost in kube-apiserver's storage and gets it, too.
pub(crate) fn default_from_others(object: &mut Value) {
    let allocatable = object.at(&["status", "allocatable"]);
    if allocatable.is_none_or(|given| given.is_null() || *given == Value::object())
        && let Some(capacity) = object.at(&["status", "capacity"]).filter(|c| !c.is_null()).cloned()
    {
        object.set_at(&["status", "allocatable"], capacity);
    }
    default_pod_cidrs(object);
}

/// Keeps `podCIDR` and `podCIDRs` consistent; if they differ, `podCIDR` wins.
fn default_pod_cidrs(object: &mut Value) {
    let single: Str = object.str_at(&["spec", "podCIDR"]).into();
    let first: Option<Str> =
        object.items_at(&["spec", "podCIDRs"]).first().map(|v| v.as_str().unwrap_or("").into());
    match first {
        Some(first) if single.is_empty() => object.set_at(&["spec", "podCIDR"], first.into()),
        Some(first) if first == single => {}
        _ if single.is_empty() => {}
        _ => object.set_at(&["spec", "podCIDRs"], Value::Array(vec![single.into()])),
    }
}

fn validate_taints(taints: &[Value], list: &Path<'_>, errors: &mut FieldErrors) {
    let mut seen = check::Unique::default();
    for (i, taint) in taints.iter().enumerate() {
        let path = list.index(i);
        let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
        validate_label_name(key, &path.field("key"), errors);
        let complaints = names::is_label_value(value);
        if !complaints.is_empty() {
            errors.invalid(&path.field("value"), value, &complaints.join(";"));
        }
        check::required_supported(&path.field("effect"), effect, &EFFECTS, errors);
        if seen.is_repeated((key, effect)) {
            let error_text = Internal(Some(taint), "core/v1.Taint").error_text();
            errors.push(
                ErrorKind::Duplicate,
                &path,
                Some(&error_text),
                "taints must be unique by key and effect pair",
            );
        }
    }
}

fn validate_resources(object: &Value, errors: &mut FieldErrors) {
    let status = Path::of("status");
    for field in ["capacity", "allocatable"] {
        let path = status.field(field);
        for (name, amount) in amounts(object.at(&["status", field])) {
            validate_quantity_value(name, &amount, &path.field(name), errors);
        }
    }
}

fn validate_features(object: &Value, errors: &mut FieldErrors) {
    let path = Path::of("status.declaredFeatures");
    let features = object.get("status").map(|s| texts(s, "declaredFeatures")).unwrap_or_default();
    for (i, feature) in features.iter().enumerate() {
        if let Some(complaint) = feature_complaint(feature) {
            errors.invalid(&path.index(i), *feature, &complaint);
        }
        match features.get(i.saturating_add(1)) {
            Some(next) if next == feature => errors.duplicate(&path.index(i.saturating_add(1)), *next),
            Some(next) if next < feature => {
                errors.invalid(&path.index(i.saturating_add(1)), *next, "list must be sorted alphabetically");
            }
            _ => {}
        }
    }
}

fn feature_complaint(name: &str) -> Option<String> {
    if name.len() > names::DNS_SUBDOMAIN_BYTES_MAX {
        let max = names::DNS_SUBDOMAIN_BYTES_MAX;
        return Some(format!("invalid feature name {}: must be no more than {max} characters", quoted(name)));
    }
    let segment = |s: &str| {
        s.starts_with(|c: char| c.is_ascii_alphabetic()) && s.bytes().all(|b| b.is_ascii_alphanumeric())
    };
    let fine = name.starts_with(|c: char| c.is_ascii_uppercase()) && name.split('/').all(segment);
    (!fine).then(|| format!("invalid feature name {}: {FEATURE_WORDS}", quoted(name)))
}

fn validate_pod_cidrs(object: &Value, errors: &mut FieldErrors) {
    let cidrs = object.get("spec").map(|s| texts(s, "podCIDRs")).unwrap_or_default();
    let path = Path::of("spec.podCIDRs");
    for (i, cidr) in cidrs.iter().enumerate() {
        net::validate_cidr_legacy(&path.index(i), cidr, &HashSet::new(), errors);
    }
    if cidrs.len() < 2 {
        return;
    }
    let parsed: Vec<Option<net::Cidr>> = cidrs.iter().map(|c| net::parse_cidr_sloppy(c)).collect();
    if let Some((i, (_, cidr))) =
        parsed.iter().zip(&cidrs).enumerate().find(|(_, (parsed, _))| parsed.is_none())
    {
        errors.internal(
            &path,
            &format!(
                "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{i}]: <nil> (invalid CIDR address: {cidr})"
            ),
        );
    }
    let v4 = parsed.iter().flatten().filter(|c| c.address.to_canonical().is_ipv4()).count();
    let dual = parsed.iter().all(Option::is_some) && v4 > 0 && v4 < parsed.len();
    if !dual || cidrs.len() > 2 {
        let all: Vec<Str> = cidrs.iter().map(|c| Str::from(*c)).collect();
        errors.invalid(&path, all.as_slice(), "may specify no more than one CIDR for each IP family");
    }
}

fn validate_addresses(object: &Value, errors: &mut FieldErrors) {
    let path = Path::of("status.addresses");
    let mut seen = check::Unique::default();
    let addresses = object.get("status").map(|s| list(s, "addresses")).unwrap_or(&[]);
    for (i, address) in addresses.iter().enumerate() {
        seen.check(
            (text(address, "type"), text(address, "address")),
            &path.index(i),
            Internal(Some(address), "core/v1.NodeAddress"),
            errors,
        );
    }
}

/// CIDRs and provider ID can only be set once.
fn validate_set_once(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let spec = Path::of("spec");
    let (before, after) = (old.items_at(&["spec", "podCIDRs"]), object.items_at(&["spec", "podCIDRs"]));
    if !before.is_empty() {
        let changed = if before.len() == after.len() {
            before.iter().zip(after).filter(|(b, a)| b != a).count()
        } else {
            1
        };
        for _ in 0..changed {
            errors.forbidden(&spec.field("podCIDRs"), SET_ONCE_CIDR);
        }
    }
    let before = old.str_at(&["spec", "providerID"]);
    if !before.is_empty() && before != object.str_at(&["spec", "providerID"]) {
        errors.forbidden(&spec.field("providerID"), SET_ONCE_PROVIDER);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{created, defaulted, updated};

    #[test]
    fn ranges_agree_and_capacity_is_allocatable() {
        for (object, expected) in [
            (r#"{"spec":{"podCIDR":"a"}}"#, r#"{"spec":{"podCIDR":"a","podCIDRs":["a"]}}"#),
            (r#"{"spec":{"podCIDRs":["a","b"]}}"#, r#"{"spec":{"podCIDR":"a","podCIDRs":["a","b"]}}"#),
            (
                r#"{"spec":{"podCIDR":"c","podCIDRs":["a","b"]}}"#,
                r#"{"spec":{"podCIDR":"c","podCIDRs":["c"]}}"#,
            ),
            (
                r#"{"status":{"capacity":{"cpu":"1"}}}"#,
                r#"{"status":{"allocatable":{"cpu":"1"},"capacity":{"cpu":"1"}}}"#,
            ),
        ] {
            assert_eq!(defaulted("core/v1.Node", object), expected);
        }
    }

    #[test]
    fn taints_are_unique() {
        assert_eq!(
            created(
                &Node,
                r#"{"spec":{"taints":[{"key":"d","effect":"NoExecute"},{"key":"d","effect":"NoExecute","value":"v"},{"key":"k"}]}}"#
            ),
            [
                r#"metadata.taints[1]: Duplicate value: {"Key":"d","Value":"v","Effect":"NoExecute","TimeAdded":null}: taints must be unique by key and effect pair"#,
                "metadata.taints[2].effect: Required value",
            ]
        );
    }

    #[test]
    fn some_fields_are_set_once() {
        let meta = r#""metadata":{"name":"n"}"#;
        let old = format!(r#"{{{meta},"spec":{{"podCIDRs":["10.0.0.0/24"],"providerID":"a"}}}}"#);
        let new = format!(r#"{{{meta},"spec":{{"podCIDRs":["10.0.1.0/24"],"providerID":"b"}}}}"#);
        assert_eq!(
            updated(&Node, Scope::Main, &new, &old),
            [
                format!("spec.podCIDRs: Forbidden: {SET_ONCE_CIDR}"),
                format!("spec.providerID: Forbidden: {SET_ONCE_PROVIDER}")
            ]
        );
    }
}
