//! The worker process: runs inputs until one is a finding. It saves each input before running it, so that its parent
//! knows which one ended it.

use crate::arguments::Arguments;
use crate::fixture::Fixture;
use crate::random::Random;
use crate::say;
use crate::targets::{Input, Target, mutate};
use rustix::process::{Resource, Rlimit, setrlimit};
use std::io::{Seek as _, SeekFrom, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::time::{Duration, Instant};

/// An eighth of the stack of the server's threads: recursion that is too deep there fails here much earlier.
const STACK_BYTES: usize = 8 << 20;
/// More than any input needs, including the stacks for deep documents.
const MEMORY_BYTES_MAX: u64 = 1 << 30;
/// The time-out of an input of at most 64 KiB per part: more time means superlinear cost.
const TIME_MAX: Duration = Duration::from_millis(400);
/// How often an input that took too long is repeated: caches may have been cold.
const TRIES: usize = 3;
/// How long a finding is reduced.
const REDUCING_TIME: Duration = Duration::from_secs(20);
/// Separates the parts of an input in a file.
const SEPARATOR: &[u8] = b"\n\x1e\n";

/// Runs one input, or generated ones for a time; returns whether there was no finding.
pub(crate) fn run(arguments: &Arguments) -> bool {
    let limit = Rlimit { current: Some(MEMORY_BYTES_MAX), maximum: Some(MEMORY_BYTES_MAX) };
    let _ = setrlimit(Resource::As, limit);
    std::panic::set_hook(Box::new(|_| {}));
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(STACK_BYTES);
        let feeding = thread.spawn_scoped(scope, || run_inputs(arguments));
        feeding.ok().and_then(|feeding| feeding.join().ok()).unwrap_or(false)
    })
}

fn run_inputs(arguments: &Arguments) -> bool {
    let fixture = Fixture::new();
    let (target, Some(scratch)) = (arguments.target, arguments.scratch.as_deref()) else { return false };
    if let Some(path) = &arguments.input {
        let Some(input) = read(path) else { return false };
        let outcome = run_input(target, &fixture, &input);
        outcome.iter().for_each(|why| say(why));
        return outcome.is_none();
    }
    let mut random = Random::new(arguments.seed);
    let mut notes = std::fs::File::create(scratch).ok();
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let mut count: u64 = 0;
    while Instant::now() < end {
        let mut input = (target.seed)(&fixture, &mut random);
        mutate(target, &fixture, &mut random, &mut input);
        if let Some(notes) = &mut notes {
            note_input(notes, &input);
        }
        count += 1;
        if let Some(why) = run_input(target, &fixture, &input) {
            let smaller = reduce_finding(target, &fixture, input);
            let why = run_input(target, &fixture, &smaller).unwrap_or(why);
            let _ = std::fs::write(scratch, smaller.join(SEPARATOR));
            say(&format!("{}: {why}", target.name));
            return false;
        }
    }
    say(&format!("{}: {count} inputs", target.name));
    true
}

/// Runs an input; returns what is wrong with its result.
fn run_input(target: &Target, fixture: &Fixture, input: &Input) -> Option<String> {
    let mut fastest = Duration::MAX;
    for _ in 0..TRIES {
        let started = cpu_time();
        match catch_unwind(AssertUnwindSafe(|| (target.check)(fixture, input))) {
            Ok(Ok(())) => {}
            Ok(Err(why)) => return Some(why),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
                return Some(format!("panic: {}", text.unwrap_or("")));
            }
        }
        fastest = fastest.min(cpu_time().saturating_sub(started));
        if fastest <= TIME_MAX {
            return None;
        }
    }
    Some(format!("takes {} ms", fastest.as_millis()))
}

/// The processor time of this thread.
fn cpu_time() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

fn note_input(notes: &mut std::fs::File, input: &Input) {
    let bytes = input.join(SEPARATOR);
    let written = notes.seek(SeekFrom::Start(0)).and_then(|_| notes.write_all(&bytes));
    let _ = written.and_then(|()| notes.set_len(bytes.len() as u64));
}

/// Reads an input from a file.
fn read(path: &Path) -> Option<Input> {
    let bytes = std::fs::read(path).ok()?;
    let mut parts = Input::new();
    let mut rest = bytes.as_slice();
    while let Some(at) = rest.windows(SEPARATOR.len()).position(|window| window == SEPARATOR) {
        parts.push(rest.get(..at).unwrap_or_default().to_vec());
        rest = rest.get(at + SEPARATOR.len()..).unwrap_or_default();
    }
    parts.push(rest.to_vec());
    Some(parts)
}

/// Reduces a finding as long as it remains one.
fn reduce_finding(target: &Target, fixture: &Fixture, mut input: Input) -> Input {
    let end = Instant::now() + REDUCING_TIME;
    let mut piece = input.iter().map(Vec::len).max().unwrap_or(0) / 2;
    while piece > 0 && Instant::now() < end {
        let mut cut = false;
        for part in 0..input.len() {
            let mut at = 0;
            while at < input.get(part).map_or(0, Vec::len) && Instant::now() < end {
                let mut smaller = input.clone();
                if let Some(bytes) = smaller.get_mut(part) {
                    bytes.drain(at..(at + piece).min(bytes.len()));
                }
                if run_input(target, fixture, &smaller).is_some() {
                    input = smaller;
                    cut = true;
                } else {
                    at += piece;
                }
            }
        }
        if !cut {
            piece /= 2;
        }
    }
    input
}
