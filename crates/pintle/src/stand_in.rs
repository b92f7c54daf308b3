//! An `Api` without objects, for a server whose engine is not wired in: discovery is empty, every resource is unknown.

use pintle_http::{Api, ApiRequest, ApiResponse, BoxFuture, DiscoveryState};
use std::sync::Arc;

/// Serves nothing.
#[derive(Default)]
pub(crate) struct NoObjects(Arc<DiscoveryState>);

impl Api for NoObjects {
    fn serve(&self, request: ApiRequest) -> BoxFuture<'_, ApiResponse> {
        Box::pin(async move { request.fail(&pintle_http::respond::route_not_found()) })
    }

    fn discovery(&self) -> Arc<DiscoveryState> {
        Arc::clone(&self.0)
    }
}
