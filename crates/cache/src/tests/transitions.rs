//! The events of a change for watchers with a selection.

use super::*;
use crate::options::WAKE_DIRECT_MAX;

/// Applies the texts to one pod one after another and compares what each filter delivers, once
/// replayed from the window and once followed live.
fn check(filter: &Filter, texts: &[Option<&str>], expected: &[&str]) {
    let mut fixture = Fixture::new(Options::default());
    let mut live = fixture.pods.watch(WatchStart::FromNow, filter.clone()).unwrap();
    assert_eq!(drain(&mut live), [""; 0]);
    for text in texts {
        fixture.set("a/x", *text);
    }
    assert_eq!(drain(&mut live), expected, "live {filter:?} {texts:?}");
    assert_eq!(drain(&mut fixture.watch(1, filter.clone())), expected, "replay {filter:?} {texts:?}");
}

#[test]
fn of_labels_and_fields() {
    let web = Filter { matches: Some(app("web")), ..Filter::default() };
    let on_n1 = Filter { field: Some((0, "n1".into())), ..Filter::default() };
    let both = Filter { matches: web.matches.clone(), ..on_n1.clone() };
    let (w1, w2, d1) = (Some("web|n1|"), Some("web|n2|"), Some("db|n1|"));
    check(
        &Filter::default(),
        &[w1, w2, None, d1],
        &["ADDED a/x=web|n1|@2", "MODIFIED a/x=web|n2|@3", "DELETED a/x=web|n2|@4", "ADDED a/x=db|n1|@5"],
    );
    check(&web, &[w1, w2], &["ADDED a/x=web|n1|@2", "MODIFIED a/x=web|n2|@3"]);
    check(&web, &[d1, w1], &["ADDED a/x=web|n1|@3"]);
    check(&web, &[w1, d1, None], &["ADDED a/x=web|n1|@2", "DELETED a/x=web|n1|@3"]);
    check(&web, &[d1, None], &[]);
    check(&web, &[d1, w2, None], &["ADDED a/x=web|n2|@3", "DELETED a/x=web|n2|@4"]);
    check(&on_n1, &[w1, w2, d1], &["ADDED a/x=web|n1|@2", "DELETED a/x=web|n1|@3", "ADDED a/x=db|n1|@4"]);
    check(&on_n1, &[w2, None], &[]);
    check(
        &both,
        &[w1, d1, w1, w2],
        &["ADDED a/x=web|n1|@2", "DELETED a/x=web|n1|@3", "ADDED a/x=web|n1|@4", "DELETED a/x=web|n1|@5"],
    );
    let unset = Filter { field: Some((0, "".into())), ..Filter::default() };
    check(&unset, &[Some("web"), w1], &["ADDED a/x=web@2", "DELETED a/x=web@3"]);
}

#[test]
fn of_namespaces_and_names() {
    let select = |namespace: Option<&str>, name: Option<&str>| Filter {
        namespace: namespace.map(Str::from),
        name: name.map(Str::from),
        ..Filter::default()
    };
    for (filter, expected) in [
        (select(None, None), vec!["a/x", "a/y", "b/x"]),
        (select(Some("a"), None), vec!["a/x", "a/y"]),
        (select(Some("a"), Some("y")), vec!["a/y"]),
        (select(None, Some("x")), vec!["a/x", "b/x"]),
        (select(Some("c"), None), vec![]),
        (Filter { field: Some((0, "n1".into())), ..select(Some("a"), None) }, vec!["a/x"]),
    ] {
        let mut fixture = Fixture::new(Options::default());
        let mut live = fixture.pods.watch(WatchStart::FromNow, filter.clone()).unwrap();
        for (key, text) in [("a/x", "web|n1"), ("a/y", "web|n2"), ("b/x", "web|n1")] {
            fixture.set(key, Some(text));
        }
        let keys = |watcher: &mut Watcher| -> Vec<String> {
            let items = std::iter::from_fn(|| watcher.try_next());
            let events = items.filter_map(|item| match item {
                Item::Event(delivery) => Some(delivery.object().key().to_string()),
                _ => None,
            });
            events.collect()
        };
        assert_eq!(keys(&mut live), expected, "live {filter:?}");
        assert_eq!(keys(&mut fixture.watch(1, filter.clone())), expected, "replay {filter:?}");
        let initial = WatchStart::WithInitialState(fixture.pods.view());
        assert_eq!(keys(&mut fixture.pods.watch(initial, filter.clone()).unwrap()), expected, "{filter:?}");
    }
}

#[test]
fn after_the_initial_state() {
    let mut fixture = Fixture::new(Options::default());
    fixture.set("a/x", Some("web"));
    fixture.set("a/y", Some("db"));
    let view = fixture.pods.view();
    fixture.set("a/x", Some("db"));
    let web = Filter { matches: Some(app("web")), ..Filter::default() };
    let mut watcher = fixture.pods.watch(WatchStart::WithInitialState(view), web).unwrap();
    assert_eq!(watcher.progress(), None);
    let expected = ["ADDED a/x=web@2", "InitialEventsEnd(3)", "DELETED a/x=web@4"];
    assert_eq!(drain(&mut watcher), expected);
    assert_eq!(watcher.progress(), Some(4));
}

#[test]
fn watchers_of_the_same_events_share_frames() {
    let mut fixture = Fixture::new(Options::default());
    fixture.set("a/x", Some("db"));
    let web = Filter { matches: Some(app("web")), ..Filter::default() };
    let mut watchers = [
        fixture.watch(2, Filter::default()),
        fixture.watch(2, web.clone()),
        fixture.watch(2, Filter::default()),
        fixture.watch(2, web),
    ];
    fixture.set("a/x", Some("web"));
    let mut made = Vec::new();
    for watcher in &mut watchers {
        let Some(Item::Event(delivery)) = watcher.try_next() else { panic!("no event") };
        let frame = delivery.frame(EncodingKey(1), |delivery| {
            made.push(delivery.kind());
            Ok::<_, ()>(Bytes::from(delivery.kind().as_str()))
        });
        assert_eq!(frame.unwrap(), delivery.kind().as_str());
    }
    assert_eq!(made, [EventType::Modified, EventType::Added]);
}

#[test]
fn of_a_run_that_another_watcher_put_together() {
    let mut fixture = Fixture::new(Options::default());
    let all = || fixture.pods.watch(WatchStart::FromNow, Filter::default()).unwrap();
    let mut watchers: Vec<Watcher> = (0..=WAKE_DIRECT_MAX).map(|_| all()).collect();
    let web = Filter { matches: Some(app("web")), ..Filter::default() };
    let mut selective = fixture.pods.watch(WatchStart::FromNow, web).unwrap();
    for text in ["web", "db", "web"] {
        fixture.set("a/x", Some(text));
    }
    let first = |watcher: &mut Watcher| match watcher.try_next() {
        Some(Item::Event(delivery)) => delivery,
        other => panic!("{other:?}"),
    };
    let (key, bytes) = (EncodingKey(1), Bytes::from_static(b"three"));
    let maker = &mut watchers[0];
    let made = first(maker);
    assert_eq!(maker.take_run(&made, key), None);
    assert_eq!(drain(maker).len(), 2);
    maker.store_run(&made, key, &bytes);
    fixture.set("a/x", None);
    for watcher in watchers.iter_mut().skip(1) {
        let seen = first(watcher);
        assert_eq!(watcher.take_run(&seen, EncodingKey(2)), None, "another encoding");
        assert_eq!(watcher.take_run(&seen, key).as_ref(), Some(&bytes));
        assert_eq!(drain(watcher), ["DELETED a/x=web@5"]);
    }
    let seen = first(&mut selective);
    assert_eq!(selective.take_run(&seen, key), None, "it does not see all of them");
}

#[test]
fn many_watchers_receive_the_same_events() {
    let mut fixture = Fixture::new(Options::default());
    let all = || fixture.pods.watch(WatchStart::FromNow, Filter::default()).unwrap();
    let mut watchers: Vec<Watcher> = (0..=WAKE_DIRECT_MAX).map(|_| all()).collect();
    // The first look is into the window.
    watchers.iter_mut().for_each(|watcher| assert_eq!(drain(watcher), [""; 0]));
    fixture.cache.shared.set_dispatching(true);
    fixture.set("a/x", Some("web"));
    assert!(fixture.cache.shared.dispatch().is_none());
    fixture.set("a/x", Some("db"));
    assert_eq!(drain(&mut watchers[0]), ["ADDED a/x=web@2"], "the second change waits");
    fixture.cache.shared.dispatch();
    assert_eq!(drain(&mut watchers[0]), ["MODIFIED a/x=db@3"]);
    assert_eq!(drain(&mut watchers[1]), ["ADDED a/x=web@2", "MODIFIED a/x=db@3"]);
    fixture.set("a/x", None);
    assert_eq!(drain(&mut watchers[1]), [""; 0]);
    fixture.cache.shared.set_dispatching(false);
    assert_eq!(drain(&mut watchers[1]), ["DELETED a/x=db@4"], "nobody holds anything back");
}
