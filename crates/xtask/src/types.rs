//! The table of Go types: the fields, with their facts, of each type that is reachable from a served kind.

use crate::reference::Reference;
use pintle_value::{Str, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

const HEADER: &str = "\
# Go types of the API. Written by `cargo xtask kinds`.
#
# package TAG GO-PATH [GROUP/VERSION]
# named   TYPE UNDERLYING [wrapped]          wrapped: protobuf nests the list in a message
# struct  TYPE [atomic]                      atomic: merged as a whole
#  inline TYPE [#N]                          fields shown as fields of this struct
#  FIELD TYPE [#N] [e|z] [r] [list=…] [map=…] [patch=…] [key=…] [default=JSON]
#         #N protobuf number, e omitempty, z omitzero, r required in the published schema
";

/// Packages with types that no discovery document has, and their group-versions.
const MORE_PACKAGES: [(&str, &str); 5] = [
    ("k8s.io/api/admission/v1", "admission.k8s.io/v1"),
    ("k8s.io/api/admission/v1beta1", "admission.k8s.io/v1beta1"),
    ("k8s.io/api/apidiscovery/v2", "apidiscovery.k8s.io/v2"),
    ("k8s.io/api/apidiscovery/v2beta1", "apidiscovery.k8s.io/v2beta1"),
    (META, "v1"),
];

const META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1";
const TYPE_META: &str = "k8s.io/apimachinery/pkg/apis/meta/v1.TypeMeta";

/// Additional types of meta/v1 that requests and responses consist of, beside those with kind and apiVersion.
const MORE_ROOTS: [&str; 4] = ["ObjectMeta", "ListMeta", "LabelSelector", "FieldsV1"];

/// Go types that have their own encoding.
const SPECIAL: [(&str, &str); 11] = [
    ("k8s.io/apimachinery/pkg/apis/meta/v1.Time", "Time"),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.MicroTime", "MicroTime"),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.Duration", "Duration"),
    ("k8s.io/apimachinery/pkg/apis/meta/v1.FieldsV1", "Raw"),
    ("k8s.io/apimachinery/pkg/api/resource.Quantity", "Quantity"),
    ("k8s.io/apimachinery/pkg/util/intstr.IntOrString", "IntOrString"),
    ("k8s.io/apimachinery/pkg/runtime.RawExtension", "Raw"),
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSON", "Raw"),
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrArray", "PropsOrArray"),
    ("k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrBool", "PropsOrBool"),
    (
        "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1.JSONSchemaPropsOrStringArray",
        "PropsOrStrings",
    ),
];

/// The whole table.
pub(crate) fn table(reference: &Reference) -> String {
    let versions = group_versions(reference);
    let reached = reachable(reference, &versions);
    let mut out = String::from(HEADER);
    let packages: BTreeSet<&str> =
        reached.iter().filter_map(|name| name.rsplit_once('.')).map(|(p, _)| p).collect();
    for package in packages {
        let version = versions.get(package).map_or("", String::as_str);
        _ = writeln!(out, "{}", format!("package {} {package} {version}", tag(package)).trim_end());
    }
    for name in &reached {
        write_type(&mut out, reference, name);
    }
    _ = writeln!(out, "struct meta/v1.WatchEvent\n type string #1\n object runtime.RawExtension #2");
    out
}

/// Go package → `group/version`, for all packages whose kinds are wanted.
fn group_versions(reference: &Reference) -> BTreeMap<String, String> {
    let mut out: BTreeMap<String, String> =
        MORE_PACKAGES.iter().map(|(p, gv)| ((*p).to_string(), (*gv).to_string())).collect();
    for group in &reference.groups {
        let name = group.str_at(&["metadata", "name"]);
        for version in group.items_at(&["versions"]) {
            let version = version.str_at(&["version"]);
            let gv = if name.is_empty() { version.to_string() } else { format!("{name}/{version}") };
            out.insert(go_package(name, version), gv);
        }
    }
    out
}

/// The Go package with the types of a group-version.
pub(crate) fn go_package(group: &str, version: &str) -> String {
    let short = group.split('.').next().unwrap_or_default();
    match group {
        "" => format!("k8s.io/api/core/{version}"),
        "apiextensions.k8s.io" => format!("k8s.io/apiextensions-apiserver/pkg/apis/{short}/{version}"),
        "internal.apiserver.k8s.io" => format!("k8s.io/api/apiserverinternal/{version}"),
        "apiregistration.k8s.io" => format!("k8s.io/kube-aggregator/pkg/apis/{short}/{version}"),
        _ => format!("k8s.io/api/{short}/{version}"),
    }
}

/// The types with kind and apiVersion in the wanted packages, and all types that they consist of.
fn reachable(reference: &Reference, versions: &BTreeMap<String, String>) -> BTreeSet<Str> {
    let wanted =
        |name: &str| name.rsplit_once('.').is_some_and(|(package, _)| versions.contains_key(package));
    let has_type_meta = |v: &Value| v.items_at(&["fields"]).iter().any(|f| f.str_at(&["go"]) == TYPE_META);
    let mut pending: Vec<Str> = reference
        .types
        .iter()
        .filter(|(n, v)| wanted(n) && has_type_meta(v))
        .map(|(n, _)| n.clone())
        .collect();
    pending.extend(MORE_ROOTS.iter().map(|name| Str::from(format!("{META}.{name}"))));
    let mut reached = BTreeSet::new();
    while let Some(name) = pending.pop() {
        if !reached.insert(name.clone()) {
            continue;
        }
        let Some(go) = reference.types.get(&name) else { continue };
        pending.extend(named_in(go.str_at(&["of"])));
        if special(&name).is_some_and(|shape| !shape.starts_with("Props")) {
            continue;
        }
        for field in go.items_at(&["fields"]) {
            pending.extend(named_in(field.str_at(&["go"])));
        }
    }
    reached
}

/// The full names of the named types in a Go type expression.
fn named_in(go: &str) -> Vec<Str> {
    let bare = go.split(['[', ']', '*']).filter(|part| part.contains('.'));
    bare.map(Str::from).collect()
}

fn special(name: &str) -> Option<&'static str> {
    SPECIAL.iter().find(|(special, _)| *special == name).map(|(_, shape)| *shape)
}

/// `k8s.io/api/core/v1` → `core/v1`, `k8s.io/apimachinery/pkg/util/intstr` → `intstr`.
fn tag(package: &str) -> &str {
    let parts: Vec<usize> = package.match_indices('/').map(|(at, _)| at + 1).collect();
    let last = package.rsplit('/').next().unwrap_or_default();
    let is_version = last.starts_with('v') && last.chars().nth(1).is_some_and(|c| c.is_ascii_digit());
    let keep = if is_version { 2 } else { 1 };
    let from = parts.len().checked_sub(keep).and_then(|at| parts.get(at)).copied().unwrap_or(0);
    package.get(from..).unwrap_or(package)
}

/// A Go type expression with packages as tags.
fn short(go: &str) -> String {
    let mut out = String::new();
    let mut rest = go;
    while let Some(at) = rest.find("k8s.io/") {
        let (before, from) = rest.split_at(at);
        let end = from.find(']').unwrap_or(from.len());
        let (name, after) = from.split_at(end);
        let (package, type_) = name.rsplit_once('.').unwrap_or((name, ""));
        _ = write!(out, "{before}{}.{type_}", tag(package));
        rest = after;
    }
    out + rest
}

fn write_type(out: &mut String, reference: &Reference, name: &str) {
    if let Some(shape) = special(name) {
        _ = writeln!(out, "named {} {shape}", short(name));
        return;
    }
    let Some(go) = reference.types.get(name) else {
        return write_missing(out, reference, name);
    };
    if go.str_at(&["kind"]) == "alias" {
        let message = name.replace('/', ".");
        let wrapped = if reference.messages.contains_key(&message) { " wrapped" } else { "" };
        _ = writeln!(out, "named {} {}{wrapped}", short(name), short(go.str_at(&["of"])));
        return;
    }
    let component = reference.components.get(&component_name(name));
    let atomic = component.map_or("", |c| c.str_at(&["x-kubernetes-map-type"]));
    _ = writeln!(out, "{}", format!("struct {} {atomic}", short(name)).trim_end());
    for field in go.items_at(&["fields"]) {
        write_field(out, field, component);
    }
}

/// Types that the data on Go types lacks: messages of strings (`GroupVersionKind`), or strings (`UID`).
fn write_missing(out: &mut String, reference: &Reference, name: &str) {
    match reference.messages.get(&name.replace('/', ".")).and_then(Value::as_array) {
        Some(fields) => {
            _ = writeln!(out, "struct {}", short(name));
            for field in fields {
                let number = field.get("n").and_then(Value::as_int).unwrap_or(0);
                _ = writeln!(out, " {} {} #{number}", field.str_at(&["name"]), field.str_at(&["type"]));
            }
        }
        None => _ = writeln!(out, "named {} string", short(name)),
    }
}

/// The OpenAPI name of a Go type.
fn component_name(name: &str) -> String {
    format!("io.k8s.{}", name.trim_start_matches("k8s.io/").replace('/', "."))
}

fn write_field(out: &mut String, field: &Value, component: Option<&Value>) {
    let name = field.str_at(&["json"]);
    let number = field.str_at(&["protobuf"]).split(',').nth(1).unwrap_or_default();
    let mut line = if flag(field, "inline") {
        format!(" inline {}", short(field.str_at(&["go"])))
    } else {
        format!(" {name} {}", short(field.str_at(&["go"])))
    };
    if !number.is_empty() {
        _ = write!(line, " #{number}");
    }
    if flag(field, "omitzero") {
        line.push_str(" z");
    } else if flag(field, "omitempty") {
        line.push_str(" e");
    }
    let required = component.map_or(&[][..], |c| c.items_at(&["required"]));
    if required.iter().any(|r| r.as_str() == Some(name)) {
        line.push_str(" r");
    }
    let property = component.and_then(|c| c.at(&["properties", name]));
    write_merge_facts(&mut line, field, property);
    // A default that equals Go's zero value is implied, except for strings that are omitted when empty: such a default
    // is the key of list items without the field.
    let is_key = |default: &Value| default.as_str().is_some() && flag(field, "omitempty");
    let default = property.and_then(|p| p.get("default"));
    if let Some(default) = default.filter(|default| !is_go_empty(default) || is_key(default)) {
        _ = write!(line, " default={}", json::text(default));
    }
    _ = writeln!(out, "{line}");
}

/// List and map types (from the published schema, otherwise from the marker in the source), then strategic merge tags.
fn write_merge_facts(line: &mut String, field: &Value, property: Option<&Value>) {
    let published = |key: &str| property.map_or("", |p| p.str_at(&[key]));
    let marker = |key: &str| field.str_at(&["markers", key]);
    let list = [published("x-kubernetes-list-type"), marker("listType")].into_iter().find(|t| !t.is_empty());
    match list {
        Some("set") => line.push_str(" list=set"),
        Some("map") => {
            let keys = property.map_or(&[][..], |p| p.items_at(&["x-kubernetes-list-map-keys"]));
            let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
            let keys = if keys.is_empty() { marker("listMapKey").replace(';', ",") } else { keys.join(",") };
            _ = write!(line, " list={keys}");
        }
        _ => {}
    }
    let map = [published("x-kubernetes-map-type"), marker("mapType")].into_iter().find(|t| !t.is_empty());
    if let Some(map) = map {
        _ = write!(line, " map={map}");
    }
    for (tag, key) in [("patch", "patchStrategy"), ("key", "patchMergeKey")] {
        if !field.str_at(&[key]).is_empty() {
            _ = write!(line, " {tag}={}", field.str_at(&[key]));
        }
    }
}

fn flag(field: &Value, name: &str) -> bool {
    field.get(name).and_then(Value::as_bool).unwrap_or(false)
}

/// Whether a default is redundant: the zero value of the type.
fn is_go_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Int(i) => *i == 0,
        Value::Float(f) => *f == 0.0,
        Value::String(s) => s.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::Raw(raw) => is_go_empty(raw.value()),
    }
}
