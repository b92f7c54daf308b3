//! Recorded values and errors of kube-apiserver v1.36.4.

use bytes::Bytes;
use pintle_encrypt::{Decrypted, Encryption, KmsService, Sealed, Status, parse};
use pintle_value::{base64, json};
use std::sync::Arc;

const VALUES: &str = include_str!("data/values.jsonl");

/// The plugin of the recordings: it only decrypts here.
struct Pad;

impl KmsService for Pad {
    fn status(&self) -> Result<Status, String> {
        Ok(Status { version: "v2".into(), healthz: "ok".into(), key_id: "key-1".into() })
    }

    fn encrypt(&self, plain: &[u8]) -> Result<Sealed, String> {
        let ciphertext = [b"pad:".as_slice(), &xor(plain, "key-1")].concat();
        Ok(Sealed { ciphertext, key_id: "key-1".into(), annotations: Vec::new() })
    }

    fn decrypt(&self, sealed: &Sealed) -> Result<Decrypted, String> {
        Ok(xor(sealed.ciphertext.strip_prefix(b"pad:").ok_or("not mine")?, &sealed.key_id))
    }
}

fn xor(bytes: &[u8], key_id: &str) -> Vec<u8> {
    bytes.iter().zip(key_id.bytes().cycle()).map(|(byte, letter)| byte ^ letter).collect()
}

fn encryption(config: &str) -> Result<Encryption, String> {
    let parsed = parse("/etc/enc.json", config.as_bytes(), false, &|_, _, _| Ok(Arc::new(Pad)));
    parsed.map(Encryption::new).map_err(|error| error.to_string())
}

#[test]
fn recorded_values_are_opened_and_ours_read_alike() {
    for line in VALUES.lines() {
        let case = json::parse(line.as_bytes()).unwrap().value;
        let encryption = encryption(&json::text(case.get("config").unwrap())).unwrap();
        let of = |name: &str| case.str_at(&[name]);
        let bytes = |name: &str| Bytes::from(base64::decode(of(name)).unwrap());
        let opened = encryption.open(of("group"), of("resource"), of("key"), &bytes("value")).unwrap();
        assert_eq!(opened.value, bytes("plain"), "{line}");
        let sealed = encryption.seal(of("group"), of("resource"), of("key"), &bytes("plain")).unwrap();
        assert_eq!(sealed.starts_with(b"k8s:enc:"), bytes("value").starts_with(b"k8s:enc:"), "{line}");
        let again = encryption.open(of("group"), of("resource"), of("key"), &sealed).unwrap();
        assert_eq!((again.value, again.outdated), (bytes("plain"), false), "{line}");
    }
}

const SECRET: &str = "BwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJSY=";

/// A file with one rule.
fn file(resources: &str, providers: &str) -> String {
    format!(
        r#"{{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{{"resources":[{resources}],"providers":[{providers}]}}]}}"#
    )
}

fn keyed(provider: &str, name: &str, secret: &str) -> String {
    format!(r#"{{"{provider}":{{"keys":[{{"name":"{name}","secret":"{secret}"}}]}}}}"#)
}

#[test]
fn complaints_about_files() {
    let parse = |why: &str| format!("error while parsing file: {why}");
    let identity = r#"{"identity":{}}"#;
    let short = "BwgJCgsMDQ4PEBESExQVFhcYGRobHB0eHyAhIiMkJQ==";
    let kms = |more: &str| format!(r#"{{"kms":{{"name":"p","endpoint":"unix:///x",{more}}}}}"#);
    let two = format!(
        r#"{{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{{"resources":["*.*"],"providers":[{identity}]}},{{"resources":["secrets"],"providers":[{identity}]}}]}}"#
    );
    for (config, expected) in [
        (
            String::new(),
            parse(r#"error while loading file: encryption provider configuration file "/etc/enc.json" is empty"#),
        ),
        (
            file(r#""secrets""#, r#"{"aescbc":{"keys":"a"}}"#),
            parse("error decoding encryption provider configuration file \"/etc/enc.json\": json: cannot unmarshal string into Go struct field AESConfiguration.resources.providers.aescbc.keys of type []v1.Key"),
        ),
        (two, "error while building transformers: resource \"secrets\" is masked by earlier rule \"*.*\"".into()),
        (
            file(r#""secrets""#, &keyed("secretbox", "k", short)),
            parse("resources[0].providers[0].secretbox.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 31, expected one of [32]"),
        ),
        (
            file(r#""secrets""#, &keyed("aesgcm", "k", short)),
            parse("resources[0].providers[0].aesgcm.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 31, expected one of [16 24 32]"),
        ),
        (
            file(r#""secrets""#, ""),
            parse("resources[0].providers: Required value: at least one resources[0].providers is required"),
        ),
        (
            file(r#""secrets""#, r#"{"rot13":{}}"#),
            parse("error decoding encryption provider configuration file \"/etc/enc.json\": strict decoding error: unknown field \"resources[0].providers[0].rot13\""),
        ),
        (
            r#"{"apiVersion":"apiserver.config.k8s.io/v1","kind":"Encryption","resources":[]}"#.to_string(),
            parse("error decoding encryption provider configuration file \"/etc/enc.json\": no kind \"Encryption\" is registered for version \"apiserver.config.k8s.io/v1\" in scheme \"k8s.io/apiserver/pkg/server/options/encryptionconfig/config.go:142\""),
        ),
        (
            r#"{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[]}"#.to_string(),
            parse("resources: Required value: at least one resources is required"),
        ),
        (
            file(r#""*""#, identity),
            parse("resources[0].resources[0]: Invalid value: \"*\": use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"),
        ),
        (
            file(r#""events.events.k8s.io""#, identity),
            parse("resources[0].resources[0]: Invalid value: \"events.events.k8s.io\": '*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file"),
        ),
        (
            file(r#""Secrets""#, identity),
            parse("resources[0].resources[0]: Invalid value: \"Secrets\": resource name should not contain capital letters"),
        ),
        (
            file(r#""secrets","*.""#, identity),
            parse("resources[0].resources: Invalid value: [\"secrets\",\"*.\"]: using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked"),
        ),
        (
            file(r#""secrets""#, &keyed("secretbox", "", SECRET)),
            parse("resources[0].providers[0].secretbox.keys[0].name: Required value: name is a mandatory field for a key"),
        ),
        (
            file(r#""secrets""#, &keyed("secretbox", "k", "###")),
            parse("resources[0].providers[0].secretbox.keys[0].secret: Invalid value: \"REDACTED\": secrets must be base64 encoded"),
        ),
        (
            file(r#""secrets""#, &kms(r#""apiVersion":"v1""#)),
            "error while building transformers: KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  Set --feature-gates=KMSv1=true to use the deprecated KMSv1 feature.".into(),
        ),
        (
            file(r#""secrets""#, &kms(r#""apiVersion":"v2","timeout":"0s""#)),
            parse("resources[0].providers[0].kms.timeout: Invalid value: \"0s\": timeout should be a positive value"),
        ),
    ] {
        assert_eq!(encryption(&config).err(), Some(expected), "{config}");
    }
}

#[test]
fn no_complaint_tells_a_secret() {
    let both = format!(r#"{{"secretbox":{{"keys":[{{"name":"k","secret":"{SECRET}"}}]}},"identity":{{}}}}"#);
    let why = encryption(&file(r#""secrets""#, &both)).err().unwrap();
    assert!(why.contains("more than one provider") && !why.contains(SECRET), "{why}");
    let kindless = format!(r#"{{"resources":[{{"providers":[{}]}}]}}"#, keyed("aescbc", "k", SECRET));
    let why = encryption(&kindless).err().unwrap();
    assert!(why.contains("'Kind' is missing") && !why.contains(SECRET), "{why}");
}

#[test]
fn values_that_cannot_be_opened() {
    let value = Bytes::from_static(b"plain text");
    let seal =
        |config: &str, key: &str| encryption(config).unwrap().seal("", "secrets", key, &value).unwrap();
    let open = |config: &str, key: &str, stored: &Bytes| {
        let opened = encryption(config).unwrap().open("", "secrets", key, stored);
        opened.map(|opened| opened.outdated).map_err(|error| error.to_string())
    };
    let other = "P0BBQkNERUZHSElKS0xNTk9QUVJTVFVWV1hZWltcXV4=";
    for (provider, wrong, moved) in [
        ("secretbox", "output array was not large enough for encryption", None),
        ("aesgcm", "cipher: message authentication failed", Some("cipher: message authentication failed")),
        ("aescbc", "invalid padding on input", None),
    ] {
        let config = file(r#""secrets""#, &keyed(provider, "k1", SECRET));
        let stored = seal(&config, "/a");
        assert!(!stored.windows(5).any(|part| part == b"plain"), "{provider}");
        assert_eq!(open(&config, "/a", &stored), Ok(false), "{provider}");
        assert_eq!(open(&config, "/b", &stored).err().as_deref(), moved, "{provider}");
        // Random data occasionally has a valid padding, so CBC is tested with several values.
        let foreign = file(r#""secrets""#, &keyed(provider, "k1", other));
        assert!(
            (0..8).any(|_| open(&foreign, "/a", &seal(&config, "/a")) == Err(wrong.to_string())),
            "{provider}"
        );
        let renamed = file(r#""secrets""#, &keyed(provider, "k2", SECRET));
        let missing = if provider == "secretbox" { "Secretbox" } else { "AES" };
        let expected = format!("no matching key was found for the provided {missing} transformer");
        assert_eq!(open(&renamed, "/a", &stored), Err(expected), "{provider}");
        let short = Bytes::from(format!("k8s:enc:{provider}:v1:k1:short"));
        let expected = "the stored data was shorter than the required size";
        assert_eq!(open(&config, "/a", &short), Err(expected.to_string()), "{provider}");
    }
    let sealed = seal(&file(r#""secrets""#, &keyed("aesgcm", "k1", SECRET)), "/a");
    let none = Encryption::default().open("", "secrets", "/a", &sealed).err().unwrap();
    assert_eq!(none.to_string(), "identity transformer tried to read encrypted data");
    let identity = file(r#""secrets""#, r#"{"identity":{}}"#);
    assert_eq!(open(&identity, "/a", &sealed), Err("no matching prefix found".to_string()));
    let first = file(r#""secrets""#, &format!(r#"{{"identity":{{}}}},{}"#, keyed("aesgcm", "k1", SECRET)));
    assert_eq!(open(&first, "/a", &sealed), Ok(true));
    assert!(encryption(&first).unwrap().is_outdated("", "secrets", &sealed));
}

#[test]
fn the_most_specific_rule_holds() {
    let rule = |resource: &str, key: &str| {
        format!(r#"{{"resources":["{resource}"],"providers":[{}]}}"#, keyed("secretbox", key, SECRET))
    };
    let config = format!(
        r#"{{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{},{},{},{}]}}"#,
        rule("secrets", "name"),
        rule("*.", "core"),
        rule("*.apps", "apps"),
        rule("*.*", "all")
    );
    let encryption = encryption(&config).unwrap();
    for (group, resource, key) in [
        ("", "secrets", "name"),
        ("", "configmaps", "core"),
        ("apps", "deployments", "apps"),
        ("example.org", "things", "all"),
    ] {
        let sealed = encryption.seal(group, resource, "/k", &Bytes::from_static(b"v")).unwrap();
        let prefix = format!("k8s:enc:secretbox:v1:{key}:");
        assert!(sealed.starts_with(prefix.as_bytes()), "{resource}.{group}");
    }
}
