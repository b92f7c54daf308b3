//! Parameters of operations: names and types, by what is done.

use super::model::Param;

/// Of lists, watches and deletions of collections.
pub(super) const LIST: &[(&str, &str)] = &[
    ("allowWatchBookmarks", "boolean"),
    ("continue", "string"),
    ("fieldSelector", "string"),
    ("labelSelector", "string"),
    ("limit", "integer"),
    ("resourceVersion", "string"),
    ("resourceVersionMatch", "string"),
    ("sendInitialEvents", "boolean"),
    ("shardSelector", "string"),
    ("timeoutSeconds", "integer"),
    ("watch", "boolean"),
];
/// Of creates and updates.
pub(super) const WRITE: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string")];
/// Of patches.
pub(super) const PATCH: &[(&str, &str)] =
    &[("dryRun", "string"), ("fieldManager", "string"), ("fieldValidation", "string"), ("force", "boolean")];
/// Of deletions.
pub(super) const DELETE: &[(&str, &str)] = &[
    ("dryRun", "string"),
    ("gracePeriodSeconds", "integer"),
    ("ignoreStoreReadErrorWithClusterBreakingPotential", "boolean"),
    ("orphanDependents", "boolean"),
    ("propagationPolicy", "string"),
];
/// Of logs of pods.
pub(super) const LOG: &[(&str, &str)] = &[
    ("container", "string"),
    ("follow", "boolean"),
    ("insecureSkipTLSVerifyBackend", "boolean"),
    ("limitBytes", "integer"),
    ("previous", "boolean"),
    ("sinceSeconds", "integer"),
    ("stream", "string"),
    ("tailLines", "integer"),
    ("timestamps", "boolean"),
];

/// Parameters of streams to pods, services and nodes, by the kind of their options.
pub(super) fn connect(kind: &str) -> &'static [(&'static str, &'static str)] {
    match kind {
        "PodAttachOptions" => &[
            ("container", "string"),
            ("stderr", "boolean"),
            ("stdin", "boolean"),
            ("stdout", "boolean"),
            ("tty", "boolean"),
        ],
        "PodExecOptions" => &[
            ("command", "string"),
            ("container", "string"),
            ("stderr", "boolean"),
            ("stdin", "boolean"),
            ("stdout", "boolean"),
            ("tty", "boolean"),
        ],
        "PodPortForwardOptions" => &[("ports", "integer")],
        _ => &[("path", "string")],
    }
}

/// Parameters of the query.
pub(super) fn query(params: &[(&'static str, &'static str)]) -> Vec<Param> {
    let param = |(name, type_): &(&'static str, &'static str)| Param {
        name,
        place: "query",
        type_,
        description: String::new(),
    };
    params.iter().map(param).collect()
}
