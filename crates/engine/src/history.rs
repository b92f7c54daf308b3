//! The history of one object: its retained versions, from the store if it retains them, otherwise from the events in
//! memory.

use crate::{Reader, Target};
use pintle_cache::{Event, Object, Resource};
use pintle_meta::Status;
use pintle_store::{Entry, HistoryQuery, KeyHistory, KeyVersion, ReadError, Revision, Snapshot};
use std::sync::Arc;

/// The size limit in bytes of objects in one answer.
const BYTES_MAX: usize = 4 << 20;

/// The change of an object at one revision.
#[derive(Clone, Debug)]
pub struct ObjectVersion {
    /// The revision of the change.
    pub revision: u64,
    /// The time of the commit in milliseconds since 1970, if it is known.
    pub time_ms: Option<u64>,
    /// The object after the change; `None` if the change deleted it.
    pub object: Option<Arc<Object>>,
    /// Whether the object did not exist before; `None` where that is not known.
    pub is_new: Option<bool>,
}

/// The retained versions of an object, or as many of them as fit into one answer.
#[derive(Clone, Debug)]
pub struct ObjectHistory {
    /// The revision after which every change is retained.
    pub since: u64,
    /// The versions, oldest first.
    pub versions: Vec<ObjectVersion>,
    /// Whether older versions are retained, too.
    pub has_older: bool,
}

impl Reader {
    /// Returns at most `limit` versions of the object before the revision `before`, the newest ones, ready to be
    /// returned in the version of the target. Versions from before the namespace was created are left out: a user who
    /// may read a namespace may not read the content of an earlier namespace of the same name.
    pub async fn history(
        &self,
        target: &Target,
        before: Option<u64>,
        limit: usize,
    ) -> Result<ObjectHistory, Status> {
        target.check_path_name()?;
        self.storage.catch_up(target).await?;
        let resource = self.storage.resource(target)?;
        let key = target.store_key();
        let query = HistoryQuery { before: before.map(Revision), versions_max: limit, bytes_max: BYTES_MAX };
        let stored = match self.storage.store.history(&key, query).await {
            Ok(stored) => stored,
            Err(ReadError::Compacted | ReadError::Future { .. }) => None,
            Err(ReadError::Unavailable(fault)) => return Err(Status::internal(&fault.to_string())),
        };
        let mut history = match stored {
            Some(history) => {
                let (resource, object_key) = (resource.clone(), target.object_key());
                // This parses objects, so run it on a blocking thread and not on one that answers requests.
                let read = move || from_store(&resource, &object_key, &key, history);
                let read = tokio::task::spawn_blocking(read).await;
                read.map_err(|error| Status::internal(&error.to_string()))?
            }
            None => from_events(&resource, target, &query),
        };
        if let Some(floor) = self.namespace_created(target) {
            let all = history.versions.len();
            history.versions.retain(|version| version.revision > floor);
            history.has_older &= history.versions.len() == all;
            history.since = history.since.max(floor);
        }
        let objects: Vec<Arc<Object>> =
            history.versions.iter().filter_map(|version| version.object.clone()).collect();
        self.prepare(target, &objects).await?;
        Ok(history)
    }

    /// The revision at which the namespace of the target was created.
    fn namespace_created(&self, target: &Target) -> Option<u64> {
        if !target.kind.namespaced {
            return None;
        }
        let namespace = self.storage.target("", "v1", "namespaces", "", &target.namespace)?;
        self.storage.cached(&namespace.kind, &namespace.object_key()).map(|object| object.created())
    }
}

fn from_store(resource: &Resource, object_key: &str, key: &Arc<str>, history: KeyHistory) -> ObjectHistory {
    let version = |version: KeyVersion| {
        let revision = version.revision;
        let object = version.value.and_then(|value| {
            let entry = Entry { value, created: revision, modified: revision };
            let stored = Snapshot::from_entries(revision, [(key.clone(), entry)]);
            resource.view_of(&stored).get(object_key).cloned()
        });
        let is_new = version.is_new;
        ObjectVersion { revision: revision.0, time_ms: version.time_ms, object, is_new }
    };
    ObjectHistory {
        since: history.since.0,
        versions: history.versions.into_iter().map(version).collect(),
        has_older: history.has_older,
    }
}

fn from_events(resource: &Resource, target: &Target, query: &HistoryQuery) -> ObjectHistory {
    let (since, events) = resource.events_of(&target.object_key());
    let is_asked_for = |event: &Arc<Event>| query.before.is_none_or(|before| event.revision() < before.0);
    let mut versions: Vec<ObjectVersion> = Vec::new();
    let mut bytes = 0_usize;
    let mut has_older = false;
    for event in events.iter().filter(|event| is_asked_for(event)).rev() {
        bytes = bytes.saturating_add(event.object().map_or(0, |object| object.value().len()));
        if versions.len() >= query.versions_max || (bytes > query.bytes_max && !versions.is_empty()) {
            has_older = true;
            break;
        }
        versions.push(ObjectVersion {
            revision: event.revision(),
            time_ms: Some(event.at_ms()),
            object: event.object().cloned(),
            is_new: Some(event.previous().is_none()),
        });
    }
    versions.reverse();
    ObjectHistory { since, versions, has_older }
}
