//! Skipped tests: tests that cannot run because something they need is not installed. They print that and are counted,
//! because a test runner prints nothing of a test that passes.

use std::io::Write;

/// The file that lists the skipped tests; `scripts/test` sets it, prints the list and fails if there is one.
const LIST: &str = "PINTLE_SKIPS";

/// Reports that the current test is skipped. The test must return after that.
#[expect(clippy::print_stderr, reason = "a test that is skipped says so")]
pub fn skip(reason: &str) {
    eprintln!("SKIPPED: {reason}");
    let Some(list) = std::env::var_os(LIST) else { return };
    let test = std::thread::current().name().unwrap_or("a test").to_string();
    let opened = std::fs::OpenOptions::new().create(true).append(true).open(&list);
    // One write per line, because tests run concurrently.
    let written = opened.and_then(|mut list| list.write_all(format!("{test}: {reason}\n").as_bytes()));
    if let Err(error) = written {
        eprintln!("the skip could not be written to {}: {error}", list.display());
    }
}
