//! An etcd cluster under test: members that can be killed, paused, resumed and restarted, and the history of keys in etcd
//! itself. `PINTLE_ETCD` is the binary; `PINTLE_ETCD_CLUSTER` optionally another one for clusters with several members,
//! because some versions lose consistency when members are killed.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::client::{Client, Request};
use crate::wire::WireError;

/// How long a member may take to reach the revision of another one, and the members to elect a leader.
const CATCH_UP_MAX: Duration = Duration::from_secs(60);

/// The members of a cluster; dropping it kills them and removes their folder.
pub struct Etcd {
    binary: PathBuf,
    folder: PathBuf,
    members: Vec<Member>,
    flags: Vec<String>,
}

struct Member {
    client_port: u16,
    peer_port: u16,
    child: Option<Child>,
}

/// One change of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyChange {
    /// etcd's revision.
    pub revision: u64,
    /// The whole key.
    pub key: String,
    /// `None`: the key was deleted.
    pub value: Option<Vec<u8>>,
}

impl Etcd {
    /// Starts a cluster; `None`, with a message, if there is no etcd.
    pub fn start(members: usize, flags: &[&str]) -> Option<Etcd> {
        let of_clusters = (members > 1).then(|| std::env::var_os("PINTLE_ETCD_CLUSTER")).flatten();
        let Some(binary) = of_clusters.or_else(|| std::env::var_os("PINTLE_ETCD")) else {
            crate::skip("PINTLE_ETCD names no etcd binary");
            return None;
        };
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("pintle-etcd-{}-{number}", std::process::id()));
        let member =
            || Some(Member { client_port: free_port().ok()?, peer_port: free_port().ok()?, child: None });
        let members: Option<Vec<Member>> = (0..members).map(|_| member()).collect();
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut etcd = Etcd { binary: binary.into(), folder, members: members?, flags };
        for index in 0..etcd.members.len() {
            etcd.launch(index).ok()?;
        }
        Some(etcd)
    }

    /// How many members there are.
    pub fn len(&self) -> usize {
        self.members.len()
    }

    /// Whether there are no members.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The value of `--etcd-servers`.
    pub fn endpoints(&self) -> String {
        let all: Vec<String> = self.members.iter().map(|member| url(member.client_port)).collect();
        all.join(",")
    }

    /// The folder of all members.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Starts a member that is not running.
    pub fn launch(&mut self, index: usize) -> io::Result<()> {
        let initial = self.members.iter().enumerate();
        let initial: Vec<String> =
            initial.map(|(index, member)| format!("m{index}={}", url(member.peer_port))).collect();
        let Some(member) = self.members.get_mut(index) else { return Ok(()) };
        let (client, peer) = (url(member.client_port), url(member.peer_port));
        let mut command = Command::new(&self.binary);
        command.args(["--log-level", "error", "--unsafe-no-fsync", "--name", &format!("m{index}")]);
        command.arg("--data-dir").arg(self.folder.join(index.to_string()));
        command.args(["--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &initial.join(",")]).args(&self.flags);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        member.child = Some(command.spawn()?);
        Ok(())
    }

    /// Kills a member.
    pub fn kill(&mut self, index: usize) -> io::Result<()> {
        let child = self.members.get_mut(index).and_then(|member| member.child.take());
        let Some(mut child) = child else { return Ok(()) };
        child.kill()?;
        child.wait().map(drop)
    }

    /// Pauses a member (SIGSTOP) until [`Etcd::resume`].
    pub fn pause(&self, index: usize) -> io::Result<()> {
        self.send_signal(index, Signal::STOP)
    }

    /// Resumes a paused member.
    pub fn resume(&self, index: usize) -> io::Result<()> {
        self.send_signal(index, Signal::CONT)
    }

    fn send_signal(&self, index: usize, signal: Signal) -> io::Result<()> {
        let child = self.members.get(index).and_then(|member| member.child.as_ref());
        let pid = child.and_then(|child| i32::try_from(child.id()).ok()).and_then(Pid::from_raw);
        match pid {
            Some(pid) => Ok(kill_process(pid, signal)?),
            None => Ok(()),
        }
    }

    /// The index of the leader, once there is one.
    #[expect(clippy::indexing_slicing, reason = "JSON that has no such member gives null")]
    pub async fn leader(&self) -> Result<usize, WireError> {
        let elected = async {
            loop {
                for index in 0..self.members.len() {
                    // A member that is starting does not answer.
                    let status = self.client(index)?.post("/v3/maintenance/status", &json!({})).await;
                    if let Ok((200, status)) = status
                        && status["leader"].is_string()
                        && status["leader"] == status["header"]["member_id"]
                    {
                        return Ok(index);
                    }
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(CATCH_UP_MAX, elected).await.map_err(|_| WireError::Closed)?
    }

    /// A client of the JSON gateway of a member.
    pub fn client(&self, index: usize) -> Result<Client, WireError> {
        let port = self.members.get(index).map_or(0, |member| member.client_port);
        Client::new(&url(port), None)
    }

    /// Writes a key directly, without a server.
    pub async fn put(&self, key: &str, value: &[u8]) -> Result<(u16, Value), WireError> {
        let body = json!({"key": STANDARD.encode(key), "value": STANDARD.encode(value)});
        self.client(0)?.post("/v3/kv/put", &body).await
    }

    /// The keys that begin with `prefix`, and their values.
    #[expect(clippy::indexing_slicing, reason = "JSON that has no such member gives null")]
    pub async fn range(&self, prefix: &str) -> Result<Vec<(String, Vec<u8>)>, WireError> {
        let (_, answer) = self.client(0)?.post("/v3/kv/range", &range_of(prefix)).await?;
        let pairs = answer["kvs"].as_array().into_iter().flatten();
        Ok(pairs.map(|pair| (text(&pair["key"]), bytes(&pair["value"]))).collect())
    }

    /// The hash of all keys up to `revision`, as each member computes it, once all members have that revision. Members
    /// that agree have the same hash.
    #[expect(clippy::indexing_slicing, reason = "JSON that has no such member gives null")]
    pub async fn hashes(&self, revision: u64) -> Result<Vec<u64>, WireError> {
        let mut hashes = Vec::new();
        for index in 0..self.members.len() {
            let client = self.client(index)?;
            let body = json!({"revision": revision.to_string()});
            let hash = async {
                loop {
                    // A member that is behind answers with an error, and one that is starting does not answer.
                    if let Ok((200, answer)) = client.post("/v3/maintenance/hash", &body).await {
                        return answer["hash"].as_u64().unwrap_or(0);
                    }
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            };
            hashes.push(tokio::time::timeout(CATCH_UP_MAX, hash).await.map_err(|_| WireError::Closed)?);
        }
        Ok(hashes)
    }

    /// All changes of keys that begin with `prefix`, from the first revision up to the first change of `last`.
    #[expect(clippy::indexing_slicing, reason = "JSON that has no such member gives null")]
    pub async fn history(&self, prefix: &str, last: &str) -> Result<Vec<KeyChange>, WireError> {
        let mut create = range_of(prefix);
        create["start_revision"] = "1".into();
        let request = Request::new("POST", "/v3/watch").json(&json!({"create_request": create}));
        let mut stream = self.client(0)?.open(&request).await?;
        let (mut buffer, mut changes) = (Vec::new(), Vec::new());
        while let Some(part) = stream.next_part().await? {
            buffer.extend_from_slice(&part);
            while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = buffer.drain(..=end).collect();
                let answer: Value = serde_json::from_slice(&line)?;
                for event in answer["result"]["events"].as_array().into_iter().flatten() {
                    let change = key_change(event);
                    let is_last = change.key == last;
                    changes.push(change);
                    if is_last {
                        return Ok(changes);
                    }
                }
            }
        }
        Err(WireError::Closed)
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        for index in 0..self.members.len() {
            // The process may have ended; errors are ignored.
            let _ = self.kill(index);
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn url(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

/// A free port of 127.0.0.1.
pub fn free_port() -> io::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn range_of(prefix: &str) -> Value {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    json!({"key": STANDARD.encode(prefix), "range_end": STANDARD.encode(end)})
}

fn key_change(event: &Value) -> KeyChange {
    let pair = &event["kv"];
    KeyChange {
        revision: pair["mod_revision"].as_str().and_then(|text| text.parse().ok()).unwrap_or(0),
        key: text(&pair["key"]),
        value: (event["type"].as_str() != Some("DELETE")).then(|| bytes(&pair["value"])),
    }
}

fn bytes(encoded: &Value) -> Vec<u8> {
    STANDARD.decode(encoded.as_str().unwrap_or_default()).unwrap_or_default()
}

fn text(encoded: &Value) -> String {
    String::from_utf8_lossy(&bytes(encoded)).into_owned()
}
