//! The documents of discovery: legacy ones for groups and versions, and the aggregated one.

use super::node::Node;
use super::{Document, Group, Listed, Resource, Source, Version};
use aws_lc_rs::digest;
use bytes::Bytes;
use pintle_controllers::aggregation::{
    RemoteGroup, RemoteKind, RemoteResource, RemoteSubresource, RemoteVersion,
};
use pintle_kinds::{Subresource, Verbs};
use pintle_meta::{GroupVersion, GroupVersionKind};
use pintle_value::Str;
use std::fmt::Write;

/// `/api`. `address` is the server's address for clients inside the cluster.
pub(super) fn core_versions(group: Option<&Group>, address: &str) -> Node {
    let versions = group.map(|g| g.versions.as_slice()).unwrap_or_default();
    let server =
        Node::Object(vec![("clientCIDR", Node::text("0.0.0.0/0")), ("serverAddress", Node::text(address))]);
    Node::Object(vec![
        ("kind", Node::text("APIVersions")),
        ("versions", Node::texts(versions.iter().map(|v| &v.name))),
        ("serverAddressByClientCIDRs", Node::List(vec![server])),
    ])
}

/// The document at `/apis`.
pub(super) fn group_list<'a>(groups: impl Iterator<Item = &'a Group>) -> Node {
    Node::Object(vec![
        ("kind", Node::text("APIGroupList")),
        ("apiVersion", Node::text("v1")),
        ("groups", Node::List(groups.map(|g| Node::Object(group_members(g))).collect())),
    ])
}

/// The document at `/apis/GROUP`.
pub(super) fn group(group: &Group) -> Node {
    let mut members = vec![("kind", Node::text("APIGroup")), ("apiVersion", Node::text("v1"))];
    members.extend(group_members(group));
    Node::Object(members)
}

fn group_members(group: &Group) -> Vec<(&'static str, Node)> {
    let version = |name: &Str| {
        Node::Object(vec![
            ("groupVersion", Node::text(GroupVersion::new(&group.name, name).to_string())),
            ("version", Node::text(name.as_str())),
        ])
    };
    let versions = &group.named_versions;
    let mut members = vec![
        ("name", Node::text(&group.name)),
        ("versions", Node::List(versions.iter().map(version).collect())),
    ];
    if let Some(preferred) = versions.first() {
        members.push(("preferredVersion", version(preferred)));
    }
    members
}

pub(super) fn group_version(group: &Group, version: &Version) -> String {
    GroupVersion::new(&group.name, &version.name).to_string()
}

/// `/api/v1` and `/apis/GROUP/VERSION`.
pub(super) fn resource_list(group: &Group, version: &Version) -> Node {
    let mut resources = Vec::new();
    for resource in &version.resources {
        resources.push(legacy_resource(group, resource));
        let subresources = &resource.kind_version().subresources;
        resources.extend(subresources.iter().map(|s| legacy_subresource(group, version, resource, s)));
    }
    let mut members = vec![("kind", Node::text("APIResourceList"))];
    if !group.name.is_empty() {
        members.push(("apiVersion", Node::text("v1")));
    }
    members.push(("groupVersion", Node::text(group_version(group, version))));
    members.push(("resources", Node::List(resources)));
    Node::Object(members)
}

fn legacy_resource(group: &Group, resource: &Resource) -> Node {
    let kind = &resource.kind;
    let mut members = vec![
        ("name", Node::text(kind.plural.as_str())),
        ("singularName", Node::text(kind.singular.as_str())),
        ("namespaced", Node::Bool(kind.namespaced)),
        ("kind", Node::text(kind.kind.as_str())),
        ("verbs", Node::texts(verbs(kind.published_verbs(), group.installed))),
    ];
    if !kind.short_names.is_empty() {
        members.push(("shortNames", Node::texts(&kind.short_names)));
    }
    if !kind.categories.is_empty() {
        members.push(("categories", Node::texts(&kind.categories)));
    }
    if !kind.storage_version_hash.is_empty() {
        members.push(("storageVersionHash", Node::text(kind.storage_version_hash.as_str())));
    }
    Node::Object(members)
}

fn legacy_subresource(group: &Group, version: &Version, resource: &Resource, sub: &Subresource) -> Node {
    let kind = &resource.kind;
    let mut members = vec![
        ("name", Node::text(format!("{}/{}", kind.plural, sub.name))),
        ("singularName", Node::text("")),
        ("namespaced", Node::Bool(kind.namespaced)),
    ];
    if !is_of(&sub.gvk, group, version) {
        if !sub.gvk.group.is_empty() {
            members.push(("group", Node::text(sub.gvk.group.as_str())));
        }
        members.push(("version", Node::text(sub.gvk.version.as_str())));
    }
    members.push(("kind", Node::text(sub.gvk.kind.as_str())));
    members.push(("verbs", Node::texts(verbs(sub.verbs, true))));
    Node::Object(members)
}

fn is_of(gvk: &GroupVersionKind, group: &Group, version: &Version) -> bool {
    gvk.group == group.name && gvk.version == version.name
}

/// The verbs in the order of discovery: sorted by name, except for custom resources.
pub(super) fn verbs(verbs: Verbs, sorted: bool) -> Vec<&'static str> {
    let by_name = [
        ("create", verbs.create),
        ("delete", verbs.delete),
        ("deletecollection", verbs.deletecollection),
        ("get", verbs.get),
        ("list", verbs.list),
        ("patch", verbs.patch),
        ("update", verbs.update),
        ("watch", verbs.watch),
    ];
    let mut names: Vec<&'static str> = by_name.iter().filter(|(_, on)| *on).map(|(name, _)| *name).collect();
    if !sorted {
        // For custom resources `create` comes between `patch` and `update`.
        names.sort_by_key(|name| match *name {
            "create" => "q",
            other => other,
        });
    }
    names
}

/// One group of the aggregated document.
pub(super) fn aggregated_group(group: &Group) -> Node {
    let mut metadata = Vec::new();
    if !group.name.is_empty() {
        metadata.push(("name", Node::text(&group.name)));
    }
    Node::Object(vec![
        ("metadata", Node::Object(metadata)),
        ("versions", Node::List(group.listing.iter().filter_map(|v| aggregated_listed(group, v)).collect())),
    ])
}

fn aggregated_listed(group: &Group, listed: &Listed) -> Option<Node> {
    match &listed.source {
        Source::Own(at) => Some(aggregated_version(group, group.versions.get(*at)?)),
        Source::Remote(remote) => Some(aggregated_remote(&listed.name, remote)),
    }
}

/// A group of this server, as the documents of extension servers and peers are described. Versions of extension servers are theirs.
pub(super) fn described_group(group: &Group) -> RemoteGroup {
    let own = |version: &Version| {
        let resources = version.resources.iter().map(|r| described_resource(group, version, r)).collect();
        RemoteVersion { resources, ..RemoteVersion::default() }
    };
    let versions = group.listing.iter().filter_map(|listed| {
        let described = match &listed.source {
            Source::Own(at) => own(group.versions.get(*at)?),
            Source::Remote(remote) => RemoteVersion::clone(remote),
        };
        Some((listed.name.clone(), described))
    });
    RemoteGroup { name: group.name.clone(), versions: versions.collect() }
}

fn described_resource(group: &Group, version: &Version, resource: &Resource) -> RemoteResource {
    let kind = &resource.kind;
    let described_kind = |gvk: &GroupVersionKind| {
        let (in_group, in_version) = response_group_version(group, version, gvk);
        RemoteKind { group: in_group.into(), version: in_version.into(), kind: gvk.kind.to_string() }
    };
    let texts = |names: Vec<&str>| -> Vec<String> { names.into_iter().map(str::to_string).collect() };
    let sub = |sub: &Subresource| RemoteSubresource {
        subresource: sub.name.to_string(),
        response_kind: described_kind(&sub.gvk),
        verbs: Some(texts(verbs(sub.verbs, true))),
    };
    RemoteResource {
        resource: kind.plural.to_string(),
        response_kind: described_kind(&resource.kind_version().gvk(kind)),
        scope: if kind.namespaced { "Namespaced" } else { "Cluster" }.to_string(),
        singular: kind.singular.to_string(),
        verbs: Some(texts(verbs(kind.published_verbs(), group.installed))),
        short_names: kind.short_names.iter().map(ToString::to_string).collect(),
        categories: kind.categories.iter().map(ToString::to_string).collect(),
        subresources: resource.kind_version().subresources.iter().map(sub).collect(),
    }
}

/// A version of an extension server, as that server described it.
pub(super) fn aggregated_remote(name: &str, remote: &RemoteVersion) -> Node {
    let kind = |kind: &RemoteKind| {
        Node::Object(vec![
            ("group", Node::text(&kind.group)),
            ("version", Node::text(&kind.version)),
            ("kind", Node::text(&kind.kind)),
        ])
    };
    let resource = |resource: &RemoteResource| {
        let mut members = vec![
            ("resource", Node::text(&resource.resource)),
            ("responseKind", kind(&resource.response_kind)),
            ("scope", Node::text(&resource.scope)),
            ("singularResource", Node::text(&resource.singular)),
            ("verbs", remote_verbs(resource.verbs.as_deref())),
        ];
        if !resource.short_names.is_empty() {
            members.push(("shortNames", Node::texts(&resource.short_names)));
        }
        if !resource.categories.is_empty() {
            members.push(("categories", Node::texts(&resource.categories)));
        }
        if !resource.subresources.is_empty() {
            let sub = |sub: &RemoteSubresource| {
                Node::Object(vec![
                    ("subresource", Node::text(&sub.subresource)),
                    ("responseKind", kind(&sub.response_kind)),
                    ("verbs", remote_verbs(sub.verbs.as_deref())),
                ])
            };
            members.push(("subresources", Node::List(resource.subresources.iter().map(sub).collect())));
        }
        Node::Object(members)
    };
    let mut members = vec![("version", Node::text(name))];
    if !remote.resources.is_empty() {
        members.push(("resources", Node::List(remote.resources.iter().map(resource).collect())));
    }
    members.push(("freshness", Node::text(freshness(remote))));
    Node::Object(members)
}

fn remote_verbs(verbs: Option<&[String]>) -> Node {
    verbs.map_or(Node::Null, Node::texts)
}

/// Whether the extension server's document is current or stale.
pub(super) fn freshness(remote: &RemoteVersion) -> &'static str {
    if remote.is_stale { "Stale" } else { "Current" }
}

fn aggregated_version(group: &Group, version: &Version) -> Node {
    let resources = version.resources.iter().map(|r| aggregated_resource(group, version, r)).collect();
    Node::Object(vec![
        ("version", Node::text(&version.name)),
        ("resources", Node::List(resources)),
        ("freshness", Node::text("Current")),
    ])
}

fn aggregated_resource(group: &Group, version: &Version, resource: &Resource) -> Node {
    let kind = &resource.kind;
    let gvk = resource.kind_version().gvk(kind);
    let mut members = vec![
        ("resource", Node::text(kind.plural.as_str())),
        ("responseKind", response_kind(group, version, &gvk)),
        ("scope", Node::text(if kind.namespaced { "Namespaced" } else { "Cluster" })),
        ("singularResource", Node::text(kind.singular.as_str())),
        ("verbs", Node::texts(verbs(kind.published_verbs(), group.installed))),
    ];
    if !kind.short_names.is_empty() {
        members.push(("shortNames", Node::texts(&kind.short_names)));
    }
    if !kind.categories.is_empty() {
        members.push(("categories", Node::texts(&kind.categories)));
    }
    let subresources = &resource.kind_version().subresources;
    if !subresources.is_empty() {
        let sub = |s: &Subresource| {
            Node::Object(vec![
                ("subresource", Node::text(s.name.as_str())),
                ("responseKind", response_kind(group, version, &s.gvk)),
                ("verbs", Node::texts(verbs(s.verbs, true))),
            ])
        };
        members.push(("subresources", Node::List(subresources.iter().map(sub).collect())));
    }
    Node::Object(members)
}

/// Built-in groups omit group and version of a response kind if they equal the document's.
pub(super) fn response_group_version<'a>(
    group: &Group,
    version: &Version,
    gvk: &'a GroupVersionKind,
) -> (&'a str, &'a str) {
    if group.installed && is_of(gvk, group, version) { ("", "") } else { (&gvk.group, &gvk.version) }
}

fn response_kind(group: &Group, version: &Version, gvk: &GroupVersionKind) -> Node {
    let (in_group, in_version) = response_group_version(group, version, gvk);
    Node::Object(vec![
        ("group", Node::text(in_group)),
        ("version", Node::text(in_version)),
        ("kind", Node::text(gvk.kind.as_str())),
    ])
}

/// The aggregated document of groups that have been rendered already.
pub(super) fn aggregated(groups: &[&Bytes]) -> Document {
    let mut json = Vec::with_capacity(
        groups.iter().map(|g| g.len().saturating_add(1)).sum::<usize>().saturating_add(128),
    );
    json.extend_from_slice(
        br#"{"kind":"APIGroupDiscoveryList","apiVersion":"apidiscovery.k8s.io/v2","metadata":{},"items":["#,
    );
    for (index, group) in groups.iter().enumerate() {
        if index > 0 {
            json.push(b',');
        }
        json.extend_from_slice(group);
    }
    json.extend_from_slice(b"]}\n");
    let mut etag = String::with_capacity(130);
    for byte in digest::digest(&digest::SHA512, &json).as_ref() {
        _ = write!(etag, "{byte:02X}");
    }
    Document { json: json.into(), etag: format!("\"{etag}\"") }
}
