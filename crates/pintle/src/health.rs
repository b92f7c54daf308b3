//! `pintle health`: checks whether a server is healthy, for health checks of images without a shell.

use crate::arguments::{self, Syntax};
use crate::output::{Output, number, object};
use crate::owners::client::Client;
use crate::owners::config;
use std::path::PathBuf;

pub(crate) const SYNTAX: Syntax = Syntax {
    usage: "\
Usage: pintle health [--data-dir DIR | --kubeconfig FILE] [--path PATH] [-o text|json]

Requests a health path of a server and exits with 0 if it is healthy. The server is that of DIR/admin.kubeconfig, or of FILE.

      --data-dir DIR     The server's data folder (default ./pintle-data)
      --kubeconfig FILE  Kubeconfig of the server
      --path PATH        /readyz (default), /livez, or one check such as /readyz/etcd
  -o, --output FORMAT    text (default) or json
",
    values: &["data-dir", "kubeconfig", "path", "output"],
    switches: &[],
    operands: 0..=0,
};

/// Runs the command with the arguments after its name.
pub(crate) fn run(args: Vec<String>) -> Result<(), String> {
    let Some(arguments) = arguments::parse(&SYNTAX, args)? else { return Ok(()) };
    let output = Output::parse(arguments.value("output"))?;
    let path = arguments.value("path").unwrap_or("/readyz").to_string();
    if !path.starts_with('/') {
        return Err(format!("--path {path:?} does not begin with /, as /readyz and /livez do"));
    }
    let file = match arguments.value("kubeconfig") {
        Some(file) => PathBuf::from(file),
        None => arguments.data_dir().join("admin.kubeconfig"),
    };
    let config = config::load(Some(&file)).map_err(|error| error.to_string())?;
    let client = Client::new(config).map_err(|error| error.to_string())?;
    let asked = client.block_on(async |connection| connection.text(&path).await);
    let (status, text) = asked.map_err(|error| error.to_string())?;
    let tree = object([
        ("path", path.as_str().into()),
        ("healthy", (status == 200).into()),
        ("status", number(status)),
        ("text", text.as_str().into()),
    ]);
    output.print(&format!("{}\n", text.trim_end()), &tree)?;
    match status {
        200 => Ok(()),
        status => Err(format!("{path} was answered with {status}")),
    }
}
