//! Watches: where they begin and what they select.

use crate::Engine;
use crate::read::{ListRequest, Selects};
use pintle_cache::{Filter, RevisionError, WatchStart, Watcher};
use pintle_meta::{Status, rv};
use std::sync::Arc;

/// A watch that has begun.
pub struct Watched {
    /// Delivers the events.
    pub watcher: Watcher,
    /// Whether the end of the initial state is announced by a bookmark.
    pub announces_initial_end: bool,
}

impl Engine {
    /// Begins a watch. A revision that is too old (410), or that does not come in time for the initial state (504),
    /// is an error that belongs into the stream.
    pub async fn watch(&self, request: &ListRequest) -> Result<Watched, Status> {
        let target = &request.target;
        let resource = self.resource(target)?;
        let revision = rv::parse_for_get(&request.options.resource_version)?;
        let wants_state = request.options.send_initial_events.unwrap_or(revision == 0);
        if wants_state {
            self.wait_for(revision).await?;
        }
        let start = match (wants_state, revision) {
            (true, _) => WatchStart::WithInitialState(resource.view()),
            (false, 0) => WatchStart::FromNow,
            (false, revision) => WatchStart::FromRevision(revision),
        };
        let watcher = resource.watch(start, self.filter(request)).map_err(|error| match error {
            RevisionError::Expired { oldest, .. } => rv::too_old(revision, oldest),
            RevisionError::Future { current, .. } => rv::too_large(revision, current, 1),
        })?;
        // The end of the initial state is a bookmark: who takes none is not told.
        let announces_initial_end =
            request.options.send_initial_events == Some(true) && request.options.allow_watch_bookmarks;
        Ok(Watched { watcher, announces_initial_end })
    }

    /// The selection of a list or watch, as the cache filters by it.
    fn filter(&self, request: &ListRequest) -> Filter {
        let target = &request.target;
        let selects = Selects::new(request);
        let namespace =
            (target.kind.namespaced && !target.namespace.is_empty()).then(|| target.namespace.clone());
        let name = request.options.field_selector.required_value("metadata.name").map(Into::into);
        let matches = (!selects.is_empty()).then(|| {
            let matches: pintle_cache::Matches = Arc::new(move |object| selects.matches(object));
            matches
        });
        Filter { namespace, name, field: None, matches }
    }
}
