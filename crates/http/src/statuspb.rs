//! `Status` in Kubernetes protobuf: the few messages that the HTTP side writes itself.

use pintle_meta::Status;

/// Writes protobuf fields; empty values are written as Go's generated code writes them.
#[derive(Default)]
pub(crate) struct Writer(pub(crate) Vec<u8>);

impl Writer {
    pub(crate) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push((value & 0x7f) as u8);
    }

    pub(crate) fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn string(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    pub(crate) fn int(&mut self, field: u64, value: i64) {
        self.varint(field << 3);
        self.varint(value as u64);
    }

    pub(crate) fn message(&mut self, field: u64, write: impl FnOnce(&mut Writer)) {
        let mut inner = Writer::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }
}

/// The envelope around every object: magic, apiVersion, kind, then the object.
pub(crate) fn envelope(api_version: &str, kind: &str, object: &[u8]) -> Vec<u8> {
    let mut out = envelope_head(api_version, kind, object.len());
    out.reserve(object.len().saturating_add(ENVELOPE_END.len()));
    out.extend_from_slice(object);
    out.extend_from_slice(ENVELOPE_END);
    out
}

/// What stands before an object of `length` bytes.
pub(crate) fn envelope_head(api_version: &str, kind: &str, length: usize) -> Vec<u8> {
    let mut out = Writer(b"k8s\0".to_vec());
    out.message(1, |w| {
        w.string(1, api_version);
        w.string(2, kind);
    });
    out.varint(2 << 3 | 2);
    out.varint(length as u64);
    out.0
}

/// What stands behind an object: an empty encoding and an empty type of its content.
pub(crate) const ENVELOPE_END: &[u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

/// A `Status` with its envelope.
pub(crate) fn encode(status: &Status) -> Vec<u8> {
    let mut out = Writer::default();
    out.message(1, |w| {
        w.string(1, "");
        w.string(2, "");
        w.string(3, &status.continue_token);
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
