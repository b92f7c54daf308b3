//! The periodic tasks of a running server: maintains system objects and its own leases, runs controllers, and
//! compacts old revisions.

use crate::config::Config;
use crate::system_objects;
use pintle_controllers::identity::{self, Heartbeat, Identity};
use pintle_controllers::leader::{Candidate, Terms};
use pintle_controllers::membership::{Membership, Settings};
use pintle_controllers::storage_versions;
use pintle_engine::Engine;
use pintle_engine::environment::new_uid;
use pintle_metrics::families;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How often the service `kubernetes` and the system namespaces are checked. kube-apiserver does so every 10 s and
/// every minute; the check is cheap here, and clients in the cluster should not wait.
const SYSTEM_OBJECTS_EVERY: Duration = Duration::from_secs(1);

/// How often an idle store drops history that is past retention.
const STORE_AGING_EVERY: Duration = Duration::from_secs(20);

/// The registrations of this server, which are removed when it ends.
pub(crate) struct Upkeep {
    membership: Arc<Membership>,
    heartbeat: Arc<Heartbeat>,
    /// The elections that this server takes part in. Controllers that no other server could run need none.
    candidates: Vec<Candidate>,
}

impl Upkeep {
    /// Starts the tasks. They end when the cache shuts down.
    pub(crate) async fn start(
        engine: &Arc<Engine>,
        config: &Arc<Config>,
        listening: SocketAddr,
        root_ca: &str,
    ) -> Upkeep {
        let peer = config.peer_address(listening.port()).filter(|_| config.gate(PEER_PROXY));
        let identity = own_identity(engine, peer);
        let mut candidates = run_controllers(engine, config, &identity, root_ca);
        candidates.extend(hold_elections(engine, config, &identity));
        let shared = engine.storage().store().is_shared();
        tokio::spawn(maintain_system_objects(engine.clone(), config.clone()));
        tokio::spawn(drop_expired_history(engine.clone()));
        pintle_controllers::start_repairs(engine, identity.hostname.clone());
        let settings = Settings {
            advertised: config.advertise.filter(|_| config.publishes_endpoint),
            port: listening.port(),
            peer: peer.filter(|_| shared),
            identity: identity.name.clone(),
        };
        let membership = Membership::new(engine.clone(), settings);
        membership.join().await;
        tokio::spawn(membership.clone().run());
        let name = identity.name.clone();
        let heartbeat = Heartbeat::new(engine.clone(), identity);
        if config.gate("APIServerIdentity") {
            tokio::spawn(heartbeat.clone().run());
            tokio::spawn(identity::collect_expired(engine.clone()));
            if config.gate(STORAGE_VERSIONS) {
                // No request is answered before, so no write can precede the report.
                storage_versions::report(engine, &name).await;
                tokio::spawn(storage_versions::run(engine.clone(), name));
            }
        }
        if !config.measure_every.is_zero() {
            tokio::spawn(measure_store(engine.clone(), config.measure_every));
        }
        // On etcd the store compacts, once for all servers.
        if config.compacts && config.etcd.is_none() {
            tokio::spawn(compact(engine.clone(), config.retention));
        }
        Upkeep { membership, heartbeat, candidates }
    }

    /// Removes this server's registrations, so that other servers and the cluster know that it ends.
    pub(crate) async fn end(self) {
        let resign = async {
            for candidate in self.candidates {
                candidate.resign().await;
            }
        };
        tokio::join!(self.membership.leave(), self.heartbeat.stop(), resign);
    }
}

/// The feature gate for forwarding requests from one server to another.
pub(crate) const PEER_PROXY: &str = "UnknownVersionInteroperabilityProxy";

/// Runs the controllers here or, if several servers share the store, on one of them.
fn run_controllers(
    engine: &Arc<Engine>,
    config: &Arc<Config>,
    identity: &Identity,
    root_ca: &str,
) -> Vec<Candidate> {
    let (run_on, config, root_ca) = (engine.clone(), config.clone(), root_ca.to_string());
    let start =
        move || pintle_controllers::start_elected(&run_on, &root_ca, |name| config.runs_controller(name));
    if engine.storage().store().is_shared() {
        return vec![Candidate::start(engine.clone(), Terms::CONTROLLERS, identity.holder.clone(), start)];
    }
    // The controllers end when the cache shuts down.
    start();
    Vec::new()
}

/// The feature gate for reports of the versions in which resources are stored.
pub(crate) const STORAGE_VERSIONS: &str = "StorageVersionAPI";

/// The feature gate for elections among LeaseCandidates.
pub(crate) const ELECTIONS: &str = "CoordinatedLeaderElection";

/// Holds elections among LeaseCandidates, here or on another server that shares the store.
fn hold_elections(engine: &Arc<Engine>, config: &Config, identity: &Identity) -> Option<Candidate> {
    if !config.gate(ELECTIONS) {
        return None;
    }
    let holder = format!("{}_{}", identity.hostname, new_uid(engine.storage().random_source()));
    let run_on = engine.clone();
    let start = move || pintle_controllers::start_elections(&run_on);
    Some(Candidate::start(engine.clone(), config.leadership, holder, start))
}

/// Recreates the system namespaces and the service `kubernetes` if they were deleted.
async fn maintain_system_objects(engine: Arc<Engine>, config: Arc<Config>) {
    while !wait(&engine, SYSTEM_OBJECTS_EVERY).await {
        if let Err(status) = system_objects::ensure(&engine, &config).await {
            tracing::warn!(error = %status.message, "system objects could not be created");
        }
    }
}

/// Gets the size of each etcd for the metrics.
async fn measure_store(engine: Arc<Engine>, every: Duration) {
    loop {
        for (index, size) in engine.storage().store().sizes().await.into_iter().enumerate() {
            let Some(bytes) = size else { continue };
            #[expect(clippy::cast_precision_loss, reason = "a size to be shown")]
            families::STORE_BYTES.set(&[&format!("etcd-{index}")], bytes as f64);
        }
        if wait(&engine, every).await {
            return;
        }
    }
}

/// Drops history that is past retention while there are no writes.
async fn drop_expired_history(engine: Arc<Engine>) {
    while !wait(&engine, STORE_AGING_EVERY).await {
        engine.storage().store().age();
    }
}

/// Compacts revisions that are older than one to two intervals, as kube-apiserver does with etcd: each time up to the
/// revision that was current the time before. An idle server compacts too.
async fn compact(engine: Arc<Engine>, every: Duration) {
    let mut noted = 0;
    while !wait(&engine, every).await {
        engine.storage().cache().compact_lists(noted);
        noted = engine.storage().cache().revision();
    }
}

/// Waits; returns whether the cache was shut down in the meantime.
async fn wait(engine: &Engine, time: Duration) -> bool {
    engine.storage().cache().closed_within(time).await
}

/// The identity of this server.
pub(crate) fn own_identity(engine: &Engine, peer: Option<SocketAddr>) -> Identity {
    let (hostname, name) = (hostname(), own_name());
    let holder = format!("{name}_{}", new_uid(engine.storage().random_source()));
    Identity { name, hostname, holder, peer: peer.map(|address| address.to_string()) }
}

/// The name of this server among several: as in kube-apiserver, the hash of its host's name and of its component's, each after its
/// length.
pub(crate) fn own_name() -> String {
    name_on(&hostname())
}

fn name_on(hostname: &str) -> String {
    let mut text = Vec::new();
    for part in [hostname, "kube-apiserver"] {
        text.extend_from_slice(&u16::try_from(part.len()).unwrap_or(u16::MAX).to_be_bytes());
        text.extend_from_slice(part.as_bytes());
    }
    format!("apiserver-{}", hash_text(&text))
}

fn hostname() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::fs::read_to_string("/etc/hostname"));
    match read.as_deref().map(str::trim) {
        Ok(name) if !name.is_empty() => name.to_string(),
        _ => "localhost".to_string(),
    }
}

/// The first half of the SHA-256 digest in base 32.
#[cfg_attr(
    not(test),
    expect(clippy::arithmetic_side_effects, reason = "there are at most 12 bits at a time")
)]
fn hash_text(text: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let letter = |bits: u32| LETTERS.get((bits & 31) as usize).map_or('a', |letter| char::from(*letter));
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text);
    let mut out = String::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in digest.as_ref().iter().take(16) {
        bits = (bits << 8) | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            out.push(letter(bits >> count));
        }
        bits &= (1 << count) - 1;
    }
    if count > 0 {
        out.push(letter(bits << (5 - count)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_the_hash_of_the_host_name() {
        // SHA-256 of the empty text begins with e3b0c44298fc1c149afbf4c8996fb924.
        assert_eq!(hash_text(b""), "4oymiquy7qobjgx36tejs35zeq");
        // The name of a kube-apiserver on a host with this name.
        assert_eq!(name_on("vm"), "apiserver-wlv32tlttr4jl3gtroqexyxapa");
    }
}
