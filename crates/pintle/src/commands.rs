//! The commands of the binary: one table that the dispatch and the help derive from.

use crate::{backup, certs, check, flags, migrate, owners, recover, serve};
use std::io::Write;
use std::process::ExitCode;

/// One command.
pub(crate) struct Subcommand {
    /// What is typed.
    pub(crate) name: &'static str,
    /// What it does, in a line.
    pub(crate) summary: &'static str,
    run: fn(Vec<String>) -> ExitCode,
}

/// All commands. Without one, the server is run.
pub(crate) const SUBCOMMANDS: &[Subcommand] = &[
    Subcommand { name: "serve", summary: "Run the server (also without a command)", run: run_server },
    Subcommand {
        name: "owners",
        summary: "Show who set which field of an object, like git blame",
        run: |args| exit(owners::run(args)),
    },
    Subcommand {
        name: "check",
        summary: "Say what the server would say to definitions and custom resources, without one",
        run: |args| check::run(args.into_iter()),
    },
    Subcommand {
        name: "kubeconfig",
        summary: "Make a kubeconfig with a client certificate for a person",
        run: |args| exit(certs::kubeconfig(args)),
    },
    Subcommand {
        name: "certs",
        summary: "Show the certificates and keys of a data folder, and until when they are good",
        run: |args| exit(certs::list(args)),
    },
    Subcommand {
        name: "backup",
        summary: "Write all objects to a file, also while the server runs",
        run: |args| exit(backup::backup(args)),
    },
    Subcommand {
        name: "restore",
        summary: "Make a new data folder from a backup",
        run: |args| exit(backup::restore(args)),
    },
    Subcommand {
        name: "migrate",
        summary: "Move all objects between a data folder and etcd",
        run: |args| exit(migrate::run(args)),
    },
    Subcommand {
        name: "recover",
        summary: "Go on with what can be read of a damaged data folder, and say what is lost",
        run: |args| exit(recover::run(args)),
    },
    Subcommand {
        name: "version",
        summary: "Print the version",
        run: |_| run_server(vec!["--version".into()]),
    },
    Subcommand { name: "help", summary: "Print the commands and flags", run: help },
];

/// Runs what the command line without the program's name asks for.
pub(crate) fn run(mut args: Vec<String>) -> ExitCode {
    let named = args.first().filter(|first| !first.starts_with('-')).cloned();
    let Some(name) = named else { return run_server(args) };
    match SUBCOMMANDS.iter().find(|command| command.name == name) {
        Some(command) => (command.run)(args.split_off(1)),
        None => fail(&unknown("command", &name, SUBCOMMANDS.iter().map(|command| command.name))),
    }
}

/// The text that refuses `name`, with the nearest of the names that there are.
pub(crate) fn unknown<'a>(what: &str, name: &str, all: impl Iterator<Item = &'a str>) -> String {
    match nearest(name, all) {
        Some(near) => format!("unknown {what} {name:?}: did you mean {near:?}?"),
        None => format!("unknown {what} {name:?} (pintle help lists them)"),
    }
}

fn nearest<'a>(name: &str, all: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let near = all.map(|known| (edit_distance(name, known), known)).min()?;
    // A third of the letters may be wrong; beyond that it is another word.
    (near.0 <= name.len().max(6) / 3).then_some(near.1)
}

/// Letters to insert, remove or replace to get from one word to the other.
fn edit_distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = index;
        let mut left = index + 1;
        for (wanted, cell) in to.iter().zip(row.iter_mut().skip(1)) {
            let replaced = diagonal + usize::from(*wanted != letter);
            diagonal = *cell;
            left = replaced.min(diagonal + 1).min(left + 1);
            *cell = left;
        }
        if let Some(first) = row.first_mut() {
            *first = index + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

fn run_server(args: Vec<String>) -> ExitCode {
    match flags::parse(args) {
        Ok(flags::Invocation::Print(text)) => print(&text),
        Ok(flags::Invocation::Serve(flags)) => match serve::run(&flags) {
            Err(error) if error.is_of_a_file() => {
                fail_as_command(&error.to_string());
                ExitCode::from(error.exit_code())
            }
            outcome => exit(outcome),
        },
        Err(error) => fail(&error.to_string()),
    }
}

fn help(args: Vec<String>) -> ExitCode {
    match args.first() {
        Some(name) if name != "help" && name != "serve" => run(vec![name.clone(), "--help".to_string()]),
        _ => print(&flags::help()),
    }
}

/// Writes to stdout.
pub(crate) fn print(text: &str) -> ExitCode {
    match std::io::stdout().write_all(text.as_bytes()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn exit<E: std::fmt::Display>(outcome: Result<(), E>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => fail(&error.to_string()),
    }
}

/// One clear sentence, and a code that says so. Errors of expressions show the place on lines of their own.
fn fail(why: &str) -> ExitCode {
    _ = writeln!(std::io::stderr(), "pintle: {why}");
    ExitCode::FAILURE
}

/// The same as kube-apiserver logs it, for those who look for a fault in a configuration file.
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
            assert_eq!(nearest(typed, names.into_iter()), want, "{typed}");
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
