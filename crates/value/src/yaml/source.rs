//! The characters of a YAML stream, with the reading position and errors of the encoding.

use super::ParseError;

/// go-yaml decodes its input in blocks of this size: it reports invalid bytes only when it reads their block.
const BLOCK_BYTES: usize = 512;

/// How far ahead of the current character the scanner looks.
const LOOKAHEAD_BYTES: usize = 4;

/// A position.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Mark {
    /// Characters before it.
    pub(super) index: usize,
    /// Counted from 0.
    pub(super) line: usize,
    /// Counted from 0, in characters.
    pub(super) column: usize,
}

/// The input with a reading position.
pub(super) struct Source<'a> {
    text: &'a str,
    at: usize,
    pub(super) mark: Mark,
    /// The error of the bytes after `text`, if there are more.
    fault: Option<&'static str>,
}

pub(super) fn is_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

pub(super) fn is_blank(c: char) -> bool {
    c == ' ' || c == '\t'
}

fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{fffd}' | '\u{10000}'..)
}

impl<'a> Source<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
        let (mut text, mut fault) = match std::str::from_utf8(bytes) {
            Ok(text) => (text, None),
            Err(error) => {
                let (valid, wrong) = bytes.split_at_checked(error.valid_up_to()).unwrap_or((bytes, &[]));
                (std::str::from_utf8(valid).unwrap_or(""), Some(utf8_fault(wrong)))
            }
        };
        if let Some(at) = text.find(|c| !is_allowed(c)) {
            text = text.get(..at).unwrap_or("");
            fault = Some("control characters are not allowed");
        }
        if fault.is_some() {
            let block = (0..=(text.len() / BLOCK_BYTES).saturating_mul(BLOCK_BYTES))
                .rev()
                .find(|&at| text.is_char_boundary(at));
            text = text.get(..block.unwrap_or(0)).unwrap_or("");
        }
        Source { text, at: 0, mark: Mark::default(), fault }
    }

    /// The next character; `None` at the end.
    pub(super) fn peek(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().next()
    }

    /// The character after the next.
    pub(super) fn peek_second(&self) -> Option<char> {
        self.text.get(self.at..)?.chars().nth(1)
    }

    pub(super) fn starts_with(&self, prefix: &str) -> bool {
        self.text.get(self.at..).is_some_and(|rest| rest.starts_with(prefix))
    }

    pub(super) fn at_break(&self) -> bool {
        self.peek().is_some_and(is_break)
    }

    pub(super) fn at_break_or_end(&self) -> bool {
        self.peek().is_none_or(is_break)
    }

    pub(super) fn at_blank(&self) -> bool {
        self.peek().is_some_and(is_blank)
    }

    pub(super) fn at_blank_or_end(&self) -> bool {
        self.peek().is_none_or(|c| is_blank(c) || is_break(c))
    }

    /// Whether the character after the next is a blank, a break or the end.
    pub(super) fn second_is_blank_or_end(&self) -> bool {
        self.peek_second().is_none_or(|c| is_blank(c) || is_break(c))
    }

    /// Whether `---` or `...` stands alone at the start of the line.
    pub(super) fn at_document_indicator(&self) -> bool {
        self.mark.column == 0 && (self.at_indicator("---") || self.at_indicator("..."))
    }

    pub(super) fn at_indicator(&self, indicator: &str) -> bool {
        let rest = self.text.get(self.at..).and_then(|rest| rest.strip_prefix(indicator));
        rest.is_some_and(|rest| rest.chars().next().is_none_or(|c| is_blank(c) || is_break(c)))
    }

    /// Skips one character, which must not be a break.
    pub(super) fn skip(&mut self) {
        if let Some(c) = self.peek() {
            self.at = self.at.saturating_add(c.len_utf8());
            self.mark.index = self.mark.index.saturating_add(1);
            self.mark.column = self.mark.column.saturating_add(1);
        }
    }

    pub(super) fn skip_while(&mut self, keep: impl Fn(char) -> bool) {
        while self.peek().is_some_and(&keep) {
            self.skip();
        }
    }

    /// Takes characters while `keep` returns true.
    pub(super) fn take_while(&mut self, keep: impl Fn(char) -> bool) -> &'a str {
        let start = self.at;
        self.skip_while(keep);
        self.text.get(start..self.at).unwrap_or("")
    }

    /// Skips blanks and a comment, up to the end of the line.
    pub(super) fn skip_blanks_and_comment(&mut self) {
        self.skip_while(is_blank);
        if self.peek() == Some('#') {
            self.skip_while(|c| !is_break(c));
        }
    }

    /// Takes a line break, if one is next. Returns it as it appears in text: a line feed, except for the two line
    /// separators of Unicode.
    pub(super) fn take_line(&mut self) -> Option<char> {
        let c = self.peek().filter(|&c| is_break(c))?;
        let length = if self.starts_with("\r\n") { 2 } else { c.len_utf8() };
        self.at = self.at.saturating_add(length);
        self.mark.index = self.mark.index.saturating_add(if c == '\r' { length } else { 1 });
        self.mark.column = 0;
        self.mark.line = self.mark.line.saturating_add(1);
        Some(if matches!(c, '\u{2028}' | '\u{2029}') { c } else { '\n' })
    }

    /// Fails if go-yaml would have read invalid bytes by now.
    pub(super) fn check(&self) -> Result<(), ParseError> {
        match self.fault {
            Some(fault) if self.at.saturating_add(LOOKAHEAD_BYTES) > self.text.len() => {
                Err(self.error_at(0, fault))
            }
            _ => Ok(()),
        }
    }

    /// An error of the scanner at the current position.
    pub(super) fn error(&self, problem: &str) -> ParseError {
        let line = if self.mark.line == 0 { 0 } else { self.mark.line.saturating_add(1) };
        self.check().err().unwrap_or_else(|| self.error_at(line, problem))
    }

    /// An error of the parser. go-yaml counts lines from 0 here.
    pub(super) fn parser_error(&self, problem: &str, mark: Mark, context: Option<Mark>) -> ParseError {
        let line = if mark.line == 0 { context.unwrap_or_default().line } else { mark.line };
        self.error_at(line, problem)
    }

    /// go-yaml does not print line 0.
    fn error_at(&self, line: usize, problem: &str) -> ParseError {
        let place = if line == 0 { String::new() } else { format!("line {line}: ") };
        ParseError::new(format!("yaml: {place}{problem}"), self.at)
    }
}

/// go-yaml's error for bytes that are not UTF-8.
fn utf8_fault(wrong: &[u8]) -> &'static str {
    let width = match wrong.first() {
        Some(0xc0..=0xdf) => 2,
        Some(0xe0..=0xef) => 3,
        Some(0xf0..=0xf7) => 4,
        _ => return "invalid leading UTF-8 octet",
    };
    let Some(sequence) = wrong.get(..width) else { return "incomplete UTF-8 octet sequence" };
    if sequence.iter().skip(1).any(|octet| octet & 0xc0 != 0x80) {
        return "invalid trailing UTF-8 octet";
    }
    match sequence {
        [0xc0 | 0xc1, _] | [0xe0, 0x80..=0x9f, _] | [0xf0, 0x80..=0x8f, _, _] => {
            "invalid length of a UTF-8 sequence"
        }
        _ => "invalid Unicode character",
    }
}
