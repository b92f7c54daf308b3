//! Watches: where they begin and what they select.

use crate::object::extract_in;
use crate::read::{FUTURE_WAIT, ListRequest, list_namespace};
use crate::select::Selects;
use crate::{Engine, Target};
use pintle_cache::{Delivery, Filter, Object, Resource, RevisionError, View, WatchStart, Watcher};
use pintle_meta::{Status, rv};
use std::sync::Arc;

/// A watch that has begun.
pub struct Watched {
    /// Delivers the events.
    pub watcher: Watcher,
    /// Whether the end of the initial state is announced by a bookmark.
    pub announces_initial_end: bool,
    /// What is left to select once objects are converted by a webhook.
    pub selection: Selection,
}

/// What a watch selects of objects that it sees only after a webhook converted them.
#[derive(Clone)]
pub struct Selection(Option<Arc<Selects>>);

impl Engine {
    /// Begins a watch. A revision that is too old (410), or that does not come in time for the initial state (504),
    /// is an error that belongs into the stream.
    pub async fn watch(&self, request: &ListRequest) -> Result<Watched, Status> {
        let target = &request.target;
        let resource = self.resource(target)?;
        let revision = rv::parse_for_get(&request.options.resource_version)?;
        self.check_followable(target, &resource)?;
        if self.cache.is_interrupted() {
            return Err(Status::too_many_requests(
                "storage is (re)initializing",
                crate::unreadable::RETRY_SECONDS,
            ));
        }
        if request.options.resource_version.is_empty() {
            // As kube-apiserver does: where etcd does not answer, the watch begins with what is known.
            let _ = tokio::time::timeout(FUTURE_WAIT, self.catch_up()).await;
        }
        let wants_state = request.options.send_initial_events.unwrap_or(revision == 0);
        if wants_state {
            self.wait_for(revision).await?;
        }
        let start = match (wants_state, revision) {
            (true, _) => WatchStart::WithInitialState(self.initial_state(target, &resource).await?),
            (false, 0) => WatchStart::FromNow,
            (false, revision) => WatchStart::FromRevision(revision),
        };
        let (filter, selection) = filter(request);
        let watcher = resource.watch(start, filter).map_err(|error| match error {
            RevisionError::Expired { oldest, .. } => rv::too_old(revision, oldest),
            RevisionError::Future { current, .. } => rv::too_large(revision, current, 1),
        })?;
        // The end of the initial state is a bookmark: who takes none is not told.
        let announces_initial_end =
            request.options.send_initial_events == Some(true) && request.options.allow_watch_bookmarks;
        Ok(Watched { watcher, announces_initial_end, selection })
    }

    /// The state that a watch begins with. Where a webhook converts, it does so now: a state that cannot be shown
    /// begins no watch.
    async fn initial_state(&self, target: &Target, resource: &Resource) -> Result<View, Status> {
        let view = resource.view();
        if target.kind.conversion.is_some() {
            let objects: Vec<Arc<Object>> = view.range(list_namespace(target), None).cloned().collect();
            let faults = self.convert_all(target, &objects).await;
            if !faults.is_empty() {
                return Err(self.cannot_follow(target, &self.cannot_list(target, &faults)));
            }
        }
        Ok(view)
    }

    /// Has the objects of an event converted where a webhook does that. What is left of the event for a watch that
    /// selects: `None` when that is nothing.
    pub async fn see(
        &self,
        target: &Target,
        selection: &Selection,
        delivery: &Delivery,
    ) -> Result<Option<Delivery>, String> {
        let Selection(Some(selects)) = selection else {
            self.convert_shared(target, delivery.object()).await?;
            return Ok(Some(delivery.clone()));
        };
        // What it was before decides too whether the watch has seen it.
        for object in delivery.objects() {
            self.convert_shared(target, &object).await?;
        }
        Ok(delivery.within(|object| self.is_selected(target, selects, object)))
    }

    fn is_selected(&self, target: &Target, selects: &Selects, object: &Object) -> bool {
        let seen = self.tree_in(target, object, 0);
        seen.is_ok_and(|tree| {
            selects.matches_as(object, &extract_in(&target.kind, target.kind_version(), &tree))
        })
    }
}

/// The selection of a watch: what the cache filters by, and what is left for converted objects.
fn filter(request: &ListRequest) -> (Filter, Selection) {
    let target = &request.target;
    let selects = Selects::new(request);
    let namespace = list_namespace(target).map(Into::into);
    let name = request.options.field_selector.required_value("metadata.name").map(Into::into);
    let filter = Filter { namespace, name, field: None, matches: None };
    if selects.is_empty() {
        return (filter, Selection(None));
    }
    if target.kind.conversion.is_some() && selects.looks_inside() {
        return (filter, Selection(Some(Arc::new(selects))));
    }
    let matches: pintle_cache::Matches = Arc::new(move |object| selects.matches(object));
    (Filter { matches: Some(matches), ..filter }, Selection(None))
}
