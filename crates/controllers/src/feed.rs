//! The change feed of a controller. Each wake-up of a task costs about as much as a whole read request, so a
//! controller that needs all changes is not woken by every one of them.

use pintle_cache::{Item, Watcher};
use std::time::Duration;

/// The shortest time between two wake-ups: changes that arrive within it are handled together.
const PAUSE: Duration = Duration::from_millis(5);

/// A watch that wakes its controller at once for the first change, and at most once per [`PAUSE`] for later ones.
pub(crate) struct Feed {
    watcher: Watcher,
    /// Whether the controller was woken and has not paused since.
    was_woken: bool,
}

impl Feed {
    pub(crate) fn new(watcher: Watcher) -> Feed {
        Feed { watcher, was_woken: false }
    }

    /// The next item; `None` after [`Item::Closed`]. No item is lost if the future is dropped.
    pub(crate) async fn next(&mut self) -> Option<Item> {
        if let Some(item) = self.try_next() {
            return Some(item);
        }
        if std::mem::take(&mut self.was_woken) {
            tokio::time::sleep(PAUSE).await;
        }
        let item = self.watcher.next().await;
        self.was_woken = true;
        item
    }

    /// The next item, if it is available without waiting.
    pub(crate) fn try_next(&mut self) -> Option<Item> {
        self.watcher.try_next()
    }
}
