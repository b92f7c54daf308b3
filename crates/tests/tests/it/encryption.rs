//! Encryption at rest in the embedded store: the files of the store, rotation of keys, values that cannot be decrypted.

use pintle_grpc::protobuf::{Field, Fields, put_bytes, text};
use pintle_testkit::{Client, GrpcAnswer, GrpcServer, Options, Request, Server};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::time::Duration;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const KEY_1: &str = "BwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSY=";
const KEY_2: &str = "P0BBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWltcXV4=";
/// A word that only a Secret contains, plain and in base64.
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

/// All bytes of all files below a folder.
fn stored(folder: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let kind = entry.file_type().unwrap();
        if kind.is_file() {
            all.extend(std::fs::read(entry.path()).unwrap());
        } else if kind.is_dir() {
            all.extend(stored(&entry.path()));
        }
    }
    all
}

fn count(bytes: &[u8], part: &str) -> usize {
    bytes.windows(part.len()).filter(|window| *window == part.as_bytes()).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_data_folder_has_no_plain_text_of_encrypted_values() {
    for provider in ["secretbox", "aesgcm", "aescbc"] {
        let rules = json!([{"resources": ["secrets"], "providers": [keys(provider, &[("k1", KEY_1)])]}]);
        let file = File::new(provider, &rules);
        let mut server =
            Server::start_with(Options { flags: file.flags(&[]), ..Options::default() }).await.unwrap();
        let admin = server.admin().unwrap();
        let made = create(&admin, SECRETS, &secret("a")).await;
        let password = made["data"]["password"].as_str().unwrap().to_string();
        let plain = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "in-the-open"}});
        create(&admin, "/api/v1/namespaces/default/configmaps", &plain).await;
        // The log, then a replayed log; neither contains the word.
        for round in 0..2 {
            let admin = server.admin().unwrap();
            let (code, got) = admin.get(&format!("{SECRETS}/a")).await.unwrap();
            assert_eq!(
                (code, got["data"]["password"].as_str()),
                (200, Some(password.as_str())),
                "{provider}"
            );
            let bytes = stored(&server.data_dir().join("store"));
            assert_eq!(count(&bytes, WORD) + count(&bytes, &password), 0, "{provider} {round}");
            assert!(count(&bytes, &format!("k8s:enc:{provider}:v1:k1:")) > 0, "{provider}");
            assert!(count(&bytes, "in-the-open") > 0, "{provider}");
            server.restart().await.unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn history_and_backups_hold_no_plain_text() {
    let rules = json!([{"resources": ["secrets"], "providers": [keys("aesgcm", &[("k1", KEY_1)])]}]);
    let file = File::new("history", &rules);
    let flags = file.flags(&["--history-retention=24h,256Mi"]);
    let mut server = Server::start_with(Options { flags, ..Options::default() }).await.unwrap();
    let admin = server.admin().unwrap();
    let password =
        create(&admin, SECRETS, &secret("a")).await["data"]["password"].as_str().unwrap().to_string();
    for round in 0..3 {
        let labels = json!({"metadata": {"labels": {"round": round.to_string()}}});
        let path = format!("{SECRETS}/a");
        let (code, answer) = admin.patch(&path, "application/merge-patch+json", &labels).await.unwrap();
        assert_eq!(code, 200, "{answer}");
    }
    create(&admin, SECRETS, &secret("b")).await;
    assert_eq!(admin.delete(&format!("{SECRETS}/b")).await.unwrap().0, 200);
    // Old values are still there, for users who may read them.
    server.restart().await.unwrap();
    let admin = server.admin().unwrap();
    let (code, past) = admin.get(&format!("{SECRETS}/a?history=true")).await.unwrap();
    let versions = past["items"].as_array().unwrap();
    assert_eq!((code, versions.len()), (200, 4), "{past}");
    assert!(versions.iter().all(|version| version["object"]["data"]["password"] == password.as_str()));
    let (code, past) = admin.get(&format!("{SECRETS}/b?history=true")).await.unwrap();
    assert_eq!(
        (code, past["items"][0]["object"]["data"]["password"].as_str()),
        (200, Some(password.as_str()))
    );

    let backup = file.folder.join("backup");
    let made = std::process::Command::new(pintle_testkit::server::binary().unwrap())
        .args(["backup", "--data-dir"])
        .arg(server.data_dir())
        .arg(&backup)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    for bytes in [stored(&server.data_dir()), std::fs::read(&backup).unwrap()] {
        assert!(count(&bytes, "k8s:enc:aesgcm:v1:k1:") > 0);
        assert_eq!(count(&bytes, WORD) + count(&bytes, &password), 0);
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
async fn values_under_a_lost_key_are_reported_and_can_be_deleted() {
    let rule =
        |key: &str| json!([{"resources": ["secrets"], "providers": [keys("secretbox", &[("k1", key)])]}]);
    let file = File::new("lost", &rule(KEY_1));
    let flags = file.flags(&["--feature-gates=AllowUnsafeMalformedObjectDeletion=true"]);
    let mut server = Server::start_with(Options { flags, ..Options::default() }).await.unwrap();
    create(&server.admin().unwrap(), SECRETS, &secret("a")).await;
    file.write(&rule(KEY_2));
    // The server runs but is not ready.
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

/// The time limit of a call of the plugin.
const PLUGIN_TIMEOUT: Duration = Duration::from_secs(1);

/// A configuration that encrypts secrets with the plugin at this socket.
fn kms_file(name: &str, socket: &Path) -> File {
    let kms = json!({"kms": {"apiVersion": "v2", "name": "padding", "timeout": format!("{}s", PLUGIN_TIMEOUT.as_secs()),
        "endpoint": format!("unix://{}", socket.display())}});
    File::new(name, &json!([{"resources": ["secrets"], "providers": [kms]}]))
}

/// The plugin of kube-apiserver's recordings: it pads with the letters of the key id.
fn start_plugin(path: &Path, key_id: &str) -> GrpcServer {
    start_slow_plugin(path, key_id, Duration::ZERO)
}

/// The same plugin, which takes some time to decrypt.
fn start_slow_plugin(path: &Path, key_id: &str, delay: Duration) -> GrpcServer {
    let key_id = key_id.to_string();
    let pad = |bytes: &[u8], key_id: &str| -> Vec<u8> {
        bytes.iter().zip(key_id.bytes().cycle()).map(|(byte, letter)| byte ^ letter).collect()
    };
    let answer = move |method: &str, message: Vec<u8>| -> GrpcAnswer {
        let (mut out, mut bytes, mut second, mut sealed_with) =
            (Vec::new(), Vec::new(), Vec::new(), String::new());
        for field in Fields(&message) {
            match field.unwrap() {
                (1, Field::Bytes(field)) => bytes = field.to_vec(),
                (2, Field::Bytes(field)) => second = field.to_vec(),
                (3, Field::Bytes(field)) => sealed_with = text(field),
                _ => {}
            }
        }
        match method {
            "/v2.KeyManagementService/Status" => {
                put_bytes(1, b"v2", &mut out);
                put_bytes(2, b"ok", &mut out);
                put_bytes(3, key_id.as_bytes(), &mut out);
            }
            "/v2.KeyManagementService/Encrypt" => {
                put_bytes(1, &[b"pad:".as_slice(), &pad(&bytes, &key_id)].concat(), &mut out);
                put_bytes(2, key_id.as_bytes(), &mut out);
            }
            "/v2.KeyManagementService/Decrypt" => {
                std::thread::sleep(delay);
                let body = bytes.strip_prefix(b"pad:").ok_or((3, "not mine".to_string()))?;
                put_bytes(1, &pad(body, &sealed_with), &mut out);
            }
            "/v1beta1.KeyManagementService/Version" => put_bytes(1, b"v1beta1", &mut out),
            "/v1beta1.KeyManagementService/Encrypt" => put_bytes(1, &pad(&second, &key_id), &mut out),
            "/v1beta1.KeyManagementService/Decrypt" => put_bytes(1, &pad(&second, &key_id), &mut out),
            _ => return Err((12, format!("unknown method {method}"))),
        }
        Ok(out)
    };
    GrpcServer::start(path, answer).unwrap()
}

/// Repeats a request until it has this code, for as long as a plugin's failure may take to be noticed.
async fn wait_for_code(admin: &Client, path: &str, code: u16) {
    for _ in 0..200 {
        if admin.get(path).await.unwrap().0 == code {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("{path} never answers {code}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kms_plugin_that_comes_late_makes_values_readable() {
    let socket = std::env::temp_dir().join(format!("pintle-kms-{}.sock", std::process::id()));
    let file = kms_file("kms", &socket);
    let plugin = start_plugin(&socket, "key-1");
    let mut server =
        Server::start_with(Options { flags: file.flags(&[]), ..Options::default() }).await.unwrap();
    let path = format!("{SECRETS}/a");
    let made = create(&server.admin().unwrap(), SECRETS, &secret("a")).await;
    let bytes = stored(&server.data_dir().join("store"));
    assert_eq!(count(&bytes, WORD), 0);
    assert!(count(&bytes, "k8s:enc:kms:v2:padding:") > 0);
    let metrics = server.admin().unwrap().send(&Request::new("GET", "/metrics")).await.unwrap().text();
    for part in [
        "apiserver_envelope_encryption_key_id_hash_total{apiserver_id_hash=\"sha256:",
        "apiserver_envelope_encryption_kms_operations_latency_seconds_count{grpc_status_code=\"OK\",\
         method_name=\"/v2.KeyManagementService/Encrypt\",provider_name=\"padding\"} 1",
        "apiserver_storage_transformation_operations_total{resource=\"secrets\",status=\"OK\",\
         transformation_type=\"to_storage\",transformer_prefix=\"k8s:enc:kms:v2:padding:\"} 1",
        "apiserver_encryption_config_controller_last_config_info{apiserver_id_hash=\"sha256:",
    ] {
        assert!(metrics.contains(part), "{part}");
    }

    drop(plugin);
    server.restart_listening().await.unwrap();
    let admin = server.admin().unwrap();
    assert_eq!(admin.get(&path).await.unwrap().0, 500);
    assert_eq!(admin.send(&Request::new("GET", "/readyz/kms-providers")).await.unwrap().status(), 500);
    let _plugin = start_plugin(&socket, "key-2");
    wait_for_code(&admin, &path, 200).await;
    let (_, read) = admin.get(&path).await.unwrap();
    assert_eq!(read["data"], made["data"]);
    assert_eq!(read["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    wait_for_code(&admin, SECRETS, 200).await;
    // The plugin has another key by now: even a write without changes stores the value again.
    let patch = json!({"metadata": {"labels": null}});
    let (_, touched) = admin.patch(&path, "application/merge-patch+json", &patch).await.unwrap();
    assert_ne!(touched["metadata"]["resourceVersion"], made["metadata"]["resourceVersion"]);
    assert_eq!(admin.send(&Request::new("GET", "/readyz")).await.unwrap().status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kms_plugin_that_stalls_does_not_delay_the_start_with_each_value() {
    const SECRETS_NUMBER: u32 = 20;
    let socket = std::env::temp_dir().join(format!("pintle-stalled-kms-{}.sock", std::process::id()));
    let file = kms_file("stalled-kms", &socket);
    let plugin = start_plugin(&socket, "key-1");
    let mut server =
        Server::start_with(Options { flags: file.flags(&[]), ..Options::default() }).await.unwrap();
    for number in 0..SECRETS_NUMBER {
        create(&server.admin().unwrap(), SECRETS, &secret(&format!("a{number}"))).await;
    }
    drop(plugin);
    let _stalls = start_slow_plugin(&socket, "key-1", PLUGIN_TIMEOUT * 2);
    let began = std::time::Instant::now();
    server.restart_listening().await.unwrap();
    assert!(began.elapsed() < PLUGIN_TIMEOUT * (SECRETS_NUMBER / 2), "{:?}", began.elapsed());
    let admin = server.admin().unwrap();
    assert_eq!(admin.get(&format!("{SECRETS}/a0")).await.unwrap().0, 500);
    assert_eq!(admin.get("/api/v1/namespaces/default").await.unwrap().0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plugin_of_kms_v1_encrypts_a_key_for_each_value() {
    let socket = std::env::temp_dir().join(format!("pintle-kms-v1-{}.sock", std::process::id()));
    let kms = json!({"kms": {"name": "old", "timeout": "1s", "cachesize": -1,
        "endpoint": format!("unix://{}", socket.display())}});
    let file = File::new("kms-v1", &json!([{"resources": ["secrets"], "providers": [kms]}]));
    let plugin = start_plugin(&socket, "key");
    let flags = file.flags(&["--feature-gates=KMSv1=true"]);
    let mut server = Server::start_with(Options { flags, ..Options::default() }).await.unwrap();
    let path = format!("{SECRETS}/a");
    let made = create(&server.admin().unwrap(), SECRETS, &secret("a")).await;
    let bytes = stored(&server.data_dir().join("store"));
    assert_eq!(count(&bytes, WORD), 0);
    assert!(count(&bytes, "k8s:enc:kms:v1:old:") > 0);
    server.restart().await.unwrap();
    let admin = server.admin().unwrap();
    assert_eq!(admin.get(&path).await.unwrap().1["data"], made["data"]);
    assert_eq!(admin.send(&Request::new("GET", "/readyz/kms-provider-0")).await.unwrap().status(), 200);

    drop(plugin);
    server.restart_listening().await.unwrap();
    let admin = server.admin().unwrap();
    assert_eq!(admin.get(&path).await.unwrap().0, 500);
    assert_eq!(admin.send(&Request::new("GET", "/readyz/kms-provider-0")).await.unwrap().status(), 500);
    let _plugin = start_plugin(&socket, "key");
    wait_for_code(&admin, &path, 200).await;
}
