//! From libyaml's events to nodes, with the error texts of go-yaml.

use super::{DEPTH_MAX, ParseError, failure};
use libyaml_safer::{Error, ErrorKind, Event, EventData, Parser};
use std::collections::HashMap;
use std::io::BufReader;

/// go-yaml decodes its input in blocks of this size, so that bad bytes beyond a syntax error go unnoticed.
const READ_BLOCK_BYTES: usize = 512;

/// How much may be read: the sum of the depths of all nodes. About a second's work.
const WORK_MAX: usize = 300_000_000;

/// One node of a document; children are positions in [`Document::nodes`].
pub(super) struct Node {
    /// Counted from 1.
    pub(super) line: u64,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Scalar(Scalar),
    Sequence(Vec<usize>),
    /// Keys and values by turns.
    Mapping(Vec<usize>),
    Alias {
        name: String,
        target: usize,
    },
}

pub(super) struct Scalar {
    pub(super) tag: Option<String>,
    pub(super) text: String,
    /// Whether the text decides the type: it is plain, or tagged `!`.
    pub(super) implicit: bool,
}

/// A composed document.
pub(super) struct Document {
    pub(super) nodes: Vec<Node>,
    pub(super) root: usize,
}

/// Reads the first document; `None` if the input has none.
pub(super) fn compose(bytes: &[u8]) -> Result<Option<Document>, ParseError> {
    let mut parser = Parser::new();
    parser.set_input(BufReader::with_capacity(READ_BLOCK_BYTES, bytes));
    let mut composer = Composer { nodes: Vec::new(), anchors: HashMap::new(), open: Vec::new(), root: None };
    let mut in_document = false;
    let mut work = 0;
    loop {
        let event = parser.parse().map_err(|error| describe(&error, bytes))?;
        match event.data {
            EventData::StreamStart { .. } => {}
            EventData::StreamEnd => return Ok(None),
            EventData::DocumentStart { .. } => in_document = true,
            EventData::DocumentEnd { .. } => {
                let nodes = composer.nodes;
                return Ok(composer.root.map(|root| Document { nodes, root }));
            }
            _ if in_document => {
                // libyaml looks at every open collection for each token it reads.
                work += composer.open.len();
                if work > WORK_MAX {
                    return Err(failure("document is nested too deeply for its size"));
                }
                composer.take(event)?;
            }
            _ => return Err(failure("unknown problem parsing YAML content")),
        }
    }
}

struct Composer {
    nodes: Vec<Node>,
    anchors: HashMap<String, usize>,
    /// The collections that are not closed yet.
    open: Vec<usize>,
    root: Option<usize>,
}

impl Composer {
    fn take(&mut self, event: Event) -> Result<(), ParseError> {
        let line = event.start_mark.line + 1;
        match event.data {
            EventData::Scalar { anchor, tag, value, plain_implicit, .. } => {
                let scalar = Scalar { tag, text: value, implicit: plain_implicit };
                self.add(line, anchor, Kind::Scalar(scalar));
            }
            EventData::SequenceStart { anchor, .. } => self.open(line, anchor, Kind::Sequence(Vec::new()))?,
            EventData::MappingStart { anchor, .. } => self.open(line, anchor, Kind::Mapping(Vec::new()))?,
            EventData::SequenceEnd | EventData::MappingEnd => {
                self.open.pop();
            }
            EventData::Alias { anchor: name } => {
                let Some(&target) = self.anchors.get(&name) else {
                    return Err(failure(format!("unknown anchor '{name}' referenced")));
                };
                self.add(line, None, Kind::Alias { name, target });
            }
            _ => return Err(failure("unknown problem parsing YAML content")),
        }
        Ok(())
    }

    /// Adds a node to the innermost open collection.
    fn add(&mut self, line: u64, anchor: Option<String>, kind: Kind) -> usize {
        let position = self.nodes.len();
        self.nodes.push(Node { line, kind });
        if let Some(name) = anchor {
            self.anchors.insert(name, position);
        }
        match self.open.last().and_then(|&parent| self.nodes.get_mut(parent)) {
            Some(Node { kind: Kind::Sequence(children) | Kind::Mapping(children), .. }) => {
                children.push(position)
            }
            _ => self.root = Some(position),
        }
        position
    }

    fn open(&mut self, line: u64, anchor: Option<String>, kind: Kind) -> Result<(), ParseError> {
        if self.open.len() >= DEPTH_MAX {
            // go-yaml leaves the first line out.
            let place = if line == 1 { String::new() } else { format!("line {line}: ") };
            return Err(failure(format!("{place}exceeded max depth of {DEPTH_MAX}")));
        }
        let position = self.add(line, anchor, kind);
        self.open.push(position);
        Ok(())
    }
}

/// The text go-yaml gives this error. Its line numbers are what they are: counted from 1 if the scanner
/// complains, from 0 if the parser does, and left out where they would be 0.
fn describe(error: &Error, bytes: &[u8]) -> ParseError {
    let problem = match error.kind() {
        ErrorKind::Io => "incomplete UTF-8 octet sequence",
        ErrorKind::Reader if error.problem() == "invalid UTF-8" => utf8_problem(bytes),
        _ => error.problem(),
    };
    let problem_line = error.problem_mark().map_or(0, |mark| mark.line);
    let line = if problem_line == 0 {
        error.context_mark().map_or(0, |mark| mark.line)
    } else if error.kind() == ErrorKind::Scanner {
        problem_line + 1
    } else {
        problem_line
    };
    let offset = error.problem_mark().map_or(0, |mark| usize::try_from(mark.index).unwrap_or(usize::MAX));
    let place = if line == 0 { String::new() } else { format!("line {line}: ") };
    ParseError::new(format!("yaml: {place}{problem}"), offset)
}

/// What is wrong with the first bytes that are not UTF-8.
fn utf8_problem(bytes: &[u8]) -> &'static str {
    let Err(error) = std::str::from_utf8(bytes) else { return "invalid Unicode character" };
    let wrong = bytes.get(error.valid_up_to()..).unwrap_or_default();
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
