//! Go's regular expressions: `parse` parses them to a tree, from which `automaton` or, for large expressions, `wide`
//! builds a matcher. Every expression that Go accepts can be compiled.

mod automaton;
mod cache;
mod class;
mod parse;
mod tree;
mod wide;

#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;

pub use cache::Pattern;
use parse::Parsed;
use tree::Tree;

/// The highest tree that is compiled on the caller's stack.
const HEIGHT_SHALLOW: u32 = 50;
/// The stack for compiling the highest tree. The kernel allocates only the pages that are used.
const DEEP_STACK_BYTES: usize = 32 << 20;

/// Whether `pattern` matches anywhere in `text`. An invalid pattern matches nowhere.
pub fn is_match(pattern: &str, text: &str) -> bool {
    cache::get(pattern).is_ok_and(|regex| regex.is_match(text))
}

/// The compiled pattern, or Go's error: `error parsing regexp: …`.
pub fn compile(pattern: &str) -> Result<Arc<Regex>, String> {
    cache::get(pattern).map_err(|why| why.to_string())
}

/// Go's error for a pattern: `error parsing regexp: …`.
pub fn error(pattern: &str) -> Option<String> {
    parse::parse(pattern).err().map(full_text)
}

fn full_text(why: String) -> String {
    format!("error parsing regexp: {why}")
}

/// A compiled expression.
#[derive(Debug)]
pub struct Regex {
    engine: Engine,
    groups: usize,
}

#[derive(Debug)]
enum Engine {
    Automaton(regex_automata::meta::Regex),
    Wide(wide::Program),
}

/// The positions of a match and its groups. Only the first nine groups are reported.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captures(Vec<Option<Range<usize>>>);

impl Captures {
    /// The position of a group, or of the whole match for 0.
    pub fn get(&self, group: usize) -> Option<Range<usize>> {
        self.0.get(group)?.clone()
    }

    /// The position of the match.
    pub fn whole(&self) -> Range<usize> {
        self.get(0).unwrap_or(0..0)
    }
}

impl Regex {
    fn new(pattern: &str) -> Result<Self, String> {
        let Parsed { tree, groups } = parse::parse(pattern).map_err(full_text)?;
        Ok(Regex { engine: on_large_stack(&tree, Engine::of), groups: groups as usize })
    }

    /// How many groups the pattern has.
    pub fn groups(&self) -> usize {
        self.groups
    }

    /// The approximate memory of the expression and its searches.
    fn bytes(&self) -> usize {
        match &self.engine {
            // Each concurrent search takes about as much again.
            Engine::Automaton(regex) => regex.memory_usage().saturating_mul(3),
            Engine::Wide(program) => program.bytes(),
        }
    }

    /// Whether the expression matches anywhere in the text.
    pub fn is_match(&self, text: &str) -> bool {
        match &self.engine {
            Engine::Automaton(regex) => regex.is_match(text),
            Engine::Wide(program) => program.is_match(text),
        }
    }

    /// The first match.
    pub fn find(&self, text: &str) -> Option<Range<usize>> {
        match &self.engine {
            Engine::Automaton(regex) => regex.find(text).map(|found| found.range()),
            Engine::Wide(_) => self.captures_from(text, 0).map(|found| found.whole()),
        }
    }

    /// The first match and its groups.
    pub fn captures(&self, text: &str) -> Option<Captures> {
        self.captures_from(text, 0)
    }

    /// All matches that do not overlap. As in Go, an empty match right after another one is skipped.
    pub fn captures_iter<'a>(&'a self, text: &'a str) -> impl Iterator<Item = Captures> + 'a {
        let mut at = Some(0);
        let mut last_end = None;
        std::iter::from_fn(move || {
            loop {
                let start = at?;
                let Some(found) = self.captures_from(text, start) else {
                    at = None;
                    return None;
                };
                let Range { start: first, end } = found.whole();
                at = if end > start {
                    Some(end)
                } else {
                    text.get(start..)
                        .and_then(|rest| rest.chars().next())
                        .map(|c| start.saturating_add(c.len_utf8()))
                };
                let repeats = first == end && last_end == Some(first);
                last_end = Some(end);
                if !repeats {
                    return Some(found);
                }
            }
        })
    }

    fn captures_from(&self, text: &str, start: usize) -> Option<Captures> {
        let count = self.groups.saturating_add(1).min(wide::GROUPS_MAX);
        match &self.engine {
            Engine::Automaton(regex) => {
                let mut found = regex.create_captures();
                regex.search_captures(&regex_automata::Input::new(text).range(start..), &mut found);
                found.get_match()?;
                Some(Captures(
                    (0..count).map(|group| found.get_group(group).map(|span| span.range())).collect(),
                ))
            }
            Engine::Wide(program) => {
                let slots = program.captures(text, start)?;
                let groups = slots.as_chunks::<2>().0.iter().take(count);
                Some(Captures(groups.map(|[start, end]| Some((*start)?..(*end)?)).collect()))
            }
        }
    }
}

impl Engine {
    fn of(tree: &Tree) -> Self {
        match automaton::build(tree) {
            Some(regex) => Engine::Automaton(regex),
            None => Engine::Wide(wide::Program::of(tree)),
        }
    }
}

/// Compiles the tree on a stack that is large enough.
fn on_large_stack<T: Send>(tree: &Tree, run: fn(&Tree) -> T) -> T {
    if tree.height <= HEIGHT_SHALLOW {
        return run(tree);
    }
    std::thread::scope(|scope| {
        let thread = std::thread::Builder::new().stack_size(DEEP_STACK_BYTES);
        let worker = thread.spawn_scoped(scope, || run(tree)).ok();
        // If a thread cannot be spawned, use the caller's stack.
        worker.and_then(|worker| worker.join().ok()).unwrap_or_else(|| run(tree))
    })
}
