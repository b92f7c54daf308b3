//! What the selectors of a list or watch select, and in which version they look at objects.

use crate::object::extract_in;
use crate::read::ListRequest;
use crate::{Engine, Target};
use pintle_cache::{Extracted, Object};
use pintle_kinds::SelectableField;
use pintle_meta::{LabelSelector, Status};
use pintle_value::Str;
use std::collections::HashMap;
use std::sync::Arc;

/// The selectors of a list or watch, ready to be matched against kept objects. Where a webhook converts, they look at
/// objects in the version asked for, otherwise at what is kept of them.
pub(crate) struct Selects {
    labels: LabelSelector,
    fields: Vec<(FieldAt, bool, Str)>,
    /// What is looked at in place of what is kept, by the keys of objects.
    converted: HashMap<Str, Extracted>,
}

enum FieldAt {
    Name,
    Namespace,
    /// The place among the fields that are looked at.
    Place(usize),
    Unknown,
}

impl Selects {
    pub(crate) fn new(request: &ListRequest) -> Self {
        let kind = &request.target.kind;
        let spoken = request.target.kind_version();
        let seen = if kind.conversion.is_some() { spoken } else { kind.storage_version() };
        // Versions may name the same field differently.
        let place = |label: &str| match label {
            "metadata.name" => FieldAt::Name,
            "metadata.namespace" => FieldAt::Namespace,
            _ => {
                let same = spoken.selectable.iter().find(|f| f.label == label).filter(|f| !f.path.is_empty());
                let fits = |f: &SelectableField| same.map_or(f.label == label, |s| s.path == f.path);
                seen.selectable.iter().position(fits).map_or(FieldAt::Unknown, FieldAt::Place)
            }
        };
        let terms = request.options.field_selector.terms();
        let fields = terms.iter().map(|t| (place(&t.field), t.equal, t.value.clone())).collect();
        Selects { labels: request.options.label_selector.clone(), fields, converted: HashMap::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.labels.is_empty() && self.fields.is_empty()
    }

    /// Whether anything beside name and namespace is looked at.
    pub(crate) fn looks_inside(&self) -> bool {
        !self.labels.is_empty()
            || self.fields.iter().any(|(place, ..)| !matches!(place, FieldAt::Name | FieldAt::Namespace))
    }

    /// Looks at these objects, which were converted, in the version asked for.
    pub(crate) fn look_at(
        &mut self,
        engine: &Engine,
        target: &Target,
        objects: &[Arc<Object>],
    ) -> Result<(), Status> {
        for object in objects {
            let tree = engine.tree_in(target, object, 0)?;
            let seen = extract_in(&target.kind, target.kind_version(), &tree);
            self.converted.insert(object.key().as_str().into(), seen);
        }
        Ok(())
    }

    pub(crate) fn matches(&self, object: &Object) -> bool {
        match self.converted.get(object.key().as_str()) {
            None => self.fits(object, object.labels(), object.fields()),
            Some(seen) => self.matches_as(object, seen),
        }
    }

    /// Whether an object is selected of which this is seen.
    pub(crate) fn matches_as(&self, object: &Object, seen: &Extracted) -> bool {
        self.fits(object, &seen.labels, &seen.fields)
    }

    fn fits(&self, object: &Object, labels: &[(Str, Str)], fields: &[Str]) -> bool {
        let field = |place: &FieldAt| match place {
            FieldAt::Name => object.name(),
            FieldAt::Namespace => object.namespace().unwrap_or(""),
            FieldAt::Place(at) => fields.get(*at).map_or("", Str::as_str),
            FieldAt::Unknown => "",
        };
        let label = |key: &str| {
            let at = labels.binary_search_by(|(label, _)| label.as_str().cmp(key)).ok()?;
            labels.get(at).map(|(_, value)| value.as_str())
        };
        self.fields.iter().all(|(place, equal, value)| (field(place) == value.as_str()) == *equal)
            && self.labels.requirements().iter().all(|r| r.matches(label(r.key())))
            && !self.labels.is_nothing()
    }
}
