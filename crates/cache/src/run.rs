//! Runs: consecutive events, encoded and joined once for all watchers of a group.

use crate::encodings::EncodingKey;
use crate::event::Place;
use crate::options::RUNS_MAX;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Identifies a run: watchers at the same position with the same encoding share it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RunKey {
    /// Registration of the resource.
    pub(crate) epoch: u64,
    /// The place of the first event.
    pub(crate) first: Place,
    pub(crate) encoding: EncodingKey,
}

/// The frames, and the place up to which they contain all events.
#[derive(Clone)]
pub(crate) struct Run {
    pub(crate) bytes: Bytes,
    pub(crate) last: Place,
}

/// The latest runs of a group.
#[derive(Default)]
pub(crate) struct Runs(Mutex<VecDeque<(RunKey, Run)>>);

impl Runs {
    pub(crate) fn get(&self, key: RunKey) -> Option<Run> {
        self.lock().iter().find(|(known, _)| *known == key).map(|(_, run)| run.clone())
    }

    pub(crate) fn store_run(&self, key: RunKey, run: Run) {
        let mut runs = self.lock();
        runs.retain(|(known, _)| *known != key);
        runs.truncate(RUNS_MAX - 1);
        runs.push_front((key, run));
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<(RunKey, Run)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_runs_are_kept() {
        let runs = Runs::default();
        let key = |first| RunKey { epoch: 1, first: Place::new(first, 0), encoding: EncodingKey(0) };
        let run = |last| Run { bytes: Bytes::from_static(b"x"), last: Place::new(last, 0) };
        for first in 0..=RUNS_MAX as u64 {
            runs.store_run(key(first), run(first + 1));
        }
        runs.store_run(key(3), run(9));
        let last = |key| runs.get(key).map(|run| run.last.revision());
        assert_eq!(last(key(3)), Some(9), "the later one of two");
        assert_eq!(last(key(0)), None, "the oldest made room");
        assert_eq!(last(key(RUNS_MAX as u64)), Some(RUNS_MAX as u64 + 1));
        assert_eq!(last(RunKey { epoch: 2, ..key(3) }), None, "of another registration");
        assert_eq!(last(RunKey { encoding: EncodingKey(1), ..key(3) }), None, "in another encoding");
    }
}
