//! Anchors, aliases, tags and directives.

use super::{Scanned, Scanner, Token};
use crate::yaml::source::is_blank;

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '-'
}

fn is_uri(c: char) -> bool {
    is_word(c)
        || matches!(c, ';' | '/' | '?' | ':' | '@' | '&' | '=' | '+' | '$' | ',' | '.' | '!' | '~' | '*')
        || matches!(c, '\'' | '(' | ')' | '[' | ']')
}

impl Scanner<'_> {
    pub(super) fn scan_anchor(&mut self, alias: bool) -> Scanned<()> {
        let start = self.source.mark;
        self.source.skip();
        let name = self.source.take_while(is_word).to_owned();
        let ended = self.source.at_blank_or_end()
            || matches!(self.source.peek(), Some('?' | ':' | ',' | ']' | '}' | '%' | '@' | '`'));
        if name.is_empty() || !ended {
            return Err(self.source.error("did not find expected alphabetic or numeric character"));
        }
        self.push(if alias { Token::Alias(name) } else { Token::Anchor(name) }, start);
        Ok(())
    }

    pub(super) fn scan_tag(&mut self) -> Scanned<()> {
        let start = self.source.mark;
        let (handle, suffix) = if self.source.starts_with("!<") {
            self.source.skip();
            self.source.skip();
            let suffix = self.scan_tag_uri("")?;
            if self.source.peek() != Some('>') {
                return Err(self.source.error("did not find the expected '>'"));
            }
            self.source.skip();
            (String::new(), suffix)
        } else {
            let handle = self.scan_tag_handle(false)?;
            if handle.len() > 1 && handle.ends_with('!') {
                let suffix = self.scan_tag_uri("")?;
                (handle, suffix)
            } else {
                // It was not a handle but the beginning of the tag itself.
                match self.scan_tag_uri(&handle)? {
                    suffix if suffix.is_empty() => (String::new(), "!".to_owned()),
                    suffix => ("!".to_owned(), suffix),
                }
            }
        };
        if !self.source.at_blank_or_end() {
            return Err(self.source.error("did not find expected whitespace or line break"));
        }
        self.push(Token::Tag { handle, suffix }, start);
        Ok(())
    }

    fn scan_tag_handle(&mut self, directive: bool) -> Scanned<String> {
        if self.source.peek() != Some('!') {
            return Err(self.source.error("did not find expected '!'"));
        }
        self.source.skip();
        let mut handle = format!("!{}", self.source.take_while(is_word));
        if self.source.peek() == Some('!') {
            self.source.skip();
            handle.push('!');
        } else if directive && handle != "!" {
            return Err(self.source.error("did not find expected '!'"));
        }
        Ok(handle)
    }

    /// Takes the rest of a tag that begins with `head`.
    fn scan_tag_uri(&mut self, head: &str) -> Scanned<String> {
        let mut uri = head.get(1..).unwrap_or("").to_owned();
        let mut found = !head.is_empty();
        loop {
            let run = self.source.take_while(is_uri);
            found |= !run.is_empty();
            uri.push_str(run);
            if self.source.peek() != Some('%') {
                break;
            }
            uri.push(self.scan_uri_escape()?);
            found = true;
        }
        if !found {
            return Err(self.source.error("did not find expected tag URI"));
        }
        Ok(uri)
    }

    /// Takes one character that is written as `%` and hexadecimal octets.
    fn scan_uri_escape(&mut self) -> Scanned<char> {
        let mut octets = Vec::new();
        let mut width = 1;
        while octets.len() < width {
            if self.source.peek() != Some('%') {
                return Err(self.source.error("did not find URI escaped octet"));
            }
            self.source.skip();
            let mut octet = 0_u8;
            for _ in 0..2 {
                let digit = self.source.peek().and_then(|c| c.to_digit(16));
                let Some(digit) = digit else {
                    return Err(self.source.error("did not find URI escaped octet"));
                };
                octet = octet << 4 | digit as u8;
                self.source.skip();
            }
            if octets.is_empty() {
                width = match octet {
                    0..0x80 => 1,
                    0xc0..0xe0 => 2,
                    0xe0..0xf0 => 3,
                    0xf0..0xf8 => 4,
                    _ => return Err(self.source.error("found an incorrect leading UTF-8 octet")),
                };
            } else if octet & 0xc0 != 0x80 {
                return Err(self.source.error("found an incorrect trailing UTF-8 octet"));
            }
            octets.push(octet);
        }
        let character = std::str::from_utf8(&octets).ok().and_then(|text| text.chars().next());
        Ok(character.unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    pub(super) fn scan_directive(&mut self) -> Scanned<()> {
        let start = self.source.mark;
        self.source.skip();
        let name = self.source.take_while(is_word);
        if name.is_empty() {
            return Err(self.source.error("could not find expected directive name"));
        }
        if !self.source.at_blank_or_end() {
            return Err(self.source.error("found unexpected non-alphabetical character"));
        }
        let token = match name {
            "YAML" => self.scan_version()?,
            "TAG" => self.scan_tag_directive()?,
            _ => return Err(self.source.error("found unknown directive name")),
        };
        self.push(token, start);
        self.source.skip_blanks_and_comment();
        if !self.source.at_break_or_end() {
            return Err(self.source.error("did not find expected comment or line break"));
        }
        self.source.take_line();
        Ok(())
    }

    fn scan_version(&mut self) -> Scanned<Token> {
        self.source.skip_while(is_blank);
        let major = self.scan_version_number()?;
        if self.source.peek() != Some('.') {
            return Err(self.source.error("did not find expected digit or '.' character"));
        }
        self.source.skip();
        let minor = self.scan_version_number()?;
        Ok(Token::Version { major, minor })
    }

    fn scan_version_number(&mut self) -> Scanned<u8> {
        let digits = self.source.take_while(|c| c.is_ascii_digit());
        match digits.len() {
            0 => Err(self.source.error("did not find expected version number")),
            1 | 2 => Ok(digits.parse().unwrap_or(0)),
            _ => Err(self.source.error("found extremely long version number")),
        }
    }

    fn scan_tag_directive(&mut self) -> Scanned<Token> {
        self.source.skip_while(is_blank);
        let handle = self.scan_tag_handle(true)?;
        if !self.source.at_blank() {
            return Err(self.source.error("did not find expected whitespace"));
        }
        self.source.skip_while(is_blank);
        let prefix = self.scan_tag_uri("")?;
        if !self.source.at_blank_or_end() {
            return Err(self.source.error("did not find expected whitespace or line break"));
        }
        Ok(Token::TagDirective { handle, prefix })
    }
}
