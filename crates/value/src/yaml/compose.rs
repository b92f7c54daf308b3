//! From events to nodes; aliases are resolved to their anchors.

use super::parse::{Event, Parser};
use super::source::Mark;
use super::{DEPTH_MAX, ParseError, failure};
use std::collections::HashMap;

/// One node of a document; children are positions in [`Document::nodes`].
pub(super) struct Node {
    /// Counted from 1.
    pub(super) line: usize,
    /// Counted from 1, in characters.
    pub(super) column: usize,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    Scalar(Scalar),
    Sequence(Vec<usize>),
    /// Keys and values alternate.
    Mapping(Vec<usize>),
    Alias {
        name: String,
        target: usize,
    },
}

pub(super) struct Scalar {
    pub(super) tag: Option<String>,
    pub(super) text: String,
    /// Whether the text determines the type: the scalar is plain, or tagged `!`.
    pub(super) implicit: bool,
}

/// A composed document.
pub(super) struct Document {
    pub(super) nodes: Vec<Node>,
    pub(super) root: usize,
}

/// Reads the first document; `None` if the input has none.
pub(super) fn compose(bytes: &[u8]) -> Result<Option<Document>, ParseError> {
    let mut parser = Parser::new(bytes);
    let mut composer = Composer { nodes: Vec::new(), anchors: HashMap::new(), open: Vec::new(), root: None };
    loop {
        let (event, mark) = parser.next()?;
        match event {
            Event::StreamEnd => return Ok(None),
            Event::DocumentEnd => {
                let nodes = composer.nodes;
                return Ok(composer.root.map(|root| Document { nodes, root }));
            }
            event => composer.take(event, Place::of(mark))?,
        }
    }
}

/// Line and column of a node, counted from 1.
#[derive(Clone, Copy)]
struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn of(mark: Mark) -> Place {
        Place { line: mark.line.saturating_add(1), column: mark.column.saturating_add(1) }
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
    fn take(&mut self, event: Event, place: Place) -> Result<(), ParseError> {
        match event {
            Event::StreamEnd | Event::DocumentStart | Event::DocumentEnd => {}
            Event::Scalar { properties, text, implicit } => {
                let scalar = Scalar { tag: properties.tag, text, implicit };
                self.add(place, properties.anchor, Kind::Scalar(scalar));
            }
            Event::SequenceStart(properties) => {
                self.open(place, properties.anchor, Kind::Sequence(Vec::new()))?
            }
            Event::MappingStart(properties) => {
                self.open(place, properties.anchor, Kind::Mapping(Vec::new()))?
            }
            Event::SequenceEnd | Event::MappingEnd => {
                self.open.pop();
            }
            Event::Alias(name) => {
                let Some(&target) = self.anchors.get(&name) else {
                    return Err(failure(format!("unknown anchor '{name}' referenced")));
                };
                self.add(place, None, Kind::Alias { name, target });
            }
        }
        Ok(())
    }

    /// Adds a node to the innermost open collection.
    fn add(&mut self, place: Place, anchor: Option<String>, kind: Kind) -> usize {
        let position = self.nodes.len();
        let Place { line, column } = place;
        self.nodes.push(Node { line, column, kind });
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

    fn open(&mut self, place: Place, anchor: Option<String>, kind: Kind) -> Result<(), ParseError> {
        if self.open.len() >= DEPTH_MAX {
            // go-yaml does not print line 1.
            let prefix = if place.line == 1 { String::new() } else { format!("line {}: ", place.line) };
            return Err(failure(format!("{prefix}exceeded max depth of {DEPTH_MAX}")));
        }
        let position = self.add(place, anchor, kind);
        self.open.push(position);
        Ok(())
    }
}
