//! Watchers that fall behind, registration of resources, restarts, and shutdown.

use super::*;
use crate::stores::StoreSink;
use pintle_store::{Embedded, Entry, Expect, Loaded, Snapshot, Store, Write};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake, Waker};
use std::time::Duration;

#[test]
fn a_watcher_behind_the_group_continues_from_the_window() {
    for (filter, key) in [
        (Filter::default(), "a/x"),
        (Filter { namespace: Some("a".into()), ..Filter::default() }, "a/x"),
        (Filter { namespace: Some("a".into()), name: Some("x".into()), ..Filter::default() }, "a/x"),
    ] {
        let mut fixture = Fixture::new(Options::default());
        let mut watcher = fixture.watch(1, filter.clone());
        assert!(drain(&mut watcher).is_empty());
        let expected: Vec<u64> = (0..3000).map(|_| fixture.set(key, Some("1"))).collect();
        let items = std::iter::from_fn(|| watcher.try_next());
        let revisions: Vec<u64> = items
            .map(|item| match item {
                Item::Event(delivery) => delivery.revision(),
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(revisions, expected, "{filter:?}");
    }
}

#[test]
fn a_watcher_behind_the_window_is_closed() {
    let mut fixture = Fixture::new(Options { window_events_max: 100, ..Options::default() });
    let mut watcher = fixture.watch(1, Filter::default());
    let mut other = fixture.watch(1, Filter { namespace: Some("quiet".into()), ..Filter::default() });
    assert!(drain(&mut watcher).is_empty() && drain(&mut other).is_empty());
    for _ in 0..3000 {
        fixture.set("a/x", Some("1"));
    }
    // It still has its current segment, but not the later events.
    let lines = drain(&mut watcher);
    assert_eq!(lines.last().map(String::as_str), Some("Closed(Slow)"));
    assert!(lines.len() < 100, "{}", lines.len());
    for (line, revision) in lines.iter().rev().skip(1).rev().zip(2..) {
        assert!(line.ends_with(&format!("@{revision}")), "{line} {revision}");
    }
    // A watcher whose group has no new events is not behind.
    fixture.set("quiet/x", Some("2"));
    assert_eq!(drain(&mut other), ["ADDED quiet/x=2@3002"]);
    assert_eq!(fixture.pods.stats(), (100, 2));
    drop((watcher, other));
    assert_eq!(fixture.pods.stats(), (100, 0));
    let error = fixture.pods.watch(WatchStart::FromRevision(2), Filter::default()).err();
    assert_eq!(error, Some(RevisionError::Expired { requested: 2, oldest: 2902 }));
}

#[test]
fn a_watch_from_the_future_leaves_out_what_comes_before() {
    let mut fixture = Fixture::new(Options::default());
    let mut watcher = fixture.watch(3, Filter::default());
    for text in ["1", "2", "3"] {
        fixture.set("a/x", Some(text));
    }
    assert_eq!(drain(&mut watcher), ["MODIFIED a/x=3@4"]);
}

#[test]
fn resources_come_and_go() {
    let mut fixture = Fixture::new(Options::default());
    // Written before the resource is registered.
    fixture.set_full("/registry/nodes/n1", Some("web|z"));
    let nodes_resource = fixture.cache.register(nodes());
    assert_eq!(contents(&nodes_resource.view()), ["n1=web|z@2"]);
    assert!(nodes_resource.view_at(1).unwrap().is_empty());
    let by_name = Filter { name: Some("n1".into()), ..Filter::default() };
    let mut watcher = nodes_resource.watch(WatchStart::FromNow, by_name).unwrap();
    let mut all = fixture.cache.watch_where(|_| true);
    fixture.set_full("/registry/nodes/n1", Some("web"));
    fixture.set_full("/registry/nodes/n2", Some("web"));
    fixture.set("a/x", Some("db"));
    assert_eq!(drain(&mut watcher), ["MODIFIED n1=web@3"]);
    assert!(fixture.cache.unregister(NODES));
    assert!(!fixture.cache.unregister(NODES));
    assert_eq!(drain(&mut watcher), ["Closed(Gone)"]);
    assert!(watcher.try_next().is_none() && nodes_resource.is_gone());
    assert_eq!(drain(&mut all), ["MODIFIED n1=web@3", "ADDED n2=web@4", "ADDED a/x=db@5"]);
    // The store's objects are available again after a new registration.
    fixture.set_full("/registry/nodes/n2", None);
    let nodes_resource = fixture.cache.register(nodes());
    assert_eq!(contents(&nodes_resource.view()), ["n1=web@3"]);
    assert_eq!(nodes_resource.view().get("n1").unwrap().created(), 2);
    assert_eq!(fixture.cache.resources().len(), 2);
}

#[test]
fn a_new_resource_has_no_history() {
    let mut fixture = Fixture::new(Options::default());
    fixture.set("a/x", Some("db"));
    let nodes = fixture.cache.register(nodes());
    let refused = nodes.watch(WatchStart::FromRevision(1), Filter::default());
    assert!(matches!(refused, Err(RevisionError::Expired { requested: 1, oldest: 2 })));
    fixture.set_full("/registry/nodes/n1", Some("web"));
    let mut watcher = nodes.watch(WatchStart::FromRevision(2), Filter::default()).unwrap();
    assert_eq!(drain(&mut watcher), ["ADDED n1=web@3"]);
}

#[tokio::test]
async fn state_and_history_survive_a_restart() {
    let folder = std::env::temp_dir().join(format!("pintle-cache-restart-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let put = |key: &str, text: &str| Write::put(key, Expect::Any, value(text));
    {
        let store = Embedded::open(&folder, Default::default()).unwrap();
        for write in [
            put("/registry/pods/a/x", "web"),
            put("/registry/pods/a/y", "db"),
            put("/registry/nodes/n1", "web"),
            put("/registry/pods/a/x", "db"),
            Write::delete("/registry/pods/a/y", Expect::Any),
        ] {
            store.write(write).await.unwrap();
        }
        store.close().await;
    }
    let store = Embedded::open(&folder, Default::default()).unwrap();
    let cache = Cache::new(Options::default());
    let before = cache.register(pods());
    cache.attach(&store);
    let after = cache.register(nodes());
    assert_eq!(cache.revision(), 6);
    assert_eq!(contents(&before.view()), ["a/x=db@5"]);
    assert_eq!(contents(&before.view_at(3).unwrap()), ["a/x=web@2", "a/y=db@3"]);
    let mut watcher = before.watch(WatchStart::FromRevision(2), Filter::default()).unwrap();
    assert_eq!(drain(&mut watcher), ["ADDED a/y=db@3", "MODIFIED a/x=db@5", "DELETED a/y=db@6"]);
    let mut watcher = after.watch(WatchStart::FromRevision(1), Filter::default()).unwrap();
    assert_eq!(drain(&mut watcher), ["ADDED n1=web@4"]);

    // After a commit, the writer's draft has the committed object.
    let draft = before.draft(before.extract(b"web|n1"), None);
    let write = Write::put("/registry/pods/a/z", Expect::Absent, value("web|n1")).with_note(draft.note());
    let revision = store.write(write).await.unwrap();
    let committed = draft.committed().unwrap();
    assert_eq!((committed.revision(), committed.field(0)), (revision.0, "n1"));
    assert!(Arc::ptr_eq(committed, &before.get("a/z").unwrap()));
    store.close().await;
    let _ = std::fs::remove_dir_all(&folder);
}

#[tokio::test]
async fn shutdown_ends_everything() {
    let mut fixture = Fixture::new(Options::default());
    let running = tokio::spawn(fixture.cache.clone().run());
    let cache = fixture.cache.clone();
    let waiting = tokio::spawn(async move { cache.wait_for(100, Duration::from_secs(60)).await });
    let mut tasks = Vec::new();
    for watcher in (0..20).map(|_| fixture.watch(1, Filter::default())) {
        tasks.push(tokio::spawn(follow(watcher)));
    }
    tasks.push(tokio::spawn(follow(fixture.cache.watch_where(|_| true))));
    tokio::time::sleep(Duration::from_millis(5)).await;
    fixture.set("a/x", Some("1"));
    tokio::time::sleep(Duration::from_millis(5)).await;
    fixture.cache.shutdown();
    for task in tasks {
        assert_eq!(task.await.unwrap(), ["ADDED a/x=1@2", "Closed(Shutdown)"]);
    }
    assert!(waiting.await.unwrap().is_err());
    running.await.unwrap();
    assert_eq!(fixture.pods.view().len(), 1);
}

async fn follow(mut watcher: Watcher) -> Vec<String> {
    let mut lines = Vec::new();
    while let Some(item) = watcher.next().await {
        lines.push(show(&item));
    }
    lines
}

#[tokio::test]
async fn bookmarks_tell_of_progress_elsewhere() {
    let mut fixture = Fixture::new(Options::default());
    let quiet = Filter { namespace: Some("quiet".into()), ..Filter::default() };
    let mut watcher = fixture.watch(1, quiet).with_bookmarks(Duration::from_millis(10));
    fixture.set("a/x", Some("1"));
    assert_eq!(show(&watcher.next().await.unwrap()), "Bookmark(2)");
    fixture.set("quiet/x", Some("1"));
    assert_eq!(show(&watcher.next().await.unwrap()), "ADDED quiet/x=1@3");
    fixture.set("a/x", Some("2"));
    assert_eq!(show(&watcher.next().await.unwrap()), "Bookmark(4)");
    assert_eq!(watcher.progress(), Some(4));
}

#[test]
fn changes_that_share_a_revision_are_all_delivered() {
    let fixture = Fixture::new(Options::default());
    let mut live = fixture.watch(1, Filter::default());
    let mut everything = fixture.cache.watch_where(|_| true);
    assert!(drain(&mut live).is_empty());
    let change = |key: &str, revision| Change {
        revision: Revision(revision),
        key: Key::from(format!("{PODS}a/{key}")),
        value: Some(value("1")),
        previous: None,
        note: Note::default(),
    };
    // Revisions jump if another client writes to the same backend.
    fixture.cache.apply(&[change("x", 5), change("y", 5), change("z", 9)]);
    let expected = ["ADDED a/x=1@5", "ADDED a/y=1@5", "ADDED a/z=1@9"];
    assert_eq!(drain(&mut live), expected);
    assert_eq!(drain(&mut everything), expected);
    assert_eq!(drain(&mut fixture.watch(4, Filter::default())), expected, "from the window");
    assert_eq!(drain(&mut fixture.watch(5, Filter::default())), expected[2..]);
    assert_eq!(fixture.pods.view_at(5).unwrap().len(), 2);
    fixture.cache.advance(Revision(12));
    assert_eq!(fixture.cache.revision(), 12);
}

/// Counts wake-ups.
#[derive(Default)]
struct Wakes(AtomicUsize);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn watchers_of_some_resources_sleep_while_others_change() {
    const SELECTED: &[&str] = &["/registry/secrets/", NODES];
    let mut fixture = Fixture::new(Options::default());
    fixture.cache.register(nodes());
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let mut watcher = fixture.cache.watch_resources(SELECTED);
    assert!(watcher.poll_next(&mut Context::from_waker(&waker)).is_pending());
    fixture.set("a/x", Some("1"));
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    fixture.set_full("/registry/nodes/n1", Some("web"));
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert_eq!(drain(&mut watcher), ["ADDED n1=web@3"]);
    // A second watcher outlives the first.
    let mut second = fixture.cache.watch_resources(SELECTED);
    drop(watcher);
    fixture.set_full("/registry/nodes/n2", Some("web"));
    fixture.set("a/x", None);
    assert_eq!(drain(&mut second), ["ADDED n2=web@4"]);
    fixture.cache.shutdown();
    assert_eq!(drain(&mut second), ["Closed(Shutdown)"]);
}

#[tokio::test]
async fn waiting_for_the_end_does_not_wake_up_for_changes() {
    let mut fixture = Fixture::new(Options::default());
    assert!(!fixture.cache.closed_within(Duration::ZERO).await);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(wakes.clone());
    let cache = fixture.cache.clone();
    let mut end = Box::pin(cache.closed_within(Duration::from_secs(3600)));
    assert!(end.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    fixture.set("a/x", Some("1"));
    assert_eq!(wakes.0.load(Ordering::Relaxed), 0);
    fixture.cache.shutdown();
    assert_eq!(wakes.0.load(Ordering::Relaxed), 1);
    assert!(end.await && fixture.cache.closed_within(Duration::ZERO).await);
}

#[test]
fn an_interruption_ends_the_watches_and_loses_nothing() {
    let mut fixture = Fixture::new(Options::default());
    fixture.set("a/one", Some("1"));
    let mut watcher = fixture.watch(2, Filter::default());
    fixture.cache.interrupted(true);
    assert_eq!(drain(&mut watcher), ["Closed(Slow)"]);
    assert!(fixture.pods.is_interrupted());
    fixture.set("a/two", Some("1"));
    fixture.cache.interrupted(false);
    assert_eq!(drain(&mut fixture.watch(2, Filter::default())), ["ADDED a/two=1@3"]);
    assert!(!fixture.pods.is_interrupted());
}

#[test]
fn a_reset_replaces_everything_and_ends_the_watches() {
    let mut fixture = Fixture::new(Options::default());
    fixture.set("a/old", Some("1"));
    let mut watcher = fixture.watch(2, Filter::default());
    let mut everything = fixture.cache.watch_where(|_| true);
    let mut selected = fixture.cache.watch_resources(&[PODS]);
    assert!(drain(&mut watcher).is_empty() && drain(&mut everything).is_empty());
    let entry = Entry { value: value("2"), created: Revision(7), modified: Revision(8) };
    let key = Key::from(format!("{PODS}a/new"));
    let entries = Snapshot::from_entries(Revision(20), [(key, entry)]);
    fixture.cache.reset(Loaded {
        revision: Revision(20),
        compacted: Revision(20),
        entries,
        history: Vec::new(),
    });
    // The changes between the two states are lost: nothing after them may be delivered to these watches.
    fixture.cache.advance(Revision(21));
    for watcher in [&mut watcher, &mut everything, &mut selected] {
        assert_eq!(drain(watcher), ["Closed(Slow)"]);
    }
    let keys: Vec<String> =
        fixture.pods.view().iter().map(|object| object.key().as_str().to_owned()).collect();
    assert_eq!((fixture.cache.revision(), keys), (21, vec!["a/new".to_owned()]));
    let error = fixture.pods.watch(WatchStart::FromRevision(8), Filter::default()).err();
    assert_eq!(error, Some(RevisionError::Expired { requested: 8, oldest: 20 }));
    fixture.cache.compacted(Revision(21));
    assert_eq!(fixture.pods.view_at(20).err(), Some(RevisionError::Expired { requested: 20, oldest: 21 }));
}

#[test]
fn each_store_has_its_own_revisions() {
    let leases = "/registry/leases/";
    let cache = Cache::with_stores(Options::default(), vec![vec![leases.into()]]);
    let pods = cache.register(pods());
    let second = cache.register(Registration { prefix: leases.into(), ..super::pods() });
    let (main_sink, second_sink) = (cache.clone(), StoreSink { cache: cache.clone(), store: 1 });
    let mut everything = cache.watch_where(|_| true);
    let change = |key: String, revision| Change {
        revision: Revision(revision),
        key: Key::from(key),
        value: Some(value("1")),
        previous: None,
        note: Note::default(),
    };
    main_sink.apply(&[change(format!("{PODS}a/x"), 50)]);
    // Changes of a resource in the wrong store are ignored.
    second_sink.apply(&[change(format!("{leases}a/l"), 3), change(format!("{PODS}a/y"), 4)]);
    main_sink.apply(&[change(format!("{leases}a/m"), 51)]);
    assert_eq!((pods.view().revision(), pods.view().len()), (51, 1));
    assert_eq!((second.view().revision(), second.view().len()), (4, 1));
    assert_eq!(cache.progress(), 55);
    assert_eq!(
        drain(&mut everything),
        ["ADDED a/x=1@50", "ADDED a/l=1@3"],
        "lower revisions are not old news"
    );
    let mut of_pods = pods.watch(WatchStart::FromNow, Filter::default()).unwrap();
    second_sink.interrupted(true);
    assert!(second.is_interrupted() && !pods.is_interrupted());
    assert!(drain(&mut of_pods).is_empty(), "the other store goes on");
    assert_eq!(drain(&mut everything), ["Closed(Slow)"]);
}
