//! The options of the engine: endpoints, TLS, the prefix, intervals.

use crate::tls::Tls;
use pintle_store::BoxFuture;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};

/// The client address of an etcd member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Endpoint {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) tls: bool,
}

/// The reason why the options are invalid.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// An endpoint is not a URL with a host and a port.
    #[error("etcd endpoint {0:?} must be http://host:port or https://host:port")]
    Endpoint(String),
    /// No endpoint was given.
    #[error("no etcd endpoint was given")]
    NoEndpoint,
    /// A certificate or key cannot be read.
    #[error("cannot read {0}: {1}")]
    File(PathBuf, String),
    /// The TLS files cannot be used.
    #[error("TLS to etcd: {0}")]
    Tls(String),
}

/// The port of an endpoint that names none.
const DEFAULT_PORT: u16 = 2379;

impl Endpoint {
    /// Reads `http://host:port`, `https://host:port` or `host:port`.
    pub fn parse(text: &str) -> Result<Endpoint, OptionsError> {
        let bad = || OptionsError::Endpoint(text.to_owned());
        let (scheme, rest) = text.split_once("://").unwrap_or(("http", text));
        let tls = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(bad()),
        };
        let rest = rest.trim_end_matches('/');
        let (host, port) = match rest.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| bad())?),
            _ => (rest, DEFAULT_PORT),
        };
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() || host.contains(['/', '@']) {
            return Err(bad());
        }
        Ok(Endpoint { host: host.to_owned(), port, tls })
    }

    /// Host and port of an endpoint without TLS.
    pub fn plain_address(&self) -> Option<(&str, u16)> {
        (!self.tls).then_some((self.host.as_str(), self.port))
    }

    /// Host and port, as in a URL.
    pub fn authority(&self) -> String {
        let Endpoint { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

/// A byte stream to a member.
pub trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Opens a connection to host and port.
pub type Dial = Arc<dyn Fn(String, u16) -> BoxFuture<'static, Result<Box<dyn Stream>, String>> + Send + Sync>;

/// The options of the engine.
#[derive(Clone)]
pub struct Options {
    /// The members of the cluster.
    pub endpoints: Vec<Endpoint>,
    /// The TLS configuration, for endpoints that use TLS.
    pub tls: Option<Tls>,
    /// How connections are opened; `None` dials the endpoints themselves.
    pub dial: Option<Dial>,
    /// The prefix in etcd that replaces `own_prefix`.
    pub prefix: String,
    /// The prefix of all keys that callers of the store use.
    pub own_prefix: &'static str,
    /// How often history is compacted; zero if this server does not compact.
    pub compaction_interval: Duration,
    /// The maximum extra lifetime of a lease, so that several writes can share it.
    pub lease_reuse: Duration,
    /// The maximum number of writes that share a lease.
    pub lease_writes_max: u32,
    /// The time to live of keys with these prefixes, if a write specifies none.
    pub expiring: Vec<(&'static str, Duration)>,
    /// How long a write may take before its outcome counts as unknown.
    pub write_timeout: Duration,
    /// Selects the keys whose values stay in memory for [`pintle_store::Store::snapshot_state`]. Objects are already
    /// in the cache.
    pub retains_value: fn(&str) -> bool,
}

impl Options {
    /// kube-apiserver's defaults for these endpoints.
    pub fn new(endpoints: Vec<Endpoint>) -> Options {
        Options {
            endpoints,
            tls: None,
            dial: None,
            prefix: "/registry".into(),
            own_prefix: "/registry",
            compaction_interval: Duration::from_secs(5 * 60),
            lease_reuse: Duration::from_secs(60),
            lease_writes_max: 1000,
            expiring: Vec::new(),
            write_timeout: Duration::from_secs(34),
            retains_value: |_| true,
        }
    }
}

impl Options {
    /// The time to live of a key.
    pub(crate) fn ttl(&self, key: &str) -> Option<Duration> {
        self.expiring.iter().find(|(prefix, _)| key.starts_with(prefix)).map(|(_, ttl)| *ttl)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_read() {
        let read = |text| Endpoint::parse(text).ok().map(|e| (e.authority(), e.tls));
        assert_eq!(read("http://127.0.0.1:2379"), Some(("127.0.0.1:2379".into(), false)));
        assert_eq!(read("https://etcd.example.org:4001/"), Some(("etcd.example.org:4001".into(), true)));
        assert_eq!(read("https://[::1]:2379"), Some(("[::1]:2379".into(), true)));
        assert_eq!(read("etcd"), Some(("etcd:2379".into(), false)));
        for bad in ["", "ftp://a:1", "http://:1", "http://a:port", "http://a@b:1"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
