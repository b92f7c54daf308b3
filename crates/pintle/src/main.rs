//! `pintle`: the Kubernetes API server in one binary.

mod bootstrap;
mod check;
mod config;
mod data_dir;
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
            Err(e) => fail(&e.to_string()),
        },
    }
}

/// One clear line, and a code that says so.
fn fail(why: &str) -> ExitCode {
    _ = writeln!(std::io::stderr(), "pintle: {}", why.replace('\n', " "));
    ExitCode::FAILURE
}
