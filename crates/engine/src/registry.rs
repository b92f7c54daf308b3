//! The live kinds: which resource of which group and version is served right now.
//!
//! Persistent maps: a moment costs nothing to hold, and a change costs the same however many kinds there are.

use arc_swap::ArcSwap;
use imbl::OrdMap;
use pintle_kinds::Kind;
use pintle_meta::GroupVersion;
use pintle_value::Str;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::sync::watch;

/// The kinds that a group serves, in the order in which they came.
pub type Members = Arc<Vec<Arc<Kind>>>;

/// One moment of the registry. Cheap to hold; never changes.
#[derive(Clone, Default)]
pub struct Kinds {
    /// By group and plural.
    all: OrdMap<(Str, Str), Arc<Kind>>,
    /// By group, version and plural.
    by_resource: OrdMap<(Str, Str, Str), (Arc<Kind>, usize)>,
    /// By group, version and kind, served or not.
    by_kind: OrdMap<(Str, Str, Str), (Arc<Kind>, usize)>,
    /// By where their objects are in the store.
    by_prefix: OrdMap<Str, Arc<Kind>>,
    /// By group of their served versions.
    groups: OrdMap<Str, Members>,
}

impl Kinds {
    /// All kinds in order of group and plural.
    pub fn all(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.all.values()
    }

    /// What each group serves.
    pub fn groups(&self) -> &OrdMap<Str, Members> {
        &self.groups
    }

    /// The kind served as this resource, and the position of the version.
    pub fn resource(&self, group: &str, version: &str, plural: &str) -> Option<(Arc<Kind>, usize)> {
        self.by_resource.get(&(group.into(), version.into(), plural.into())).cloned()
    }

    /// The kind of this group and plural in any version.
    pub fn by_plural(&self, group: &str, plural: &str) -> Option<&Arc<Kind>> {
        self.all.get(&(group.into(), plural.into()))
    }

    /// The kind of this name in this group and version, and the position of the version.
    pub fn by_kind(&self, group_version: &GroupVersion, kind: &str) -> Option<(&Arc<Kind>, usize)> {
        let GroupVersion { group, version } = group_version;
        self.by_kind.get(&(group.clone(), version.clone(), kind.into())).map(|(kind, at)| (kind, *at))
    }

    /// The kind whose objects are kept under this prefix.
    pub fn by_prefix(&self, prefix: &str) -> Option<&Arc<Kind>> {
        self.by_prefix.get(prefix)
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
        self.all.insert((kind.group.clone(), kind.plural.clone()), kind);
    }

    fn take_out(&mut self, group: &str, plural: &str) {
        let Some(kind) = self.all.remove(&(group.into(), plural.into())) else { return };
        self.by_prefix.remove(&kind.store_prefix);
        for version in &kind.versions {
            let place = (version.group.clone(), version.name.clone(), kind.plural.clone());
            self.by_resource.remove(&place);
            let place = (version.group.clone(), version.name.clone(), kind.kind.clone());
            // Another definition may have taken the name of the kind meanwhile.
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

/// The registry: a new moment for each definition that comes, changes or goes.
pub struct Registry {
    kinds: ArcSwap<Kinds>,
    changes: AtomicU64,
    /// The revision up to which definitions are served.
    settled: watch::Sender<u64>,
}

/// How long the writer of a definition waits until it is served.
const SETTLE_MAX: Duration = Duration::from_secs(2);

impl Registry {
    /// A registry of these kinds.
    pub fn new(kinds: Vec<Arc<Kind>>) -> Self {
        let mut first = Kinds::default();
        kinds.into_iter().for_each(|kind| first.add(kind));
        Registry {
            kinds: ArcSwap::from_pointee(first),
            changes: AtomicU64::new(0),
            // Until somebody follows the definitions nobody waits for it.
            settled: watch::Sender::new(u64::MAX),
        }
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
            let mut kinds = Kinds::clone(old);
            kinds.take_out(group, plural);
            if let Some(new) = &new {
                kinds.add(new.clone());
            }
            Arc::new(kinds)
        });
        self.changes.fetch_add(1, Ordering::Release);
    }

    /// Says that definitions are served as they are at `revision`.
    pub fn settle(&self, revision: u64) {
        self.settled.send_replace(revision);
    }

    /// Waits until definitions are served as they are at `revision`, but not for long.
    pub(crate) async fn wait_settled(&self, revision: u64) {
        let mut settled = self.settled.subscribe();
        // Whoever waits in vain is told of the write all the same: it is done.
        _ = tokio::time::timeout(SETTLE_MAX, settled.wait_for(|reached| *reached >= revision)).await;
    }

    /// Counts the changes of the registry; documents made from it are stale when it moves.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }
}
