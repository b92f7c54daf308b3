//! `ProcessorTurns`: decides when a client's input is read and its requests run. While more clients have work than
//! the processors can do, they take turns in the fair order of [`pintle_flow::Turns`], user by user, and not in the
//! order in which the runtime polls their connections.
//!
//! A connection whose socket is readable needs a turn of its user before anything is read ([`ClientTurns`]). Reading,
//! decrypting, parsing and executing the backlog of a flood all wait for a turn; noticing that a socket is readable
//! is cheap. The turn of the read also covers the first request of that read. Further requests of one read (HTTP/2)
//! and the chunks of long answers need turns of their own.
//!
//! Turns are given out in passes. A pass lets a few clients run and ends when the runtime has no other task to run,
//! so the runtime's own queue stays short for everyone: other users, exempt requests, health checks and watches.
//!
//! Connections of exempt requests need no turns.

use pintle_flow::Turns;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use tokio::sync::Notify;

/// The number of turns per processor in a pass. More turns make passes longer, and with them the time until a quiet
/// client is served; fewer turns need more passes.
const TURNS_PER_PROCESSOR: usize = 8;
/// The maximum number of refusals and handshakes that wait; more are not delayed.
const REFUSALS_WAITING_MAX: usize = 10_000;
/// The key of connections that need no turns.
pub(crate) const EXEMPT: u64 = 0;

/// Hands out turns. The key of a user or an address is its 64-bit hash with a secret seed.
pub struct ProcessorTurns {
    /// The number of turns left in this pass. It is zero while any client waits.
    left: AtomicUsize,
    per_pass: usize,
    waiting: Mutex<Waiting>,
    /// Signals that the next pass is needed.
    pass: Notify,
    numbers: AtomicU64,
    hasher: RandomState,
}

#[derive(Default)]
struct Waiting {
    work: Turns<Waker>,
    /// The queue of refused requests and of handshakes. They get one turn in a pass, and those turns that no other
    /// client uses: a client that repeats rejected requests at once must not take the processor from clients whose
    /// requests were admitted.
    refusals: Turns<Waker>,
}

impl Waiting {
    fn of(&mut self, class: Class) -> &mut Turns<Waker> {
        match class {
            Class::Work => &mut self.work,
            Class::Refusal => &mut self.refusals,
        }
    }
}

#[derive(Clone, Copy)]
enum Class {
    Work,
    Refusal,
}

impl Default for ProcessorTurns {
    fn default() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Self::with_pass(TURNS_PER_PROCESSOR.saturating_mul(processors))
    }
}

impl ProcessorTurns {
    fn with_pass(per_pass: usize) -> Self {
        ProcessorTurns {
            left: AtomicUsize::new(per_pass),
            per_pass,
            waiting: Mutex::default(),
            pass: Notify::new(),
            numbers: AtomicU64::new(0),
            hasher: RandomState::new(),
        }
    }

    /// Returns the turns of an admitted request, or of a read.
    pub(crate) fn turn_for_request(self: &Arc<Self>, key: u64) -> Turn {
        self.new_turn(Class::Work, key)
    }

    /// The turn of a refusal.
    pub(crate) fn turn_for_refusal(self: &Arc<Self>, key: u64) -> Turn {
        self.new_turn(Class::Refusal, key)
    }

    /// The key of a user.
    pub(crate) fn key_of_user(&self, user: &str) -> u64 {
        self.hasher.hash_one(user).max(EXEMPT.saturating_add(1))
    }

    /// The key of a client that is not authenticated yet.
    pub(crate) fn key_of_address(&self, address: IpAddr) -> u64 {
        self.hasher.hash_one(address).max(EXEMPT.saturating_add(1))
    }

    fn new_turn(self: &Arc<Self>, class: Class, key: u64) -> Turn {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        Turn { turns: Arc::clone(self), class, key, number, waits: false }
    }

    /// Runs passes until it is dropped.
    pub(crate) async fn run(self: Arc<Self>) {
        loop {
            self.pass.notified().await;
            loop {
                // The runtime resumes this task after all other tasks that can run.
                tokio::task::yield_now().await;
                if self.begin_pass() == 0 {
                    break;
                }
            }
        }
    }

    /// Gives the turns of a pass to waiting clients. Returns how many clients got one.
    fn begin_pass(&self) -> usize {
        let mut waiting = self.waiting();
        let mut woken = 0_usize;
        while woken < self.per_pass
            && let Some(next) = waiting.work.take_next()
        {
            next.wake();
            woken = woken.saturating_add(1);
        }
        let refusals_max = self.per_pass.saturating_sub(woken).max(1);
        for _ in 0..refusals_max {
            let Some(next) = waiting.refusals.take_next() else { break };
            next.wake();
            woken = woken.saturating_add(1);
        }
        let is_anyone_left = !waiting.work.is_empty() || !waiting.refusals.is_empty();
        let left = if is_anyone_left { 0 } else { self.per_pass.saturating_sub(woken) };
        self.left.store(left, Ordering::Relaxed);
        woken
    }

    /// Takes a turn of this pass, if one is left.
    fn take(&self) -> bool {
        let taken = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        // Request the next pass early enough that no request waits for it on a server with little load.
        if taken.is_ok_and(|left| left == self.per_pass / 2) {
            self.pass.notify_one();
        }
        taken.is_ok()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turns of one request, which may need several: one to be executed, and one for each chunk of a long answer.
/// Also the turn of one read.
pub(crate) struct Turn {
    turns: Arc<ProcessorTurns>,
    class: Class,
    key: u64,
    number: u64,
    waits: bool,
}

impl Turn {
    /// Waits for the next turn.
    pub(crate) async fn next(&mut self) {
        std::future::poll_fn(|cx| self.poll_next(cx)).await;
    }

    /// Polls until it is the request's turn.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.waits && self.turns.take() {
            return Poll::Ready(());
        }
        let mut waiting = self.turns.waiting();
        let turns = waiting.of(self.class);
        if self.waits && !turns.waits(self.key, self.number) {
            self.waits = false;
            return Poll::Ready(());
        }
        if !self.waits && matches!(self.class, Class::Work) && turns.take_first(self.key) {
            return Poll::Ready(());
        }
        if !self.waits && matches!(self.class, Class::Refusal) && turns.len() >= REFUSALS_WAITING_MAX {
            return Poll::Ready(());
        }
        turns.wait(self.key, self.number, cx.waker().clone());
        self.waits = true;
        self.turns.pass.notify_one();
        Poll::Pending
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.waits {
            self.turns.waiting().of(self.class).leave(self.key, self.number);
        }
    }
}

/// The turns of a connection. Its stream and its requests share them.
pub(crate) struct ClientTurns {
    turns: Arc<ProcessorTurns>,
    /// The key for the connection's reads: first that of its address, then that of the user of its last request.
    key: AtomicU64,
    /// Whether the last read had a turn that no request has used yet.
    is_unused: AtomicBool,
}

impl ClientTurns {
    pub(crate) fn new(turns: Arc<ProcessorTurns>, address: IpAddr) -> Self {
        let key = AtomicU64::new(turns.key_of_address(address));
        ClientTurns { turns, key, is_unused: AtomicBool::new(false) }
    }

    /// Is ready when the connection may read from its socket, which must be readable. Until then, `waiting` holds the
    /// turn.
    pub(crate) fn poll_read_turn(&self, waiting: &mut Option<Turn>, cx: &mut Context<'_>) -> Poll<()> {
        if waiting.is_none() {
            let key = self.key.load(Ordering::Relaxed);
            if key == EXEMPT || self.turns.take() {
                self.is_unused.store(true, Ordering::Relaxed);
                return Poll::Ready(());
            }
            *waiting = Some(self.turns.turn_for_request(key));
        }
        if waiting.as_mut().is_some_and(|turn| turn.poll_next(cx).is_pending()) {
            return Poll::Pending;
        }
        *waiting = None;
        self.is_unused.store(true, Ordering::Relaxed);
        Poll::Ready(())
    }

    /// Notes that the client at `address` sent something that is not TLS.
    pub(crate) fn set_not_tls(&self, address: IpAddr) {
        let key = self.turns.hasher.hash_one((address, "not TLS")).max(EXEMPT.saturating_add(1));
        self.key.store(key, Ordering::Relaxed);
    }

    /// The key for the connection's turns.
    pub(crate) fn key(&self) -> u64 {
        self.key.load(Ordering::Relaxed)
    }

    /// Assigns the connection to the user of a request, once the request is classified.
    pub(crate) fn set_user(&self, key: u64, is_exempt: bool) {
        self.key.store(if is_exempt { EXEMPT } else { key }, Ordering::Relaxed);
    }

    /// Uses the turn of the last read for a request. Returns whether no other request had used it.
    pub(crate) fn take_unused(&self) -> bool {
        self.is_unused.swap(false, Ordering::Relaxed)
    }

    /// The turns of all connections.
    pub(crate) fn all(&self) -> &Arc<ProcessorTurns> {
        &self.turns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;
    use tokio::task::{LocalSet, yield_now};

    const PER_PASS: usize = 4;

    /// Records who had a turn, in order.
    type Log = Rc<RefCell<Vec<&'static str>>>;

    async fn take_turn(mut turn: Turn, name: &'static str, log: Log) {
        turn.next().await;
        log.borrow_mut().push(name);
    }

    async fn with_turns(test: impl AsyncFnOnce(Arc<ProcessorTurns>, Log)) {
        let turns = Arc::new(ProcessorTurns::with_pass(PER_PASS));
        let passes = tokio::spawn(Arc::clone(&turns).run());
        LocalSet::new().run_until(test(turns, Log::default())).await;
        passes.abort();
    }

    #[tokio::test]
    async fn a_quiet_flow_waits_for_one_pass_of_a_flood() {
        with_turns(async |turns, log| {
            for _ in 0..1000 {
                tokio::task::spawn_local(take_turn(turns.turn_for_request(1), "flood", Rc::clone(&log)));
            }
            while log.borrow().len() < 100 {
                yield_now().await;
            }
            let before = log.borrow().len();
            take_turn(turns.turn_for_request(2), "quiet", Rc::clone(&log)).await;
            assert_eq!(log.borrow().len() - before, 1, "the first request of a flow waits for nobody");
            let before = log.borrow().len();
            take_turn(turns.turn_for_request(2), "quiet", Rc::clone(&log)).await;
            let waited = log.borrow().len() - before;
            // A waiting client may miss the current pass and the one that is being prepared.
            assert!(waited <= 2 * PER_PASS, "{waited}");
        })
        .await;
    }

    #[tokio::test]
    async fn refusals_take_a_small_part_and_are_not_starved() {
        with_turns(async |turns, log| {
            for _ in 0..500 {
                tokio::task::spawn_local(take_turn(turns.turn_for_refusal(1), "refused", Rc::clone(&log)));
                tokio::task::spawn_local(take_turn(turns.turn_for_request(1), "admitted", Rc::clone(&log)));
            }
            while log.borrow().len() < 400 {
                yield_now().await;
            }
            let refused = log.borrow().iter().filter(|name| **name == "refused").count();
            assert!((400 / (PER_PASS + 2)..400 / 3).contains(&refused), "{refused}");
        })
        .await;
    }

    #[tokio::test]
    async fn without_a_backlog_no_request_waits_and_idle_flows_are_removed() {
        with_turns(async |turns, _| {
            for _ in 0..100 {
                let mut turn = turns.turn_for_request(1);
                let mut next = std::pin::pin!(turn.next());
                assert!(std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await.is_ready());
                // The next pass begins once the runtime has no other task to run.
                yield_now().await;
                yield_now().await;
            }
            let mut all: Vec<_> = (0..20).map(|_| turns.turn_for_request(1)).collect();
            for turn in &mut all {
                let _ = std::future::poll_fn(|cx| Poll::Ready(turn.poll_next(cx))).await;
            }
            assert!(turns.waiting().work.len() >= 10);
            drop(all);
            assert_eq!(turns.waiting().work.len(), 0);
        })
        .await;
    }

    #[tokio::test]
    async fn a_read_waits_for_its_turn_unless_the_connection_is_exempt() {
        let turns = Arc::new(ProcessorTurns::with_pass(PER_PASS));
        let passes = tokio::spawn(Arc::clone(&turns).run());
        let flood: Vec<_> = (0..100).map(|_| client(&turns, "flood")).collect();
        let (quiet, exempt) = (client(&turns, "quiet"), client(&turns, "exempt"));
        exempt.set_user(1, true);
        let mut waiting: Vec<Option<Turn>> = flood.iter().map(|_| None).collect();
        let mut polls = flood.iter().zip(&mut waiting).map(|(one, turn)| has_turn(one, turn));
        assert_eq!(
            polls.by_ref().filter(|had| *had).count(),
            PER_PASS + 1,
            "those of a pass, and the user's first"
        );
        let mut none = None;
        assert!(
            has_turn(&quiet, &mut none) && !has_turn(&quiet, &mut none),
            "a user's first turn is at once"
        );
        assert!((0..100).all(|_| has_turn(&exempt, &mut None)));
        // Every client gets a turn, and the quiet user gets the next one soon.
        let mut passed = 0;
        while !has_turn(&quiet, &mut none) {
            yield_now().await;
            passed += 1;
            assert!(passed < 10);
        }
        for (one, turn) in flood.iter().zip(&mut waiting).filter(|(_, turn)| turn.is_some()) {
            while !has_turn(one, turn) {
                yield_now().await;
            }
        }
        assert_eq!(turns.waiting().work.len(), 0);
        passes.abort();
    }

    #[tokio::test]
    async fn the_turn_of_a_read_is_that_of_one_request() {
        let turns = Arc::new(ProcessorTurns::with_pass(PER_PASS));
        let client = client(&turns, "user");
        assert!(!client.take_unused());
        assert!(has_turn(&client, &mut None));
        assert!(client.take_unused() && !client.take_unused());
    }

    fn client(turns: &Arc<ProcessorTurns>, user: &str) -> ClientTurns {
        let client = ClientTurns::new(Arc::clone(turns), std::net::Ipv4Addr::LOCALHOST.into());
        client.set_user(turns.key_of_user(user), false);
        client
    }

    fn has_turn(client: &ClientTurns, waiting: &mut Option<Turn>) -> bool {
        client.poll_read_turn(waiting, &mut Context::from_waker(Waker::noop())).is_ready()
    }
}
