//! Tells the binary which commit it is built from: `PINTLE_GIT_COMMIT` where that is set, else what git says, else nothing.

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
    // The log of HEAD grows with each commit.
    if let Some(log) = git(&["rev-parse", "--git-path", "logs/HEAD"]).filter(|log| Path::new(log).exists()) {
        println!("cargo::rerun-if-changed={log}");
    }
}
