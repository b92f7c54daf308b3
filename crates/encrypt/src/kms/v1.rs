//! KMS v1 (feature gate KMSv1): each value has a key of its own, which the plugin encrypts and which is stored beside the
//! value: its length in two bytes, the encrypted key, the value in AES-GCM.

use super::{KmsService, Sealed};
use crate::aes::{Cbc, Gcm};
use crate::measure::{self, FROM_STORAGE, TO_STORAGE};
use crate::provider::{Plain, TransformError, all};
use pintle_metrics::families;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::runtime::{Handle, RuntimeFlavor};

const KEY_BYTES: usize = 32;
/// How long the result of a health check holds.
const HEALTHY_FOR: Duration = Duration::from_secs(20);
const UNHEALTHY_FOR: Duration = Duration::from_secs(3);
const TRUNCATED: &str =
    "invalid data encountered by envelope transformer: failed to read uint16 length prefixed data";

/// One KMS v1 provider.
pub struct KmsV1 {
    name: String,
    prefix: String,
    service: Arc<dyn KmsService>,
    keys: Mutex<Keys>,
    probe: Mutex<Option<Probe>>,
    /// Whether the last call failed.
    failed: AtomicBool,
    /// How often the plugin worked again after a failure.
    recoveries: AtomicU64,
    /// Dropped with the provider, which ends its thread.
    _stop: Sender<()>,
}

/// The last health check.
struct Probe {
    at: Instant,
    error: Option<String>,
}

/// The key of one value, for both ciphers: older servers wrote AES-CBC.
struct DataKey {
    gcm: Gcm,
    cbc: Cbc,
}

/// Decrypted keys by their encrypted form; at most `size` of them.
struct Keys {
    size: usize,
    known: HashMap<Vec<u8>, Arc<DataKey>>,
    /// The encrypted keys in the order of their insertion.
    order: VecDeque<Vec<u8>>,
}

impl KmsV1 {
    /// A provider whose cache has room for `cache_size` keys.
    pub(crate) fn start(name: &str, service: Arc<dyn KmsService>, cache_size: usize) -> Arc<KmsV1> {
        let (stop, stopped) = channel();
        let kms = Arc::new(KmsV1 {
            name: name.to_string(),
            prefix: format!("k8s:enc:kms:v1:{name}:"),
            service,
            keys: Mutex::new(Keys { size: cache_size, known: HashMap::new(), order: VecDeque::new() }),
            probe: Mutex::default(),
            failed: AtomicBool::new(false),
            recoveries: AtomicU64::new(0),
            _stop: stop,
        });
        let weak = Arc::downgrade(&kms);
        let spawned = std::thread::Builder::new().name("kms".into()).spawn(move || follow(&weak, &stopped));
        if let Err(error) = spawned {
            tracing::error!(%error, "cannot notice when a KMS plugin works again");
        }
        kms
    }

    pub(crate) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(crate) fn recoveries(&self) -> u64 {
        self.recoveries.load(Ordering::Acquire)
    }

    /// Lets the plugin encrypt and decrypt a test value, unless it was checked a moment ago. Blocks.
    pub(crate) fn check(&self) -> Result<(), String> {
        let mut last = self.probe.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(probe) = &*last {
            let holds = if probe.error.is_none() { HEALTHY_FOR } else { UNHEALTHY_FOR };
            if probe.at.elapsed() < holds {
                return probe.error.clone().map_or(Ok(()), Err);
            }
        }
        let failed = |section: &str, why: &String| {
            format!(
                "failed to perform {section} section of the healthz check for KMS Provider {}, error: {why}",
                self.name
            )
        };
        let encrypted = self.call(|service| service.encrypt(b"ping"));
        let (error, outcome) = match encrypted.map(|sealed| self.call(|service| service.decrypt(&sealed))) {
            Err(why) => (Some(why.clone()), Err(failed("encrypt", &why))),
            Ok(Err(why)) => (Some(why.clone()), Err(failed("decrypt", &why))),
            Ok(Ok(_)) => (None, Ok(())),
        };
        *last = Some(Probe { at: Instant::now(), error });
        outcome
    }

    pub(crate) fn seal(&self, key: &str, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TransformError> {
        measure::arrival(TO_STORAGE);
        let mut secret = [0; KEY_BYTES];
        measure::generate_key(&mut secret)?;
        let sealed = self.call(|service| service.encrypt(&secret)).map_err(TransformError)?.ciphertext;
        let data_key = self.remember(&sealed, &secret)?;
        let length = u16::try_from(sealed.len())
            .map_err(|_| TransformError::new("the encrypted key is longer than its length can say"))?;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&sealed);
        data_key.gcm.seal(key, plain, out)
    }

    pub(crate) fn open(&self, key: &str, data: &[u8]) -> Result<Plain, TransformError> {
        measure::arrival(FROM_STORAGE);
        let truncated = || TransformError::new(TRUNCATED);
        let (length, rest) = data.split_first_chunk::<2>().ok_or_else(truncated)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let (sealed, body) = rest.split_at_checked(length).ok_or_else(truncated)?;
        let known = self.keys().known.get(sealed).cloned();
        let data_key = match known {
            Some(data_key) => data_key,
            None => {
                families::ENVELOPE_CACHE_MISSES.inc(&[]);
                let encrypted = Sealed { ciphertext: sealed.to_vec(), ..Sealed::default() };
                let secret = self.call(|service| service.decrypt(&encrypted)).map_err(TransformError)?;
                self.remember(sealed, &secret)?
            }
        };
        match data_key.gcm.open(key, body) {
            Ok(value) => Ok(Plain { value, outdated: false }),
            Err(by_gcm) => match data_key.cbc.open(body) {
                Ok(value) => Ok(Plain { value, outdated: true }),
                Err(by_cbc) => Err(all(vec![by_gcm, by_cbc], "")),
            },
        }
    }

    /// Calls the plugin, on a thread that may block.
    fn call<T>(&self, call: impl FnOnce(&dyn KmsService) -> Result<T, String>) -> Result<T, String> {
        let may_move = Handle::try_current().is_ok_and(|h| h.runtime_flavor() == RuntimeFlavor::MultiThread);
        // Every write waits for the plugin, so other tasks of this thread must be able to continue elsewhere.
        let outcome = if may_move {
            tokio::task::block_in_place(|| call(&*self.service))
        } else {
            call(&*self.service)
        };
        if self.failed.swap(outcome.is_err(), Ordering::AcqRel) && outcome.is_ok() {
            self.recoveries.fetch_add(1, Ordering::Release);
        }
        outcome
    }

    #[expect(clippy::cast_precision_loss, reason = "figures of metrics are floats")]
    fn remember(&self, sealed: &[u8], secret: &[u8]) -> Result<Arc<DataKey>, TransformError> {
        let data_key = Arc::new(DataKey { gcm: Gcm::new(secret)?, cbc: Cbc::new(secret)? });
        let mut keys = self.keys();
        if keys.size == 0 {
            return Ok(data_key);
        }
        if keys.known.insert(sealed.to_vec(), data_key.clone()).is_none() {
            keys.order.push_back(sealed.to_vec());
        }
        while keys.known.len() > keys.size {
            let Some(oldest) = keys.order.pop_front() else { break };
            keys.known.remove(&oldest);
        }
        families::KEY_CACHE_FILL.set(&[], keys.known.len() as f64 / keys.size as f64);
        Ok(data_key)
    }

    fn keys(&self) -> std::sync::MutexGuard<'_, Keys> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Calls a plugin that failed until it works again, so that the values that it could not decrypt are read again.
fn follow(kms: &Weak<KmsV1>, stopped: &Receiver<()>) {
    while stopped.recv_timeout(UNHEALTHY_FOR) == Err(RecvTimeoutError::Timeout) {
        let Some(kms) = kms.upgrade() else { return };
        if kms.failed.load(Ordering::Acquire) {
            // The result is in `failed`.
            _ = kms.check();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kms::{Decrypted, Status};

    /// A plugin that reverses bytes.
    struct Reverse(AtomicBool);

    impl KmsService for Reverse {
        fn status(&self) -> Result<Status, String> {
            Err("KMS v1 has no status".into())
        }

        fn encrypt(&self, plain: &[u8]) -> Result<Sealed, String> {
            if self.0.load(Ordering::Acquire) {
                Err("rpc error: code = Unavailable desc = gone".into())
            } else {
                Ok(Sealed { ciphertext: plain.iter().rev().copied().collect(), ..Sealed::default() })
            }
        }

        fn decrypt(&self, sealed: &Sealed) -> Result<Decrypted, String> {
            self.encrypt(&sealed.ciphertext).map(|sealed| sealed.ciphertext)
        }
    }

    #[test]
    fn values_have_keys_of_their_own() {
        let plugin = Arc::new(Reverse(AtomicBool::new(false)));
        let kms = KmsV1::start("p", plugin.clone(), 1);
        let sealed = |plain: &[u8]| {
            let mut out = Vec::new();
            kms.seal("/k", plain, &mut out).map(|()| out)
        };
        let (first, second) = (sealed(b"one").unwrap(), sealed(b"two").unwrap());
        assert_eq!(first.get(..2), Some([0, 32].as_slice()));
        assert_ne!(first.get(2..34), second.get(2..34));
        let other = KmsV1::start("p", plugin.clone(), 0);
        for kms in [&kms, &other] {
            let opened = kms.open("/k", &first).unwrap();
            assert_eq!((opened.value.as_slice(), opened.outdated), (b"one".as_slice(), false));
        }
        for cut in 0..first.len() {
            assert!(kms.open("/k", first.get(..cut).unwrap()).is_err(), "{cut}");
        }
        assert_eq!(kms.check(), Ok(()));

        plugin.0.store(true, Ordering::Release);
        assert_eq!(sealed(b"three").err().unwrap().0, "rpc error: code = Unavailable desc = gone");
        assert_eq!(kms.open("/k", &first).unwrap().value, b"one");
        assert_eq!(kms.open("/k", &second).err().unwrap().0, "rpc error: code = Unavailable desc = gone");
        let why = other.check().unwrap_err();
        assert!(why.starts_with(
            "failed to perform encrypt section of the healthz check for KMS Provider p, error: rpc"
        ));
        assert_eq!(other.check().unwrap_err(), "rpc error: code = Unavailable desc = gone");
        plugin.0.store(false, Ordering::Release);
        sealed(b"four").unwrap();
        assert_eq!(kms.recoveries(), 1);
    }

    #[test]
    fn values_of_old_servers_are_read() {
        let kms = KmsV1::start("p", Arc::new(Reverse(AtomicBool::new(false))), 0);
        let secret = [7; KEY_BYTES];
        let mut old = [[0, 32].as_slice(), &secret].concat();
        Cbc::new(&secret).unwrap().seal(b"one", &mut old).unwrap();
        let opened = kms.open("/k", &old).unwrap();
        assert_eq!((opened.value.as_slice(), opened.outdated), (b"one".as_slice(), true));
    }
}
