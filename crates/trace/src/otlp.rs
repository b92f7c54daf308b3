//! OTLP: an `ExportTraceServiceRequest` in protobuf, written by hand.

use crate::span::Trace;
use pintle_protobuf::Writer;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// The kinds of spans: one that serves a request of a client, and one within the server.
const KIND_SERVER: i64 = 2;
const KIND_INTERNAL: i64 = 1;

/// Encodes these traces. The attributes of `resource` identify this server.
pub(crate) fn request(resource: &[(&'static str, String)], traces: &[Arc<Trace>]) -> Vec<u8> {
    let mut out = Writer::default();
    out.message(1, |resource_spans| {
        resource_spans
            .message(1, |out| resource.iter().for_each(|(key, value)| write_attribute(1, key, value, out)));
        resource_spans.message(2, |scope| {
            scope.message(1, |out| out.string(1, "k8s.io/component-base/tracing"));
            traces.iter().for_each(|trace| write_trace(trace, scope));
        });
    });
    out.0
}

fn write_trace(trace: &Trace, out: &mut Writer) {
    let time = |at: Instant| {
        let at = trace.started.checked_add(trace.since_start(at)).unwrap_or(SystemTime::UNIX_EPOCH);
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
                out.string(5, &span.name);
                out.int(6, if span.parent.is_none() { KIND_SERVER } else { KIND_INTERNAL });
                out.fixed64(7, time(span.from));
                out.fixed64(8, time(span.until.unwrap_or(span.from)));
                if span.parent.is_none() {
                    trace.attributes.iter().for_each(|(key, value)| write_attribute(9, key, value, out));
                }
            });
        }
    });
}

fn write_attribute(field: u64, key: &str, value: &str, out: &mut Writer) {
    out.message(field, |out| {
        out.string(1, key);
        out.message(2, |out| out.string(1, value));
    });
}
