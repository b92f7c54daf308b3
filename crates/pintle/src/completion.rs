//! `pintle completion`: completion scripts for bash, zsh and fish, generated from the tables of commands and flags.

use crate::arguments::{self, Syntax};
use crate::commands::{self, SUBCOMMANDS};
use crate::flags::table::{self, Flag, Type};
use crate::output::{Output, object};
use std::fmt::Write;

pub(crate) const USAGE: &str = "\
Usage: pintle completion bash|zsh|fish [-o text|json]

Prints a script that completes commands and flags. To use it:

  bash  source <(pintle completion bash), or write it to /etc/bash_completion.d/pintle
  zsh   write it to a file _pintle in a folder of $fpath
  fish  pintle completion fish > ~/.config/fish/completions/pintle.fish

  -o, --output FORMAT  text (default) or json
";

const SYNTAX: Syntax = Syntax { usage: USAGE, values: &["output"], switches: &[], operands: 1..=1 };

/// A flag for completion.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Completed {
    /// Name without dashes.
    pub(crate) name: String,
    /// The short form with its dash; empty if there is none.
    pub(crate) short: String,
    /// The name of the flag's value; empty if it takes none.
    pub(crate) value: String,
    /// The flag or command's help text.
    pub(crate) text: String,
    /// The possible values, if they are few.
    choices: Vec<String>,
}

/// Runs the command with the arguments after its name.
pub(crate) fn run(args: Vec<String>) -> Result<(), String> {
    let Some(arguments) = arguments::parse(&SYNTAX, args)? else { return Ok(()) };
    let output = Output::parse(arguments.value("output"))?;
    let shell = arguments.operand(0);
    let script = match shell {
        "bash" => bash_script(),
        "zsh" => zsh_script(),
        "fish" => fish_script(),
        other => return Err(format!("there is no completion for {other:?}: bash, zsh or fish")),
    };
    output.print(&script, &object([("shell", shell.into()), ("script", script.as_str().into())]))
}

/// The flags of a command.
pub(crate) fn flags_of(command: &str) -> Vec<Completed> {
    match command {
        "serve" => serve_flags(),
        other => flags_in(commands::usage(other)),
    }
}

fn serve_flags() -> Vec<Completed> {
    let one = |flag: &Flag| Completed {
        name: flag.name.to_string(),
        short: String::new(),
        choices: Vec::new(),
        value: if flag.type_ == Type::Bool { String::new() } else { flag.type_.name().to_string() },
        text: flag.text().to_string(),
    };
    let mut flags: Vec<Completed> = table::flags().map(one).collect();
    flags.sort_by(|a, b| a.name.cmp(&b.name));
    flags
}

/// The flags that a usage text describes: lines such as `  -o, --output FORMAT  What it does`.
fn flags_in(usage: &str) -> Vec<Completed> {
    let mut out: Vec<Completed> = Vec::new();
    for line in usage.lines() {
        let inner = line.trim_start();
        let described = line.starts_with("  ") && inner.starts_with('-');
        let Some((head, text)) = inner.split_once("  ").filter(|_| described) else {
            let goes_on = line.starts_with("          ") && !inner.is_empty();
            match out.last_mut().filter(|_| goes_on) {
                Some(last) => _ = write!(last.text, " {inner}"),
                None => continue,
            }
            continue;
        };
        let Some((short, long)) = head.split_once("--") else { continue };
        let (name, value) = long.split_once([' ', '=']).unwrap_or((long, ""));
        let short = short.trim_end_matches([',', ' ']);
        let choices = choices_after(usage, &[&format!("--{name}"), short]);
        let (name, short, value, text) = (name.into(), short.into(), value.into(), text.trim().into());
        out.push(Completed { name, short, value, text, choices });
    }
    out
}

/// The lines of a usage text before the description.
pub(crate) fn synopsis(usage: &str) -> impl Iterator<Item = &str> {
    usage.lines().take_while(|line| !line.is_empty()).map(|line| line.trim_start_matches("Usage:").trim())
}

/// The choice, such as `text|json`, that follows one of these words in the synopsis.
fn choices_after(usage: &str, words: &[&str]) -> Vec<String> {
    let follows = |line: &str| {
        let mut parts = line.split_whitespace().map(|part| part.trim_matches(['[', ']']));
        parts.find(|part| words.contains(part)).and_then(|_| parts.next()).map(str::to_string)
    };
    let is_choice = |part: &String| {
        part.contains('|') && part.bytes().all(|b| b.is_ascii_lowercase() || b == b'-' || b == b'|')
    };
    let found = synopsis(usage).filter_map(follows).find(is_choice);
    found.iter().flat_map(|choice| choice.split('|')).map(str::to_string).collect()
}

/// The possible operands of a command, if they are few.
fn operands_of(command: &str) -> Vec<String> {
    match command {
        "help" => SUBCOMMANDS.iter().map(|command| command.name.to_string()).collect(),
        command => choices_after(commands::usage(command), &[command]),
    }
}

/// Whether the value of a flag is a path.
fn is_path(flag: &Completed) -> bool {
    let ends = ["file", "dir", "config", "kubeconfig", "path"];
    matches!(flag.value.as_str(), "FILE" | "DIR" | "string" | "strings" | "value")
        && ends.iter().any(|end| flag.name.ends_with(end))
}

fn bash_script() -> String {
    let names: Vec<&str> = SUBCOMMANDS.iter().map(|command| command.name).collect();
    let mut out = String::from("# Completion of pintle for bash. Written by `pintle completion bash`.\n");
    out.push_str("_pintle() {\n  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n");
    // Bash splits `--flag=value` into three words.
    out.push_str("  if [[ $current == = ]]; then current=; elif [[ $previous == = ]]; then previous=\"${COMP_WORDS[COMP_CWORD-2]}\"; fi\n");
    out.push_str("  local command=serve word flags\n  COMPREPLY=()\n");
    _ = writeln!(out, "  local commands=\"{}\"", names.join(" "));
    out.push_str("  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n    [[ \" $commands \" == *\" $word \"* ]] && { command=$word; break; }\n  done\n");
    out.push_str("  case \"$command $previous\" in\n");
    for command in SUBCOMMANDS {
        let flags = flags_of(command.name);
        let paths = flags.iter().filter(|flag| is_path(flag));
        let patterns: Vec<String> =
            paths.map(|flag| format!("\"{} --{}\"", command.name, flag.name)).collect();
        if !patterns.is_empty() {
            let patterns = patterns.join("|");
            _ = writeln!(out, "    {patterns})\n      COMPREPLY=($(compgen -f -- \"$current\")); return ;;");
        }
        for flag in flags.iter().filter(|flag| !flag.choices.is_empty()) {
            let (name, choices) = (command.name, flag.choices.join(" "));
            _ = writeln!(
                out,
                "    \"{name} --{}\"|\"{name} {}\")\n      COMPREPLY=($(compgen -W \"{choices}\" -- \"$current\")); return ;;",
                flag.name, flag.short
            );
        }
    }
    out.push_str("  esac\n  case \"$command\" in\n");
    for command in SUBCOMMANDS {
        let mut words: Vec<String> = flags_of(command.name).iter().map(|f| format!("--{}", f.name)).collect();
        words.push("--help".to_string());
        _ = writeln!(out, "    {}) flags=\"{}\" ;;", command.name, words.join(" "));
    }
    out.push_str(
        "  esac\n  if [[ $current == -* ]]; then\n    COMPREPLY=($(compgen -W \"$flags\" -- \"$current\"))\n",
    );
    out.push_str(
        "  elif [[ $COMP_CWORD == 1 ]]; then\n    COMPREPLY=($(compgen -W \"$commands\" -- \"$current\"))\n",
    );
    for command in SUBCOMMANDS {
        let operands = operands_of(command.name).join(" ");
        if !operands.is_empty() {
            _ = writeln!(
                out,
                "  elif [[ $command == {} ]]; then\n    COMPREPLY=($(compgen -W \"{operands}\" -- \"$current\"))",
                command.name
            );
        }
    }
    out.push_str("  else\n    COMPREPLY=($(compgen -f -- \"$current\"))\n  fi\n}\ncomplete -o filenames -F _pintle pintle\n");
    out
}

fn zsh_script() -> String {
    let mut out = String::from(
        "#compdef pintle\n# Completion of pintle for zsh. Written by `pintle completion zsh`.\n_pintle() {\n  local -a commands\n  commands=(\n",
    );
    for command in SUBCOMMANDS {
        _ = writeln!(out, "    '{}:{}'", command.name, zsh_quoted(command.summary));
    }
    out.push_str("  )\n  local command=serve\n  if (( CURRENT > 2 )) || [[ $words[2] != -* ]]; then\n    if (( CURRENT == 2 )); then _describe command commands; return; fi\n    [[ $words[2] != -* ]] && command=$words[2]\n  fi\n  case $command in\n");
    for command in SUBCOMMANDS {
        _ = writeln!(out, "    {})\n      _arguments \\", command.name);
        for flag in flags_of(command.name) {
            let text = zsh_quoted(&flag.text);
            let action = match flag.choices.join(" ") {
                choices if !choices.is_empty() => format!("({choices})"),
                _ if is_path(&flag) => "_files".to_string(),
                _ => " ".to_string(),
            };
            let value = zsh_quoted(&flag.value);
            _ = match flag.value.as_str() {
                "" => writeln!(out, "        '--{}[{text}]' \\", flag.name),
                _ => writeln!(out, "        '*--{}=[{text}]:{value}:{action}' \\", flag.name),
            };
            if !flag.short.is_empty() {
                _ = writeln!(out, "        '*{}+[{text}]:{value}:{action}' \\", flag.short);
            }
        }
        let operands = match operands_of(command.name).join(" ") {
            operands if operands.is_empty() => "_files".to_string(),
            operands => format!("({operands})"),
        };
        _ = writeln!(out, "        '--help[Print the help]' '*:operand:{operands}'\n      ;;");
    }
    out.push_str("  esac\n}\n_pintle \"$@\"\n");
    out
}

/// Escapes text for single quotes, and removes characters that `_arguments` interprets.
fn zsh_quoted(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '\'' => out.push_str("'\\''"),
            '[' | ']' | ':' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            letter => out.push(letter),
        }
    }
    out
}

fn fish_script() -> String {
    let names: Vec<&str> = SUBCOMMANDS.iter().map(|command| command.name).collect();
    let names = names.join(" ");
    let mut out = String::from("# Completion of pintle for fish. Written by `pintle completion fish`.\n");
    let none = format!("not __fish_seen_subcommand_from {names}");
    for command in SUBCOMMANDS {
        let summary = fish_quoted(command.summary);
        _ = writeln!(out, "complete -c pintle -f -n '{none}' -a {} -d '{summary}'", command.name);
    }
    for command in SUBCOMMANDS {
        let operands = operands_of(command.name).join(" ");
        if !operands.is_empty() {
            let condition = format!("__fish_seen_subcommand_from {}", command.name);
            _ = writeln!(out, "complete -c pintle -f -n '{condition}' -a '{operands}'");
        }
        // Without a command, the flags are those of `serve`.
        let condition = match command.name {
            "serve" => format!("not __fish_seen_subcommand_from {}", names.replacen("serve ", "", 1)),
            name => format!("__fish_seen_subcommand_from {name}"),
        };
        for flag in flags_of(command.name) {
            let needs = match (flag.value.as_str(), is_path(&flag)) {
                ("", _) => "",
                (_, true) => " -r -F",
                (_, false) => " -x",
            };
            let (name, text) = (&flag.name, fish_quoted(&flag.text));
            let short =
                flag.short.strip_prefix('-').map(|letter| format!(" -s {letter}")).unwrap_or_default();
            let choices = match flag.choices.join(" ") {
                choices if choices.is_empty() => choices,
                choices => format!(" -a '{choices}'"),
            };
            _ = writeln!(
                out,
                "complete -c pintle -n '{condition}'{short} -l {name}{needs}{choices} -d '{text}'"
            );
        }
    }
    out
}

fn fish_quoted(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\'', "\\'")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn flags_are_read_from_usage_texts() {
        let usage = "Usage: pintle x [-o one|many]\n\nText with --nothing.\n\n  -o, --output FORMAT  One of\n                       many.\n      --json           Short\n";
        let flag = |name: &str, short: &str, value: &str, text: &str, choices: &[&str]| Completed {
            name: name.into(),
            short: short.into(),
            value: value.into(),
            text: text.into(),
            choices: choices.iter().map(|choice| choice.to_string()).collect(),
        };
        assert_eq!(
            flags_in(usage),
            [
                flag("output", "-o", "FORMAT", "One of many.", &["one", "many"]),
                flag("json", "", "", "Short", &[]),
            ]
        );
        assert!(flags_of("check").iter().any(|flag| flag.name == "strict"));
        assert!(flags_of("serve").iter().any(|flag| flag.name == "secure-port"));
    }

    /// The completions that bash offers for the last word.
    fn offered(words: &[&str]) -> Vec<String> {
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        let script = format!(
            "{}\nCOMP_WORDS=({}); COMP_CWORD={}; _pintle; printf '%s\\n' \"${{COMPREPLY[@]}}\"",
            bash_script(),
            quoted.join(" "),
            words.len() - 1
        );
        let output = Command::new("bash").args(["--norc", "-c", &script]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn bash_completes() {
        for (words, want) in [
            (&["pintle", "chec"][..], &["check"][..]),
            (&["pintle", "--secure-p"], &["--secure-port"]),
            (&["pintle", "serve", "--etcd-serv"], &["--etcd-servers", "--etcd-servers-overrides"]),
            (&["pintle", "check", "--str"], &["--strict"]),
            (&["pintle", "completion", "f"], &["fish"]),
            (&["pintle", "migrate", "f"], &["from-etcd"]),
            (&["pintle", "help", "hi"], &["history"]),
            (&["pintle", "history", "a/b", "-o", ""], &["text", "json"]),
            (&["pintle", "check", "--output", "s"], &["sarif"]),
            (&["pintle", "owners", "--output", "=", "w"], &["wide"]),
            (&["pintle", "--data-dir", "/et"], &["/etc"]),
        ] {
            assert_eq!(offered(words), want, "{words:?}");
        }
    }

    #[test]
    fn other_shells_get_all_commands_and_flags() {
        for script in [zsh_script(), fish_script()] {
            for text in ["backup", "secure-port", "strict", "sarif"] {
                assert!(script.contains(text), "{text}");
            }
        }
        assert_eq!(zsh_quoted("it's [a:b]"), "it'\\''s \\[a\\:b\\]");
        assert_eq!(fish_quoted("it's"), "it\\'s");
    }
}
