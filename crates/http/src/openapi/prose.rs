//! What the members that every object has are for, in a sentence each. Other types of the API go without.

/// The schema that has them.
pub(super) const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// Its members and what they are for.
pub(super) const MEMBERS: [(&str, &str); 15] = [
    (
        "annotations",
        "Annotations are values that tools keep with an object. Nothing can be selected by them.",
    ),
    ("creationTimestamp", "CreationTimestamp is a timestamp of when the server made the object. Read-only."),
    (
        "deletionGracePeriodSeconds",
        "How many seconds the object has to come to its end; set with deletionTimestamp. Read-only.",
    ),
    (
        "deletionTimestamp",
        "DeletionTimestamp is the time at which the object will be gone, once somebody asked for that; while there \
         are finalizers it stays. Read-only.",
    ),
    ("finalizers", "Who has something to do before the object may go; each takes its own entry away."),
    ("generateName", "The beginning of a name that the server completes, where name is empty."),
    ("generation", "A number that grows with what is wanted of the object. Read-only."),
    ("labels", "Labels are words and values that objects are grouped and selected by."),
    ("managedFields", "Which fields were set by whom. Kept by the server."),
    ("name", "The name of the object, unique among its kind in its namespace. It cannot be changed."),
    ("namespace", "The namespace that the object is in. It cannot be changed."),
    ("ownerReferences", "The objects that this one belongs to; it goes when all of them are gone."),
    (
        "resourceVersion",
        "The version of the object as it is stored. Writes that name it fail if the object has changed since; watches \
         begin at it. Nothing can be read from it. Read-only.",
    ),
    ("selfLink", "Deprecated: it is no longer filled."),
    ("uid", "What tells this object from others that had or will have its name. Read-only."),
];
