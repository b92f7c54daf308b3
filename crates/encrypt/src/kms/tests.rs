use super::*;

/// The plugin of the recordings: XOR with the letters of the key id.
struct Pad(Mutex<Status>);

impl Pad {
    fn new(key_id: &str) -> Arc<Pad> {
        let status = Status { version: "v2".into(), healthz: "ok".into(), key_id: key_id.into() };
        Arc::new(Pad(Mutex::new(status)))
    }

    fn set(&self, key_id: &str, healthz: &str) {
        let mut status = self.0.lock().unwrap();
        status.key_id = key_id.into();
        status.healthz = healthz.into();
    }
}

fn pad(bytes: &[u8], key_id: &str) -> Vec<u8> {
    bytes.iter().zip(key_id.bytes().cycle()).map(|(byte, letter)| byte ^ letter).collect()
}

impl KmsService for Pad {
    fn status(&self) -> Result<Status, String> {
        Ok(self.0.lock().unwrap().clone())
    }

    fn encrypt(&self, plain: &[u8]) -> Result<Sealed, String> {
        let key_id = self.0.lock().unwrap().key_id.clone();
        let ciphertext = [b"pad:".as_slice(), &pad(plain, &key_id)].concat();
        Ok(Sealed { ciphertext, key_id, annotations: vec![("scheme.example.com".into(), b"pad".to_vec())] })
    }

    fn decrypt(&self, sealed: &Sealed) -> Result<Decrypted, String> {
        let body = sealed.ciphertext.strip_prefix(b"pad:").ok_or("not mine")?;
        Ok(pad(body, &sealed.key_id))
    }
}

fn sealed(kms: &Kms, value: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    kms.seal("/k", value, &mut out).unwrap();
    out
}

#[test]
fn values_are_sealed_with_the_key_that_the_plugin_names() {
    let plugin = Pad::new("key-1");
    let kms = Kms::start("plug", plugin.clone());
    assert!(kms.is_healthy());
    let first = sealed(&kms, b"one");
    assert!(!first.windows(3).any(|part| part == b"one"));
    let opened = kms.open("/k", &first).unwrap();
    assert_eq!((opened.value.as_slice(), opened.outdated), (b"one".as_slice(), false));
    assert_eq!(kms.open("/other", &first).err().unwrap().0, "cipher: message authentication failed");

    plugin.set("key-2", "ok");
    kms.poll();
    let opened = kms.open("/k", &first).unwrap();
    assert!(opened.outdated && kms.is_outdated(&first));
    assert!(!kms.is_outdated(&sealed(&kms, b"two")));

    // Another server must decrypt the seeds.
    let other = Kms::start("plug", plugin.clone());
    assert_eq!(other.open("/k", &first).unwrap().value, b"one");

    plugin.set("key-2", "broken");
    kms.poll();
    assert!(!kms.is_healthy());
    // The current seed is still used.
    assert_eq!(kms.open("/k", &sealed(&kms, b"three")).unwrap().value, b"three");
}

#[test]
fn without_a_seed_nothing_is_written() {
    // As in kube-apiserver, only a status without a usable key id leaves the server without a seed.
    let kms = Kms::start("plug", Pad::new(""));
    let refused = kms.seal("/k", b"v", &mut Vec::new()).err().unwrap();
    assert_eq!(refused.0, "got unexpected nil transformer");
}

#[test]
fn an_unhealthy_plugin_still_provides_a_seed() {
    let plugin = Pad::new("key-1");
    plugin.set("key-1", "starting");
    let kms = Kms::start("plug", plugin);
    assert!(!kms.is_healthy());
    assert_eq!(kms.open("/k", &sealed(&kms, b"v")).unwrap().value, b"v");
}

#[test]
fn malformed_values_are_errors() {
    let kms = Kms::start("plug", Pad::new("key-1"));
    let whole = sealed(&kms, b"one");
    for cut in 0..whole.len() {
        assert!(kms.open("/k", &whole[..cut]).is_err(), "{cut}");
    }
}

/// A plugin whose calls to decrypt get no answer as long as it stalls.
struct Stalls {
    pad: Arc<Pad>,
    stalls: AtomicBool,
    calls: AtomicU64,
}

impl KmsService for Stalls {
    fn status(&self) -> Result<Status, String> {
        self.pad.status()
    }

    fn encrypt(&self, plain: &[u8]) -> Result<Sealed, String> {
        self.pad.encrypt(plain)
    }

    fn decrypt(&self, sealed: &Sealed) -> Result<Decrypted, String> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        if !self.stalls.load(Ordering::Relaxed) {
            return self.pad.decrypt(sealed);
        }
        std::thread::sleep(Duration::from_millis(50));
        Err("rpc error: code = DeadlineExceeded desc = context deadline exceeded".to_string())
    }
}

#[test]
fn a_plugin_that_stalls_is_not_called_for_each_value() {
    let pad = Pad::new("key-1");
    let value = sealed(&Kms::start("plug", pad.clone()), b"one");
    let plugin = Arc::new(Stalls { pad, stalls: AtomicBool::new(true), calls: AtomicU64::new(0) });
    let kms = Kms::start("plug", plugin.clone());
    let began = Instant::now();
    let errors: Vec<_> = (0..1000).map(|_| kms.open("/k", &value).err().unwrap().0).collect();
    assert!(errors.iter().all(|why| why.ends_with("desc = context deadline exceeded")));
    let calls = plugin.calls.load(Ordering::Relaxed);
    assert!(calls <= 1 + began.elapsed().as_millis() as u64 / 500, "{calls} calls");

    // The values are read again when the plugin is called again, although its status was healthy all the time.
    plugin.stalls.store(false, Ordering::Relaxed);
    let before = kms.recoveries();
    kms.unanswered().as_mut().unwrap().pause_until = Instant::now();
    kms.poll();
    assert_eq!(kms.recoveries(), before + 1);
    assert_eq!(kms.open("/k", &value).unwrap().value, b"one");
    kms.poll();
    assert_eq!(kms.recoveries(), before + 1);
}
