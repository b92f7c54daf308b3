//! Tests of the cache as a whole, on a small object format of their own.

mod lifecycle;
mod model;
mod random;
mod snapshots;
mod transitions;

use crate::*;
use bytes::Bytes;
use pintle_store::{Change, Key, Note, Revision, Sink};
use std::sync::Arc;

pub(crate) const PODS: &str = "/registry/pods/";
pub(crate) const NODES: &str = "/registry/nodes/";

/// Objects are `app|node|anything`: one label and one field.
pub(crate) struct Parts;

impl Extract for Parts {
    fn extract(&self, json: &[u8]) -> Extracted {
        let text = std::str::from_utf8(json).unwrap();
        let mut parts = text.split('|');
        let mut part = || Str::from(parts.next().unwrap_or_default());
        let labels = vec![(Str::from("app"), part())].into();
        Extracted { labels, fields: vec![part()].into(), uid: Str::from("u") }
    }
}

pub(crate) fn value(text: &str) -> Bytes {
    [value_header(0).as_slice(), text.as_bytes()].concat().into()
}

pub(crate) fn pods() -> Registration {
    Registration { prefix: PODS.into(), namespaced: true, extract: Arc::new(Parts) }
}

pub(crate) fn nodes() -> Registration {
    Registration { prefix: NODES.into(), namespaced: false, extract: Arc::new(Parts) }
}

pub(crate) fn app(app: &str) -> Matches {
    let app = app.to_owned();
    Arc::new(move |object| object.label("app") == Some(&app))
}

/// A cache without a store; changes are applied by hand.
pub(crate) struct Fixture {
    pub(crate) cache: Arc<Cache>,
    pub(crate) pods: Arc<Resource>,
    revision: u64,
}

impl Fixture {
    pub(crate) fn new(options: Options) -> Fixture {
        let cache = Cache::new(options);
        let pods = cache.register(pods());
        Fixture { cache, pods, revision: 1 }
    }

    /// `None` deletes.
    pub(crate) fn set(&mut self, key: &str, text: Option<&str>) -> u64 {
        self.set_full(&format!("{PODS}{key}"), text)
    }

    pub(crate) fn set_full(&mut self, key: &str, text: Option<&str>) -> u64 {
        self.revision += 1;
        let (revision, key) = (Revision(self.revision), Key::from(key));
        let change = Change { revision, key, value: text.map(value), previous: None, note: Note::default() };
        self.cache.apply(&[change]);
        self.revision
    }

    pub(crate) fn watch(&self, revision: u64, filter: Filter) -> Watcher {
        self.pods.watch(WatchStart::FromRevision(revision), filter).unwrap()
    }
}

/// A delivery as a line of text.
pub(crate) fn show(item: &Item) -> String {
    match item {
        Item::Event(delivery) => {
            let object = delivery.object();
            let text = std::str::from_utf8(object.json()).unwrap();
            format!("{} {}={text}@{}", delivery.kind().as_str(), object.key().as_str(), delivery.revision())
        }
        other => format!("{other:?}"),
    }
}

/// Returns all items that can be delivered now.
pub(crate) fn drain(watcher: &mut Watcher) -> Vec<String> {
    std::iter::from_fn(|| watcher.try_next()).map(|item| show(&item)).collect()
}

/// The keys and texts of a view.
pub(crate) fn contents(view: &View) -> Vec<String> {
    let line = |object: &Arc<Object>| {
        let text = std::str::from_utf8(object.json()).unwrap();
        format!("{}={text}@{}", object.key().as_str(), object.revision())
    };
    view.iter().map(line).collect()
}
