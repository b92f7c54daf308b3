//! Metadata types, which the internal types contain unchanged: unset fields are omitted.

use crate::error_text::{Field, Kind, TEXT};

const EXPRESSION: &[Field] = &[
    Field("key", "key", TEXT),
    Field("operator", "operator", TEXT),
    Field("values", "values", Kind::Omitted),
];

/// A label selector.
pub(crate) const LABEL_SELECTOR: &[Field] = &[
    Field("matchLabels", "matchLabels", Kind::Omitted),
    Field("matchExpressions", "matchExpressions", Kind::OmittedList(EXPRESSION)),
];

const OWNER: &[Field] = &[
    Field("apiVersion", "apiVersion", TEXT),
    Field("kind", "kind", TEXT),
    Field("name", "name", TEXT),
    Field("uid", "uid", TEXT),
    Field("controller", "controller", Kind::Omitted),
    Field("blockOwnerDeletion", "blockOwnerDeletion", Kind::Omitted),
];

/// The metadata of an object or a template.
pub(crate) const OBJECT_META: &[Field] = &[
    Field("name", "name", Kind::Omitted),
    Field("generateName", "generateName", Kind::Omitted),
    Field("namespace", "namespace", Kind::Omitted),
    Field("selfLink", "selfLink", Kind::Omitted),
    Field("uid", "uid", Kind::Omitted),
    Field("resourceVersion", "resourceVersion", Kind::Omitted),
    Field("generation", "generation", Kind::Omitted),
    Field("creationTimestamp", "creationTimestamp", Kind::Omitted),
    Field("deletionTimestamp", "deletionTimestamp", Kind::Omitted),
    Field("deletionGracePeriodSeconds", "deletionGracePeriodSeconds", Kind::Omitted),
    Field("labels", "labels", Kind::Omitted),
    Field("annotations", "annotations", Kind::Omitted),
    Field("ownerReferences", "ownerReferences", Kind::OmittedList(OWNER)),
    Field("finalizers", "finalizers", Kind::Omitted),
    Field("managedFields", "managedFields", Kind::Omitted),
];
