//! The protobuf wire format: a writer of messages and a reader of their fields. Knows no message type.
//!
//! `schema::proto` reads the messages of Kubernetes itself, because it must report the errors of Go's generated code.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects))]

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

/// A message under construction. Zero and empty values are written too, unless the method says otherwise.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// Appends a number of variable length, without a tag.
    pub fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// Appends an integer field.
    pub fn int(&mut self, field: u64, value: i64) {
        self.varint(field << 3 | VARINT);
        self.varint(value.cast_unsigned());
    }

    /// Appends a field of eight bytes: `fixed64` or `double`.
    pub fn fixed64(&mut self, field: u64, value: u64) {
        self.varint(field << 3 | FIXED64);
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a `bytes` field, or any field of which the content is already encoded.
    pub fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.length(field, bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// Appends a `string` field.
    pub fn string(&mut self, field: u64, text: &str) {
        self.bytes(field, text.as_bytes());
    }

    /// Appends the tag and the length of a `bytes` field. The caller appends the content.
    pub fn length(&mut self, field: u64, length: usize) {
        self.varint(field << 3 | BYTES);
        self.varint(length as u64);
    }

    /// Appends a nested message with the fields that `write` appends.
    pub fn message(&mut self, field: u64, write: impl FnOnce(&mut Writer)) {
        self.varint(field << 3 | BYTES);
        let start = self.0.len();
        // The length is known afterwards; for most messages it takes this one byte.
        self.0.push(0);
        write(self);
        let length = self.0.len().saturating_sub(start).saturating_sub(1) as u64;
        match self.0.get_mut(start) {
            Some(byte) if length < 0x80 => *byte = length as u8,
            _ => {
                let mut prefix = Writer(Vec::with_capacity(10));
                prefix.varint(length);
                self.0.splice(start..=start, prefix.0);
            }
        }
    }
}

/// Appends an integer field to `out`, unless the value is zero.
pub fn put_number(field: u64, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        let mut writer = Writer(std::mem::take(out));
        writer.int(field, value.cast_signed());
        *out = writer.0;
    }
}

/// Appends a `bytes` field to `out`, unless it is empty.
pub fn put_bytes(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() {
        let mut writer = Writer(std::mem::take(out));
        writer.bytes(field, bytes);
        *out = writer.0;
    }
}

/// Decodes the content of a `string` field; bytes that are not UTF-8 are replaced.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The value of a field.
pub enum Field<'b> {
    /// A number of variable length.
    Number(u64),
    /// Bytes, a text, a message, or a number of fixed length.
    Bytes(&'b [u8]),
}

/// Iterates over the fields of a message: their numbers and values. Ends after the first error.
pub struct Fields<'b>(pub &'b [u8]);

const MALFORMED: &str = "proto: cannot parse invalid wire-format data";

impl<'b> Fields<'b> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, length: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u64, Field<'b>)> {
        let tag = self.varint()?;
        let field = match tag & 7 {
            VARINT => Field::Number(self.varint()?),
            FIXED64 => Field::Bytes(self.take(8)?),
            FIXED32 => Field::Bytes(self.take(4)?),
            BYTES => {
                let length = self.varint()?;
                Field::Bytes(self.take(usize::try_from(length).ok()?)?)
            }
            _ => return None,
        };
        Some((tag >> 3, field))
    }
}

impl<'b> Iterator for Fields<'b> {
    type Item = Result<(u64, Field<'b>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or_else(|| MALFORMED.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nested messages whose length takes one, two and three bytes.
    #[test]
    fn written_messages_are_read_back() {
        for size in [0_usize, 1, 0x7d, 0x7e, 0x80, 0x4000] {
            let mut out = Writer::default();
            out.int(1, -1);
            out.message(2, |out| out.bytes(16, &vec![7; size]));
            out.fixed64(3, 9);
            let fields: Vec<_> = Fields(&out.0).map(Result::unwrap).collect();
            let [(1, Field::Number(u64::MAX)), (2, Field::Bytes(inner)), (3, Field::Bytes(fixed))] =
                &fields[..]
            else {
                panic!("unexpected fields for {size}");
            };
            assert_eq!(**fixed, 9_u64.to_le_bytes());
            let Some(Ok((16, Field::Bytes(content)))) = Fields(inner).next() else {
                panic!("unexpected content for {size}");
            };
            assert_eq!(content, vec![7; size]);
        }
    }

    #[test]
    fn damaged_messages_end_with_an_error() {
        for bytes in [&[0x0a, 5, 1][..], &[0x08], &[0x08, 0xff, 0xff], &[0x0b], &[0xff; 12]] {
            let fields: Vec<_> = Fields(bytes).collect();
            assert!(matches!(fields[..], [Err(_)]), "{bytes:?}");
        }
    }
}
