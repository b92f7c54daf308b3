//! The parameters of operations: names, types and descriptions, by operation.

use super::model::{Dialect, Param};
use super::operations::META;
use pintle_value::{Map, Str, base64, json};

/// A parameter of the query: name, type, description.
pub(super) type Entry = (&'static str, &'static str, &'static str);

/// The parameters of list, watch and deletecollection.
pub(super) const LIST: &[Entry] = &[
    (
        "allowWatchBookmarks",
        "boolean",
        "Lets the server send BOOKMARK events in a watch. They have only a resourceVersion, from which a later watch can \
         go on; when and how often they come is up to the server. Without `watch` it has no effect.",
    ),
    (
        "continue",
        "string",
        "Asks for the next page of a list: the value of `metadata.continue` of the page before, with all other \
         parameters as they were. A token that is too old is answered with 410; the error then has a token that \
         goes on with the state of now.",
    ),
    (
        "fieldSelector",
        "string",
        "Selects objects by fields, for example `metadata.name=a,spec.nodeName!=b`; the operators are `=`, `==` and \
         `!=`. Which fields can be used depends on the kind. Default: all objects.",
    ),
    (
        "labelSelector",
        "string",
        "Selects objects by labels, for example `app=web,tier in (a, b),!debug`; all parts must match. Default: all \
         objects.",
    ),
    (
        "limit",
        "integer",
        "The most objects that the answer may have. If there are more, `metadata.continue` has the token of the next \
         page; all pages show the same moment. 0 or nothing: all objects at once. Watches ignore it.",
    ),
    RESOURCE_VERSION,
    (
        "resourceVersionMatch",
        "string",
        "How `resourceVersion` is meant in a list: `NotOlderThan` takes that version or any newer one, `Exact` takes \
         none but that. It needs a resourceVersion; in watches it goes with `sendInitialEvents` only.",
    ),
    (
        "sendInitialEvents",
        "boolean",
        "Begins a watch with ADDED events for all objects there are, then a bookmark annotated with \
         `k8s.io/initial-events-end`, then the changes. It needs `watch` and `resourceVersionMatch=NotOlderThan`.",
    ),
    (
        "shardSelector",
        "string",
        "Restricts a list or watch to a range of hashed object identities, so that several clients can share the work. \
         Ignored unless the server's feature for it is on.",
    ),
    (
        "timeoutSeconds",
        "integer",
        "After how many seconds the server ends the list or watch. Without it a watch takes a random time of at least \
         the server's minimum.",
    ),
    (
        "watch",
        "boolean",
        "Answers with a stream of changes (ADDED, MODIFIED, DELETED, BOOKMARK, ERROR) instead of a list, from \
         `resourceVersion` on.",
    ),
];
/// These descriptions are part of the API: other servers publish them in the same words.
const RESOURCE_VERSION: Entry = (
    "resourceVersion",
    "string",
    "resourceVersion sets a constraint on what resource versions a request may be served from. See \
     https://kubernetes.io/docs/reference/using-api/api-concepts/#resource-versions for details.\n\nDefaults to unset",
);
/// The parameters for reading one custom resource.
pub(super) const READ: &[Entry] = &[RESOURCE_VERSION];
const DRY_RUN: Entry = (
    "dryRun",
    "string",
    "`All` runs the request with admission and validation and answers as usual, but stores nothing. Other values are \
     errors. Default: the change is stored.",
);
const FIELD_VALIDATION: Entry = (
    "fieldValidation",
    "string",
    "What happens to fields that are unknown or given twice: `Strict` refuses the request, `Warn` (the default) drops \
     them and warns in the `Warning` header, `Ignore` drops them silently.",
);
/// The parameters of creates and updates.
pub(super) const WRITE: &[Entry] = &[
    DRY_RUN,
    (
        "fieldManager",
        "string",
        "Under which name the written fields are recorded in `metadata.managedFields`: at most 128 printable \
         characters. Default: the part of the User-Agent before the first slash.",
    ),
    FIELD_VALIDATION,
];
/// The parameters of patches.
pub(super) const PATCH: &[Entry] = &[
    DRY_RUN,
    (
        "fieldManager",
        "string",
        "Under which name the written fields are recorded in `metadata.managedFields`: at most 128 printable \
         characters. Apply patches must have it; for others the default is the part of the User-Agent before the first \
         slash.",
    ),
    FIELD_VALIDATION,
    (
        "force",
        "boolean",
        "Lets an apply patch take over fields that other managers own and that it sets to other values; without it that \
         is a conflict (409). Not allowed for other patches.",
    ),
];
/// The parameters of deletions.
pub(super) const DELETE: &[Entry] = &[
    DRY_RUN,
    (
        "gracePeriodSeconds",
        "integer",
        "How many seconds the object gets to end before it is removed. 0 removes it at once. Default: what its kind or \
         the object itself says. Not negative.",
    ),
    (
        "ignoreStoreReadErrorWithClusterBreakingPotential",
        "boolean",
        "Removes an object even though its stored data cannot be read, without finalizers, admission and \
         preconditions. It needs permission for the verb `unsafe-delete-ignore-read-errors`, and can leave behind what the \
         object stood for.",
    ),
    (
        "orphanDependents",
        "boolean",
        "Deprecated, use `propagationPolicy`: true keeps objects that this one owns, false deletes them. Both \
         together are an error.",
    ),
    (
        "propagationPolicy",
        "string",
        "What becomes of objects that this one owns: `Background` deletes them afterwards, `Foreground` before it, \
         `Orphan` keeps them. Default: by kind and existing finalizers, mostly `Background`.",
    ),
];
/// The parameter of all operations except streams.
pub(super) const PRETTY: &[Entry] = &[(
    "pretty",
    "string",
    "`true` indents JSON answers, `false` does not. Default: only for browsers, curl and wget, as their User-Agent tells.",
)];
/// The parameters of pod logs.
pub(super) const LOG: &[Entry] = &[
    ("container", "string", "Whose log is read. Default: the container, if the pod has only one."),
    ("follow", "boolean", "Keeps the answer open and sends what is logged from now on. Default: false."),
    (
        "insecureSkipTLSVerifyBackend",
        "boolean",
        "Takes the log from a kubelet whose serving certificate cannot be verified: it may be forged. Default: false.",
    ),
    (
        "limitBytes",
        "integer",
        "After how many bytes the answer ends; at least 1. It may end within a line. Default: no limit.",
    ),
    (
        "previous",
        "boolean",
        "Reads the log of the container's run before the current one, for example after a crash. Default: false.",
    ),
    (
        "sinceSeconds",
        "integer",
        "Sends only lines of the last so many seconds; at least 1. Not together with `sinceTime`. Default: all lines.",
    ),
    (
        "stream",
        "string",
        "Which output is read: `All` (the default), `Stdout` or `Stderr`. Not together with `tailLines` unless it is `All`.",
    ),
    (
        "tailLines",
        "integer",
        "Begins so many lines before the end of the log; 0 or more. Default: at its beginning.",
    ),
    (
        "timestamps",
        "boolean",
        "Begins each line with the time at which it was logged, in RFC 3339. Default: false.",
    ),
];

const ATTACH: &[Entry] = &[
    (
        "container",
        "string",
        "Which container's running process is attached to. Default: the container, if the pod has only one.",
    ),
    ("stderr", "boolean", "Sends what the process writes to its standard error. Default: false."),
    ("stdin", "boolean", "Passes the client's input to the process. Default: false."),
    ("stdout", "boolean", "Sends what the process writes to its standard output. Default: false."),
    (
        "tty",
        "boolean",
        "Says that the process has a terminal, as its container must ask for. Default: false.",
    ),
];
const EXEC: &[Entry] = &[
    ("command", "string", "The program and its arguments, one value each, in order. No shell is involved."),
    (
        "container",
        "string",
        "In which container the command runs. Default: the container, if the pod has only one.",
    ),
    ("stderr", "boolean", "Sends what the command writes to its standard error. Default: false."),
    ("stdin", "boolean", "Passes the client's input to the command. Default: false."),
    ("stdout", "boolean", "Sends what the command writes to its standard output. Default: false."),
    ("tty", "boolean", "Runs the command in a terminal. Default: false."),
];
const PORT_FORWARD: &[Entry] = &[(
    "ports",
    "integer",
    "Ports of the pod that are forwarded. Clients that use WebSockets must give them; SPDY names ports per stream.",
)];
const NODE_PROXY: &[Entry] = &[("path", "string", "Path on the node's kubelet that the request goes to.")];
const POD_PROXY: &[Entry] = &[("path", "string", "Path on the pod's server that the request goes to.")];
const SERVICE_PROXY: &[Entry] = &[(
    "path",
    "string",
    "Path, with the query if there is one, on the service's server that the request goes to.",
)];

/// The parameters of connect operations, by the kind of their options.
pub(super) fn connect(kind: &str) -> &'static [Entry] {
    match kind {
        "PodAttachOptions" => ATTACH,
        "PodExecOptions" => EXEC,
        "PodPortForwardOptions" => PORT_FORWARD,
        "NodeProxyOptions" => NODE_PROXY,
        "ServiceProxyOptions" => SERVICE_PROXY,
        _ => POD_PROXY,
    }
}

/// Parameters of the query.
pub(super) fn query(params: &[Entry]) -> Vec<Param> {
    let param = |(name, type_, description): &Entry| Param {
        name,
        place: "query",
        type_,
        description: (*description).to_string(),
    };
    params.iter().map(param).collect()
}

/// A part of the path.
pub(super) fn path(name: &'static str, description: String) -> Param {
    Param { name, place: "path", type_: "string", description }
}

/// The namespace in the path.
pub(super) fn namespace() -> Param {
    path("namespace", "object name and auth scope, such as for teams and projects".to_string())
}

/// The parameter for the rest of the path after `proxy/`.
pub(super) fn path_below() -> Param {
    path("path", "path to the resource".to_string())
}

/// The name under which OpenAPI v2 declares a parameter outside of the operations, which then refer to it. Names of
/// objects are declared in place, because their description contains the kind; the other two are, because kubectl
/// before v1.27 looks for them there.
pub(super) fn shared_name(param: &Param) -> Option<String> {
    if matches!((param.place, param.name), (_, "name") | ("query", "fieldValidation" | "dryRun")) {
        return None;
    }
    // The name has a hash of the parameter's JSON with the members in the order of kube-openapi.
    let mut text = b"{\"uniqueItems\":true,\"type\":".to_vec();
    json::write_string(param.type_, &mut text);
    for (key, value) in
        [("description", param.description.as_str()), ("name", param.name), ("in", param.place)]
    {
        if !value.is_empty() {
            text.push(b',');
            json::write_string(key, &mut text);
            text.push(b':');
            json::write_string(value, &mut text);
        }
    }
    text.extend_from_slice(if param.place == "path" { b",\"required\":true}" } else { b"}" });
    Some(format!("{}-{}", param.name, short_hash(&text)))
}

/// The name of a shared body parameter whose type is one of the API machinery.
pub(super) fn shared_body_name(schema: &str, required: bool) -> Option<String> {
    if !schema.starts_with("io.k8s.apimachinery") {
        return None;
    }
    let required = if required { "\"required\":true," } else { "" };
    let text =
        format!(r##"{{"name":"body","in":"body",{required}"schema":{{"$ref":"#/definitions/{schema}"}}}}"##);
    Some(format!("body-{}", short_hash(text.as_bytes())))
}

/// All parameters that operations of OpenAPI v2 refer to, by name.
pub(super) fn shared() -> Map {
    let tables = [
        LIST,
        READ,
        WRITE,
        PATCH,
        DELETE,
        PRETTY,
        LOG,
        ATTACH,
        EXEC,
        PORT_FORWARD,
        NODE_PROXY,
        POD_PROXY,
        SERVICE_PROXY,
    ];
    let params = tables.into_iter().flat_map(query).chain([namespace(), path_below()]);
    let bodies = [("DeleteOptions", false), ("Patch", true)];
    let params = params.filter_map(|p| Some((Str::from(shared_name(&p)?), Dialect::V2.param(&p))));
    let bodies = bodies.into_iter().filter_map(|(kind, required)| {
        let schema = format!("{META}{kind}");
        Some((Str::from(shared_body_name(&schema, required)?), Dialect::V2.body(&schema, required)))
    });
    params.chain(bodies).collect()
}

/// The first six bytes of FNV-1 in the alphabet of URLs.
fn short_hash(bytes: &[u8]) -> String {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = bytes.iter().fold(OFFSET, |hash, byte| hash.wrapping_mul(PRIME) ^ u64::from(*byte));
    let [a, b, c, d, e, f, ..] = hash.to_be_bytes();
    base64::encode_url(&[a, b, c, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_shared_parameters_are_those_of_kube_openapi() {
        assert_eq!(shared_name(&namespace()).as_deref(), Some("namespace-vgWSWtn3"));
        assert_eq!(shared_name(&path_below()).as_deref(), Some("path-z6Ciiujn"));
        let version = query(READ);
        assert_eq!(version.first().and_then(shared_name).as_deref(), Some("resourceVersion-5WAnf1kx"));
        let body = |kind: &str, required| shared_body_name(&format!("{META}{kind}"), required);
        assert_eq!(body("DeleteOptions", false).as_deref(), Some("body-2Y1dVQaQ"));
        assert_eq!(body("Patch", true).as_deref(), Some("body-78PwaGsr"));
        assert_eq!(shared_body_name("io.k8s.api.core.v1.Pod", true), None);
        let own = query(&[DRY_RUN, FIELD_VALIDATION]);
        assert!(own.iter().all(|param| shared_name(param).is_none()));
    }
}
