//! Backup, restore, recovery and periodic tasks, with the real binary.

use pintle_testkit::server::{Options, binary};
use pintle_testkit::{Client, Server};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Runs a command on a data folder: whether it succeeded, and its output.
fn run(command: &str, data: &Path, args: &[&str]) -> (bool, String) {
    let output =
        Command::new(binary().unwrap()).arg(command).arg("--data-dir").arg(data).args(args).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

async fn create(client: &Client, name: &str) -> u64 {
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    let (status, made) = client.post(MAPS, &map).await.unwrap();
    assert_eq!(status, 201, "{made}");
    version(&made)
}

fn version(object: &Value) -> u64 {
    object.pointer("/metadata/resourceVersion").and_then(Value::as_str).unwrap().parse().unwrap()
}

/// The newest segment of a store.
fn newest_segment(data: &Path) -> std::path::PathBuf {
    let files = std::fs::read_dir(data.join("store")).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with("segment-")).max().unwrap()
}

#[tokio::test]
async fn a_running_server_is_backed_up_and_restored_without_revisions_going_back() {
    let mut server = Server::start().await.unwrap();
    let client = server.admin().unwrap();
    create(&client, "before").await;
    let data = server.data_dir();
    let file = data.join("backup");
    let (ok, text) = run("backup", &data, &[file.to_str().unwrap()]);
    assert!(ok && text.contains("objects at revision"), "{text}");
    // A link stays one, and `-` is stdout. Later backups may have newer objects, so only the file's magic is compared.
    let (link, behind) = (data.join("link"), data.join("behind"));
    std::fs::write(&behind, "").unwrap();
    std::os::unix::fs::symlink(&behind, &link).unwrap();
    assert!(run("backup", &data, &[link.to_str().unwrap()]).0);
    assert!(link.is_symlink());
    let pipe =
        Command::new(binary().unwrap()).args(["backup", "-", "--data-dir"]).arg(&data).output().unwrap();
    let magic = |bytes: Vec<u8>| bytes.get(..8).map(<[u8]>::to_vec).unwrap();
    let expected = magic(std::fs::read(&file).unwrap());
    assert_eq!([magic(std::fs::read(&behind).unwrap()), magic(pipe.stdout)], [expected.clone(), expected]);
    let seen = create(&client, "after").await;
    server.terminate().await.unwrap();

    let (ok, text) = run("restore", &data, &[file.to_str().unwrap()]);
    assert!(!ok && text.contains("not empty"), "a store is never overwritten: {text}");
    std::fs::rename(data.join("store"), data.join("old-store")).unwrap();
    let (ok, text) = run("restore", &data, &[file.to_str().unwrap()]);
    assert!(ok && text.contains("restored and compared"), "{text}");
    server.restart().await.unwrap();
    let client = server.admin().unwrap();
    let (_, before) = client.get(&format!("{MAPS}/before")).await.unwrap();
    assert!(version(&before) > seen, "{} after {seen}", version(&before));
    assert_eq!(client.get(&format!("{MAPS}/after")).await.unwrap().0, 404);
    let (status, _) = client
        .get(&format!("{MAPS}?limit=1&resourceVersionMatch=Exact&resourceVersion={seen}"))
        .await
        .unwrap();
    assert_eq!(status, 410, "revisions of before are gone");
}

#[tokio::test]
async fn a_cut_or_missing_segment_is_refused_until_it_is_recovered() {
    for missing in [false, true] {
        let mut server = Server::start().await.unwrap();
        let client = server.admin().unwrap();
        let seen = create(&client, "a").await;
        let data = server.data_dir();
        server.kill().unwrap();
        let newest = newest_segment(&data);
        if missing {
            std::fs::remove_file(&newest).unwrap()
        } else {
            let length = std::fs::metadata(&newest).unwrap().len();
            std::fs::OpenOptions::new().write(true).open(&newest).unwrap().set_len(length - 512).unwrap();
        }
        assert!(server.restart().await.is_err());
        let log = server.log_tail();
        let name = newest.file_name().unwrap().to_string_lossy().into_owned();
        assert!(log.contains(&name) && log.contains("pintle recover"), "{log}");
        let (ok, text) = run("recover", &data, &[]);
        assert!(ok && text.contains(&name) && text.contains("Lost"), "{text}");
        server.restart().await.unwrap();
        let made = create(&server.admin().unwrap(), "b").await;
        assert!(made > seen, "{made} after {seen}");
    }
}

#[tokio::test]
async fn an_old_continue_token_expires_though_nothing_changes() {
    let flags = vec!["--etcd-compaction-interval=1s".to_string()];
    let server = Server::start_with(Options { flags, ..Options::default() }).await.unwrap();
    let client = server.admin().unwrap();
    for name in ["a", "b", "c"] {
        create(&client, name).await;
    }
    let (_, page) = client.get(&format!("{MAPS}?limit=1")).await.unwrap();
    let token =
        |page: &Value| page.pointer("/metadata/continue").and_then(Value::as_str).unwrap().to_string();
    let old = token(&page);
    let end = Instant::now() + Duration::from_secs(30);
    let expired = loop {
        let (status, answer) = client.get(&format!("{MAPS}?limit=1&continue={old}")).await.unwrap();
        if status == 410 {
            break answer;
        }
        assert!(Instant::now() < end, "{answer}");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    let (status, rest) = client.get(&format!("{MAPS}?continue={}", token(&expired))).await.unwrap();
    assert_eq!((status, rest["items"].as_array().unwrap().len()), (200, 2), "{rest}");
}

#[tokio::test]
async fn system_objects_come_back() {
    let server = Server::start().await.unwrap();
    let client = server.admin().unwrap();
    for path in ["/api/v1/namespaces/default/services/kubernetes", "/api/v1/namespaces/kube-node-lease"] {
        let (_, before) = client.get(path).await.unwrap();
        assert_eq!(client.delete(path).await.unwrap().0, 200);
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let (status, object) = client.get(path).await.unwrap();
            if status == 200 && object["metadata"]["uid"] != before["metadata"]["uid"] {
                assert_eq!(object["spec"]["clusterIP"], before["spec"]["clusterIP"]);
                break;
            }
            assert!(Instant::now() < end, "{object}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}
