//! From tokens to events: go-yaml's grammar, as a state machine with a stack.

use super::ParseError;
use super::scan::{Scanner, Token};
use super::source::Mark;

/// The events of the parser.
#[derive(Debug)]
pub(super) enum Event {
    /// The end of the stream where a document could have begun.
    StreamEnd,
    DocumentStart,
    DocumentEnd,
    Alias(String),
    Scalar {
        properties: Properties,
        text: String,
        implicit: bool,
    },
    SequenceStart(Properties),
    SequenceEnd,
    MappingStart(Properties),
    MappingEnd,
}

/// The properties before a node: anchor and tag.
#[derive(Debug, Default)]
pub(super) struct Properties {
    pub(super) anchor: Option<String>,
    pub(super) tag: Option<String>,
}

/// The state of the machine: what it expects next.
#[derive(Clone, Copy, Debug)]
enum State {
    DocumentStart,
    DocumentContent,
    DocumentEnd,
    BlockNode,
    BlockSequenceEntry,
    IndentlessSequenceEntry,
    BlockMappingKey,
    BlockMappingValue,
    FlowSequenceEntry { first: bool },
    FlowSequenceMappingKey,
    FlowSequenceMappingValue,
    FlowSequenceMappingEnd,
    FlowMappingKey { first: bool },
    FlowMappingValue,
    FlowMappingEmptyValue,
}

/// Reads the first document of a stream.
pub(super) struct Parser<'a> {
    scanner: Scanner<'a>,
    state: State,
    states: Vec<State>,
    /// Where the open collections began.
    marks: Vec<Mark>,
    tag_directives: Vec<(String, String)>,
}

type Parsed = Result<(Event, Mark), ParseError>;

impl<'a> Parser<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Parser {
            scanner: Scanner::new(bytes),
            state: State::DocumentStart,
            states: Vec::new(),
            marks: Vec::new(),
            tag_directives: Vec::new(),
        }
    }

    /// The next event and where it begins.
    pub(super) fn next(&mut self) -> Parsed {
        match self.state {
            State::DocumentStart => self.document_start(),
            State::DocumentContent => self.document_content(),
            State::DocumentEnd => self.document_end(),
            State::BlockNode => self.parse_node(true, false),
            State::BlockSequenceEntry => self.block_sequence_entry(),
            State::IndentlessSequenceEntry => self.indentless_sequence_entry(),
            State::BlockMappingKey => self.block_mapping_key(),
            State::BlockMappingValue => self.block_mapping_value(),
            State::FlowSequenceEntry { first } => self.flow_sequence_entry(first),
            State::FlowSequenceMappingKey => self.flow_sequence_mapping_key(),
            State::FlowSequenceMappingValue => self.flow_sequence_mapping_value(),
            State::FlowSequenceMappingEnd => {
                let mark = self.scanner.peek()?.start;
                self.state = State::FlowSequenceEntry { first: false };
                Ok((Event::MappingEnd, mark))
            }
            State::FlowMappingKey { first } => self.flow_mapping_key(first),
            State::FlowMappingValue => self.flow_mapping_value(),
            State::FlowMappingEmptyValue => {
                let mark = self.scanner.peek()?.start;
                self.empty(State::FlowMappingKey { first: false }, mark)
            }
        }
    }

    fn pop_state(&mut self) {
        self.state = self.states.pop().unwrap_or(State::DocumentEnd);
    }

    /// Returns an empty scalar and sets the next state.
    fn empty(&mut self, then: State, mark: Mark) -> Parsed {
        self.state = then;
        Ok((Event::Scalar { properties: Properties::default(), text: String::new(), implicit: true }, mark))
    }

    /// The error that `token` cannot follow in the innermost collection.
    fn unexpected(&mut self, problem: &str, mark: Mark) -> ParseError {
        let context = self.marks.pop();
        self.scanner.source.parser_error(problem, mark, context)
    }

    fn document_start(&mut self) -> Parsed {
        let located = self.scanner.peek()?;
        let mark = located.start;
        match located.token {
            Token::StreamEnd => return Ok((Event::StreamEnd, mark)),
            Token::Version { .. } | Token::TagDirective { .. } | Token::DocumentStart => {
                self.parse_directives()?;
                let located = self.scanner.peek()?;
                let at = located.start;
                if located.token != Token::DocumentStart {
                    let problem = "did not find expected <document start>";
                    return Err(self.scanner.source.parser_error(problem, at, None));
                }
                self.scanner.next()?;
                self.state = State::DocumentContent;
            }
            _ => {
                self.parse_directives()?;
                self.state = State::BlockNode;
            }
        }
        self.states.push(State::DocumentEnd);
        Ok((Event::DocumentStart, mark))
    }

    fn parse_directives(&mut self) -> Result<(), ParseError> {
        let mut versions = 0_usize;
        loop {
            let located = self.scanner.peek()?;
            let mark = located.start;
            let problem = match &located.token {
                Token::Version { .. } if versions > 0 => "found duplicate %YAML directive",
                Token::Version { major, minor } if (*major, *minor) != (1, 1) => {
                    "found incompatible YAML document"
                }
                Token::TagDirective { handle, .. }
                    if self.tag_directives.iter().any(|(known, _)| known == handle) =>
                {
                    "found duplicate %TAG directive"
                }
                Token::Version { .. } | Token::TagDirective { .. } => "",
                _ => break,
            };
            if !problem.is_empty() {
                return Err(self.scanner.source.parser_error(problem, mark, None));
            }
            match self.scanner.next()?.token {
                Token::TagDirective { handle, prefix } => self.tag_directives.push((handle, prefix)),
                _ => versions = versions.saturating_add(1),
            }
        }
        for (handle, prefix) in [("!", "!"), ("!!", "tag:yaml.org,2002:")] {
            if !self.tag_directives.iter().any(|(known, _)| known == handle) {
                self.tag_directives.push((handle.to_owned(), prefix.to_owned()));
            }
        }
        Ok(())
    }

    fn document_content(&mut self) -> Parsed {
        let located = self.scanner.peek()?;
        let mark = located.start;
        match located.token {
            Token::Version { .. }
            | Token::TagDirective { .. }
            | Token::DocumentStart
            | Token::DocumentEnd
            | Token::StreamEnd => self.empty(State::DocumentEnd, mark),
            _ => self.parse_node(true, false),
        }
    }

    fn document_end(&mut self) -> Parsed {
        Ok((Event::DocumentEnd, self.scanner.peek()?.start))
    }

    /// Parses an anchor and a tag, in any order. Also returns where they begin, and whether there is one.
    fn parse_properties(&mut self) -> Result<(Properties, Mark, bool), ParseError> {
        let start = self.scanner.peek()?.start;
        let mut properties = Properties::default();
        let mut tag_parts = None;
        for _ in 0..2 {
            let located = self.scanner.peek()?;
            match &located.token {
                Token::Anchor(_) if properties.anchor.is_none() => {
                    if let Token::Anchor(name) = self.scanner.next()?.token {
                        properties.anchor = Some(name);
                    }
                }
                Token::Tag { .. } if tag_parts.is_none() => {
                    let located = self.scanner.next()?;
                    if let Token::Tag { handle, suffix } = located.token {
                        tag_parts = Some((handle, suffix, located.start));
                    }
                }
                _ => break,
            }
        }
        if let Some((handle, suffix, mark)) = tag_parts {
            properties.tag = Some(self.full_tag(&handle, suffix, mark, start)?).filter(|tag| !tag.is_empty());
        }
        let has_properties = properties.anchor.is_some() || properties.tag.is_some();
        Ok((properties, start, has_properties))
    }

    fn full_tag(&self, handle: &str, suffix: String, mark: Mark, start: Mark) -> Result<String, ParseError> {
        if handle.is_empty() {
            return Ok(suffix);
        }
        match self.tag_directives.iter().find(|(known, _)| known == handle) {
            Some((_, prefix)) => Ok(format!("{prefix}{suffix}")),
            None => Err(self.scanner.source.parser_error("found undefined tag handle", mark, Some(start))),
        }
    }

    fn parse_node(&mut self, block: bool, indentless: bool) -> Parsed {
        if let Token::Alias(_) = self.scanner.peek()?.token {
            let located = self.scanner.next()?;
            self.pop_state();
            let name = if let Token::Alias(name) = located.token { name } else { String::new() };
            return Ok((Event::Alias(name), located.start));
        }
        let (properties, start, has_properties) = self.parse_properties()?;
        let located = self.scanner.peek()?;
        let mark = located.start;
        let event = match &located.token {
            Token::BlockEntry if indentless => {
                self.state = State::IndentlessSequenceEntry;
                return Ok((Event::SequenceStart(properties), start));
            }
            Token::Scalar { .. } => {
                let token = self.scanner.next()?.token;
                self.pop_state();
                let Token::Scalar { text, plain } = token else { return self.empty(self.state, mark) };
                let implicit = properties.tag.as_deref().map_or(plain, |tag| tag == "!");
                return Ok((Event::Scalar { properties, text, implicit }, start));
            }
            Token::FlowSequenceStart => {
                self.state = State::FlowSequenceEntry { first: true };
                Event::SequenceStart(properties)
            }
            Token::FlowMappingStart => {
                self.state = State::FlowMappingKey { first: true };
                Event::MappingStart(properties)
            }
            Token::BlockSequenceStart if block => {
                self.state = State::BlockSequenceEntry;
                Event::SequenceStart(properties)
            }
            Token::BlockMappingStart if block => {
                self.state = State::BlockMappingKey;
                Event::MappingStart(properties)
            }
            _ if has_properties => {
                self.pop_state();
                let implicit = properties.tag.is_none();
                return Ok((Event::Scalar { properties, text: String::new(), implicit }, start));
            }
            _ => {
                let problem = "did not find expected node content";
                return Err(self.scanner.source.parser_error(problem, mark, Some(start)));
            }
        };
        self.marks.push(mark);
        self.scanner.next()?;
        Ok((event, start))
    }

    /// Takes the token that closes a collection.
    fn close(&mut self, event: Event) -> Parsed {
        let mark = self.scanner.next()?.start;
        self.pop_state();
        self.marks.pop();
        Ok((event, mark))
    }

    fn block_sequence_entry(&mut self) -> Parsed {
        let located = self.scanner.peek()?;
        let mark = located.start;
        match located.token {
            Token::BlockEntry => {
                let end = self.scanner.next()?.end;
                match self.scanner.peek()?.token {
                    Token::BlockEntry | Token::BlockEnd => self.empty(State::BlockSequenceEntry, end),
                    _ => {
                        self.states.push(State::BlockSequenceEntry);
                        self.parse_node(true, false)
                    }
                }
            }
            Token::BlockEnd => self.close(Event::SequenceEnd),
            _ => Err(self.unexpected("did not find expected '-' indicator", mark)),
        }
    }

    fn indentless_sequence_entry(&mut self) -> Parsed {
        let located = self.scanner.peek()?;
        let mark = located.start;
        if located.token != Token::BlockEntry {
            self.pop_state();
            return Ok((Event::SequenceEnd, mark));
        }
        let end = self.scanner.next()?.end;
        match self.scanner.peek()?.token {
            Token::BlockEntry | Token::Key | Token::Value | Token::BlockEnd => {
                self.empty(State::IndentlessSequenceEntry, end)
            }
            _ => {
                self.states.push(State::IndentlessSequenceEntry);
                self.parse_node(true, false)
            }
        }
    }

    fn block_mapping_key(&mut self) -> Parsed {
        let located = self.scanner.peek()?;
        let mark = located.start;
        match located.token {
            Token::Key => {
                let end = self.scanner.next()?.end;
                self.block_mapping_node(State::BlockMappingValue, end)
            }
            Token::BlockEnd => self.close(Event::MappingEnd),
            _ => Err(self.unexpected("did not find expected key", mark)),
        }
    }

    fn block_mapping_value(&mut self) -> Parsed {
        let located = self.scanner.peek()?;
        if located.token != Token::Value {
            let mark = located.start;
            return self.empty(State::BlockMappingKey, mark);
        }
        let end = self.scanner.next()?.end;
        self.block_mapping_node(State::BlockMappingKey, end)
    }

    fn block_mapping_node(&mut self, then: State, end: Mark) -> Parsed {
        match self.scanner.peek()?.token {
            Token::Key | Token::Value | Token::BlockEnd => self.empty(then, end),
            _ => {
                self.states.push(then);
                self.parse_node(true, true)
            }
        }
    }

    fn flow_sequence_entry(&mut self, first: bool) -> Parsed {
        if self.scanner.peek()?.token != Token::FlowSequenceEnd {
            self.flow_separator(first, "did not find expected ',' or ']'")?;
            match self.scanner.peek()?.token {
                Token::Key => {
                    let mark = self.scanner.next()?.start;
                    self.state = State::FlowSequenceMappingKey;
                    return Ok((Event::MappingStart(Properties::default()), mark));
                }
                Token::FlowSequenceEnd => {}
                _ => {
                    self.states.push(State::FlowSequenceEntry { first: false });
                    return self.parse_node(false, false);
                }
            }
        }
        self.close(Event::SequenceEnd)
    }

    /// Takes the comma that is required before every entry but the first.
    fn flow_separator(&mut self, first: bool, problem: &str) -> Result<(), ParseError> {
        if first {
            return Ok(());
        }
        let located = self.scanner.peek()?;
        let mark = located.start;
        if located.token != Token::FlowEntry {
            return Err(self.unexpected(problem, mark));
        }
        self.scanner.next()?;
        Ok(())
    }

    fn flow_sequence_mapping_key(&mut self) -> Parsed {
        match self.scanner.peek()?.token {
            Token::Value | Token::FlowEntry | Token::FlowSequenceEnd => {
                let end = self.scanner.next()?.end;
                self.empty(State::FlowSequenceMappingValue, end)
            }
            _ => {
                self.states.push(State::FlowSequenceMappingValue);
                self.parse_node(false, false)
            }
        }
    }

    fn flow_sequence_mapping_value(&mut self) -> Parsed {
        let located = self.scanner.peek()?;
        let mark = located.start;
        if located.token == Token::Value {
            self.scanner.next()?;
            if !matches!(self.scanner.peek()?.token, Token::FlowEntry | Token::FlowSequenceEnd) {
                self.states.push(State::FlowSequenceMappingEnd);
                return self.parse_node(false, false);
            }
        }
        self.empty(State::FlowSequenceMappingEnd, mark)
    }

    fn flow_mapping_key(&mut self, first: bool) -> Parsed {
        if self.scanner.peek()?.token != Token::FlowMappingEnd {
            self.flow_separator(first, "did not find expected ',' or '}'")?;
            match self.scanner.peek()?.token {
                Token::Key => {
                    self.scanner.next()?;
                    let located = self.scanner.peek()?;
                    let mark = located.start;
                    if let Token::Value | Token::FlowEntry | Token::FlowMappingEnd = located.token {
                        return self.empty(State::FlowMappingValue, mark);
                    }
                    self.states.push(State::FlowMappingValue);
                    return self.parse_node(false, false);
                }
                Token::FlowMappingEnd => {}
                _ => {
                    self.states.push(State::FlowMappingEmptyValue);
                    return self.parse_node(false, false);
                }
            }
        }
        self.close(Event::MappingEnd)
    }

    fn flow_mapping_value(&mut self) -> Parsed {
        let then = State::FlowMappingKey { first: false };
        if self.scanner.peek()?.token == Token::Value {
            self.scanner.next()?;
            if !matches!(self.scanner.peek()?.token, Token::FlowEntry | Token::FlowMappingEnd) {
                self.states.push(then);
                return self.parse_node(false, false);
            }
        }
        let mark = self.scanner.peek()?.start;
        self.empty(then, mark)
    }
}
