//! The leader of three members is killed: tests the outcome of a read and a write that begin at once.

use pintle_store::{Expect, Revision, Store, Write, WriteError};
use pintle_store_etcd::{Endpoint, Etcd, Options};
use std::time::{Duration, Instant};

/// How long etcd may take on a busy machine.
const LONG: Duration = Duration::from_secs(60);

/// Kills the leader of three members, and returns the outcome and the duration of a write that began just after. The
/// store is connected to the leader, or to another member.
async fn write_without_leader(to_leader: bool) -> Option<(Result<Revision, WriteError>, Duration)> {
    let mut cluster = pintle_testkit::Etcd::start(3, &[])?;
    let leader = cluster.leader().await.unwrap();
    let endpoints = cluster.endpoints();
    let mut endpoints: Vec<_> = endpoints.split(',').map(|url| Endpoint::parse(url).unwrap()).collect();
    // A store connects to the first endpoint.
    endpoints.rotate_left(if to_leader { leader } else { (leader + 1) % 3 });
    let mut options = Options::new(endpoints);
    options.own_prefix = "";
    let store = Etcd::connect(options).await.unwrap();
    store.write(Write::put("/a", Expect::Absent, "1")).await.unwrap();

    cluster.kill(leader).unwrap();
    let begun = Instant::now();
    // The read learns from the other members that the leader changed, which must not disturb the write.
    let (written, read) = tokio::join!(
        store.write(Write::put("/a", Expect::Any, "2")),
        tokio::time::timeout(LONG, store.barrier())
    );
    let elapsed = begun.elapsed();
    read.unwrap().unwrap();

    let again = store.write(Write::put("/a", Expect::Any, "3")).await.unwrap();
    assert_eq!(store.snapshot_state().get("/a").map(|entry| entry.modified), Some(again));
    Some((written, elapsed))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_follower_reports_a_write_that_it_forwarded_to_a_dead_leader() {
    let Some((written, elapsed)) = write_without_leader(false).await else { return };
    // etcd gives up after seven seconds, or the new leader took the write.
    if let Err(error) = written {
        let WriteError::Unknown { reason } = error else { panic!("{error:?}") };
        assert!(reason.starts_with("etcdserver: request timed out"), "{reason}");
    }
    assert!(elapsed < Duration::from_secs(11), "{elapsed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_write_that_lost_its_connection_to_the_leader_is_reported() {
    let Some((written, elapsed)) = write_without_leader(true).await else { return };
    if let Err(error) = written {
        let WriteError::Unknown { reason } = error else { panic!("{error:?}") };
        let lost = "rpc error: code = Unavailable desc = error reading from server: ";
        let known = [lost, "etcdserver: request timed out"];
        assert!(known.iter().any(|known| reason.starts_with(known)), "{reason}");
    }
    assert!(elapsed < Duration::from_secs(11), "{elapsed:?}");
}
