//! Follows the FlowSchema and PriorityLevelConfiguration objects and reassigns seats every ten seconds.

use super::Fair;
use pintle_cache::{CloseReason, Item, Watcher};
use pintle_engine::{Engine, Follower, Storage};
use pintle_flow::{LevelObject, SchemaObject};
use pintle_value::{Value, json};
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep_until};

const SCHEMAS: &str = "/registry/flowschemas/";
const LEVELS: &str = "/registry/prioritylevelconfigurations/";
/// How often seats are reassigned between levels.
const ADJUST_EVERY: Duration = Duration::from_secs(10);
/// How many events are batched at most before the objects are read.
const EVENTS_MAX: usize = 1024;
/// How long the timer sleeps when nothing is due.
const IDLE: Duration = Duration::from_secs(3600);

impl Fair {
    /// Follows the objects until the cache shuts down.
    pub async fn follow(self: Arc<Self>, engine: Arc<Engine>) {
        let mut watcher = engine.storage().cache().watch_resources(&[SCHEMAS, LEVELS]);
        let storage = engine.storage();
        self.configure(storage);
        let mut adjust = interval_at(after(ADJUST_EVERY), ADJUST_EVERY);
        adjust.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut due = after(IDLE);
        loop {
            tokio::select! {
                item = watcher.next() => {
                    let Some(item) = item else { return };
                    match drain(&mut watcher, item) {
                        Drained::Nothing => {}
                        Drained::Changed => self.configure(storage),
                        Drained::Slow => {
                            watcher = storage.cache().watch_resources(&[SCHEMAS, LEVELS]);
                            self.configure(storage);
                        }
                        Drained::Closed => return,
                    }
                }
                _ = adjust.tick() => self.controller.adjust(),
                () = self.due.notified() => due = self.maintain(storage),
                () = sleep_until(due) => due = self.maintain(storage),
            }
        }
    }

    /// Applies changed objects before their writes are answered. Those that other servers write are followed by
    /// [`Fair::follow`].
    pub fn follower(self: &Arc<Self>) -> Follower {
        let fair = Arc::clone(self);
        Follower { prefixes: &[SCHEMAS, LEVELS], apply: Box::new(move |storage| fair.configure(storage)) }
    }

    /// Reads all objects. Must be called once before the first request; otherwise all requests are in the level
    /// `catch-all`.
    pub fn configure(&self, storage: &Storage) {
        // Objects that were read earlier must not replace those that were read later.
        let _reading = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let levels = stored_objects(storage, LEVELS).iter().filter_map(LevelObject::read).collect();
        let schemas = stored_objects(storage, SCHEMAS).iter().map(SchemaObject::read).collect();
        self.controller.configure(levels, schemas);
    }

    /// Frees seats whose time has passed and removes deleted levels that are idle. Returns when to call it again.
    fn maintain(&self, storage: &Storage) -> Instant {
        let (next, is_over) = self.controller.maintain();
        if is_over {
            self.configure(storage);
        }
        let wait = next.map_or(IDLE, |at| at.saturating_sub(self.controller.now()));
        after(wait)
    }
}

/// A moment so long from now.
fn after(time: Duration) -> Instant {
    let now = Instant::now();
    now.checked_add(time).unwrap_or(now)
}

enum Drained {
    Nothing,
    Changed,
    Slow,
    Closed,
}

/// Takes all pending events; the objects are read once for all of them.
fn drain(watcher: &mut Watcher, first: Item) -> Drained {
    let mut drained = Drained::Nothing;
    let mut next = Some(first);
    for taken in 1..=EVENTS_MAX {
        match next {
            Some(Item::Event(_)) => drained = Drained::Changed,
            Some(Item::Closed(CloseReason::Slow)) => return Drained::Slow,
            Some(Item::Closed(_)) => return Drained::Closed,
            Some(Item::InitialEventsEnd(_) | Item::Bookmark(_)) => {}
            None => break,
        }
        next = if taken < EVENTS_MAX { watcher.try_next() } else { None };
    }
    drained
}

fn stored_objects(storage: &Storage, prefix: &str) -> Vec<Value> {
    let Some(resource) = storage.cache().resource(prefix) else { return Vec::new() };
    let view = resource.view();
    let parsed = view.iter().filter_map(|object| json::parse(object.json()).ok());
    parsed.map(|parsed| parsed.value).collect()
}
