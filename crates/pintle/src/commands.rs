//! The commands of the binary: one table for dispatch and help.

use crate::arguments::{self, Syntax};
use crate::output::{self, Output, object};
use crate::{
    assets, backup, certs, check, completion, console, flags, health, help, history, man, migrate, owners,
    recover, serve,
};
use pintle_http::version::{GIT_VERSION, platform};
use std::io::Write;
use std::process::ExitCode;

/// One command.
pub(crate) struct Subcommand {
    /// The name on the command line.
    pub(crate) name: &'static str,
    /// One line of help.
    pub(crate) summary: &'static str,
    run: fn(Vec<String>) -> ExitCode,
}

const fn command(name: &'static str, summary: &'static str, run: fn(Vec<String>) -> ExitCode) -> Subcommand {
    Subcommand { name, summary, run }
}

/// All commands. Without one, the server runs.
pub(crate) const SUBCOMMANDS: &[Subcommand] = &[
    command("serve", "Run the server (also without a command)", run_server),
    command("console", "Open the web console, signed in by a one-time link", |args| {
        exit_code(console::run(args))
    }),
    command(
        "owners",
        "Print the owners of an object's fields, and the conflicts that an apply would have",
        |args| exit_code(owners::run(args)),
    ),
    command("history", "Print the retained versions of an object: when, by whom, and what changed", |args| {
        exit_code(history::run(args))
    }),
    command("check", "Check manifests as the server would, without a server", check::run),
    command("kubeconfig", "Print a kubeconfig with a new client certificate for a user", |args| {
        exit_code(certs::kubeconfig(args))
    }),
    command("certs", "List the certificates and keys of a data folder with their expiration", |args| {
        exit_code(certs::list(args))
    }),
    command(
        "assets",
        "Create a folder for KUBEBUILDER_ASSETS: Pintle as envtest's kube-apiserver and etcd",
        |args| exit_code(assets::run(args)),
    ),
    command("backup", "Write all objects to a file, also while the server runs", |args| {
        exit_code(backup::backup(args))
    }),
    command("restore", "Create a data folder from a backup", |args| exit_code(backup::restore(args))),
    command("migrate", "Copy all objects between a data folder and etcd", |args| {
        exit_code(migrate::run(args))
    }),
    command(
        "recover",
        "Restore the readable part of a damaged data folder, and report what is lost",
        |args| exit_code(recover::run(args)),
    ),
    command("health", "Check the health of a server", |args| exit_code(health::run(args))),
    command("completion", "Print a script that completes commands and flags in bash, zsh or fish", |args| {
        exit_code(completion::run(args))
    }),
    command("man", "Print the manual page", |args| exit_code(man::run(args))),
    command("version", "Print the version", |args| exit_code(print_version(args))),
    command("help", "Print the commands and flags", |args| exit_code(help::run(args))),
];

/// Runs the command line, which is given without the program's name.
pub(crate) fn run(mut args: Vec<String>) -> ExitCode {
    let named = args.first().filter(|first| !first.starts_with('-')).cloned();
    let Some(name) = named else { return run_server(args) };
    match SUBCOMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(args.split_off(1)),
        None => fail(&unknown("command", &name, SUBCOMMANDS.iter().map(|command| command.name))),
    }
}

/// The `--help` of a command; empty if it has no flags of its own.
pub(crate) fn usage(command: &str) -> &'static str {
    match command {
        "assets" => assets::ASSETS.usage,
        "backup" => backup::BACKUP.usage,
        "certs" => certs::LIST.usage,
        "check" => check::USAGE,
        "completion" => completion::USAGE,
        "console" => console::SYNTAX.usage,
        "help" => help::USAGE,
        "history" => history::USAGE,
        "health" => health::SYNTAX.usage,
        "kubeconfig" => certs::KUBECONFIG.usage,
        "man" => man::USAGE,
        "migrate" => migrate::USAGE,
        "owners" => owners::USAGE,
        "recover" => recover::SYNTAX.usage,
        "restore" => backup::RESTORE.usage,
        "version" => VERSION.usage,
        _ => "",
    }
}

const VERSION: Syntax = Syntax {
    usage: "\
Usage: pintle version [-o text|json]

Prints the version of the Kubernetes API that is served; with -o json also that of Pintle.

  -o, --output FORMAT  text (default) or json
",
    values: &["output"],
    switches: &[],
    operands: 0..=0,
};

fn print_version(args: Vec<String>) -> Result<(), String> {
    let Some(arguments) = arguments::parse(&VERSION, args)? else { return Ok(()) };
    let tree = object([
        ("gitVersion", GIT_VERSION.into()),
        ("platform", platform().into()),
        ("pintle", env!("CARGO_PKG_VERSION").into()),
    ]);
    Output::parse(arguments.value("output"))?.print(&format!("Kubernetes {GIT_VERSION}\n"), &tree)
}

/// The error for the unknown `name`, with the nearest known name.
pub(crate) fn unknown<'a>(what: &str, name: &str, all: impl Iterator<Item = &'a str>) -> String {
    match nearest_name(name, all) {
        Some(near) => format!("unknown {what} {name:?}: did you mean {near:?}?"),
        None => format!("unknown {what} {name:?} (pintle help lists them)"),
    }
}

pub(crate) fn nearest_name<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = all.map(|known| (edit_distance(name, known), known)).min()?;
    // At most a third of the letters may differ.
    (near.0 <= name.len().max(6) / 3).then_some(near.1)
}

/// The number of letters to insert, remove or replace to get from one word to the other.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = index;
        let mut left = index.saturating_add(1);
        for (wanted, cell) in to.iter().zip(row.iter_mut().skip(1)) {
            let replaced = diagonal.saturating_add(usize::from(*wanted != letter));
            diagonal = *cell;
            left = replaced.min(diagonal.saturating_add(1)).min(left.saturating_add(1));
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = index.saturating_add(1);
        }
    }
    row.last().copied().unwrap_or(0)
}

fn run_server(args: Vec<String>) -> ExitCode {
    match flags::parse(args) {
        Ok(flags::Invocation::Print(text)) => print(&text),
        Ok(flags::Invocation::Serve(flags)) => match serve::run(&flags) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let why = error.to_string();
                if error.is_of_a_file() {
                    fail_as_command(&why);
                } else {
                    _ = fail(&why);
                }
                ExitCode::from(error.exit_code())
            }
        },
        Err(error) => fail(&error.to_string()),
    }
}

/// Writes to stdout.
pub(crate) fn print(text: &str) -> ExitCode {
    exit_code(output::write(text))
}

fn exit_code<E: std::fmt::Display>(outcome: Result<(), E>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

/// Prints an error and returns the exit code of a failure. Errors of expressions have further lines.
fn fail(why: &str) -> ExitCode {
    _ = writeln!(std::io::stderr(), "pintle: {why}");
    ExitCode::FAILURE
}

/// Also logs the error in kube-apiserver's format, for users who search for it.
fn fail_as_command(why: &str) {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistyped_names_are_refused_with_the_nearest() {
        let names = ["serve", "owners", "backup", "garbage-collector"];
        for (typed, want) in [
            ("sevre", Some("serve")),
            ("owner", Some("owners")),
            ("garbage-colector", Some("garbage-collector")),
            ("unrelated", None),
            ("x", None),
        ] {
            assert_eq!(nearest_name(typed, names.into_iter()), want, "{typed}");
        }
        let text = unknown("command", "bakup", names.into_iter());
        assert_eq!(text, "unknown command \"bakup\": did you mean \"backup\"?");
    }

    #[test]
    fn edit_distances() {
        for (from, to, want) in
            [("", "abc", 3), ("abc", "", 3), ("abc", "abc", 0), ("abc", "axc", 1), ("ab", "b", 1)]
        {
            assert_eq!(edit_distance(from, to), want, "{from} {to}");
        }
    }
}
