//! Parses escapes, which begin with a backslash.

use std::sync::Arc;

use super::super::class::{self, CODE_MAX, Class};
use super::super::tree::Look;
use super::{Parser, Step, refuse};

impl<'a> Parser<'a> {
    /// Parses an escape outside of brackets.
    pub(super) fn backslash(&mut self) -> Step<'a, ()> {
        let whole = self.rest;
        let look = match whole.as_bytes().get(1) {
            Some(b'A') => Some(Look::TextStart),
            Some(b'z') => Some(Look::TextEnd),
            Some(b'b') => Some(Look::WordBoundary),
            Some(b'B') => Some(Look::NoWordBoundary),
            Some(b'Q') => {
                self.advance(2);
                let (literal, after) = self.rest.split_once(r"\E").unwrap_or((self.rest, ""));
                literal.chars().try_for_each(|c| self.push_literal(c.into()))?;
                self.rest = after;
                return Ok(());
            }
            _ => None,
        };
        if let Some(look) = look {
            self.look(look)?;
            self.advance(2);
            return Ok(());
        }
        if let Some(class) = self.class_escape()? {
            return self.push_class(class);
        }
        let code = self.escaped()?;
        self.push_literal(code)
    }

    /// `\p{L}`, `\pL`, `\d`: `None` if something else follows.
    pub(super) fn class_escape(&mut self) -> Step<'a, Option<Arc<Class>>> {
        let mut chars = self.rest.chars();
        if chars.next() != Some('\\') {
            return Ok(None);
        }
        let Some(letter) = chars.next() else { return Ok(None) };
        if matches!(letter, 'p' | 'P') {
            return self.parse_property(letter == 'P').map(Some);
        }
        let Some(class) = class::perl(letter) else { return Ok(None) };
        self.advance(2);
        Ok(Some(Arc::new(self.group(class, letter.is_ascii_uppercase()))))
    }

    /// A named class, negated if wanted, and folded if the flags say so.
    pub(super) fn group(&self, class: Class, negated: bool) -> Class {
        let class = if self.flags.fold_case { class.folded() } else { class };
        if negated { class.negated() } else { class }
    }

    fn parse_property(&mut self, negated: bool) -> Step<'a, Arc<Class>> {
        let whole = self.rest;
        self.advance(2);
        let first = self.next();
        let mut name = whole.get(2..whole.len().saturating_sub(self.rest.len())).unwrap_or("");
        if first == Some('{') {
            let Some(end) = whole.find('}') else { return refuse("invalid character class range", whole) };
            self.rest = whole.get(end.saturating_add(1)..).unwrap_or("");
            name = whole.get(3..end).unwrap_or("");
        }
        let (name, negated) = match name.strip_prefix('^') {
            Some(name) => (name, !negated),
            None => (name, negated),
        };
        match class::property(name, self.flags.fold_case) {
            Some(class) if negated => Ok(Arc::new(class.negated())),
            Some(class) => Ok(class),
            None => refuse("invalid character class range", self.read_of(whole)),
        }
    }

    /// The character of an escape.
    pub(super) fn escaped(&mut self) -> Step<'a, u32> {
        let whole = self.rest;
        self.advance(1);
        let Some(c) = self.next() else { return refuse("trailing backslash at end of expression", "") };
        let code = match c {
            'a' => Some(0x07),
            'f' => Some(0x0C),
            'n' => Some(0x0A),
            'r' => Some(0x0D),
            't' => Some(0x09),
            'v' => Some(0x0B),
            'x' => self.hexadecimal(),
            '0' => Some(self.octal(0)),
            // A single digit would be a backreference.
            '1'..='7' if self.rest.starts_with(|c| matches!(c, '0'..='7')) => {
                Some(self.octal(u32::from(c).saturating_sub(u32::from('0'))))
            }
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => Some(c.into()),
            _ => None,
        };
        match code {
            Some(code) => Ok(code),
            None => refuse("invalid escape sequence", self.read_of(whole)),
        }
    }

    /// Parses up to two more octal digits.
    fn octal(&mut self, first: u32) -> u32 {
        let mut code = first;
        for _ in 0..2 {
            let Some(digit) = self.rest.chars().next().and_then(|c| c.to_digit(8)) else { break };
            code = code.saturating_mul(8).saturating_add(digit);
            self.advance(1);
        }
        code
    }

    /// Parses `\x7F` or `\x{10FFFF}`, after the letter.
    fn hexadecimal(&mut self) -> Option<u32> {
        let first = self.next()?;
        if first != '{' {
            let second = self.next();
            return Some(first.to_digit(16)?.saturating_mul(16).saturating_add(second?.to_digit(16)?));
        }
        let mut code = None;
        loop {
            match self.next()? {
                '}' => return code,
                c => {
                    let more = code.unwrap_or(0).saturating_mul(16).saturating_add(c.to_digit(16)?);
                    code = Some(more).filter(|code| *code <= CODE_MAX);
                    code?;
                }
            }
        }
    }
}
