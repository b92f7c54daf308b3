//! The protobuf wire format: fields of a message, read one after another and appended.

const VARINT: u8 = 0;
const FIXED64: u8 = 1;
const BYTES: u8 = 2;
const FIXED32: u8 = 5;

/// A text; bytes that are not UTF-8 are replaced.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Appends a number, unless it is zero.
pub fn put_number(number: u64, value: u64, out: &mut Vec<u8>) {
    if value != 0 {
        put_varint((number << 3) | u64::from(VARINT), out);
        put_varint(value, out);
    }
}

/// Appends a number of variable length.
pub fn put_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends a field, unless it is empty.
pub fn put_bytes(number: u64, bytes: &[u8], out: &mut Vec<u8>) {
    if !bytes.is_empty() {
        put_varint((number << 3) | u64::from(BYTES), out);
        put_varint(bytes.len() as u64, out);
        out.extend_from_slice(bytes);
    }
}

/// The value of a field.
pub enum Field<'b> {
    /// A number of variable length.
    Number(u64),
    /// Bytes, a text, or a message.
    Bytes(&'b [u8]),
}

/// Walks over the fields of a message; ends at the first error.
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
        let field = match (tag & 7) as u8 {
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
