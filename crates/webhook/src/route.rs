//! The URL of a webhook, from its `clientConfig` or from a redirect.

use crate::Services;
use pintle_kinds::endpoint::{Endpoint, Place};

/// The parts of a webhook's URL.
#[derive(Clone)]
pub(crate) struct Route {
    /// The name that the certificate must have.
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) authority: String,
    pub(crate) path_and_query: String,
}

impl Route {
    pub(crate) fn new(endpoint: &Endpoint, timeout_seconds: u64) -> Self {
        let (authority, path) = match &endpoint.place {
            Place::Url(url) => {
                let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
                let (authority, path) = split_path(rest);
                (authority.to_string(), path)
            }
            Place::Service { namespace, name, port, path } => {
                (format!("{name}.{namespace}.svc:{port}"), path.as_str())
            }
        };
        let path_and_query = format!("{}?timeout={timeout_seconds}s", cleaned(path));
        Route::of(authority, path_and_query)
    }

    /// The parts of an `https` URL.
    pub(crate) fn of_url(url: &str) -> Option<Self> {
        let rest = url.strip_prefix("https://")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end)?;
        let path = path.split('#').next().unwrap_or("");
        let slash = if path.starts_with('/') { "" } else { "/" };
        Some(Route::of(authority.to_string(), format!("{slash}{path}")))
    }

    pub(crate) fn of(authority: String, path_and_query: String) -> Self {
        let (host, port) = split_port(&authority);
        Route { host, port, authority, path_and_query }
    }

    /// The URL of a `Location`.
    pub(crate) fn moved(&self, location: &str) -> Self {
        let (authority, path) = match location.split_once("://") {
            Some((_, rest)) => split_path(rest),
            None => (self.authority.as_str(), location),
        };
        let slash = if path.starts_with('/') { "" } else { "/" };
        Route::of(authority.to_string(), format!("{slash}{path}"))
    }

    /// Host and port, by which credentials are looked up.
    pub(crate) fn host_port(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("https://{}{}", self.authority, self.path_and_query)
    }

    pub(crate) fn locate_endpoint(
        &self,
        services: &dyn Services,
        endpoint: &Endpoint,
    ) -> Result<(String, u16), String> {
        match &endpoint.place {
            Place::Url(_) => Ok((self.host.clone(), self.port)),
            Place::Service { namespace, name, port, .. } => services.locate(namespace, name, *port),
        }
    }
}

/// The authority of a URL without scheme, and the rest.
fn split_path(rest: &str) -> (&str, &str) {
    match rest.find('/') {
        Some(at) => (rest.get(..at).unwrap_or(""), rest.get(at..).unwrap_or("/")),
        None => (rest, "/"),
    }
}

/// A path as Go's client joins it: without empty and dot segments.
fn cleaned(path: &str) -> String {
    let mut steps: Vec<&str> = Vec::new();
    for step in path.split('/') {
        match step {
            "" | "." => {}
            ".." => _ = steps.pop(),
            other => steps.push(other),
        }
    }
    format!("/{}", steps.join("/"))
}

/// Host and port of an authority; brackets are for addresses with colons.
pub(crate) fn split_port(authority: &str) -> (String, u16) {
    const HTTPS: u16 = 443;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, port.parse().unwrap_or(HTTPS)),
        _ => (authority, HTTPS),
    };
    (host.trim_start_matches('[').trim_end_matches(']').to_string(), port)
}
