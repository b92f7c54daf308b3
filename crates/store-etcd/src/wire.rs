//! The protobuf messages of etcd: a writer that omits zero values, and a reader that shares the bytes of the message.

use bytes::Bytes;

/// A message could not be read.
#[derive(Debug, thiserror::Error)]
#[error("malformed message from etcd")]
pub(crate) struct Malformed;

/// Builds one message. Zero and empty values are left out, as proto3 does.
#[derive(Default)]
pub(crate) struct Writer(pintle_protobuf::Writer);

impl Writer {
    pub(crate) fn int(&mut self, field: u64, value: i64) {
        if value != 0 {
            self.explicit_int(field, value);
        }
    }

    /// Writes 0 as well, which a member of a oneof needs.
    pub(crate) fn explicit_int(&mut self, field: u64, value: i64) {
        self.0.int(field, value);
    }

    pub(crate) fn bytes(&mut self, field: u64, value: &[u8]) {
        if !value.is_empty() {
            self.0.bytes(field, value);
        }
    }

    pub(crate) fn message(&mut self, field: u64, message: Writer) {
        self.0.bytes(field, &message.0.0);
    }

    pub(crate) fn finish(self) -> Bytes {
        self.0.0.into()
    }
}

/// One field of a message.
pub(crate) enum Field {
    Int(u64),
    Bytes(Bytes),
    /// A field of a wire type that our messages do not have.
    Other,
}

impl Field {
    pub(crate) fn int(&self) -> i64 {
        match self {
            Field::Int(value) => value.cast_signed(),
            Field::Bytes(_) | Field::Other => 0,
        }
    }

    pub(crate) fn bytes(&self) -> Bytes {
        match self {
            Field::Bytes(bytes) => bytes.clone(),
            Field::Int(_) | Field::Other => Bytes::new(),
        }
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

/// Iterates over the fields of a message.
pub(crate) struct Reader(Bytes);

impl Reader {
    pub(crate) fn new(message: Bytes) -> Reader {
        Reader(message)
    }

    /// The next field and its number.
    pub(crate) fn next(&mut self) -> Result<Option<(u32, Field)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let number = u32::try_from(tag >> 3).map_err(|_| Malformed)?;
        let field = match tag & 7 {
            0 => Field::Int(self.varint()?),
            1 => self.skip(8)?,
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
                Field::Bytes(self.take(length)?)
            }
            5 => self.skip(4)?,
            _ => return Err(Malformed),
        };
        Ok(Some((number, field)))
    }

    fn skip(&mut self, length: usize) -> Result<Field, Malformed> {
        self.take(length)?;
        Ok(Field::Other)
    }

    fn take(&mut self, length: usize) -> Result<Bytes, Malformed> {
        if length > self.0.len() {
            return Err(Malformed);
        }
        Ok(self.0.split_to(length))
    }

    #[expect(
        clippy::arithmetic_side_effects,
        reason = "ten groups of seven bits, the last of which may overflow"
    )]
    fn varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0u64;
        for index in 0..10 {
            let byte = *self.0.get(index).ok_or(Malformed)?;
            value |= u64::from(byte & 0x7f) << (7 * index);
            if byte < 0x80 {
                let _ = self.0.split_to(index + 1);
                return Ok(value);
            }
        }
        Err(Malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut inner = Writer::default();
        inner.int(1, -1);
        let mut writer = Writer::default();
        writer.int(1, 0);
        writer.explicit_int(2, 0);
        writer.bytes(3, b"key");
        writer.message(4, inner);
        let mut reader = Reader::new(writer.finish());
        let mut seen = Vec::new();
        while let Some((number, field)) = reader.next().unwrap() {
            seen.push((number, field.int(), field.bytes().len()));
        }
        assert_eq!(seen, [(2, 0, 0), (3, 0, 3), (4, 0, 11)]);
    }

    #[test]
    fn damaged_messages_are_refused() {
        for bytes in [&[0x0a, 5, 1][..], &[0x08], &[0x08, 0xff, 0xff, 0xff], &[0x0b], &[0xff; 12]] {
            let mut reader = Reader::new(Bytes::copy_from_slice(bytes));
            assert!(reader.next().is_err(), "{bytes:?}");
        }
    }
}
