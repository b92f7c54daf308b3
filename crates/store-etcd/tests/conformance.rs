//! The suite of all engines, on a real etcd. `PINTLE_ETCD` names the binary; without it the test says that it is left
//! out.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, reason = "a test may end here")]

use pintle_store::conformance::{self, Harness};
use pintle_store::{BoxFuture, Store};
use pintle_store_etcd::{Endpoint, Etcd, Options};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

struct Server {
    child: Child,
    folder: PathBuf,
    endpoint: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn start() -> Option<Server> {
    let Some(binary) = std::env::var_os("PINTLE_ETCD") else {
        pintle_testkit::skip("PINTLE_ETCD names no etcd binary");
        return None;
    };
    let (client, peer) = (free_port(), free_port());
    let folder = std::env::temp_dir().join(format!("pintle-etcd-{}-{client}", std::process::id()));
    let (client, peer) = (format!("http://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
    let child = Command::new(binary)
        .args(["--log-level", "error", "--unsafe-no-fsync", "--data-dir"])
        .arg(&folder)
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    Some(Server { child, folder, endpoint: client })
}

struct OnEtcd {
    endpoint: String,
    /// Each store gets a prefix of its own.
    stores: AtomicU32,
}

impl OnEtcd {
    async fn open(&self, prefix: u32) -> Arc<dyn Store> {
        let mut options = Options::new(vec![Endpoint::parse(&self.endpoint).unwrap()]);
        options.prefix = format!("/registry{prefix}");
        options.own_prefix = "";
        Arc::new(Etcd::connect(options).await.unwrap())
    }
}

impl Harness for OnEtcd {
    fn create(&self) -> BoxFuture<'_, Arc<dyn Store>> {
        Box::pin(self.open(self.stores.fetch_add(1, Ordering::Relaxed)))
    }

    fn reopen(&self, _: Arc<dyn Store>) -> BoxFuture<'_, Option<Arc<dyn Store>>> {
        // A cache on etcd begins without history, as that of kube-apiserver does.
        Box::pin(async { None })
    }

    fn compact<'a>(&'a self, _: &'a Arc<dyn Store>) -> BoxFuture<'a, bool> {
        Box::pin(async { false })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_conforms() {
    let Some(server) = start() else { return };
    conformance::run(&OnEtcd { endpoint: server.endpoint.clone(), stores: AtomicU32::new(0) }).await;
}
