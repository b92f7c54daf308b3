//! `pintle`: the Kubernetes API server in one binary.

mod bootstrap;
mod check;
mod config;
mod data_dir;
mod encryption;
mod endpoint;
mod flags;
mod kubeconfig;
mod objects;
mod owners;
mod pki;
mod proxying;
mod serve;

use std::io::Write;
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|command| command == "owners") {
        return match owners::run(std::env::args().skip(2)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) => fail(&e.to_string()),
        };
    }
    if std::env::args().nth(1).is_some_and(|command| command == "check") {
        return check::run(std::env::args().skip(2));
    }
    let invocation = match flags::parse(std::env::args().skip(1)) {
        Ok(invocation) => invocation,
        Err(e) => return fail(&e.to_string()),
    };
    match invocation {
        flags::Invocation::Print(text) => match std::io::stdout().write_all(text.as_bytes()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        },
        flags::Invocation::Serve(flags) => match serve::run(&flags) {
            Ok(()) => ExitCode::SUCCESS,
            Err(e) if e.is_of_a_file() => fail_as_command(&e.to_string()),
            Err(e) => fail(&e.to_string()),
        },
    }
}

/// One clear line, and a code that says so.
fn fail(why: &str) -> ExitCode {
    _ = writeln!(std::io::stderr(), "pintle: {}", why.replace('\n', " "));
    ExitCode::FAILURE
}

/// The same as kube-apiserver logs it, for those who look for a fault in a configuration file.
fn fail_as_command(why: &str) -> ExitCode {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let seconds = i64::try_from(since.as_secs()).unwrap_or_default();
    let (_, month, day) = pintle_value::calendar::date_of(seconds / 86_400);
    let (hour, minute, second) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    _ = writeln!(
        std::io::stderr(),
        "E{month:02}{day:02} {hour:02}:{minute:02}:{second:02}.{:06} {:7} run.go:72] \"command failed\" err={}",
        since.subsec_micros(),
        std::process::id(),
        pintle_meta::field::quoted(why),
    );
    ExitCode::FAILURE
}
