//! Raises etcd's revision: for objects that move here from a store whose revisions were higher.

use crate::channel::{Channel, Method};
use crate::grpc::CallError;
use crate::message::{Operation, TxnRequest, TxnResponse};
use bytes::Bytes;
use std::sync::Arc;
use tokio::task::JoinSet;

/// The key is written repeatedly, and removed at the end. It is outside of any prefix.
const KEY: &[u8] = b"pintle_migrate";
/// The number of concurrent writes.
const IN_FLIGHT: usize = 64;

/// Writes until the revision is at least `wanted`; `report` receives the progress. Each write raises it by one: a running
/// etcd has no faster way.
pub(crate) async fn raise(
    channel: &Arc<Channel>,
    wanted: u64,
    mut report: impl FnMut(u64),
) -> Result<u64, CallError> {
    let put = encode_transaction(&Operation::Put { key: KEY, value: b"", lease: 0 });
    let mut reached = read_revision(channel, &encode_transaction(&Operation::Get { key: KEY })).await?;
    if reached >= wanted {
        return Ok(reached);
    }
    let mut writes = JoinSet::new();
    while reached < wanted || !writes.is_empty() {
        while writes.len() < IN_FLIGHT && reached.saturating_add(writes.len() as u64) < wanted {
            let (channel, put) = (channel.clone(), put.clone());
            writes.spawn(async move { read_revision(&channel, &put).await });
        }
        let Some(written) = writes.join_next().await else { break };
        reached = reached.max(written.map_err(|error| CallError::Lost(error.to_string()))??);
        report(reached);
    }
    read_revision(channel, &encode_transaction(&Operation::Delete { key: KEY })).await
}

fn encode_transaction(operation: &Operation<'_>) -> Bytes {
    let mut txn = TxnRequest::default();
    txn.on_success(operation);
    txn.encode()
}

async fn read_revision(channel: &Channel, request: &Bytes) -> Result<u64, CallError> {
    let answer = channel.call(Method::Txn, request).await?;
    let answer = TxnResponse::decode(&answer).map_err(|error| CallError::malformed(&error))?;
    Ok(answer.header.revision)
}
