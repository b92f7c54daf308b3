//! The table of served resources, in the order of discovery.

use crate::reference::Reference;
use crate::sha256;
use pintle_value::Value;
use std::fmt::Write;

const HEADER: &str = "\
# Served resources in the order of discovery. Written by `cargo xtask kinds`.
#
# version [GROUP/]VERSION [off]                                                off: not served by default
#  PLURAL KIND namespaced|cluster SINGULAR VERBS [short=…] [cat=…] [hash=…]      hash: storageVersionHash
#   SUBRESOURCE [GROUP/]VERSION.KIND VERBS
";

/// What is stored in another group-version than the one it is served in: (resource, group, version).
const STORED_ELSEWHERE: [(&str, &str, &str); 7] = [
    ("clustertrustbundles", "certificates.k8s.io", "v1beta1"),
    ("devicetaintrules", "resource.k8s.io", "v1alpha3"),
    ("events", "", "v1"),
    ("horizontalpodautoscalers", "autoscaling", "v2"),
    ("mutatingadmissionpolicies", "admissionregistration.k8s.io", "v1beta1"),
    ("mutatingadmissionpolicybindings", "admissionregistration.k8s.io", "v1beta1"),
    ("customresourcedefinitions", "apiextensions.k8s.io", "v1beta1"),
];

/// The whole table.
pub(crate) fn table(reference: &Reference) -> String {
    let mut out = String::from(HEADER);
    for group in &reference.groups {
        let name = group.str_at(&["metadata", "name"]);
        for version in group.items_at(&["versions"]) {
            let number = version.str_at(&["version"]);
            let off = if reference.defaults.contains(&format!("{name}/{number}")) { "" } else { " off" };
            _ = writeln!(out, "version {}{off}", group_version(name, number));
            for resource in version.items_at(&["resources"]) {
                write_resource(&mut out, resource, name, number);
            }
        }
    }
    out
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_string() } else { format!("{group}/{version}") }
}

fn write_resource(out: &mut String, resource: &Value, group: &str, version: &str) {
    let plural = resource.str_at(&["resource"]);
    let kind = resource.str_at(&["responseKind", "kind"]);
    let scope = if resource.str_at(&["scope"]) == "Namespaced" { "namespaced" } else { "cluster" };
    let verbs = joined(resource.items_at(&["verbs"]));
    _ = write!(out, " {plural} {kind} {scope} {} {verbs}", resource.str_at(&["singularResource"]));
    for (tag, key) in [("short", "shortNames"), ("cat", "categories")] {
        let names = resource.items_at(&[key]);
        if !names.is_empty() {
            _ = write!(out, " {tag}={}", joined(names));
        }
    }
    if verbs.ends_with("watch") {
        let stored = STORED_ELSEWHERE.iter().find(|(name, ..)| *name == plural);
        let (group, version) = stored.map_or((group, version), |(_, group, version)| (*group, *version));
        _ = write!(out, " hash={}", storage_version_hash(group, version, kind));
    }
    out.push('\n');
    for sub in resource.items_at(&["subresources"]) {
        let own = |key: &str, default: &str| {
            let text = sub.str_at(&["responseKind", key]).to_string();
            if sub.str_at(&["responseKind", "version"]).is_empty() { default.to_string() } else { text }
        };
        let gv = group_version(&own("group", group), &own("version", version));
        let verbs = joined(sub.items_at(&["verbs"]));
        let kind = sub.str_at(&["responseKind", "kind"]);
        _ = writeln!(out, "  {} {gv}.{kind} {verbs}", sub.str_at(&["subresource"]));
    }
}

fn joined(names: &[Value]) -> String {
    names.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

/// The first 8 bytes of a digest of group, version and kind, in base64.
fn storage_version_hash(group: &str, version: &str, kind: &str) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digest = sha256::digest(format!("{group}/{version}/{kind}").as_bytes());
    let bits = digest.iter().take(8).fold(0u128, |bits, byte| bits << 8 | u128::from(*byte)) << 2;
    let letters = (0..11).rev().filter_map(|i| ALPHABET.get((bits >> (i * 6) & 63) as usize));
    letters.map(|letter| char::from(*letter)).chain(['=']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_the_api_server() {
        assert_eq!(storage_version_hash("", "v1", "Event"), "r2yiGXH7wu8=");
    }
}
