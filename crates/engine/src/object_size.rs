//! The limit on the memory that an object takes while it is written.
//!
//! A body of three megabytes can hold a million empty containers, each of which gets defaults, is copied for admission and
//! owned by a field manager. The limit is checked before any of that happens.

use pintle_meta::Status;
use pintle_value::{Value, cbor};

/// The maximum number of bytes that the tree of an object may take, including the reserve for its defaults. An object
/// of 1.5 MB, the most that etcd accepts, takes less unless its values are shorter than their punctuation.
const OBJECT_BYTES_MAX: usize = 32 * 1024 * 1024;
/// The bytes that are reserved for the defaults of each object within an object. A container gets four fields.
const DEFAULTS_BYTES: usize = 200;

/// The most bytes of memory that a byte of JSON can become: `{}` is a value with a reserve for defaults.
const BYTES_PER_BYTE_OF_JSON: usize = (size_of::<Value>() + DEFAULTS_BYTES).div_ceil(2);

/// The message of the refusal.
pub(crate) const TOO_LARGE: &str = "the object would take more than 33554432 bytes of memory";

/// Refuses an object that would take too much memory (413). Metadata gets no defaults.
pub(crate) fn check(object: &Value) -> Result<(), Status> {
    let of_members = object.as_object().into_iter().flat_map(|map| map.iter()).map(|(key, member)| {
        let reserved = if key == "metadata" { 0 } else { DEFAULTS_BYTES };
        member.memory_bytes(reserved)
    });
    if of_members.fold(0, usize::saturating_add) <= OBJECT_BYTES_MAX {
        Ok(())
    } else {
        Err(Status::entity_too_large(TOO_LARGE))
    }
}

/// Returns whether a body of JSON is so short that its tree cannot be too large, whatever it contains.
pub(crate) fn is_short_json(body: &[u8]) -> bool {
    body.len() <= OBJECT_BYTES_MAX / BYTES_PER_BYTE_OF_JSON
}

/// Returns whether a body in CBOR has more values than an object may have. A value of one byte takes 24 in the tree, so
/// this is checked before the tree is made; a body that is not well-formed has no tree.
pub(crate) fn has_too_many_values(body: &[u8]) -> bool {
    let is_too_many = |count: usize| count.saturating_mul(size_of::<Value>()) > OBJECT_BYTES_MAX;
    is_too_many(body.len()) && is_too_many(cbor::value_count(body))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pintle_value::json;

    #[test]
    fn objects_that_would_grow_are_refused() {
        let list_of = |prefix: &str, item: &str, count: usize| {
            let items = vec![item; count].join(",");
            json::parse(format!("{prefix}[{items}]}}}}").as_bytes()).unwrap().value
        };
        for (prefix, item, count, is_accepted) in [
            (r#"{"spec":{"containers":"#, "{}", 100_000, true),
            (r#"{"spec":{"containers":"#, "{}", 1_000_000, false),
            (r#"{"spec":{"numbers":"#, "7", 700_000, true),
            (r#"{"metadata":{"managedFields":"#, "{}", 700_000, true),
        ] {
            let refused = check(&list_of(prefix, item, count)).err().map(|status| status.code);
            assert_eq!(refused, (!is_accepted).then_some(413), "{prefix} {count} of {item}");
        }
    }

    #[test]
    fn short_bodies_cannot_be_too_large() {
        let densest = |bytes: usize| {
            let items = vec!["{}"; bytes / "{},".len()].join(",");
            format!(r#"{{"a":[{items}]}}"#)
        };
        let longest = OBJECT_BYTES_MAX / BYTES_PER_BYTE_OF_JSON;
        let body = densest(longest - 20);
        assert!(is_short_json(body.as_bytes()));
        assert!(check(&json::parse(body.as_bytes()).unwrap().value).is_ok());
        assert!(!is_short_json(densest(longest + 20).as_bytes()));
    }

    #[test]
    fn values_of_cbor_are_counted_before_they_are_decoded() {
        const HEAD: &[u8] = b"\xa1\x61a\x9f";
        for (values, tail, is_refused) in
            [(1_000_000, &b"\xff"[..], false), (2_000_000, b"\xff", true), (2_000_000, b"", false)]
        {
            let body = [HEAD, &vec![0xf6; values], tail].concat();
            assert_eq!(
                has_too_many_values(&body),
                is_refused,
                "{values} values, {} bytes of tail",
                tail.len()
            );
        }
    }
}
