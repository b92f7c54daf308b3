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

const SYNTAX: Syntax = Syntax { usage: USAGE, values: &["output"], switches: &[], operands: 1 };

/// A flag for completion.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Completed {
    /// Name without dashes.
    pub(crate) name: String,
    /// The name of the flag's value; empty if it takes none.
    pub(crate) value: String,
    /// The flag or command's help text.
    pub(crate) text: String,
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
    output.print(&script, &object([("shell", shell.into()), ("script", script.as_str().into())]));
    Ok(())
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
        let Some((_, long)) = head.split_once("--") else { continue };
        let (name, value) = long.split_once([' ', '=']).unwrap_or((long, ""));
        out.push(Completed { name: name.into(), value: value.into(), text: text.trim().into() });
    }
    out
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
    out.push_str("  elif [[ $command == completion ]]; then\n    COMPREPLY=($(compgen -W \"bash zsh fish\" -- \"$current\"))\n");
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
            let action = if is_path(&flag) { "_files" } else { " " };
            _ = match flag.value.as_str() {
                "" => writeln!(out, "        '--{}[{text}]' \\", flag.name),
                value => {
                    writeln!(out, "        '*--{}=[{text}]:{}:{action}' \\", flag.name, zsh_quoted(value))
                }
            };
        }
        let operands = if command.name == "completion" { "(bash zsh fish)" } else { "_files" };
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
    _ = writeln!(out, "complete -c pintle -f -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'");
    for command in SUBCOMMANDS {
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
            _ = writeln!(out, "complete -c pintle -n '{condition}' -l {name}{needs} -d '{text}'");
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
        let usage = "Usage: x\n\nText with --nothing.\n\n  -o, --output FORMAT  One of\n                       many.\n      --json           Short\n";
        let flag = |name: &str, value: &str, text: &str| Completed {
            name: name.into(),
            value: value.into(),
            text: text.into(),
        };
        assert_eq!(flags_in(usage), [flag("output", "FORMAT", "One of many."), flag("json", "", "Short")]);
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
