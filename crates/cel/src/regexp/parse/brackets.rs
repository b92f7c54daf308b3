//! Character classes in brackets.

use std::sync::Arc;

use super::super::class::{self, Class};
use super::{Parser, Step, refuse};

impl<'a> Parser<'a> {
    /// Parses `[a-z]`. Brackets inside are literals, except in groups such as `[:alpha:]`.
    pub(super) fn brackets(&mut self) -> Step<'a, ()> {
        let whole = self.rest;
        self.advance(1);
        let negated = self.rest.starts_with('^');
        if negated {
            self.advance(1);
        }
        let mut ranges: Vec<(u32, u32)> = Vec::new();
        // Explicit ranges are folded at the end; those of groups already are.
        let mut spelled: Vec<(u32, u32)> = Vec::new();
        let mut first = true;
        while first || !self.rest.starts_with(']') {
            first = false;
            if let Some(class) = self.posix_group()? {
                ranges.extend(class.ranges());
            } else if let Some(class) = self.class_escape()? {
                ranges.extend(class.ranges());
            } else {
                spelled.push(self.range(whole)?);
            }
            self.check_ranges(ranges.len().saturating_add(spelled.len()))?;
        }
        self.advance(1);
        let spelled = Class::of(spelled);
        let spelled = if self.flags.fold_case { spelled.folded() } else { spelled };
        ranges.extend(spelled.ranges());
        let class = Class::of(ranges);
        self.push_class(Arc::new(if negated { class.negated() } else { class }))
    }

    /// Limits the ranges of one class before equal ones are joined.
    fn check_ranges(&self, ranges: usize) -> Step<'a, ()> {
        if ranges > super::RUNES_MAX { refuse("expression too large", self.pattern) } else { Ok(()) }
    }

    /// Parses a POSIX class: `[:alpha:]` or `[:^alpha:]`.
    fn posix_group(&mut self) -> Step<'a, Option<Class>> {
        let Some(inner) = self.rest.strip_prefix("[:") else { return Ok(None) };
        let Some(end) = inner.find(":]") else { return Ok(None) };
        let whole = self.rest.get(..end.saturating_add(4)).unwrap_or(self.rest);
        let name = inner.get(..end).unwrap_or("");
        let (name, negated) = match name.strip_prefix('^') {
            Some(name) => (name, true),
            None => (name, false),
        };
        let Some(class) = class::posix(name) else { return refuse("invalid character class range", whole) };
        self.advance(whole.len());
        Ok(Some(self.group(class, negated)))
    }

    /// Parses one character or a range: `a` or `a-z`.
    fn range(&mut self, whole: &'a str) -> Step<'a, (u32, u32)> {
        let before = self.rest;
        let low = self.parse_member(whole)?;
        // A dash before the end is a literal.
        let mut after = self.rest.chars();
        if after.next() != Some('-') || after.next().is_none_or(|c| c == ']') {
            return Ok((low, low));
        }
        self.advance(1);
        let high = self.parse_member(whole)?;
        if high < low {
            return refuse("invalid character class range", self.read_of(before));
        }
        Ok((low, high))
    }

    fn parse_member(&mut self, whole: &'a str) -> Step<'a, u32> {
        match self.rest.chars().next() {
            None => refuse("missing closing ]", whole),
            Some('\\') => self.escaped(),
            Some(c) => {
                self.advance(c.len_utf8());
                Ok(c.into())
            }
        }
    }
}
