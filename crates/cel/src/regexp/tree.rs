//! The tree of a parsed expression, with the height and size for Go's limits.

use std::sync::Arc;

use super::class::Class;

/// One node. `height` and `size` are those of Go's tree and program.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) kind: Kind,
    pub(super) height: u32,
    pub(super) size: u64,
}

/// The text that a node matches.
#[derive(Debug)]
pub(super) enum Kind {
    /// The empty text.
    Empty,
    /// Code points one after another, in any case if `folded`.
    Literal { codes: Vec<u32>, folded: bool },
    /// One code point of a set.
    Class(Arc<Class>),
    /// A zero-width condition.
    Look(Look),
    /// A capture group.
    Capture { index: u32, sub: Box<Tree> },
    /// A repetition.
    Repeat { repetition: Repetition, sub: Box<Tree> },
    /// All, one after another.
    Concat(Vec<Tree>),
    /// Alternatives; the first that leads to a match is preferred.
    Alternate(Vec<Tree>),
}

/// Conditions that match no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Look {
    TextStart,
    TextEnd,
    LineStart,
    LineEnd,
    /// Between an ASCII word character and anything else.
    WordBoundary,
    NoWordBoundary,
}

/// The bounds of a repetition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Repetition {
    pub(super) min: u32,
    /// `None` is unbounded.
    pub(super) max: Option<u32>,
    pub(super) greedy: bool,
    /// Whether the repetition is written as `{2,3}`: only such counts are multiplied.
    pub(super) counted: bool,
}

impl Tree {
    /// A node without children.
    pub(super) fn leaf(kind: Kind) -> Self {
        let size = match &kind {
            Kind::Literal { codes, .. } => codes.len() as u64,
            _ => 1,
        };
        Tree { kind, height: 1, size: size.max(1) }
    }

    pub(super) fn capture(index: u32, sub: Tree) -> Self {
        let (height, size) = (sub.height.saturating_add(1), sub.size.saturating_add(2));
        Tree { kind: Kind::Capture { index, sub: Box::new(sub) }, height, size }
    }

    pub(super) fn repeat(repetition: Repetition, sub: Tree) -> Self {
        let Repetition { min, max, counted, .. } = repetition;
        let size = match (counted, min, max) {
            (false, 0, None) | (true, 0, None) => sub.size.saturating_add(2),
            (false, ..) => sub.size.saturating_add(1),
            (true, min, None) => sub.size.saturating_mul(u64::from(min)).saturating_add(1),
            (true, min, Some(max)) => {
                sub.size.saturating_mul(u64::from(max)).saturating_add(u64::from(max.saturating_sub(min)))
            }
        };
        let height = sub.height.saturating_add(1);
        Tree { kind: Kind::Repeat { repetition, sub: Box::new(sub) }, height, size: size.max(1) }
    }

    /// A concatenation. Adjacent texts are joined.
    pub(super) fn concat(parts: Vec<Tree>) -> Self {
        let mut joined: Vec<Tree> = Vec::with_capacity(parts.len());
        for part in parts {
            match part.kind {
                Kind::Concat(inner) => inner.into_iter().for_each(|part| push_joined(&mut joined, part)),
                _ => push_joined(&mut joined, part),
            }
        }
        many(joined, Kind::Concat, |_| 0)
    }

    /// An alternation. Adjacent single characters become one class.
    pub(super) fn alternate(parts: Vec<Tree>) -> Self {
        let mut merged: Vec<Tree> = Vec::with_capacity(parts.len());
        let mut classes: Vec<(u32, u32)> = Vec::new();
        for part in parts {
            match part.kind {
                Kind::Alternate(inner) => {
                    flush(&mut merged, &mut classes);
                    merged.extend(inner);
                }
                _ => match part.as_class() {
                    Some(class) => classes.extend(class.ranges()),
                    None => {
                        flush(&mut merged, &mut classes);
                        merged.push(part);
                    }
                },
            }
        }
        flush(&mut merged, &mut classes);
        many(merged, Kind::Alternate, |count| count.saturating_sub(1))
    }

    /// The node as a class, if it matches exactly one code point.
    fn as_class(&self) -> Option<Arc<Class>> {
        match &self.kind {
            Kind::Class(class) => Some(Arc::clone(class)),
            Kind::Literal { codes, folded } => match codes.as_slice() {
                [code] => Some(Arc::new(single(*code, *folded))),
                _ => None,
            },
            _ => None,
        }
    }

    /// Whether the counts of nested repetitions, multiplied, are at most `most`.
    pub(super) fn repeats_at_most(&self, most: u32) -> bool {
        match &self.kind {
            Kind::Repeat { repetition, sub } if repetition.counted => {
                let count = repetition.max.unwrap_or(repetition.min);
                match (count, repetition.max) {
                    (_, Some(0)) => true,
                    (count, _) if count > most => false,
                    (0, _) => sub.repeats_at_most(most),
                    (count, _) => sub.repeats_at_most(most.checked_div(count).unwrap_or(0)),
                }
            }
            Kind::Repeat { sub, .. } | Kind::Capture { sub, .. } => sub.repeats_at_most(most),
            Kind::Concat(parts) | Kind::Alternate(parts) => {
                parts.iter().all(|part| part.repeats_at_most(most))
            }
            Kind::Empty | Kind::Literal { .. } | Kind::Class(_) | Kind::Look(_) => true,
        }
    }
}

/// The set of one code point.
pub(super) fn single(code: u32, folded: bool) -> Class {
    let class = Class::of(vec![(code, code)]);
    if folded { class.folded() } else { class }
}

/// A single part is returned itself; no parts are the empty text.
fn many(mut parts: Vec<Tree>, kind: fn(Vec<Tree>) -> Kind, splits: fn(u64) -> u64) -> Tree {
    match parts.len() {
        0 => Tree::leaf(Kind::Empty),
        1 => parts.swap_remove(0),
        count => {
            let height = parts.iter().map(|part| part.height).max().unwrap_or(0).saturating_add(1);
            let size = parts.iter().fold(splits(count as u64), |size, part| size.saturating_add(part.size));
            Tree { kind: kind(parts), height, size }
        }
    }
}

/// Appends a part; a text is joined to a text before it.
pub(super) fn push_joined(parts: &mut Vec<Tree>, part: Tree) {
    if let Kind::Literal { codes, folded } = &part.kind
        && let Some(Tree { kind: Kind::Literal { codes: before, folded: same }, size, .. }) = parts.last_mut()
        && same == folded
    {
        before.extend(codes);
        *size = before.len() as u64;
        return;
    }
    parts.push(part);
}

fn flush(parts: &mut Vec<Tree>, ranges: &mut Vec<(u32, u32)>) {
    if !ranges.is_empty() {
        parts.push(Tree::leaf(Kind::Class(Arc::new(Class::of(std::mem::take(ranges))))));
    }
}
