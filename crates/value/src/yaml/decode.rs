//! From nodes to values: expands aliases and merge keys, applies tags, detects repeated keys.

use super::compose::{Document, Kind, Node, Scalar as ScalarNode};
use super::convert::{Key, Tree};
use super::scalar::{self, Scalar};
use super::{ParseError, failure, too_deep};
use crate::base64;
use std::collections::{HashMap, HashSet};

/// The limit of the bytes of all alias expansions of a document, as JSON. go-yaml counts only nodes, so a megabyte with
/// many aliases of one long text could become gigabytes.
const ALIAS_BYTES_MAX: usize = 8 << 20;

/// Returns the value of the document and the errors of strict decoding.
pub(super) fn decode(document: &Document, depth_max: usize) -> Result<(Tree, Vec<String>), ParseError> {
    let mut decoder = Decoder {
        document,
        depth_max,
        expanding: HashSet::new(),
        repeated: Vec::new(),
        steps: 0,
        alias_steps: 0,
        alias_bytes: 0,
    };
    let tree = decoder.decode_node(document.root, 0)?;
    Ok((tree, decoder.repeated))
}

struct Decoder<'a> {
    document: &'a Document,
    depth_max: usize,
    /// The alias nodes that are being expanded.
    expanding: HashSet<usize>,
    repeated: Vec<String>,
    steps: u32,
    alias_steps: u32,
    /// The bytes copied for aliases.
    alias_bytes: usize,
}

/// The members of a map that is being read.
#[derive(Default)]
struct Members {
    entries: Vec<(Key, Tree)>,
    positions: HashMap<Key, usize>,
}

impl Decoder<'_> {
    fn decode_node(&mut self, position: usize, depth: usize) -> Result<Tree, ParseError> {
        self.count_step(depth)?;
        let Some(node) = self.document.nodes.get(position) else { return Ok(Tree::Null) };
        match &node.kind {
            Kind::Scalar(scalar) => {
                self.charge_alias_bytes(scalar.text.len())?;
                decode_scalar(scalar)
            }
            Kind::Alias { name, target } => {
                self.enter_alias(position, name)?;
                let tree = self.decode_node(*target, depth.saturating_add(1))?;
                self.expanding.remove(&position);
                Ok(tree)
            }
            Kind::Sequence(children) => {
                let items: Result<_, _> =
                    children.iter().map(|&child| self.decode_node(child, depth.saturating_add(1))).collect();
                Ok(Tree::Sequence(items?))
            }
            Kind::Mapping(children) => {
                let mut members = Members::default();
                self.decode_mapping(children, &mut members, depth)?;
                Ok(Tree::Mapping(members.entries))
            }
        }
    }

    fn decode_mapping(
        &mut self,
        children: &[usize],
        members: &mut Members,
        depth: usize,
    ) -> Result<(), ParseError> {
        for pair in children.as_chunks::<2>().0 {
            let [key_at, value_at] = *pair;
            if self.is_merge_key(key_at) {
                self.merge(value_at, members, depth.saturating_add(1))?;
                continue;
            }
            let key = match self.decode_node(key_at, depth.saturating_add(1))?.into_key() {
                Ok(key) => key,
                Err(tree) => return Err(failure(format!("invalid map key: {}", tree.go_syntax()))),
            };
            let value = self.decode_node(value_at, depth.saturating_add(1))?;
            self.set(members, key, value, value_at);
        }
        Ok(())
    }

    fn set(&mut self, members: &mut Members, key: Key, value: Tree, value_at: usize) {
        match members.positions.get(&key) {
            Some(&position) => {
                let line = self.document.nodes.get(value_at).map_or(0, |node| node.line);
                self.repeated.push(format!("line {line}: key {} already set in map", key.go_syntax()));
                if let Some(entry) = members.entries.get_mut(position) {
                    entry.1 = value;
                }
            }
            None => {
                members.positions.insert(key.clone(), members.entries.len());
                members.entries.push((key, value));
            }
        }
    }

    /// Adds the members of the value of a `<<` key. Earlier maps of a list take precedence over later ones.
    fn merge(&mut self, position: usize, members: &mut Members, depth: usize) -> Result<(), ParseError> {
        let document = self.document;
        match document.nodes.get(position) {
            Some(Node { kind: Kind::Sequence(children), .. }) => {
                children.iter().rev().try_for_each(|&child| self.merge_map(child, members, depth))
            }
            _ => self.merge_map(position, members, depth),
        }
    }

    fn merge_map(&mut self, position: usize, members: &mut Members, depth: usize) -> Result<(), ParseError> {
        self.count_step(depth)?;
        let document = self.document;
        match document.nodes.get(position).map(|node| &node.kind) {
            Some(Kind::Mapping(children)) => self.decode_mapping(children, members, depth),
            Some(Kind::Alias { name, target }) => {
                let Some(Node { kind: Kind::Mapping(children), .. }) = document.nodes.get(*target) else {
                    return Err(not_a_map());
                };
                self.enter_alias(position, name)?;
                self.count_step(depth)?;
                self.decode_mapping(children, members, depth.saturating_add(1))?;
                self.expanding.remove(&position);
                Ok(())
            }
            _ => Err(not_a_map()),
        }
    }

    fn is_merge_key(&self, position: usize) -> bool {
        match self.document.nodes.get(position).map(|node| &node.kind) {
            Some(Kind::Scalar(scalar)) => {
                scalar.text == "<<"
                    && (scalar.implicit || scalar.tag.as_deref() == Some("tag:yaml.org,2002:merge"))
            }
            _ => false,
        }
    }

    fn enter_alias(&mut self, position: usize, name: &str) -> Result<(), ParseError> {
        if !self.expanding.insert(position) {
            return Err(failure(format!("anchor '{name}' value contains itself")));
        }
        Ok(())
    }

    /// Charges the text of a scalar, with its quotes and comma, if it is copied for an alias.
    fn charge_alias_bytes(&mut self, text_bytes: usize) -> Result<(), ParseError> {
        if self.expanding.is_empty() {
            return Ok(());
        }
        self.alias_bytes = self.alias_bytes.saturating_add(text_bytes.saturating_add(3));
        if self.alias_bytes > ALIAS_BYTES_MAX {
            return Err(excessive_aliasing());
        }
        Ok(())
    }

    /// Counts one decoded node. Returns an error if too many nodes come from aliases, or at too great a depth.
    fn count_step(&mut self, depth: usize) -> Result<(), ParseError> {
        self.steps = self.steps.saturating_add(1);
        self.alias_steps = self.alias_steps.saturating_add(u32::from(!self.expanding.is_empty()));
        let share = f64::from(self.alias_steps) / f64::from(self.steps);
        if self.alias_steps > 100 && self.steps > 1000 && share > alias_share_max(self.steps) {
            return Err(excessive_aliasing());
        }
        // A scalar is one level below its collection.
        if depth > self.depth_max {
            return Err(too_deep(self.depth_max));
        }
        Ok(())
    }
}

/// The share of decoded nodes that may come from aliases: nearly all in small documents, a tenth in huge ones, so that
/// there are never more than about 400,000.
fn alias_share_max(steps: u32) -> f64 {
    const LOW: u32 = 400_000;
    const HIGH: u32 = 4_000_000;
    match steps {
        ..=LOW => 0.99,
        HIGH.. => 0.10,
        _ => 0.99 - 0.89 * f64::from(steps.saturating_sub(LOW)) / f64::from(HIGH - LOW),
    }
}

fn excessive_aliasing() -> ParseError {
    failure("document contains excessive aliasing")
}

fn not_a_map() -> ParseError {
    failure("map merge requires map or sequence of maps as the value")
}

fn decode_scalar(node: &ScalarNode) -> Result<Tree, ParseError> {
    let text = || Tree::Text(node.text.as_str().into());
    let Some(tag) = node.tag.as_deref() else {
        return Ok(if node.implicit { of_scalar(scalar::resolve(&node.text), node) } else { text() });
    };
    match tag.strip_prefix("tag:yaml.org,2002:") {
        Some("str") => Ok(text()),
        Some("binary") => decode_binary(&node.text),
        Some(wanted @ ("bool" | "int" | "float" | "null" | "timestamp")) => typed_scalar(wanted, node),
        _ => Ok(text()),
    }
}

fn of_scalar(scalar: Scalar, node: &ScalarNode) -> Tree {
    match scalar {
        Scalar::Null => Tree::Null,
        Scalar::Bool(bool) => Tree::Bool(bool),
        Scalar::Int(int) => Tree::Int(int),
        Scalar::Uint(uint) => Tree::Uint(uint),
        Scalar::Float(float) => Tree::Float(float),
        Scalar::Timestamp | Scalar::Text => Tree::Text(node.text.as_str().into()),
    }
}

/// Converts a scalar with an explicit tag.
fn typed_scalar(wanted: &str, node: &ScalarNode) -> Result<Tree, ParseError> {
    let resolved = scalar::resolve(&node.text);
    let found = match &resolved {
        Scalar::Null => "null",
        Scalar::Bool(_) => "bool",
        Scalar::Int(_) | Scalar::Uint(_) => "int",
        Scalar::Float(_) => "float",
        Scalar::Timestamp if wanted == "timestamp" => "timestamp",
        Scalar::Timestamp | Scalar::Text => "str",
    };
    match resolved {
        Scalar::Int(int) if wanted == "float" => Ok(Tree::Float(int as f64)),
        resolved if found == wanted => Ok(of_scalar(resolved, node)),
        _ => Err(failure(format!("cannot decode !!{found} `{}` as a !!{wanted}", node.text))),
    }
}

fn decode_binary(text: &str) -> Result<Tree, ParseError> {
    let Ok(bytes) = base64::decode(text) else {
        return Err(failure("!!binary value contains invalid base64 data"));
    };
    // kube-apiserver converts the text to JSON, where every byte that is not UTF-8 becomes a replacement character.
    let mut out = String::new();
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        out.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
    }
    Ok(Tree::Text(out.into()))
}
