//! The envelope: magic bytes and a message that names the kind and holds the object's own message.

use super::decode::decode_message;
use super::encode::encode_message;
use super::wire::{BYTES, ProtoError, Reader, write_bytes, write_nested};
use crate::model::{Schema, Shape};
use pintle_value::{Str, Value};

/// What every document begins with.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// An opened document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'b> {
    /// `apiVersion` of the object; may be empty.
    pub api_version: Str,
    /// Its kind; may be empty.
    pub kind: Str,
    /// Its message.
    pub raw: &'b [u8],
    /// Encoding of the content; kube-apiserver leaves it empty.
    pub content_encoding: Str,
    /// Type of the content; empty means protobuf.
    pub content_type: Str,
}

/// Reads the envelope of a document.
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
            1 => type_meta(value, &mut envelope)?,
            2 => envelope.raw = value,
            3 => envelope.content_encoding = text(value),
            _ => envelope.content_type = text(value),
        }
    }
    Ok(envelope)
}

fn type_meta(bytes: &[u8], envelope: &mut Envelope<'_>) -> Result<(), ProtoError> {
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

/// The object of an opened document, canonical, with the envelope's kind and apiVersion.
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
    write_nested(1, out, |out| {
        write_bytes(1, api_version.as_bytes(), out);
        write_bytes(2, kind.as_bytes(), out);
    });
    write_nested(2, out, |out| encode_message(schema, tree, out));
    write_bytes(3, b"", out);
    write_bytes(4, b"", out);
}

/// Appends a frame of a watch: its length, then an event that holds a whole document. The event itself has no
/// envelope.
pub fn write_watch_frame(event: &str, document: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    write_bytes(1, event.as_bytes(), out);
    let mut raw = Vec::with_capacity(document.len().saturating_add(8));
    write_bytes(1, document, &mut raw);
    write_bytes(2, &raw, out);
    let length = u32::try_from(out.len().saturating_sub(start).saturating_sub(4)).unwrap_or(u32::MAX);
    if let Some(head) = out.get_mut(start..start.saturating_add(4)) {
        head.copy_from_slice(&length.to_be_bytes());
    }
}
