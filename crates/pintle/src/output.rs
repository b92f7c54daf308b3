//! The two forms in which a command prints its result: text for people, JSON for programs.

use pintle_value::{Value, json};
use std::io::{ErrorKind, Write};

/// The format of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Text,
    Json,
}

/// A value as JSON on one line, truncated after so many characters. JSON escapes control characters, so no value can control a
/// terminal.
pub(crate) fn one_line(value: &Value, chars_max: usize) -> String {
    let text = json::text(value);
    match text.char_indices().nth(chars_max) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or_default()),
        None => text,
    }
}

impl Output {
    /// Parses the value of `--output`.
    pub(crate) fn parse(value: Option<&str>) -> Result<Output, String> {
        match value {
            None | Some("text") => Ok(Output::Text),
            Some("json") => Ok(Output::Json),
            Some(other) => Err(format!("there is no output {other:?}: text or json")),
        }
    }

    /// Removes `-o VALUE`, `--output VALUE` or `--output=VALUE` from a command line whose other flags are parsed elsewhere.
    pub(crate) fn take(args: &mut Vec<String>) -> Result<Output, String> {
        let is_output = |arg: &String| arg == "-o" || arg == "--output" || arg.starts_with("--output=");
        let Some(at) = args.iter().position(is_output) else { return Ok(Output::Text) };
        let flag = args.remove(at);
        let value = match flag.split_once('=') {
            Some((_, value)) => value.to_string(),
            None if at < args.len() => args.remove(at),
            None => return Err("--output needs a value".to_string()),
        };
        Output::parse(Some(&value))
    }

    /// Prints a result in this form.
    pub(crate) fn print(self, text: &str, tree: &Value) -> Result<(), String> {
        match self {
            Output::Text => write(text),
            Output::Json => write(&pretty_json(tree)),
        }
    }
}

/// Writes to stdout. A reader that has seen enough, such as `head`, is no failure.
pub(crate) fn write(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(format!("cannot write: {error}")),
        _ => Ok(()),
    }
}

/// A tree as JSON with a line for each value.
pub(crate) fn pretty_json(tree: &Value) -> String {
    let mut out = Vec::new();
    json::print_pretty(tree, &mut out);
    if !out.ends_with(b"\n") {
        out.push(b'\n');
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// An object of these members.
pub(crate) fn object<const N: usize>(members: [(&str, Value); N]) -> Value {
    let mut out = Value::object();
    for (key, value) in members {
        out.set_at(&[key], value);
    }
    out
}

/// A number as a value; the largest one if it does not fit.
pub(crate) fn number(number: impl TryInto<i64>) -> Value {
    Value::Int(number.try_into().unwrap_or(i64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flag_is_taken_out_of_command_lines() {
        for (line, want, left) in [
            ("a b", Ok(Output::Text), "a b"),
            ("a --output json b", Ok(Output::Json), "a b"),
            ("--output=text a", Ok(Output::Text), "a"),
            ("a -o json", Ok(Output::Json), "a"),
            ("a --output", Err("--output needs a value".to_string()), "a"),
            ("--output yaml", Err("there is no output \"yaml\": text or json".to_string()), ""),
        ] {
            let mut args: Vec<String> = line.split_whitespace().map(str::to_string).collect();
            assert_eq!(Output::take(&mut args), want, "{line}");
            assert_eq!(args.join(" "), left, "{line}");
        }
    }
}
