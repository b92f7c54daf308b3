//! Errors that stop a bench.

use pintle_testkit::wire::WireError;

/// Why a bench has no results.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    #[error(transparent)]
    Wire(#[from] WireError),
    #[error("{0}: {1}")]
    File(String, std::io::Error),
    #[error("{0}")]
    Arguments(String),
    #[error("{method} {path} answered {status}: {body}")]
    Status { method: String, path: String, status: u16, body: String },
    #[error("not ready within {0} s")]
    NotReady(u64),
    #[error("a client ended abnormally")]
    Client,
    #[error("needs the server's process: give --pid or --start")]
    NoProcess,
    #[error("{0}")]
    Unexpected(String),
}
