//! From characters to tokens: indentation becomes block tokens, and keys are recognised when their colon follows.

mod name;
mod scalar;

use super::source::Mark;
use super::source::Source;
use super::{DEPTH_MAX, ParseError};
use std::collections::{HashMap, VecDeque};

/// A key without `?` must have its colon within this many characters.
const SIMPLE_KEY_CHARS_MAX: usize = 1024;

/// The types of tokens.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token {
    StreamEnd,
    Version { major: u8, minor: u8 },
    TagDirective { handle: String, prefix: String },
    DocumentStart,
    DocumentEnd,
    BlockSequenceStart,
    BlockMappingStart,
    BlockEnd,
    FlowSequenceStart,
    FlowSequenceEnd,
    FlowMappingStart,
    FlowMappingEnd,
    BlockEntry,
    FlowEntry,
    Key,
    Value,
    Alias(String),
    Anchor(String),
    Tag { handle: String, suffix: String },
    Scalar { text: String, plain: bool },
}

/// A token and its position.
#[derive(Clone, Debug)]
pub(super) struct Located {
    pub(super) token: Token,
    pub(super) start: Mark,
    pub(super) end: Mark,
}

/// A position at which a key may have begun.
#[derive(Clone, Copy, Debug, Default)]
struct SimpleKey {
    possible: bool,
    /// Whether only a key can be here.
    required: bool,
    token_number: usize,
    mark: Mark,
}

/// The scanner.
pub(super) struct Scanner<'a> {
    pub(super) source: Source<'a>,
    tokens: VecDeque<Located>,
    /// How many tokens have left the queue.
    taken: usize,
    /// Whether the first token of the queue is known to be the next one.
    ready: bool,
    indent: isize,
    indents: Vec<isize>,
    simple_key_allowed: bool,
    /// The possible key of each flow level.
    simple_keys: Vec<SimpleKey>,
    /// Maps the number of a token to the level whose key would begin with it.
    key_levels: HashMap<usize, usize>,
}

type Scanned<T> = Result<T, ParseError>;

impl<'a> Scanner<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Scanner {
            source: Source::new(bytes),
            tokens: VecDeque::new(),
            taken: 0,
            ready: false,
            indent: -1,
            indents: Vec::new(),
            simple_key_allowed: true,
            simple_keys: vec![SimpleKey::default()],
            key_levels: HashMap::new(),
        }
    }

    /// The next token, without taking it. After the end of the stream it is the end again.
    pub(super) fn peek(&mut self) -> Scanned<&Located> {
        while !self.ready {
            if self.needs_more()? {
                self.fetch()?;
            } else {
                self.ready = true;
            }
        }
        let source = &self.source;
        self.tokens.front().ok_or_else(|| source.error("unknown problem parsing YAML content"))
    }

    /// Takes the next token.
    pub(super) fn next(&mut self) -> Scanned<Located> {
        self.peek()?;
        let end = Located { token: Token::StreamEnd, start: self.source.mark, end: self.source.mark };
        self.taken = self.taken.saturating_add(1);
        self.ready = false;
        Ok(self.tokens.pop_front().unwrap_or(end))
    }

    /// Whether the first token of the queue may still turn out to begin a key.
    fn needs_more(&mut self) -> Scanned<bool> {
        if self.tokens.is_empty() {
            return Ok(true);
        }
        match self.key_levels.get(&self.taken) {
            Some(&level) => self.key_is_valid(level),
            None => Ok(false),
        }
    }

    fn flow_level(&self) -> usize {
        self.simple_keys.len().saturating_sub(1)
    }

    fn in_flow(&self) -> bool {
        self.flow_level() > 0
    }

    fn push(&mut self, token: Token, start: Mark) {
        self.tokens.push_back(Located { token, start, end: self.source.mark });
    }

    /// Reads one token and the tokens that its indentation implies.
    fn fetch(&mut self) -> Scanned<()> {
        self.skip_to_token()?;
        self.unroll_indent(self.source.mark.column as isize);
        self.source.check()?;
        let at_line_start = self.source.mark.column == 0;
        let Some(c) = self.source.peek() else { return self.fetch_stream_end() };
        if at_line_start && c == '%' {
            return self.fetch_directive();
        }
        if self.source.at_document_indicator() {
            let token = if c == '-' { Token::DocumentStart } else { Token::DocumentEnd };
            return self.fetch_document_indicator(token);
        }
        let before_blank = self.source.second_is_blank_or_end();
        match c {
            '[' => self.fetch_flow_start(Token::FlowSequenceStart),
            '{' => self.fetch_flow_start(Token::FlowMappingStart),
            ']' => self.fetch_flow_end(Token::FlowSequenceEnd),
            '}' => self.fetch_flow_end(Token::FlowMappingEnd),
            ',' => self.fetch_indicator(Token::FlowEntry, true),
            '-' if before_blank => self.fetch_block_entry(),
            '?' if self.in_flow() || before_blank => self.fetch_key(),
            ':' if self.in_flow() || before_blank => self.fetch_value(),
            '*' | '&' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_anchor(c == '*')
            }
            '!' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_tag()
            }
            '|' | '>' if !self.in_flow() => {
                self.remove_simple_key()?;
                self.simple_key_allowed = true;
                self.scan_block_scalar(c == '|')
            }
            '\'' | '"' => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_quoted(c == '\'')
            }
            '\t' | '#' | '|' | '>' | '%' | '@' | '`' => {
                Err(self.source.error("found character that cannot start any token"))
            }
            _ => {
                self.save_simple_key()?;
                self.simple_key_allowed = false;
                self.scan_plain()
            }
        }
    }

    /// Passes over blanks, comments and line ends. Tabs count as blanks only where no key may begin.
    fn skip_to_token(&mut self) -> Scanned<()> {
        loop {
            if self.source.mark.column == 0 && self.source.peek() == Some('\u{feff}') {
                self.source.skip();
            }
            let tabs = self.in_flow() || !self.simple_key_allowed;
            self.source.skip_while(|c| c == ' ' || (tabs && c == '\t'));
            if self.source.peek() == Some('#') {
                self.source.skip_blanks_and_comment();
            }
            self.source.check()?;
            if self.source.take_line().is_none() {
                return Ok(());
            }
            if !self.in_flow() {
                self.simple_key_allowed = true;
            }
        }
    }

    /// Whether the possible key of this level can still become one.
    fn key_is_valid(&mut self, level: usize) -> Scanned<bool> {
        let mark = self.source.mark;
        let Some(key) = self.simple_keys.get_mut(level).filter(|key| key.possible) else { return Ok(false) };
        if key.mark.line == mark.line && key.mark.index.saturating_add(SIMPLE_KEY_CHARS_MAX) >= mark.index {
            return Ok(true);
        }
        if key.required {
            return Err(self.source.error("could not find expected ':'"));
        }
        key.possible = false;
        Ok(false)
    }

    /// Remembers that a key may begin here.
    fn save_simple_key(&mut self) -> Scanned<()> {
        if !self.simple_key_allowed {
            return Ok(());
        }
        self.remove_simple_key()?;
        let mark = self.source.mark;
        let required = !self.in_flow() && self.indent == mark.column as isize;
        let token_number = self.taken.saturating_add(self.tokens.len());
        let level = self.flow_level();
        if let Some(key) = self.simple_keys.last_mut() {
            *key = SimpleKey { possible: true, required, token_number, mark };
            self.key_levels.insert(token_number, level);
        }
        Ok(())
    }

    /// Discards the possible key of this level.
    fn remove_simple_key(&mut self) -> Scanned<()> {
        if let Some(key) = self.simple_keys.last_mut().filter(|key| key.possible) {
            if key.required {
                return Err(self.source.error("could not find expected ':'"));
            }
            key.possible = false;
            self.key_levels.remove(&key.token_number);
        }
        Ok(())
    }

    /// Opens a block collection if this column is deeper than the current one. Its token is inserted before
    /// `token_number`, or at the end of the queue.
    fn roll_indent(
        &mut self,
        column: usize,
        token_number: Option<usize>,
        token: Token,
        mark: Mark,
    ) -> Scanned<()> {
        let column = column as isize;
        if self.in_flow() || self.indent >= column {
            return Ok(());
        }
        if self.indents.len() >= DEPTH_MAX {
            return Err(self.source.error(&format!("exceeded max depth of {DEPTH_MAX}")));
        }
        self.indents.push(self.indent);
        self.indent = column;
        let located = Located { token, start: mark, end: mark };
        match token_number {
            Some(number) => self.insert(number, located),
            None => self.tokens.push_back(located),
        }
        Ok(())
    }

    fn insert(&mut self, token_number: usize, located: Located) {
        let at = token_number.saturating_sub(self.taken).min(self.tokens.len());
        self.tokens.insert(at, located);
    }

    /// Closes the block collections that are deeper than this column.
    fn unroll_indent(&mut self, column: isize) {
        while !self.in_flow() && self.indent > column {
            self.push(Token::BlockEnd, self.source.mark);
            self.indent = self.indents.pop().unwrap_or(-1);
        }
    }

    fn fetch_stream_end(&mut self) -> Scanned<()> {
        if self.source.mark.column != 0 {
            self.source.mark.column = 0;
            self.source.mark.line = self.source.mark.line.saturating_add(1);
        }
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.push(Token::StreamEnd, self.source.mark);
        Ok(())
    }

    fn fetch_directive(&mut self) -> Scanned<()> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        self.scan_directive()
    }

    fn fetch_document_indicator(&mut self, token: Token) -> Scanned<()> {
        self.unroll_indent(-1);
        self.remove_simple_key()?;
        self.simple_key_allowed = false;
        let start = self.source.mark;
        (0..3).for_each(|_| self.source.skip());
        self.push(token, start);
        Ok(())
    }

    fn fetch_flow_start(&mut self, token: Token) -> Scanned<()> {
        self.save_simple_key()?;
        if self.flow_level() >= DEPTH_MAX {
            return Err(self.source.error(&format!("exceeded max depth of {DEPTH_MAX}")));
        }
        self.simple_keys.push(SimpleKey::default());
        self.simple_key_allowed = true;
        self.push_one(token);
        Ok(())
    }

    fn fetch_flow_end(&mut self, token: Token) -> Scanned<()> {
        self.remove_simple_key()?;
        if self.in_flow() {
            self.simple_keys.pop();
        }
        self.simple_key_allowed = false;
        self.push_one(token);
        Ok(())
    }

    /// Reads an indicator before which no key can have begun.
    fn fetch_indicator(&mut self, token: Token, simple_key_allowed: bool) -> Scanned<()> {
        self.remove_simple_key()?;
        self.simple_key_allowed = simple_key_allowed;
        self.push_one(token);
        Ok(())
    }

    /// Takes one character as a token.
    fn push_one(&mut self, token: Token) {
        let start = self.source.mark;
        self.source.skip();
        self.push(token, start);
    }

    fn fetch_block_entry(&mut self) -> Scanned<()> {
        if !self.in_flow() {
            if !self.simple_key_allowed {
                return Err(self.source.error("block sequence entries are not allowed in this context"));
            }
            let mark = self.source.mark;
            self.roll_indent(mark.column, None, Token::BlockSequenceStart, mark)?;
        }
        self.fetch_indicator(Token::BlockEntry, true)
    }

    fn fetch_key(&mut self) -> Scanned<()> {
        if !self.in_flow() {
            if !self.simple_key_allowed {
                return Err(self.source.error("mapping keys are not allowed in this context"));
            }
            let mark = self.source.mark;
            self.roll_indent(mark.column, None, Token::BlockMappingStart, mark)?;
        }
        self.fetch_indicator(Token::Key, !self.in_flow())
    }

    fn fetch_value(&mut self) -> Scanned<()> {
        let level = self.flow_level();
        if self.key_is_valid(level)? {
            let key = self.simple_keys.last().copied().unwrap_or_default();
            self.insert(key.token_number, Located { token: Token::Key, start: key.mark, end: key.mark });
            self.roll_indent(key.mark.column, Some(key.token_number), Token::BlockMappingStart, key.mark)?;
            if let Some(key) = self.simple_keys.last_mut() {
                key.possible = false;
            }
            self.key_levels.remove(&key.token_number);
            self.simple_key_allowed = false;
        } else {
            if !self.in_flow() {
                if !self.simple_key_allowed {
                    return Err(self.source.error("mapping values are not allowed in this context"));
                }
                let mark = self.source.mark;
                self.roll_indent(mark.column, None, Token::BlockMappingStart, mark)?;
            }
            self.simple_key_allowed = !self.in_flow();
        }
        self.push_one(Token::Value);
        Ok(())
    }
}
