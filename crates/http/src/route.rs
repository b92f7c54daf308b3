//! Routing: from path and method to a kind and an action, or to a 404, 405, 406 or 415.

use crate::api::ApiResponse;
use crate::discovery::{DiscoveryState, Group, Resource};
use crate::negotiate::{self, Accept, Encoding, Media, Negotiated};
use crate::requestinfo::RequestInfo;
use crate::respond;
use pintle_kinds::{Kind, KindVersion, Subresource, Verbs};
use pintle_meta::Status;
use std::sync::Arc;

/// The operation of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own verbs")]
pub enum Action {
    Get,
    List,
    /// A watch of a collection, by `?watch` or by the legacy path.
    Watch,
    /// A watch of one object by the legacy path, which names it.
    WatchOne,
    Create,
    Update,
    Patch(PatchType),
    Delete,
    DeleteCollection,
    /// A stream to a pod, service or node.
    Connect,
}

/// How a patch is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the API's own")]
pub enum PatchType {
    Json,
    Merge,
    StrategicMerge,
    ApplyYaml,
    ApplyCbor,
}

/// A kind, one of its versions, possibly a subresource, and the action.
#[derive(Clone)]
pub struct Target {
    /// The kind and its version.
    pub resource: Resource,
    /// Index of the subresource.
    subresource: Option<usize>,
    /// The operation of a request.
    pub action: Action,
    /// The media type of the body of a create or update.
    pub content: Media,
}

impl Target {
    /// The kind.
    pub fn kind(&self) -> &Arc<Kind> {
        &self.resource.kind
    }

    /// The version that the request uses.
    pub fn version(&self) -> &KindVersion {
        self.resource.kind_version()
    }

    /// The subresource.
    pub fn subresource(&self) -> Option<&Subresource> {
        self.subresource.and_then(|index| self.version().subresources.get(index))
    }
}

/// A routed request, with the negotiated encodings of its answer and its errors.
pub(crate) struct Routed {
    pub(crate) target: Target,
    pub(crate) accept: Negotiated,
    pub(crate) errors: Option<Encoding>,
}

/// The properties of a request that routing considers in addition to the path.
pub(crate) struct RouteRequest<'a> {
    pub(crate) method: &'a str,
    pub(crate) accept: &'a Accept,
    pub(crate) content_type: &'a str,
    /// Whether CBOR is served.
    pub(crate) cbor: bool,
}

/// The reason why a request cannot be routed.
enum Refusal {
    /// The path belongs to no part of the API.
    Page,
    /// The router's refusal, in the media types that it supports.
    Router(Status),
    /// The resource's refusal, in the media types that it supports.
    Resource(Status),
}

/// Routes a request for a resource.
pub(crate) fn route(
    state: &DiscoveryState,
    info: &RequestInfo,
    request: &RouteRequest<'_>,
) -> Result<Routed, ApiResponse> {
    let media = Media::served(request.cbor);
    let errors = request.accept.for_errors(media);
    find(state, info, request, media).map(|(target, accept)| Routed { target, accept, errors }).map_err(
        |refusal| match refusal {
            Refusal::Page => respond::page_not_found(),
            Refusal::Router(status) => {
                respond::status(&status, request.accept.for_errors(Media::WITHOUT_CBOR))
            }
            Refusal::Resource(status) => respond::status(&status, errors),
        },
    )
}

fn find(
    state: &DiscoveryState,
    info: &RequestInfo,
    request: &RouteRequest<'_>,
    media: &'static [Media],
) -> Result<(Target, Negotiated), Refusal> {
    let group = state.group(&info.group).filter(|_| (info.prefix == "api") == info.group.is_empty());
    let Some(group) = group else {
        return Err(if info.prefix == "api" {
            Refusal::Router(respond::route_not_found())
        } else {
            Refusal::Page
        });
    };
    let resource = group.version(&info.version).and_then(|v| v.resource(&info.resource));
    let (resource, subresource, action) = if group.installed {
        let resource = resource.ok_or_else(|| Refusal::Router(respond::route_not_found()))?;
        let (sub, action) = installed(resource, info, request).map_err(Refusal::Router)?;
        (resource, sub, action)
    } else {
        let resource = resource.filter(|r| defined_here(r, info)).ok_or(Refusal::Page)?;
        // kube-apiserver encodes these errors as its router does, which does not know CBOR.
        let (sub, action) =
            defined(resource, info).map_err(|status| Refusal::Router(with_deprecation(resource, status)))?;
        (resource, sub, action)
    };
    // The warning of a deprecated version comes before all that handlers check, but after the routes.
    let refused = |status| Refusal::Resource(with_deprecation(resource, status));
    if group.installed {
        let is_log = info.subresource == "log";
        check_media_types_literally(&action, is_log, request, media).map_err(Refusal::Router)?;
    }
    // `/pods//status` was authorized as a list, possibly with a name from a field selector, so it must not be routed to
    // anything else.
    if subresource.is_some() && info.parts.get(1).is_none_or(|name| name.is_empty()) {
        return Err(refused(Status::bad_request("name must be provided")));
    }
    let patch = matches!(action, Action::Patch(_)).then(|| checked_body(action, group, request, media));
    let patch = patch.transpose().map_err(refused)?;
    // Handlers read the name before they negotiate the answer.
    if matches!(action, Action::Update | Action::Patch(_)) && info.name.is_empty() {
        return Err(refused(Status::bad_request("name must be provided")));
    }
    let accept = negotiate_encoding(resource, subresource, &action, request, media).map_err(refused)?;
    let (action, content) = match patch {
        Some(patch) => patch,
        None => checked_body(action, group, request, media).map_err(refused)?,
    };
    Ok((Target { resource: resource.clone(), subresource, action, content }, accept))
}

/// The routes of a built-in resource, derived from its scope and verbs.
fn installed(
    resource: &Resource,
    info: &RequestInfo,
    request: &RouteRequest<'_>,
) -> Result<(Option<usize>, Action), Status> {
    let kind = &resource.kind;
    let verbs = kind.verbs;
    let nowhere = || Err(respond::route_not_found());
    if info.in_namespace && !kind.namespaced || info.verb == "proxy" {
        return nowhere();
    }
    if info.watch_prefix {
        return installed_watch(kind, info, request).map(|action| (None, action));
    }
    let all_namespaces = kind.namespaced && !info.in_namespace;
    let (sub, methods): (_, Vec<(&str, bool, Action)>) = match info.parts.as_slice() {
        [_] if all_namespaces => (None, vec![("GET", verbs.list, list_or_watch(info))]),
        [_] => (
            None,
            vec![
                ("GET", verbs.list, list_or_watch(info)),
                ("POST", verbs.create, Action::Create),
                ("DELETE", verbs.deletecollection, Action::DeleteCollection),
            ],
        ),
        _ if all_namespaces => return nowhere(),
        [_, _] => (None, item_methods(Verbs { create: false, ..verbs })),
        [_, _, name, rest @ ..] => {
            let subresources = &resource.kind_version().subresources;
            let Some((index, sub)) = subresources.iter().enumerate().find(|(_, s)| s.name == *name) else {
                return nowhere();
            };
            let connects = is_connect(&kind.plural, &sub.name);
            if !(rest.is_empty() || connects && sub.name == "proxy") {
                return nowhere();
            }
            (Some(index), if connects { connect_methods(sub.verbs) } else { item_methods(sub.verbs) })
        }
        [] => return nowhere(),
    };
    if !methods.iter().any(|(_, on, _)| *on) {
        return nowhere();
    }
    let found = methods.iter().find(|(method, on, _)| *on && *method == request.method);
    found.map(|(_, _, action)| (sub, *action)).ok_or_else(respond::method_not_allowed)
}

/// The legacy paths `/watch/pods`, `/watch/namespaces/NAME/pods` and `/watch/namespaces/NAME/pods/NAME`.
fn installed_watch(kind: &Kind, info: &RequestInfo, request: &RouteRequest<'_>) -> Result<Action, Status> {
    let action = match info.parts.as_slice() {
        [_] => Action::Watch,
        [_, _] if info.in_namespace || !kind.namespaced => Action::WatchOne,
        _ => return Err(respond::route_not_found()),
    };
    match (kind.verbs.watch, request.method) {
        (true, "GET") => Ok(action),
        (true, _) => Err(respond::method_not_allowed()),
        (false, _) => Err(respond::route_not_found()),
    }
}

fn list_or_watch(info: &RequestInfo) -> Action {
    if info.verb == "watch" { Action::Watch } else { Action::List }
}

fn item_methods(verbs: Verbs) -> Vec<(&'static str, bool, Action)> {
    vec![
        ("GET", verbs.get, Action::Get),
        ("PUT", verbs.update, Action::Update),
        ("PATCH", verbs.patch, Action::Patch(PatchType::Json)),
        ("POST", verbs.create, Action::Create),
        ("DELETE", verbs.delete, Action::Delete),
    ]
}

fn connect_methods(verbs: Verbs) -> Vec<(&'static str, bool, Action)> {
    let proxy = verbs.delete;
    [
        ("GET", verbs.get),
        ("POST", verbs.create),
        ("PUT", verbs.update),
        ("PATCH", verbs.patch),
        ("DELETE", verbs.delete),
        ("HEAD", proxy),
        ("OPTIONS", proxy),
    ]
    .map(|(method, on)| (method, on, Action::Connect))
    .to_vec()
}

fn is_connect(plural: &str, subresource: &str) -> bool {
    matches!(plural, "pods" | "services" | "nodes")
        && matches!(subresource, "proxy" | "exec" | "attach" | "portforward")
}

/// Returns whether a custom resource is served at this path: scope and path must agree.
fn defined_here(resource: &Resource, info: &RequestInfo) -> bool {
    match (resource.kind.namespaced, !info.namespace.is_empty()) {
        (false, true) => false,
        (true, false) => matches!(info.verb.as_str(), "list" | "watch"),
        _ => true,
    }
}

/// A custom resource is dispatched by verb rather than by route.
fn defined(resource: &Resource, info: &RequestInfo) -> Result<(Option<usize>, Action), Status> {
    let kind = &resource.kind;
    let action = match info.verb.as_str() {
        "get" => Some(Action::Get),
        "list" => Some(Action::List),
        "watch" if info.watch_prefix && !info.name.is_empty() => Some(Action::WatchOne),
        "watch" => Some(Action::Watch),
        "create" => Some(Action::Create),
        "update" => Some(Action::Update),
        "patch" => Some(Action::Patch(PatchType::Json)),
        "delete" => Some(Action::Delete),
        "deletecollection" => Some(Action::DeleteCollection),
        _ => None,
    };
    let subresources = &resource.kind_version().subresources;
    let (sub, action) = match info.subresource.as_str() {
        "" => (None, action),
        name => {
            let Some(index) = subresources.iter().position(|s| s.name == name) else {
                return Err(Status::not_found(&kind.group_resource(), &info.name));
            };
            let allowed = matches!(action, Some(Action::Get | Action::Update | Action::Patch(_)));
            (Some(index), action.filter(|_| allowed))
        }
    };
    action
        .map(|action| (sub, action))
        .ok_or_else(|| Status::method_not_supported(&kind.group_resource(), &info.verb))
}

/// The router compares media types literally, before negotiation.
fn check_media_types_literally(
    action: &Action,
    is_log: bool,
    request: &RouteRequest<'_>,
    media: &[Media],
) -> Result<(), Status> {
    let content = request.content_type;
    let by_letter = content.split(',').map(|t| t.split(';').next().unwrap_or("").trim_matches(' '));
    if matches!(action, Action::Patch(_))
        && !by_letter.into_iter().any(|t| PATCH_TYPES.iter().any(|(name, _)| *name == t))
    {
        return Err(respond::route_unsupported_media_type());
    }
    let streams = match action {
        Action::Connect => return Ok(()),
        Action::List | Action::Watch | Action::WatchOne => media,
        _ => &[],
    };
    let text = is_log.then_some("text/plain");
    let produced = || {
        let names = text.into_iter().chain(media.iter().map(|media| media.name()));
        names.chain(streams.iter().filter_map(|media| media.stream_name()))
    };
    if request.accept.names_any_of(|name| produced().any(|known| known == name)) {
        Ok(())
    } else {
        Err(respond::route_not_acceptable(&produced().collect::<Vec<_>>()))
    }
}

/// Returns whether kube-apiserver serves the status of this kind without a conversion to a Table.
fn has_status_without_table(kind: &Kind) -> bool {
    matches!(
        (kind.group.as_str(), kind.plural.as_str()),
        ("apiregistration.k8s.io", "apiservices")
            | ("apiextensions.k8s.io", "customresourcedefinitions")
            | ("resource.k8s.io", "resourceclaims" | "devicetaintrules" | "resourcepoolstatusrequests")
            | ("scheduling.k8s.io", "podgroups")
    )
}

fn negotiate_encoding(
    resource: &Resource,
    subresource: Option<usize>,
    action: &Action,
    request: &RouteRequest<'_>,
    media: &'static [Media],
) -> Result<Negotiated, Status> {
    let protobuf = resource.kind_version().protobuf;
    let standard: &[Media] = if protobuf {
        media
    } else if request.cbor {
        &[Media::Json, Media::Yaml, Media::Cbor]
    } else {
        &[Media::Json, Media::Yaml]
    };
    // Types that can only be created (reviews, bindings) and most subresources have no Table form.
    let table = match subresource.and_then(|index| resource.kind_version().subresources.get(index)) {
        Some(sub) => match sub.name.as_str() {
            "status" => !has_status_without_table(&resource.kind),
            name => name == "scale",
        },
        None => resource.kind.verbs.get,
    };
    // The answers of other servers are negotiated with them.
    match request.accept.for_resource(media, standard, table) {
        Err(_) if *action == Action::Connect => {
            Accept::parse("", None, "").for_resource(media, standard, table)
        }
        other => other,
    }
}

/// Adds the warning of a deprecated version to an error.
fn with_deprecation(resource: &Resource, mut status: Status) -> Status {
    status.warnings.extend(resource.kind_version().deprecation.as_ref().map(ToString::to_string));
    status
}

const PATCH_TYPES: &[(&str, PatchType)] = &[
    ("application/json-patch+json", PatchType::Json),
    ("application/merge-patch+json", PatchType::Merge),
    ("application/strategic-merge-patch+json", PatchType::StrategicMerge),
    ("application/apply-patch+yaml", PatchType::ApplyYaml),
    ("application/apply-patch+cbor", PatchType::ApplyCbor),
];

/// Determines the type of the body: the patch type, or the media type of an object.
fn checked_body(
    action: Action,
    group: &Group,
    request: &RouteRequest<'_>,
    media: &[Media],
) -> Result<(Action, Media), Status> {
    match action {
        Action::Patch(_) => {
            let name = request.content_type.split(';').next().unwrap_or("");
            let known: Vec<_> = PATCH_TYPES
                .iter()
                .filter(|(_, t)| group.installed || *t != PatchType::StrategicMerge)
                .filter(|(_, t)| request.cbor || *t != PatchType::ApplyCbor)
                .collect();
            match known.iter().find(|(n, _)| *n == name) {
                Some((_, patch_type)) => Ok((Action::Patch(*patch_type), Media::Json)),
                None => {
                    let names: Vec<&str> = known.iter().map(|(n, _)| *n).collect();
                    Err(Status::unsupported_media_type(&names))
                }
            }
        }
        Action::Create | Action::Update => Ok((action, negotiate::of_body(request.content_type, media)?)),
        _ => Ok((action, Media::Json)),
    }
}
