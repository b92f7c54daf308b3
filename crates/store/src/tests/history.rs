//! The history of single keys: which versions are retained, for how long, and what readers get.

use super::{Folder, small_options};
use crate::sim::SimDisk;
use crate::*;
use std::sync::Arc;
use std::time::Duration;

const ALL: HistoryQuery = HistoryQuery { before: None, versions_max: 1000, bytes_max: 1 << 20 };

fn options(clock: &Arc<ManualClock>, bytes: u64) -> Options {
    let history = HistoryRetention { time: Duration::from_secs(1000), bytes };
    Options { history: Some(history), ..small_options(clock.clone()) }
}

async fn put(store: &Embedded, key: &str, value: &str) -> Revision {
    store.write(Write::put(key, Expect::Any, value.to_owned())).await.unwrap()
}

async fn values(store: &Embedded, key: &str, query: HistoryQuery) -> Vec<Option<String>> {
    let history = store.history(key, query).await.unwrap().unwrap();
    let text = |version: KeyVersion| version.value.map(|value| String::from_utf8(value.to_vec()).unwrap());
    history.versions.into_iter().map(text).collect()
}

/// Writes so much about other keys that the log is compacted several times.
async fn churn(store: &Embedded, clock: &ManualClock) {
    for round in 0..200 {
        clock.advance_ms(1000);
        put(store, &format!("/other/{}", round % 3), &"x".repeat(400)).await;
    }
}

fn files(folder: &Folder, prefix: &str) -> usize {
    let names = std::fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with(prefix)).count()
}

#[tokio::test]
async fn versions_are_retained_across_compactions_and_restarts() {
    let (folder, clock) = (Folder::new(), Arc::new(ManualClock::new(1)));
    let mut store = Embedded::open(&folder.0, options(&clock, 1 << 20)).unwrap();
    for number in 0..3 {
        put(&store, "/a", &format!("v{number}")).await;
        churn(&store, &clock).await;
    }
    store.write(Write::delete("/a", Expect::Any)).await.unwrap();
    put(&store, "/a", "again").await;
    assert!(store.compacted() > Revision(300), "the log was compacted");
    for _ in 0..2 {
        let history = store.history("/a", ALL).await.unwrap().unwrap();
        let found: Vec<_> = history.versions.iter().map(|v| (v.value.as_deref(), v.is_new)).collect();
        let want: Vec<(Option<&[u8]>, Option<bool>)> = vec![
            (Some(b"v0"), Some(true)),
            (Some(b"v1"), Some(false)),
            (Some(b"v2"), Some(false)),
            (None, Some(false)),
            (Some(b"again"), Some(true)),
        ];
        assert_eq!(found, want);
        assert_eq!((history.since, history.has_older), (Revision::EMPTY, false));
        assert!(history.versions.iter().all(|version| version.time_ms.is_some()));
        store.close().await;
        drop(store);
        store = Embedded::open(&folder.0, options(&clock, 1 << 20)).unwrap();
    }
    assert_eq!(values(&store, "/nope", ALL).await, Vec::<Option<String>>::new());
}

#[tokio::test]
async fn queries_get_the_newest_that_fit() {
    let (folder, clock) = (Folder::new(), Arc::new(ManualClock::new(1)));
    let store = Embedded::open(&folder.0, options(&clock, 1 << 20)).unwrap();
    let mut revisions = Vec::new();
    for number in 0..5 {
        revisions.push(put(&store, "/a", &format!("value-{number}")).await);
    }
    let text = |numbers: &[usize]| -> Vec<Option<String>> {
        numbers.iter().map(|number| Some(format!("value-{number}"))).collect()
    };
    let limited = HistoryQuery { versions_max: 2, ..ALL };
    assert_eq!(values(&store, "/a", limited).await, text(&[3, 4]));
    let before = HistoryQuery { before: Some(revisions[3]), versions_max: 2, ..ALL };
    assert_eq!(values(&store, "/a", before).await, text(&[1, 2]));
    let small = HistoryQuery { bytes_max: 15, ..ALL };
    assert_eq!(values(&store, "/a", small).await, text(&[3, 4]));
    let tiny = HistoryQuery { bytes_max: 1, versions_max: 0, ..ALL };
    assert_eq!(values(&store, "/a", tiny).await, text(&[4]), "one version is returned whatever its size");
    assert!(store.history("/a", tiny).await.unwrap().unwrap().has_older);
}

#[tokio::test]
async fn old_segments_go_by_size_and_by_age() {
    let (folder, clock) = (Folder::new(), Arc::new(ManualClock::new(1)));
    let store = Embedded::open(&folder.0, options(&clock, 24 << 10)).unwrap();
    put(&store, "/a", "first").await;
    for _ in 0..5 {
        churn(&store, &clock).await;
    }
    let retained = files(&folder, "history-");
    assert!((1..=4).contains(&retained), "{retained} segments of 8 KiB are retained");
    let history = store.history("/a", ALL).await.unwrap().unwrap();
    assert!(history.versions.is_empty() && history.since > Revision::EMPTY, "{history:?}");
    put(&store, "/a", "second").await;
    let history = store.history("/a", ALL).await.unwrap().unwrap();
    assert_eq!(history.versions.len(), 1);
    assert_eq!(history.versions[0].is_new, None, "whether it was there before is not retained");
    store.close().await;
    drop(store);

    clock.advance_ms(10_000_000);
    let store = Embedded::open(&folder.0, options(&clock, 24 << 10)).unwrap();
    let before = files(&folder, "history-");
    assert!(before <= 1, "what is older than the retention goes");
    store.close().await;
    drop(store);
    drop(Embedded::open(&folder.0, small_options(clock.clone())).unwrap());
    assert!(files(&folder, "history-") >= before, "who says nothing of it changes nothing");
    let none = Options { history: Some(HistoryRetention::default()), ..options(&clock, 0) };
    drop(Embedded::open(&folder.0, none).unwrap());
    assert_eq!(files(&folder, "history-"), 0, "without retention nothing stays");
}

#[tokio::test]
async fn a_damaged_retained_segment_ends_the_past_and_nothing_else() {
    let (folder, clock) = (Folder::new(), Arc::new(ManualClock::new(1)));
    let store = Embedded::open(&folder.0, options(&clock, 1 << 20)).unwrap();
    put(&store, "/a", "first").await;
    churn(&store, &clock).await;
    put(&store, "/a", "second").await;
    store.close().await;
    drop(store);
    let first = folder.0.join("history-00000000000000000001");
    let mut bytes = std::fs::read(&first).unwrap();
    bytes[600] ^= 1;
    std::fs::write(&first, bytes).unwrap();
    let store = Embedded::open(&folder.0, options(&clock, 1 << 20)).unwrap();
    assert_eq!(values(&store, "/a", ALL).await, vec![Some("second".to_owned())]);
}

#[tokio::test]
async fn a_store_in_memory_has_no_past() {
    let store = Embedded::ephemeral(Options::default()).unwrap();
    put(&store, "/a", "v").await;
    assert_eq!(store.history("/a", ALL).await.unwrap(), None);
}

#[tokio::test]
async fn a_full_disk_takes_the_room_of_the_past() {
    let (disk, clock) = (Arc::new(SimDisk::default()), Arc::new(ManualClock::new(1)));
    let store = Embedded::open_on(disk.clone(), options(&clock, 1 << 30)).unwrap();
    let retained = || disk.list().unwrap().iter().filter(|name| name.starts_with("history-")).count();
    churn(&store, &clock).await;
    assert!(retained() > 2, "{}", retained());
    let oldest = "history-00000000000000000001".to_owned();
    assert!(disk.list().unwrap().contains(&oldest));
    let used: u64 = disk.list().unwrap().iter().map(|name| disk.open(name).unwrap().len().unwrap()).sum();
    disk.limit_bytes(used);
    for number in 0..60 {
        store.write(Write::put("/a", Expect::Any, vec![number; 400])).await.unwrap();
    }
    assert!(!disk.list().unwrap().contains(&oldest));
}
