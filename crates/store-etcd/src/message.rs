//! The messages of etcd's API and their fields, as far as they are used here.

use crate::wire::{Field, Malformed, Reader, Writer};
use bytes::Bytes;

/// The header of every response.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Header {
    pub(crate) cluster_id: u64,
    pub(crate) revision: u64,
}

impl Header {
    fn read(field: &Field) -> Result<Header, Malformed> {
        let mut header = Header::default();
        let mut reader = Reader::new(field.bytes());
        while let Some((number, field)) = reader.next()? {
            match number {
                1 => header.cluster_id = field.int().cast_unsigned(),
                3 => header.revision = field.int().cast_unsigned(),
                _ => {}
            }
        }
        Ok(header)
    }
}

/// A key and its value.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeyValue {
    pub(crate) key: Bytes,
    pub(crate) created: u64,
    pub(crate) modified: u64,
    pub(crate) version: i64,
    pub(crate) value: Bytes,
}

impl KeyValue {
    fn read(field: &Field) -> Result<KeyValue, Malformed> {
        let mut kv = KeyValue::default();
        let mut reader = Reader::new(field.bytes());
        while let Some((number, field)) = reader.next()? {
            match number {
                1 => kv.key = field.bytes(),
                2 => kv.created = field.int().cast_unsigned(),
                3 => kv.modified = field.int().cast_unsigned(),
                4 => kv.version = field.int(),
                5 => kv.value = field.bytes(),
                _ => {}
            }
        }
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
    fn writer(&self) -> Writer {
        let mut writer = Writer::default();
        writer.bytes(1, self.key);
        writer.bytes(2, self.range_end);
        writer.int(3, self.limit);
        writer.int(4, self.revision.cast_signed());
        writer
    }

    pub(crate) fn encode(&self) -> Bytes {
        self.writer().finish()
    }
}

/// `etcdserverpb.RangeResponse`.
#[derive(Debug, Default)]
pub(crate) struct RangeResponse {
    pub(crate) header: Header,
    pub(crate) kvs: Vec<KeyValue>,
    pub(crate) more: bool,
}

impl RangeResponse {
    pub(crate) fn decode(message: Bytes) -> Result<RangeResponse, Malformed> {
        let mut response = RangeResponse::default();
        let mut reader = Reader::new(message);
        while let Some((number, field)) = reader.next()? {
            match number {
                1 => response.header = Header::read(&field)?,
                2 => response.kvs.push(KeyValue::read(&field)?),
                3 => response.more = field.int() != 0,
                _ => {}
            }
        }
        Ok(response)
    }
}

/// The size of the database in an `etcdserverpb.StatusResponse`.
pub(crate) fn database_size(message: Bytes) -> Result<u64, Malformed> {
    let mut size = 0;
    let mut reader = Reader::new(message);
    while let Some((number, field)) = reader.next()? {
        if number == 3 {
            size = field.int().cast_unsigned();
        }
    }
    Ok(size)
}

/// The precondition of a transaction on a key.
pub(crate) enum Condition {
    /// The revision of the last write; 0 if the key does not exist.
    ModRevision(u64),
    /// The key exists.
    Exists,
    /// How often the key was written.
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
    pub(crate) fn compare(&mut self, key: &[u8], condition: &Condition) {
        const GREATER: i64 = 1;
        const TARGET_MOD: i64 = 2;
        let mut writer = Writer::default();
        match condition {
            Condition::ModRevision(revision) => {
                writer.int(2, TARGET_MOD);
                writer.bytes(3, key);
                writer.explicit_int(6, revision.cast_signed());
            }
            Condition::Exists => {
                writer.int(1, GREATER);
                writer.int(2, TARGET_MOD);
                writer.bytes(3, key);
                writer.explicit_int(6, 0);
            }
            Condition::Version(version) => {
                writer.bytes(3, key);
                writer.explicit_int(4, *version);
            }
        }
        self.0.message(1, writer);
    }

    pub(crate) fn on_success(&mut self, operation: &Operation<'_>) {
        self.0.message(2, operation.writer());
    }

    pub(crate) fn on_failure(&mut self, operation: &Operation<'_>) {
        self.0.message(3, operation.writer());
    }

    pub(crate) fn encode(self) -> Bytes {
        self.0.finish()
    }
}

impl Operation<'_> {
    fn writer(&self) -> Writer {
        let mut operation = Writer::default();
        match self {
            Operation::Get { key } => {
                operation.message(1, RangeRequest { key, ..RangeRequest::default() }.writer());
            }
            Operation::Put { key, value, lease } => {
                let mut put = Writer::default();
                put.bytes(1, key);
                put.bytes(2, value);
                put.int(3, *lease);
                operation.message(2, put);
            }
            Operation::Delete { key } => {
                let mut delete = Writer::default();
                delete.bytes(1, key);
                operation.message(3, delete);
            }
        }
        operation
    }
}

/// `etcdserverpb.TxnResponse`.
#[derive(Debug, Default)]
pub(crate) struct TxnResponse {
    pub(crate) header: Header,
    pub(crate) succeeded: bool,
    /// The answers to the ranges, in order.
    pub(crate) ranges: Vec<RangeResponse>,
}

impl TxnResponse {
    pub(crate) fn decode(message: Bytes) -> Result<TxnResponse, Malformed> {
        let mut response = TxnResponse::default();
        let mut reader = Reader::new(message);
        while let Some((number, field)) = reader.next()? {
            match number {
                1 => response.header = Header::read(&field)?,
                2 => response.succeeded = field.int() != 0,
                3 => {
                    let mut operation = Reader::new(field.bytes());
                    while let Some((number, field)) = operation.next()? {
                        if number == 1 {
                            response.ranges.push(RangeResponse::decode(field.bytes())?);
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(response)
    }
}

/// A `WatchRequest` that creates a watch of all keys from a revision on.
///
/// All keys, not only ours: every revision then has an event, and the last event says which revision was reached,
/// without progress notifications, which old versions of etcd send too early.
pub(crate) fn watch_everything(start_revision: u64) -> Bytes {
    let mut create = Writer::default();
    create.bytes(1, b"\0");
    create.bytes(2, b"\0");
    create.int(3, start_revision.cast_signed());
    let mut request = Writer::default();
    request.message(1, create);
    request.finish()
}

/// `etcdserverpb.WatchResponse`.
#[derive(Debug, Default)]
pub(crate) struct WatchResponse {
    pub(crate) canceled: bool,
    /// Not 0 if the watch was cancelled because its revision was compacted.
    pub(crate) compact_revision: u64,
    pub(crate) cancel_reason: String,
    pub(crate) events: Vec<WatchEvent>,
}

/// One event of a watch.
#[derive(Debug, Default)]
pub(crate) struct WatchEvent {
    pub(crate) is_delete: bool,
    pub(crate) kv: KeyValue,
}

impl WatchResponse {
    pub(crate) fn decode(message: Bytes) -> Result<WatchResponse, Malformed> {
        let mut response = WatchResponse::default();
        let mut reader = Reader::new(message);
        while let Some((number, field)) = reader.next()? {
            match number {
                4 => response.canceled = field.int() != 0,
                5 => response.compact_revision = field.int().cast_unsigned(),
                6 => response.cancel_reason = field.text(),
                11 => {
                    let mut event = WatchEvent::default();
                    let mut parts = Reader::new(field.bytes());
                    while let Some((number, field)) = parts.next()? {
                        match number {
                            1 => event.is_delete = field.int() == 1,
                            2 => event.kv = KeyValue::read(&field)?,
                            _ => {}
                        }
                    }
                    response.events.push(event);
                }
                _ => {}
            }
        }
        Ok(response)
    }
}

/// `etcdserverpb.LeaseGrantRequest`.
pub(crate) fn lease_grant(ttl_seconds: i64) -> Bytes {
    let mut writer = Writer::default();
    writer.int(1, ttl_seconds);
    writer.finish()
}

/// The id in an `etcdserverpb.LeaseGrantResponse`.
pub(crate) fn granted_lease(message: Bytes) -> Result<i64, Malformed> {
    let mut reader = Reader::new(message);
    while let Some((number, field)) = reader.next()? {
        if number == 2 {
            return Ok(field.int());
        }
    }
    Err(Malformed)
}

/// `etcdserverpb.CompactionRequest`.
pub(crate) fn compaction(revision: u64) -> Bytes {
    let mut writer = Writer::default();
    writer.int(1, revision.cast_signed());
    writer.finish()
}
