//! Parses Go's regular expressions (package `regexp/syntax` with the Perl flags that `regexp.Compile` sets), with Go's
//! errors.

mod brackets;
mod escape;

use super::class::Class;
use super::tree::{Kind, Look, Repetition, Tree, push_joined};
use std::sync::{Arc, LazyLock};

/// The highest tree.
const HEIGHT_MAX: u32 = 1000;
/// The largest repetition, with nested counts multiplied.
const REPEAT_MAX: u32 = 1000;
/// The maximum number of instructions of Go's program.
const SIZE_MAX: u64 = (128 << 20) / 40;
/// The maximum number of integers in the ranges of all classes. Go allows four times as many.
const RUNES_MAX: usize = 8 << 20;

static ANY: LazyLock<Arc<Class>> = LazyLock::new(|| Arc::new(Class::any()));
static NOT_LINE_FEED: LazyLock<Arc<Class>> = LazyLock::new(|| Arc::new(Class::not_line_feed()));

/// A parsed expression.
#[derive(Debug)]
pub(super) struct Parsed {
    pub(super) tree: Tree,
    /// The number of capture groups.
    pub(super) groups: u32,
}

/// Parses a pattern. The error is Go's text after `error parsing regexp: `.
pub(super) fn parse(pattern: &str) -> Result<Parsed, String> {
    let mut parser = Parser::new(pattern);
    match parser.run() {
        Ok(tree) => Ok(Parsed { tree, groups: parser.groups }),
        Err(Refusal { why, at }) => Err(format!("{why}: `{at}`")),
    }
}

/// An error, and the part of the pattern that it quotes.
struct Refusal<'a> {
    why: &'static str,
    at: &'a str,
}

type Step<'a, T> = Result<T, Refusal<'a>>;

fn refuse<'a, T>(why: &'static str, at: &'a str) -> Step<'a, T> {
    Err(Refusal { why, at })
}

/// The flags that a pattern can set.
#[derive(Clone, Copy, Default)]
struct Flags {
    fold_case: bool,
    multi_line: bool,
    dot_all: bool,
    non_greedy: bool,
}

/// An open group.
struct Open {
    /// `None` for a group that does not capture.
    index: Option<u32>,
    /// The flags that apply after it.
    flags: Flags,
    /// The alternatives before the last bar.
    alternatives: Vec<Tree>,
    /// The parts since the last bar.
    parts: Vec<Tree>,
}

struct Parser<'a> {
    pattern: &'a str,
    rest: &'a str,
    flags: Flags,
    /// The open groups, outermost first; the first is the whole pattern.
    open: Vec<Open>,
    groups: u32,
    runes: usize,
}

impl<'a> Parser<'a> {
    fn new(pattern: &'a str) -> Self {
        let flags = Flags::default();
        let whole = Open { index: None, flags, alternatives: Vec::new(), parts: Vec::new() };
        Parser { pattern, rest: pattern, flags, open: vec![whole], groups: 0, runes: 0 }
    }

    fn run(&mut self) -> Step<'a, Tree> {
        // The start of the repetition that was read last.
        let mut last_repeat = None;
        while let Some(c) = self.rest.chars().next() {
            let before = self.rest;
            let is_repeat = match c {
                '*' | '+' | '?' => {
                    self.advance(1);
                    let (min, max) = match c {
                        '*' => (0, None),
                        '+' => (1, None),
                        _ => (0, Some(1)),
                    };
                    self.repeat(min, max, false, before, last_repeat)?;
                    true
                }
                '{' => self.parse_counted_repeat(before, last_repeat)?,
                _ => {
                    self.item(c)?;
                    false
                }
            };
            last_repeat = is_repeat.then_some(before);
        }
        match self.open.pop() {
            Some(whole) if self.open.is_empty() => {
                let tree = close(whole);
                self.check(&tree)?;
                Ok(tree)
            }
            _ => refuse("missing closing )", self.pattern),
        }
    }

    fn advance(&mut self, bytes: usize) {
        self.rest = self.rest.get(bytes..).unwrap_or("");
    }

    /// The part of `before` that was consumed since.
    fn read_of(&self, before: &'a str) -> &'a str {
        before.get(..before.len().saturating_sub(self.rest.len())).unwrap_or(before)
    }

    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.advance(c.len_utf8());
        Some(c)
    }

    /// Parses an item that begins with `c` and is not a repetition.
    fn item(&mut self, c: char) -> Step<'a, ()> {
        match c {
            '(' if self.rest.starts_with("(?") => return self.perl_group(),
            '(' => {
                self.groups = self.groups.saturating_add(1);
                self.begin_group(Some(self.groups));
            }
            ')' => return self.end_group(),
            '|' => {
                if let Some(open) = self.open.last_mut() {
                    let parts = std::mem::take(&mut open.parts);
                    let alternative = Tree::concat(parts);
                    let checked = check(&alternative, self.pattern);
                    open.alternatives.push(alternative);
                    checked?;
                }
            }
            '^' if self.flags.multi_line => self.look(Look::LineStart)?,
            '^' => self.look(Look::TextStart)?,
            '$' if self.flags.multi_line => self.look(Look::LineEnd)?,
            '$' => self.look(Look::TextEnd)?,
            '.' if self.flags.dot_all => self.push_class(Arc::clone(&ANY))?,
            '.' => self.push_class(Arc::clone(&NOT_LINE_FEED))?,
            '[' => return self.brackets(),
            '\\' => return self.backslash(),
            _ => self.push_literal(c.into())?,
        }
        self.advance(c.len_utf8());
        Ok(())
    }

    fn push(&mut self, tree: Tree) -> Step<'a, ()> {
        let checked = self.check(&tree);
        if let Some(open) = self.open.last_mut() {
            // Earlier parts cannot be repeated any more, so they can be joined: a long text is one node.
            if let Some(last) = open.parts.pop() {
                push_joined(&mut open.parts, last);
            }
            open.parts.push(tree);
        }
        checked
    }

    fn check(&self, tree: &Tree) -> Step<'a, ()> {
        if self.runes > RUNES_MAX {
            return refuse("expression too large", self.pattern);
        }
        check(tree, self.pattern)
    }

    fn push_literal(&mut self, code: u32) -> Step<'a, ()> {
        let folded = self.flags.fold_case && super::tree::single(code, true).ranges() != [(code, code)];
        self.push(Tree::leaf(Kind::Literal { codes: vec![code], folded }))
    }

    fn push_class(&mut self, class: Arc<Class>) -> Step<'a, ()> {
        self.runes = self.runes.saturating_add(class.runes());
        self.push(Tree::leaf(Kind::Class(class)))
    }

    fn look(&mut self, look: Look) -> Step<'a, ()> {
        self.push(Tree::leaf(Kind::Look(look)))
    }

    fn begin_group(&mut self, index: Option<u32>) {
        self.open.push(Open { index, flags: self.flags, alternatives: Vec::new(), parts: Vec::new() });
    }

    fn end_group(&mut self) -> Step<'a, ()> {
        let Some(group) = self.open.pop().filter(|_| !self.open.is_empty()) else {
            return refuse("unexpected )", self.pattern);
        };
        self.advance(1);
        self.flags = group.flags;
        let index = group.index;
        let tree = close(group);
        self.check(&tree)?;
        self.push(match index {
            Some(index) => Tree::capture(index, tree),
            None => tree,
        })
    }

    /// Parses the start of a group: `(?P<name>`, `(?<name>`, `(?:`, `(?i)`, `(?i-s:`.
    fn perl_group(&mut self) -> Step<'a, ()> {
        let whole = self.rest;
        let named = [("(?P<", 4), ("(?<", 3)].into_iter().find(|(open, at)| {
            // Go also checks the length: an opening at the very end is not a name.
            whole.starts_with(open) && whole.len() > *at
        });
        if let Some((_, at)) = named {
            let Some(end) = whole.find('>') else { return refuse("invalid named capture", whole) };
            let name = whole.get(at..end).unwrap_or("");
            if name.is_empty() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
                return refuse("invalid named capture", whole.get(..end.saturating_add(1)).unwrap_or(whole));
            }
            self.advance(end.saturating_add(1));
            self.groups = self.groups.saturating_add(1);
            self.begin_group(Some(self.groups));
            return Ok(());
        }
        self.advance(2);
        let mut flags = self.flags;
        let (mut value, mut saw_flag) = (true, false);
        while let Some(c) = self.next() {
            match c {
                'i' => flags.fold_case = value,
                'm' => flags.multi_line = value,
                's' => flags.dot_all = value,
                'U' => flags.non_greedy = value,
                '-' if value => {
                    value = false;
                    saw_flag = false;
                    continue;
                }
                ':' | ')' if value || saw_flag => {
                    if c == ':' {
                        self.begin_group(None);
                    }
                    self.flags = flags;
                    return Ok(());
                }
                _ => break,
            }
            saw_flag = true;
        }
        refuse("invalid or unsupported Perl syntax", self.read_of(whole))
    }

    /// Parses `{2}`, `{2,}`, `{2,3}`; any other brace is a literal. Returns whether it was a repetition.
    fn parse_counted_repeat(&mut self, before: &'a str, last_repeat: Option<&'a str>) -> Step<'a, bool> {
        let Some(Counts { min, max, after }) = parse_counts(before) else {
            self.push_literal('{'.into())?;
            self.advance(1);
            return Ok(false);
        };
        self.rest = after;
        let too_many = |count: Option<u32>| count.is_none_or(|count| count > REPEAT_MAX);
        let max_or_min = match max {
            Some(max) => max,
            None => min,
        };
        let (Some(low), false) = (min, too_many(min) || too_many(max_or_min)) else {
            return refuse("invalid repeat count", self.read_of(before));
        };
        let high = max.flatten();
        if high.is_some_and(|high| low > high) {
            return refuse("invalid repeat count", self.read_of(before));
        }
        self.repeat(low, high, true, before, last_repeat)?;
        Ok(true)
    }

    /// Repeats the last part.
    fn repeat(
        &mut self,
        min: u32,
        max: Option<u32>,
        counted: bool,
        before: &'a str,
        last_repeat: Option<&'a str>,
    ) -> Step<'a, ()> {
        let mut greedy = !self.flags.non_greedy;
        if self.rest.starts_with('?') {
            self.advance(1);
            greedy = !greedy;
        }
        if let Some(first) = last_repeat {
            return refuse("invalid nested repetition operator", self.read_of(first));
        }
        let Some(sub) = self.open.last_mut().and_then(|open| open.parts.pop()) else {
            return refuse("missing argument to repetition operator", self.read_of(before));
        };
        let tree = Tree::repeat(Repetition { min, max, greedy, counted }, sub);
        self.check(&tree)?;
        let valid =
            !counted || (min < 2 && max.is_none_or(|max| max < 2)) || tree.repeats_at_most(REPEAT_MAX);
        if let Some(open) = self.open.last_mut() {
            open.parts.push(tree);
        }
        if !valid {
            return refuse("invalid repeat count", self.read_of(before));
        }
        Ok(())
    }
}

/// The tree of a group.
fn close(group: Open) -> Tree {
    let last = Tree::concat(group.parts);
    if group.alternatives.is_empty() {
        return last;
    }
    let mut alternatives = group.alternatives;
    alternatives.push(last);
    Tree::alternate(alternatives)
}

fn check<'a>(tree: &Tree, pattern: &'a str) -> Step<'a, ()> {
    if tree.size > SIZE_MAX {
        return refuse("expression too large", pattern);
    }
    if tree.height > HEIGHT_MAX {
        return refuse("expression nests too deeply", pattern);
    }
    Ok(())
}

/// The numbers of `{2,3}`; one that is far too large is `None`.
struct Counts<'a> {
    min: Option<u32>,
    /// `None` for `{2,}`.
    max: Option<Option<u32>>,
    after: &'a str,
}

fn parse_counts(text: &str) -> Option<Counts<'_>> {
    let (min, rest) = number(text.strip_prefix('{')?)?;
    let (max, rest) = match rest.strip_prefix(',') {
        None => (Some(min), rest),
        Some(rest) if rest.starts_with('}') => (None, rest),
        Some(rest) => {
            let (max, rest) = number(rest)?;
            (Some(max), rest)
        }
    };
    Some(Counts { min, max, after: rest.strip_prefix('}')? })
}

/// A decimal number without leading zeros; `None` inside if it is very large.
fn number(text: &str) -> Option<(Option<u32>, &str)> {
    let end = text.bytes().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len());
    let (digits, rest) = text.split_at_checked(end)?;
    if digits.is_empty() || (digits.len() > 1 && digits.starts_with('0')) {
        return None;
    }
    Some((digits.parse().ok(), rest))
}
