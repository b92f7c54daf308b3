//! The groups and versions that are never taken from peers: those of definitions and of aggregated APIServices, and for five minutes
//! those of deleted ones, because the discovery of a peer may still list them.

use super::PeerResources;
use pintle_engine::Engine;
use pintle_value::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

const DEFINITIONS: &str = "/registry/apiextensions.k8s.io/customresourcedefinitions/";
const SERVICES: &str = "/registry/apiregistration.k8s.io/apiservices/";
/// How long deleted ones are excluded.
const GRACE: Duration = Duration::from_secs(300);

type GroupVersion = (String, String);

#[derive(Default)]
pub(super) struct Exclusions {
    active: BTreeSet<GroupVersion>,
    /// When each deleted version was found to be deleted.
    deleted: BTreeMap<GroupVersion, Instant>,
    /// The numbers of events of the two resources at the last look.
    seen: Option<[u64; 2]>,
    /// What the objects of the two resources exclude, with their revisions, so that only changed ones are parsed.
    parsed: [BTreeMap<String, (u64, Vec<GroupVersion>)>; 2],
}

impl Exclusions {
    /// Looks at the objects if they have changed; returns whether the exclusions have.
    pub(super) fn update(&mut self, engine: &Engine, now: Instant) -> bool {
        let resources = [DEFINITIONS, SERVICES].map(|prefix| engine.storage().cache().resource(prefix));
        let events = resources.each_ref().map(|found| found.as_ref().map_or(0, |found| found.events()));
        let before = self.deleted.len();
        self.deleted.retain(|_, since| now.saturating_duration_since(*since) <= GRACE);
        let expired = self.deleted.len() != before;
        if self.seen == Some(events) {
            return expired;
        }
        self.seen = Some(events);
        let readers = [of_definition as fn(&Value) -> Vec<GroupVersion>, of_service];
        for ((resource, read), parsed) in resources.iter().zip(readers).zip(&mut self.parsed) {
            let old = std::mem::take(parsed);
            let Some(resource) = resource else { continue };
            for object in resource.view().iter() {
                let known = old.get(object.name()).filter(|(revision, _)| *revision == object.revision());
                let entry = known.cloned().unwrap_or_else(|| {
                    let tree = json::parse(object.json()).map(|parsed| parsed.value).unwrap_or_default();
                    (object.revision(), read(&tree))
                });
                parsed.insert(object.name().to_string(), entry);
            }
        }
        let all = self.parsed.iter().flat_map(|parsed| parsed.values());
        let fresh = all.flat_map(|(_, excluded)| excluded.iter().cloned()).collect();
        self.replace(fresh, now) || expired
    }

    fn replace(&mut self, fresh: BTreeSet<GroupVersion>, now: Instant) -> bool {
        if fresh == self.active {
            return false;
        }
        let gone: Vec<GroupVersion> = self.active.difference(&fresh).cloned().collect();
        self.deleted.extend(gone.into_iter().map(|gone| (gone, now)));
        self.active = fresh;
        true
    }

    fn has(&self, group: &str, version: &str) -> bool {
        let wanted = (group.to_string(), version.to_string());
        self.active.contains(&wanted) || self.deleted.contains_key(&wanted)
    }

    /// What is left of the resources and groups of a peer.
    pub(super) fn filter(&self, served: &Arc<PeerResources>) -> Arc<PeerResources> {
        if !served.resources.iter().any(|(group, version, _)| self.has(group, version)) {
            return served.clone();
        }
        let mut left = PeerResources::clone(served);
        left.resources.retain(|(group, version, _)| !self.has(group, version));
        for group in &mut left.groups {
            group.versions.retain(|(version, _)| !self.has(&group.name, version));
        }
        left.groups.retain(|group| !group.versions.is_empty());
        Arc::new(left)
    }
}

fn of_definition(tree: &Value) -> Vec<GroupVersion> {
    let group = tree.str_at(&["spec", "group"]);
    let versions = tree.items_at(&["spec", "versions"]).iter();
    versions.map(|version| (group.to_string(), version.str_at(&["name"]).to_string())).collect()
}

fn of_service(tree: &Value) -> Vec<GroupVersion> {
    let is_aggregated = tree.at(&["spec", "service"]).is_some_and(|service| !service.is_null());
    let text = |key| tree.str_at(&["spec", key]).to_string();
    is_aggregated.then(|| (text("group"), text("version"))).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregation::{RemoteGroup, RemoteVersion};

    #[test]
    fn deleted_versions_stay_excluded_for_a_while() {
        let gv = |version: &str| ("a.io".to_string(), version.to_string());
        let mut exclusions = Exclusions::default();
        let now = Instant::now();
        assert!(exclusions.replace([gv("v1"), gv("v2")].into(), now));
        assert!(!exclusions.replace([gv("v1"), gv("v2")].into(), now));
        assert!(exclusions.replace([gv("v2")].into(), now));
        let version = |name: &str| (name.to_string(), RemoteVersion::default());
        let served = PeerResources {
            resources: ["v1", "v2", "v3"]
                .map(|version| ("a.io".to_string(), version.to_string(), "things".to_string()))
                .into(),
            groups: vec![RemoteGroup {
                name: "a.io".to_string(),
                versions: ["v1", "v2", "v3"].map(version).into(),
            }],
        };
        let left = exclusions.filter(&Arc::new(served));
        assert_eq!(left.resources.len(), 1);
        assert_eq!(left.groups.iter().map(|group| group.versions.len()).collect::<Vec<_>>(), [1]);
        exclusions.deleted.retain(|_, since| (now + 2 * GRACE).duration_since(*since) <= GRACE);
        assert!(!exclusions.has("a.io", "v1") && exclusions.has("a.io", "v2"));
    }
}
