//! The HTTP side of the server: TLS, connections, the filter chain, request parsing, negotiation, discovery and
//! streaming bodies. Objects are handled by the implementation of [`Api`].

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod aggregate;
pub mod api;
mod auditing;
pub mod body;
mod chain;
mod completion;
mod compress;
mod connection;
mod console;
mod cors;
pub mod debug;
pub mod discovery;
mod drain;
mod field_count;
mod filter_metrics;
pub mod flow;
mod handler_time;
mod head_budget;
mod head_stream;
mod headers;
pub mod health;
mod lifecycle;
mod limits;
mod metrics;
pub mod negotiate;
mod nonresource;
mod offload;
mod openapi;
pub mod openid;
mod pages;
mod passthrough;
mod peer;
pub mod query;
mod request_line;
pub mod requestinfo;
pub mod resources;
pub mod respond;
pub mod route;
pub mod server;
mod spans;
mod statuspb;
mod stream;
pub mod streams;
mod target;
pub mod tls;
mod turns;
pub mod version;
mod websocket;

pub use api::{Api, ApiRequest, ApiResponse, BoxFuture};
pub use body::Body;
pub use console::Console;
pub use cors::Cors;
pub use discovery::DiscoveryState;
pub use flow::FlowControl;
pub use lifecycle::Lifecycle;
pub use metrics::Metrics;
pub use negotiate::{Encoding, Negotiated, Transform};
pub use offload::Offload;
pub use pages::Pages;
pub use requestinfo::RequestInfo;
pub use route::{Action, Target};
pub use server::{Server, ServerConfig};
pub use turns::ProcessorTurns;
