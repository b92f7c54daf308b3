//! Disks that fail while the store is running.

use super::small_options;
use crate::sim::SimDisk;
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

#[tokio::test]
async fn a_full_disk_ends_all_writes_and_loses_none() {
    let disk = Arc::new(SimDisk::default());
    let store = open(&disk);
    disk.limit_bytes(10_000);
    let mut written = 0;
    let failed = loop {
        match store.write(put(&format!("/{written}"))).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(failed, WriteError::Unavailable(StoreFault::DiskFull { .. })), "{failed}");
    assert!(store.health().unwrap_err().to_string().starts_with("disk full while writing segment-"));
    assert!(store.write(put("/x")).await.is_err());
    store.close().await;
    disk.limit_bytes(u64::MAX);
    let store = open(&disk);
    assert_eq!(store.snapshot_state().len(), written);
    store.write(put("/x")).await.unwrap();
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
