//! The suite of all stores.

use crate::member::{Member, open};
use pintle_store::conformance::{self, Harness};
use pintle_store::{BoxFuture, Store};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

struct OnEtcd {
    endpoint: String,
    /// Each store gets a prefix of its own.
    stores: AtomicU32,
}

impl Harness for OnEtcd {
    fn create(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(async {
            let number = self.stores.fetch_add(1, Ordering::Relaxed);
            Arc::new(open(&self.endpoint, number).await) as Arc<dyn Store>
        })
    }

    fn reopen(&self, _: Arc<dyn Store>) -> BoxFuture<'_, Option<Arc<dyn Store>>> {
        // A cache on etcd begins without history, as in kube-apiserver; `faults.rs` tests what holds instead.
        Box::pin(async { None })
    }

    fn compact<'a>(&'a self, _: &'a Arc<dyn Store>) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_conforms() {
    let Some(member) = Member::start("http", &[]) else { return };
    conformance::run(&OnEtcd { endpoint: member.endpoint.clone(), stores: AtomicU32::new(0) }).await;
}
