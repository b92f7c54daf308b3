//! The command line.

use crate::targets::{TARGETS, Target};
use std::path::PathBuf;

const SECONDS: u64 = 60;

pub(crate) struct Arguments {
    pub(crate) target: &'static Target,
    pub(crate) seconds: u64,
    pub(crate) seed: u64,
    /// The input to repeat; otherwise inputs are generated.
    pub(crate) input: Option<PathBuf>,
    /// Whether this is the worker process, which a parent process supervises.
    pub(crate) is_worker: bool,
    /// The file to which the worker writes the next input.
    pub(crate) scratch: Option<PathBuf>,
}

fn usage() -> String {
    let mut text = "usage: fuzz TARGET [--seconds N] [--seed S] [--input FILE]\n".to_string();
    for target in TARGETS {
        text.push_str(&format!("  {:<18}{}\n", target.name, target.what));
    }
    text
}

impl Arguments {
    pub(crate) fn parse(mut arguments: impl Iterator<Item = String>) -> Result<Arguments, String> {
        let name = arguments.next().unwrap_or_default();
        let target = TARGETS.iter().find(|target| target.name == name).ok_or_else(usage)?;
        let mut parsed =
            Arguments { target, seconds: SECONDS, seed: 1, input: None, is_worker: false, scratch: None };
        while let Some(argument) = arguments.next() {
            let value = arguments.next().ok_or_else(usage)?;
            match argument.as_str() {
                "--seconds" => parsed.seconds = value.parse().map_err(|_| usage())?,
                "--seed" => parsed.seed = value.parse().map_err(|_| usage())?,
                "--input" => parsed.input = Some(value.into()),
                "--worker" => {
                    parsed.is_worker = true;
                    parsed.scratch = Some(value.into());
                }
                _ => return Err(usage()),
            }
        }
        Ok(parsed)
    }
}
