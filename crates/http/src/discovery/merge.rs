//! The aggregated discovery of several servers, merged as kube-apiserver merges it: everything that one of them serves, in an order
//! that contradicts none of them.

use super::documents::{self, described_group};
use super::node::Node;
use super::{DiscoveryState, Document};
use pintle_controllers::aggregation::{RemoteGroup, RemoteResource, RemoteVersion};
use pintle_controllers::peers::Served;
use std::collections::{BTreeMap, BTreeSet};

/// The merged groups and their document.
pub(crate) struct Merged {
    pub(crate) groups: Vec<RemoteGroup>,
    pub(crate) document: Document,
}

impl Merged {
    /// Merges the groups of this server, whose name among the servers is `own`, with those of its peers.
    pub(crate) fn new(state: &DiscoveryState, own: &str, served: &Served) -> Self {
        let local: Vec<RemoteGroup> = state.aggregated_members(false).map(described_group).collect();
        let mut servers: BTreeMap<&str, &[RemoteGroup]> = served.groups().collect();
        servers.insert(own, &local);
        let groups = merge_groups(&local, &servers);
        let rendered: Vec<_> = groups.iter().map(|group| render(group).to_json(false).into()).collect();
        let document = documents::aggregated(&rendered.iter().collect::<Vec<_>>());
        Merged { groups, document }
    }

    /// The items of the document.
    pub(crate) fn items(&self) -> Vec<Node> {
        self.groups.iter().map(render).collect()
    }
}

fn render(group: &RemoteGroup) -> Node {
    let versions = group.versions.iter().map(|(name, version)| documents::aggregated_remote(name, version));
    Node::Object(vec![
        ("metadata", Node::Object(vec![("name", Node::text(&group.name))])),
        ("versions", Node::List(versions.collect())),
    ])
}

fn merge_groups(local: &[RemoteGroup], servers: &BTreeMap<&str, &[RemoteGroup]>) -> Vec<RemoteGroup> {
    let names =
        |groups: &[RemoteGroup]| -> Vec<String> { groups.iter().map(|group| group.name.clone()).collect() };
    let local_names = names(local);
    let mut merged: BTreeMap<String, RemoteGroup> = BTreeMap::new();
    for group in servers.values().flat_map(|groups| groups.iter()) {
        match merged.get_mut(&group.name) {
            Some(known) => merge_versions(known, group),
            None => _ = merged.insert(group.name.clone(), group.clone()),
        }
    }
    let lists: Vec<Vec<String>> = servers.values().map(|groups| names(groups)).collect();
    let order = if lists.iter().all(|list| *list == local_names) { local_names } else { merge_order(&lists) };
    order.iter().filter_map(|name| merged.remove(name)).collect()
}

fn merge_versions(known: &mut RemoteGroup, other: &RemoteGroup) {
    let names = |group: &RemoteGroup| -> Vec<String> {
        group.versions.iter().map(|(name, _)| name.clone()).collect()
    };
    let lists = [names(known), names(other)];
    let mut merged: BTreeMap<String, RemoteVersion> =
        std::mem::take(&mut known.versions).into_iter().collect();
    for (name, version) in &other.versions {
        match merged.get_mut(name) {
            Some(known) => merge_resources(known, version),
            None => _ = merged.insert(name.clone(), version.clone()),
        }
    }
    let order = ordered(lists);
    known.versions = order.into_iter().filter_map(|name| merged.remove_entry(&name)).collect();
}

fn merge_resources(known: &mut RemoteVersion, other: &RemoteVersion) {
    let names = |version: &RemoteVersion| -> Vec<String> {
        version.resources.iter().map(|r| r.resource.clone()).collect()
    };
    let lists = [names(known), names(other)];
    let all = std::mem::take(&mut known.resources).into_iter();
    let mut merged: BTreeMap<String, RemoteResource> = all.map(|r| (r.resource.clone(), r)).collect();
    for resource in &other.resources {
        match merged.get_mut(&resource.resource) {
            Some(known) if known == resource => {}
            Some(known) => merge_capabilities(known, resource),
            None => _ = merged.insert(resource.resource.clone(), resource.clone()),
        }
    }
    known.resources = ordered(lists).iter().filter_map(|name| merged.remove(name)).collect();
}

/// The verbs and subresources of both, sorted. A subresource of both is the other's.
fn merge_capabilities(known: &mut RemoteResource, other: &RemoteResource) {
    let verbs: BTreeSet<&String> = [&known.verbs, &other.verbs].into_iter().flatten().flatten().collect();
    known.verbs = (!verbs.is_empty()).then(|| verbs.into_iter().cloned().collect());
    let all = std::mem::take(&mut known.subresources).into_iter().chain(other.subresources.iter().cloned());
    let by_name: BTreeMap<String, _> = all.map(|sub| (sub.subresource.clone(), sub)).collect();
    known.subresources = by_name.into_values().collect();
}

fn ordered([known, other]: [Vec<String>; 2]) -> Vec<String> {
    if known == other { known } else { merge_order(&[known, other]) }
}

/// Merges lists into one order in which neighbours of each list keep their order. Where the lists leave a choice, or contradict
/// each other, items are sorted by name.
fn merge_order(lists: &[Vec<String>]) -> Vec<String> {
    let all: BTreeSet<&String> = lists.iter().flatten().collect();
    let is_complete = |list: &&Vec<String>| {
        list.len() == all.len() && list.iter().collect::<BTreeSet<_>>().len() == list.len()
    };
    if let Some(complete) = lists.iter().find(is_complete) {
        return complete.clone();
    }
    let pairs: BTreeSet<(&String, &String)> =
        lists.iter().flat_map(|list| list.iter().zip(list.iter().skip(1))).collect();
    let mut before: BTreeMap<&String, usize> = all.iter().map(|name| (*name, 0)).collect();
    for (_, next) in &pairs {
        if let Some(count) = before.get_mut(*next) {
            *count = count.saturating_add(1);
        }
    }
    let mut free: BTreeSet<&String> =
        before.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    let mut order = Vec::with_capacity(all.len());
    while let Some(name) = free.pop_first() {
        order.push(name.clone());
        for (_, next) in
            pairs.range((name, all.first().copied().unwrap_or(name))..).take_while(|(at, _)| *at == name)
        {
            if let Some(count) = before.get_mut(*next) {
                *count = count.saturating_sub(1);
                if *count == 0 {
                    free.insert(next);
                }
            }
        }
    }
    if order.len() == all.len() { order } else { all.into_iter().cloned().collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_string()).collect()
    }

    #[test]
    fn orders_are_merged() {
        for (lists, want) in [
            (&[&["a", "b", "c"][..], &["b", "c"]][..], &["a", "b", "c"][..]),
            (&[&["a", "c"], &["b", "c"]], &["a", "b", "c"]),
            (&[&["c", "a"], &["c", "b"]], &["c", "a", "b"]),
            (&[&["b", "a"], &["a", "b"]], &["b", "a"]),
            (&[&["b", "a", "x"], &["a", "b", "y"]], &["a", "b", "x", "y"]),
        ] {
            let lists: Vec<Vec<String>> = lists.iter().map(|list| texts(list)).collect();
            assert_eq!(merge_order(&lists), texts(want), "{lists:?}");
        }
    }

    /// A resource and its verbs.
    type Resource<'a> = (&'a str, &'a [&'a str]);

    fn group(name: &str, versions: &[(&str, &[Resource<'_>])]) -> RemoteGroup {
        let resource = |(name, verbs): &Resource<'_>| RemoteResource {
            resource: (*name).to_string(),
            verbs: Some(texts(verbs)),
            ..RemoteResource::default()
        };
        let version = |(name, resources): &(&str, &[(&str, &[&str])])| {
            let resources = resources.iter().map(resource).collect();
            ((*name).to_string(), RemoteVersion { resources, ..RemoteVersion::default() })
        };
        RemoteGroup { name: name.to_string(), versions: versions.iter().map(version).collect() }
    }

    #[test]
    fn everything_that_one_server_has_is_listed() {
        let local =
            [group("apps", &[("v1", &[("deployments", &["list", "get"])])]), group("batch", &[("v1", &[])])];
        let peer = [
            group(
                "apps",
                &[
                    ("v2", &[("things", &["get"])]),
                    ("v1", &[("deployments", &["watch"]), ("sets", &["get"])]),
                ],
            ),
            group("new", &[("v1", &[])]),
            group("batch", &[("v1", &[])]),
        ];
        let servers = [("b", &local[..]), ("a", &peer[..])].into();
        let merged = merge_groups(&local, &servers);
        let names: Vec<_> = merged.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, ["apps", "new", "batch"]);
        let want = group(
            "apps",
            &[
                ("v2", &[("things", &["get"])]),
                ("v1", &[("deployments", &["get", "list", "watch"]), ("sets", &["get"])]),
            ],
        );
        assert_eq!(merged[0], want);
        assert_eq!(merge_groups(&local, &[("b", &local[..])].into()), local);
    }
}
