//! Discovery: which groups, versions and resources there are, as an index for routing and as documents for clients.
//!
//! A state is immutable; a changed set of kinds makes a new one, which takes over the groups that did not change
//! together with their rendered documents.

mod documents;
mod merge;
mod node;
mod order;
mod protobuf;
pub(crate) mod serve;

use crate::openapi::{Documents, Part};
use bytes::Bytes;
use imbl::OrdMap;
pub(crate) use merge::Merged;
use node::Node;
use pintle_controllers::aggregation::{ApiServices, RemoteVersion};
use pintle_engine::Members;
use pintle_kinds::{Kind, KindVersion};
use pintle_value::Str;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

/// An immutable snapshot of everything that is served.
#[derive(Default)]
pub struct DiscoveryState {
    /// Named groups in order of priority.
    groups: OrdMap<order::Rank, Arc<Group>>,
    by_name: OrdMap<Str, Arc<Group>>,
    /// The facts from APIServices, by group.
    registered: OrdMap<Str, Arc<Registered>>,
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
    /// The group's name; "" is the core group.
    pub name: String,
    /// Whether the group is built in rather than defined by objects. The two differ slightly in NotFound answers and in
    /// the order of discovery.
    pub installed: bool,
    /// The versions of this server, preferred first.
    pub versions: Vec<Version>,
    /// The versions that discovery lists, preferred first, including those of extension servers.
    pub(crate) listing: Vec<Listed>,
    /// The versions that the legacy documents list, preferred first: those with an APIService, even if no definition in
    /// them is accepted.
    pub(crate) named_versions: Vec<Str>,
    /// Whether an APIService names the group; other groups are not listed.
    pub(crate) is_listed: bool,
    /// The kinds from which the state was built, to detect changes.
    members: Members,
    registered: Option<Arc<Registered>>,
    aggregated: OnceLock<Bytes>,
    /// The OpenAPI documents by version; "" is the group's own.
    pub(crate) openapi: Documents,
    /// The part of the OpenAPI v2 document for a built-in group.
    pub(crate) part: Part,
}

/// A version of a group as discovery lists it.
pub(crate) struct Listed {
    /// The group's name.
    pub(crate) name: String,
    /// The server that serves it.
    pub(crate) source: Source,
}

/// The server of a version.
pub(crate) enum Source {
    /// Served by this server; the index among the group's versions.
    Own(usize),
    /// Served by an extension server, with its last answer.
    Remote(Arc<RemoteVersion>),
}

/// The facts from the APIServices of one group.
#[derive(Default, PartialEq)]
struct Registered {
    /// The highest priority of the group, and the first APIService that has it.
    priority: i64,
    name: Str,
    /// Version, its priority, and the extension server's answer, if one serves it.
    versions: Vec<(Str, i64, Option<Arc<RemoteVersion>>)>,
}

impl Registered {
    /// Collects the facts from APIServices by group. Unchanged ones are taken from `previous`.
    fn all(services: &ApiServices, previous: &OrdMap<Str, Arc<Registered>>) -> OrdMap<Str, Arc<Registered>> {
        let mut by_group: BTreeMap<Str, Registered> = BTreeMap::new();
        // In order of names, so that among equal priorities the first APIService counts.
        for service in services.iter() {
            let group = by_group.entry(service.group.clone()).or_default();
            if service.group_priority > group.priority || group.versions.is_empty() {
                group.priority = service.group_priority;
                group.name = service.name.clone();
            }
            let remote = service.remote.as_ref();
            let document = remote.map(|remote| match remote.document.as_ref() {
                Some(document) if !remote.is_available && !document.is_stale => {
                    Arc::new(RemoteVersion { is_stale: true, ..RemoteVersion::clone(document) })
                }
                Some(document) => document.clone(),
                None => Arc::new(RemoteVersion { is_stale: true, ..RemoteVersion::default() }),
            });
            group.versions.push((service.version.clone(), service.version_priority, document));
        }
        let same = |name: &Str, made: Registered| match previous.get(name) {
            Some(old) if **old == made => old.clone(),
            _ => Arc::new(made),
        };
        by_group.into_iter().map(|(name, made)| (name.clone(), same(&name, made))).collect()
    }

    fn has_remote(&self) -> bool {
        self.versions.iter().any(|(_, _, remote)| remote.is_some())
    }
}

/// One version of a group.
pub struct Version {
    /// The version's name.
    pub name: String,
    /// The version's resources in order of discovery.
    pub resources: Vec<Resource>,
}

/// A kind in one of its versions.
#[derive(Clone)]
pub struct Resource {
    /// The kind.
    pub kind: Arc<Kind>,
    /// The index of the version in the kind.
    pub version: usize,
    /// The part of the OpenAPI documents for a custom resource.
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
    /// Builds the state of these groups. Groups whose kinds and APIServices did not change are taken from `previous`.
    pub fn new(
        members: &OrdMap<Str, Members>,
        services: &ApiServices,
        previous: Option<&DiscoveryState>,
    ) -> Self {
        let (mut groups, mut by_name, before) = match previous {
            Some(previous) => {
                (previous.groups.clone(), previous.by_name.clone(), previous.registered.clone())
            }
            None => Default::default(),
        };
        let registered = Registered::all(services, &before);
        let none = Members::default();
        // Groups of extension servers, and of definitions of which none is accepted.
        let is_wanted = |name: &str, group: &Registered| group.has_remote() || !order::is_installed(name);
        let remote_only =
            registered.iter().filter(|(name, group)| !members.contains_key(*name) && is_wanted(name, group));
        let wanted: Vec<(&Str, &Members)> =
            members.iter().chain(remote_only.map(|(name, _)| (name, &none))).collect();
        for (name, members) in &wanted {
            let facts = registered.get(*name);
            let old = by_name.get(*name);
            let is_same = |group: &Arc<Group>| {
                let same_members =
                    Arc::ptr_eq(&group.members, members) || (group.members.is_empty() && members.is_empty());
                let same_facts = match (&group.registered, facts) {
                    (Some(old), Some(new)) => Arc::ptr_eq(old, new),
                    (None, None) => true,
                    _ => false,
                };
                same_members && same_facts
            };
            if old.is_some_and(is_same) {
                continue;
            }
            let rank = |group: &Group| {
                let facts = group.registered.as_deref();
                order::group_rank(&group.name, facts.map(|facts| (facts.priority, &facts.name)))
            };
            if let Some(old) = old {
                groups.remove(&rank(old));
            }
            let everything_listed = services.changes == 0;
            let made = Group::new(
                name,
                (*members).clone(),
                facts.cloned(),
                everything_listed,
                old.map(|group| &**group),
            );
            let group = Arc::new(made);
            if !name.is_empty() {
                groups.insert(rank(&group), group.clone());
            }
            by_name.insert((*name).clone(), group);
        }
        if by_name.len() > wanted.len() {
            let stays: std::collections::BTreeSet<&Str> = wanted.iter().map(|(name, _)| *name).collect();
            let gone: Vec<Str> = by_name.keys().filter(|name| !stays.contains(name)).cloned().collect();
            for name in gone {
                if let Some(group) = by_name.remove(&name) {
                    let facts = group.registered.as_deref();
                    let facts = facts.map(|facts| (facts.priority, &facts.name));
                    groups.remove(&order::group_rank(&name, facts));
                }
            }
        }
        DiscoveryState { groups, by_name, registered, ..DiscoveryState::default() }
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
        let named = self.groups.values().filter(move |group| !core && !group.listing.is_empty());
        core_group.into_iter().chain(named.map(|group| &**group))
    }

    /// The hash of the OpenAPI v2 document; `make` computes it on the first call.
    pub(crate) fn openapi_v2_hash(&self, json: bool, make: impl FnOnce() -> Arc<str>) -> Arc<str> {
        let [in_json, in_protobuf] = &self.openapi_v2_hashes;
        (if json { in_json } else { in_protobuf }).get_or_init(make).clone()
    }

    /// The document at `/apis`.
    pub(crate) fn group_list(&self) -> Node {
        documents::group_list(self.listed_groups())
    }

    /// The groups of the legacy list: those that an APIService names.
    pub(crate) fn listed_groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values().map(|group| &**group).filter(|group| group.is_listed)
    }
}

impl Group {
    /// Builds a group from these kinds. Parts of kinds that existed before are taken from `previous`.
    fn new(
        name: &str,
        members: Members,
        registered: Option<Arc<Registered>>,
        everything_listed: bool,
        previous: Option<&Group>,
    ) -> Self {
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
        let listing = listing(&versions, registered.as_deref());
        let without_registration = everything_listed || !installed;
        let is_registered = registered.as_ref().is_some_and(|facts| !facts.versions.is_empty());
        let named_versions =
            named_versions(&versions, registered.as_deref(), without_registration || !is_registered);
        let is_listed = name == AGGREGATOR || without_registration || is_registered;
        Group {
            name: name.to_string(),
            installed,
            versions,
            listing,
            named_versions,
            is_listed,
            members,
            registered,
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

/// The group of the APIServices themselves has no APIService.
const AGGREGATOR: &str = "apiregistration.k8s.io";
/// The priority of versions without an APIService.
const VERSION_PRIORITY: i64 = 100;

/// The versions of a group as discovery lists them, by priority: its own and those of extension servers.
fn listing(versions: &[Version], registered: Option<&Registered>) -> Vec<Listed> {
    let facts = registered.map(|facts| facts.versions.as_slice()).unwrap_or_default();
    let registration_of = |name: &str| facts.iter().find(|(version, ..)| version == name);
    let own = versions
        .iter()
        .enumerate()
        .filter(|(_, version)| registration_of(&version.name).is_none_or(|(_, _, remote)| remote.is_none()));
    let own = own.map(|(at, version)| {
        let registration = registration_of(&version.name);
        let priority = registration.map_or(VERSION_PRIORITY, |(_, priority, _)| *priority);
        (priority, Listed { name: version.name.clone(), source: Source::Own(at) })
    });
    let remote = facts.iter().filter_map(|(name, priority, remote)| {
        let source = Source::Remote(remote.clone()?);
        Some((*priority, Listed { name: name.to_string(), source }))
    });
    by_priority(own.chain(remote).collect(), |listed| &listed.name)
}

/// The versions of a group that APIServices name, by priority, and those of its own that none names if they are listed
/// `without_registration`.
fn named_versions(
    versions: &[Version],
    registered: Option<&Registered>,
    without_registration: bool,
) -> Vec<Str> {
    let facts = registered.map(|facts| facts.versions.as_slice()).unwrap_or_default();
    let mut all: Vec<(i64, Str)> =
        facts.iter().map(|(name, priority, _)| (*priority, name.clone())).collect();
    if without_registration {
        let is_known = |version: &&Version| facts.iter().any(|(name, ..)| *name == version.name.as_str());
        let unnamed = versions.iter().filter(|version| !is_known(version));
        all.extend(unnamed.map(|version| (VERSION_PRIORITY, Str::from(version.name.as_str()))));
    }
    by_priority(all, |name| name)
}

fn by_priority<T>(mut all: Vec<(i64, T)>, name: impl Fn(&T) -> &str) -> Vec<T> {
    all.sort_by(|(a, left), (b, right)| {
        b.cmp(a).then_with(|| order::compare_versions(name(left), name(right)))
    });
    all.into_iter().map(|(_, version)| version).collect()
}

impl Version {
    /// The resource of this plural name.
    pub fn resource(&self, plural: &str) -> Option<&Resource> {
        let at = self.resources.binary_search_by(|r| r.kind.plural.as_str().cmp(plural)).ok()?;
        self.resources.get(at)
    }
}
