//! Positions in a document: the line and column of a field, found by its path.

use super::ParseError;
use super::compose::{Document, Kind, Node, compose};

/// How many merge keys (`<<`) may lead to one field.
const MERGES_MAX: usize = 16;

/// A place in a text, counted from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The line.
    pub line: usize,
    /// The column.
    pub column: usize,
}

/// The positions of all values of one document.
pub struct Positions {
    document: Option<Document>,
}

impl Positions {
    /// Parses the first document of the input, which may be YAML or JSON.
    pub fn of(bytes: &[u8]) -> Result<Positions, ParseError> {
        Ok(Positions { document: compose(bytes)? })
    }

    /// The position of the value at `path`, in Kubernetes' notation (`spec.containers[0].image`,
    /// `metadata.labels[app.kubernetes.io/name]`). For a member it is the position of the key. For a missing value it is
    /// the position of its nearest ancestor.
    pub fn find(&self, path: &str) -> Position {
        let Some(document) = &self.document else { return Position { line: 1, column: 1 } };
        let mut rest = path.trim_start_matches('.');
        let mut at = document.root;
        let mut place = document.position_of(at);
        while !rest.is_empty() {
            let Some((key, value, left)) = document.step(at, rest, MERGES_MAX) else { break };
            (place, at, rest) = (document.position_of(key), value, left);
        }
        place
    }
}

impl Document {
    fn position_of(&self, at: usize) -> Position {
        self.nodes.get(at).map_or(Position { line: 1, column: 1 }, |node: &Node| Position {
            line: node.line,
            column: node.column,
        })
    }

    /// Descends one level: returns the node to report, the value, and the rest of the path.
    fn step<'p>(&self, at: usize, path: &'p str, merges: usize) -> Option<(usize, usize, &'p str)> {
        match &self.nodes.get(at)?.kind {
            Kind::Scalar(_) => None,
            Kind::Alias { target, .. } => self.step(*target, path, merges.checked_sub(1)?),
            Kind::Sequence(items) => {
                let (index, left) = path.strip_prefix('[')?.split_once(']')?;
                let item = *items.get(index.parse::<usize>().ok()?)?;
                Some((item, item, left.trim_start_matches('.')))
            }
            Kind::Mapping(members) => self.member(members, path, merges),
        }
    }

    /// Finds the member that the path begins with: the longest key that is a prefix; of equal keys the last, which is the
    /// effective one.
    fn member<'p>(&self, members: &[usize], path: &'p str, merges: usize) -> Option<(usize, usize, &'p str)> {
        let mut found: Option<(usize, (usize, usize, &'p str))> = None;
        let mut merged = None;
        for pair in members.chunks_exact(2) {
            let [key, value] = pair else { continue };
            let Some(Node { kind: Kind::Scalar(scalar), .. }) = self.nodes.get(*key) else { continue };
            if scalar.text == "<<" {
                merged = Some(*value);
            }
            let Some(left) = after_key(path, &scalar.text) else { continue };
            if found.is_none_or(|(length, _)| scalar.text.len() >= length) {
                found = Some((scalar.text.len(), (*key, *value, left)));
            }
        }
        match (found, merged) {
            (Some((_, found)), _) => Some(found),
            (None, Some(value)) => self.step(value, path, merges.checked_sub(1)?),
            (None, None) => None,
        }
    }
}

/// The rest of a path that begins with this key, as `key` or as `[key]`.
fn after_key<'p>(path: &'p str, key: &str) -> Option<&'p str> {
    if key.is_empty() {
        return None;
    }
    let in_brackets = path.strip_prefix('[').and_then(|path| path.strip_prefix(key)?.strip_prefix(']'));
    if let Some(left) = in_brackets {
        return Some(left.trim_start_matches('.'));
    }
    match path.strip_prefix(key)? {
        left if left.is_empty() || left.starts_with('[') => Some(left),
        left => left.strip_prefix('.'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_by_their_paths() {
        let text = "\
# a comment
kind: A
metadata:
  labels:
    app.kubernetes.io/name: x
    a: &anchor {b: 1}
spec:
  a.b: 1
  list:
  - name: one
    <<: *anchor
  - - 5
  again: 1
  again: 2
  flow: {deep: [1, {x: y}]}
";
        let positions = Positions::of(text.as_bytes()).unwrap();
        for (path, line, column) in [
            ("", 2, 1),
            ("kind", 2, 1),
            (".metadata.labels", 4, 3),
            ("metadata.labels[app.kubernetes.io/name]", 5, 5),
            ("metadata.labels.app.kubernetes.io/name", 5, 5),
            ("metadata.labels.a.b", 6, 17),
            ("spec.a.b", 8, 3),
            ("spec.list[0].name", 10, 5),
            ("spec.list[0].b", 6, 17),
            ("spec.list[1][0]", 12, 7),
            ("spec.again", 14, 3),
            ("spec.flow.deep[1].x", 15, 21),
            // A missing value has the position of its parent.
            ("spec.list[7].name", 9, 3),
            ("spec.nope.deeper", 7, 1),
            ("nope", 2, 1),
            ("spec.list[x", 9, 3),
        ] {
            assert_eq!(positions.find(path), Position { line, column }, "{path}");
        }
    }

    #[test]
    fn positions_in_empty_and_invalid_documents() {
        assert_eq!(Positions::of(b"").unwrap().find("a"), Position { line: 1, column: 1 });
        assert!(Positions::of(b"a: [").is_err());
        let looped = Positions::of(b"a: &x\n  <<: *x\n").unwrap();
        assert_eq!(looped.find("a.b").line, 1);
    }
}
