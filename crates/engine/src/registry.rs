//! The live kinds: which resource of which group and version is served right now.

use arc_swap::ArcSwap;
use pintle_kinds::Kind;
use pintle_meta::GroupVersion;
use pintle_value::Str;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// One moment of the registry. Cheap to hold; never changes.
#[derive(Default)]
pub struct Kinds {
    all: Vec<Arc<Kind>>,
    by_resource: HashMap<(Str, Str, Str), (usize, usize)>,
}

impl Kinds {
    fn build(all: Vec<Arc<Kind>>) -> Self {
        let mut by_resource = HashMap::new();
        for (at, kind) in all.iter().enumerate() {
            for (version_at, version) in kind.versions.iter().enumerate().filter(|(_, v)| v.served) {
                let place = (version.group.clone(), version.name.clone(), kind.plural.clone());
                by_resource.insert(place, (at, version_at));
            }
        }
        Kinds { all, by_resource }
    }

    /// All kinds, built-in ones first.
    pub fn all(&self) -> &[Arc<Kind>] {
        &self.all
    }

    /// The kind served as this resource, and the position of the version.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<(Arc<Kind>, usize)> {
        let (at, version_at) = *self.by_resource.get(&(group.into(), version.into(), plural.into()))?;
        Some((self.all.get(at)?.clone(), version_at))
    }

    /// The kind of this group and plural in any version.
    pub fn by_plural(&self, group: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.all.iter().find(|k| k.group == group && k.plural == plural)
    }

    /// The kind of this name that is served in this group and version, and the position of the version.
    pub fn by_kind(&self, group_version: &GroupVersion, kind: &str) -> Option<(&Arc<Kind>, usize)> {
        self.all.iter().filter(|k| k.kind == kind).find_map(|k| {
            let matches = |v: &pintle_kinds::KindVersion| {
                v.name == group_version.version && v.group == group_version.group
            };
            k.versions.iter().position(matches).map(|at| (k, at))
        })
    }
}

/// The registry: swapped as a whole when a definition comes, changes or goes.
pub struct Registry {
    kinds: ArcSwap<Kinds>,
    changes: AtomicU64,
}

impl Registry {
    /// A registry of these kinds.
    pub fn new(kinds: Vec<Arc<Kind>>) -> Self {
        Registry { kinds: ArcSwap::from_pointee(Kinds::build(kinds)), changes: AtomicU64::new(0) }
    }

    /// The kinds of this moment.
    pub fn kinds(&self) -> Arc<Kinds> {
        self.kinds.load_full()
    }

    /// Puts `kind` in the place of the one with the same group and plural, or adds it.
    pub fn put(&self, kind: Arc<Kind>) {
        self.replace(&kind.group.clone(), &kind.plural.clone(), Some(kind));
    }

    /// Takes the kind of this group and plural out of service.
    pub fn remove(&self, group: &str, plural: &str) {
        self.replace(group, plural, None);
    }

    fn replace(&self, group: &str, plural: &str, new: Option<Arc<Kind>>) {
        self.kinds.rcu(|old| {
            let mut all: Vec<_> =
                old.all.iter().filter(|k| !(k.group == group && k.plural == plural)).cloned().collect();
            all.extend(new.clone());
            Arc::new(Kinds::build(all))
        });
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Counts the changes of the registry; documents made from it are stale when it moves.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}
