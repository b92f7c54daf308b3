//! `fuzz`: feeds made-up and damaged inputs to the decoders, the patches, apply and expressions, for a time, from a seed.
//!
//! There is no coverage to follow on stable Rust: inputs are made along the schemas of the built-in kinds and from
//! the bodies of the transcripts, then changed. A finding is an input that breaks a law, panics, takes too long or
//! too much memory, or ends the process; it is cut down, kept in a file, and printed with the command that repeats it.

mod arguments;
mod fixture;
mod generate;
mod mutate;
mod parent;
mod random;
mod targets;
mod worker;

use std::io::Write as _;
use std::process::ExitCode;

fn say(line: &str) {
    // Nobody reads on: nothing to do about it.
    let _ = writeln!(std::io::stdout(), "{line}");
}

fn main() -> ExitCode {
    let arguments = match arguments::Arguments::parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(usage) => {
            say(&usage);
            return ExitCode::from(2);
        }
    };
    let clean = if arguments.is_worker { worker::run(&arguments) } else { parent::run(&arguments) };
    if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
