//! The messages of etcd's API and their fields, as far as they are used here. Decoded messages borrow their bytes.

use bytes::Bytes;
use pintle_protobuf::{Field, Fields, Writer};

/// A message could not be read.
#[derive(Debug, thiserror::Error)]
#[error("malformed message from etcd")]
pub(crate) struct Malformed;

/// Calls `each` with the number and the value of each field of a message.
fn read<'m>(
    message: &'m [u8],
    mut each: impl FnMut(u64, Field<'m>) -> Result<(), Malformed>,
) -> Result<(), Malformed> {
    Fields(message).try_for_each(|field| {
        let (number, field) = field.map_err(|_| Malformed)?;
        each(number, field)
    })
}

fn field_number(field: &Field<'_>) -> u64 {
    match field {
        Field::Number(number) => *number,
        Field::Bytes(_) => 0,
    }
}

fn field_bytes<'m>(field: &Field<'m>) -> &'m [u8] {
    match field {
        Field::Number(_) => &[],
        Field::Bytes(bytes) => bytes,
    }
}

/// The header of every response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Header {
    pub(crate) cluster_id: u64,
    pub(crate) revision: u64,
}

impl Header {
    fn decode(message: &[u8]) -> Result<Header, Malformed> {
        let mut header = Header::default();
        read(message, |at, field| {
            match at {
                1 => header.cluster_id = field_number(&field),
                3 => header.revision = field_number(&field),
                _ => {}
            }
            Ok(())
        })?;
        Ok(header)
    }
}

/// A key and its value.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyValue<'m> {
    pub(crate) key: &'m [u8],
    pub(crate) created: u64,
    pub(crate) modified: u64,
    pub(crate) version: i64,
    pub(crate) value: &'m [u8],
}

impl<'m> KeyValue<'m> {
    fn decode(message: &'m [u8]) -> Result<KeyValue<'m>, Malformed> {
        let mut kv = KeyValue::default();
        read(message, |at, field| {
            match at {
                1 => kv.key = field_bytes(&field),
                2 => kv.created = field_number(&field),
                3 => kv.modified = field_number(&field),
                4 => kv.version = field_number(&field).cast_signed(),
                5 => kv.value = field_bytes(&field),
                _ => {}
            }
            Ok(())
        })?;
        Ok(kv)
    }
}

/// `etcdserverpb.RangeRequest`.
#[derive(Default)]
pub(crate) struct RangeRequest<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) range_end: &'a [u8],
    pub(crate) limit: i64,
    pub(crate) revision: u64,
}

impl RangeRequest<'_> {
    fn write(&self, out: &mut Writer) {
        out.bytes(1, self.key);
        if !self.range_end.is_empty() {
            out.bytes(2, self.range_end);
        }
        if self.limit != 0 {
            out.int(3, self.limit);
        }
        if self.revision != 0 {
            out.int(4, self.revision.cast_signed());
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Writer::default();
        self.write(&mut out);
        out.0.into()
    }
}

/// `etcdserverpb.RangeResponse`.
#[derive(Debug, Default)]
pub(crate) struct RangeResponse<'m> {
    pub(crate) header: Header,
    pub(crate) kvs: Vec<KeyValue<'m>>,
    pub(crate) more: bool,
}

impl<'m> RangeResponse<'m> {
    pub(crate) fn decode(message: &'m [u8]) -> Result<RangeResponse<'m>, Malformed> {
        let mut response = RangeResponse::default();
        read(message, |at, field| {
            match at {
                1 => response.header = Header::decode(field_bytes(&field))?,
                2 => response.kvs.push(KeyValue::decode(field_bytes(&field))?),
                3 => response.more = field_number(&field) != 0,
                _ => {}
            }
            Ok(())
        })?;
        Ok(response)
    }
}

/// The size of the database in an `etcdserverpb.StatusResponse`.
pub(crate) fn database_size(message: &[u8]) -> Result<u64, Malformed> {
    let mut size = 0;
    read(message, |at, field| {
        if at == 3 {
            size = field_number(&field);
        }
        Ok(())
    })?;
    Ok(size)
}

/// The precondition of a transaction on a key.
pub(crate) enum Condition {
    /// The revision of the last write to the key; 0 if it does not exist.
    ModRevision(u64),
    /// The key exists.
    Exists,
    /// The number of writes to the key since its creation.
    Version(i64),
}

/// The operations of a transaction.
pub(crate) enum Operation<'a> {
    Put { key: &'a [u8], value: &'a [u8], lease: i64 },
    Delete { key: &'a [u8] },
    Get { key: &'a [u8] },
}

/// Builds an `etcdserverpb.TxnRequest`.
#[derive(Default)]
pub(crate) struct TxnRequest(Writer);

impl TxnRequest {
    /// A request that will take about this many bytes.
    pub(crate) fn with_capacity(bytes: usize) -> TxnRequest {
        TxnRequest(Writer(Vec::with_capacity(bytes)))
    }

    pub(crate) fn add_condition(&mut self, key: &[u8], condition: &Condition) {
        const GREATER: i64 = 1;
        const TARGET_MOD: i64 = 2;
        self.0.message(1, |out| match condition {
            Condition::ModRevision(revision) => {
                out.int(2, TARGET_MOD);
                out.bytes(3, key);
                out.int(6, revision.cast_signed());
            }
            Condition::Exists => {
                out.int(1, GREATER);
                out.int(2, TARGET_MOD);
                out.bytes(3, key);
                out.int(6, 0);
            }
            Condition::Version(version) => {
                out.bytes(3, key);
                out.int(4, *version);
            }
        });
    }

    pub(crate) fn on_success(&mut self, operation: &Operation<'_>) {
        self.0.message(2, |out| operation.write(out));
    }

    pub(crate) fn on_failure(&mut self, operation: &Operation<'_>) {
        self.0.message(3, |out| operation.write(out));
    }

    pub(crate) fn encode(self) -> Bytes {
        self.0.0.into()
    }
}

impl Operation<'_> {
    fn write(&self, out: &mut Writer) {
        match self {
            Operation::Get { key } => {
                out.message(1, |out| RangeRequest { key, ..RangeRequest::default() }.write(out));
            }
            Operation::Put { key, value, lease } => out.message(2, |out| {
                out.bytes(1, key);
                out.bytes(2, value);
                if *lease != 0 {
                    out.int(3, *lease);
                }
            }),
            Operation::Delete { key } => out.message(3, |out| out.bytes(1, key)),
        }
    }
}

/// `etcdserverpb.TxnResponse`.
#[derive(Debug, Default)]
pub(crate) struct TxnResponse<'m> {
    pub(crate) header: Header,
    pub(crate) succeeded: bool,
    /// The answers to the ranges, in order.
    pub(crate) ranges: Vec<RangeResponse<'m>>,
}

impl<'m> TxnResponse<'m> {
    pub(crate) fn decode(message: &'m [u8]) -> Result<TxnResponse<'m>, Malformed> {
        let mut response = TxnResponse::default();
        read(message, |at, field| {
            match at {
                1 => response.header = Header::decode(field_bytes(&field))?,
                2 => response.succeeded = field_number(&field) != 0,
                3 => read(field_bytes(&field), |at, field| {
                    if at == 1 {
                        response.ranges.push(RangeResponse::decode(field_bytes(&field))?);
                    }
                    Ok(())
                })?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(response)
    }
}

/// A `WatchRequest` that creates a watch of all keys from a revision on.
///
/// All keys, not only ours: every revision then has an event, and the last event says which revision was reached,
/// without progress notifications, which old versions of etcd send too early.
pub(crate) fn watch_everything(start_revision: u64) -> Bytes {
    let mut request = Writer::default();
    request.message(1, |create| {
        create.bytes(1, b"\0");
        create.bytes(2, b"\0");
        create.int(3, start_revision.cast_signed());
    });
    request.0.into()
}

/// `etcdserverpb.WatchResponse`.
#[derive(Debug, Default)]
pub(crate) struct WatchResponse<'m> {
    pub(crate) canceled: bool,
    /// The compacted revision, if the watch was cancelled because of it; otherwise 0.
    pub(crate) compact_revision: u64,
    pub(crate) cancel_reason: String,
    pub(crate) events: Vec<WatchEvent<'m>>,
}

/// One event of a watch.
#[derive(Debug, Default)]
pub(crate) struct WatchEvent<'m> {
    pub(crate) is_delete: bool,
    pub(crate) kv: KeyValue<'m>,
}

impl<'m> WatchResponse<'m> {
    pub(crate) fn decode(message: &'m [u8]) -> Result<WatchResponse<'m>, Malformed> {
        let mut response = WatchResponse::default();
        read(message, |at, field| {
            match at {
                4 => response.canceled = field_number(&field) != 0,
                5 => response.compact_revision = field_number(&field),
                6 => response.cancel_reason = pintle_protobuf::text(field_bytes(&field)),
                11 => {
                    let mut event = WatchEvent::default();
                    read(field_bytes(&field), |at, field| {
                        match at {
                            1 => event.is_delete = field_number(&field) == 1,
                            2 => event.kv = KeyValue::decode(field_bytes(&field))?,
                            _ => {}
                        }
                        Ok(())
                    })?;
                    response.events.push(event);
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(response)
    }
}

/// Encodes an `etcdserverpb.LeaseGrantRequest`.
pub(crate) fn lease_grant(ttl_seconds: i64) -> Bytes {
    let mut out = Writer::default();
    out.int(1, ttl_seconds);
    out.0.into()
}

/// The id in an `etcdserverpb.LeaseGrantResponse`.
pub(crate) fn granted_lease(message: &[u8]) -> Result<i64, Malformed> {
    let mut id = None;
    read(message, |at, field| {
        if at == 2 {
            id = Some(field_number(&field).cast_signed());
        }
        Ok(())
    })?;
    id.ok_or(Malformed)
}

/// Encodes an `etcdserverpb.CompactionRequest`.
pub(crate) fn compaction(revision: u64) -> Bytes {
    let mut out = Writer::default();
    out.int(1, revision.cast_signed());
    out.0.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damaged_messages_are_refused() {
        for message in [&[0x0a, 5, 1][..], &[0x0a, 2, 0x18, 0xff], &[0x5a, 3, 0x12, 2, 0x0a], &[0xff; 12]] {
            assert!(WatchResponse::decode(message).is_err() || TxnResponse::decode(message).is_err());
        }
        assert!(granted_lease(&[]).is_err());
    }
}
