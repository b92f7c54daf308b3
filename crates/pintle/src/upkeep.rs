//! What a running server does by itself, beside answering: it keeps the service `kubernetes` and its own identity, and
//! forgets old revisions.

use crate::config::Config;
use crate::{endpoint, objects};
use pintle_controllers::identity::{self, Identity};
use pintle_engine::Engine;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// How often the service `kubernetes` and what is behind it are looked at. kube-apiserver does so every 10 s; looking costs
/// nothing here, and clients in the cluster should not wait.
const SERVICE_EVERY: Duration = Duration::from_secs(1);

/// Starts the tasks. They end when the cache shuts down.
pub(crate) fn start(engine: &Arc<Engine>, config: &Arc<Config>, listening: SocketAddr) {
    tokio::spawn(keep_service(engine.clone(), config.clone(), listening));
    tokio::spawn(identity::run(engine.clone(), own_identity(engine)));
    // On etcd the store compacts, once for all servers.
    if config.compacts && config.etcd.is_none() {
        tokio::spawn(compact(engine.clone(), config.retention));
    }
}

/// Makes the service again when it was deleted, and corrects its endpoints.
async fn keep_service(engine: Arc<Engine>, config: Arc<Config>, listening: SocketAddr) {
    while !wait(&engine, SERVICE_EVERY).await {
        if let Err(status) = objects::ensure_service(&engine, &config).await {
            tracing::warn!(error = %status.message, "the service kubernetes could not be made");
        }
        // Several servers on one etcd would replace each other's address for ever.
        if config.etcd.is_some() {
            continue;
        }
        if let Err(error) = endpoint::publish(&engine, &config, listening).await {
            tracing::warn!(%error, "the endpoints of the service kubernetes could not be published");
        }
    }
}

/// Refuses lists of revisions that are older than one to two intervals, as where kube-apiserver compacts etcd: each time
/// up to the revision that was noted the time before. A server on which nothing changes forgets, too.
async fn compact(engine: Arc<Engine>, every: Duration) {
    let mut noted = 0;
    while !wait(&engine, every).await {
        engine.cache.compact_lists(noted);
        noted = engine.cache.revision();
    }
}

/// Waits, and says whether the cache was shut down meanwhile.
async fn wait(engine: &Engine, time: Duration) -> bool {
    // No revision ever gets there, so this ends with the time or the cache.
    let _ = engine.cache.wait_for(u64::MAX, time).await;
    engine.cache.is_closed()
}

/// kube-apiserver names a server by a hash of its host's name.
fn own_identity(engine: &Engine) -> Identity {
    let hostname = hostname();
    let name = format!("apiserver-{}", hash(&hostname));
    let holder = format!("{name}_{}", pintle_engine::environment::new_uid(&*engine.random));
    Identity { name, hostname, holder }
}

fn hostname() -> String {
    let read = std::fs::read_to_string("/proc/sys/kernel/hostname")
        .or_else(|_| std::fs::read_to_string("/etc/hostname"));
    match read.as_deref().map(str::trim) {
        Ok(name) if !name.is_empty() => name.to_lowercase(),
        _ => "localhost".to_string(),
    }
}

/// The first half of SHA-256 in base 32.
fn hash(text: &str) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, text.as_bytes());
    let mut out = String::new();
    let (mut bits, mut count) = (0_u32, 0);
    for byte in digest.as_ref().iter().take(16) {
        bits = (bits << 8) | u32::from(*byte);
        count += 8;
        while count >= 5 {
            count -= 5;
            out.push(char::from(LETTERS[(bits >> count & 31) as usize]));
        }
        bits &= (1 << count) - 1;
    }
    if count > 0 {
        out.push(char::from(LETTERS[(bits << (5 - count) & 31) as usize]));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_are_the_hash_of_the_host_name() {
        // SHA-256 of the empty text begins with e3b0c44298fc1c149afbf4c8996fb924.
        assert_eq!(hash(""), "4oymiquy7qobjgx36tejs35zeq");
        assert_eq!(hash("a").len(), 26);
    }
}
