//! Parses the command lines of the smaller commands: flags with values, switches, and operands.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// The short forms of flags, for the commands that have the flag.
const SHORT: [(char, &str); 3] = [('f', "filename"), ('n', "namespace"), ('o', "output")];

/// The syntax of a command line.
pub(crate) struct Syntax {
    /// The text of `--help`.
    pub(crate) usage: &'static str,
    /// Names of the flags with a value, without dashes.
    pub(crate) values: &'static [&'static str],
    /// Names of the flags without a value.
    pub(crate) switches: &'static [&'static str],
    /// The number of operands.
    pub(crate) operands: RangeInclusive<usize>,
}

/// A parsed command line.
#[derive(Debug, Default)]
pub(crate) struct Arguments {
    values: BTreeMap<&'static str, Vec<String>>,
    switches: Vec<&'static str>,
    /// The arguments that are not flags.
    operands: Vec<String>,
}

/// Parses a command line; `None` for `--help`, after printing it.
pub(crate) fn parse(syntax: &Syntax, args: Vec<String>) -> Result<Option<Arguments>, String> {
    let mut parsed = Arguments::default();
    let mut args = args.into_iter();
    let usage = syntax.usage.lines().next().unwrap_or_default();
    while let Some(arg) = args.next() {
        if arg == "-h" || arg == "--help" {
            return crate::output::write(syntax.usage).map(|()| None);
        }
        let arg = long_form(arg, syntax);
        let Some(flag) = arg.strip_prefix("--") else {
            if arg.starts_with('-') && arg != "-" {
                return Err(format!("unknown flag {arg}. {usage}"));
            }
            parsed.operands.push(arg);
            continue;
        };
        let (name, inline) = match flag.split_once('=') {
            Some((name, value)) => (name, Some(value.to_string())),
            None => (flag, None),
        };
        if let Some(name) = syntax.values.iter().find(|known| **known == name) {
            let value = inline.or_else(|| args.next()).ok_or_else(|| format!("--{name} needs a value"))?;
            parsed.values.entry(name).or_default().push(value);
        } else if let Some(name) = syntax.switches.iter().find(|known| **known == name) {
            parsed.switches.push(name);
        } else {
            let all = syntax.values.iter().chain(syntax.switches).copied();
            return Err(match crate::commands::nearest_name(name, all) {
                Some(near) => format!("unknown flag --{name}: did you mean --{near}?"),
                None => format!("unknown flag --{name}. {usage}"),
            });
        }
    }
    match parsed.operands.get(*syntax.operands.end()) {
        Some(extra) => Err(format!("unexpected argument {extra:?}. {usage}")),
        None if parsed.operands.len() < *syntax.operands.start() => {
            Err(format!("an argument is missing. {usage}"))
        }
        None => Ok(Some(parsed)),
    }
}

/// `-o json`, `-o=json` and `-ojson` as `--output` for commands that have it; other arguments unchanged.
fn long_form(arg: String, syntax: &Syntax) -> String {
    let is_short = |(letter, name): &&(char, &str)| {
        syntax.values.contains(name) && arg.strip_prefix('-').is_some_and(|rest| rest.starts_with(*letter))
    };
    let Some((_, name)) = SHORT.iter().find(is_short) else { return arg };
    match arg.get(2..).unwrap_or_default().trim_start_matches('=') {
        "" => format!("--{name}"),
        value => format!("--{name}={value}"),
    }
}

impl Arguments {
    /// The operand at `index`, which must be below the number of the syntax.
    pub(crate) fn operand(&self, index: usize) -> &str {
        self.operands.get(index).map_or("", String::as_str)
    }

    /// All operands.
    pub(crate) fn operands(&self) -> &[String] {
        &self.operands
    }

    /// The last value of a flag.
    pub(crate) fn value(&self, name: &str) -> Option<&str> {
        self.values.get(name).and_then(|all| all.last()).map(String::as_str)
    }

    /// All values of a flag, in order.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &str> {
        self.values.get(name).into_iter().flatten().map(String::as_str)
    }

    /// Whether a switch was given.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.switches.contains(&name)
    }

    /// The data folder that `--data-dir` names, or the server's default.
    pub(crate) fn data_dir(&self) -> PathBuf {
        PathBuf::from(self.value("data-dir").unwrap_or("./pintle-data"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SYNTAX: Syntax = Syntax {
        usage: "Usage: pintle copy FILE [-o text|json]\n\nCopies.\n",
        values: &["output", "data-dir", "namespace"],
        switches: &["force"],
        operands: 1..=1,
    };

    fn parsed(line: &str) -> Result<Arguments, String> {
        let args = line.split_whitespace().map(str::to_string).collect();
        parse(&SYNTAX, args).map(Option::unwrap_or_default)
    }

    #[test]
    fn flags_may_stand_anywhere_and_some_have_a_short_form() {
        for line in
            ["a -o json", "-ojson a", "a -o=json", "--output json a", "--output=json a", "-o text a -o json"]
        {
            let arguments = parsed(line).unwrap();
            assert_eq!((arguments.operand(0), arguments.value("output")), ("a", Some("json")), "{line}");
        }
        for line in ["-n prod a", "-nprod a", "-n=prod a", "a --namespace prod"] {
            assert_eq!(parsed(line).unwrap().value("namespace"), Some("prod"), "{line}");
        }
        assert!(parsed("- --force").unwrap().has("force"));
    }

    #[test]
    fn errors_name_what_is_wrong() {
        for (line, why) in [
            ("", "an argument is missing. Usage: pintle copy FILE [-o text|json]"),
            ("a b", "unexpected argument \"b\". Usage: pintle copy FILE [-o text|json]"),
            ("a -o", "--output needs a value"),
            ("a -x", "unknown flag -x. Usage: pintle copy FILE [-o text|json]"),
            ("a --forse", "unknown flag --forse: did you mean --force?"),
            ("a --cabbage", "unknown flag --cabbage. Usage: pintle copy FILE [-o text|json]"),
        ] {
            assert_eq!(parsed(line).unwrap_err(), why, "{line}");
        }
        let without_output = Syntax { values: &[], ..SYNTAX };
        let why = parse(&without_output, vec!["-o".to_string()]).unwrap_err();
        assert!(why.starts_with("unknown flag -o. Usage: "), "{why}");
    }
}
