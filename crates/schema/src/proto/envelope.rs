//! The envelope: magic bytes and a message with the kind and the encoded object.

use super::decode::decode_message;
use super::encode::encode_message;
use super::wire::{BYTES, ProtoError, Reader};
use crate::model::{Schema, Shape};
use pintle_protobuf::Writer;
use pintle_value::{Str, Value};

/// The prefix of every document.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// A decoded envelope.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// `apiVersion` of the object; may be empty.
    pub api_version: Str,
    /// The document's kind; may be empty.
    pub kind: Str,
    /// The encoded object.
    pub raw: &'b [u8],
    /// Encoding of the content; kube-apiserver leaves it empty.
    pub content_encoding: Str,
    /// Type of the content; empty means protobuf.
    pub content_type: Str,
}

/// Decodes the envelope of a document.
pub fn open(bytes: &[u8]) -> Result<Envelope<'_>, ProtoError> {
    if bytes.is_empty() {
        return Err(ProtoError::EmptyData);
    }
    let body = bytes.strip_prefix(MAGIC.as_slice()).ok_or(ProtoError::NoMagic)?;
    if body.is_empty() {
        return Err(ProtoError::EmptyBody);
    }
    let mut envelope = Envelope::default();
    let mut reader = Reader::new(body);
    while !reader.is_empty() {
        let (number, wire_type) = reader.tag("Unknown")?;
        let field = match number {
            1 => "TypeMeta",
            2 => "Raw",
            3 => "ContentEncoding",
            4 => "ContentType",
            _ => {
                reader.skip(wire_type)?;
                continue;
            }
        };
        if wire_type != BYTES {
            return Err(ProtoError::WrongWireType(wire_type, field.to_string()));
        }
        let value = reader.bytes()?;
        match number {
            1 => decode_type_meta(value, &mut envelope)?,
            2 => envelope.raw = value,
            3 => envelope.content_encoding = text(value),
            _ => envelope.content_type = text(value),
        }
    }
    Ok(envelope)
}

fn decode_type_meta(bytes: &[u8], envelope: &mut Envelope<'_>) -> Result<(), ProtoError> {
    let mut reader = Reader::new(bytes);
    while !reader.is_empty() {
        let (number, wire_type) = reader.tag("TypeMeta")?;
        let (field, to) = match number {
            1 => ("APIVersion", &mut envelope.api_version),
            2 => ("Kind", &mut envelope.kind),
            _ => {
                reader.skip(wire_type)?;
                continue;
            }
        };
        if wire_type != BYTES {
            return Err(ProtoError::WrongWireType(wire_type, field.to_string()));
        }
        *to = text(reader.bytes()?);
    }
    Ok(())
}

fn text(bytes: &[u8]) -> Str {
    Str::from(String::from_utf8_lossy(bytes))
}

/// Decodes the object of an envelope, with the envelope's kind and apiVersion.
pub fn decode(schema: &Schema, envelope: &Envelope<'_>) -> Result<Value, ProtoError> {
    let mut tree = decode_message(schema, envelope.raw)?;
    if let (Shape::Struct(s), Value::Object(map)) = (&schema.node().shape, &mut tree) {
        for (name, value) in [("apiVersion", &envelope.api_version), ("kind", &envelope.kind)] {
            if s.field(name).is_some() && !value.is_empty() {
                map.insert(name, Value::String(value.clone()));
            }
        }
    }
    Ok(tree)
}

/// Appends a whole document.
pub fn encode(schema: &Schema, api_version: &str, kind: &str, tree: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    let mut writer = Writer(std::mem::take(out));
    writer.message(1, |type_meta| {
        type_meta.string(1, api_version);
        type_meta.string(2, kind);
    });
    writer.message(2, |raw| encode_message(schema, tree, &mut raw.0));
    writer.string(3, "");
    writer.string(4, "");
    *out = writer.0;
}

/// Appends a frame of a watch: its length, then an event that holds a whole document. The event itself has no
/// envelope.
pub fn write_watch_frame(event: &str, document: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut writer = Writer(std::mem::take(out));
    writer.string(1, event);
    let mut raw = Writer(Vec::with_capacity(document.len().saturating_add(8)));
    raw.bytes(1, document);
    writer.bytes(2, &raw.0);
    *out = writer.0;
    let length = u32::try_from(out.len().saturating_sub(start).saturating_sub(4)).unwrap_or(u32::MAX);
    if let Some(head) = out.get_mut(start..start.saturating_add(4)) {
        head.copy_from_slice(&length.to_be_bytes());
    }
}
