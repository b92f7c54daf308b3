//! `pintle help`: the commands and flags, as text or as JSON for tools that generate documentation or forms.

use crate::arguments::{self, Syntax};
use crate::commands::{self, SUBCOMMANDS, Subcommand};
use crate::completion::flags_of;
use crate::flags;
use crate::flags::table::{Flag, SECTIONS, Section};
use crate::output::{Output, object};
use pintle_value::Value;

pub(crate) const USAGE: &str = "\
Usage: pintle help [COMMAND] [-o text|json]

Prints the commands and the flags of the server, or the flags of a command.

  -o, --output FORMAT  text (default) or json
";

const SYNTAX: Syntax = Syntax { usage: USAGE, values: &["output"], switches: &[], operands: 0..=1 };

/// Runs the command with the arguments after its name.
pub(crate) fn run(args: Vec<String>) -> Result<(), String> {
    let Some(arguments) = arguments::parse(&SYNTAX, args)? else { return Ok(()) };
    let output = Output::parse(arguments.value("output"))?;
    let [name] = arguments.operands() else {
        let commands = SUBCOMMANDS.iter().map(command_json).collect();
        return output.print(&flags::help(), &object([("commands", Value::Array(commands))]));
    };
    let names = || SUBCOMMANDS.iter().map(|command| command.name);
    let command = SUBCOMMANDS.iter().find(|command| command.name == name);
    let command = command.ok_or_else(|| commands::unknown("command", name, names()))?;
    let text = match commands::usage(name) {
        "" => flags::help(),
        usage => usage.to_string(),
    };
    output.print(&text, &command_json(command))
}

fn command_json(command: &Subcommand) -> Value {
    let flags = match command.name {
        "serve" => SECTIONS.iter().flat_map(section_json).collect(),
        name => flags_of(name).iter().map(|flag| flag_json(&flag.name, &flag.value, &flag.text)).collect(),
    };
    object([
        ("name", command.name.into()),
        ("summary", command.summary.into()),
        ("usage", commands::usage(command.name).into()),
        ("flags", Value::Array(flags)),
    ])
}

fn section_json(section: &Section) -> Vec<Value> {
    let one = |flag: &Flag| {
        let mut out = flag_json(flag.name, flag.type_.name(), flag.text());
        out.set_at(&["default"], flag.default.into());
        out.set_at(&["section"], section.name.into());
        out.set_at(&["effective"], flag.help.is_some().into());
        out
    };
    section.flags.iter().map(one).collect()
}

fn flag_json(name: &str, value: &str, text: &str) -> Value {
    object([("name", name.into()), ("value", value.into()), ("text", text.into())])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_command_describes_its_flags() {
        for command in SUBCOMMANDS {
            let tree = command_json(command);
            let flags = tree.items_at(&["flags"]);
            assert!(!flags.is_empty(), "{}", command.name);
            for flag in flags {
                assert!(!flag.str_at(&["name"]).is_empty() && !flag.str_at(&["text"]).is_empty(), "{flag:?}");
            }
            let has = |name: &str| flags.iter().any(|flag| flag.str_at(&["name"]) == name);
            assert!(has("output") || command.name == "serve", "{} has no --output", command.name);
        }
        let serve = command_json(SUBCOMMANDS.iter().find(|command| command.name == "serve").unwrap());
        let port =
            serve.items_at(&["flags"]).iter().find(|flag| flag.str_at(&["name"]) == "secure-port").unwrap();
        assert_eq!((port.str_at(&["default"]), port.str_at(&["section"])), ("6443", "Secure serving"));
    }

    #[test]
    fn wrong_arguments() {
        for (line, why) in [
            ("nosuch", "unknown command \"nosuch\" (pintle help lists them)"),
            ("histroy", "unknown command \"histroy\": did you mean \"history\"?"),
            ("owners check", "unexpected argument \"check\". Usage: pintle help [COMMAND] [-o text|json]"),
            ("-o yaml", "there is no output \"yaml\": text or json"),
        ] {
            let args = line.split_whitespace().map(str::to_string).collect();
            assert_eq!(run(args).unwrap_err(), why, "{line}");
        }
    }
}
