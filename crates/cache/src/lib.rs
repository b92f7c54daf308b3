//! The watch cache: the current and recent state of every resource, with views, event windows and watches.
//!
//! The cache is the one [`pintle_store::Sink`] of the store. Reads use a persistent map and never wait; a watch is a
//! cursor over the events that the sink appends. The cache knows keys, labels, selectable fields and bytes. It never
//! parses an object itself: the [`Extract`] given at registration does.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod cache;
mod draft;
mod encodings;
mod error;
mod event;
mod filter;
mod group;
mod key;
mod object;
mod options;
mod orphans;
mod resource;
mod run;
mod shared;
mod stored_value;
mod stores;
mod view;
mod wake_batching;
mod watch;
mod window;

#[cfg(test)]
mod tests;

/// Short strings: label keys and values, field values, uids.
pub type Str = compact_str::CompactString;

pub use cache::Cache;
pub use draft::Draft;
pub use encodings::EncodingKey;
pub use error::{RevisionError, WaitTimeout};
pub use event::{CloseReason, Delivery, Event, EventType, Item};
pub use filter::{Filter, Matches};
pub use key::ObjectKey;
pub use object::{Extract, Extracted, Object, ReadForm};
pub use options::Options;
pub use resource::{Registration, Resource};
pub use stored_value::{
    clear_outdated, is_outdated, mark_outdated, unreadable_reason, unreadable_value, untransformable_value,
    value_header,
};
pub use view::View;
pub use watch::{WatchStart, Watcher};
