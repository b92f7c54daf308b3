//! The selectors of a list or watch, and the version of objects that they apply to.

use crate::object::extract_in;
use crate::read::ListRequest;
use crate::shard::Shard;
use crate::{Reader, Target};
use pintle_cache::{Extracted, Object};
use pintle_kinds::{Kind, SelectableField};
use pintle_meta::{LabelMatcher, Status};
use pintle_metrics::{Handle, families};
use pintle_value::Str;
use std::collections::HashMap;
use std::sync::Arc;

/// The selectors of a list or watch, prepared for matching. If a webhook converts, they apply to the requested version,
/// otherwise to the stored one.
pub(crate) struct Selects {
    labels: LabelMatcher,
    /// The values that fields must have.
    equal: Vec<(FieldAt, Str)>,
    /// The values that each field must not have, in ascending order.
    unequal: Vec<(FieldAt, Vec<Str>)>,
    shard: Option<Shard>,
    /// Counts a watch of a shard while it is open.
    watched_shard: Option<WatchedShard>,
    /// The selectable values of converted objects, by object key.
    converted: HashMap<Str, Extracted>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldAt {
    Name,
    Namespace,
    /// The index among the extracted fields.
    Place(usize),
    Unknown,
}

impl Selects {
    pub(crate) fn new(request: &ListRequest) -> Self {
        let kind = &request.target.kind;
        let request_version = request.target.kind_version();
        let seen: Vec<&SelectableField> = match kind.conversion {
            Some(_) => request_version.selectable.iter().collect(),
            None => kind.extracted_fields().collect(),
        };
        // Versions may use different labels for the same field.
        let place = |label: &str| match label {
            "metadata.name" => FieldAt::Name,
            "metadata.namespace" => FieldAt::Namespace,
            _ => {
                let same = request_version
                    .selectable
                    .iter()
                    .find(|f| f.label == label)
                    .filter(|f| !f.path.is_empty());
                let fits = |f: &&SelectableField| same.map_or(f.label == label, |s| s.path == f.path);
                seen.iter().position(fits).map_or(FieldAt::Unknown, FieldAt::Place)
            }
        };
        let (mut equal, mut unequal) = (Vec::new(), Vec::<(FieldAt, Vec<Str>)>::new());
        // Equal terms are adjacent, and so are those of a field.
        for term in request.options.field_selector.terms() {
            let at = place(&term.field);
            if term.equal {
                equal.push((at, term.value.clone()));
            } else if let Some((_, values)) = unequal.iter_mut().find(|(other, _)| *other == at) {
                values.push(term.value.clone());
            } else {
                unequal.push((at, vec![term.value.clone()]));
            }
        }
        equal.dedup();
        for (_, values) in &mut unequal {
            values.sort_unstable();
            values.dedup();
        }
        Selects {
            labels: LabelMatcher::of(&request.options.label_selector),
            equal,
            unequal,
            shard: None,
            watched_shard: None,
            converted: HashMap::new(),
        }
    }

    /// The selectors of a request, including the shard selector. Must be called before other options are examined,
    /// whose errors come later.
    pub(crate) fn with_shard(request: &ListRequest) -> Result<Self, Status> {
        let shard = Shard::of_request(&request.options.shard_selector)?;
        Ok(Selects { shard, ..Selects::new(request) })
    }

    /// Counts a watch of a shard from now on, until the selectors are dropped with it.
    pub(crate) fn begin_watch(&mut self, kind: &Kind) {
        self.watched_shard = self.shard.as_ref().map(|_| WatchedShard::begin(kind));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.counts_all() && self.shard.is_none()
    }

    /// Returns whether a page may say how many objects follow: kube-apiserver ignores the shard there.
    pub(crate) fn counts_all(&self) -> bool {
        self.labels.is_empty() && self.equal.is_empty() && self.unequal.is_empty()
    }

    /// The shard selector in its canonical notation.
    pub(crate) fn shard_text(&self) -> Option<&str> {
        self.shard.as_ref().map(Shard::text)
    }

    /// Returns whether anything other than name and namespace is selected by.
    pub(crate) fn needs_object_content(&self) -> bool {
        let mut places = self.equal.iter().map(|(at, _)| at).chain(self.unequal.iter().map(|(at, _)| at));
        !self.labels.is_empty() || places.any(|at| !matches!(at, FieldAt::Name | FieldAt::Namespace))
    }

    /// The index and value of a field that all selected objects have; `None` if no such field is required.
    pub(crate) fn required_field(&self) -> Option<(usize, Str)> {
        self.equal.iter().find_map(|(place, value)| match place {
            FieldAt::Place(at) if !value.is_empty() => Some((*at, value.clone())),
            _ => None,
        })
    }

    /// Extracts what the selectors need from these objects, which were converted to the requested version.
    pub(crate) fn extract_selected(
        &mut self,
        reader: &Reader,
        target: &Target,
        objects: &[Arc<Object>],
    ) -> Result<(), Status> {
        for object in objects {
            let tree = reader.tree_in(target, object, 0)?;
            let seen = extract_in(&target.kind, target.kind_version(), &tree);
            self.converted.insert(object.key().as_str().into(), seen);
        }
        Ok(())
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        match self.converted.get(object.key().as_str()) {
            None => self.is_selected(object, object.labels(), object.fields()),
            Some(seen) => self.matches_as(object, seen),
        }
    }

    /// Returns whether an object is selected, given its extracted fields in the requested version.
    pub(crate) fn matches_as(&self, object: &Object, seen: &Extracted) -> bool {
        self.is_selected(object, &seen.labels, &seen.fields)
    }

    fn is_selected(&self, object: &Object, labels: &[(Str, Str)], fields: &[Str]) -> bool {
        let field = |place: &FieldAt| match place {
            FieldAt::Name => object.name(),
            FieldAt::Namespace => object.namespace().unwrap_or(""),
            FieldAt::Place(at) => fields.get(*at).map_or("", Str::as_str),
            FieldAt::Unknown => "",
        };
        // As in kube-apiserver, objects outside the shard count as filtered whatever the other selectors say.
        if !self.shard.as_ref().is_none_or(|shard| shard.matches(object)) {
            if let Some(watched) = &self.watched_shard {
                watched.filtered.add(1);
            }
            return false;
        }
        let has = |values: &[Str], value: &str| values.binary_search_by(|v| v.as_str().cmp(value)).is_ok();
        self.equal.iter().all(|(place, value)| field(place) == value.as_str())
            && !self.unequal.iter().any(|(place, values)| has(values, field(place)))
            && self.labels.matches(labels)
    }
}

/// The series of an open watch of a shard.
struct WatchedShard {
    open: Handle,
    filtered: Handle,
}

impl WatchedShard {
    fn begin(kind: &Kind) -> Self {
        let labels = [kind.group.as_str(), kind.plural.as_str()];
        let open = families::SHARD_WATCHES.with(&labels);
        open.shift(1.0);
        WatchedShard { open, filtered: families::SHARD_FILTERED_EVENTS.with(&labels) }
    }
}

impl Drop for WatchedShard {
    fn drop(&mut self) {
        self.open.shift(-1.0);
    }
}
