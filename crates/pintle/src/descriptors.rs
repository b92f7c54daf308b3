//! File descriptors: the limit of the process, and the share of client connections.

use rustix::process::{Resource, getrlimit, setrlimit};

/// Descriptors that are reserved for the store, for calls to webhooks, extension servers and nodes, and for reloaded
/// files.
const RESERVED: usize = 512;
/// The limit of connections even with more descriptors: each one takes memory.
const CONNECTIONS_MAX: usize = 100_000;

/// Raises the soft limit of descriptors to the hard limit. The soft limit is often 1,024, for programs that use
/// `select`.
pub(crate) fn raise_limit() {
    let mut limit = getrlimit(Resource::Nofile);
    if limit.current == limit.maximum {
        return;
    }
    limit.current = limit.maximum;
    if let Err(error) = setrlimit(Resource::Nofile, limit) {
        tracing::warn!("cannot raise the limit of file descriptors: {error}");
    }
}

/// The maximum number of concurrent connections.
pub(crate) fn connections_max() -> usize {
    let descriptors = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok());
    connections_of(descriptors)
}

/// The descriptors that are left for connections after the reserved ones. If there are few, connections get half of them.
fn connections_of(descriptors: Option<usize>) -> usize {
    match descriptors {
        None => CONNECTIONS_MAX,
        Some(all) => all.saturating_sub(RESERVED.min(all / 2)).min(CONNECTIONS_MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_descriptors_are_never_for_connections() {
        for (descriptors, connections) in
            [(Some(256), 128), (Some(1024), 512), (Some(4096), 3584), (Some(1 << 20), CONNECTIONS_MAX)]
        {
            assert_eq!(connections_of(descriptors), connections);
        }
        assert_eq!(connections_of(None), CONNECTIONS_MAX);
    }
}
