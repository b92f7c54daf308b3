//! The literals of JSON: strings, numbers and words, with the error texts of Go's scanner.

use super::ParseError;
use crate::{Str, Value};

/// The input with a reading position.
pub(super) struct Lexer<'a> {
    bytes: &'a [u8],
    /// The input as text if all of it is UTF-8, so that strings need not be checked again.
    text: Option<&'a str>,
    pub(super) at: usize,
    /// The error of the first number out of range. Like Go, it is reported only if the rest of the input is valid.
    pub(super) out_of_range: Option<ParseError>,
}

type Lexed<T> = Result<T, ParseError>;

/// A string of which so many bytes are plain is expected to be longer than a few words.
const LONG_STRING_BYTES: usize = 64;

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = 0x8080_8080_8080_8080;

/// Flags every zero byte of `word` with its high bit (bytes above the first zero may be flagged too).
const fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHS
}

/// Flags the bytes that end a run of plain string bytes (quote, backslash, control characters) with their high bit.
const fn string_stops(word: u64) -> u64 {
    zero_bytes(word ^ in_every_byte(b'"'))
        | zero_bytes(word ^ in_every_byte(b'\\'))
        | (word.wrapping_sub(in_every_byte(0x20)) & !word & HIGHS)
}

/// Whether a byte of the chunk ends a run of plain string bytes.
#[inline]
fn has_string_stop(chunk: &[u8; 32]) -> bool {
    let is_stop = |byte: u8| u8::from(byte == b'"') | u8::from(byte == b'\\') | u8::from(byte < 0x20);
    chunk.iter().fold(0, |found, &byte| found | is_stop(byte)) != 0
}

/// A word of eight equal bytes.
const fn in_every_byte(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

impl<'a> Lexer<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Lexer { bytes, text: std::str::from_utf8(bytes).ok(), at: 0, out_of_range: None }
    }

    /// Skips `bytes` bytes, which must be available.
    #[inline]
    #[expect(clippy::arithmetic_side_effects, reason = "the position is at most the length of the input")]
    pub(super) fn advance(&mut self, bytes: usize) {
        self.at += bytes;
    }

    /// The next byte, without taking it.
    #[inline]
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    /// The next byte that is no white space, without taking it.
    #[inline]
    pub(super) fn peek_token(&mut self) -> Option<u8> {
        loop {
            match self.peek() {
                Some(b' ' | b'\n' | b'\t' | b'\r') => self.advance(1),
                other => return other,
            }
        }
    }

    /// The error for the next byte, where a token was expected.
    #[cold]
    pub(super) fn unexpected(&self, context: &str) -> ParseError {
        match self.peek() {
            Some(byte) => self.invalid_byte(byte, context),
            None => ParseError::new("unexpected end of JSON input", self.bytes.len()),
        }
    }

    /// The error for the next byte, inside a literal. Go's scanner appends a blank to its input, so the error of a
    /// truncated literal names that blank.
    #[cold]
    fn broken_literal(&self, context: &str) -> ParseError {
        self.invalid_byte(self.peek().unwrap_or(b' '), context)
    }

    fn invalid_byte(&self, byte: u8, context: &str) -> ParseError {
        let message = format!("invalid character {} {context}", quoted_char(byte));
        ParseError::new(message, self.at.saturating_add(1).min(self.bytes.len()))
    }

    /// Takes one of the words `true`, `false` and `null`, whose first byte is known to be next.
    pub(super) fn word(&mut self, word: &str, value: Value) -> Lexed<Value> {
        for expected in word.bytes() {
            if self.peek() != Some(expected) {
                let context = format!("in literal {word} (expecting '{}')", char::from(expected));
                return Err(self.broken_literal(&context));
            }
            self.advance(1);
        }
        Ok(value)
    }

    /// Takes a string; the opening quote is known to be next.
    #[inline]
    pub(super) fn string(&mut self) -> Lexed<Str> {
        self.advance(1);
        let start = self.at;
        self.skip_plain();
        if self.peek() == Some(b'"') {
            let end = self.at;
            self.advance(1);
            return Ok(match self.text.and_then(|text| text.get(start..end)) {
                Some(plain) => Str::new(plain),
                None => Str::from(self.lossy(start, end)),
            });
        }
        self.escaped_string(start)
    }

    /// Moves to the next quote, backslash or control byte, or to the end.
    #[inline]
    fn skip_plain(&mut self) {
        let start = self.at;
        while let Some(chunk) = self.bytes.get(self.at..).and_then(|rest| rest.first_chunk::<8>()) {
            let stops = string_stops(u64::from_le_bytes(*chunk));
            if stops != 0 {
                self.advance((stops.trailing_zeros() / 8) as usize);
                return;
            }
            self.advance(8);
            if self.at == start.saturating_add(LONG_STRING_BYTES) {
                self.skip_plain_chunks();
            }
        }
        while let Some(byte) = self.peek()
            && byte != b'"'
            && byte != b'\\'
            && byte >= 0x20
        {
            self.advance(1);
        }
    }

    /// Skips plain bytes of a long string, in steps that the compiler turns into a few vector instructions.
    fn skip_plain_chunks(&mut self) {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let plain = rest.as_chunks::<32>().0.iter().take_while(|chunk| !has_string_stop(chunk)).count();
        self.advance(plain.saturating_mul(32));
    }

    /// Parses a string that began at `start` and is not plain up to its closing quote.
    #[cold]
    fn escaped_string(&mut self, start: usize) -> Lexed<Str> {
        let mut out = String::new();
        let mut run = start;
        loop {
            self.skip_plain();
            match self.text.and_then(|text| text.get(run..self.at)) {
                Some(plain) => out.push_str(plain),
                None => out.push_str(&self.lossy(run, self.at)),
            }
            match self.peek() {
                Some(b'"') => {
                    self.advance(1);
                    return Ok(Str::from(out));
                }
                Some(b'\\') => {
                    self.advance(1);
                    out.push(self.escape()?);
                    run = self.at;
                }
                _ => return Err(self.unexpected("in string literal")),
            }
        }
    }

    /// Parses what follows a backslash.
    fn escape(&mut self) -> Lexed<char> {
        let plain = match self.peek() {
            Some(c @ (b'"' | b'\\' | b'/')) => char::from(c),
            Some(b'b') => '\u{8}',
            Some(b'f') => '\u{c}',
            Some(b'n') => '\n',
            Some(b'r') => '\r',
            Some(b't') => '\t',
            Some(b'u') => {
                self.advance(1);
                return self.unicode_escape();
            }
            _ => return Err(self.broken_literal("in string escape code")),
        };
        self.advance(1);
        Ok(plain)
    }

    /// Parses what follows `\u`: one character, from two escapes if they are a surrogate pair. A lone surrogate becomes
    /// the replacement character.
    fn unicode_escape(&mut self) -> Lexed<char> {
        let first = self.hex4()?;
        if let Some(c) = char::from_u32(first) {
            return Ok(c);
        }
        let after_first = self.at;
        if self.bytes.get(self.at..).is_some_and(|rest| rest.starts_with(b"\\u")) {
            self.advance(2);
            let second = self.hex4()?;
            if (0xd800..0xdc00).contains(&first) && (0xdc00..0xe000).contains(&second) {
                let scalar = 0x10000_u32.saturating_add((first & 0x3ff) << 10 | second & 0x3ff);
                return Ok(char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            self.at = after_first;
        }
        Ok(char::REPLACEMENT_CHARACTER)
    }

    fn hex4(&mut self) -> Lexed<u32> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = self.peek().and_then(|byte| char::from(byte).to_digit(16));
            let Some(digit) = digit else {
                return Err(self.broken_literal("in \\u hexadecimal character escape"));
            };
            code = code << 4 | digit;
            self.advance(1);
        }
        Ok(code)
    }

    /// Decodes bytes that are not all UTF-8. Like Go, each invalid byte becomes one replacement character.
    #[cold]
    fn lossy(&self, start: usize, end: usize) -> String {
        let mut out = String::new();
        for chunk in self.bytes.get(start..end).unwrap_or_default().utf8_chunks() {
            out.push_str(chunk.valid());
            out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
        }
        out
    }

    /// Takes a number; its first byte (a digit or a minus) is known to be next.
    #[inline]
    pub(super) fn number(&mut self) -> Lexed<Value> {
        let start = self.at;
        let negative = self.peek() == Some(b'-');
        self.advance(usize::from(negative));
        let digits_start = self.at;
        let mut magnitude: u64 = 0;
        match self.peek() {
            Some(b'0') => self.advance(1),
            Some(b'1'..=b'9') => {
                while let Some(digit @ b'0'..=b'9') = self.peek() {
                    magnitude = magnitude.wrapping_mul(10).wrapping_add(u64::from(digit & 0xf));
                    self.advance(1);
                }
            }
            _ => return Err(self.broken_literal("in numeric literal")),
        }
        let digits = self.at.saturating_sub(digits_start);
        if !matches!(self.peek(), Some(b'.' | b'e' | b'E')) && digits <= MAGNITUDE_DIGITS {
            let signed = if negative {
                0i64.checked_sub_unsigned(magnitude)
            } else {
                0i64.checked_add_unsigned(magnitude)
            };
            if let Some(int) = signed {
                return Ok(Value::Int(int));
            }
        }
        self.fraction_and_exponent()?;
        self.lex_float(start)
    }

    fn fraction_and_exponent(&mut self) -> Lexed<()> {
        if self.peek() == Some(b'.') {
            self.advance(1);
            self.skip_digits("after decimal point in numeric literal")?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.advance(1);
            if let Some(b'+' | b'-') = self.peek() {
                self.advance(1);
            }
            self.skip_digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn skip_digits(&mut self, context: &str) -> Lexed<()> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.broken_literal(context));
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.advance(1);
        }
        Ok(())
    }

    fn lex_float(&mut self, start: usize) -> Lexed<Value> {
        let literal = self.lossy(start, self.at);
        match literal.parse::<f64>() {
            Ok(float) if float.is_finite() => Ok(Value::Float(float)),
            _ => {
                let message =
                    format!("json: cannot unmarshal number {literal} into Go value of type float64");
                let at = self.at;
                self.out_of_range.get_or_insert_with(|| ParseError::new(message, at));
                Ok(Value::Float(f64::INFINITY))
            }
        }
    }
}

/// Numbers of up to this many decimal digits fit a `u64`.
const MAGNITUDE_DIGITS: usize = 19;

/// `byte` as Go's scanner quotes it: as the character with that code point.
fn quoted_char(byte: u8) -> String {
    match byte {
        b'\'' => r"'\''".into(),
        b'\\' => r"'\\'".into(),
        0x07 => r"'\a'".into(),
        0x08 => r"'\b'".into(),
        0x0b => r"'\v'".into(),
        0x0c => r"'\f'".into(),
        b'\n' => r"'\n'".into(),
        b'\r' => r"'\r'".into(),
        b'\t' => r"'\t'".into(),
        0..0x20 | 0x7f => format!("'\\x{byte:02x}'"),
        // Go does not print Latin-1 control characters, the no-break space and the soft hyphen.
        0x80..=0xa0 | 0xad => format!("'\\u{byte:04x}'"),
        _ => format!("'{}'", char::from(byte)),
    }
}
