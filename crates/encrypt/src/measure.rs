//! Metrics of encryption: transformations, keys of KMS plugins and their use, reloads.

use crate::provider::TransformError;
use aws_lc_rs::digest;
use pintle_metrics::{families, server_id_hash};
use pintle_value::hex;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// `transformation_type` of reads and writes.
pub(crate) const FROM_STORAGE: &str = "from_storage";
pub(crate) const TO_STORAGE: &str = "to_storage";

/// `sha256:` and the hash in hex.
fn hash(bytes: &[u8]) -> String {
    format!("sha256:{}", hex::encode(digest::digest(&digest::SHA256, bytes).as_ref()))
}

fn now_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

/// Counts a value that was encrypted or decrypted, or could not be.
pub(crate) fn transformation(
    resource: &str,
    direction: &str,
    prefix: &str,
    took: Duration,
    error: Option<&TransformError>,
) {
    let status = error.map_or("OK", |error| error_code(&error.0));
    families::TRANSFORMATIONS.inc(&[resource, status, direction, prefix]);
    if error.is_none() {
        families::TRANSFORMATION_SECONDS.observe(&[direction, prefix], took.as_secs_f64());
    }
}

/// Counts a call to a KMS plugin.
pub(crate) fn kms_call(provider: &str, method: &str, took: Duration, error: Option<&str>) {
    let method = format!("/v2.KeyManagementService/{method}");
    let code = error.map_or("OK", error_code);
    families::KMS_SECONDS.observe(&[code, &method, provider], took.as_secs_f64());
}

/// Makes a key or a seed, and measures the time.
pub(crate) fn generate_key(out: &mut [u8]) -> Result<(), TransformError> {
    let began = Instant::now();
    let made = crate::random(out);
    match &made {
        Ok(()) => families::KEY_GENERATION.observe(&[], began.elapsed().as_secs_f64()),
        Err(_) => families::KEY_GENERATION_FAILURES.inc(&[]),
    }
    made
}

/// When KMS v1 was last used, for reads and for writes.
static ARRIVALS: Mutex<[Option<Instant>; 2]> = Mutex::new([None, None]);

/// Counts a use of KMS v1 by the time since the last one.
pub(crate) fn arrival(direction: &str) {
    let now = Instant::now();
    let mut arrivals = ARRIVALS.lock().unwrap_or_else(PoisonError::into_inner);
    let [reads, writes] = &mut *arrivals;
    let last = if direction == FROM_STORAGE { reads } else { writes };
    let since = now.duration_since(last.replace(now).unwrap_or(now));
    families::KEY_ARRIVALS.observe(&[direction], since.as_secs_f64());
}

/// Counts the use of a key.
pub(crate) fn key_used(provider: &str, key_id: &str, direction: &str) {
    let key_id = hash(key_id.as_bytes());
    let labels = [server_id_hash(), &key_id, provider, direction];
    families::KEY_ID_USES.inc(&labels);
    families::KEY_ID_USED.set(&labels, now_seconds());
}

/// Records the key id that a plugin returned.
pub(crate) fn key_id_of_status(provider: &str, key_id: &str) {
    let key_id = hash(key_id.as_bytes());
    families::KEY_ID_STATUS.set(&[server_id_hash(), &key_id, provider], now_seconds());
}

/// Counts an invalid key id.
pub(crate) fn invalid_key_id(provider: &str, key_id: &str) {
    let code = if key_id.is_empty() { "empty" } else { "too_long" };
    families::KEY_ID_INVALID.inc(&[code, provider]);
}

/// Records the current configuration.
pub fn configuration_loaded(file: &[u8]) {
    families::ENCRYPTION_CONFIG.reset();
    families::ENCRYPTION_CONFIG.set(&[server_id_hash(), &hash(file)], 1.0);
}

/// Counts a reload of the configuration.
pub fn configuration_reloaded(succeeded: bool) {
    let labels = [server_id_hash(), if succeeded { "success" } else { "failure" }];
    families::ENCRYPTION_RELOADS.inc(&labels);
    families::ENCRYPTION_RELOADED.set(&labels, now_seconds());
}

/// The code of a plugin's error, which is part of the message; other errors have none.
fn error_code(text: &str) -> &str {
    let code = text.split_once("rpc error: code = ").and_then(|(_, rest)| rest.split_once(" desc = "));
    code.map_or("unknown-non-grpc", |(code, _)| code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_errors() {
        for (text, expected) in [
            ("failed to decrypt DEK, error: rpc error: code = Unavailable desc = gone", "Unavailable"),
            ("no matching prefix found", "unknown-non-grpc"),
        ] {
            assert_eq!(error_code(text), expected);
        }
        assert_eq!(hash(b""), "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    }
}
