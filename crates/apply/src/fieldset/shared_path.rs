//! Paths that share their parents: a long key is in memory once, not for each field below it.

use super::{FieldPath, PathElement};
use std::fmt;
use std::sync::Arc;

/// A path from the object's root that is not empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SharedPath {
    parent: Option<Arc<SharedPath>>,
    element: PathElement,
}

impl SharedPath {
    /// The path of an element below `parent`, or below the object's root.
    pub(super) fn below(parent: Option<&Arc<SharedPath>>, element: &PathElement) -> Self {
        SharedPath { parent: parent.cloned(), element: element.clone() }
    }

    /// A copy with its own elements.
    pub fn to_path(&self) -> FieldPath {
        FieldPath(self.elements().into_iter().cloned().collect())
    }

    /// The elements, starting at the root.
    fn elements(&self) -> Vec<&PathElement> {
        let mut out = vec![&self.element];
        let mut at = self.parent.as_deref();
        while let Some(path) = at {
            out.push(&path.element);
            at = path.parent.as_deref();
        }
        out.reverse();
        out
    }
}

impl fmt::Display for SharedPath {
    /// `.spec.containers[name="c"].image`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.elements().into_iter().try_for_each(|element| element.fmt(f))
    }
}
