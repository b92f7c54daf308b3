//! One streaming reverse proxy for aggregated APIs, nodes, pods and services: dialers, TLS, header rules, links in pages,
//! and upgrades as byte tunnels. Knows bytes and HTTP; knows no objects and no users.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

mod chunked;
mod connection;
pub mod dial;
mod entities;
mod flaw;
pub mod forward;
mod head;
pub mod header;
#[cfg(test)]
mod hostile_backends;
mod konnectivity;
mod outgoing;
mod pace;
mod page_body;
mod pool;
pub mod rewrite;
pub mod sniff;
mod spdy;
mod stall;
mod terminal;
pub mod tls;
mod tls_stream;
pub mod translate;
pub mod transport;
pub mod tunnel;
mod upgraded;
mod verify;
mod websocket;
mod whole_body;

mod url;

pub use connection::BodyError;
pub use dial::{ConnectProxy, Dialer, Egress};
pub use flaw::CertificateFlaw;
pub use forward::{Forward, ForwardError, ProxyBody, Upgrade};
pub use stall::WriteTimeout;
pub use tls::{Identity, TlsOptions, Trust};
pub use transport::{Address, BoxError, RequestBody, SendError, Transport, empty_body};
pub use upgraded::Upgraded;
pub use url::{encode_query, escape_path, join as join_path, join_keeping_slash};
pub use websocket::head as websocket_head;
pub use whole_body::{WholeBody, read_whole};
