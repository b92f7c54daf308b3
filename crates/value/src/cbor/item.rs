//! Items of a document that has been decoded before, for callers whose type distinguishes byte strings from texts.

use super::decode::{end_of, read_key_text};
use super::head::{Major, Reader};
use crate::Str;

/// The tags for the text encoding that byte strings expect in JSON: base64url, base64, base16.
const EXPECTED_ENCODINGS: std::ops::RangeInclusive<u64> = 21..=23;

/// One item of a well-formed document.
#[derive(Clone, Copy)]
pub struct Item<'a> {
    document: &'a [u8],
    at: usize,
}

/// The type of an item, with its content.
pub enum Form<'a> {
    /// A byte string.
    Bytes {
        /// Whether a tag gives the text encoding of the bytes in JSON.
        encoded: bool,
        /// The bytes.
        content: Vec<u8>,
    },
    /// A text.
    Text,
    /// A list.
    Array(Vec<Item<'a>>),
    /// A map: the entries whose keys are texts.
    Map(Vec<(Str, Item<'a>)>),
    /// Anything else.
    Other,
}

impl<'a> Item<'a> {
    /// The item that is the whole document.
    pub fn of(document: &'a [u8]) -> Self {
        Item { document, at: 0 }
    }

    /// The type and content of the item. `Other` if the document is not well-formed.
    pub fn form(&self) -> Form<'a> {
        self.read().unwrap_or(Form::Other)
    }

    fn read(&self) -> Option<Form<'a>> {
        let mut reader = Reader { bytes: self.document, at: self.at };
        let mut encoded = false;
        let mut head = reader.head().ok()?;
        while head.major == Major::Tag {
            encoded |= EXPECTED_ENCODINGS.contains(&head.argument);
            head = reader.head().ok()?;
        }
        Some(match head.major {
            Major::Bytes => Form::Bytes { encoded, content: read_content(&mut reader, head.length())? },
            Major::Text => Form::Text,
            Major::Array => {
                let mut items = Vec::new();
                let mut left = head.length();
                while next(&mut reader, &mut left)? {
                    items.push(self.take_item(&mut reader)?);
                }
                Form::Array(items)
            }
            Major::Map => {
                let mut entries = Vec::new();
                let mut left = head.length();
                while next(&mut reader, &mut left)? {
                    let key = read_key_text(&mut reader);
                    let value = self.take_item(&mut reader)?;
                    entries.extend(key.map(|key| (key, value)));
                }
                Form::Map(entries)
            }
            _ => Form::Other,
        })
    }

    /// The item at the reader's position. Moves the reader behind it.
    fn take_item(&self, reader: &mut Reader<'a>) -> Option<Item<'a>> {
        let at = reader.at;
        reader.peek()?;
        reader.at = end_of(self.document, at);
        Some(Item { document: self.document, at })
    }
}

/// Whether a container has a further item; counts it.
fn next(reader: &mut Reader<'_>, left: &mut Option<u64>) -> Option<bool> {
    match left {
        Some(0) => Some(false),
        Some(left) => {
            *left = left.saturating_sub(1);
            Some(true)
        }
        None if reader.peek().is_none() => None,
        None => Some(!reader.take_break()),
    }
}

fn read_content(reader: &mut Reader<'_>, length: Option<u64>) -> Option<Vec<u8>> {
    if let Some(length) = length {
        return reader.take(length).ok().map(<[u8]>::to_vec);
    }
    let mut out = Vec::new();
    while !reader.take_break() {
        let chunk = reader.head().ok()?;
        out.extend_from_slice(reader.take(chunk.argument).ok()?);
    }
    Some(out)
}
