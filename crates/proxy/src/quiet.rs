//! `QuietWaker`: the waker of futures that wake each other while one task polls them all.
//!
//! hyper's client expects one task for the connection and another for the request; each wakes the other. If both are
//! in one task, the task would wake itself while it runs: the runtime would run it once more and wake another thread
//! to help.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

/// How often the futures are polled again because one of them woke another, before other tasks get their turn.
const POLLS_MAX: usize = 8;

/// Wakes the task only if it waits.
pub(crate) struct QuietWaker {
    state: Arc<State>,
    waker: Waker,
}

#[derive(Default)]
struct State {
    /// The task that waits.
    task: Mutex<Option<Waker>>,
    is_awaited: AtomicBool,
    is_woken: AtomicBool,
}

impl Default for QuietWaker {
    fn default() -> Self {
        let state = Arc::<State>::default();
        QuietWaker { waker: Waker::from(Arc::clone(&state)), state }
    }
}

impl QuietWaker {
    /// Calls `poll` until it is ready or no wake-up has arrived during the call.
    pub(crate) fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>,
    ) -> Poll<T> {
        let state = &*self.state;
        state.is_awaited.store(false, Ordering::SeqCst);
        let mut quiet = Context::from_waker(&self.waker);
        for _ in 0..POLLS_MAX {
            state.is_woken.store(false, Ordering::SeqCst);
            if let Poll::Ready(ready) = poll(&mut quiet) {
                return Poll::Ready(ready);
            }
            if !state.is_woken.load(Ordering::SeqCst) {
                break;
            }
        }
        state.wait(cx.waker());
        Poll::Pending
    }

    /// Polls once; later wake-ups do not reach a task.
    pub(crate) fn poll_once<T>(&self, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
        self.state.is_awaited.store(false, Ordering::SeqCst);
        poll(&mut Context::from_waker(&self.waker))
    }

    /// Forgets the task that waited.
    pub(crate) fn forget(&self) {
        self.state.is_awaited.store(false, Ordering::SeqCst);
        *self.state.task.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

impl State {
    fn wait(&self, waker: &Waker) {
        {
            let mut task = self.task.lock().unwrap_or_else(PoisonError::into_inner);
            if !task.as_ref().is_some_and(|known| known.will_wake(waker)) {
                *task = Some(waker.clone());
            }
        }
        self.is_awaited.store(true, Ordering::SeqCst);
        // A wake-up before this line found no waker.
        if self.is_woken.load(Ordering::SeqCst) && self.is_awaited.swap(false, Ordering::SeqCst) {
            waker.wake_by_ref();
        }
    }
}

impl Wake for State {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.is_woken.store(true, Ordering::SeqCst);
        if self.is_awaited.swap(false, Ordering::SeqCst) {
            let task = self.task.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(task) = task {
                task.wake();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn the_task_is_woken_only_while_it_waits() {
        let count = Arc::<Count>::default();
        let task = Waker::from(Arc::clone(&count));
        let mut cx = Context::from_waker(&task);
        let quiet = QuietWaker::default();
        let mut polls = 0;
        let polled = quiet.poll(&mut cx, |cx| {
            polls += 1;
            if polls < 3 {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(())
        });
        assert!(polled.is_ready());
        quiet.waker.wake_by_ref();
        assert_eq!((polls, count.0.load(Ordering::SeqCst)), (3, 0));
        assert!(quiet.poll(&mut cx, |_| Poll::<()>::Pending).is_pending());
        assert_eq!(count.0.load(Ordering::SeqCst), 0);
        quiet.waker.wake_by_ref();
        quiet.waker.wake_by_ref();
        assert_eq!(count.0.load(Ordering::SeqCst), 1, "woken once for each time it waits");
    }

    #[test]
    fn futures_that_never_stop_waking_each_other_yield() {
        let count = Arc::<Count>::default();
        let task = Waker::from(Arc::clone(&count));
        let quiet = QuietWaker::default();
        let mut polls = 0;
        let polled = quiet.poll(&mut Context::from_waker(&task), |cx| {
            polls += 1;
            cx.waker().wake_by_ref();
            Poll::<()>::Pending
        });
        assert!(polled.is_pending());
        assert_eq!((polls, count.0.load(Ordering::SeqCst)), (POLLS_MAX, 1));
    }

    #[test]
    fn a_wake_from_another_thread_is_not_lost() {
        for _ in 0..1000 {
            let count = Arc::<Count>::default();
            let task = Waker::from(Arc::clone(&count));
            let quiet = QuietWaker::default();
            let is_ready = Arc::new(AtomicBool::new(false));
            let (waker, set) = (quiet.waker.clone(), Arc::clone(&is_ready));
            let other = std::thread::spawn(move || {
                set.store(true, Ordering::SeqCst);
                waker.wake();
            });
            let polled =
                quiet.poll(&mut Context::from_waker(&task), |_| match is_ready.load(Ordering::SeqCst) {
                    true => Poll::Ready(()),
                    false => Poll::Pending,
                });
            other.join().unwrap();
            assert!(polled.is_ready() || count.0.load(Ordering::SeqCst) == 1);
        }
    }
}
