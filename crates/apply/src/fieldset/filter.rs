//! Filters: which fields a write of some endpoint can own at all.

use super::{Entry, PathElement, Set};
use pintle_value::Str;

/// What stays of the fields that a write touched.
#[derive(Clone, Debug)]
pub enum Filter {
    /// All but these paths and what is below them: the fields that the endpoint resets.
    Exclude(Set),
    /// Only what is on the way to these prefixes or below them.
    Include(Vec<Vec<Step>>),
}

/// One step of a prefix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// This field.
    Field(Str),
    /// Whatever is there.
    Any,
}

impl Filter {
    /// What stays of `set`.
    pub fn apply(&self, set: Set) -> Set {
        match self {
            Filter::Exclude(excluded) => set.recursive_difference(excluded),
            Filter::Include(prefixes) => {
                let prefixes: Vec<&[Step]> = prefixes.iter().map(Vec::as_slice).collect();
                included(set, &prefixes)
            }
        }
    }
}

fn included(set: Set, prefixes: &[&[Step]]) -> Set {
    if prefixes.iter().any(|prefix| prefix.is_empty()) {
        return set;
    }
    let kept = set.into_entries().into_iter().filter_map(|entry| {
        let rest: Vec<&[Step]> = prefixes.iter().filter_map(|prefix| step_into(prefix, &entry)).collect();
        (!rest.is_empty()).then(|| Entry { below: included(entry.below, &rest), ..entry })
    });
    Set::from_entries(kept.collect())
}

fn step_into<'p>(prefix: &'p [Step], entry: &Entry) -> Option<&'p [Step]> {
    let (first, rest) = prefix.split_first()?;
    let matches = match (first, &entry.element) {
        (Step::Any, _) => true,
        (Step::Field(name), PathElement::Field(field)) => name == field,
        (Step::Field(_), _) => false,
    };
    matches.then_some(rest)
}
