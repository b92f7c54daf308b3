//! Several stores as one: keys with certain prefixes are in stores of their own (`--etcd-servers-overrides`).
//! Revisions of different stores cannot be compared, and a transaction over several of them is not atomic.

use crate::error::{ReadError, StoreFault, WriteError};
use crate::history::{HistoryQuery, KeyHistory};
use crate::state::Snapshot;
use crate::store::{BoxFuture, Expect, Loaded, Op, Revision, Sink, Store, Write};
use std::sync::Arc;
use std::time::Duration;

/// A store and the prefixes of its keys.
pub struct Partition {
    /// The store of these keys.
    pub store: Arc<dyn Store>,
    /// The prefixes of the keys in this store.
    pub prefixes: Vec<Arc<str>>,
}

/// The main store, and stores for some keys. [`Store::load`], [`Store::revision`] and [`Store::snapshot_state`] are
/// about the main store: a follower of changes must also attach to each of the other stores.
pub struct Partitioned {
    main: Arc<dyn Store>,
    further: Vec<Partition>,
}

impl Partitioned {
    /// Creates a store whose keys are in `main`, except for those that a partition names.
    pub fn new(main: Arc<dyn Store>, further: Vec<Partition>) -> Partitioned {
        Partitioned { main, further }
    }

    fn store_of(&self, key: &str) -> &Arc<dyn Store> {
        let owns =
            |partition: &&Partition| partition.prefixes.iter().any(|prefix| key.starts_with(&**prefix));
        self.further.iter().find(owns).map_or(&self.main, |partition| &partition.store)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<dyn Store>> {
        std::iter::once(&self.main).chain(self.further.iter().map(|partition| &partition.store))
    }

    /// The writes by store, in the order in which they are executed. The last write is the object itself: its
    /// addresses and quotas are allocated before it is put, and released after it is deleted, as in kube-apiserver.
    fn split(&self, writes: Vec<Write>) -> Vec<Group<'_>> {
        let mut groups: Vec<Group<'_>> = Vec::new();
        let deletes = writes.last().is_some_and(|write| write.op == Op::Delete);
        for (index, write) in writes.into_iter().enumerate() {
            let store = self.store_of(&write.key);
            match groups.iter_mut().position(|group| Arc::ptr_eq(group.store, store)) {
                // The group of the last write comes last.
                Some(at) => {
                    let mut group = groups.remove(at);
                    group.writes.push((index, write));
                    groups.push(group);
                }
                None => groups.push(Group { store, writes: vec![(index, write)] }),
            }
        }
        if deletes {
            groups.reverse();
        }
        groups
    }
}

struct Group<'a> {
    store: &'a Arc<dyn Store>,
    /// The writes with their indexes in the transaction.
    writes: Vec<(usize, Write)>,
}

/// Removes the keys that a transaction created before another part of it failed. Those that cannot be removed stay
/// until the controllers that look for such leftovers find them, as in kube-apiserver.
async fn undo(created: Vec<(&Arc<dyn Store>, Write)>) {
    for (store, write) in created {
        let key = write.key.clone();
        if let Err(error) = store.write(write).await {
            tracing::warn!(%error, %key, "could not remove what a failed write had taken");
        }
    }
}

impl Store for Partitioned {
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Revision, WriteError>> {
        self.store_of(&write.key).write(write)
    }

    fn commit(&self, writes: Vec<Write>) -> BoxFuture<'_, Result<Vec<Revision>, WriteError>> {
        Box::pin(async move {
            let mut revisions = vec![Revision::EMPTY; writes.len()];
            let mut created = Vec::new();
            for Group { store, writes } in self.split(writes) {
                let (places, writes): (Vec<usize>, Vec<Write>) = writes.into_iter().unzip();
                let new_keys: Vec<_> = writes
                    .iter()
                    .map(|write| (write.expect == Expect::Absent).then(|| write.key.clone()))
                    .collect();
                let committed = match store.commit(writes).await {
                    Ok(committed) => committed,
                    Err(error) => {
                        undo(created).await;
                        return Err(error);
                    }
                };
                for ((place, revision), new_key) in places.into_iter().zip(committed).zip(new_keys) {
                    if let Some(slot) = revisions.get_mut(place) {
                        *slot = revision;
                    }
                    created
                        .extend(new_key.map(|key| (store, Write::delete(key, Expect::Revision(revision)))));
                }
            }
            Ok(revisions)
        })
    }

    fn load(&self, sink: Arc<dyn Sink>) -> Loaded {
        self.main.load(sink)
    }

    fn revision(&self) -> Revision {
        self.main.revision()
    }

    fn barrier(&self) -> BoxFuture<'_, Result<Revision, StoreFault>> {
        Box::pin(async move {
            for partition in &self.further {
                partition.store.barrier().await?;
            }
            self.main.barrier().await
        })
    }

    fn barrier_for<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Revision, StoreFault>> {
        self.store_of(key).barrier()
    }

    fn read_at<'a>(
        &'a self,
        prefix: &'a str,
        revision: Revision,
    ) -> BoxFuture<'a, Result<Snapshot, ReadError>> {
        self.store_of(prefix).read_at(prefix, revision)
    }

    fn history<'a>(
        &'a self,
        key: &'a str,
        query: HistoryQuery,
    ) -> BoxFuture<'a, Result<Option<KeyHistory>, ReadError>> {
        self.store_of(key).history(key, query)
    }

    fn age(&self) {
        for store in self.all() {
            store.age();
        }
    }

    fn probe(&self, limit: Duration) -> BoxFuture<'_, Result<(), String>> {
        self.main.probe(limit)
    }

    fn sizes(&self) -> BoxFuture<'_, Vec<Option<u64>>> {
        Box::pin(async move {
            let mut sizes = Vec::new();
            for store in self.all() {
                sizes.append(&mut store.sizes().await);
            }
            sizes
        })
    }

    fn is_shared(&self) -> bool {
        self.all().any(|store| store.is_shared())
    }

    fn removes_expired(&self) -> bool {
        self.all().all(|store| store.removes_expired())
    }

    fn is_outdated<'a>(&'a self, key: &'a str) -> BoxFuture<'a, bool> {
        self.store_of(key).is_outdated(key)
    }

    fn compacted(&self) -> Revision {
        self.main.compacted()
    }

    fn health(&self) -> Result<(), StoreFault> {
        self.all().try_for_each(|store| store.health())
    }

    fn close(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            for store in self.all() {
                store.close().await;
            }
        })
    }

    fn snapshot_state(&self) -> Snapshot {
        self.main.snapshot_state()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Embedded, Options};

    fn stores() -> (Arc<dyn Store>, Arc<dyn Store>, Partitioned) {
        let store = || Arc::new(Embedded::ephemeral(Options::default()).unwrap()) as Arc<dyn Store>;
        let (main, second) = (store(), store());
        let further = Partition { store: second.clone(), prefixes: vec!["/registry/leases/".into()] };
        let both = Partitioned::new(main.clone(), vec![further]);
        (main, second, both)
    }

    fn keys(store: &Arc<dyn Store>) -> Vec<String> {
        store.snapshot_state().iter().map(|(key, _)| key.to_string()).collect()
    }

    #[tokio::test]
    async fn keys_go_to_their_store_with_its_revisions() {
        let (main, second, both) = stores();
        let put = |key: &str| Write::put(key, Expect::Absent, "1");
        assert_eq!(both.write(put("/registry/pods/a")).await, Ok(Revision(2)));
        assert_eq!(both.write(put("/registry/pods/b")).await, Ok(Revision(3)));
        assert_eq!(both.write(put("/registry/leases/a")).await, Ok(Revision(2)));
        assert_eq!(both.barrier_for("/registry/leases/").await, Ok(Revision(2)));
        assert_eq!(both.barrier().await, Ok(Revision(3)));
        assert_eq!(keys(&main), ["/registry/pods/a", "/registry/pods/b"]);
        assert_eq!(keys(&second), ["/registry/leases/a"]);
    }

    #[tokio::test]
    async fn a_transaction_over_two_stores_takes_back_what_it_created() {
        let (main, second, both) = stores();
        let put = |key: &str| Write::put(key, Expect::Absent, "1");
        let writes = vec![put("/registry/ips/a"), put("/registry/leases/a")];
        assert_eq!(both.commit(writes).await, Ok(vec![Revision(2), Revision(2)]));
        let writes = vec![put("/registry/ips/b"), put("/registry/leases/a")];
        assert!(matches!(both.commit(writes).await, Err(WriteError::Conflict { .. })));
        assert_eq!(keys(&main), ["/registry/ips/a"], "b was created and removed");
        // A deletion starts with the object.
        let delete = |key: &str, revision| Write::delete(key, Expect::Revision(Revision(revision)));
        let writes = vec![delete("/registry/ips/a", 2), delete("/registry/leases/a", 7)];
        assert!(matches!(both.commit(writes).await, Err(WriteError::Conflict { .. })));
        assert_eq!((keys(&main).len(), keys(&second).len()), (1, 1));
    }
}
