//! The memory that responses of webhooks may take, all together: a webhook that sends huge responses to many calls at once must
//! not take all memory of the server.

use bytes::Bytes;
use pintle_value::json;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Responses up to this size are not counted: the number of calls is limited by the number of requests.
const UNCOUNTED_BYTES_MAX: usize = 256 << 10;
/// The memory limit of all other responses together, including what is reserved for their values.
const RESPONSES_BYTES_MAX: usize = 512 << 20;
/// The memory that is reserved for each value of a response: a list of empty lists has three bytes for each, and takes
/// ten times as much once it is decoded.
const VALUE_BYTES: usize = 64;
/// The unit in which memory is counted.
const UNIT_BYTES: usize = 1 << 10;

/// Counts the memory of responses until they are dropped.
#[derive(Clone)]
pub(crate) struct ResponseBudget(Arc<Semaphore>);

impl Default for ResponseBudget {
    fn default() -> Self {
        ResponseBudget::new(RESPONSES_BYTES_MAX)
    }
}

/// A response that is being read.
pub(crate) struct Reading {
    budget: ResponseBudget,
    held: Option<OwnedSemaphorePermit>,
    held_bytes: usize,
    body: Vec<u8>,
}

impl ResponseBudget {
    fn new(bytes: usize) -> Self {
        ResponseBudget(Arc::new(Semaphore::new(bytes / UNIT_BYTES)))
    }

    pub(crate) fn begin(&self) -> Reading {
        Reading { budget: self.clone(), held: None, held_bytes: UNCOUNTED_BYTES_MAX, body: Vec::new() }
    }
}

impl Reading {
    pub(crate) fn len(&self) -> usize {
        self.body.len()
    }

    /// Appends a part of the body; `false` if the budget is used up.
    pub(crate) fn push(&mut self, part: &[u8]) -> bool {
        // A vector doubles its capacity and has both copies for a moment.
        let wanted = self.body.len().saturating_add(part.len()).saturating_mul(2);
        let is_held = self.reserve(wanted);
        if is_held {
            self.body.extend_from_slice(part);
        }
        is_held
    }

    /// The whole body, which is counted until it is dropped; `None` if there is no memory for its values.
    pub(crate) fn end(mut self) -> Option<Bytes> {
        let values = json::values_at_most(&self.body).saturating_mul(VALUE_BYTES);
        let wanted = self.body.len().saturating_add(values);
        self.reserve(wanted).then(|| match self.held {
            None => Bytes::from(self.body),
            Some(held) => Bytes::from_owner(CountedBody { body: self.body, _held: held }),
        })
    }

    /// Makes sure that at least `wanted` bytes are counted.
    fn reserve(&mut self, wanted: usize) -> bool {
        let missing = wanted.saturating_sub(self.held_bytes);
        if missing == 0 {
            return true;
        }
        let units = missing.div_ceil(UNIT_BYTES);
        let Ok(count) = u32::try_from(units) else { return false };
        // Do not wait for memory: it may be held by another response that also waits.
        let Ok(more) = self.budget.0.clone().try_acquire_many_owned(count) else { return false };
        self.held_bytes = self.held_bytes.saturating_add(units.saturating_mul(UNIT_BYTES));
        match &mut self.held {
            Some(held) => held.merge(more),
            None => self.held = Some(more),
        }
        true
    }
}

struct CountedBody {
    body: Vec<u8>,
    _held: OwnedSemaphorePermit,
}

impl AsRef<[u8]> for CountedBody {
    fn as_ref(&self) -> &[u8] {
        &self.body
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 16 << 20;

    fn read(budget: &ResponseBudget, body: &[u8]) -> Option<Bytes> {
        let mut reading = budget.begin();
        body.chunks(64 << 10).all(|part| reading.push(part)).then(|| reading.end())?
    }

    fn free_bytes(budget: &ResponseBudget) -> usize {
        budget.0.available_permits() * UNIT_BYTES
    }

    #[test]
    fn small_responses_are_not_counted() {
        let budget = ResponseBudget::new(BYTES);
        let held: Vec<_> = (0..100).map(|_| read(&budget, &[b'x'; 1000]).unwrap()).collect();
        assert_eq!(free_bytes(&budget), BYTES);
        assert!(held.iter().all(|body| **body == [b'x'; 1000]));
    }

    #[test]
    fn large_responses_are_counted_until_they_are_dropped() {
        let budget = ResponseBudget::new(BYTES);
        let text = vec![b'x'; 3 << 19];
        let held: Vec<_> = std::iter::from_fn(|| read(&budget, &text)).take(100).collect();
        assert!((3..=10).contains(&held.len()), "{}", held.len());
        assert!(held.iter().all(|body| *body == text));
        drop(held);
        assert_eq!(free_bytes(&budget), BYTES, "all of it is free again, also after a refusal");
    }

    #[test]
    fn values_count_for_what_they_take() {
        let budget = ResponseBudget::new(BYTES);
        let lists = "[],".repeat(100_000);
        assert!(read(&budget, lists.as_bytes()).is_some(), "0.3 MB, 12 MB with what is reserved");
        assert!(read(&budget, lists.repeat(3).as_bytes()).is_none());
        assert_eq!(free_bytes(&budget), BYTES);
    }
}
