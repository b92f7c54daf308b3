//! Sets the commit of the build: `PINTLE_GIT_COMMIT` if it is set, otherwise the output of git, otherwise nothing.

use std::path::Path;
use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    String::from_utf8(output.stdout).ok().map(|text| text.trim().to_owned())
}

fn main() {
    println!("cargo::rerun-if-env-changed=PINTLE_GIT_COMMIT");
    let given = std::env::var("PINTLE_GIT_COMMIT").ok();
    let commit = given.or_else(|| git(&["rev-parse", "HEAD"])).unwrap_or_default();
    println!("cargo::rustc-env=PINTLE_GIT_COMMIT={commit}");
    // Rerun after each commit, which appends to the log of HEAD.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
}
