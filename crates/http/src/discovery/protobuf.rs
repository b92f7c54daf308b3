//! Discovery documents in Kubernetes protobuf.

use super::documents::{freshness, group_version, response_group_version, verbs};
use super::{Group, Resource, Source, Version};
use crate::statuspb::envelope;
use pintle_controllers::aggregation::{RemoteGroup, RemoteKind, RemoteResource, RemoteVersion};
use pintle_meta::{GroupVersion, GroupVersionKind};
use pintle_protobuf::Writer;

/// The document at `/api`.
pub(super) fn core_versions(group: Option<&Group>, address: &str) -> Vec<u8> {
    let mut out = Writer::default();
    for version in group.map(|g| g.versions.as_slice()).unwrap_or_default() {
        out.string(1, &version.name);
    }
    out.message(2, |w| {
        w.string(1, "0.0.0.0/0");
        w.string(2, address);
    });
    envelope("", "APIVersions", &out.0)
}

/// The document at `/apis`.
pub(super) fn group_list<'a>(groups: impl Iterator<Item = &'a Group>) -> Vec<u8> {
    let mut out = Writer::default();
    for group in groups {
        out.message(1, |w| write_group(w, group));
    }
    envelope("v1", "APIGroupList", &out.0)
}

/// The document at `/apis/GROUP`.
pub(super) fn group(group: &Group) -> Vec<u8> {
    let mut out = Writer::default();
    write_group(&mut out, group);
    envelope("v1", "APIGroup", &out.0)
}

fn write_group(out: &mut Writer, group: &Group) {
    let version = |w: &mut Writer, name: &str| {
        w.string(1, &GroupVersion::new(&group.name, name).to_string());
        w.string(2, name);
    };
    out.string(1, &group.name);
    let versions = &group.named_versions;
    for v in versions {
        out.message(2, |w| version(w, v));
    }
    out.message(3, |w| {
        if let Some(preferred) = versions.first() {
            version(w, preferred);
        }
    });
}

/// Encodes the document of `/api/v1` or `/apis/GROUP/VERSION`.
pub(super) fn resource_list(group: &Group, version: &Version) -> Vec<u8> {
    let mut out = Writer::default();
    out.string(1, &group_version(group, version));
    for resource in &version.resources {
        let kind = &resource.kind;
        out.message(2, |w| {
            let names = verbs(kind.published_verbs(), group.installed);
            write_resource(w, &kind.plural, kind.namespaced, &kind.kind, &names);
            for name in &kind.short_names {
                w.string(5, name);
            }
            w.string(6, &kind.singular);
            for category in &kind.categories {
                w.string(7, category);
            }
            w.string(8, "");
            w.string(9, "");
            w.string(10, &kind.storage_version_hash);
        });
        for sub in &resource.kind_version().subresources {
            let own = sub.gvk.group == group.name && sub.gvk.version == version.name;
            let (in_group, in_version) = if own { ("", "") } else { (&*sub.gvk.group, &*sub.gvk.version) };
            out.message(2, |w| {
                let name = format!("{}/{}", kind.plural, sub.name);
                write_resource(w, &name, kind.namespaced, &sub.gvk.kind, &verbs(sub.verbs, true));
                w.string(6, "");
                w.string(8, in_group);
                w.string(9, in_version);
                w.string(10, "");
            });
        }
    }
    // As in JSON, the core group's document does not state its version.
    envelope(if group.name.is_empty() { "" } else { "v1" }, "APIResourceList", &out.0)
}

fn write_resource(out: &mut Writer, name: &str, namespaced: bool, kind: &str, verbs: &[&str]) {
    out.string(1, name);
    out.int(2, i64::from(namespaced));
    out.string(3, kind);
    out.message(4, |w| {
        for verb in verbs {
            w.string(1, verb);
        }
    });
}

/// The aggregated document.
pub(super) fn aggregated<'a>(groups: impl Iterator<Item = &'a Group>) -> Vec<u8> {
    let mut out = Writer::default();
    out.message(1, empty_list_metadata);
    for group in groups {
        out.message(2, |w| {
            w.message(1, |w| object_metadata(w, &group.name));
            for listed in &group.listing {
                w.message(2, |w| {
                    w.string(1, &listed.name);
                    match &listed.source {
                        Source::Own(at) => {
                            let Some(version) = group.versions.get(*at) else { return };
                            for resource in &version.resources {
                                w.message(2, |w| aggregated_resource(w, group, version, resource));
                            }
                            w.string(3, "Current");
                        }
                        Source::Remote(remote) => remote_version(w, remote),
                    }
                });
            }
        });
    }
    envelope("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList", &out.0)
}

/// The aggregated document of several servers.
pub(super) fn merged(groups: &[RemoteGroup]) -> Vec<u8> {
    let mut out = Writer::default();
    out.message(1, empty_list_metadata);
    for group in groups {
        out.message(2, |w| {
            w.message(1, |w| object_metadata(w, &group.name));
            for (name, version) in &group.versions {
                w.message(2, |w| {
                    w.string(1, name);
                    remote_version(w, version);
                });
            }
        });
    }
    envelope("apidiscovery.k8s.io/v2", "APIGroupDiscoveryList", &out.0)
}

fn empty_list_metadata(out: &mut Writer) {
    (1..=3).for_each(|field| out.string(field, ""));
}

/// The metadata of a group. Go writes all fields that are no pointers.
fn object_metadata(out: &mut Writer, name: &str) {
    out.string(1, name);
    // generateName, namespace, selfLink, uid, resourceVersion; generation; creationTimestamp.
    (2..=6).for_each(|field| out.string(field, ""));
    out.int(7, 0);
    out.message(8, |_| {});
}

fn remote_version(out: &mut Writer, version: &RemoteVersion) {
    for resource in &version.resources {
        out.message(2, |w| remote_resource(w, resource));
    }
    out.string(3, freshness(version));
}

/// A resource of an extension server.
fn remote_resource(out: &mut Writer, resource: &RemoteResource) {
    let kind = |w: &mut Writer, kind: &RemoteKind| {
        w.string(1, &kind.group);
        w.string(2, &kind.version);
        w.string(3, &kind.kind);
    };
    out.string(1, &resource.resource);
    out.message(2, |w| kind(w, &resource.response_kind));
    out.string(3, &resource.scope);
    out.string(4, &resource.singular);
    let verbs = resource.verbs.as_deref().unwrap_or_default();
    for (field, texts) in [(5, verbs), (6, &resource.short_names), (7, &resource.categories)] {
        texts.iter().for_each(|text| out.string(field, text));
    }
    for sub in &resource.subresources {
        out.message(8, |w| {
            w.string(1, &sub.subresource);
            w.message(2, |w| kind(w, &sub.response_kind));
            sub.verbs.iter().flatten().for_each(|verb| w.string(4, verb));
        });
    }
}

fn aggregated_resource(out: &mut Writer, group: &Group, version: &Version, resource: &Resource) {
    let kind = &resource.kind;
    let response_kind = |w: &mut Writer, gvk: &GroupVersionKind| {
        let (in_group, in_version) = response_group_version(group, version, gvk);
        w.string(1, in_group);
        w.string(2, in_version);
        w.string(3, &gvk.kind);
    };
    out.string(1, &kind.plural);
    out.message(2, |w| response_kind(w, &resource.kind_version().gvk(kind)));
    out.string(3, if kind.namespaced { "Namespaced" } else { "Cluster" });
    out.string(4, &kind.singular);
    for verb in verbs(kind.published_verbs(), group.installed) {
        out.string(5, verb);
    }
    for name in &kind.short_names {
        out.string(6, name);
    }
    for category in &kind.categories {
        out.string(7, category);
    }
    for sub in &resource.kind_version().subresources {
        out.message(8, |w| {
            w.string(1, &sub.name);
            w.message(2, |w| response_kind(w, &sub.gvk));
            for verb in verbs(sub.verbs, true) {
                w.string(4, verb);
            }
        });
    }
}
