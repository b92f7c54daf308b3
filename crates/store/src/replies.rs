//! Sends the answers of the sequencer's thread to the writers of a batch.
//!
//! A task that is woken from outside the runtime makes tokio wake one more worker, which looks for further work,
//! finds none and sleeps again. Answers therefore go through a queue that a task inside the runtime reads when an eventfd
//! is signalled: a batch costs one system call and wakes one worker.

use crate::stage::{Answer, Reply};
use rustix::event::{EventfdFlags, eventfd};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::unix::pipe;
use tokio::runtime::Handle;

/// The answers of one batch.
type Answers = Vec<(Reply, Answer)>;

/// The sending side, which belongs to the sequencer. Dropping it ends the task.
pub(crate) struct Replies {
    /// The queue of the task; `None` without a runtime, in which case the caller's thread sends the answers.
    channel: Option<Arc<Channel>>,
}

struct Channel {
    queue: Mutex<Queue>,
    /// An eventfd that is written to when the queue has changed. It is never read: the runtime polls it edge-triggered, so
    /// each write wakes the task, and its counter of 64 bits does not overflow.
    bell: OwnedFd,
}

#[derive(Default)]
struct Queue {
    answers: Answers,
    /// Whether the sequencer has ended.
    is_closed: bool,
    /// Whether the task has ended, which it also does when its runtime stops.
    is_abandoned: bool,
}

impl Replies {
    /// Starts a task in the caller's runtime, if there is one.
    pub(crate) fn start() -> Replies {
        Replies { channel: Handle::try_current().ok().and_then(|runtime| Channel::start(&runtime)) }
    }

    /// Sends the answers of a batch.
    pub(crate) fn send(&self, answers: Answers) {
        let undelivered = match &self.channel {
            Some(channel) => channel.push(answers),
            None => answers,
        };
        deliver(undelivered);
    }
}

impl Drop for Replies {
    fn drop(&mut self) {
        if let Some(channel) = &self.channel {
            channel.queue().is_closed = true;
            channel.wake_task();
        }
    }
}

impl Channel {
    /// `None` if the process has no descriptors left for an eventfd.
    fn start(runtime: &Handle) -> Option<Arc<Channel>> {
        let bell = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).ok()?;
        let _inside = runtime.enter();
        // Tokio has no type for eventfds. Of this one only its readiness is used, which is that of a pipe.
        let signals = pipe::Receiver::from_owned_fd_unchecked(bell.try_clone().ok()?).ok()?;
        let channel = Arc::new(Channel { queue: Mutex::default(), bell });
        runtime.spawn(deliver_all(Delivery(channel.clone()), signals));
        Some(channel)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues answers for the task; returns them if there is no task.
    fn push(&self, mut answers: Answers) -> Answers {
        let mut queue = self.queue();
        if queue.is_abandoned {
            return answers;
        }
        let is_first = queue.answers.is_empty();
        queue.answers.append(&mut answers);
        drop(queue);
        if is_first {
            self.wake_task();
        }
        answers
    }

    fn wake_task(&self) {
        // The write only fails if the counter is full, and then the task has been signalled.
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }
}

/// The receiving side. When the runtime drops the task, the remaining answers are sent nevertheless.
struct Delivery(Arc<Channel>);

impl Drop for Delivery {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.is_abandoned = true;
        let answers = std::mem::take(&mut queue.answers);
        drop(queue);
        deliver(answers);
    }
}

async fn deliver_all(delivery: Delivery, signals: pipe::Receiver) {
    loop {
        if signals.readable().await.is_err() {
            return;
        }
        // This clears the readiness, before the queue is read: answers that are queued later signal again.
        let _ = signals.try_io(|| io::Result::<()>::Err(io::ErrorKind::WouldBlock.into()));
        let mut queue = delivery.0.queue();
        let answers = std::mem::take(&mut queue.answers);
        let is_closed = queue.is_closed;
        drop(queue);
        deliver(answers);
        if is_closed {
            return;
        }
    }
}

fn deliver(answers: Answers) {
    for (reply, answer) in answers {
        // A writer that has gone does not need its answer.
        let _ = reply.send(answer);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::store::Revision;
    use tokio::runtime::Runtime;
    use tokio::sync::oneshot;

    fn new_batch(revisions: std::ops::Range<u64>) -> (Answers, Vec<oneshot::Receiver<Answer>>) {
        revisions
            .map(|revision| {
                let (reply, answer) = oneshot::channel();
                ((reply, Ok(Revision(revision))), answer)
            })
            .unzip()
    }

    #[test]
    fn a_runtime_delivers_every_batch() {
        let runtime = Runtime::new().unwrap();
        runtime.block_on(async {
            let replies = Replies::start();
            assert!(replies.channel.is_some());
            for first in 0..100 {
                let (answers, receivers) = new_batch(first..first + 3);
                // The answers are sent by another thread, as in the store.
                std::thread::scope(|threads| {
                    threads.spawn(|| replies.send(answers));
                });
                for (at, receiver) in receivers.into_iter().enumerate() {
                    assert_eq!(receiver.await.unwrap(), Ok(Revision(first + at as u64)));
                }
            }
        });
    }

    #[test]
    fn without_a_runtime_the_caller_delivers() {
        let replies = Replies::start();
        let (answers, receivers) = new_batch(7..8);
        replies.send(answers);
        for receiver in receivers {
            assert_eq!(receiver.blocking_recv().unwrap(), Ok(Revision(7)));
        }
    }

    #[test]
    fn answers_outlive_the_runtime() {
        let runtime = Runtime::new().unwrap();
        let replies = runtime.block_on(async { Replies::start() });
        let (before, received_before) = new_batch(0..50);
        replies.send(before);
        drop(runtime);
        let (after, received_after) = new_batch(50..100);
        replies.send(after);
        for (revision, receiver) in received_before.into_iter().chain(received_after).enumerate() {
            assert_eq!(receiver.blocking_recv().unwrap(), Ok(Revision(revision as u64)));
        }
    }
}
