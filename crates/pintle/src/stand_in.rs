//! An `Api` without objects, for a server whose engine is not wired in: discovery of the built-in kinds, no objects.

use pintle_http::{Api, ApiRequest, ApiResponse, BoxFuture, DiscoveryState};
use std::sync::Arc;

/// Serves the discovery of the built-in kinds and nothing else.
pub(crate) struct NoObjects(Arc<DiscoveryState>);

impl Default for NoObjects {
    fn default() -> Self {
        let kinds: Vec<_> = pintle_kinds::builtin().kinds.into_iter().map(Arc::new).collect();
        NoObjects(Arc::new(DiscoveryState::new(&kinds, None)))
    }
}

impl Api for NoObjects {
    fn serve(&self, request: ApiRequest) -> BoxFuture<'_, ApiResponse> {
        Box::pin(async move { request.fail(&pintle_http::respond::route_not_found()) })
    }

    fn discovery(&self) -> Arc<DiscoveryState> {
        Arc::clone(&self.0)
    }
}
