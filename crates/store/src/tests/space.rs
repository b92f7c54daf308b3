//! Disks that are too small for the history: it is removed before a write is refused.

use super::small_options;
use crate::sim::{Random, SimDisk};
use crate::*;
use std::sync::Arc;
use std::time::Duration;

const KEYS: u32 = 3;
const VALUE_BYTES: usize = 400;

/// All history is young, and there is no other limit for it than the disk.
fn options() -> Options {
    let history = HistoryRetention { time: Duration::from_secs(1000), bytes: 1 << 30 };
    Options {
        history_bytes_max: 1 << 30,
        free_bytes_min: 8 << 10,
        history: Some(history),
        ..small_options(Arc::new(ManualClock::new(1)))
    }
}

fn put(number: u32) -> Write {
    let value = [&number.to_le_bytes()[..], &[1; VALUE_BYTES]].concat();
    Write::put(format!("/{}", number % KEYS), Expect::Any, value)
}

fn used(disk: &SimDisk) -> u64 {
    disk.list().unwrap().iter().map(|name| disk.open(name).unwrap().len().unwrap()).sum()
}

/// Whether the store has the last value of each key after `count` writes.
fn has_all(state: &Snapshot, count: u32) -> bool {
    let recent = count.saturating_sub(KEYS)..count;
    recent.into_iter().all(|number| {
        let entry = state.get(&format!("/{}", number % KEYS));
        entry.is_some_and(|entry| entry.value[..4] == number.to_le_bytes())
    })
}

#[tokio::test]
async fn history_is_given_up_before_a_write_is_refused() {
    for (inline, writes) in [(true, 2000), (false, 500)] {
        let disk = Arc::new(SimDisk::default());
        let options = || Options { inline, ..options() };
        let store = Embedded::open_on(disk.clone(), options()).unwrap();
        disk.limit_bytes(48 << 10);
        for number in 0..writes {
            store.write(put(number)).await.unwrap_or_else(|error| panic!("write {number}: {error}"));
        }
        // Without threads nothing changes between the two calls.
        assert!(!inline || store.sizes().await == [Some(used(&disk))]);
        store.close().await;
        drop(store);
        let store = Embedded::open_on(disk, options()).unwrap();
        assert!(has_all(&store.snapshot_state(), writes));
        assert!(store.compacted() > Revision::EMPTY, "a part of the history is gone");
    }
}

/// Other processes may fill the disk before the store notices.
#[tokio::test]
async fn a_disk_that_others_fill_takes_the_space_of_the_history() {
    let disk = Arc::new(SimDisk::default());
    let store = Embedded::open_on(disk.clone(), options()).unwrap();
    for number in 0..500 {
        store.write(put(number)).await.unwrap();
    }
    assert_eq!(store.compacted(), Revision::EMPTY, "all of the history is there");
    // There is space for a snapshot, but not for another segment.
    disk.limit_bytes(used(&disk) + 1800);
    for number in 500..1000 {
        store.write(put(number)).await.unwrap_or_else(|error| panic!("write {number}: {error}"));
    }
    assert!(store.compacted() > Revision(500));
    let disk = Arc::new(disk.after_power_loss(&mut Random::new(1)));
    assert!(has_all(&Embedded::open_on(disk, options()).unwrap().snapshot_state(), 1000));
}

#[tokio::test]
async fn a_disk_that_live_data_fills_refuses_writes_until_there_is_space() {
    let disk = Arc::new(SimDisk::default());
    let store = Embedded::open_on(disk.clone(), options()).unwrap();
    disk.limit_bytes(64 << 10);
    let mut written = 0_u32;
    let refused = loop {
        match store.write(Write::put(format!("/{written}"), Expect::Absent, vec![1; VALUE_BYTES])).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(refused, WriteError::Unavailable(StoreFault::DiskFull { .. })), "{refused}");
    assert!(written > 64, "{written} writes of 400 bytes fit");
    disk.limit_bytes(128 << 10);
    while store.health().is_err() {
        tokio::task::yield_now().await;
    }
    store.write(put(0)).await.unwrap();
    store.close().await;
    let disk = Arc::new(disk.after_power_loss(&mut Random::new(1)));
    assert_eq!(Embedded::open_on(disk, options()).unwrap().snapshot_state().len(), written as usize);
}

/// The process is killed at every single operation while history is removed, with and without a power loss.
#[tokio::test]
async fn killed_at_any_operation_while_history_is_given_up() {
    let mut compactions = 0;
    for operations in 0.. {
        let disk = Arc::new(SimDisk::default());
        let store = Embedded::open_on(disk.clone(), options()).unwrap();
        disk.limit_bytes(20 << 10);
        disk.power_off_after(operations);
        let mut acknowledged = 0;
        while acknowledged < 80 && store.write(put(acknowledged)).await.is_ok() {
            acknowledged += 1;
        }
        compactions += u32::from(store.compacted() > Revision::EMPTY);
        let survived = acknowledged == 80;
        drop(store);
        let mut disks = vec![disk.after_kill()];
        disks.extend((0..3).map(|seed| disk.after_power_loss(&mut Random::new(seed))));
        for disk in disks {
            let disk = Arc::new(disk);
            disk.limit_bytes(20 << 10);
            let store = Embedded::open_on(disk, options()).unwrap();
            let (state, found) = (store.snapshot_state(), store.revision().0 - 1);
            let found = u32::try_from(found).unwrap();
            assert!(found >= acknowledged, "killed after {operations}: {found} of {acknowledged}");
            assert!(has_all(&state, found), "killed after {operations}");
            store.write(put(found)).await.unwrap();
        }
        if survived {
            break;
        }
    }
    assert!(compactions > 100, "{compactions}");
}
