//! `Status` in Kubernetes protobuf: the few messages that the HTTP crate encodes itself.

use pintle_meta::Status;
use pintle_protobuf::{Field, Fields, Writer};
use pintle_value::Value;

/// The envelope around every object: magic, apiVersion, kind, then the object.
pub(crate) fn envelope(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let mut out = envelope_head(api_version, kind, object.len());
    out.reserve(object.len().saturating_add(ENVELOPE_END.len()));
    out.extend_from_slice(object);
    out.extend_from_slice(ENVELOPE_END);
    out
}

/// The part of the envelope before an object of `length` bytes.
pub(crate) fn envelope_head(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
    let mut out = Writer(b"k8s\0".to_vec());
    out.message(1, |w| {
        w.string(1, api_version);
        w.string(2, kind);
    });
    out.length(2, length);
    out.0
}

/// The part of the envelope after an object: empty contentEncoding and contentType.
pub(crate) const ENVELOPE_END: &[u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

/// A `Status` with its envelope.
pub(crate) fn encode(status: &Status) -> Vec<u8> {
    let mut out = Writer::default();
    out.message(1, |w| {
        let other = status.other_metadata.as_deref();
        w.string(1, other.map_or("", |other| &other.self_link));
        w.string(2, other.map_or("", |other| &other.resource_version));
        w.string(3, &status.continue_token);
        if let Some(count) = other.and_then(|other| other.remaining_item_count) {
            w.int(4, count);
        }
    });
    out.string(2, if status.success { "Success" } else { "Failure" });
    out.string(3, &status.message);
    out.string(4, status.reason_text());
    let details = &status.details;
    if status.empty_details || **details != pintle_meta::Details::default() {
        out.message(5, |w| {
            w.string(1, &details.name);
            w.string(2, &details.group);
            w.string(3, &details.kind);
            for cause in &details.causes {
                w.message(4, |w| {
                    w.string(1, &cause.reason);
                    w.string(2, &cause.message);
                    w.string(3, &cause.field);
                });
            }
            w.int(5, i64::from(details.retry_after_seconds));
            w.string(6, &details.uid);
        });
    }
    out.int(6, i64::from(status.written_code()));
    envelope("v1", "Status", &out.0)
}

/// Decodes a `Status` with its envelope into a tree; `None` for anything else.
pub(crate) fn decode(bytes: &[u8]) -> Option<Value> {
    let envelope = fields(bytes.strip_prefix(b"k8s\0")?)?;
    let type_ = fields(message_field(&envelope, 1)?)?;
    if text(&type_, 1) != "v1" || text(&type_, 2) != "Status" {
        return None;
    }
    let status = fields(message_field(&envelope, 2)?)?;
    let mut tree = Value::object();
    tree.set_at(&["kind"], "Status".into());
    tree.set_at(&["apiVersion"], "v1".into());
    tree.set_at(&["metadata"], Value::object());
    for (number, name) in [(2, "status"), (3, "message"), (4, "reason")] {
        set_text(&mut tree, name, text(&status, number));
    }
    if let Some(details) = message_field(&status, 5).and_then(fields) {
        let mut out = Value::object();
        for (number, name) in [(1, "name"), (2, "group"), (3, "kind"), (6, "uid")] {
            set_text(&mut out, name, text(&details, number));
        }
        let causes: Vec<Value> =
            details.iter().filter(|(number, _)| *number == 4).filter_map(read_cause).collect();
        if !causes.is_empty() {
            out.set_at(&["causes"], Value::Array(causes));
        }
        if let Some(Field::Number(seconds @ 1..)) = find(&details, 5) {
            out.set_at(&["retryAfterSeconds"], Value::Int(i64::try_from(*seconds).unwrap_or(0)));
        }
        tree.set_at(&["details"], out);
    }
    if let Some(Field::Number(code)) = find(&status, 6) {
        tree.set_at(&["code"], Value::Int(i64::try_from(*code).unwrap_or(0)));
    }
    Some(tree)
}

fn read_cause((_, field): &(u64, Field<'_>)) -> Option<Value> {
    let Field::Bytes(bytes) = field else { return None };
    let cause = fields(bytes)?;
    let mut out = Value::object();
    for (number, name) in [(1, "reason"), (2, "message"), (3, "field")] {
        set_text(&mut out, name, text(&cause, number));
    }
    Some(out)
}

fn fields(message: &[u8]) -> Option<Vec<(u64, Field<'_>)>> {
    Fields(message).collect::<Result<_, _>>().ok()
}

fn find<'a, 'b>(fields: &'b [(u64, Field<'a>)], number: u64) -> Option<&'b Field<'a>> {
    fields.iter().find(|(n, _)| *n == number).map(|(_, field)| field)
}

fn message_field<'a>(fields: &[(u64, Field<'a>)], number: u64) -> Option<&'a [u8]> {
    match find(fields, number)? {
        Field::Bytes(bytes) => Some(bytes),
        Field::Number(_) => None,
    }
}

fn text<'a>(fields: &[(u64, Field<'a>)], number: u64) -> &'a str {
    message_field(fields, number).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or("")
}

fn set_text(tree: &mut Value, name: &str, text: &str) {
    if !text.is_empty() {
        tree.set_at(&[name], text.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoded_statuses_can_be_decoded() {
        let group = pintle_meta::GroupResource::new("apps", "deployments");
        for status in [Status::not_found(&group, "a"), Status::bad_request("it is wrong")] {
            assert_eq!(decode(&encode(&status)), Some(status.to_value()));
        }
        assert_eq!(decode(b"k8s\0"), None);
    }
}
