//! The id of a request: `Audit-ID` of its headers and its answer.

use crate::headers;
use http::{HeaderMap, HeaderName};
use std::cell::RefCell;

/// The header of requests and answers that has it.
pub(crate) const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The client's own request id, or a new one.
pub(crate) fn request_id(headers: &HeaderMap) -> String {
    match &*headers::first(headers, AUDIT_ID) {
        "" => random_uuid(),
        given => given.to_string(),
    }
}

/// How many random bytes a thread draws at once. Drawing has a fixed cost: the 16 bytes of one id take half as long as these.
const RANDOM_BYTES: usize = 1024;

thread_local! {
    /// Random bytes that were drawn and are not used yet.
    static RANDOM: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A random (version 4) UUID.
fn random_uuid() -> String {
    let drawn = RANDOM.with_borrow_mut(|drawn| {
        if drawn.len() < 16 {
            drawn.resize(RANDOM_BYTES, 0);
            if aws_lc_rs::rand::fill(drawn).is_err() {
                drawn.clear();
            }
        }
        let bytes = drawn.last_chunk::<16>().copied()?;
        drawn.truncate(drawn.len().saturating_sub(16));
        Some(bytes)
    });
    drawn.map(|bytes| pintle_meta::generated::uid(bytes).into()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_random_uuids() {
        let (a, b) = (random_uuid(), random_uuid());
        assert_ne!(a, b);
        assert_eq!(a.len(), 36);
        assert_eq!(a.as_bytes().get(14), Some(&b'4'));
    }
}
