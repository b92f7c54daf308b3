//! The official Python client against a real server; `PINTLE_PYTHON` is a Python that has it installed.

use std::process::Command;

use pintle_testkit::Server;
use pintle_testkit::server::ADMIN_TOKEN;

const SCRIPT: &str = include_str!("clients.py");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn python() {
    let Some(python) = std::env::var_os("PINTLE_PYTHON") else {
        pintle_testkit::skip("PINTLE_PYTHON is not set (scripts/test installs the client and sets it)");
        return;
    };
    let server = Server::start_ephemeral().await.unwrap();
    let output =
        Command::new(python).args(["-c", SCRIPT, &server.url(), ADMIN_TOKEN]).output().expect("Python runs");
    let printed = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{}\n{}", String::from_utf8_lossy(&printed), server.log_tail());
}
