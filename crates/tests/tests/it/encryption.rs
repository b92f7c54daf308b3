//! Encryption at rest in the embedded store: what lies in the folder, rotation of keys, values that cannot be opened.

use pintle_testkit::{Client, Options, Request, Server};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const KEY_1: &str = "BwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSY=";
const KEY_2: &str = "P0BBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWltcXV4=";
/// A word that only a secret holds, as it is and as the API shows it.
const WORD: &str = "correct-horse-battery";

/// A file for `--encryption-provider-config` in a folder of its own.
struct File {
    folder: PathBuf,
}

impl File {
    fn new(name: &str, rules: &Value) -> File {
        let folder = std::env::temp_dir().join(format!("pintle-encryption-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = File { folder };
        file.write(rules);
        file
    }

    fn path(&self) -> PathBuf {
        self.folder.join("encryption.json")
    }

    fn write(&self, rules: &Value) {
        let config = json!({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "EncryptionConfiguration",
            "resources": rules});
        std::fs::write(self.path(), config.to_string()).unwrap();
    }

    fn flags(&self, more: &[&str]) -> Vec<String> {
        let file = format!("--encryption-provider-config={}", self.path().display());
        [file].into_iter().chain(more.iter().map(|flag| flag.to_string())).collect()
    }
}

impl Drop for File {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn keys(provider: &str, keys: &[(&str, &str)]) -> Value {
    let keys: Vec<Value> =
        keys.iter().map(|(name, secret)| json!({"name": name, "secret": secret})).collect();
    json!({provider: {"keys": keys}})
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": {"password": WORD}})
}

async fn create(admin: &Client, path: &str, body: &Value) -> Value {
    let (code, answer) = admin.post(path, body).await.unwrap();
    assert_eq!(code, 201, "{answer}");
    answer
}

/// All bytes of all files of the store.
fn stored(folder: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            all.extend(std::fs::read(entry.path()).unwrap());
        }
    }
    all
}

fn count(bytes: &[u8], part: &str) -> usize {
    bytes.windows(part.len()).filter(|window| *window == part.as_bytes()).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_that_is_encrypted_lies_in_the_folder_as_it_is() {
    for provider in ["secretbox", "aesgcm", "aescbc"] {
        let rules = json!([{"resources": ["secrets"], "providers": [keys(provider, &[("k1", KEY_1)])]}]);
        let file = File::new(provider, &rules);
        let mut server =
            Server::start_with(Options { flags: file.flags(&[]), ..Options::default() }).await.unwrap();
        let admin = server.admin().unwrap();
        let made = create(&admin, SECRETS, &secret("a")).await;
        let shown = made["data"]["password"].as_str().unwrap().to_string();
        let plain = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "in-the-open"}});
        create(&admin, "/api/v1/namespaces/default/configmaps", &plain).await;
        // The log, then a log that is read again, both times without the word.
        for round in 0..2 {
            let admin = server.admin().unwrap();
            let (code, got) = admin.get(&format!("{SECRETS}/a")).await.unwrap();
            assert_eq!((code, got["data"]["password"].as_str()), (200, Some(shown.as_str())), "{provider}");
            let bytes = stored(&server.data_dir().join("store"));
            assert_eq!(count(&bytes, WORD) + count(&bytes, &shown), 0, "{provider} {round}");
            assert!(count(&bytes, &format!("k8s:enc:{provider}:v1:k1:")) > 0, "{provider}");
            assert!(count(&bytes, "in-the-open") > 0, "{provider}");
            server.restart().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_new_key_is_used_by_the_next_write_even_if_it_changes_nothing() {
    let rule = |list: &[(&str, &str)]| json!([{"resources": ["*.*"], "providers": [keys("aesgcm", list), {"identity": {}}]}]);
    let file = File::new("rotation", &rule(&[("old", KEY_1)]));
    let mut server =
        Server::start_with(Options { flags: file.flags(&[]), ..Options::default() }).await.unwrap();
    let first = create(&server.admin().unwrap(), SECRETS, &secret("a")).await;
    file.write(&rule(&[("new", KEY_2), ("old", KEY_1)]));
    server.restart().await.unwrap();
    let admin = server.admin().unwrap();
    let version = |object: &Value| object["metadata"]["resourceVersion"].as_str().unwrap().to_string();
    let patch = json!({"metadata": {"labels": null}});
    let touch = async || {
        let touched =
            admin.patch(&format!("{SECRETS}/a"), "application/merge-patch+json", &patch).await.unwrap();
        assert_eq!(touched.0, 200, "{}", touched.1);
        version(&touched.1)
    };
    let second = touch().await;
    assert_ne!(version(&first), second);
    assert_eq!(touch().await, second, "once is enough");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn values_under_a_lost_key_are_told_and_can_be_deleted() {
    let rule =
        |key: &str| json!([{"resources": ["secrets"], "providers": [keys("secretbox", &[("k1", key)])]}]);
    let file = File::new("lost", &rule(KEY_1));
    let flags = file.flags(&["--feature-gates=AllowUnsafeMalformedObjectDeletion=true"]);
    let mut server = Server::start_with(Options { flags, ..Options::default() }).await.unwrap();
    create(&server.admin().unwrap(), SECRETS, &secret("a")).await;
    file.write(&rule(KEY_2));
    // It runs, but is not ready.
    server.restart_listening().await.unwrap();
    let admin = server.admin().unwrap();
    let why = "data from the storage is not transformable revision=0: output array was not large enough for encryption";
    let path = format!("{SECRETS}/a");
    let (code, status) = admin.get(&path).await.unwrap();
    assert_eq!(code, 500);
    assert!(status["message"].as_str().unwrap().ends_with(why), "{status}");
    let (code, status) = admin.get(SECRETS).await.unwrap();
    let listed = "storage is (re)initializing: failed to list *core.Secret: failed to read one or more secrets from the storage";
    assert_eq!((code, status["message"].as_str()), (429, Some(listed)));
    create(&admin, SECRETS, &secret("b")).await;
    assert_eq!(admin.get(&format!("{SECRETS}/b")).await.unwrap().0, 200);
    assert_eq!(admin.send(&Request::new("GET", "/readyz")).await.unwrap().status(), 500);
    assert_eq!(admin.delete(&path).await.unwrap().0, 500);
    let unsafely = format!("{path}?ignoreStoreReadErrorWithClusterBreakingPotential=true");
    assert_eq!(admin.delete(&unsafely).await.unwrap().0, 200);
    assert_eq!(admin.get(SECRETS).await.unwrap().0, 200);
    assert_eq!(admin.send(&Request::new("GET", "/readyz")).await.unwrap().status(), 200);
}
