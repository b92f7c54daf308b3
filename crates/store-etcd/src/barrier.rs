//! Read barriers: one linearizable read of etcd's revision for everyone who waits.

use crate::channel::{Channel, Method};
use crate::grpc::CallError;
use crate::message::{RangeRequest, RangeResponse};
use bytes::Bytes;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, oneshot};

type Answer = Result<u64, CallError>;

/// Those who wait for the next read.
#[derive(Default)]
pub(crate) struct Barrier {
    waiting: Mutex<Vec<oneshot::Sender<Answer>>>,
    asked: Notify,
}

impl Barrier {
    /// A revision that etcd had reached after the call began.
    pub(crate) async fn revision(&self) -> Answer {
        let (sender, receiver) = oneshot::channel();
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(sender);
        self.asked.notify_one();
        receiver.await.unwrap_or_else(|_| Err(CallError::NotSent("the store is closed".into())))
    }

    /// Reads for those who wait, one read at a time: whoever comes while one is under way waits for the next, which
    /// begins after they came.
    pub(crate) async fn run(self: Arc<Barrier>, channel: Arc<Channel>, key: Bytes) {
        let request = RangeRequest { key: &key, limit: 1, ..RangeRequest::default() }.encode();
        loop {
            self.asked.notified().await;
            let waiting = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
            if waiting.is_empty() {
                continue;
            }
            let answer = channel.read(Method::Range, &request).await.and_then(|message| {
                RangeResponse::decode(message).map_err(|error| CallError::malformed(&error))
            });
            let answer = answer.map(|response| response.header.revision);
            for waiter in waiting {
                // Whoever gave up waiting does not hear of it.
                let _ = waiter.send(answer.clone());
            }
        }
    }
}
