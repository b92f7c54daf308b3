//! `pintle man`: the manual page, generated from the tables of commands and flags.

use crate::arguments::{self, Syntax};
use crate::commands::{self, SUBCOMMANDS};
use crate::completion::{flags_of, synopsis};
use crate::flags::table::SECTIONS;
use crate::output::{Output, object};
use std::fmt::Write;

pub(crate) const USAGE: &str = "\
Usage: pintle man [-o text|json]

Prints the manual page: pintle man > /usr/local/share/man/man1/pintle.1, or pintle man | man -l -.

  -o, --output FORMAT  text (default) or json
";

const SYNTAX: Syntax = Syntax { usage: USAGE, values: &["output"], switches: &[], operands: 0..=0 };

/// Runs the command with the arguments after its name.
pub(crate) fn run(args: Vec<String>) -> Result<(), String> {
    let Some(arguments) = arguments::parse(&SYNTAX, args)? else { return Ok(()) };
    let page = manual_page();
    let tree = object([("page", page.as_str().into())]);
    Output::parse(arguments.value("output"))?.print(&page, &tree)
}

fn manual_page() -> String {
    let mut out = String::new();
    _ = writeln!(out, ".TH PINTLE 1 \"\" \"pintle {}\" \"User Commands\"", env!("CARGO_PKG_VERSION"));
    out.push_str(".SH NAME\npintle \\- the Kubernetes API server in one binary\n");
    out.push_str(".SH SYNOPSIS\n.B pintle\n[\\fBserve\\fR] [\\fIflags\\fR]\n.br\n.B pintle\n\\fICOMMAND\\fR [\\fIflags\\fR] [\\fIoperands\\fR]\n");
    out.push_str(".SH DESCRIPTION\nPintle serves the Kubernetes API from a store of its own or from etcd. It takes the flags of kube\\-apiserver. Without flags it keeps data, keys and a kubeconfig in \\fI./pintle\\-data\\fR and listens on 127.0.0.1:6443.\n");
    out.push_str(".SH COMMANDS\n");
    for command in SUBCOMMANDS {
        _ = writeln!(out, ".SS {}", escaped(command.name));
        let usage = commands::usage(command.name);
        if usage.is_empty() {
            _ = writeln!(out, "{}.", escaped(command.summary));
        }
        // The paragraphs before the flags are the description.
        let forms: Vec<String> = synopsis(usage).map(|form| format!(".B {}\n", escaped(form))).collect();
        out.push_str(&forms.join(".br\n"));
        let text: Vec<&str> =
            usage.lines().skip(forms.len()).filter(|line| !line.starts_with("  ")).collect();
        out.push_str(if forms.is_empty() { "" } else { ".PP\n" });
        write_paragraphs(&text.join("\n"), &mut out);
        if command.name != "serve" {
            for flag in flags_of(command.name) {
                write_entry(&flag.short, &flag.name, &flag.value, &flag.text, "", &mut out);
            }
        }
    }
    out.push_str(".SH FLAGS OF SERVE\n");
    for section in SECTIONS.iter() {
        _ = writeln!(out, ".SS {} flags", escaped(section.name));
        for flag in &section.flags {
            write_entry("", flag.name, flag.type_.name(), flag.text(), flag.default, &mut out);
        }
    }
    out.push_str(".SH EXIT STATUS\n0 on success, 1 on failure; \\fBcheck\\fR ends with 2 when something could not be read.\n");
    out.push_str(".SH ENVIRONMENT\n.TP\n.B KUBECONFIG\nWhere commands that talk to a server look for it. Default: ~/.kube/config.\n.TP\n.B NO_COLOR\nTurns colours off; they are only used on a terminal.\n");
    out.push_str(".SH SEE ALSO\n.BR kubectl (1)\n");
    out
}

fn write_entry(short: &str, name: &str, value: &str, text: &str, default: &str, out: &mut String) {
    out.push_str(".TP\n");
    if !short.is_empty() {
        _ = write!(out, "\\fB{}\\fR, ", escaped(short));
    }
    _ = write!(out, "\\fB\\-\\-{}\\fR", escaped(name));
    if !value.is_empty() {
        _ = write!(out, " \\fI{}\\fR", escaped(value));
    }
    _ = write!(out, "\n{}", guarded(&escaped(text)));
    if !default.is_empty() {
        _ = write!(out, " (default {})", escaped(default));
    }
    out.push('\n');
}

fn write_paragraphs(text: &str, out: &mut String) {
    for paragraph in text.split("\n\n").map(str::trim).filter(|paragraph| !paragraph.is_empty()) {
        for line in paragraph.lines() {
            _ = writeln!(out, "{}", guarded(&escaped(line)));
        }
        out.push_str(".PP\n");
    }
}

/// Escapes text for roff.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\e").replace('-', "\\-").replace('…', "...")
}

/// Escapes a line that would begin like a roff request.
fn guarded(line: &str) -> String {
    if line.starts_with(['.', '\'']) { format!("\\&{line}") } else { line.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_every_command_and_flag() {
        let page = manual_page();
        for text in [
            ".SS check\n",
            ".SS Etcd flags\n",
            "\\fB\\-\\-secure\\-port\\fR \\fIint\\fR\n",
            "(default 6443)",
            "\\fB\\-f\\fR, \\fB\\-\\-filename\\fR \\fIFILE\\fR\n",
            ".B pintle owners \\-f FILE... ",
        ] {
            assert!(page.contains(text), "{text}");
        }
        let known = [".TH", ".SH", ".SS", ".TP", ".PP", ".B ", ".BR", ".br"];
        for line in page.lines().filter(|line| line.starts_with('.')) {
            assert!(known.iter().any(|request| line.starts_with(request)), "{line}");
        }
        assert_eq!(guarded(".x"), "\\&.x");
    }
}
