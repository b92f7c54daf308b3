//! Views at earlier revisions, and the errors after these revisions were dropped.

use super::*;
use pintle_store::ManualClock;
use std::time::Duration;

fn options(clock: &Arc<ManualClock>) -> Options {
    Options { clock: clock.clone(), window_events_max: 100, snapshots_max: 2, ..Options::default() }
}

#[test]
fn every_retained_revision_can_be_seen_again() {
    let mut fixture = Fixture::new(Options { window_events_max: 100, ..Options::default() });
    let mut random = model::Random::new(7);
    let mut seen = vec![(1, Vec::new())];
    for step in 0..200 {
        let key = format!("a/{}", random.below(12));
        let delete = random.below(3) == 0;
        let text = format!("web|n|{step}");
        // Deleting a missing key changes nothing but takes a revision.
        let revision = fixture.set(&key, (!delete).then_some(&text));
        seen.push((revision, contents(&fixture.pods.view())));
    }
    let oldest = fixture.pods.oldest();
    assert!(oldest > 80, "{oldest}");
    for (revision, expected) in seen {
        match fixture.pods.view_at(revision) {
            Ok(view) => {
                assert!(revision >= oldest);
                assert_eq!((view.revision(), contents(&view)), (revision, expected));
            }
            Err(error) => {
                assert!(revision < oldest);
                assert_eq!(error, RevisionError::Expired { requested: revision, oldest });
            }
        }
    }
    let error = fixture.pods.view_at(202).err();
    assert_eq!(error, Some(RevisionError::Future { requested: 202, current: 201 }));
}

#[test]
fn pinned_views_outlive_the_window_for_a_while() {
    let clock = Arc::new(ManualClock::new(1_000_000));
    let mut fixture = Fixture::new(options(&clock));
    let first = fixture.set("a/x", Some("1"));
    fixture.pods.pin(&fixture.pods.view());
    for text in ["2", "3", "4"] {
        fixture.set("a/x", Some(text));
    }
    let expired = |revision| matches!(fixture.pods.view_at(revision), Err(RevisionError::Expired { .. }));
    // Events grow old; the snapshot was used in the meantime and stays.
    clock.advance_ms(200_000);
    fixture.pods.view_at(first).unwrap();
    clock.advance_ms(200_000);
    fixture.cache.age();
    assert_eq!(fixture.pods.oldest(), 5);
    assert_eq!(contents(&fixture.pods.view_at(first).unwrap()), ["a/x=1@2"]);
    assert!(expired(3));
    // An unused snapshot is dropped.
    clock.advance_ms(400_000);
    fixture.cache.age();
    assert!(expired(first));
}

#[test]
fn pins_are_bounded() {
    let clock = Arc::new(ManualClock::new(0));
    let mut fixture = Fixture::new(options(&clock));
    for text in ["1", "2", "3"] {
        fixture.set("a/x", Some(text));
        fixture.pods.pin(&fixture.pods.view());
    }
    fixture.cache.compact(4);
    // Compaction drops earlier revisions, even if a snapshot of them exists.
    for (revision, there) in [(2, false), (3, false), (4, true)] {
        assert_eq!(fixture.pods.view_at(revision).is_ok(), there, "{revision}");
    }
}

#[test]
fn lists_of_compacted_revisions_are_refused_though_nothing_changed() {
    let clock = Arc::new(ManualClock::new(0));
    let mut fixture = Fixture::new(options(&clock));
    fixture.set("a/x", Some("1"));
    let seen = fixture.pods.view().revision();
    fixture.pods.pin(&fixture.pods.view());
    fixture.cache.compact_lists(seen);
    assert!(fixture.pods.view_at(seen).is_ok(), "the revision itself can be listed");
    fixture.cache.compact_lists(seen + 1);
    assert!(fixture.pods.view_at(seen).is_err());
    fixture.cache.compact_lists(seen);
    assert!(fixture.pods.view_at(seen).is_err(), "it never comes back");
}

#[test]
fn ranges_follow_key_order() {
    let mut fixture = Fixture::new(Options::default());
    for key in ["a/x", "a-b/x", "a/y", "b/x", "a/z"] {
        fixture.set(key, Some("1"));
    }
    let view = fixture.pods.view();
    for (namespace, from, expected) in [
        (None, None, vec!["a-b/x", "a/x", "a/y", "a/z", "b/x"]),
        (Some("a"), None, vec!["a/x", "a/y", "a/z"]),
        (Some("a"), Some("a/y"), vec!["a/y", "a/z"]),
        (Some("a"), Some("a/y\0"), vec!["a/z"]),
        (Some("a"), Some("a-b/x"), vec!["a/x", "a/y", "a/z"]),
        (Some("a"), Some("b"), vec![]),
        (None, Some("a/z"), vec!["a/z", "b/x"]),
        (Some("c"), None, vec![]),
    ] {
        let keys: Vec<&str> = view.range(namespace, from).map(|object| object.key().as_str()).collect();
        assert_eq!(keys, expected, "{namespace:?} {from:?}");
    }
}

#[test]
fn the_window_is_bounded_by_bytes() {
    let mut fixture = Fixture::new(Options { window_bytes_max: 10_000, ..Options::default() });
    for _ in 0..50 {
        fixture.set("a/x", Some(&"x".repeat(1000)));
    }
    let (events, _) = fixture.pods.stats();
    assert!((5..=10).contains(&events), "{events}");
}

#[test]
fn the_history_of_all_resources_is_bounded_and_the_oldest_goes_first() {
    let history_bytes_max = 100_000;
    let mut fixture = Fixture::new(Options { history_bytes_max, ..Options::default() });
    let nodes = fixture.cache.register(nodes());
    let text = "x".repeat(1000);
    for round in 0..200 {
        fixture.set("a/x", Some(&text));
        // Another resource that changes now and then.
        if round % 20 == 0 {
            fixture.set_full(&format!("{NODES}n"), Some(&text));
        }
        let taken = fixture.cache.shared.history_bytes.load(std::sync::atomic::Ordering::Relaxed);
        assert!(taken <= history_bytes_max, "{taken}");
    }
    let (pods, of_nodes) = (fixture.pods.stats().0, nodes.stats().0);
    assert!((40..=80).contains(&pods), "{pods}");
    assert!((2..=5).contains(&of_nodes), "{of_nodes}");
    // The remaining events of both begin at about the same time.
    assert!(fixture.pods.oldest().abs_diff(nodes.oldest()) <= 25);
    fixture.cache.unregister(NODES);
    fixture.cache.compact(u64::MAX);
    drop(nodes);
    assert_eq!(fixture.cache.shared.history_bytes.load(std::sync::atomic::Ordering::Relaxed), 0);
}

#[tokio::test]
async fn waiting_for_a_revision() {
    let mut fixture = Fixture::new(Options::default());
    let cache = fixture.cache.clone();
    fixture.set("a/x", Some("1"));
    cache.wait_for(2, Duration::ZERO).await.unwrap();
    let error = cache.wait_for(3, Duration::from_millis(5)).await.unwrap_err();
    assert_eq!(error, WaitTimeout { requested: 3, current: 2 });
    let waiting = tokio::spawn(async move { cache.wait_for(4, Duration::from_secs(60)).await });
    tokio::task::yield_now().await;
    fixture.set("a/x", Some("2"));
    fixture.set("a/x", Some("3"));
    waiting.await.unwrap().unwrap();
}
