//! `fuzz`: tests the decoders, the patches, apply and expressions with generated and mutated inputs, for a given time and
//! seed.
//!
//! Stable Rust has no coverage feedback: inputs are generated from the schemas of the built-in kinds and from the bodies
//! of the transcripts, then mutated. A finding is an input that violates a property, panics, takes too long or too much
//! memory, or ends the process; it is reduced, saved to a file, and printed with the command that repeats it.

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
    // An error of stdout is ignored.
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
