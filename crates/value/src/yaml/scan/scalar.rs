//! The three forms of scalars: plain, in quotes, and in blocks.

use super::{Scanned, Scanner, Token};
use crate::yaml::source::{is_blank, is_break};

/// White space between the words of a scalar: blanks in a line, or line breaks, which are folded.
#[derive(Default)]
struct Gap {
    blanks: String,
    first_break: String,
    more_breaks: String,
    /// Whether a line was broken.
    broken: bool,
}

impl Gap {
    /// Adds the white space to the text: a single line feed becomes a blank; of several, the first is dropped.
    fn fold_into(&mut self, text: &mut String) {
        if !self.broken {
            text.push_str(&self.blanks);
        } else if !self.first_break.starts_with('\n') {
            text.push_str(&self.first_break);
            text.push_str(&self.more_breaks);
        } else if self.more_breaks.is_empty() {
            text.push(' ');
        } else {
            text.push_str(&self.more_breaks);
        }
        *self = Gap::default();
    }

    fn add_break(&mut self, line_break: char) {
        if self.broken {
            self.more_breaks.push(line_break);
        } else {
            self.blanks.clear();
            self.first_break.push(line_break);
            self.broken = true;
        }
    }
}

impl Scanner<'_> {
    pub(super) fn scan_plain(&mut self) -> Scanned<()> {
        let start = self.source.mark;
        let mut end = start;
        let mut text = String::new();
        let mut gap = Gap::default();
        let least_column = self.indent.saturating_add(1);
        loop {
            if self.source.at_document_indicator() || self.source.peek() == Some('#') {
                break;
            }
            let mut found = false;
            while !self.source.at_blank_or_end() && !self.at_plain_end() {
                if !found {
                    gap.fold_into(&mut text);
                    found = true;
                }
                let in_flow = self.in_flow();
                let run = self.source.take_while(|c| !is_plain_stop(c, in_flow));
                if run.is_empty() {
                    text.extend(self.source.peek());
                    self.source.skip();
                } else {
                    text.push_str(run);
                }
            }
            if found {
                end = self.source.mark;
            }
            if !self.source.at_blank() && !self.source.at_break() {
                break;
            }
            while let Some(c) = self.source.peek().filter(|&c| is_blank(c) || is_break(c)) {
                if let Some(line_break) = self.source.take_line() {
                    gap.add_break(line_break);
                    continue;
                }
                if gap.broken && c == '\t' && (self.source.mark.column as isize) < least_column {
                    return Err(self.source.error("found a tab character that violates indentation"));
                }
                if !gap.broken {
                    gap.blanks.push(c);
                }
                self.source.skip();
            }
            if !self.in_flow() && (self.source.mark.column as isize) < least_column {
                break;
            }
        }
        self.source.check()?;
        self.push(Token::Scalar { text, plain: true }, start);
        if let Some(located) = self.tokens.back_mut() {
            located.end = end;
        }
        if gap.broken {
            self.simple_key_allowed = true;
        }
        Ok(())
    }

    /// Whether a plain scalar ends before the next character.
    fn at_plain_end(&self) -> bool {
        match self.source.peek() {
            Some(':') => self.source.second_is_blank_or_end(),
            Some(',' | '?' | '[' | ']' | '{' | '}') => self.in_flow(),
            _ => false,
        }
    }

    pub(super) fn scan_quoted(&mut self, single: bool) -> Scanned<()> {
        let start = self.source.mark;
        let quote = if single { '\'' } else { '"' };
        self.source.skip();
        let mut text = String::new();
        let mut gap = Gap::default();
        loop {
            if self.source.at_document_indicator() {
                return Err(self.source.error("found unexpected document indicator"));
            }
            if self.source.peek().is_none() {
                return Err(self.source.error("found unexpected end of stream"));
            }
            self.scan_quoted_words(single, &mut text, &mut gap)?;
            if self.source.peek() == Some(quote) {
                break;
            }
            while let Some(c) = self.source.peek().filter(|&c| is_blank(c) || is_break(c)) {
                if let Some(line_break) = self.source.take_line() {
                    gap.add_break(line_break);
                    continue;
                }
                if !gap.broken {
                    gap.blanks.push(c);
                }
                self.source.skip();
            }
            gap.fold_into(&mut text);
        }
        self.source.skip();
        self.push(Token::Scalar { text, plain: false }, start);
        Ok(())
    }

    /// Takes characters up to the next white space or the closing quote. An escaped line break begins white space.
    fn scan_quoted_words(&mut self, single: bool, text: &mut String, gap: &mut Gap) -> Scanned<()> {
        while let Some(c) = self.source.peek().filter(|&c| !is_blank(c) && !is_break(c)) {
            match c {
                '\'' if single => {
                    if self.source.peek_second() != Some('\'') {
                        return Ok(());
                    }
                    text.push('\'');
                    self.source.skip();
                    self.source.skip();
                }
                '"' if !single => return Ok(()),
                '\\' if !single => {
                    if self.source.peek_second().is_some_and(is_break) {
                        self.source.skip();
                        self.source.take_line();
                        gap.broken = true;
                        return Ok(());
                    }
                    text.push(self.scan_escape()?);
                }
                _ => {
                    text.push_str(
                        self.source.take_while(|c| {
                            !is_blank(c) && !is_break(c) && c != '\'' && c != '"' && c != '\\'
                        }),
                    );
                    // A quote of the other kind, or a backslash in single quotes.
                    if let Some(c @ ('\'' | '"' | '\\')) = self.source.peek()
                        && (c == '\'') != single
                        && (c == '"' || c == '\\') == single
                    {
                        text.push(c);
                        self.source.skip();
                    }
                }
            }
        }
        Ok(())
    }

    fn scan_escape(&mut self) -> Scanned<char> {
        let digits = match self.source.peek_second() {
            Some('x') => 2,
            Some('u') => 4,
            Some('U') => 8,
            escaped => {
                let c = match escaped {
                    Some('0') => '\0',
                    Some('a') => '\u{7}',
                    Some('b') => '\u{8}',
                    Some('t' | '\t') => '\t',
                    Some('n') => '\n',
                    Some('v') => '\u{b}',
                    Some('f') => '\u{c}',
                    Some('r') => '\r',
                    Some('e') => '\u{1b}',
                    Some(c @ (' ' | '"' | '\'' | '\\')) => c,
                    Some('N') => '\u{85}',
                    Some('_') => '\u{a0}',
                    Some('L') => '\u{2028}',
                    Some('P') => '\u{2029}',
                    _ => return Err(self.source.error("found unknown escape character")),
                };
                self.source.skip();
                self.source.skip();
                return Ok(c);
            }
        };
        self.source.skip();
        self.source.skip();
        let mut code: u32 = 0;
        for _ in 0..digits {
            let Some(digit) = self.source.peek().and_then(|c| c.to_digit(16)) else {
                return Err(self.source.error("did not find expected hexdecimal number"));
            };
            code = code << 4 | digit;
            self.source.skip();
        }
        char::from_u32(code).ok_or_else(|| self.source.error("found invalid Unicode character escape code"))
    }

    pub(super) fn scan_block_scalar(&mut self, literal: bool) -> Scanned<()> {
        let start = self.source.mark;
        self.source.skip();
        let (chomping, increment) = self.scan_block_header()?;
        self.source.skip_blanks_and_comment();
        if !self.source.at_break_or_end() {
            return Err(self.source.error("did not find expected comment or line break"));
        }
        self.source.take_line();
        // 0 means the indentation of the first line that is not empty.
        let mut indent =
            increment.map_or(0, |increment| (self.indent.max(0) as usize).saturating_add(increment));
        let mut text = String::new();
        let mut first_break = String::new();
        let mut more_breaks = String::new();
        let mut after_blank = false;
        self.scan_block_breaks(&mut indent, &mut more_breaks)?;
        while self.source.mark.column == indent && self.source.peek().is_some() {
            let blank = self.source.at_blank();
            if !literal && first_break.starts_with('\n') && !after_blank && !blank {
                if more_breaks.is_empty() {
                    text.push(' ');
                }
            } else {
                text.push_str(&first_break);
            }
            first_break.clear();
            text.push_str(&more_breaks);
            more_breaks.clear();
            after_blank = blank;
            text.push_str(self.source.take_while(|c| !is_break(c)));
            self.source.check()?;
            first_break.extend(self.source.take_line());
            self.scan_block_breaks(&mut indent, &mut more_breaks)?;
        }
        if chomping != Some('-') {
            text.push_str(&first_break);
        }
        if chomping == Some('+') {
            text.push_str(&more_breaks);
        }
        self.push(Token::Scalar { text, plain: false }, start);
        Ok(())
    }

    /// Takes the indicators after `|` or `>`: chomping and indentation.
    fn scan_block_header(&mut self) -> Scanned<(Option<char>, Option<usize>)> {
        let mut chomping = None;
        let mut increment = None;
        for _ in 0..2 {
            match self.source.peek() {
                Some(c @ ('+' | '-')) if chomping.is_none() => chomping = Some(c),
                Some('0') if increment.is_none() => {
                    return Err(self.source.error("found an indentation indicator equal to 0"));
                }
                Some(c @ '1'..='9') if increment.is_none() => {
                    increment = c.to_digit(10).map(|digit| digit as usize)
                }
                _ => break,
            }
            self.source.skip();
        }
        Ok((chomping, increment))
    }

    /// Takes indentation and empty lines. Determines the indentation of the text if it is not known yet.
    fn scan_block_breaks(&mut self, indent: &mut usize, breaks: &mut String) -> Scanned<()> {
        let mut deepest = 0;
        loop {
            let unknown = *indent == 0;
            while self.source.peek() == Some(' ') && (unknown || self.source.mark.column < *indent) {
                self.source.skip();
            }
            let column = self.source.mark.column;
            deepest = deepest.max(column);
            if self.source.peek() == Some('\t') && (unknown || column < *indent) {
                let problem = "found a tab character where an indentation space is expected";
                return Err(self.source.error(problem));
            }
            self.source.check()?;
            match self.source.take_line() {
                Some(line_break) => breaks.push(line_break),
                None => break,
            }
        }
        if *indent == 0 {
            *indent = deepest.max(self.indent.saturating_add(1).max(1) as usize);
        }
        Ok(())
    }
}

/// Characters at which a plain scalar may end; the caller checks the context.
fn is_plain_stop(c: char, in_flow: bool) -> bool {
    is_blank(c) || is_break(c) || c == ':' || (in_flow && matches!(c, ',' | '?' | '[' | ']' | '{' | '}'))
}
