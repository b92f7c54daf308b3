//! Real kubectl against a real server: tables of commands and their expected output, one server per table.

mod basics;
mod change;
mod create;
mod follow;
mod kubelet;
mod nodes;
mod read;

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use pintle_testkit::Server;
use pintle_testkit::server::Options;
use serde_json::Value;

/// The expected output of a command.
pub(crate) enum Prints {
    /// Exactly this.
    Exactly(&'static str),
    /// All of these, anywhere.
    All(&'static [&'static str]),
    /// The command fails with this text.
    Fails(&'static str),
}
use Prints::{All, Exactly, Fails};

/// Command (words in single quotes may have spaces), input on stdin, oldest minor version of kubectl that supports it,
/// and the expected output.
pub(crate) type Row<'a> = (&'a str, &'a str, u32, Prints);

pub(crate) struct Kubectl {
    kubeconfig: PathBuf,
    home: PathBuf,
    /// The editor of `edit`.
    editor: Option<PathBuf>,
}

impl Kubectl {
    /// kubectl as the administrator of a server.
    pub(crate) fn new(server: &Server) -> Kubectl {
        let home = server.data_dir().join("home");
        std::fs::create_dir_all(&home).unwrap();
        let kubectl = Kubectl { kubeconfig: server.kubeconfig(), home, editor: None };
        assert!(Path::new(&kubectl.kubeconfig).is_file(), "the server wrote no admin.kubeconfig");
        kubectl
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new(program());
        command.args(words(line)).env("KUBECONFIG", &self.kubeconfig).env("HOME", &self.home);
        if let Some(editor) = &self.editor {
            command.env("KUBE_EDITOR", editor);
        }
        command
    }

    pub(crate) fn run(&self, line: &str, input: &str) -> Output {
        run(self.command(line), input)
    }
}

/// Splits at spaces like a shell; text in single quotes is one word.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quoted) = (Vec::new(), String::new(), false);
    for c in line.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    words.push(word);
    words
}

fn program() -> String {
    std::env::var("KUBECTL").unwrap_or_else(|_| "kubectl".to_owned())
}

fn run(mut command: Command, input: &str) -> Output {
    use std::io::Write;
    use std::process::Stdio;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap_or_else(|error| {
        panic!("kubectl is needed (scripts/test installs it; KUBECTL may name another program): {error}")
    });
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).unwrap();
    drop(stdin);
    child.wait_with_output().unwrap()
}

/// The minor version of the client: old ones lack some commands.
fn minor_version(kubectl: &Kubectl) -> u32 {
    let output = kubectl.run("version --client -o json", "");
    let version: Value = serde_json::from_slice(&output.stdout).expect("kubectl version");
    let minor = version["clientVersion"]["minor"].as_str().unwrap_or_default();
    minor.trim_end_matches('+').parse().expect("a minor version")
}

/// A server of its own and kubectl for it.
pub(crate) async fn start(flags: &[&str]) -> (Server, Kubectl) {
    let flags = flags.iter().map(ToString::to_string).collect();
    let server = Server::start_with(Options { ephemeral: true, flags }).await.unwrap();
    let kubectl = Kubectl::new(&server);
    (server, kubectl)
}

/// Runs a table from top to bottom and reports all errors.
pub(crate) fn check(kubectl: &Kubectl, rows: &[Row<'_>]) {
    let minor = minor_version(kubectl);
    let mut wrong = Vec::new();
    for (line, input, _, prints) in rows.iter().filter(|row| minor >= row.2) {
        let output = kubectl.run(line, input);
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let is_right = match prints {
            Exactly(text) => output.status.success() && out == *text,
            All(texts) => output.status.success() && texts.iter().all(|text| out.contains(text)),
            Fails(text) => !output.status.success() && err.contains(text),
        };
        if !is_right {
            wrong.push(format!("$ kubectl {line}\n{}\n{out}{err}", output.status));
        }
    }
    assert!(wrong.is_empty(), "{} of {} commands:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}
