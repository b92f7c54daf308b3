//! Starts watches: the revision they begin at and their selectors.

use crate::object::extract_in;
use crate::read::{FUTURE_WAIT, ListRequest, list_namespace};
use crate::select::Selects;
use crate::{Reader, Target};
use pintle_cache::{Delivery, Filter, Object, Resource, RevisionError, View, WatchStart, Watcher};
use pintle_meta::{Status, rv};
use std::sync::Arc;

/// A watch that has begun.
pub struct Watched {
    /// Delivers the events.
    pub watcher: Watcher,
    /// Whether a bookmark marks the end of the initial events.
    pub announces_initial_end: bool,
    /// The selectors that apply after a webhook has converted the objects.
    pub selection: Selection,
}

/// The selectors of a watch that apply to objects after a webhook has converted them.
#[derive(Clone)]
pub struct Selection(Option<Arc<Selects>>);

impl Reader {
    /// Starts a watch. If the revision is too old (410) or not reached in time for the initial state (504), the error
    /// is sent within the stream.
    pub async fn watch(&self, request: &ListRequest) -> Result<Watched, Status> {
        let target = &request.target;
        let mut selects = Selects::with_shard(request)?;
        let resource = self.storage.resource(target)?;
        let revision = rv::parse_for_get(&request.options.resource_version)?;
        self.check_followable(target, &resource)?;
        if resource.is_interrupted() {
            return Err(Status::too_many_requests(
                "storage is (re)initializing",
                crate::unreadable::RETRY_SECONDS,
            ));
        }
        if request.options.resource_version.is_empty() {
            // As in kube-apiserver: if etcd does not answer, the watch starts with the cached state.
            let _ = tokio::time::timeout(FUTURE_WAIT, self.storage.catch_up(target)).await;
        }
        let wants_state = request.options.send_initial_events.unwrap_or(revision == 0);
        if wants_state {
            crate::read::wait_for(target, &resource, revision).await?;
        }
        let start = match (wants_state, revision) {
            (true, _) => WatchStart::WithInitialState(self.initial_state(target, &resource).await?),
            (false, 0) => WatchStart::FromNow,
            (false, revision) => WatchStart::FromRevision(revision),
        };
        selects.begin_watch(&target.kind);
        let (filter, selection) = filter(request, selects);
        let watcher = resource.watch(start, filter).map_err(|error| match error {
            RevisionError::Expired { oldest, .. } => rv::too_old(revision, oldest),
            RevisionError::Future { current, .. } => rv::too_large(revision, current, 1),
        })?;
        // The end of the initial events is a bookmark, so clients without bookmarks do not get it.
        let announces_initial_end =
            request.options.send_initial_events == Some(true) && request.options.allow_watch_bookmarks;
        Ok(Watched { watcher, announces_initial_end, selection })
    }

    /// Returns the initial state of a watch. If a webhook converts, it does so now: a watch does not start if an object
    /// of its state cannot be converted.
    async fn initial_state(&self, target: &Target, resource: &Resource) -> Result<View, Status> {
        let view = resource.view();
        if target.kind.conversion.is_some() {
            let objects: Vec<Arc<Object>> = view.range(list_namespace(target), None).cloned().collect();
            let faults = self.convert_all(target, &objects).await;
            if !faults.is_empty() {
                return Err(self.unreadable_watch_error(target, &self.unreadable_list_error(target, &faults)));
            }
        }
        Ok(view)
    }

    /// Converts the objects of an event if a webhook does that, then applies the selectors. Returns `None` if the watch
    /// does not select the event.
    pub async fn convert_and_select(
        &self,
        target: &Target,
        selection: &Selection,
        delivery: &Delivery,
    ) -> Result<Option<Delivery>, String> {
        let Selection(Some(selects)) = selection else {
            self.convert_shared(target, delivery.object()).await?;
            return Ok(Some(delivery.clone()));
        };
        // The previous state also decides whether the watch has seen the object.
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

/// Splits the selectors of a watch into those that the cache applies and those that apply to converted objects.
fn filter(request: &ListRequest, selects: Selects) -> (Filter, Selection) {
    let target = &request.target;
    let namespace = list_namespace(target).map(Into::into);
    let name = request.options.field_selector.required_value("metadata.name").map(Into::into);
    let filter = Filter { namespace, name, field: None, matches: None };
    if selects.is_empty() {
        return (filter, Selection(None));
    }
    if target.kind.conversion.is_some() && selects.needs_object_content() {
        return (filter, Selection(Some(Arc::new(selects))));
    }
    // A kubelet watches the pods of its own node: pods of the other nodes must not wake it.
    let field = selects.required_field();
    let matches: pintle_cache::Matches = Arc::new(move |object| selects.matches(object));
    (Filter { field, matches: Some(matches), ..filter }, Selection(None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_meta::FieldSelector;

    /// The value of the field by which a watch of pods is indexed.
    fn indexed(selector: &str) -> Option<String> {
        let kinds = pintle_kinds::builtin().kinds;
        let pods = kinds.into_iter().find(|kind| kind.group.is_empty() && kind.plural == "pods").unwrap();
        let [namespace, name, subresource] = Default::default();
        let target = Target { version: pods.storage, kind: Arc::new(pods), namespace, name, subresource };
        let field_selector = FieldSelector::parse(selector).unwrap();
        let options = pintle_meta::options::ListOptions { field_selector, ..Default::default() };
        let request = ListRequest { target, options };
        let (filter, _) = filter(&request, Selects::new(&request));
        filter.field.map(|(_, value)| value.to_string())
    }

    #[test]
    fn watches_are_indexed_by_a_required_field() {
        for (selector, want) in [
            ("spec.nodeName=n1", Some("n1")),
            ("status.phase!=Failed,spec.nodeName=n1", Some("n1")),
            ("spec.nodeName!=n1", None),
            // Objects without the field are not indexed.
            ("spec.nodeName=", None),
            ("metadata.name=a", None),
            ("", None),
        ] {
            assert_eq!(indexed(selector).as_deref(), want, "{selector}");
        }
    }
}
