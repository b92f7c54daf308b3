//! `RequestMemory`: limits the memory that requests in flight take together, for their bodies and for the objects that they
//! decode. A request takes its part before it uses it, and holds it until it is done: while it waits for a webhook, or for a
//! full disk, its object stays in memory.
//!
//! Who finds no room waits in turn and is refused after a while. A user gets no more than what remains for all others: alone at
//! most half of the memory, and the next user at most half of the rest.

use crate::body::{ClientBody, unread_body};
use crate::dispatch::BODY_BYTES_MAX;
use bytes::Bytes;
use http_body_util::{BodyExt, Limited};
use pintle_meta::Status;
use pintle_proxy::WholeBody;
use pintle_value::{Value, cbor, json};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;

/// Bodies and stored objects up to this size are not counted: flow control limits the number of requests.
const SMALL_BYTES: usize = 16 * 1024;
/// What the larger bodies may take together.
const BODIES_BYTES_MAX: usize = 128 * 1024 * 1024;
/// What may be taken together by the objects that are decoded.
const OBJECTS_BYTES_MAX: usize = 384 * 1024 * 1024;
/// The most that one request takes of it. A pod with 130,000 empty containers takes 120 MB while it is written.
const OBJECT_BYTES_MAX: usize = OBJECTS_BYTES_MAX / 4;
/// How long a request waits for its part.
const WAIT_MAX: Duration = Duration::from_secs(10);
const RETRY_AFTER_SECONDS: i32 = 1;
/// What a value takes in a tree.
const VALUE_BYTES: usize = size_of::<Value>();
/// How many trees of an object there are while it is written: of the request, admitted, stored, with its field owners.
const TREES: usize = 4;

/// The limits of all requests. Requests that hold a part of `objects` never wait for one of `bodies`, so they cannot wait for
/// each other.
#[derive(Default)]
pub struct RequestMemory {
    bodies: Arc<Budget<BODIES_BYTES_MAX>>,
    objects: Arc<Budget<OBJECTS_BYTES_MAX>>,
}

/// What one request holds.
#[derive(Default)]
pub(crate) struct HeldMemory {
    body: Option<Part<BODIES_BYTES_MAX>>,
    objects: Option<Part<OBJECTS_BYTES_MAX>>,
}

impl RequestMemory {
    /// Reads a body once there is memory for it. The user of an exempt request is `None`; it takes no part of the limit.
    pub(crate) async fn read_body<B: ClientBody>(
        &self,
        user: Option<u64>,
        body: B,
        held: &mut HeldMemory,
    ) -> Result<Bytes, Status> {
        let length = body.size_hint().upper().and_then(|length| usize::try_from(length).ok());
        let length = length.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX);
        let mut body = std::pin::pin!(Limited::new(body, BODY_BYTES_MAX));
        let mut whole = WholeBody::default();
        while let Some(frame) = body.as_mut().frame().await {
            let Ok(chunk) = frame.map_err(|error| unread_body(error, BODY_BYTES_MAX))?.into_data() else {
                continue;
            };
            // A client that announces a long body and does not send it takes nothing.
            if held.body.is_none()
                && let Some(user) = user
                && whole.len().saturating_add(chunk.len()) > SMALL_BYTES
            {
                // Boxed: the future of a request has room for it otherwise.
                held.body = Some(Box::pin(self.bodies.take(user, length)).await?);
                whole.reserve(length);
            }
            whole.push(chunk);
        }
        Ok(whole.into_bytes())
    }

    /// Waits until there is memory for what a request decodes: its body, and the stored object that it changes.
    pub(crate) async fn reserve_objects(
        &self,
        user: Option<u64>,
        content_type: &[u8],
        body: &[u8],
        stored: &[u8],
        held: &mut HeldMemory,
    ) -> Result<(), Status> {
        let stored = if stored.len() > SMALL_BYTES { json_bytes(stored) } else { 0 };
        let body = if body.len() > SMALL_BYTES { decoded_bytes(content_type, body) } else { 0 };
        let bytes = body.saturating_add(stored).saturating_mul(TREES).min(OBJECT_BYTES_MAX);
        if let Some(user) = user.filter(|_| bytes > 0) {
            held.objects = Some(Box::pin(self.objects.take(user, bytes)).await?);
        }
        Ok(())
    }
}

/// An upper bound of the memory that a body takes when it is decoded, without defaults.
fn decoded_bytes(content_type: &[u8], body: &[u8]) -> usize {
    let has = |word: &[u8]| content_type.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    let values = if has(b"yaml") {
        body.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{' | b'\n' | b':')).count()
    } else if has(b"cbor") {
        cbor::value_count(body)
    } else if has(b"protobuf") {
        // An empty message takes two bytes, but most fields are texts.
        body.len() / 8
    } else {
        return json_bytes(body);
    };
    values.saturating_mul(VALUE_BYTES).saturating_add(body.len())
}

fn json_bytes(json: &[u8]) -> usize {
    json::values_at_most(json).saturating_mul(VALUE_BYTES).saturating_add(json.len())
}

/// A number of bytes that users share.
struct Budget<const BYTES: usize> {
    state: Mutex<State>,
    /// Signals that a part was given back, or that a request no longer waits.
    changed: Notify,
    wait_max: Duration,
}

struct State {
    free: usize,
    users: HashMap<u64, User>,
    numbers: u64,
}

#[derive(Default)]
struct User {
    held: usize,
    /// The requests that wait, in order: a large one must not wait for ever because small ones overtake it.
    waiting: VecDeque<u64>,
}

/// A part of a budget, which is given back when it is dropped.
struct Part<const BYTES: usize> {
    budget: Arc<Budget<BYTES>>,
    user: u64,
    bytes: usize,
}

/// A place among the waiting requests of a user, which is left when it is dropped.
struct Place<'a, const BYTES: usize> {
    budget: &'a Arc<Budget<BYTES>>,
    user: u64,
    number: u64,
}

impl<const BYTES: usize> Default for Budget<BYTES> {
    fn default() -> Self {
        Budget::new(WAIT_MAX)
    }
}

impl<const BYTES: usize> Budget<BYTES> {
    fn new(wait_max: Duration) -> Self {
        let state = State { free: BYTES, users: HashMap::new(), numbers: 0 };
        Budget { state: Mutex::new(state), changed: Notify::new(), wait_max }
    }

    /// Waits for a part; 429 if there is none for too long.
    async fn take(self: &Arc<Self>, user: u64, bytes: usize) -> Result<Part<BYTES>, Status> {
        let place = self.place(user);
        let granted = async {
            loop {
                let mut changed = std::pin::pin!(self.changed.notified());
                changed.as_mut().enable();
                if let Some(part) = place.try_take(bytes) {
                    return part;
                }
                changed.await;
            }
        };
        tokio::time::timeout(self.wait_max, granted).await.map_err(|_| {
            let why = "the server has no memory for the body of this request now, please try again later";
            Status::too_many_requests(why, RETRY_AFTER_SECONDS)
        })
    }

    fn place(self: &Arc<Self>, user: u64) -> Place<'_, BYTES> {
        let mut state = self.state();
        state.numbers = state.numbers.wrapping_add(1);
        let number = state.numbers;
        state.users.entry(user).or_default().waiting.push_back(number);
        Place { budget: self, user, number }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn forget_idle(&mut self, user: u64) {
        if self.users.get(&user).is_some_and(|user| user.held == 0 && user.waiting.is_empty()) {
            self.users.remove(&user);
        }
    }
}

impl<const BYTES: usize> Place<'_, BYTES> {
    /// Takes a part if it is the turn of this place, and if the user then holds no more than what remains for others.
    fn try_take(&self, bytes: usize) -> Option<Part<BYTES>> {
        let mut state = self.budget.state();
        let remaining = state.free.checked_sub(bytes)?;
        let user = state.users.get_mut(&self.user)?;
        let held = user.held.saturating_add(bytes);
        if user.waiting.front() != Some(&self.number) || held > remaining {
            return None;
        }
        user.held = held;
        state.free = remaining;
        Some(Part { budget: Arc::clone(self.budget), user: self.user, bytes })
    }
}

impl<const BYTES: usize> Drop for Place<'_, BYTES> {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        let Some(user) = state.users.get_mut(&self.user) else { return };
        user.waiting.retain(|number| *number != self.number);
        let others_wait = !user.waiting.is_empty();
        state.forget_idle(self.user);
        drop(state);
        if others_wait {
            self.budget.changed.notify_waiters();
        }
    }
}

impl<const BYTES: usize> Drop for Part<BYTES> {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        state.free = state.free.saturating_add(self.bytes);
        if let Some(user) = state.users.get_mut(&self.user) {
            user.held = user.held.saturating_sub(self.bytes);
        }
        state.forget_idle(self.user);
        drop(state);
        self.budget.changed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;
    const SOON: Duration = Duration::from_millis(1);

    type Small = Budget<{ 100 * MIB }>;
    type SmallPart = Part<{ 100 * MIB }>;

    /// Takes a part if that is possible at once.
    async fn take(budget: &Arc<Small>, user: u64, bytes: usize) -> Option<SmallPart> {
        tokio::time::timeout(Duration::ZERO, budget.take(user, bytes)).await.ok()?.ok()
    }

    async fn take_all(budget: &Arc<Small>, user: u64) -> Vec<SmallPart> {
        let mut parts = Vec::new();
        while let Some(part) = take(budget, user, MIB).await {
            parts.push(part);
        }
        parts
    }

    #[tokio::test]
    async fn a_user_gets_no_more_than_what_remains_for_others() {
        let budget = Arc::new(Small::default());
        let of_first = take_all(&budget, 1).await;
        let of_second = take_all(&budget, 2).await;
        assert_eq!((of_first.len(), of_second.len()), (50, 25));
        assert!(take(&budget, 3, 13 * MIB).await.is_none());
        assert!(take(&budget, 3, 12 * MIB).await.is_some());
        drop((of_first, of_second));
        let state = budget.state();
        assert!(state.users.is_empty() && state.free == 100 * MIB, "all is given back");
    }

    #[tokio::test]
    async fn requests_of_a_user_wait_in_order() {
        let budget = Arc::new(Small::default());
        let held = take(&budget, 1, 40 * MIB).await.unwrap();
        let (mut large, mut small) = (Box::pin(budget.take(1, 30 * MIB)), Box::pin(budget.take(1, MIB)));
        assert!(tokio::time::timeout(Duration::ZERO, &mut large).await.is_err());
        assert!(tokio::time::timeout(Duration::ZERO, &mut small).await.is_err(), "it must not overtake");
        assert!(take(&budget, 2, MIB).await.is_some(), "another user does not wait behind them");
        drop(held);
        assert!(large.await.is_ok() && small.await.is_ok());
    }

    #[tokio::test]
    async fn who_waits_too_long_is_refused() {
        let budget = Arc::new(Small::new(SOON));
        let held = take(&budget, 1, 40 * MIB).await.unwrap();
        let refused = budget.take(1, 30 * MIB).await.err().unwrap();
        assert_eq!((refused.code, refused.details.retry_after_seconds), (429, RETRY_AFTER_SECONDS));
        drop(held);
        assert!(take(&budget, 1, 30 * MIB).await.is_some(), "its place is free again");
    }

    #[test]
    fn what_is_decoded_is_estimated_by_its_values() {
        let text = "x".repeat(MIB);
        for (content_type, body, least, most) in [
            ("application/json", format!(r#"{{"a":"{text}"}}"#), MIB, 2 * MIB),
            ("application/json", "{},".repeat(MIB / 3), 8 * MIB, 30 * MIB),
            ("application/apply-patch+yaml", "- a\n".repeat(MIB / 4), 6 * MIB, 20 * MIB),
            ("application/vnd.kubernetes.protobuf", text, MIB, 6 * MIB),
        ] {
            let bytes = decoded_bytes(content_type.as_bytes(), body.as_bytes());
            assert!((least..most).contains(&bytes), "{content_type}: {bytes}");
        }
    }
}
