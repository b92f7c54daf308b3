//! Requests for resources: options are read, the engine is asked, its answer is written as negotiated.

mod delete;
mod encode;
mod list;
mod pieces;
mod protobuf;
mod subresource;
mod transform;
mod watch;
mod write;

use crate::api::{Api, ApiRequest, ApiResponse, BoxFuture, LocateRequest, Located};
use crate::discovery::DiscoveryState;
use crate::negotiate::Media;
use crate::route::Action;
use arc_swap::ArcSwap;
use pintle_engine::{Access, Engine, ListRequest, Target};
use pintle_kinds::Types;
use pintle_meta::Status;
use pintle_meta::options::{GetOptions, ListOptions, LogOptions, Query};
use pintle_value::Value;
use std::sync::Arc;
use std::time::Duration;

/// Serves the objects of an engine.
pub struct Resources {
    engine: Arc<Engine>,
    access: Access,
    types: Types,
    discovery: ArcSwap<Published>,
    /// Least time a watch without a timeout of its own lasts.
    min_request_timeout: Duration,
}

/// Discovery documents and the state of the registry they were made from.
struct Published {
    changes: u64,
    state: Arc<DiscoveryState>,
}

impl Resources {
    /// Serves `engine`; `types` are the schemas of kinds that are no resources, `access` answers reviews.
    pub fn new(engine: Arc<Engine>, access: Access, types: Types, min_request_timeout: Duration) -> Self {
        let changes = engine.registry.changes();
        let state = Arc::new(DiscoveryState::new(engine.registry.kinds().groups(), None));
        let discovery = ArcSwap::from_pointee(Published { changes, state });
        Resources { engine, access, types, discovery, min_request_timeout }
    }

    async fn answer(&self, request: &ApiRequest) -> Result<ApiResponse, Status> {
        let target = self.target(request);
        let special =
            request.target.subresource().filter(|sub| sub.gvk != target.kind_version().gvk(&target.kind));
        if special.is_some() && request.target.action != Action::Connect {
            return self.other_kind(request, target).await;
        }
        if self.engine.is_virtual(&target) {
            return self.create_virtual(request, target).await;
        }
        match request.target.action {
            Action::Get => self.get(request, &target).await,
            Action::List => self.list(request, target).await,
            Action::Watch | Action::WatchOne => self.watch(request, target).await,
            Action::Create | Action::Update | Action::Patch(_) => self.write(request, target).await,
            Action::Delete => self.delete(request, &target).await,
            Action::DeleteCollection => self.delete_collection(request, target).await,
            // The chain passes these on: they have no body that could be read here.
            Action::Connect => Err(Status::internal("a stream cannot be answered as an object")),
        }
    }

    async fn get(&self, request: &ApiRequest, target: &Target) -> Result<ApiResponse, Status> {
        let query = Query(&request.query);
        if query.switch("export") == Some(true) {
            let why = "the export parameter, deprecated since v1.14, is no longer supported";
            return Err(Status::bad_request(why));
        }
        let options = GetOptions::from_query(query);
        let object = self.engine.get(target, &options.resource_version).await?;
        self.object_response(request, target, &object, 200).await
    }

    /// Who changes a role or a binding finds it in force with the next request.
    fn refresh_policy(&self, target: &Target) {
        if let Some(rules) =
            self.access.rules.as_ref().filter(|_| Engine::is_policy(&target.kind.store_prefix))
        {
            rules.set(self.engine.policy());
        }
    }

    /// What the engine calls the target of a request.
    fn target(&self, request: &ApiRequest) -> Target {
        let resource = &request.target.resource;
        let by_path =
            !matches!(request.target.action, Action::List | Action::Watch | Action::DeleteCollection);
        let creates = request.target.action == Action::Create && request.info.subresource.is_empty();
        Target {
            kind: resource.kind.clone(),
            version: resource.version,
            namespace: request.info.namespace.as_str().into(),
            name: if by_path && !creates { request.info.name.as_str().into() } else { Default::default() },
            subresource: request.info.subresource.as_str().into(),
        }
    }

    /// A list request with its selectors checked against the kind.
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
        if request.target.action == Action::WatchOne {
            options.narrow_to_name(&request.info.name)?;
        }
        Ok(ListRequest { target, options })
    }
}

impl Api for Resources {
    fn serve(&self, request: ApiRequest) -> BoxFuture<'_, ApiResponse> {
        Box::pin(async move {
            match self.answer(&request).await {
                Ok(response) => response,
                Err(status) => request.fail(&status),
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
                let options = LogOptions::from_query(query, &target.name)?;
                let location = self.engine.log_location(&target, &options, request.settings)?;
                return Ok(Located { location, warnings: Vec::new() });
            }
            let (location, warnings) =
                self.engine.connect(&target, request.user, query, request.path, request.settings).await?;
            Ok(Located { location: Some(location), warnings })
        })
    }

    fn definition(&self, kind: &pintle_kinds::Kind) -> Option<Value> {
        self.engine.definition_of(kind)
    }

    fn discovery(&self) -> Arc<DiscoveryState> {
        let changes = self.engine.registry.changes();
        let published = self.discovery.load();
        if published.changes == changes {
            return published.state.clone();
        }
        let state =
            Arc::new(DiscoveryState::new(self.engine.registry.kinds().groups(), Some(&published.state)));
        self.discovery.store(Arc::new(Published { changes, state: state.clone() }));
        state
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
