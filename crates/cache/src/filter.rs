//! The selection of a watcher, and how a change appears within it.

use crate::Str;
use crate::event::{Event, EventType};
use crate::group::GroupKey;
use crate::object::Object;
use std::fmt;
use std::sync::Arc;

/// Returns whether an object is selected: label and field selectors, compiled by the caller.
pub type Matches = Arc<dyn Fn(&Object) -> bool + Send + Sync>;

/// A selection of objects. The default selects all.
#[derive(Clone, Default)]
pub struct Filter {
    /// Only objects of this namespace.
    pub namespace: Option<Str>,
    /// Only objects of this name.
    pub name: Option<Str>,
    /// Only objects whose selectable field with this index has this value. Watchers are indexed by it, so changes of
    /// other objects do not wake this one.
    pub field: Option<(usize, Str)>,
    /// All further conditions.
    pub matches: Option<Matches>,
}

impl Filter {
    /// Whether the object is selected.
    pub fn passes(&self, object: &Object) -> bool {
        self.namespace.as_ref().is_none_or(|namespace| object.namespace() == Some(namespace))
            && self.name.as_ref().is_none_or(|name| object.name() == name)
            && self.field.as_ref().is_none_or(|(index, value)| object.field(*index) == value)
            && self.matches.as_ref().is_none_or(|matches| matches(object))
    }

    /// Whether every object is selected.
    pub(crate) fn is_all(&self) -> bool {
        let Filter { namespace, name, field, matches } = self;
        namespace.is_none() && name.is_none() && field.is_none() && matches.is_none()
    }

    /// The type of this change within the selection; `None` if it is not visible.
    pub fn classify(&self, event: &Event) -> Option<EventType> {
        EventType::of(event, |object| self.passes(object))
    }

    /// The smallest group that contains all events this filter can select.
    pub(crate) fn group(&self, namespaced: bool) -> GroupKey {
        match (&self.namespace, &self.name, &self.field) {
            (Some(namespace), Some(name), _) if namespaced => {
                GroupKey::Name(Str::from(format!("{namespace}/{name}")))
            }
            (_, Some(name), _) if !namespaced => GroupKey::Name(name.clone()),
            // Objects without the field have an empty value, and those are not indexed.
            (_, _, Some((index, value))) if !value.is_empty() => GroupKey::Field(*index, value.clone()),
            (Some(namespace), _, _) => GroupKey::Namespace(namespace.clone()),
            _ => GroupKey::All,
        }
    }

    /// The checks that remain for events of the filter's own group.
    pub(crate) fn within(mut self, group: &GroupKey) -> Filter {
        match group {
            GroupKey::Name(_) => (self.namespace, self.name) = (None, None),
            GroupKey::Namespace(_) => self.namespace = None,
            // The previous value of the field may differ, so it must still be checked.
            GroupKey::Field(..) | GroupKey::All => {}
        }
        self
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Filter { namespace, name, field, matches } = self;
        write!(f, "{namespace:?} {name:?} {field:?} {}", if matches.is_some() { "selector" } else { "-" })
    }
}
