//! Discovery: which groups, versions and resources there are, as an index for routing and as documents for clients.
//!
//! A state is immutable; a changed set of kinds makes a new one, which takes over the groups that did not change
//! together with their rendered documents.

mod documents;
mod node;
mod order;
mod protobuf;
pub(crate) mod serve;

use crate::openapi::{Documents, Part};
use bytes::Bytes;
use imbl::OrdMap;
use node::Node;
use pintle_engine::Members;
use pintle_kinds::{Kind, KindVersion};
use pintle_value::Str;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// All that is served at one moment.
#[derive(Default)]
pub struct DiscoveryState {
    /// Named groups in order of priority.
    groups: OrdMap<(usize, Str), Arc<Group>>,
    by_name: OrdMap<Str, Arc<Group>>,
    aggregated_core: OnceLock<Document>,
    aggregated_groups: OnceLock<Document>,
    /// OpenAPI documents that belong to no group.
    pub(crate) openapi: Documents,
    /// Hashes of the document of OpenAPI v2 in JSON and in protobuf.
    openapi_v2_hashes: [OnceLock<Arc<str>>; 2],
}

/// A rendered document and its entity tag.
pub(crate) struct Document {
    pub(crate) json: Bytes,
    pub(crate) etag: String,
}

/// One group.
pub struct Group {
    /// Its name; "" is the core group.
    pub name: String,
    /// Whether it is part of the server rather than defined by objects. The two answer a little differently where
    /// something is not there, and write discovery in a different order.
    pub installed: bool,
    /// Its versions, preferred first.
    pub versions: Vec<Version>,
    /// What it was made from, to see whether it changed.
    members: Members,
    aggregated: OnceLock<Bytes>,
    /// Its OpenAPI documents by version; "" is the group's own.
    pub(crate) openapi: Documents,
    /// What it adds to the document of OpenAPI v2, if it is part of the server.
    pub(crate) part: Part,
}

/// One version of a group.
pub struct Version {
    /// Its name.
    pub name: String,
    /// Its resources in order of discovery.
    pub resources: Vec<Resource>,
}

/// A kind in one of its versions.
#[derive(Clone)]
pub struct Resource {
    /// The kind.
    pub kind: Arc<Kind>,
    /// Which of its versions.
    pub version: usize,
    /// What it adds to OpenAPI documents, if it is defined by an object.
    pub(crate) openapi: Arc<Part>,
}

impl Resource {
    /// The version of the kind.
    #[expect(clippy::indexing_slicing, reason = "made from an index of the same kind's versions")]
    pub fn kind_version(&self) -> &KindVersion {
        &self.kind.versions[self.version]
    }
}

impl DiscoveryState {
    /// The state of these groups. Groups that are made of the same kinds as in `previous` are taken from there.
    pub fn new(members: &OrdMap<Str, Members>, previous: Option<&DiscoveryState>) -> Self {
        let (mut groups, mut by_name) = match previous {
            Some(previous) => (previous.groups.clone(), previous.by_name.clone()),
            None => Default::default(),
        };
        for (name, members) in members {
            let old = by_name.get(name);
            if old.is_some_and(|group| Arc::ptr_eq(&group.members, members)) {
                continue;
            }
            let group = Arc::new(Group::new(name, members.clone(), old.map(|group| &**group)));
            if !name.is_empty() {
                groups.insert(order::group_rank(name), group.clone());
            }
            by_name.insert(name.clone(), group);
        }
        if by_name.len() > members.len() {
            let gone: Vec<Str> =
                by_name.keys().filter(|name| !members.contains_key(*name)).cloned().collect();
            for name in gone {
                groups.remove(&order::group_rank(&name));
                by_name.remove(&name);
            }
        }
        DiscoveryState { groups, by_name, ..DiscoveryState::default() }
    }

    /// Named groups in order of priority.
    pub fn groups(&self) -> impl Iterator<Item = &Arc<Group>> {
        self.groups.values()
    }

    /// The group of this name ("" is the core group).
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.by_name.get(name).map(|g| &**g)
    }

    /// The aggregated document of `/api` or of `/apis`.
    pub(crate) fn aggregated(&self, core: bool) -> &Document {
        let cell = if core { &self.aggregated_core } else { &self.aggregated_groups };
        cell.get_or_init(|| {
            let groups: Vec<&Group> = self.aggregated_members(core).collect();
            documents::aggregated(&groups.iter().map(|g| g.aggregated()).collect::<Vec<_>>())
        })
    }

    /// The groups of an aggregated document.
    pub(crate) fn aggregated_members(&self, core: bool) -> impl Iterator<Item = &Group> {
        let core_group = self.group("").filter(|_| core);
        let named = self.groups.values().filter(move |_| !core).map(|g| &**g);
        core_group.into_iter().chain(named)
    }

    /// The hash of the document of OpenAPI v2; `make` is asked the first time.
    pub(crate) fn openapi_v2_hash(&self, json: bool, make: impl FnOnce() -> Arc<str>) -> Arc<str> {
        let [in_json, in_protobuf] = &self.openapi_v2_hashes;
        (if json { in_json } else { in_protobuf }).get_or_init(make).clone()
    }

    /// `/apis`.
    pub(crate) fn group_list(&self) -> Node {
        documents::group_list(self.groups.values().map(|g| &**g))
    }
}

impl Group {
    /// A group of these kinds. What was made of kinds that were there before is taken from `previous`.
    fn new(name: &str, members: Members, previous: Option<&Group>) -> Self {
        let mut versions: BTreeMap<&str, Vec<Resource>> = BTreeMap::new();
        for kind in members.iter() {
            for (index, version) in kind.versions.iter().enumerate() {
                if version.served && version.group == name {
                    let known =
                        previous.and_then(|group| group.version(&version.name)?.resource(&kind.plural));
                    let known =
                        known.filter(|known| Arc::ptr_eq(&known.kind, kind) && known.version == index);
                    let openapi = known.map(|known| known.openapi.clone()).unwrap_or_default();
                    let resource = Resource { kind: Arc::clone(kind), version: index, openapi };
                    versions.entry(version.name.as_str()).or_default().push(resource);
                }
            }
        }
        let mut versions: Vec<Version> = versions
            .into_iter()
            .map(|(name, resources)| Version { name: name.to_string(), resources })
            .collect();
        versions.sort_by(|a, b| order::compare_versions(&a.name, &b.name));
        for version in &mut versions {
            version.resources.sort_by(|a, b| a.kind.plural.cmp(&b.kind.plural));
        }
        let installed = name.is_empty() || order::is_installed(name);
        Group {
            name: name.to_string(),
            installed,
            versions,
            members,
            aggregated: OnceLock::new(),
            openapi: Documents::default(),
            part: Part::default(),
        }
    }

    /// The version of this name.
    pub fn version(&self, name: &str) -> Option<&Version> {
        self.versions.iter().find(|v| v.name == name)
    }

    fn aggregated(&self) -> &Bytes {
        self.aggregated.get_or_init(|| documents::aggregated_group(self).to_json(false).into())
    }
}

impl Version {
    /// The resource of this plural name.
    pub fn resource(&self, plural: &str) -> Option<&Resource> {
        let at = self.resources.binary_search_by(|r| r.kind.plural.as_str().cmp(plural)).ok()?;
        self.resources.get(at)
    }
}
