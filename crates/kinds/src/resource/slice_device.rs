//! One device of a slice: attributes, capacity, taints, counters and placement.

use super::names::{self, ID_BYTES_MAX, each_limited, each_unique};
use crate::core::podspec::affinity;
use crate::error_text::Internal;
use crate::{check, facts, fields};
use pintle_meta::field::Plain;
use pintle_meta::{FieldErrors, Quantity};
use pintle_value::{Path, Value};
use std::cmp::Ordering;

const PROPERTIES_MAX: usize = 32;
const DOMAIN_BYTES_MAX: usize = 63;
const TEXT_BYTES_MAX: usize = 64;
const TAINTS_MAX: usize = 16;
const CONSUMPTIONS_MAX: usize = 2;
const COUNTERS_MAX: usize = 32;
const OPTIONS_MAX: usize = 10;
/// Error texts contain at least this many bytes of a key.
const ERROR_KEY_BYTES_MIN: usize = 16;

/// Validates a device.
pub(super) fn validate(
    device: &Value,
    old: Option<&Value>,
    per_device: bool,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    check::dns_label(&path.field("name"), fields::text(device, "name"), errors);
    let count = |key: &str| fields::entries(device.get(key)).count();
    let properties = count("attributes").saturating_add(count("capacity"));
    if properties > PROPERTIES_MAX {
        let why = format!("the total number of attributes and capacities must not exceed {PROPERTIES_MAX}");
        errors.invalid(path, Plain(&properties.to_string()), &why);
    }
    validate_properties(device, path, errors);
    if old.is_none_or(|old| old.get("taints") != device.get("taints")) {
        each_limited(device, "taints", TAINTS_MAX, path, errors, validate_taint);
    }
    let validate = |consumed: &Value, path: &Path<'_>, errors: &mut FieldErrors| {
        validate_counters(consumed, "counterSet", path, errors);
    };
    each_unique(device, "consumesCounters", CONSUMPTIONS_MAX, path, errors, validate, |consumed| {
        fields::text(consumed, "counterSet")
    });
    validate_placement(device, per_device, path, errors);
    names::validate_binding(device, path, errors);
}

fn validate_properties(device: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let max = DOMAIN_BYTES_MAX + 1 + ID_BYTES_MAX;
    let at = path.field("attributes");
    for (key, attribute) in fields::entries(device.get("attributes")) {
        names::validate_qualified(key, &at, errors);
        validate_attribute(attribute, &at.key(&shortened(key, max)), errors);
    }
    let shared = fields::flag(device, "allowMultipleAllocations");
    let at = path.field("capacity");
    for (key, capacity) in fields::entries(device.get("capacity")) {
        names::validate_qualified(key, &at, errors);
        let key = shortened(key, max);
        let at = at.key(&key);
        let at = at.field("requestPolicy");
        match fields::member(capacity, "requestPolicy") {
            None => {}
            Some(_) if !shared => errors.forbidden(&at, "allowMultipleAllocations must be true"),
            Some(policy) => validate_policy(policy, &fields::quantity(capacity.get("value")), &at, errors),
        }
    }
}

/// Shortens a long key in the middle.
fn shortened(key: &str, max: usize) -> String {
    let max = max.max(ERROR_KEY_BYTES_MIN);
    if key.len() <= max {
        return key.to_string();
    }
    let left = max.saturating_sub(3);
    let cut = |range: Option<&str>| range.unwrap_or("").to_string();
    format!("{}...{}", cut(key.get(..left.div_ceil(2))), cut(key.get(key.len().saturating_sub(left >> 1)..)))
}

fn validate_attribute(attribute: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    let has = |key: &str| fields::member(attribute, key).is_some();
    if fields::text(attribute, "string").len() > TEXT_BYTES_MAX {
        errors.too_long(&path.field("string"), TEXT_BYTES_MAX);
    }
    if let Some(version) = fields::opt_text(attribute, "version") {
        if !is_semantic_version(version) {
            let why = "must be a string compatible with semver.org spec 2.0.0";
            errors.invalid(&path.field("version"), version, why);
        }
        if version.len() > TEXT_BYTES_MAX {
            errors.too_long(&path.field("version"), TEXT_BYTES_MAX);
        }
    }
    match ["int", "bool", "string", "version"].into_iter().filter(|key| has(key)).count() {
        0 => errors.invalid(path, "", "exactly one value must be specified"),
        1 => {}
        _ => errors.invalid(
            path,
            Internal(Some(attribute), "resource/v1.DeviceAttribute"),
            "exactly one value must be specified",
        ),
    }
}

/// Returns whether the text is a semantic version, such as `1.2.3-alpha.1+build.5`.
fn is_semantic_version(version: &str) -> bool {
    let (rest, build) = version.split_once('+').map_or((version, None), |(rest, build)| (rest, Some(build)));
    let (core, pre) = rest.split_once('-').map_or((rest, None), |(core, pre)| (core, Some(pre)));
    let word = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let number = |part: &str| digits(part) && (part == "0" || !part.starts_with('0'));
    let pre_fine = |part: &str| word(part) && (!digits(part) || number(part));
    core.split('.').count() == 3
        && core.split('.').all(number)
        && pre.is_none_or(|pre| pre.split('.').all(pre_fine))
        && build.is_none_or(|build| build.split('.').all(word))
}

/// Validates the request policy of a capacity.
fn validate_policy(policy: &Value, capacity: &Quantity, path: &Path<'_>, errors: &mut FieldErrors) {
    let values = fields::list(policy, "validValues");
    let range = fields::member(policy, "validRange");
    let default = fields::member(policy, "default");
    match (values.is_empty(), range) {
        (false, Some(_)) => {
            let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
            errors.forbidden(path, why);
        }
        (false, None) if default.is_none() => {
            errors.required(&path.field("default"), "required when validValues is defined");
        }
        (false, None) => {
            validate_values(values, &fields::quantity(default), capacity, &path.field("validValues"), errors)
        }
        (true, Some(_)) if default.is_none() => {
            errors.required(&path.field("default"), "required when validRange is defined");
        }
        (true, Some(range)) => {
            validate_range(range, &fields::quantity(default), capacity, &path.field("validRange"), errors);
        }
        (true, None) => {}
    }
}

fn text(quantity: &Quantity) -> String {
    quantity.to_string()
}

fn validate_values(
    values: &[Value],
    default: &Quantity,
    capacity: &Quantity,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let quantities: Vec<Quantity> = values.iter().map(|v| fields::quantity(Some(v))).collect();
    for (at, pair) in quantities.windows(2).enumerate() {
        if let [a, b] = pair
            && a.cmp(b) == Ordering::Greater
        {
            errors.invalid(
                &path.index(at.saturating_add(1)),
                text(b).as_str(),
                "values must be sorted in ascending order",
            );
        }
    }
    if quantities.len() > OPTIONS_MAX {
        errors.too_many(path, quantities.len(), OPTIONS_MAX);
    } else {
        for (at, option) in
            quantities.iter().enumerate().filter(|(_, q)| q.cmp(&capacity) == Ordering::Greater)
        {
            let why = format!("option is larger than capacity value: {}", text(capacity));
            errors.invalid(&path.index(at), text(option).as_str(), &why);
        }
        for (at, option) in quantities.iter().enumerate() {
            if quantities.iter().take(at).any(|earlier| earlier.value() == option.value()) {
                errors.duplicate(&path.index(at), option.value().to_string().as_str());
            }
        }
    }
    if !quantities.iter().any(|option| option.cmp(default) == Ordering::Equal) {
        errors.invalid(
            path,
            text(default).as_str(),
            "default value is not valid according to the requestPolicy",
        );
    }
}

fn validate_range(
    range: &Value,
    default: &Quantity,
    capacity: &Quantity,
    path: &Path<'_>,
    errors: &mut FieldErrors,
) {
    let Some(min) = fields::member(range, "min").map(|min| fields::quantity(Some(min))) else {
        return errors.required(&path.field("min"), "required when validRange is defined");
    };
    let larger = |a: &Quantity, b: &Quantity| a.cmp(b) == Ordering::Greater;
    let mut complain = |key: &str, amount: &Quantity, why: String| {
        errors.invalid(&path.field(key), text(amount).as_str(), &why)
    };
    if larger(&min, capacity) {
        complain("min", &min, format!("min is larger than capacity value: {}", text(capacity)));
    }
    if larger(&min, default) {
        complain("min", default, format!("default is less than min: {}", text(&min)));
    }
    let max = fields::member(range, "max").map(|max| fields::quantity(Some(max)));
    if let Some(max) = &max {
        if larger(&min, max) {
            complain("max", &min, format!("min is larger than max: {}", text(max)));
        }
        if larger(max, capacity) {
            complain("max", max, format!("max is larger than capacity value: {}", text(capacity)));
        }
        if larger(default, max) {
            complain("max", default, format!("default is more than max: {}", text(max)));
        }
    }
    let Some(step) = fields::member(range, "step").map(|step| fields::quantity(Some(step))) else { return };
    let mut first = min.clone();
    first.add(&step);
    if larger(&first, capacity) {
        complain(
            "step",
            &step,
            format!("one step {} is larger than capacity value: {}", text(&first), text(capacity)),
        );
    }
    for value in std::iter::once(default).chain(max.as_ref()) {
        let beyond = value.value().saturating_sub(min.value());
        if beyond.checked_rem(step.value()) != Some(0) {
            let why =
                format!("value is not a multiple of a given step ({}) from ({})", text(&step), text(&min));
            complain("step", value, why);
        }
    }
}

pub(super) fn validate_taint(taint: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
    facts::check(taint, "resource/v1.DeviceTaint", path, errors);
}

/// Validates a counter set, or the counters that a device consumes; `name` is the field of its name.
pub(super) fn validate_counters(set: &Value, name: &str, path: &Path<'_>, errors: &mut FieldErrors) {
    check::required_dns_label(&path.field(name), fields::text(set, name), errors);
    let count = fields::entries(set.get("counters")).count();
    let at = path.field("counters");
    if count == 0 {
        errors.required(&at, "");
    } else if count > COUNTERS_MAX {
        errors.too_many(&at, count, COUNTERS_MAX);
    } else {
        for (key, _) in fields::entries(set.get("counters")) {
            check::dns_label(&at, key, errors);
        }
    }
}

/// Validates the placement of a device, if each device has its own.
fn validate_placement(device: &Value, per_device: bool, path: &Path<'_>, errors: &mut FieldErrors) {
    let keys = ["nodeName", "nodeSelector", "allNodes"];
    if !per_device {
        if keys.iter().any(|key| fields::member(device, key).is_some()) {
            let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.invalid(path, Plain("null"), why);
        }
        return;
    }
    let why = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    let rules = PlacementRules {
        flags: &["allNodes"],
        needs_one_term: false,
        empty_name: "must not be empty",
        none_set: why,
        several_set: why,
    };
    rules.validate(device, path, errors);
}

/// What differs between the placement of a slice and that of a device.
pub(super) struct PlacementRules<'a> {
    /// The flags that place devices, beside `nodeName` and `nodeSelector`.
    pub(super) flags: &'a [&'a str],
    /// Whether a node selector must have exactly one term.
    pub(super) needs_one_term: bool,
    /// The errors about an empty name, no field, and several fields.
    pub(super) empty_name: &'a str,
    pub(super) none_set: &'a str,
    pub(super) several_set: &'a str,
}

impl PlacementRules<'_> {
    /// Requires exactly one of the fields that say which nodes have the devices.
    pub(super) fn validate(&self, object: &Value, path: &Path<'_>, errors: &mut FieldErrors) {
        let mut set: Vec<&str> = Vec::new();
        match fields::opt_text(object, "nodeName") {
            None => {}
            Some("") => errors.invalid(&path.field("nodeName"), "", self.empty_name),
            Some(name) => {
                set.push("nodeName");
                check::dns_subdomain(&path.field("nodeName"), name, errors);
            }
        }
        if let Some(selector) = fields::member(object, "nodeSelector") {
            set.push("nodeSelector");
            let at = path.field("nodeSelector");
            affinity::validate_node_selector(selector, false, &at, errors);
            if self.needs_one_term && fields::list(selector, "nodeSelectorTerms").len() != 1 {
                let terms = Internal(selector.get("nodeSelectorTerms"), "[]core/v1.NodeSelectorTerm");
                let why = "must have exactly one node selector term";
                errors.invalid(&at.field("nodeSelectorTerms"), terms, why);
            }
        }
        for flag in self.flags {
            match fields::opt_flag(object, flag) {
                None => {}
                Some(true) => set.push(flag),
                Some(false) => {
                    errors.invalid(&path.field(flag), false, "must be either unset or set to true")
                }
            }
        }
        match set.as_slice() {
            [] => errors.required(path, self.none_set),
            [_] => {}
            _ => errors.invalid(path, format!("{{`{}`}}", set.join("`, `")).as_str(), self.several_set),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_semantic() {
        for (version, fine) in
            [("1.2.3", true), ("1.2.3-a.1+b", true), ("1.2", false), ("01.2.3", false), ("1.2.3-01", false)]
        {
            assert_eq!(is_semantic_version(version), fine, "{version}");
        }
    }

    #[test]
    fn long_keys_lose_their_middle() {
        assert_eq!(shortened(&"a".repeat(100), 20), "aaaaaaaaa...aaaaaaaa");
        assert_eq!(shortened("short", 3), "short");
    }
}
