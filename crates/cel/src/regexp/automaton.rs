//! The fast engine: the automata of `regex-automata`, for all but the largest expressions.

use regex_automata::meta::{Config, Regex};
use regex_syntax::hir;

use super::tree::{Kind, Look, Repetition, Tree, single};

/// The size limit of an automaton.
const NFA_BYTES_MAX: usize = 1 << 20;
/// The largest expression for which an automaton is tried.
const SIZE_MAX: u64 = 20_000;

/// Builds the automaton of an expression; `None` if it would be too large.
///
/// It uses no lazy automaton and no backtracker, because the size of their caches is not accounted for, and therefore no
/// full automaton: `regex-automata` panics with strategies that have only one of the two.
pub(super) fn build(tree: &Tree) -> Option<Regex> {
    if tree.size > SIZE_MAX {
        return None;
    }
    let config = Config::new()
        .utf8_empty(true)
        .nfa_size_limit(Some(NFA_BYTES_MAX))
        .hybrid(false)
        .dfa(false)
        .backtrack(false);
    Regex::builder().configure(config).build_from_hir(&translate(tree)).ok()
}

fn translate(tree: &Tree) -> hir::Hir {
    use hir::Hir;
    match &tree.kind {
        Kind::Empty => Hir::empty(),
        Kind::Literal { codes, folded } => Hir::concat(literal_parts(codes, *folded)),
        Kind::Class(class) => Hir::class(hir::Class::Unicode(class.to_unicode())),
        Kind::Look(look) => Hir::look(match look {
            Look::TextStart => hir::Look::Start,
            Look::TextEnd => hir::Look::End,
            Look::LineStart => hir::Look::StartLF,
            Look::LineEnd => hir::Look::EndLF,
            Look::WordBoundary => hir::Look::WordAscii,
            Look::NoWordBoundary => hir::Look::WordAsciiNegate,
        }),
        Kind::Capture { index, sub } => {
            Hir::capture(hir::Capture { index: *index, name: None, sub: Box::new(translate(sub)) })
        }
        Kind::Repeat { repetition: Repetition { min, max, greedy, .. }, sub } => {
            let sub = Box::new(translate(sub));
            Hir::repetition(hir::Repetition { min: *min, max: *max, greedy: *greedy, sub })
        }
        Kind::Concat(parts) => Hir::concat(parts.iter().map(translate).collect()),
        Kind::Alternate(parts) => Hir::alternation(parts.iter().map(translate).collect()),
    }
}

fn literal_parts(codes: &[u32], folded: bool) -> Vec<hir::Hir> {
    let one = |&code: &u32| match char::from_u32(code) {
        Some(c) if !folded => hir::Hir::literal(c.encode_utf8(&mut [0; 4]).as_bytes()),
        // Surrogates do not occur in texts: the class is empty.
        _ => hir::Hir::class(hir::Class::Unicode(single(code, folded).to_unicode())),
    };
    codes.iter().map(one).collect()
}
