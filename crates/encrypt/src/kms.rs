//! KMS v2, and in `v1` its predecessor. In v2 a plugin encrypts a seed; every value gets its own key, derived from the seed.
//!
//! One thread per plugin polls its status. A new key id makes a new seed. While the plugin is unavailable, values with a
//! known seed can be read, and values are written with the current seed for a while.

mod grpc;
mod message;
mod v1;

pub use grpc::connect;
pub use v1::KmsV1;

use crate::aes::Gcm;
use crate::measure::{self, FROM_STORAGE, TO_STORAGE};
use crate::provider::{Plain, TransformError};
use crate::random;
use aws_lc_rs::{digest, hkdf};
use message::{EncryptedObject, SEED};
use pintle_metrics::families;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The poll interval of a healthy plugin, and of an unhealthy one.
const POLL_HEALTHY: Duration = Duration::from_secs(20);
const POLL_UNHEALTHY: Duration = Duration::from_secs(3);
/// How long a seed may be used for writes after the last healthy status.
const SEED_LIFE: Duration = Duration::from_secs(180);
/// The maximum number of cached decrypted seeds. There is one per key id and server run.
const SEEDS_MAX: usize = 4096;
/// After a call to decrypt that got no answer, no further one is made for this many times as long as it took. Values are
/// decrypted where changes of the store are received, so a plugin that stalls would stop the whole server.
const PAUSE_FACTOR: u32 = 10;
const SEED_BYTES: usize = 32;
/// The random bytes before each value, from which its key is derived.
const INFO_BYTES: usize = 32;

/// The status of a plugin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// `v2`
    pub version: String,
    /// `ok`, or the problem.
    pub healthz: String,
    /// The current encryption key.
    pub key_id: String,
}

/// A value that a plugin encrypted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sealed {
    /// The encrypted bytes.
    pub ciphertext: Vec<u8>,
    /// The key that was used.
    pub key_id: String,
    /// Data that the plugin needs for decryption.
    pub annotations: Vec<(String, Vec<u8>)>,
}

/// A value that a plugin decrypted.
pub type Decrypted = Vec<u8>;

/// The protocol of a plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KmsVersion {
    /// Every value has a key that the plugin encrypts.
    V1,
    /// The plugin encrypts seeds.
    V2,
}

/// A KMS plugin. One of v1 has no status, key ids and annotations. Calls block, within the time limit of the implementation.
pub trait KmsService: Send + Sync {
    /// The plugin's state.
    fn status(&self) -> Result<Status, String>;
    /// Encrypts a seed.
    fn encrypt(&self, plain: &[u8]) -> Result<Sealed, String>;
    /// Decrypts a seed.
    fn decrypt(&self, sealed: &Sealed) -> Result<Decrypted, String>;
}

/// One KMS provider.
pub struct Kms {
    name: String,
    prefix: String,
    service: Arc<dyn KmsService>,
    seed: Mutex<Option<Arc<Seed>>>,
    known: Mutex<HashMap<[u8; 32], Arc<Source>>>,
    unanswered: Mutex<Option<Unanswered>>,
    healthy: AtomicBool,
    /// How often the plugin became healthy.
    recoveries: AtomicU64,
    /// Dropped with the provider, which ends its thread.
    _stop: Sender<()>,
}

/// The last call to decrypt, if it got no answer. Cleared when the values that it made unreadable may be readable again.
#[derive(Clone)]
struct Unanswered {
    pause_until: Instant,
    why: String,
}

/// The seed for writes.
struct Seed {
    source: Arc<Source>,
    sealed: Sealed,
    /// When the plugin was last healthy.
    confirmed: Instant,
}

/// The source of the keys of values.
enum Source {
    /// HKDF-SHA256 expands a seed to one key per value.
    Seed(hkdf::Prk),
    /// One key for many values, as older servers wrote.
    Key(Gcm),
}

impl Kms {
    /// Polls the plugin's status now and until the provider is dropped.
    pub(crate) fn start(name: &str, service: Arc<dyn KmsService>) -> Arc<Kms> {
        let (stop, stopped) = channel();
        let kms = Arc::new(Kms {
            name: name.to_string(),
            prefix: format!("k8s:enc:kms:v2:{name}:"),
            service,
            seed: Mutex::default(),
            known: Mutex::default(),
            unanswered: Mutex::default(),
            healthy: AtomicBool::new(false),
            recoveries: AtomicU64::new(0),
            _stop: stop,
        });
        kms.poll();
        let weak = Arc::downgrade(&kms);
        let spawned = std::thread::Builder::new().name("kms".into()).spawn(move || follow(&weak, &stopped));
        if let Err(error) = spawned {
            tracing::error!(%error, "cannot follow the status of a KMS plugin");
        }
        kms
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn is_healthy(&self) -> bool {
        self.healthy.load(Ordering::Acquire)
    }

    /// How often the plugin became healthy.
    pub(crate) fn recoveries(&self) -> u64 {
        self.recoveries.load(Ordering::Acquire)
    }

    /// Polls the status once, and creates a seed if the key id is new.
    fn poll(&self) {
        let status = self.measured("Status", |service| service.status());
        let outcome = status.and_then(|status| self.follow_status(&status));
        if let Err(why) = &outcome {
            tracing::warn!(provider = self.prefix, "KMS plugin is not healthy: {why}");
        }
        let was_healthy = self.healthy.swap(outcome.is_ok(), Ordering::AcqRel);
        if outcome.is_ok() && (self.ends_pause() || !was_healthy) {
            self.recoveries.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns whether calls to decrypt that got no answer can be repeated now.
    fn ends_pause(&self) -> bool {
        let mut unanswered = self.unanswered();
        let is_over = unanswered.as_ref().is_some_and(|last| Instant::now() >= last.pause_until);
        if is_over {
            *unanswered = None;
        }
        is_over
    }

    /// Decrypts a seed, unless the plugin has just left another call without an answer.
    fn decrypt(&self, sealed: &Sealed) -> Result<Decrypted, String> {
        let now = Instant::now();
        if let Some(last) = self.unanswered().as_ref().filter(|last| now < last.pause_until) {
            return Err(last.why.clone());
        }
        let outcome = self.measured("Decrypt", |service| service.decrypt(sealed));
        if let Err(why) = &outcome
            && is_unanswered(why)
        {
            let pause_until = Instant::now().checked_add(now.elapsed().saturating_mul(PAUSE_FACTOR));
            let pause_until = pause_until.unwrap_or(now);
            *self.unanswered() = Some(Unanswered { pause_until, why: why.clone() });
        }
        outcome
    }

    /// Calls the plugin and measures the time.
    fn measured<T>(
        &self,
        method: &str,
        call: impl FnOnce(&dyn KmsService) -> Result<T, String>,
    ) -> Result<T, String> {
        let began = Instant::now();
        let outcome = call(&*self.service);
        measure::kms_call(&self.name, method, began.elapsed(), outcome.as_ref().err().map(String::as_str));
        outcome
    }

    /// Uses the key id of a status. As in kube-apiserver, also that of an unhealthy plugin.
    fn follow_status(&self, status: &Status) -> Result<(), String> {
        let mut errors = Vec::new();
        if status.healthz != "ok" {
            errors.push(format!("got unexpected healthz status: {}", status.healthz));
        }
        if !matches!(status.version.as_str(), "v2" | "v2beta1") {
            errors.push(format!("expected KMSv2 API version v2, got {}", status.version));
        }
        match message::validate_key_id(&status.key_id) {
            Ok(()) => {
                measure::key_id_of_status(&self.name, &status.key_id);
                errors.extend(self.follow_key_id(status).err());
            }
            Err(why) => {
                measure::invalid_key_id(&self.name, &status.key_id);
                errors.push(format!("got invalid KMSv2 KeyID: {why}"));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(errors.join(", ")) }
    }

    fn follow_key_id(&self, status: &Status) -> Result<(), String> {
        let current = self.seed().clone();
        let sealed_now = match current.filter(|seed| seed.sealed.key_id == status.key_id) {
            Some(seed) => {
                Seed { source: seed.source.clone(), sealed: seed.sealed.clone(), confirmed: Instant::now() }
            }
            None => self.new_seed(&status.key_id)?,
        };
        *self.seed() = Some(Arc::new(sealed_now));
        Ok(())
    }

    fn new_seed(&self, key_id: &str) -> Result<Seed, String> {
        let mut seed = [0; SEED_BYTES];
        measure::generate_key(&mut seed).map_err(|error| error.to_string())?;
        let sealed = self.measured("Encrypt", |service| service.encrypt(&seed));
        let sealed = sealed.map_err(|why| format!("failed to encrypt DEK, error: {why}"))?;
        message::validate(&sealed)?;
        if sealed.key_id != key_id {
            return Err("the key id of the encryption is not that of the status".to_string());
        }
        let source = Arc::new(Source::seed(&seed));
        self.cache_source(cache_key(SEED, &sealed), source.clone());
        Ok(Seed { source, sealed, confirmed: Instant::now() })
    }

    fn current(&self) -> Result<Arc<Seed>, TransformError> {
        self.seed().clone().ok_or_else(|| TransformError::new("got unexpected nil transformer"))
    }

    pub(crate) fn seal(&self, key: &str, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TransformError> {
        let seed = self.current()?;
        let age = seed.confirmed.elapsed();
        if age > SEED_LIFE {
            let since = age.saturating_sub(SEED_LIFE).as_secs();
            let why = format!("encryptedDEKSource of the current key expired {since} seconds ago");
            return Err(TransformError(why));
        }
        let data = seed.source.seal(key, plain)?;
        measure::key_used(&self.name, &seed.sealed.key_id, TO_STORAGE);
        message::encode(&EncryptedObject { data, sealed: seed.sealed.clone(), source_type: SEED }, out);
        Ok(())
    }

    pub(crate) fn open(&self, key: &str, data: &[u8]) -> Result<Plain, TransformError> {
        let object = message::decode(data).map_err(TransformError)?;
        let current = self.current()?;
        let cached = cache_key(object.source_type, &object.sealed);
        let known = self.known().get(&cached).cloned();
        let source = match known {
            Some(source) => source,
            None => {
                let failed = |why| TransformError(format!("failed to decrypt DEK, error: {why}"));
                families::ENVELOPE_CACHE_MISSES.inc(&[]);
                let key = self.decrypt(&object.sealed).map_err(failed)?;
                let source = Arc::new(Source::new(object.source_type, &key)?);
                self.cache_source(cached, source.clone());
                source
            }
        };
        measure::key_used(&self.name, &object.sealed.key_id, FROM_STORAGE);
        let value = source.open(key, &object.data)?;
        let outdated = object.source_type != SEED || object.sealed.key_id != current.sealed.key_id;
        Ok(Plain { value, outdated })
    }

    /// Whether a value was encrypted with another key id than the current one.
    pub(crate) fn is_outdated(&self, data: &[u8]) -> bool {
        match (message::decode(data), self.current()) {
            (Ok(object), Ok(current)) => {
                object.source_type != SEED || object.sealed.key_id != current.sealed.key_id
            }
            _ => false,
        }
    }

    fn cache_source(&self, key: [u8; 32], source: Arc<Source>) {
        let mut known = self.known();
        if known.len() >= SEEDS_MAX {
            known.clear();
        }
        known.insert(key, source);
        families::KEY_CACHE_SIZE.set(&[&self.name], known.len() as f64);
    }

    fn seed(&self) -> MutexGuard<'_, Option<Arc<Seed>>> {
        self.seed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unanswered(&self) -> MutexGuard<'_, Option<Unanswered>> {
        self.unanswered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn known(&self) -> MutexGuard<'_, HashMap<[u8; 32], Arc<Source>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an error is that of a plugin that did not answer.
fn is_unanswered(why: &str) -> bool {
    ["Unavailable", "DeadlineExceeded"]
        .iter()
        .any(|code| why.starts_with(&format!("rpc error: code = {code} ")))
}

/// Polls the status until the provider is dropped.
fn follow(kms: &Weak<Kms>, stopped: &Receiver<()>) {
    loop {
        let Some(healthy) = kms.upgrade().map(|kms| kms.is_healthy()) else { return };
        let wait = if healthy { POLL_HEALTHY } else { POLL_UNHEALTHY };
        if stopped.recv_timeout(wait) == Err(RecvTimeoutError::Disconnected) {
            return;
        }
        match kms.upgrade() {
            Some(kms) => kms.poll(),
            None => return,
        }
    }
}

impl Source {
    fn new(source_type: u64, key: &[u8]) -> Result<Source, TransformError> {
        match source_type {
            SEED if key.len() < SEED_BYTES => {
                Err(TransformError(format!("invalid seed length {} used for key generation", key.len())))
            }
            SEED => Ok(Source::seed(key)),
            _ => Gcm::new(key).map(Source::Key),
        }
    }

    fn seed(seed: &[u8]) -> Source {
        Source::Seed(hkdf::Prk::new_less_safe(hkdf::HKDF_SHA256, seed))
    }

    fn seal(&self, key: &str, plain: &[u8]) -> Result<Vec<u8>, TransformError> {
        let mut info = [0; INFO_BYTES];
        random(&mut info)?;
        let mut out = Vec::with_capacity(plain.len().saturating_add(INFO_BYTES).saturating_add(28));
        match self {
            Source::Seed(prk) => {
                out.extend_from_slice(&info);
                derive(prk, &info)?.seal(key, plain, &mut out)?;
            }
            Source::Key(gcm) => gcm.seal(key, plain, &mut out)?,
        }
        Ok(out)
    }

    fn open(&self, key: &str, data: &[u8]) -> Result<Vec<u8>, TransformError> {
        match self {
            Source::Key(gcm) => gcm.open(key, data),
            Source::Seed(prk) => match data.split_first_chunk::<INFO_BYTES>() {
                Some((info, body)) => derive(prk, info)?.open(key, body),
                None => Err(TransformError::new("the stored data was shorter than the required size")),
            },
        }
    }
}

/// The key of one value: HKDF's expand step only, without extract.
fn derive(prk: &hkdf::Prk, info: &[u8]) -> Result<Gcm, TransformError> {
    let failed = |_| TransformError::new("failed to derive a key");
    let mut key = [0; 32];
    let info = [info];
    prk.expand(&info, hkdf::HKDF_SHA256).map_err(failed)?.fill(&mut key).map_err(failed)?;
    Gcm::new(&key)
}

/// The cache key of a decrypted seed: all inputs of its encryption.
fn cache_key(source_type: u64, sealed: &Sealed) -> [u8; 32] {
    let mut context = digest::Context::new(&digest::SHA256);
    let mut add = |bytes: &[u8]| {
        context.update(&(bytes.len() as u64).to_le_bytes());
        context.update(bytes);
    };
    add(&source_type.to_le_bytes());
    add(&sealed.ciphertext);
    add(sealed.key_id.as_bytes());
    let mut annotations: Vec<_> = sealed.annotations.iter().collect();
    annotations.sort();
    for (name, value) in annotations {
        add(name.as_bytes());
        add(value);
    }
    let digest = context.finish();
    digest.as_ref().try_into().unwrap_or_default()
}

#[cfg(test)]
mod tests;
