//! `kubectl get --watch` and `kubectl wait` see concurrent changes.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use super::{Exactly, check, start};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watching() {
    let (_server, kubectl) = start(&[]).await;
    check(
        &kubectl,
        &[("create configmap first --from-literal=a=1", "", 0, Exactly("configmap/first created\n"))],
    );
    let mut command: Command = kubectl.command("get configmaps --watch --output-watch-events --no-headers");
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::inherit()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut next = || {
        let line = lines.next().unwrap().unwrap();
        let mut words = line.split_whitespace();
        format!("{} {}", words.next().unwrap_or_default(), words.next().unwrap_or_default())
    };
    assert_eq!(next(), "ADDED first");
    for (line, says, event) in [
        ("create configmap second --from-literal=a=1", "configmap/second created\n", "ADDED second"),
        ("annotate configmap second b=2", "configmap/second annotate", "MODIFIED second"),
        ("delete configmap second", "configmap \"second\" deleted", "DELETED second"),
    ] {
        let output = kubectl.run(line, "");
        assert!(String::from_utf8_lossy(&output.stdout).starts_with(says), "{output:?}");
        assert_eq!(next(), event);
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn waiting() {
    let (_server, kubectl) = start(&[]).await;
    check(&kubectl, &[("create configmap m --from-literal=a=1", "", 0, Exactly("configmap/m created\n"))]);
    for (wait, change, says) in [
        (
            "wait --for=jsonpath={.data.a}=2 configmap/m --timeout=20s",
            "patch configmap m --type=merge -p {\"data\":{\"a\":\"2\"}}",
            "configmap/m condition met\n",
        ),
        // kubectl prints nothing if the object is gone before it starts.
        ("wait --for=delete configmap/m --timeout=20s", "delete configmap m", ""),
    ] {
        let child = kubectl.command(wait).stdout(Stdio::piped()).spawn().unwrap();
        assert!(kubectl.run(change, "").status.success());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        assert!(String::from_utf8_lossy(&output.stdout).starts_with(says), "{output:?}");
    }
}
