//! Counts the header fields of HTTP/2 requests before they are decoded.
//!
//! HPACK names a field that was sent before by a single byte, and the decoded field takes 72 bytes. The HTTP/2 library limits
//! the size of decoded lists, but not the number of fields: a client without credentials could make the server use a hundred
//! megabytes with one and a half. This reads the frames and the lengths in header blocks, and decodes nothing.

/// The maximum number of fields of a header block, as in HTTP/1.1.
pub(crate) const FIELDS_MAX: usize = 1000;
/// The first bytes of an HTTP/2 connection.
pub(crate) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const FRAME_HEADER: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
const PADDED: u8 = 0x8;
const HAS_PRIORITY: u8 = 0x20;
const PRIORITY_BYTES: usize = 5;

/// A header block has too many fields.
#[derive(Debug, PartialEq, thiserror::Error)]
#[error("a request has more than {FIELDS_MAX} header fields")]
pub(crate) struct TooManyFields;

/// The state of one connection.
pub(crate) struct FieldCount {
    part: Part,
    /// The kind and flags of the frame that is being read.
    kind: u8,
    flags: u8,
    field: Field,
    fields: usize,
}

/// The meaning of the next bytes of the connection. `left` counts the bytes that are still to come.
#[derive(Clone, Copy)]
enum Part {
    Skipped { left: usize },
    FrameHeader { left: usize, length: usize },
    PadLength { length: usize },
    Priority { left: usize, block: usize, padding: usize },
    Block { left: usize, padding: usize },
}

/// The meaning of the next bytes of a header block. `texts` is how many texts (name, value) of the field follow.
#[derive(Clone, Copy)]
enum Field {
    Start,
    /// The rest of an index, which does not matter.
    Index {
        texts: u8,
    },
    TextLength {
        texts: u8,
    },
    /// The rest of a length, `shift` bits of which are known.
    LengthRest {
        texts: u8,
        length: usize,
        shift: u32,
    },
    Text {
        left: usize,
        texts: u8,
    },
}

impl FieldCount {
    /// Counts the fields of a connection of which `preface_left` bytes of the preface are still to be read.
    pub(crate) fn new(preface_left: usize) -> FieldCount {
        FieldCount {
            part: Part::Skipped { left: preface_left },
            kind: 0,
            flags: 0,
            field: Field::Start,
            fields: 0,
        }
    }

    /// Observes the bytes that the client sent next.
    pub(crate) fn observe(&mut self, mut bytes: &[u8]) -> Result<(), TooManyFields> {
        while let Some((&first, rest)) = bytes.split_first() {
            bytes = match self.part {
                Part::Skipped { left } => {
                    let count = left.min(bytes.len());
                    self.part = skipped(left.saturating_sub(count));
                    bytes.get(count..).unwrap_or_default()
                }
                Part::FrameHeader { left, length } => {
                    self.frame_header(first, left, length);
                    rest
                }
                Part::PadLength { length } => {
                    self.part = self.after_pad_length(length, usize::from(first));
                    rest
                }
                Part::Priority { left, block, padding } => {
                    self.part = match left.saturating_sub(1) {
                        0 => Part::Block { left: block, padding },
                        left => Part::Priority { left, block, padding },
                    };
                    rest
                }
                Part::Block { left: 0, padding } => {
                    self.part = skipped(padding);
                    bytes
                }
                Part::Block { left, padding } => {
                    let count = left.min(bytes.len());
                    let (block, rest) = bytes.split_at_checked(count).unwrap_or((bytes, &[]));
                    self.block(block)?;
                    self.part = Part::Block { left: left.saturating_sub(count), padding };
                    rest
                }
            };
        }
        Ok(())
    }

    /// Takes one byte of a frame's header: three of the length, the kind, the flags, four of the stream.
    fn frame_header(&mut self, byte: u8, left: usize, mut length: usize) {
        match left {
            7..=9 => length = (length << 8) | usize::from(byte),
            6 => self.kind = byte,
            5 => self.flags = byte,
            _ => {}
        }
        self.part = match left.saturating_sub(1) {
            0 => self.payload(length),
            left => Part::FrameHeader { left, length },
        };
    }

    fn payload(&mut self, length: usize) -> Part {
        match self.kind {
            HEADERS => {
                self.fields = 0;
                self.field = Field::Start;
                if self.flags & PADDED != 0 && length > 0 {
                    return Part::PadLength { length: length.saturating_sub(1) };
                }
                self.after_pad_length(length, 0)
            }
            CONTINUATION => Part::Block { left: length, padding: 0 },
            _ => skipped(length),
        }
    }

    fn after_pad_length(&self, length: usize, padding: usize) -> Part {
        let priority = if self.flags & HAS_PRIORITY != 0 { PRIORITY_BYTES } else { 0 };
        let block = length.saturating_sub(priority).saturating_sub(padding);
        match priority {
            0 => Part::Block { left: block, padding },
            left => Part::Priority { left, block, padding },
        }
    }

    /// Counts the fields that begin in a part of a header block.
    fn block(&mut self, mut bytes: &[u8]) -> Result<(), TooManyFields> {
        while let Some((&first, rest)) = bytes.split_first() {
            bytes = rest;
            self.field = match self.field {
                Field::Start => self.start(first)?,
                Field::Index { texts } if first & 0x80 == 0 => after_index(texts),
                Field::Index { texts } => Field::Index { texts },
                Field::TextLength { texts } => match usize::from(first & 0x7f) {
                    0x7f => Field::LengthRest { texts, length: 0x7f, shift: 0 },
                    length => text(length, texts),
                },
                Field::LengthRest { texts, length, shift } => {
                    let more = usize::from(first & 0x7f).checked_shl(shift).unwrap_or(usize::MAX);
                    let length = length.saturating_add(more);
                    match first & 0x80 {
                        0 => text(length, texts),
                        _ => Field::LengthRest { texts, length, shift: shift.saturating_add(7) },
                    }
                }
                Field::Text { left, texts } => {
                    // Skip this byte and as many of the following ones as belong to the text.
                    let others = left.saturating_sub(1).min(rest.len());
                    bytes = rest.get(others..).unwrap_or_default();
                    text(left.saturating_sub(1).saturating_sub(others), texts)
                }
            };
        }
        Ok(())
    }

    /// The first byte of a field says what follows it (RFC 7541, section 6).
    fn start(&mut self, byte: u8) -> Result<Field, TooManyFields> {
        let (is_field, index_max, texts) = match byte {
            0x80.. => (true, 0x7f, 0),
            0x40.. => (true, 0x3f, 1),
            // The size of the dynamic table changes.
            0x20.. => (false, 0x1f, 0),
            _ => (true, 0x0f, 1),
        };
        self.fields = self.fields.saturating_add(usize::from(is_field));
        if self.fields > FIELDS_MAX {
            return Err(TooManyFields);
        }
        let index = byte & index_max;
        let texts = if texts == 1 && index == 0 { 2 } else { texts };
        Ok(if index == index_max { Field::Index { texts } } else { after_index(texts) })
    }
}

fn skipped(left: usize) -> Part {
    match left {
        0 => Part::FrameHeader { left: FRAME_HEADER, length: 0 },
        left => Part::Skipped { left },
    }
}

fn after_index(texts: u8) -> Field {
    if texts == 0 { Field::Start } else { Field::TextLength { texts } }
}

/// The state before a text of which `left` bytes are to come, the first of `texts`.
fn text(left: usize, texts: u8) -> Field {
    if left == 0 { after_index(texts.saturating_sub(1)) } else { Field::Text { left, texts } }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END_HEADERS: u8 = 0x4;

    fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u32).to_be_bytes();
        [&length[1..], &[kind, flags, 0, 0, 0, 1], payload].concat()
    }

    /// Observes the frames after a preface, in pieces of every size that matters; the counts must not differ.
    fn fields(frames: &[Vec<u8>]) -> Result<usize, TooManyFields> {
        let bytes = [PREFACE, &frames.concat()].concat();
        let counts: Vec<_> = [1, 2, 3, 7, 100, bytes.len()]
            .map(|piece| {
                let mut count = FieldCount::new(PREFACE.len());
                bytes.chunks(piece).try_for_each(|chunk| count.observe(chunk)).map(|()| count.fields)
            })
            .into();
        assert!(counts.windows(2).all(|pair| pair[0] == pair[1]), "{counts:?}");
        counts.into_iter().next().unwrap()
    }

    /// Fields of every form: indexed, with a long index, literals with an indexed and a new name, one with a long index and a
    /// value of 300 bytes that look like fields; and a new size of the table, which is no field.
    fn block() -> Vec<u8> {
        let indexed = [0x82, 0xff, 0x80, 0x01];
        let literals = [0x41, 3, 0x82, 0x82, 0x82, 0x00, 1, b'n', 0x81, 0x82];
        let size = [0x3f, 0x80, 0x01];
        let long = [&[0x0f, 0x85, 0x01, 0x7f, 0xad, 0x01][..], &[0x82; 300]].concat();
        [&indexed[..], &literals, &size, &long, &[0x84]].concat()
    }

    #[test]
    fn fields_of_all_forms_are_counted() {
        assert_eq!(fields(&[frame(HEADERS, END_HEADERS, &block())]), Ok(6));
        // Padding and priority are not counted as fields, and a block can continue in another frame at any byte.
        let padded = [&[3, 0, 0, 0, 1, 9][..], &block(), &[0x82; 3]].concat();
        assert_eq!(fields(&[frame(HEADERS, PADDED | HAS_PRIORITY | END_HEADERS, &padded)]), Ok(6));
        for at in 0..block().len() {
            let (first, second) = (&block()[..at], &block()[at..]);
            let parts = [frame(HEADERS, 0, first), frame(CONTINUATION, END_HEADERS, second)];
            assert_eq!(fields(&parts), Ok(6), "split at {at}");
        }
        // Each block is counted on its own, and other frames have no fields.
        let data = frame(0, 0, &[0x82; 5000]);
        let second = frame(HEADERS, END_HEADERS, &[0x82, 0x84]);
        assert_eq!(fields(&[frame(HEADERS, END_HEADERS, &block()), data, frame(4, 0, &[]), second]), Ok(2));
    }

    #[test]
    fn too_many_fields_are_refused_whichever_frames_they_are_in() {
        let most = vec![0xbe; FIELDS_MAX];
        assert_eq!(fields(&[frame(HEADERS, END_HEADERS, &most), frame(HEADERS, 0, &most)]), Ok(FIELDS_MAX));
        let more = [frame(HEADERS, 0, &most), frame(CONTINUATION, 0, &[]), frame(CONTINUATION, 0, &[0xbe])];
        assert_eq!(fields(&more), Err(TooManyFields));
    }

    #[test]
    fn lengths_that_do_not_fit_are_no_panic() {
        let huge = [&[0x40, 0x7f][..], &[0xff; 40], &[0x7f]].concat();
        assert_eq!(fields(&[frame(HEADERS, 0, &huge), frame(CONTINUATION, 0, &[0xbe; 2000])]), Ok(1));
        let padding_only = frame(HEADERS, PADDED | HAS_PRIORITY, &[255]);
        assert_eq!(fields(&[padding_only]), Ok(0));
    }
}
