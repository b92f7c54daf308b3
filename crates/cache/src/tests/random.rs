//! Writers, watchers from random revisions, readers and compaction, all at once; afterwards every
//! watcher and every view is compared with the recorded history.

use super::model::{Random, Recording, Selection, expected, state_at};
use super::*;
use pintle_store::{Expect, Store, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::JoinSet;

const WRITERS: u64 = 4;
const SEEDS: u64 = 1;

struct Run {
    cache: Arc<Cache>,
    pods: Arc<Resource>,
    store: Recording,
    done: AtomicBool,
    writes: u64,
}

/// The events that one watcher received.
struct WatchRecord {
    start: u64,
    initial: bool,
    selection: Selection,
    lines: Vec<String>,
    closed: bool,
}

async fn write(run: Arc<Run>, seed: u64) {
    let mut random = Random::new(seed);
    for _ in 0..run.writes {
        let full = match random.below(10) {
            0 => format!("{NODES}{}", random.below(3)),
            _ => format!("{PODS}{}/{}", random.below(3), random.below(6)),
        };
        if random.below(4) == 0 {
            // Often the key to delete does not exist.
            let _ = run.store.write(Write::delete(&*full, Expect::Any)).await;
            continue;
        }
        let text = format!("{}|n{}|{}", random.below(3), random.below(3), random.below(1000));
        let mut write = Write::put(&*full, Expect::Any, value(&text));
        let draft = run.pods.draft(run.pods.extract(text.as_bytes()), None);
        if full.starts_with(PODS) && random.below(2) == 0 {
            write = write.with_note(draft.note());
        }
        let revision = run.store.write(write).await.unwrap();
        // An acknowledged write is visible.
        assert!(run.cache.revision() >= revision.0);
        if random.below(20) == 0 {
            tokio::task::yield_now().await;
        }
    }
}

fn select(random: &mut Random) -> Selection {
    let mut maybe =
        |limit: u64, prefix: &str| (random.below(2) == 0).then(|| format!("{prefix}{}", random.below(limit)));
    Selection { namespace: maybe(3, ""), name: maybe(6, ""), app: maybe(3, ""), node: maybe(3, "n") }
}

async fn watch(run: Arc<Run>, seed: u64) -> Option<WatchRecord> {
    let mut random = Random::new(seed);
    let selection = select(&mut random);
    let initial = random.below(3) == 0;
    let (start, from) = if initial {
        let view = run.pods.view();
        (view.revision(), WatchStart::WithInitialState(view))
    } else {
        let now = run.cache.revision();
        let start = (now + 3).saturating_sub(random.below(400)).max(1);
        (start, WatchStart::FromRevision(start))
    };
    let mut watcher = match run.pods.watch(from, selection.filter()) {
        Ok(watcher) => watcher,
        Err(RevisionError::Expired { requested, oldest }) => {
            assert!(requested == start && oldest > start);
            return None;
        }
        Err(other) => panic!("{other}"),
    };
    let slow = random.below(3) == 0;
    let (mut lines, mut closed) = (Vec::new(), false);
    let mut last = 0;
    loop {
        match tokio::time::timeout(Duration::from_millis(2), watcher.next()).await {
            Ok(Some(Item::Closed(reason))) => {
                assert_eq!(reason, CloseReason::Slow);
                closed = true;
            }
            Ok(Some(item)) => lines.push(show(&item)),
            Ok(None) => break,
            Err(_) => {}
        }
        let progress = watcher.progress().unwrap_or(0);
        assert!(progress >= last, "progress goes back");
        last = progress;
        let finished = run.done.load(Ordering::Acquire);
        if finished && watcher.progress().is_some_and(|at| at >= run.cache.revision().max(start)) {
            while let Some(item) = watcher.try_next() {
                lines.push(show(&item));
            }
            break;
        }
        if slow && random.below(10) == 0 {
            tokio::time::sleep(Duration::from_millis(random.below(8))).await;
        }
    }
    Some(WatchRecord { start, initial, selection, lines, closed })
}

/// Lists from time to time, and requests earlier revisions.
async fn read(run: Arc<Run>, seed: u64) -> Vec<(u64, Vec<String>)> {
    let mut random = Random::new(seed);
    let mut seen = Vec::new();
    while !run.done.load(Ordering::Acquire) {
        let view = run.pods.view();
        seen.push((view.revision(), contents(&view)));
        if random.below(3) == 0 {
            run.pods.pin(&view);
        }
        let earlier = view.revision().saturating_sub(random.below(200));
        if let Ok(view) = run.pods.view_at(earlier) {
            assert_eq!(view.revision(), earlier);
            seen.push((earlier, contents(&view)));
        }
        if random.below(8) == 0 {
            run.cache.compact(earlier);
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    seen
}

/// Registers and drops a resource repeatedly, and watches it while it is registered.
async fn churn(run: Arc<Run>, seed: u64) {
    let mut random = Random::new(seed);
    while !run.done.load(Ordering::Acquire) {
        let nodes = run.cache.register(nodes());
        let view = nodes.view();
        let start = WatchStart::WithInitialState(view);
        // The revision of the view may be compacted before the watch begins, or before it is read.
        let Ok(mut watcher) = nodes.watch(start, Filter::default()) else { continue };
        tokio::time::sleep(Duration::from_millis(random.below(4))).await;
        if random.below(2) == 0 {
            run.cache.unregister(NODES);
            let mut last = None;
            while let Some(item) = watcher.next().await {
                last = Some(item);
            }
            assert!(matches!(last, Some(Item::Closed(CloseReason::Gone | CloseReason::Slow))), "{last:?}");
        }
    }
    run.cache.register(nodes());
}

async fn simulate(seed: u64, window_events_max: usize, fanout_events_max: usize, dispatcher: bool) {
    let cache = Cache::new(Options { window_events_max, fanout_events_max, ..Options::default() });
    let pods = cache.register(pods());
    let store = Recording::new();
    cache.attach(&store);
    cache.register(nodes());
    let run = Arc::new(Run { cache, pods, store, done: AtomicBool::new(false), writes: 600 });
    let running = dispatcher.then(|| tokio::spawn(run.cache.clone().run()));
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        writers.spawn(write(run.clone(), seed * 100 + writer));
    }
    let churning = tokio::spawn(churn(run.clone(), seed));
    let reader = tokio::spawn(read(run.clone(), seed));
    let mut watchers = JoinSet::new();
    for watcher in 0..120 {
        watchers.spawn(watch(run.clone(), seed * 1000 + watcher));
        if watcher % 12 == 11 {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }
    while let Some(writer) = writers.join_next().await {
        writer.unwrap();
    }
    run.done.store(true, Ordering::Release);
    let records: Vec<WatchRecord> = watchers.join_all().await.into_iter().flatten().collect();
    let seen = reader.await.unwrap();
    churning.await.unwrap();
    run.cache.shutdown();
    if let Some(running) = running {
        running.await.unwrap();
    }
    compare(&run, records, seen);
}

fn compare(run: &Run, records: Vec<WatchRecord>, seen: Vec<(u64, Vec<String>)>) {
    let history = run.store.history.lock().unwrap();
    assert!(records.len() > 30, "too few watchers got through: {}", records.len());
    assert_eq!(run.pods.stats().1, 0);
    for WatchRecord { start, initial, selection, lines, closed } in records {
        let expected = expected(&history, start, &selection, initial);
        let context = || format!("from {start} initial {initial} {selection:?} closed {closed}");
        if closed {
            assert!(expected.starts_with(&lines), "{}", context())
        } else {
            assert_eq!(lines, expected, "{}", context())
        }
    }
    for (revision, lines) in seen {
        assert_eq!(lines, state_lines(&history, PODS, revision), "at {revision}");
    }
    let nodes = run.cache.resource(NODES).unwrap().view();
    assert_eq!(contents(&nodes), state_lines(&history, NODES, u64::MAX));
}

fn state_lines(history: &[Change], prefix: &str, at: u64) -> Vec<String> {
    let state = state_at(history, prefix, at);
    state.iter().map(|(key, (text, modified))| format!("{key}={text}@{modified}")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn every_watcher_receives_the_events_of_the_history() {
    for seed in 1..=SEEDS {
        simulate(seed, 100_000, 8, true).await;
        simulate(seed + 10, 300, 1024, true).await;
        simulate(seed + 20, 2_000, 3, false).await;
    }
}
