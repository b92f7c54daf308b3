//! Watches: where they begin and what they select.

use crate::Engine;
use crate::read::{ListRequest, Selects};
use pintle_cache::{Filter, RevisionError, WatchStart, Watcher};
use pintle_meta::{Status, rv};
use std::sync::Arc;

/// A watch and what narrows it.
pub struct WatchRequest {
    /// The collection and its selectors. Its limit and continue token are not looked at.
    pub list: ListRequest,
    /// `sendInitialEvents`
    pub send_initial_events: Option<bool>,
}

/// A watch that has begun.
pub struct Watched {
    /// Delivers the events.
    pub watcher: Watcher,
    /// Whether the end of the initial state is announced by a bookmark.
    pub announces_initial_end: bool,
}

impl Engine {
    /// Begins a watch. A revision that is too old is an error that belongs into the stream.
    pub fn watch(&self, request: &WatchRequest) -> Result<Watched, Status> {
        let target = &request.list.target;
        let resource = self
            .cache
            .resource(&target.kind.store_prefix)
            .ok_or_else(|| Status::internal("the resource is not served any more"))?;
        let bad = |why: String| Status::bad_request(format!("invalid resource version: {why}"));
        let revision = rv::parse(&request.list.resource_version).map_err(bad)?;
        let wants_state = request.send_initial_events.unwrap_or(revision == 0);
        let start = match (wants_state, revision) {
            (true, _) => WatchStart::WithInitialState(resource.view()),
            (false, 0) => WatchStart::FromNow,
            (false, revision) => WatchStart::FromRevision(revision),
        };
        let watcher = resource.watch(start, self.filter(&request.list)).map_err(|error| match error {
            RevisionError::Expired { oldest } => {
                Status::expired(format!("too old resource version: {revision} ({oldest})"))
            }
            RevisionError::Future { current } => Status::too_large_resource_version(revision, current, 1),
        })?;
        Ok(Watched { watcher, announces_initial_end: request.send_initial_events == Some(true) })
    }

    /// The selection of a list or watch, as the cache filters by it.
    fn filter(&self, request: &ListRequest) -> Filter {
        let target = &request.target;
        let selects = Selects::new(request);
        let namespace = (target.kind.namespaced && !target.namespace.is_empty()).then(|| target.namespace.clone());
        let name = request.fields.exact("metadata.name").map(Into::into);
        let matches = (!selects.is_empty()).then(|| {
            let matches: pintle_cache::Matches = Arc::new(move |object| selects.matches(object));
            matches
        });
        Filter { namespace, name, field: None, matches }
    }
}
