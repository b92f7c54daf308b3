//! `pintle recover`: restores the readable part of a damaged store, and reports what is lost.

use crate::arguments::{self, Syntax};
use crate::data_dir::DataDir;
use crate::output::{Output, number, object};
use crate::progress;
use pintle_store::{Options, Recovery};
use pintle_value::Value;
use std::fmt::Write;

pub(crate) const SYNTAX: Syntax = Syntax {
    usage: "\
Usage: pintle recover [--data-dir DIR] [--dry-run] [-o text|json]

Reads a damaged store as far as it is intact, reports the damaged file and the lost changes, and makes the store usable
again. Damaged files are first copied to lost-segment-…. The server must not be running.

      --data-dir DIR   The server's data folder (default ./pintle-data)
      --dry-run        Only report
  -o, --output FORMAT  text (default) or json
",
    values: &["data-dir", "output"],
    switches: &["dry-run"],
    operands: 0..=0,
};

/// Runs the command with the arguments after its name.
pub(crate) fn run(args: Vec<String>) -> Result<(), String> {
    let Some(arguments) = arguments::parse(&SYNTAX, args)? else { return Ok(()) };
    let path = arguments.data_dir();
    let store = path.join("store");
    if !store.is_dir() {
        return Err(format!("there is no store in {}", path.display()));
    }
    let _held = DataDir::open(&path).map_err(|error| error.to_string())?;
    let dry_run = arguments.has("dry-run");
    let output = Output::parse(arguments.value("output"))?;
    let recover = || pintle_store::recover(&store, &Options::default(), dry_run);
    let found = progress::during("reading the store", recover).map_err(|error| error.to_string())?;
    match found {
        Some(recovery) => output.print(&report_text(&recovery, dry_run), &in_json(&recovery, dry_run)),
        None => {
            let tree = object([("sound", Value::Bool(true))]);
            output.print("The store is sound; nothing was changed.\n", &tree)
        }
    }
}

fn in_json(recovery: &Recovery, dry_run: bool) -> Value {
    let texts = |all: &[String]| Value::Array(all.iter().map(|text| text.as_str().into()).collect());
    object([
        ("sound", Value::Bool(false)),
        ("dryRun", Value::Bool(dry_run)),
        ("damage", texts(&recovery.damage)),
        ("readUntil", number(recovery.read_until.0)),
        ("knownUntil", number(recovery.known_until.0)),
        ("objects", number(recovery.entries)),
        ("saved", texts(&recovery.saved)),
        ("revision", number(recovery.revision.0)),
    ])
}

fn report_text(recovery: &Recovery, dry_run: bool) -> String {
    let mut out = String::from("Damage:\n");
    for line in &recovery.damage {
        _ = writeln!(out, "  {line}");
    }
    let Recovery { read_until, known_until, entries, .. } = recovery;
    _ = writeln!(out, "Every change up to revision {read_until} could be read: {entries} objects are there.");
    _ = match known_until.0.saturating_sub(read_until.0) {
        0 => writeln!(out, "Lost: changes after revision {read_until}, if there were any."),
        lost => writeln!(
            out,
            "Lost: {lost} changes up to revision {known_until}, and later ones, if there were any."
        ),
    };
    for file in &recovery.saved {
        let verb = if dry_run { "would be" } else { "is" };
        _ = writeln!(out, "What could not be read {verb} in store/{file}");
    }
    _ = if dry_run {
        writeln!(out, "Nothing was changed (--dry-run).")
    } else {
        writeln!(out, "The store goes on at revision {}.", recovery.revision)
    };
    out
}
