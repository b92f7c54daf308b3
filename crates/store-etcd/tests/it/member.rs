//! A member of etcd that is a cluster of its own, and stores on it.

use pintle_store_etcd::{Endpoint, Etcd, Options};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// An etcd process. Dropping it kills the process and removes its folder.
pub(crate) struct Member {
    child: Child,
    folder: PathBuf,
    flags: Vec<String>,
    /// The URL for clients.
    pub(crate) endpoint: String,
    peer: String,
}

impl Member {
    /// Starts a member; `None` where there is no etcd. `scheme` is that of the URL for clients.
    pub(crate) fn start(scheme: &str, flags: &[String]) -> Option<Member> {
        let Some(binary) = std::env::var_os("PINTLE_ETCD") else {
            pintle_testkit::skip("PINTLE_ETCD names no etcd binary");
            return None;
        };
        let (client, peer) = (free_port(), free_port());
        let folder = std::env::temp_dir().join(format!("pintle-etcd-{}-{client}", std::process::id()));
        let (endpoint, peer) = (format!("{scheme}://127.0.0.1:{client}"), format!("http://127.0.0.1:{peer}"));
        let child = launch(Path::new(&binary), &folder, (&endpoint, &peer), flags);
        Some(Member { child, folder, flags: flags.to_vec(), endpoint, peer })
    }

    /// Ends the process and starts an empty etcd in its place.
    pub(crate) fn begin_anew(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        std::fs::remove_dir_all(&self.folder).unwrap();
        let binary = std::env::var_os("PINTLE_ETCD").unwrap();
        self.child = launch(Path::new(&binary), &self.folder, (&self.endpoint, &self.peer), &self.flags);
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn launch(binary: &Path, folder: &Path, (client, peer): (&str, &str), flags: &[String]) -> Child {
    Command::new(binary)
        .args(["--log-level", "error", "--unsafe-no-fsync", "--data-dir"])
        .arg(folder)
        .args(["--listen-client-urls", client, "--advertise-client-urls", client])
        .args(["--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer])
        .args(["--initial-cluster", &format!("default={peer}")])
        .args(flags)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Options for stores whose keys lie under `/registryN`.
pub(crate) fn options(endpoint: &str, number: u32) -> Options {
    let mut options = Options::new(vec![Endpoint::parse(endpoint).unwrap()]);
    options.prefix = format!("/registry{number}");
    options.own_prefix = "";
    options
}

/// Opens a store whose keys lie under `/registryN`.
pub(crate) async fn open(endpoint: &str, number: u32) -> Etcd {
    Etcd::connect(options(endpoint, number)).await.unwrap()
}
