//! OTLP: an `ExportTraceServiceRequest` in protobuf, written by hand.

use crate::span::Trace;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A span that serves a request of somebody else, and one within the server.
const KIND_SERVER: u64 = 2;
const KIND_INTERNAL: u64 = 1;

/// The message for these traces. `resource` says who sends them.
pub(crate) fn request(resource: &[(&'static str, String)], traces: &[Arc<Trace>]) -> Vec<u8> {
    let mut out = Message::default();
    out.message(1, |resource_spans| {
        resource_spans
            .message(1, |out| resource.iter().for_each(|(key, value)| out.attribute(1, key, value)));
        resource_spans.message(2, |scope| {
            scope.message(1, |out| out.bytes(1, b"k8s.io/component-base/tracing"));
            traces.iter().for_each(|trace| write_trace(trace, scope));
        });
    });
    out.0
}

fn write_trace(trace: &Trace, out: &mut Message) {
    let time = |at: Duration| {
        let at = trace.started.checked_add(at).unwrap_or(SystemTime::UNIX_EPOCH);
        u64::try_from(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()).unwrap_or(0)
    };
    trace.read(|spans| {
        for span in spans {
            let parent = match span.parent {
                Some(parent) => spans.get(parent).map(|parent| parent.id),
                None => trace.parent,
            };
            out.message(2, |out| {
                out.bytes(1, &trace.id);
                out.bytes(2, &span.id);
                if let Some(parent) = parent {
                    out.bytes(4, &parent);
                }
                out.bytes(5, span.name.as_bytes());
                out.number(6, if span.parent.is_none() { KIND_SERVER } else { KIND_INTERNAL });
                out.fixed64(7, time(span.from));
                out.fixed64(8, time(span.until.unwrap_or(span.from)));
                span.attributes.iter().for_each(|(key, value)| out.attribute(9, key, value));
            });
        }
    });
}

/// A message of protobuf.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push((value & 0x7f) as u8);
    }

    fn number(&mut self, field: u64, value: u64) {
        self.varint(field << 3);
        self.varint(value);
    }

    fn fixed64(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | 1);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.varint(field << 3 | 2);
        self.varint(u64::try_from(bytes.len()).unwrap_or(0));
        self.0.extend_from_slice(bytes);
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn attribute(&mut self, field: u64, key: &str, value: &str) {
        self.message(field, |out| {
            out.bytes(1, key.as_bytes());
            out.message(2, |out| out.bytes(1, value.as_bytes()));
        });
    }
}
