//! `pintle console`: prints a link that signs its user into the web console once, and opens it where there is a browser.

use crate::arguments::{self, Syntax};
use crate::output::{Output, object};
use crate::owners::client::{Client, ClientError};
use crate::owners::config;
use bytes::Bytes;
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

pub(crate) const SYNTAX: Syntax = Syntax {
    usage: "\
Usage: pintle console [--kubeconfig FILE] [--no-open] [--output text|json]

Prints a link to the web console that signs in the user of the kubeconfig, and opens it where there is a browser.
The link is good for a minute, and once.

      --kubeconfig FILE  How to reach the server; $KUBECONFIG or ~/.kube/config if left out
      --no-open          Only print the link
      --output FORMAT    text (default) or json
",
    values: &["kubeconfig", "output"],
    switches: &["no-open"],
    operands: 0,
};

const LINKS: &str = "/console/api/links";
/// How long the file that a browser opens is left for it.
const OPENING_TIME: Duration = Duration::from_secs(5);

/// Runs the command with the arguments after its name.
pub(crate) fn run(args: Vec<String>) -> Result<(), String> {
    let Some(arguments) = arguments::parse(&SYNTAX, args)? else { return Ok(()) };
    let output = Output::parse(arguments.value("output"))?;
    let file = arguments.value("kubeconfig").map(Path::new);
    let link = make_link(file).map_err(|error| format!("no link to the console: {error}"))?;
    output.print(&format!("{link}\n"), &object([("link", link.as_str().into())]));
    if !arguments.has("no-open") && has_browser() {
        open(&link);
    }
    Ok(())
}

/// Asks the server for a code and puts it into the part of the link that browsers keep to themselves.
fn make_link(kubeconfig: Option<&Path>) -> Result<String, ClientError> {
    let config = config::load(kubeconfig)?;
    let server = config.server.clone();
    let asked = Client::new(config)?.block_on(|mut connection| async move {
        connection.send("POST", LINKS, "application/json", Bytes::from_static(b"{}")).await
    });
    let (status, answer) = asked?;
    match answer.str_at(&["code"]) {
        _ if status != 200 => Err(ClientError::Answer(answer.str_at(&["message"]).to_string())),
        "" => Err(ClientError::Answer("the server has no console".to_string())),
        code => Ok(format!("{server}/console/#code={code}")),
    }
}

fn has_browser() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// Opens the link by way of a file that only its owner can read: everybody on the machine sees the arguments of programs.
fn open(link: &str) {
    let program = if cfg!(target_os = "macos") { "open" } else { "xdg-open" };
    let file = std::env::temp_dir().join(format!("pintle-console-{}.html", std::process::id()));
    if write_redirect(&file, link).is_ok() {
        let opening = Command::new(program).arg(&file).stdout(Stdio::null()).stderr(Stdio::null()).status();
        if opening.is_ok_and(|status| status.success()) {
            std::thread::sleep(OPENING_TIME);
        }
        _ = std::fs::remove_file(&file);
    }
}

fn write_redirect(file: &Path, link: &str) -> std::io::Result<()> {
    // The server's address comes from a kubeconfig: it must not end the attribute.
    let link = link.replace('&', "&amp;").replace('"', "&quot;").replace('<', "&lt;");
    let page = format!(
        "<!doctype html><meta http-equiv=\"refresh\" content=\"0; url={link}\"><title>Pintle</title>\n"
    );
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file)?;
    file.write_all(page.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_with_the_link_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let file = std::env::temp_dir().join(format!("pintle-console-test-{}.html", std::process::id()));
        write_redirect(&file, "https://h/console/#code=\"x").unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(std::fs::read_to_string(&file).unwrap().contains("#code=&quot;x"));
        assert!(write_redirect(&file, "https://h/").is_err(), "an existing file is not used");
        std::fs::remove_file(&file).unwrap();
    }
}
