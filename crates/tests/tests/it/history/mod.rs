//! Three servers on one etcd, killed, paused and restarted at random while clients write, compare-and-set, read, list and
//! watch. The observations of the clients are checked against the history of the keys in etcd.
//!
//! `PINTLE_HISTORY_FAULTS` sets the number of faults, `PINTLE_HISTORY_SEED` repeats their order, and
//! `PINTLE_HISTORY_VERBOSE=1` prints each fault.

mod check;
mod clients;
mod nemesis;
mod record;

use crate::random::{Random, setting};
use check::Truth;
use clients::{Fleet, KEYS};
use nemesis::Nemesis;
use pintle_testkit::etcd::free_port;
use pintle_testkit::{Etcd, Options, Server};
use record::Recorder;
use serde_json::json;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::Duration;

const SERVERS: usize = 3;
const NAMESPACE: &str = "history";
const FAULTS: u64 = 8;
/// The key whose creation ends the history.
const LAST: &str = "zz-last";
/// How long the healed cluster may take until all watchers have all events.
const HEALED_MAX: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_on_one_member() {
    run(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_on_three_members() {
    run(3).await;
}

async fn run(members: usize) {
    let faults = setting("PINTLE_HISTORY_FAULTS").unwrap_or(FAULTS);
    let seed = setting("PINTLE_HISTORY_SEED").unwrap_or_else(|| RandomState::new().hash_one(0) >> 16);
    eprintln!("PINTLE_HISTORY_SEED={seed} PINTLE_HISTORY_FAULTS={faults} members={members}");
    let Some(etcd) = Etcd::start(members, &[]) else { return };
    let mut servers = Vec::new();
    for index in 0..SERVERS {
        servers.push(start_server(&etcd, index).await);
    }
    let all: Vec<_> = servers.iter().map(|server| server.admin().unwrap()).collect();
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}});
    assert_eq!(all[0].post("/api/v1/namespaces", &namespace).await.unwrap().0, 201);

    let recorder = Arc::new(Recorder::default());
    let mut fleet = Fleet::start(&all, &recorder, seed);
    let mut nemesis = Nemesis { etcd, servers, random: Random::new(seed) };
    nemesis.run(faults).await;
    nemesis.heal().await;

    // All servers must serve again, and every watch must reach the end.
    fleet.stop_workers().await;
    let last = clients::create_last(&all[0], LAST, HEALED_MAX).await;
    fleet.finish(last, HEALED_MAX).await;

    let prefix = format!("/registry/configmaps/{NAMESPACE}/");
    let changes = nemesis.etcd.history(&prefix, &format!("{prefix}{LAST}")).await.unwrap();
    let truth = Truth::new(&prefix, &changes);
    let history = recorder.take();
    eprintln!("{}, {} changes of {KEYS} keys, {faults} faults", history.summary(), changes.len());
    let violations = check::violations(&truth, &history);
    let lines = violations.iter().take(20).map(|line| format!("  {line}\n")).collect::<String>();
    // Observations can only be checked if the members agree: etcd 3.5.0 to 3.5.2 lose consistency when members are
    // killed.
    let end = changes.last().map_or(0, |change| change.revision);
    let hashes = nemesis.etcd.hashes(end).await.unwrap();
    assert!(
        hashes.windows(2).all(|pair| pair[0] == pair[1]),
        "PINTLE_HISTORY_SEED={seed}: etcd's members disagree with each other at revision {end}, so this run says nothing about \
         the servers: their hashes are {hashes:?}; {} differences from member 0\n{lines}",
        violations.len(),
    );
    assert!(
        violations.is_empty(),
        "PINTLE_HISTORY_SEED={seed}: {} violations, and etcd's members agree at revision {end}\n{lines}",
        violations.len(),
    );
    history.assert_not_idle();
}

async fn start_server(etcd: &Etcd, index: usize) -> Server {
    let flags = vec![
        format!("--etcd-servers={}", etcd.endpoints()),
        // The whole history is read at the end.
        "--etcd-compaction-interval=0".to_owned(),
        format!("--secure-port={}", free_port().unwrap()),
        format!("--advertise-address=192.0.2.{}", index + 1),
    ];
    Server::start_with(Options { flags, ..Options::default() }).await.unwrap()
}
