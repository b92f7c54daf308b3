//! Reads the protobuf wire format with the errors of the code that is generated for Go.

/// Why bytes are not a message. The messages are those of the code that is generated for Go.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the texts say it")]
pub enum ProtoError {
    #[error("unexpected EOF")]
    UnexpectedEof,
    #[error("proto: integer overflow")]
    Overflow,
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    #[error("proto: unexpected end of group")]
    EndOfGroup,
    #[error("proto: illegal wireType {0}")]
    IllegalWireType(u8),
    #[error("proto: wrong wireType = {0} for field {1}")]
    WrongWireType(u8, String),
    #[error("proto: {0}: wiretype end group for non-group")]
    NoGroup(String),
    #[error("proto: {0}: illegal tag {1} (wire type {2})")]
    IllegalTag(String, i32, u64),
    #[error("exceeded max depth")]
    TooDeep,
    #[error("empty data")]
    EmptyData,
    #[error("empty body")]
    EmptyBody,
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    NoMagic,
    /// The content of a field is invalid: a quantity, raw JSON.
    #[error("{0}")]
    Value(String),
}

pub(super) const VARINT: u8 = 0;
pub(super) const FIXED64: u8 = 1;
pub(super) const BYTES: u8 = 2;

/// Reads a message.
#[derive(Clone, Copy)]
pub(super) struct Reader<'b> {
    rest: &'b [u8],
}

impl<'b> Reader<'b> {
    pub(super) fn new(bytes: &'b [u8]) -> Self {
        Reader { rest: bytes }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn varint(&mut self) -> Result<u64, ProtoError> {
        let mut value = 0u64;
        for shift in (0..).step_by(7) {
            if shift >= 64 {
                return Err(ProtoError::Overflow);
            }
            let (byte, rest) = self.rest.split_first().ok_or(ProtoError::UnexpectedEof)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if *byte < 0x80 {
                break;
            }
        }
        Ok(value)
    }

    /// The next member of the message `name`: its number and wire type.
    pub(super) fn tag(&mut self, name: &str) -> Result<(u32, u8), ProtoError> {
        let wire = self.varint()?;
        let number = (wire >> 3) as i32;
        let wire_type = (wire & 7) as u8;
        if wire_type == 4 {
            return Err(ProtoError::NoGroup(name.to_string()));
        }
        if number <= 0 {
            return Err(ProtoError::IllegalTag(name.to_string(), number, wire));
        }
        Ok((number as u32, wire_type))
    }

    /// The number of a map entry's member; wire types are not checked there.
    pub(super) fn entry_tag(&mut self) -> Result<(u64, u8), ProtoError> {
        let wire = self.varint()?;
        Ok((wire >> 3, (wire & 7) as u8))
    }

    /// Reads bytes with a length prefix.
    pub(super) fn bytes(&mut self) -> Result<&'b [u8], ProtoError> {
        let length = self.varint()?;
        let length = i64::try_from(length).map_err(|_| ProtoError::NegativeLength)?;
        self.take(usize::try_from(length).map_err(|_| ProtoError::NegativeLength)?)
    }

    pub(super) fn fixed64(&mut self) -> Result<u64, ProtoError> {
        let bytes = self.take(8)?;
        Ok(bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
    }

    fn take(&mut self, length: usize) -> Result<&'b [u8], ProtoError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(ProtoError::UnexpectedEof)?;
        self.rest = rest;
        Ok(taken)
    }

    /// Skips the value of an unknown member whose tag has been read.
    pub(super) fn skip(&mut self, wire_type: u8) -> Result<(), ProtoError> {
        let mut depth = 0u32;
        let mut wire_type = wire_type;
        loop {
            match wire_type {
                VARINT => _ = self.varint()?,
                FIXED64 => _ = self.take(8)?,
                BYTES => _ = self.bytes()?,
                3 => depth = depth.saturating_add(1),
                4 => depth = depth.checked_sub(1).ok_or(ProtoError::EndOfGroup)?,
                5 => _ = self.take(4)?,
                other => return Err(ProtoError::IllegalWireType(other)),
            }
            if depth == 0 {
                return Ok(());
            }
            wire_type = (self.varint()? & 7) as u8;
        }
    }
}
