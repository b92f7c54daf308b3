//! The progress of a command on a terminal: nothing within the first second, then a line that is updated.

use std::io::{IsTerminal, Write};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The time without output at the start.
const SILENT: Duration = Duration::from_secs(1);
/// The interval of updates.
const STEP: Duration = Duration::from_millis(200);

/// A progress line on a terminal.
pub(crate) struct Progress {
    verb: &'static str,
    terminal: bool,
    next: Instant,
    has_line: bool,
}

impl Progress {
    /// Starts at zero; `verb` names the work.
    #[cfg_attr(not(test), expect(clippy::arithmetic_side_effects, reason = "an instant plus seconds"))]
    pub(crate) fn new(verb: &'static str) -> Progress {
        let terminal = std::io::stderr().is_terminal();
        Progress { verb, terminal, next: Instant::now() + SILENT, has_line: false }
    }

    /// Updates the line, if enough time has passed.
    pub(crate) fn show(&mut self, done: u64, unit: &str) {
        if self.terminal && self.is_due(Instant::now()) {
            self.show_text(&format!("{done} {unit} {}", self.verb));
        }
    }

    fn show_text(&mut self, text: &str) {
        if self.terminal {
            _ = write!(std::io::stderr(), "\r{text}");
            self.has_line = true;
        }
    }

    #[cfg_attr(not(test), expect(clippy::arithmetic_side_effects, reason = "an instant plus seconds"))]
    fn is_due(&mut self, now: Instant) -> bool {
        let due = now >= self.next;
        if due {
            self.next = now + STEP;
        }
        due
    }

    /// Ends the line.
    pub(crate) fn end(&mut self) {
        if std::mem::take(&mut self.has_line) {
            _ = writeln!(std::io::stderr());
        }
    }
}

/// Runs `work` and prints every second on a terminal how long it has taken. For work without measurable progress.
pub(crate) fn during<T>(what: &str, work: impl FnOnce() -> T) -> T {
    if !std::io::stderr().is_terminal() {
        return work();
    }
    std::thread::scope(|scope| {
        let (done, is_done) = mpsc::channel::<()>();
        scope.spawn(move || {
            let mut seconds = 0_u64;
            while is_done.recv_timeout(SILENT) == Err(mpsc::RecvTimeoutError::Timeout) {
                seconds = seconds.saturating_add(1);
                _ = write!(std::io::stderr(), "\r{what}: {seconds} s");
            }
            if seconds > 0 {
                _ = writeln!(std::io::stderr());
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Waits for `work` and prints every second on a terminal how long it has taken.
pub(crate) async fn during_future<T>(what: &str, work: impl Future<Output = T>) -> T {
    let mut progress = Progress::new("so far");
    let mut work = std::pin::pin!(work);
    let start = Instant::now();
    loop {
        match tokio::time::timeout(SILENT, &mut work).await {
            Ok(result) => {
                progress.end();
                return result;
            }
            Err(_) => progress.show_text(&format!("{what}: {} s", start.elapsed().as_secs())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_within_the_first_second_then_five_times_a_second() {
        let mut progress = Progress::new("done");
        let start = Instant::now();
        let due =
            |progress: &mut Progress, millis: u64| progress.is_due(start + Duration::from_millis(millis));
        let shown: Vec<u64> = (0..20).map(|n| n * 100).filter(|at| due(&mut progress, *at)).collect();
        assert!(shown.first().is_some_and(|first| *first >= 1000), "{shown:?}");
        assert!(shown.windows(2).all(|pair| matches!(pair, [a, b] if b - a >= 200)), "{shown:?}");
        assert_eq!(during("x", || 5), 5);
    }
}
