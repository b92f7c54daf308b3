//! Header blocks of HTTP/2 (HPACK, RFC 7541): the fields of a block as they were sent. There is no dynamic table, so an
//! entry of it stays a number.

mod huffman;

use std::borrow::Cow;

/// A header block, or a string in it, cannot be decoded.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed header block")]
pub struct Malformed;

/// The number of entries of the static table. Larger indexes are entries of the dynamic table.
pub const STATIC_ENTRIES: u64 = 61;

/// A field of a header block.
#[derive(Debug, PartialEq, Eq)]
pub enum Field<'a> {
    /// An entry of a table, with its name and its value.
    Indexed(u64),
    /// A name with a value.
    Literal(Literal<'a>),
    /// No field, but a new size of the dynamic table.
    TableSize(u64),
}

/// A field with a value of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Literal<'a> {
    /// Whether the dynamic table gets this field.
    pub indexing: Indexing,
    /// The name.
    pub name: Name<'a>,
    /// The value.
    pub value: Text<'a>,
}

/// Whether the dynamic table gets a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Indexing {
    /// The field is added to the table.
    Incremental,
    /// The field is not added.
    Without,
    /// The field is not added, and no intermediary may add it to a table either.
    Never,
}

impl Indexing {
    /// The first bits of such a field, and the number of bits that remain for the index of the name.
    fn prefix(self) -> (u8, u32) {
        match self {
            Indexing::Incremental => (0x40, 6),
            Indexing::Without => (0x00, 4),
            Indexing::Never => (0x10, 4),
        }
    }
}

/// The name of a field.
#[derive(Debug, PartialEq, Eq)]
pub enum Name<'a> {
    /// That of an entry of a table.
    Index(u64),
    /// A text.
    Text(Text<'a>),
}

/// A string as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text<'a> {
    is_coded: bool,
    bytes: &'a [u8],
}

impl<'a> Text<'a> {
    /// The bytes of the string.
    pub fn decode(&self) -> Result<Cow<'a, [u8]>, Malformed> {
        if self.is_coded {
            huffman::decode(self.bytes).map(Cow::Owned)
        } else {
            Ok(Cow::Borrowed(self.bytes))
        }
    }

    /// The number of bytes that were sent, which may be fewer than the string has.
    pub fn sent_bytes(&self) -> usize {
        self.bytes.len()
    }
}

/// The fields of a header block, in order. After an error there are no more.
pub struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    /// Reads a whole block.
    pub fn of(block: &'a [u8]) -> Self {
        Fields(block)
    }

    /// The part of the block that was not read yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }

    fn decode_field(&mut self, first: u8) -> Result<Field<'a>, Malformed> {
        let indexing = match first {
            0x80.. => return self.number(7).map(Field::Indexed),
            0x40.. => Indexing::Incremental,
            0x20.. => return self.number(5).map(Field::TableSize),
            0x10.. => Indexing::Never,
            _ => Indexing::Without,
        };
        let name = match self.number(indexing.prefix().1)? {
            0 => Name::Text(self.decode_text()?),
            index => Name::Index(index),
        };
        Ok(Field::Literal(Literal { indexing, name, value: self.decode_text()? }))
    }

    fn byte(&mut self) -> Result<u8, Malformed> {
        let (first, rest) = self.0.split_first().ok_or(Malformed)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number whose first bits are the last `bits` of the next byte.
    fn number(&mut self, bits: u32) -> Result<u64, Malformed> {
        let mask = (1u64 << bits).wrapping_sub(1);
        let first = u64::from(self.byte()?) & mask;
        if first < mask {
            return Ok(first);
        }
        let mut value = first;
        // Lengths are below 2³⁵, and blocks are much smaller.
        for shift in [0, 7, 14, 21, 28] {
            let byte = self.byte()?;
            value = value.saturating_add(u64::from(byte & 0x7f) << shift);
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(Malformed)
    }

    fn decode_text(&mut self) -> Result<Text<'a>, Malformed> {
        let is_coded = self.0.first().ok_or(Malformed)? & 0x80 != 0;
        let length = usize::try_from(self.number(7)?).map_err(|_| Malformed)?;
        let (bytes, rest) = self.0.split_at_checked(length).ok_or(Malformed)?;
        self.0 = rest;
        Ok(Text { is_coded, bytes })
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<Field<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let first = *self.0.first()?;
        let field = self.decode_field(first);
        if field.is_err() {
            self.0 = &[];
        }
        Some(field)
    }
}

/// Appends a field whose name is that of an entry of the static table.
pub fn write_named(out: &mut Vec<u8>, indexing: Indexing, name: u64, value: &[u8]) {
    let (first, bits) = indexing.prefix();
    write_number(out, first, bits, name);
    write_text(out, value);
}

/// Appends a field with a name of its own, which no table gets.
pub fn write_literal(out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
    out.push(0);
    write_text(out, name);
    write_text(out, value);
}

/// Appends a string, uncompressed.
fn write_text(out: &mut Vec<u8>, text: &[u8]) {
    write_number(out, 0, 7, text.len() as u64);
    out.extend_from_slice(text);
}

/// Appends a number behind the bits of `first` that are not its own.
fn write_number(out: &mut Vec<u8>, first: u8, bits: u32, number: u64) {
    let mask = (1u64 << bits).wrapping_sub(1);
    if number < mask {
        return out.push(first | number as u8);
    }
    out.push(first | mask as u8);
    let mut rest = number.saturating_sub(mask);
    while rest >= 0x80 {
        out.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decode_text(bytes: &[u8]) -> Text<'_> {
        Text { is_coded: false, bytes }
    }

    #[test]
    fn fields_of_all_forms_are_read() {
        let block = [
            &[0x82, 0xff, 0x80, 0x01][..],
            &[0x41, 1, b'a', 0x00, 1, b'n', 0x82, 0x64, 0x02, 0x1f, 0x85, 0x01, 0],
            &[0x3f, 0x80, 0x01],
        ]
        .concat();
        let want = [
            Field::Indexed(2),
            Field::Indexed(255),
            Field::Literal(Literal {
                indexing: Indexing::Incremental,
                name: Name::Index(1),
                value: decode_text(b"a"),
            }),
            Field::Literal(Literal {
                indexing: Indexing::Without,
                name: Name::Text(decode_text(b"n")),
                value: Text { is_coded: true, bytes: &[0x64, 0x02] },
            }),
            Field::Literal(Literal {
                indexing: Indexing::Never,
                name: Name::Index(148),
                value: decode_text(b""),
            }),
            Field::TableSize(159),
        ];
        let read: Result<Vec<_>, _> = Fields::of(&block).collect();
        assert_eq!(read.unwrap(), want);
    }

    #[test]
    fn damaged_blocks_end_with_an_error() {
        // A string that ends early, a number without an end, a missing value.
        for block in [&[0x00, 5, b'a'][..], &[0x00, 0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80], &[0x7e]] {
            let read: Vec<_> = Fields::of(block).collect();
            assert_eq!(read, [Err(Malformed)], "{block:x?}");
        }
    }

    #[test]
    fn encoded_headers_can_be_decoded() {
        for length in [0, 1, 126, 127, 128, 254, 255, 300, 20_000] {
            let value = "v".repeat(length);
            let mut block = Vec::new();
            write_literal(&mut block, b"name", value.as_bytes());
            write_named(&mut block, Indexing::Incremental, 63, value.as_bytes());
            write_named(&mut block, Indexing::Never, 4, value.as_bytes());
            let value = decode_text(value.as_bytes());
            let literal = |indexing, name| Field::Literal(Literal { indexing, name, value });
            let want = [
                literal(Indexing::Without, Name::Text(decode_text(b"name"))),
                literal(Indexing::Incremental, Name::Index(63)),
                literal(Indexing::Never, Name::Index(4)),
            ];
            assert_eq!(Fields::of(&block).collect::<Result<Vec<_>, _>>().unwrap(), want);
        }
    }
}
