//! Read barriers: one linearizable read of etcd's revision for all concurrent callers.
//!
//! The barrier has no task of its own: the first caller makes the read, so that a single caller wakes no other task.
//! Callers that arrive while a read is in flight wait for the next one, which one of them makes for all.

use crate::channel::{Channel, Method};
use crate::grpc::CallError;
use crate::message::{RangeRequest, RangeResponse};
use bytes::Bytes;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::oneshot;

type Answer = Result<u64, CallError>;

/// The message to a waiting caller.
enum Turn {
    Answer(Answer),
    /// The caller makes the next read.
    Lead(Lead),
}

#[derive(Default)]
struct State {
    /// Whether a caller reads or is about to.
    is_led: bool,
    /// Callers that wait for the next read.
    waiting: Vec<oneshot::Sender<Turn>>,
}

/// Makes one read at a time for all callers.
pub(crate) struct Barrier {
    channel: Arc<Channel>,
    request: Bytes,
    state: Arc<Mutex<State>>,
}

impl Barrier {
    /// Reads `key`, which need not exist.
    pub(crate) fn new(channel: Arc<Channel>, key: &[u8]) -> Barrier {
        let request = RangeRequest { key, limit: 1, ..RangeRequest::default() }.encode();
        Barrier { channel, request, state: Arc::default() }
    }

    /// A revision that etcd had reached after the call began.
    pub(crate) async fn revision(&self) -> Answer {
        let lead = match self.join_turn() {
            Ok(lead) => lead,
            Err(turn) => match turn.await {
                Ok(Turn::Answer(answer)) => return answer,
                Ok(Turn::Lead(lead)) => lead,
                Err(_) => return Err(CallError::NotSent("the store is closed".into())),
            },
        };
        let mut lead = lead.begin();
        let answer = self.read().await;
        lead.finish(&answer);
        answer
    }

    fn join_turn(&self) -> Result<Lead, oneshot::Receiver<Turn>> {
        let mut state = lock(&self.state);
        if !state.is_led {
            state.is_led = true;
            return Ok(Lead { state: self.state.clone(), served: Vec::new() });
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.push(sender);
        Err(receiver)
    }

    async fn read(&self) -> Answer {
        let message = self.channel.read(Method::Range, &self.request).await?;
        let response = RangeResponse::decode(&message).map_err(|error| CallError::malformed(&error))?;
        Ok(response.header.revision)
    }
}

/// The task of reading for all waiting callers. If its holder is cancelled, another caller gets it.
struct Lead {
    state: Arc<Mutex<State>>,
    /// The callers that the read in flight is for.
    served: Vec<oneshot::Sender<Turn>>,
}

impl Lead {
    /// Takes all waiting callers: they arrived before the read begins.
    fn begin(mut self) -> Lead {
        self.served = std::mem::take(&mut lock(&self.state).waiting);
        self
    }

    fn finish(&mut self, answer: &Answer) {
        for waiter in self.served.drain(..) {
            // A cancelled caller has dropped its receiver.
            let _ = waiter.send(Turn::Answer(answer.clone()));
        }
    }
}

impl Drop for Lead {
    fn drop(&mut self) {
        let next = {
            let mut state = lock(&self.state);
            // A cancelled read has no result for the callers that waited for it.
            state.waiting.append(&mut self.served);
            state.waiting.retain(|waiter| !waiter.is_closed());
            let next = state.waiting.pop();
            state.is_led = next.is_some();
            next
        };
        if let Some(next) = next {
            // If that caller is cancelled just now, the task is returned, dropped, and passed to another caller.
            let _ = next.send(Turn::Lead(Lead { state: self.state.clone(), served: Vec::new() }));
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The message that `waiter` has received, if any.
    fn turn(waiter: &mut oneshot::Receiver<Turn>) -> Option<Turn> {
        waiter.try_recv().ok()
    }

    fn barrier() -> Barrier {
        let options = crate::Options::new(vec![]);
        Barrier::new(Channel::new(&options).0, b"key")
    }

    #[test]
    fn callers_that_arrive_during_a_read_wait_for_the_next() {
        let barrier = barrier();
        let Ok(first) = barrier.join_turn() else { panic!("nobody leads") };
        let mut first = first.begin();
        let Err(mut second) = barrier.join_turn() else { panic!("the first leads") };
        let Err(mut third) = barrier.join_turn() else { panic!("the first leads") };
        first.finish(&Ok(1));
        assert!(turn(&mut second).is_none() && turn(&mut third).is_none(), "they came after the read began");
        drop(first);
        // One of the two leads and serves the other.
        let Some(Turn::Lead(lead)) = turn(&mut third) else { panic!("the last one leads") };
        let mut lead = lead.begin();
        lead.finish(&Ok(2));
        assert!(matches!(turn(&mut second), Some(Turn::Answer(Ok(2)))));
        drop(lead);
        assert!(barrier.join_turn().is_ok(), "nobody leads any more");
    }

    #[test]
    fn a_reader_who_gives_up_is_replaced() {
        let barrier = barrier();
        let Ok(first) = barrier.join_turn() else { panic!("nobody leads") };
        let waiting: Vec<_> = (0..3).filter_map(|_| barrier.join_turn().err()).collect();
        let first = first.begin();
        let [mut a, b, c] = <[_; 3]>::try_from(waiting).ok().unwrap();
        drop(b);
        drop(first);
        // The duty went to `c`, which gives up before it looks.
        drop(c);
        assert!(matches!(turn(&mut a), Some(Turn::Lead(_))));
        assert!(barrier.join_turn().is_ok(), "nobody leads any more");
    }
}
