//! The kinds that are served at the moment, by group, version and resource.
//!
//! The maps are persistent: a snapshot is cheap to hold, and the cost of a change hardly depends on the number of kinds.

use arc_swap::ArcSwap;
use imbl::{OrdMap, OrdSet};
use pintle_kinds::Kind;
use pintle_meta::GroupVersion;
use pintle_value::Str;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// The kinds that a group serves, in the order of their registration.
pub type Members = Arc<Vec<Arc<Kind>>>;

/// An immutable snapshot of the registry, cheap to clone.
#[derive(Clone, Default)]
pub struct Kinds {
    /// The kinds by group, then by plural: a lookup with two borrowed texts needs no key that owns them.
    all: OrdMap<Str, OrdMap<Str, Arc<Kind>>>,
    /// The kinds by group, version and plural.
    by_resource: OrdMap<(Str, Str, Str), (Arc<Kind>, usize)>,
    /// The kinds by group, version and kind, including versions that are not served.
    by_kind: OrdMap<(Str, Str, Str), (Arc<Kind>, usize)>,
    /// The kinds by the prefix of their objects in the store.
    by_prefix: OrdMap<Str, Arc<Kind>>,
    /// The kinds by group of their served versions.
    groups: OrdMap<Str, Members>,
    /// The groups of built-in kinds. Definitions cannot add kinds to them, or change or remove kinds in them.
    built_in_groups: OrdSet<Str>,
}

impl Kinds {
    /// All kinds in order of group and plural.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.all.values().flat_map(OrdMap::values)
    }

    /// The served versions and resources of each group.
    pub fn groups(&self) -> &OrdMap<Str, Members> {
        &self.groups
    }

    /// The kind that serves this resource, and the index of the version.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<(Arc<Kind>, usize)> {
        self.by_resource.get(&(group.into(), version.into(), plural.into())).cloned()
    }

    /// The kind of this group and plural in any version.
    pub fn by_plural(&self, group: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.all.get(group)?.get(plural)
    }

    /// The kind with this name in this group and version, and the index of the version.
    pub fn by_kind(&self, group_version: &GroupVersion, kind: &str) -> Option<(&Arc<Kind>, usize)> {
        let GroupVersion { group, version } = group_version;
        self.by_kind.get(&(group.clone(), version.clone(), kind.into())).map(|(kind, at)| (kind, *at))
    }

    /// The kind whose objects are stored under this prefix.
    pub fn by_prefix(&self, prefix: &str) -> Option<&Arc<Kind>> {
        self.by_prefix.get(prefix)
    }

    /// The kind of this group and plural, if it comes from a definition.
    pub fn defined_by_plural(&self, group: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.by_plural(group, plural).filter(|kind| !self.is_built_in(kind))
    }

    fn is_built_in(&self, kind: &Kind) -> bool {
        self.built_in_groups.contains(&kind.group)
            || kind.versions.iter().any(|version| self.built_in_groups.contains(&version.group))
    }

    /// Returns whether objects of `kind` would be stored under the prefix of a built-in kind.
    fn overlaps_built_in_storage(&self, kind: &Kind) -> bool {
        let (new, built_in) = (&kind.store_prefix, |old: &&Arc<Kind>| self.is_built_in(old));
        self.all().filter(built_in).any(|old| {
            old.store_prefix.starts_with(new.as_str()) || new.starts_with(old.store_prefix.as_str())
        })
    }

    fn add(&mut self, kind: Arc<Kind>) {
        for (at, version) in kind.versions.iter().enumerate() {
            let (group, name) = (version.group.clone(), version.name.clone());
            self.by_kind.insert((group.clone(), name.clone(), kind.kind.clone()), (kind.clone(), at));
            if version.served {
                self.by_resource.insert((group.clone(), name, kind.plural.clone()), (kind.clone(), at));
                let members = self.groups.entry(group).or_default();
                if !members.iter().any(|member| Arc::ptr_eq(member, &kind)) {
                    Arc::make_mut(members).push(kind.clone());
                }
            }
        }
        self.by_prefix.insert(kind.store_prefix.clone(), kind.clone());
        self.all.entry(kind.group.clone()).or_default().insert(kind.plural.clone(), kind);
    }

    fn take_out(&mut self, group: &str, plural: &str) {
        let Some(of_group) = self.all.get_mut(group) else { return };
        let Some(kind) = of_group.remove(plural) else { return };
        if of_group.is_empty() {
            self.all.remove(group);
        }
        self.by_prefix.remove(&kind.store_prefix);
        for version in &kind.versions {
            let place = (version.group.clone(), version.name.clone(), kind.plural.clone());
            self.by_resource.remove(&place);
            let place = (version.group.clone(), version.name.clone(), kind.kind.clone());
            // Another definition may have taken the name in the meantime.
            if self.by_kind.get(&place).is_some_and(|(named, _)| Arc::ptr_eq(named, &kind)) {
                self.by_kind.remove(&place);
            }
            if let Some(members) = self.groups.get_mut(&version.group) {
                Arc::make_mut(members).retain(|member| !Arc::ptr_eq(member, &kind));
                if members.is_empty() {
                    self.groups.remove(&version.group);
                }
            }
        }
    }
}

/// The definition is in a group of built-in kinds, which kube-apiserver only serves from the built-in kinds.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{plural}.{group} is not served: the group {group} belongs to built-in kinds")]
pub struct BuiltInGroup {
    group: Str,
    plural: Str,
}

/// The registry of kinds. Each definition that is added, changed or removed makes a new snapshot.
pub struct Registry {
    kinds: ArcSwap<Kinds>,
    changes: AtomicU64,
    /// The revision up to which definitions are served.
    applied: watch::Sender<u64>,
}

/// How long the writer of a definition waits until the definition is served.
const APPLIED_WAIT_MAX: Duration = Duration::from_secs(2);

impl Registry {
    /// A registry of these built-in kinds.
    pub fn new(kinds: Vec<Arc<Kind>>) -> Self {
        let registry = Registry {
            kinds: ArcSwap::default(),
            changes: AtomicU64::new(0),
            // No request waits until a controller follows the definitions.
            applied: watch::Sender::new(u64::MAX),
        };
        kinds.into_iter().for_each(|kind| registry.install(kind));
        registry
    }

    /// The kinds of this moment.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.kinds.load_full()
    }

    /// The current kinds, for a short access: cheaper than [`Self::kinds`], but must not be held across an await.
    pub(crate) fn load(&self) -> arc_swap::Guard<Arc<Kinds>> {
        self.kinds.load()
    }

    /// Adds a built-in kind. From then on its groups are closed to definitions.
    pub fn install(&self, kind: Arc<Kind>) {
        self.update(|kinds| {
            kinds.built_in_groups.insert(kind.group.clone());
            kinds.built_in_groups.extend(kind.versions.iter().map(|version| version.group.clone()));
            kinds.take_out(&kind.group, &kind.plural);
            kinds.add(kind.clone());
        });
    }

    /// Returns an error if `kind`, which a definition declares, must not be served.
    pub fn check_definable(&self, kind: &Kind) -> Result<(), BuiltInGroup> {
        let kinds = self.kinds.load();
        if kinds.is_built_in(kind) || kinds.overlaps_built_in_storage(kind) {
            return Err(BuiltInGroup { group: kind.group.clone(), plural: kind.plural.clone() });
        }
        Ok(())
    }

    /// Registers `kind`, which a definition declares, replacing the one with the same group and plural.
    pub fn define(&self, kind: Arc<Kind>) -> Result<(), BuiltInGroup> {
        self.check_definable(&kind)?;
        self.update(|kinds| {
            kinds.take_out(&kind.group, &kind.plural);
            kinds.add(kind.clone());
        });
        Ok(())
    }

    /// Unregisters and returns the kind of this group and plural. Built-in kinds stay.
    pub fn undefine(&self, group: &str, plural: &str) -> Option<Arc<Kind>> {
        let kind = self.kinds.load().defined_by_plural(group, plural)?.clone();
        self.update(|kinds| kinds.take_out(group, plural));
        Some(kind)
    }

    fn update(&self, change: impl Fn(&mut Kinds)) {
        self.kinds.rcu(|old| {
            let mut kinds = Kinds::clone(old);
            change(&mut kinds);
            Arc::new(kinds)
        });
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Announces that the definitions at `revision` are served.
    pub fn mark_applied(&self, revision: u64) {
        self.applied.send_replace(revision);
    }

    /// Waits a limited time until the definitions at `revision` are served.
    pub(crate) async fn wait_applied(&self, revision: u64) {
        let mut applied = self.applied.subscribe();
        // After a time-out the client still gets its answer: the definition is stored.
        _ = tokio::time::timeout(APPLIED_WAIT_MAX, applied.wait_for(|reached| *reached >= revision)).await;
    }

    /// Counts the changes of the registry; documents rendered from it are stale when this changes.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn definitions_cannot_shadow_built_in_kinds() {
        let kind = |plural: &str| {
            let mut kinds = pintle_kinds::builtin().kinds;
            let at = kinds.iter().position(|kind| kind.plural == plural).unwrap();
            kinds.swap_remove(at)
        };
        let registry = Registry::new(vec![Arc::new(kind("deployments")), Arc::new(kind("pods"))]);
        let custom = |group: &str, version_group: &str, plural: &str, prefix: &str| {
            let mut kind = kind("deployments");
            (kind.group, kind.plural, kind.store_prefix) = (group.into(), plural.into(), prefix.into());
            kind.versions.iter_mut().for_each(|version| version.group = version_group.into());
            Arc::new(kind)
        };
        let own = "/registry/a.example.com/deployments/";
        for (kind, is_refused) in [
            (custom("apps", "apps", "deployments", own), true),
            (custom("apps", "apps", "others", own), true),
            (custom("a.example.com", "apps", "others", own), true),
            (custom("a.example.com", "a.example.com", "others", "/registry/pods/"), true),
            (custom("a.example.com", "a.example.com", "others", "/registry/"), true),
            (custom("a.example.com", "a.example.com", "others", "/registry/pods/x/"), true),
            (custom("a.example.com", "a.example.com", "deployments", own), false),
        ] {
            let what = format!("{} {} {}", kind.group, kind.plural, kind.store_prefix);
            assert_eq!(registry.define(kind).is_err(), is_refused, "{what}");
        }
        assert!(registry.undefine("apps", "deployments").is_none());
        assert!(registry.kinds().resource("apps", "v1", "deployments").is_some());
        assert!(registry.undefine("a.example.com", "deployments").is_some());
        assert!(registry.kinds().by_plural("a.example.com", "deployments").is_none());
    }
}
