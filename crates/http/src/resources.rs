//! Requests for resources: parses options, calls the engine and encodes its answer as negotiated.

mod computed;
mod delete;
mod encode;
mod history;
mod list;
mod pieces;
mod protobuf;
mod subresource;
mod transform;
mod watch;
mod watch_metrics;
mod write;

use crate::api::{Api, ApiRequest, ApiResponse, BoxFuture, LocateRequest, Located};
use crate::discovery::DiscoveryState;
use crate::flow::StoredObjects;
use crate::negotiate::Media;
use crate::requestinfo::RequestInfo;
use crate::route::Action;
use arc_swap::ArcSwap;
use bytes::Bytes;
use pintle_controllers::aggregation::Aggregation;
use pintle_controllers::components::Components;
use pintle_engine::{Access, Engine, ListRequest, Target};
use pintle_kinds::{Types, features};
use pintle_meta::Status;
use pintle_meta::options::{GetOptions, ListOptions, LogOptions, Query};
use pintle_metrics::families;
use pintle_value::Value;
use std::sync::Arc;
use std::time::Duration;

/// How many objects are sampled to estimate the size of a resource's objects.
const SAMPLED_OBJECTS: usize = 8;

/// Serves the objects of an engine.
pub struct Resources {
    engine: Arc<Engine>,
    access: Access,
    types: Types,
    discovery: ArcSwap<Published>,
    /// The shortest duration of a watch without a time-out of its own.
    min_request_timeout: Duration,
    aggregation: Arc<Aggregation>,
    components: Components,
}

/// Discovery documents, and the registry state that they were made from.
struct Published {
    changes: (u64, u64),
    state: Arc<DiscoveryState>,
}

impl Resources {
    /// Serves `engine`. `types` are the schemas of kinds that are not resources, `access` answers reviews.
    pub fn new(
        engine: Arc<Engine>,
        access: Access,
        types: Types,
        min_request_timeout: Duration,
        aggregation: Arc<Aggregation>,
    ) -> Self {
        let services = aggregation.services();
        let changes = (engine.storage().registry().changes(), services.changes);
        let state =
            Arc::new(DiscoveryState::new(engine.storage().registry().kinds().groups(), &services, None));
        let discovery = ArcSwap::from_pointee(Published { changes, state });
        drop(services);
        let components = Components::new(engine.clone());
        Resources { engine, access, types, discovery, min_request_timeout, aggregation, components }
    }

    /// All but a get is boxed: the future of a request has room for the largest branch, that of a write, and is copied when it is made.
    async fn answer(&self, request: &ApiRequest) -> Result<ApiResponse, Status> {
        let target = engine_target(&request.target, &request.info);
        let special =
            request.target.subresource().filter(|sub| sub.gvk != target.kind_version().gvk(&target.kind));
        if special.is_some() && request.target.action != Action::Connect {
            return Box::pin(self.answer_with_own_kind(request, target)).await;
        }
        if self.engine.reader().is_computed(&target) {
            return Box::pin(self.computed(request, target)).await;
        }
        if self.engine.writer().is_virtual(&target) {
            return Box::pin(self.create_virtual(request, target)).await;
        }
        match request.target.action {
            Action::Get => self.get(request, &target).await,
            Action::List => Box::pin(self.list(request, target)).await,
            Action::Watch | Action::WatchOne => Box::pin(self.watch(request, target)).await,
            Action::Create | Action::Update | Action::Patch(_) => Box::pin(self.write(request, target)).await,
            Action::Delete => Box::pin(self.delete(request, &target)).await,
            Action::DeleteCollection => Box::pin(self.delete_collection(request, target)).await,
            // The filter chain forwards these, so they never get here.
            Action::Connect => Err(Status::internal("a stream cannot be answered as an object")),
        }
    }

    async fn get(&self, request: &ApiRequest, target: &Target) -> Result<ApiResponse, Status> {
        let query = Query(&request.query);
        if query.switch("export") == Some(true) {
            let why = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(Status::bad_request(why));
        }
        if history::is_asked_for(request, target) {
            return Box::pin(self.history(request, target)).await;
        }
        let options = GetOptions::from_query(query);
        let object = self.engine.reader().get(target, &options.resource_version).await?;
        self.object_response(request, target, &object, 200).await
    }

    /// Builds a list request, with its selectors validated for the kind.
    fn list_request(&self, request: &ApiRequest, target: Target) -> Result<ListRequest, Status> {
        let mut options = ListOptions::from_query(Query(&request.query), true)?;
        let version = target.kind_version();
        for term in options.field_selector.terms() {
            let label = term.field.as_str();
            let known = label == "metadata.name"
                || (label == "metadata.namespace" && version.namespace_selectable)
                || version.selectable.iter().any(|f| f.label == label);
            if !known {
                return Err(Status::bad_request(version.unsupported(label)));
            }
        }
        // If a name was authorized, from the path or from a field selector, restrict the list or watch to it.
        if !request.info.name.is_empty() {
            options.narrow_to_name(&request.info.name)?;
        }
        Ok(ListRequest { target, options })
    }
}

impl Api for Resources {
    fn serve(&self, request: ApiRequest) -> BoxFuture<'_, ApiResponse> {
        Box::pin(async move {
            let _span = span_name(request.target.action).and_then(pintle_trace::span);
            match self.answer(&request).await {
                Ok(response) => response,
                Err(status) => {
                    let _span = pintle_trace::span("SerializeObject");
                    request.fail(&status)
                }
            }
        })
    }

    fn locate<'a>(&'a self, request: &'a LocateRequest<'a>) -> BoxFuture<'a, Result<Located, Status>> {
        Box::pin(async move {
            let resource = &request.target.resource;
            let target = Target {
                kind: resource.kind.clone(),
                version: resource.version,
                namespace: request.info.namespace.as_str().into(),
                name: request.info.name.as_str().into(),
                subresource: request.info.subresource.as_str().into(),
            };
            let query = Query(request.query);
            if target.subresource == "log" {
                let splits_streams = features::is_enabled("PodLogsQuerySplitStreams");
                let options = LogOptions::from_query(query, &target.name, splits_streams);
                // Requests count once their options can be decoded, even if these are invalid.
                if !matches!(&options, Err(status) if status.code == 400) {
                    let skips = query.switch("insecureSkipTLSVerifyBackend") == Some(true);
                    // As in kube-apiserver, the first request for a log registers this counter.
                    families::LOG_TLS_FAILURES.add(&[], 0);
                    families::LOG_BACKENDS.inc(&[if skips { "skip_tls_allowed" } else { "enforce_tls" }]);
                }
                let options = options?;
                let location = self.engine.writer().log_location(&target, &options, request.settings)?;
                return Ok(Located { location, warnings: Vec::new() });
            }
            let (location, warnings) = self
                .engine
                .writer()
                .connect(&target, request.user, query, request.path, request.settings)
                .await?;
            Ok(Located { location: Some(location), warnings })
        })
    }

    fn stored(&self, group: &str, resource: &str) -> Option<StoredObjects> {
        let kinds = self.engine.storage().registry().kinds();
        let kind = kinds.by_plural(group, resource)?;
        let view = self.engine.storage().cache().resource(&kind.store_prefix)?.view();
        let sizes: Vec<usize> =
            view.iter().take(SAMPLED_OBJECTS).map(|object| object.value().len()).collect();
        let number = |n: usize| u64::try_from(n).unwrap_or(u64::MAX);
        let average_bytes = number(sizes.iter().sum::<usize>().checked_div(sizes.len()).unwrap_or(0));
        Some(StoredObjects { objects: number(view.len()), average_bytes })
    }

    fn stored_bytes(&self, kind: &pintle_kinds::Kind, info: &RequestInfo) -> Bytes {
        if info.name.is_empty() {
            return Bytes::new();
        }
        let objects = self.engine.storage().cache().resource(&kind.store_prefix);
        let key = pintle_engine::object_key(kind.namespaced, &info.namespace, &info.name);
        let object = objects.and_then(|objects| objects.get(&key));
        object.map_or_else(Bytes::new, |object| object.value().clone())
    }

    fn definition(&self, kind: &pintle_kinds::Kind) -> Option<Value> {
        self.engine.storage().definition_of(kind)
    }

    fn discovery(&self) -> Arc<DiscoveryState> {
        let services = self.aggregation.services();
        let changes = (self.engine.storage().registry().changes(), services.changes);
        let published = self.discovery.load();
        if published.changes == changes {
            return published.state.clone();
        }
        let kinds = self.engine.storage().registry().kinds();
        let state = Arc::new(DiscoveryState::new(kinds.groups(), &services, Some(&published.state)));
        self.discovery.store(Arc::new(Published { changes, state: state.clone() }));
        state
    }
}

/// The span name of an action; watches have none.
fn span_name(action: Action) -> Option<&'static str> {
    match action {
        Action::Get => Some("Get"),
        Action::List => Some("List"),
        Action::Create => Some("Create"),
        Action::Update => Some("Update"),
        Action::Patch(_) => Some("Patch"),
        Action::Delete | Action::DeleteCollection => Some("Delete"),
        Action::Watch | Action::WatchOne | Action::Connect => None,
    }
}

/// Adds the warnings of a request that was executed to its answer, also if the answer cannot be written in the form that the
/// client wants.
fn with_warnings(answer: Result<ApiResponse, Status>, warnings: Vec<String>) -> Result<ApiResponse, Status> {
    match answer {
        Ok(mut response) => {
            response.warnings.extend(warnings);
            Ok(response)
        }
        Err(status) => Err(status.with_warnings(warnings)),
    }
}

/// The engine's target. Namespace, name and subresource are those that were authorized.
fn engine_target(routed: &crate::Target, info: &RequestInfo) -> Target {
    let is_collection = matches!(routed.action, Action::List | Action::Watch | Action::DeleteCollection);
    let is_created = routed.action == Action::Create && info.subresource.is_empty();
    Target {
        kind: routed.resource.kind.clone(),
        version: routed.resource.version,
        namespace: info.namespace.as_str().into(),
        name: if is_collection || is_created { Default::default() } else { info.name.as_str().into() },
        subresource: info.subresource.as_str().into(),
    }
}

/// The media types of bodies as the engine knows them.
fn media(content: Media) -> pintle_engine::decode::Media {
    match content {
        Media::Json => pintle_engine::decode::Media::Json,
        Media::Yaml => pintle_engine::decode::Media::Yaml,
        Media::Protobuf => pintle_engine::decode::Media::Protobuf,
        Media::Cbor => pintle_engine::decode::Media::Cbor,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::negotiate::Accept;
    use crate::route::{self, RouteRequest};
    use crate::{query, requestinfo};

    /// The verb that a user needs the right to.
    fn verb_of(action: Action) -> &'static str {
        match action {
            Action::Get => "get",
            Action::List => "list",
            Action::Watch | Action::WatchOne => "watch",
            Action::Create => "create",
            Action::Update => "update",
            Action::Patch(_) => "patch",
            Action::Delete => "delete",
            Action::DeleteCollection => "deletecollection",
            Action::Connect => "",
        }
    }

    /// Every path of every kind, by every method: the engine does what the user was authorized for.
    #[test]
    fn routes_execute_what_was_authorized() {
        let built_in = pintle_kinds::builtin().kinds.into_iter().map(Arc::new);
        let registry = pintle_engine::Registry::new(built_in.collect());
        let custom = |plural: &str, group: &str| {
            let mut kinds = pintle_kinds::builtin().kinds;
            let at = kinds.iter().position(|kind| kind.plural == plural).unwrap();
            let mut kind = kinds.swap_remove(at);
            kind.group = group.into();
            kind.store_prefix = format!("/registry/{group}/{plural}/").into();
            kind.versions.iter_mut().for_each(|version| version.group = group.into());
            Arc::new(kind)
        };
        registry.define(custom("deployments", "a.example.com")).unwrap();
        registry.define(custom("nodes", "a.example.com")).unwrap();
        let state = DiscoveryState::new(registry.kinds().groups(), &Default::default(), None);
        let mut executed = 0;
        for (base, plural) in [
            ("/api/v1", "pods"),
            ("/api/v1", "nodes"),
            ("/api/v1", "namespaces"),
            ("/apis/apps/v1", "deployments"),
            ("/apis/a.example.com/v1", "deployments"),
            ("/apis/a.example.com/v1", "nodes"),
        ] {
            for path in paths(base, plural) {
                for method in ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
                    for query in ["", "watch=1", "fieldSelector=metadata.name%3Dn"] {
                        executed += usize::from(check(&state, method, &path, query));
                    }
                }
            }
        }
        assert!(executed > 300, "only {executed} routes lead anywhere");
    }

    fn paths(base: &str, plural: &str) -> Vec<String> {
        let mut out = Vec::new();
        for prefix in ["", "watch/", "proxy/"] {
            for scope in ["", "namespaces/x/", "namespaces//"] {
                for rest in ["", "/n", "/n/status", "/n/scale", "/n/proxy/a/b", "/n/log", "/", "//status"] {
                    out.push(format!("{base}/{prefix}{scope}{plural}{rest}"));
                }
            }
        }
        out
    }

    /// Returns whether the request is routed; panics if it is routed to something other than what was authorized.
    fn check(state: &DiscoveryState, method: &str, path: &str, query: &str) -> bool {
        let Ok(info) = requestinfo::RequestInfo::parse(method, path.to_string(), &query::parse(query)) else {
            return false;
        };
        let accept = Accept::parse("", None, "");
        let content_type =
            if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
        let request = RouteRequest { method, accept: &accept, content_type, cbor: true };
        if !info.resource_request {
            return false;
        }
        let Ok(routed) = route::route(state, &info, &request) else { return false };
        let target = engine_target(&routed.target, &info);
        let what = format!("{method} {path}?{query}: {info:?} {:?}", routed.target.action);
        let kind_version = target.kind_version();
        assert_eq!(
            (kind_version.group.as_str(), target.kind.plural.as_str()),
            (&*info.group, &*info.resource),
            "{what}"
        );
        assert_eq!(kind_version.name, info.version.as_str(), "{what}");
        assert_eq!(target.namespace, info.namespace.as_str(), "{what}");
        assert_eq!(target.subresource, info.subresource.as_str(), "{what}");
        match routed.target.action {
            Action::Connect => assert_eq!(target.name, info.name.as_str(), "{what}"),
            action => assert_eq!(info.verb, verb_of(action), "{what}"),
        }
        match routed.target.action {
            // These are narrowed to the authorized name, if there is one, when their options are read.
            Action::List | Action::Watch => {}
            Action::DeleteCollection => assert_eq!(info.name, "", "{what}"),
            // The name of a new object is in the body; one in the path is ignored, as in kube-apiserver.
            Action::Create if info.subresource.is_empty() => {}
            _ => assert_eq!(target.name, info.name.as_str(), "{what}"),
        }
        true
    }
}
