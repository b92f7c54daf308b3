//! Disks that fail while the store is running.

use super::small_options;
use crate::sim::{Random, SimDisk};
use crate::*;
use std::sync::Arc;

fn open(disk: &Arc<SimDisk>) -> Embedded {
    Embedded::open_on(disk.clone(), small_options(Arc::new(ManualClock::new(1)))).unwrap()
}

fn put(key: &str) -> Write {
    Write::put(key, Expect::Any, vec![1; 200])
}

#[tokio::test]
async fn a_failed_sync_ends_all_writes() {
    let disk = Arc::new(SimDisk::default());
    let store = open(&disk);
    let recorder = Arc::new(conformance::Recorder::default());
    store.load(recorder.clone());
    store.write(put("/a")).await.unwrap();
    disk.fail_sync_after(0, 1);
    let failed = store.write(put("/b")).await.unwrap_err();
    assert!(matches!(failed, WriteError::Unavailable(StoreFault::SyncFailed { .. })), "{failed}");
    let message = "cannot sync segment-00000000000000000001: the disk did not take it";
    assert_eq!(store.health().unwrap_err().to_string(), message);
    let syncs = disk.syncs();
    assert!(store.write(put("/c")).await.is_err());
    assert_eq!(disk.syncs(), syncs, "a failed sync must not be tried again");
    assert_eq!((store.revision(), recorder.changes().len()), (Revision(2), 1), "nobody saw the failed write");
    store.close().await;
    assert!(matches!(store.health(), Err(StoreFault::SyncFailed { .. })), "the first fault stays");
}

/// Writes until the first failure; returns how many writes were taken.
async fn fill(store: &Embedded) -> (usize, WriteError) {
    let mut written = 0;
    loop {
        match store.write(put(&format!("/{written}"))).await {
            Ok(_) => written += 1,
            Err(error) => return (written, error),
        }
    }
}

/// Writes until the store takes it again.
async fn wait_until_healed(store: &Embedded) {
    while store.health().is_err() {
        tokio::task::yield_now().await;
    }
    store.write(put("/healed")).await.unwrap();
}

#[tokio::test]
async fn a_full_disk_stops_writes_until_there_is_space() {
    let disk = Arc::new(SimDisk::default());
    let store = open(&disk);
    disk.limit_bytes(10_000);
    let (written, failed) = fill(&store).await;
    assert!(matches!(failed, WriteError::Unavailable(StoreFault::DiskFull { .. })), "{failed}");
    assert!(store.health().unwrap_err().to_string().starts_with("disk full while writing segment-"));
    assert!(store.write(put("/x")).await.is_err());
    disk.limit_bytes(u64::MAX);
    wait_until_healed(&store).await;
    store.close().await;
    let store = open(&disk);
    assert_eq!(store.snapshot_state().len(), written + 1);
    assert_eq!(store.revision(), Revision(written as u64 + 2), "a refused write takes no revision");
}

#[tokio::test]
async fn a_full_disk_met_while_running_loses_nothing_in_a_crash() {
    let disk = Arc::new(SimDisk::default());
    let store = open(&disk);
    disk.limit_bytes(10_000);
    let (written, _) = fill(&store).await;
    let disk = Arc::new(disk.after_power_loss(&mut Random::new(1)));
    disk.limit_bytes(u64::MAX);
    assert_eq!(open(&disk).snapshot_state().len(), written);
}

#[tokio::test]
async fn the_log_goes_on_without_descriptors_as_far_as_its_reserve_goes() {
    let disk = Arc::new(SimDisk::default());
    let store = open(&disk);
    disk.refuse_descriptors(true);
    let (written, failed) = fill(&store).await;
    // The first segment has room for 8 of these and the second, whose file was open in advance, for 15.
    assert!(written > 16, "{written}");
    assert!(matches!(failed, WriteError::Unavailable(StoreFault::NoDescriptors { .. })), "{failed}");
    assert!(store.health().is_err());
    disk.refuse_descriptors(false);
    wait_until_healed(&store).await;
    store.close().await;
    assert_eq!(open(&disk).snapshot_state().len(), written + 1);
}

#[tokio::test]
async fn a_write_that_failed_is_cleared_before_the_next() {
    for failures in [1, 3] {
        let disk = Arc::new(SimDisk::default());
        let store = open(&disk);
        store.write(put("/a")).await.unwrap();
        disk.fail_writes(failures);
        let failed = store.write(put("/b")).await.unwrap_err();
        assert!(matches!(failed, WriteError::Unavailable(StoreFault::WriteFailed { .. })), "{failed}");
        wait_until_healed(&store).await;
        for seed in 0..4 {
            let disk = Arc::new(disk.after_power_loss(&mut Random::new(seed)));
            let state = open(&disk).snapshot_state();
            let keys: Vec<&str> = state.iter().map(|(key, _)| &**key).collect();
            assert_eq!(keys, ["/a", "/healed"]);
        }
    }
}

#[tokio::test]
async fn a_sync_without_space_is_made_good_by_writing_again() {
    // The failed syncs are that of the frame, that of its repair, and those of two snapshots that were to make space.
    for (failures, is_taken) in [(1, true), (2, true), (3, true), (4, false), (6, false)] {
        let disk = Arc::new(SimDisk::default());
        let store = open(&disk);
        store.write(put("/a")).await.unwrap();
        disk.fail_syncs_for_space(failures);
        let outcome = store.write(put("/b")).await;
        assert_eq!(outcome.is_ok(), is_taken, "{outcome:?}");
        let is_full = matches!(outcome, Err(WriteError::Unavailable(StoreFault::DiskFull { .. })));
        assert!(is_taken || is_full, "{outcome:?}");
        wait_until_healed(&store).await;
        for seed in 0..4 {
            let disk = Arc::new(disk.after_power_loss(&mut Random::new(seed)));
            let state = open(&disk).snapshot_state();
            assert_eq!(state.get("/b").is_some(), is_taken);
            assert_eq!(state.len(), if is_taken { 3 } else { 2 });
        }
    }
}

#[tokio::test]
async fn a_store_with_a_passing_fault_can_be_closed() {
    let disk = Arc::new(SimDisk::default());
    let store = open(&disk);
    disk.limit_bytes(0);
    fill(&store).await;
    store.close().await;
    assert_eq!(store.health(), Err(StoreFault::Closed));
}

#[tokio::test]
async fn failing_compaction_costs_nothing_but_room() {
    let disk = Arc::new(SimDisk::default());
    let store = open(&disk);
    store.write(put("/a")).await.unwrap();
    disk.fail_sync_after(0, 1);
    assert_eq!(store.compact(u64::MAX).await, Err("the disk did not take it".to_owned()));
    assert_eq!(store.health(), Ok(()));
    store.write(put("/b")).await.unwrap();
    assert_eq!(store.compact(u64::MAX).await, Ok(Revision(3)));
    store.close().await;
    assert_eq!(open(&disk).snapshot_state().len(), 2);
}

#[test]
fn a_full_disk_at_first_start_is_said_plainly() {
    let disk = Arc::new(SimDisk::default());
    disk.limit_bytes(100);
    let refused = Embedded::open_on(disk, Options::default()).err().unwrap();
    let expected = "cannot create segment 1: disk full while writing segment-00000000000000000001.tmp";
    assert_eq!(refused.to_string(), expected);
}
