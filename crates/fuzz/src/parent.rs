//! The parent process, which supervises the worker: an input may end the worker's process.

use crate::arguments::Arguments;
use crate::say;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

/// How long a single input may take before it is considered endless.
const STUCK: Duration = Duration::from_secs(30);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Runs a worker and reports its result; returns whether there was no finding.
pub(crate) fn run(arguments: &Arguments) -> bool {
    let folder =
        std::env::temp_dir().join(format!("pintle-fuzz-{}-{}", arguments.target.name, std::process::id()));
    if std::fs::create_dir_all(&folder).is_err() {
        say("no room for inputs");
        return false;
    }
    let scratch = folder.join("input");
    let clean = match worker(arguments, &scratch) {
        Some(status) if status.success() => true,
        Some(status) => {
            if status.code().is_none() {
                say(&format!("{}: the process ended: {status}", arguments.target.name));
            }
            false
        }
        None => {
            say(&format!("{}: an input takes more than {} s", arguments.target.name, STUCK.as_secs()));
            false
        }
    };
    if clean {
        let _ = std::fs::remove_dir_all(&folder);
    } else {
        report(arguments, arguments.input.as_ref().unwrap_or(&scratch));
    }
    clean
}

/// The exit status of the worker; `None` if it hangs.
fn worker(arguments: &Arguments, scratch: &Path) -> Option<ExitStatus> {
    let mut command = Command::new(std::env::current_exe().ok()?);
    command.arg(arguments.target.name).arg("--worker").arg(scratch);
    command.args(["--seconds", &arguments.seconds.to_string(), "--seed", &arguments.seed.to_string()]);
    if let Some(input) = &arguments.input {
        command.arg("--input").arg(input);
    }
    let mut child = command.spawn().ok()?;
    let mut last = (std::fs::metadata(scratch).and_then(|m| m.modified()).ok(), Instant::now());
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(LOOK_EVERY);
        let modified = std::fs::metadata(scratch).and_then(|m| m.modified()).ok();
        if modified != last.0 {
            last = (modified, Instant::now());
        } else if last.1.elapsed() > STUCK {
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
    }
}

/// Prints a finding and the command that repeats it.
fn report(arguments: &Arguments, input: &PathBuf) {
    const PRINTED_BYTES_MAX: usize = 2_000;
    let bytes = std::fs::read(input).unwrap_or_default();
    let printed =
        String::from_utf8_lossy(bytes.get(..PRINTED_BYTES_MAX.min(bytes.len())).unwrap_or_default())
            .into_owned();
    say(&format!("the input ({} bytes, parts separated by a record separator): {printed:?}", bytes.len()));
    say(&format!(
        "again: cargo run --profile fuzz -p pintle-fuzz -- {} --input {}",
        arguments.target.name,
        input.display()
    ));
    if arguments.input.is_none() {
        say(&format!("found with: --seed {} --seconds {}", arguments.seed, arguments.seconds));
    }
}
