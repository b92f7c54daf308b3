//! How far a command got, for people at a terminal.

use std::io::{IsTerminal, Write};

/// A line on a terminal that says how far it got.
pub(crate) struct Progress {
    verb: &'static str,
    terminal: bool,
    shown: u64,
}

impl Progress {
    /// Nothing done yet; `verb` says what is being done.
    pub(crate) fn new(verb: &'static str) -> Progress {
        Progress { verb, terminal: std::io::stderr().is_terminal(), shown: 0 }
    }

    /// Shows `done`, now and then.
    pub(crate) fn show(&mut self, done: u64, unit: &str) {
        const STEP: u64 = 1000;
        if self.terminal && done >= self.shown + STEP {
            self.shown = done;
            _ = write!(std::io::stderr(), "\r{done} {unit} {}", self.verb);
        }
    }

    /// Ends the line.
    pub(crate) fn end(&mut self) {
        if self.shown > 0 {
            _ = writeln!(std::io::stderr());
            self.shown = 0;
        }
    }
}
