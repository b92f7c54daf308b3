//! kube-apiserver's compaction protocol: the server that wins the key compacts, once per interval for any number of
//! servers.

use crate::channel::{Channel, Method};
use crate::grpc::CallError;
use crate::message::{self, Condition, Operation, TxnRequest, TxnResponse};
use std::sync::Arc;
use std::time::Duration;

/// The key is outside of any prefix. Its version is the clock that all servers share.
pub(crate) const KEY: &[u8] = b"compact_rev_key";

/// Compacts every `interval`.
pub(crate) async fn run(channel: Arc<Channel>, interval: Duration) {
    let mut seen = Seen { version: 0, revision: 0 };
    loop {
        tokio::time::sleep(interval).await;
        match compact_once(&channel, &seen).await {
            Ok(next) => seen = next,
            Err(error) => tracing::warn!(%error, "compaction of etcd failed"),
        }
    }
}

/// The last observed state of the key: its version, and the revision at that time.
struct Seen {
    version: i64,
    revision: u64,
}

async fn compact_once(channel: &Channel, seen: &Seen) -> Result<Seen, CallError> {
    let value = seen.revision.to_string();
    let mut txn = TxnRequest::default();
    txn.add_condition(KEY, &Condition::Version(seen.version));
    txn.on_success(&Operation::Put { key: KEY, value: value.as_bytes(), lease: 0 });
    txn.on_failure(&Operation::Get { key: KEY });
    let answer = channel.call(Method::Txn, &txn.encode()).await?;
    let answer = TxnResponse::decode(&answer).map_err(|error| CallError::malformed(&error))?;
    let revision = answer.header.revision;
    if !answer.succeeded {
        // Another server was first: follow its clock.
        let version = answer.ranges.first().and_then(|range| range.kvs.first()).map_or(0, |kv| kv.version);
        return Ok(Seen { version, revision });
    }
    if seen.revision > 0 {
        channel.call(Method::Compact, &message::compaction(seen.revision)).await?;
        tracing::debug!(revision = seen.revision, "compacted etcd");
    }
    Ok(Seen { version: seen.version.saturating_add(1), revision })
}
