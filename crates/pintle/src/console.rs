//! `pintle console`: prints a one-time link to the web console, and opens it if there is a browser.

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
Usage: pintle console [--kubeconfig FILE] [--no-open] [-o text|json]

Prints a link to the web console that signs in the user of the kubeconfig, and opens it in a browser if there is one.
The link is valid once, for a minute.

      --kubeconfig FILE  Kubeconfig of the server (default: $KUBECONFIG or ~/.kube/config)
      --no-open          Only print the link
  -o, --output FORMAT    text (default) or json
",
    values: &["kubeconfig", "output"],
    switches: &["no-open"],
    operands: 0..=0,
};

const LINKS: &str = "/console/api/links";
/// How long the file that the browser opens exists.
const OPENING_TIME: Duration = Duration::from_secs(5);

/// Runs the command with the arguments after its name.
pub(crate) fn run(args: Vec<String>) -> Result<(), String> {
    let Some(arguments) = arguments::parse(&SYNTAX, args)? else { return Ok(()) };
    let output = Output::parse(arguments.value("output"))?;
    let file = arguments.value("kubeconfig").map(Path::new);
    let link = make_link(file).map_err(|error| format!("no link to the console: {error}"))?;
    output.print(&format!("{link}\n"), &object([("link", link.as_str().into())]))?;
    if !arguments.has("no-open") && has_browser() {
        open(&link);
    }
    Ok(())
}

/// Requests a code from the server and puts it into the fragment of the link, which browsers do not send.
fn make_link(kubeconfig: Option<&Path>) -> Result<String, ClientError> {
    let config = config::load(kubeconfig)?;
    let server = config.server.clone();
    let asked = Client::new(config)?.block_on(|connection| async move {
        connection.send("POST", LINKS, "application/json", Bytes::from_static(b"{}")).await
    });
    let (status, answer) = asked?;
    match answer.str_at(&["code"]) {
        _ if status == 404 => {
            let why = format!("{server} has none: it is not Pintle, or it was started with --console=false");
            Err(ClientError::Answer(why))
        }
        _ if status != 200 => Err(ClientError::Answer(answer.str_at(&["message"]).to_string())),
        "" => Err(ClientError::Answer("the server has no console".to_string())),
        code => Ok(format!("{server}/console/#code={code}")),
    }
}

fn has_browser() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    cfg!(target_os = "macos") || is_set("DISPLAY") || is_set("WAYLAND_DISPLAY")
}

/// Opens the link through a file that only its owner can read, because every user can see the arguments of processes.
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
    // The server's address comes from a kubeconfig: it must not end the HTML attribute.
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
