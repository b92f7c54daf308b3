//! Decodes chunked bodies by the rules of Go's `net/http/internal`, whose errors clients see.

use bytes::{Buf, Bytes};

/// The size limits in bytes of the line before a chunk and of the trailer, as in Go's buffered reader.
const LINE_BYTES_MAX: usize = 4096;
const TRAILER_BYTES_MAX: usize = 4096;
/// How many bytes the lines of short chunks may have in total, beyond what is usual.
const EXCESS_BYTES_MAX: u64 = 16 * 1024;
const EXCESS_ALLOWED_PER_CHUNK: u64 = 16;
/// How many hexadecimal digits the size of a chunk may have.
const SIZE_DIGITS_MAX: usize = 16;

/// What comes next.
#[derive(Debug, PartialEq, Eq)]
enum Expected {
    /// The line with the size of a chunk.
    Size,
    /// That many bytes of content.
    Content(u64),
    /// The end of the line after the content.
    LineEnd,
    /// The lines after the last chunk, of which so many bytes have arrived.
    Trailer(usize),
    Nothing,
}

/// A body that is being decoded.
#[derive(Debug)]
pub(crate) struct Chunked {
    expected: Expected,
    /// The beginning of a line of which only a part has arrived.
    line: Vec<u8>,
    excess: u64,
}

impl Default for Chunked {
    fn default() -> Self {
        Chunked { expected: Expected::Size, line: Vec::new(), excess: 0 }
    }
}

impl Chunked {
    /// Whether the body is complete.
    pub(crate) fn is_complete(&self) -> bool {
        self.expected == Expected::Nothing
    }

    /// The next content in `bytes`. `None` means that all of them were read, or that the body is complete.
    pub(crate) fn next(&mut self, bytes: &mut Bytes) -> Result<Option<Bytes>, &'static str> {
        loop {
            match &mut self.expected {
                Expected::Nothing => return Ok(None),
                Expected::Content(left) => {
                    if bytes.is_empty() {
                        return Ok(None);
                    }
                    let size = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    let content = bytes.split_to(size);
                    *left = left.saturating_sub(u64::try_from(size).unwrap_or(u64::MAX));
                    if *left == 0 {
                        self.expected = Expected::LineEnd;
                    }
                    return Ok(Some(content));
                }
                Expected::LineEnd => {
                    let Some(line) = self.line(bytes, "malformed chunked encoding", 2)? else {
                        return Ok(None);
                    };
                    if line != b"\r\n" {
                        return Err("malformed chunked encoding");
                    }
                    self.expected = Expected::Size;
                }
                Expected::Size => {
                    let Some(line) = self.line(bytes, "header line too long", LINE_BYTES_MAX)? else {
                        return Ok(None);
                    };
                    let size = chunk_size(&line)?;
                    self.count_excess(line.len(), size)?;
                    self.expected = if size == 0 { Expected::Trailer(0) } else { Expected::Content(size) };
                }
                Expected::Trailer(before) => {
                    let before = *before;
                    let left = TRAILER_BYTES_MAX.saturating_sub(before);
                    let too_long = "http: suspiciously long trailer after chunked body";
                    let Some(line) = self.line(bytes, too_long, left)? else { return Ok(None) };
                    // The fields of a trailer are not passed on.
                    self.expected = match line.as_slice() {
                        b"\r\n" | b"\n" => Expected::Nothing,
                        _ => Expected::Trailer(before.saturating_add(line.len())),
                    };
                }
            }
        }
    }

    /// The next line with its end, if it is complete. `too_long` is the error for a line of more than `bytes_max` bytes.
    fn line(
        &mut self,
        bytes: &mut Bytes,
        too_long: &'static str,
        bytes_max: usize,
    ) -> Result<Option<Vec<u8>>, &'static str> {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let size = end.map_or(bytes.len(), |end| end.saturating_add(1));
        if self.line.len().saturating_add(size) > bytes_max {
            return Err(too_long);
        }
        self.line.extend_from_slice(bytes.get(..size).unwrap_or_default());
        bytes.advance(size);
        Ok(end.map(|_| std::mem::take(&mut self.line)))
    }

    /// Counts bytes that are no content, as Go does: a sender of many short chunks with long lines is refused.
    fn count_excess(&mut self, line: usize, size: u64) -> Result<(), &'static str> {
        let line = u64::try_from(line).unwrap_or(u64::MAX);
        let allowed = EXCESS_ALLOWED_PER_CHUNK.saturating_add(size.saturating_mul(2));
        self.excess = self.excess.saturating_add(line).saturating_sub(allowed);
        if self.excess > EXCESS_BYTES_MAX {
            return Err("chunked encoding contains too much non-data");
        }
        Ok(())
    }
}

/// The number in a line before a chunk; extensions are ignored.
fn chunk_size(line: &[u8]) -> Result<u64, &'static str> {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let Some(line) = line.strip_suffix(b"\r") else {
        return Err(if line.contains(&b'\r') {
            "invalid CR in chunked line"
        } else {
            "chunked line ends with bare LF"
        });
    };
    if line.contains(&b'\r') {
        return Err("invalid CR in chunked line");
    }
    let digits = line.trim_ascii_end().split(|byte| *byte == b';').next().unwrap_or_default();
    if digits.is_empty() {
        return Err("empty hex number for chunk length");
    }
    let mut size: u64 = 0;
    for (place, digit) in digits.iter().enumerate() {
        let Some(digit) = char::from(*digit).to_digit(16) else {
            return Err("invalid byte in chunk length");
        };
        if place >= SIZE_DIGITS_MAX {
            return Err("http chunk length too large");
        }
        size = size << 4 | u64::from(digit);
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The content of a body that arrives in pieces of `piece` bytes, and whether it is complete.
    fn decode(sent: &[u8], piece: usize) -> Result<(String, bool), &'static str> {
        let mut decoder = Chunked::default();
        let mut out = Vec::new();
        for part in sent.chunks(piece) {
            let mut part = Bytes::copy_from_slice(part);
            while let Some(content) = decoder.next(&mut part)? {
                out.extend_from_slice(&content);
            }
        }
        Ok((String::from_utf8(out).unwrap(), decoder.is_complete()))
    }

    #[test]
    fn chunks_are_decoded_as_by_go() {
        let long = format!("1;{}\r\n", "x".repeat(5000));
        let trailer = format!("0\r\nA: {}\r\n\r\n", "x".repeat(5000));
        let tiny = "1;0123456789012345678901234567890123456789\r\nx\r\n".repeat(1000);
        for (sent, want) in [
            ("3\r\none\r\nA;x=y\r\n0123456789\r\n0\r\n\r\n", Ok(("one0123456789", true))),
            ("3 \r\none\r\n0\r\nTrailer: 1\r\n\r\nmore", Ok(("one", true))),
            ("3\r\non", Ok(("on", false))),
            ("", Ok(("", false))),
            ("3\none\r\n", Err("chunked line ends with bare LF")),
            ("3\r1\r\none", Err("invalid CR in chunked line")),
            ("\r\n", Err("empty hex number for chunk length")),
            ("x\r\n", Err("invalid byte in chunk length")),
            ("00000000000000001\r\n", Err("http chunk length too large")),
            ("3\r\nones\r\n", Err("malformed chunked encoding")),
            (&long, Err("header line too long")),
            (&trailer, Err("http: suspiciously long trailer after chunked body")),
            (&tiny, Err("chunked encoding contains too much non-data")),
        ] {
            for piece in [1, 3, 100_000] {
                let read = decode(sent.as_bytes(), piece);
                let read = read.as_ref().map(|(text, is_complete)| (text.as_str(), *is_complete));
                assert_eq!(read, want.as_ref().copied(), "{sent:.40} in pieces of {piece}");
            }
        }
    }
}
