//! The engine for expressions that are too large for automata: it follows all threads of a program at once, code point
//! by code point, as Go does. Classes are shared, so `\p{L}{1000}` takes a thousand instructions and one table.

use std::collections::HashMap;
use std::rc::Rc;
use std::sync::Arc;

use super::class::Class;
use super::tree::{Kind, Look, Repetition, Tree, single};

/// The maximum number of groups that are recorded, including the whole match: callers need no more.
pub(super) const GROUPS_MAX: usize = 10;
/// The maximum number of instructions of one search; a text that needs more does not match.
const STEPS_MAX: u64 = 1_000_000_000;

/// A compiled expression.
#[derive(Debug, Default)]
pub(super) struct Program {
    instructions: Vec<Instruction>,
    classes: Vec<Arc<Class>>,
    /// The indices of the classes by their addresses, while the program is built.
    known: HashMap<usize, u32>,
}

#[derive(Clone, Copy, Debug)]
enum Instruction {
    /// Matches this code point.
    Code(u32),
    /// Matches a code point of this class.
    Class(u32),
    /// Continues at both, the first preferred.
    Split(u32, u32),
    Jump(u32),
    /// Records the position.
    Save(u32),
    Look(Look),
    Match,
}

/// The start and end of each group.
type Slots = [Option<usize>; 2 * GROUPS_MAX];

impl Program {
    /// Compiles an expression.
    pub(super) fn of(tree: &Tree) -> Self {
        let mut program = Program::default();
        program.emit(tree);
        program.push(Instruction::Match);
        program.known = HashMap::new();
        program
    }

    /// The approximate bytes of the program and of a search.
    pub(super) fn bytes(&self) -> usize {
        let classes: usize = self.classes.iter().map(|class| class.runes().saturating_mul(4)).sum();
        self.instructions
            .len()
            .saturating_mul(4)
            .saturating_mul(size_of::<Instruction>())
            .saturating_add(classes)
    }

    fn push(&mut self, instruction: Instruction) -> u32 {
        let at = self.at();
        self.instructions.push(instruction);
        at
    }

    /// The position of the next instruction.
    fn at(&self) -> u32 {
        u32::try_from(self.instructions.len()).unwrap_or(u32::MAX)
    }

    fn emit_class(&mut self, class: Arc<Class>) {
        let count = u32::try_from(self.classes.len()).unwrap_or(u32::MAX);
        // Copies of a repeated part share their classes.
        let at = *self.known.entry(Arc::as_ptr(&class) as usize).or_insert(count);
        if at == count {
            self.classes.push(class);
        }
        self.push(Instruction::Class(at));
    }

    fn emit(&mut self, tree: &Tree) {
        match &tree.kind {
            Kind::Empty => {}
            Kind::Literal { codes, folded: false } => {
                codes.iter().for_each(|&code| {
                    self.push(Instruction::Code(code));
                });
            }
            Kind::Literal { codes, folded: true } => {
                codes.iter().for_each(|&code| self.emit_class(Arc::new(single(code, true))));
            }
            Kind::Class(class) => self.emit_class(Arc::clone(class)),
            Kind::Look(look) => {
                self.push(Instruction::Look(*look));
            }
            Kind::Capture { index, sub } => {
                self.push(Instruction::Save(index.saturating_mul(2)));
                self.emit(sub);
                self.push(Instruction::Save(index.saturating_mul(2).saturating_add(1)));
            }
            Kind::Repeat { repetition, sub } => self.emit_repetition(*repetition, sub),
            Kind::Concat(parts) => parts.iter().for_each(|part| self.emit(part)),
            Kind::Alternate(parts) => self.emit_alternatives(parts),
        }
    }

    fn emit_alternatives(&mut self, parts: &[Tree]) {
        let Some((last, others)) = parts.split_last() else { return };
        let mut ends = Vec::with_capacity(others.len());
        for part in others {
            let split = self.push(Instruction::Split(0, 0));
            self.emit(part);
            ends.push(self.push(Instruction::Jump(0)));
            self.set(split, Instruction::Split(split.saturating_add(1), self.at()));
        }
        self.emit(last);
        let end = self.at();
        ends.into_iter().for_each(|jump| self.set(jump, Instruction::Jump(end)));
    }

    fn emit_repetition(&mut self, Repetition { min, max, greedy, .. }: Repetition, sub: &Tree) {
        let copies = match max {
            None => min.max(1),
            Some(max) => max,
        };
        let mut optional = Vec::new();
        for copy in 0..copies {
            if copy >= min {
                optional.push(self.push(Instruction::Split(0, 0)));
            }
            let start = self.at();
            self.emit(sub);
            if max.is_none() && copy.saturating_add(1) == copies {
                // The last copy is a loop: `x+`.
                let split = self.push(Instruction::Split(0, 0));
                self.set(split, ordered(start, split.saturating_add(1), greedy));
            }
        }
        let end = self.at();
        optional.into_iter().for_each(|split| self.set(split, ordered(split.saturating_add(1), end, greedy)));
    }

    fn set(&mut self, at: u32, instruction: Instruction) {
        if let Some(slot) = self.instructions.get_mut(at as usize) {
            *slot = instruction;
        }
    }

    /// Whether the expression matches anywhere.
    pub(super) fn is_match(&self, text: &str) -> bool {
        self.search(text, 0, false).is_some()
    }

    /// The first match from `start` on, with its groups.
    pub(super) fn captures(&self, text: &str, start: usize) -> Option<Slots> {
        self.search(text, start, true)
    }

    fn search(&self, text: &str, start: usize, all: bool) -> Option<Slots> {
        let mut current = Threads::new(self.instructions.len());
        let mut next = Threads::new(self.instructions.len());
        let mut stack = Vec::new();
        let mut found: Option<Slots> = None;
        let mut steps = 0_u64;
        let mut at = start;
        let mut before = text.get(..start)?.chars().next_back();
        let mut rest = text.get(start..)?.chars();
        loop {
            let place = Place { at, before, after: rest.clone().next() };
            if found.is_none() {
                let mut slots = [None; 2 * GROUPS_MAX];
                if all {
                    slots[0] = Some(at);
                }
                self.follow(0, Rc::new(slots), &place, &mut current, &mut stack);
            }
            if current.list.is_empty() && found.is_some() {
                return found;
            }
            steps = steps.saturating_add(current.visited_count() as u64).saturating_add(1);
            if steps > STEPS_MAX {
                return None;
            }
            let taken = rest.next();
            let width = taken.map_or(0, char::len_utf8);
            let after = Place { at: at.saturating_add(width), before: taken, after: rest.clone().next() };
            for (instruction, slots) in current.list.drain(..) {
                let takes = match (self.instructions.get(instruction as usize), taken) {
                    (Some(Instruction::Match), _) => {
                        let mut slots = *slots;
                        slots[1] = Some(at);
                        found = Some(slots);
                        if !all {
                            return found;
                        }
                        // Later threads are less preferred.
                        break;
                    }
                    (Some(Instruction::Code(code)), Some(c)) => *code == u32::from(c),
                    (Some(Instruction::Class(class)), Some(c)) => {
                        self.classes.get(*class as usize).is_some_and(|class| class.contains(c.into()))
                    }
                    _ => false,
                };
                if takes {
                    self.follow(instruction.saturating_add(1), slots, &after, &mut next, &mut stack);
                }
            }
            if taken.is_none() {
                return found;
            }
            current.clear();
            std::mem::swap(&mut current, &mut next);
            (at, before) = (at.saturating_add(width), taken);
        }
    }

    /// Adds the instructions that are reachable from one without consuming text, in order of preference.
    fn follow(
        &self,
        from: u32,
        slots: Rc<Slots>,
        place: &Place,
        threads: &mut Threads,
        stack: &mut Vec<(u32, Rc<Slots>)>,
    ) {
        stack.push((from, slots));
        while let Some((at, slots)) = stack.pop() {
            if !threads.visit(at) {
                continue;
            }
            match self.instructions.get(at as usize) {
                Some(Instruction::Split(first, second)) => {
                    stack.push((*second, Rc::clone(&slots)));
                    stack.push((*first, slots));
                }
                Some(Instruction::Jump(to)) => stack.push((*to, slots)),
                Some(Instruction::Save(slot)) => {
                    let mut slots = slots;
                    if let Some(value) = Rc::make_mut(&mut slots).get_mut(*slot as usize) {
                        *value = Some(place.at);
                    }
                    stack.push((at.saturating_add(1), slots));
                }
                Some(Instruction::Look(look)) if place.is_at(*look) => {
                    stack.push((at.saturating_add(1), slots))
                }
                Some(Instruction::Look(_)) | None => {}
                Some(_) => threads.list.push((at, slots)),
            }
        }
    }
}

fn ordered(inner: u32, outer: u32, greedy: bool) -> Instruction {
    if greedy { Instruction::Split(inner, outer) } else { Instruction::Split(outer, inner) }
}

/// A position between two characters.
struct Place {
    at: usize,
    before: Option<char>,
    after: Option<char>,
}

impl Place {
    fn is_at(&self, look: Look) -> bool {
        let is_word = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric() || c == '_');
        match look {
            Look::TextStart => self.before.is_none(),
            Look::TextEnd => self.after.is_none(),
            Look::LineStart => matches!(self.before, None | Some('\n')),
            Look::LineEnd => matches!(self.after, None | Some('\n')),
            Look::WordBoundary => is_word(self.before) != is_word(self.after),
            Look::NoWordBoundary => is_word(self.before) == is_word(self.after),
        }
    }
}

/// The threads at one position, in order of preference, and the visited instructions.
struct Threads {
    list: Vec<(u32, Rc<Slots>)>,
    /// The last round in which each instruction was visited.
    visited: Vec<u32>,
    round: u32,
    count: usize,
}

impl Threads {
    fn new(instructions: usize) -> Self {
        Threads { list: Vec::new(), visited: vec![0; instructions], round: 1, count: 0 }
    }

    /// Whether this is the first visit of the instruction in this round.
    fn visit(&mut self, instruction: u32) -> bool {
        match self.visited.get_mut(instruction as usize) {
            Some(round) if *round != self.round => {
                *round = self.round;
                self.count = self.count.saturating_add(1);
                true
            }
            _ => false,
        }
    }

    fn visited_count(&self) -> usize {
        self.count
    }

    fn clear(&mut self) {
        self.list.clear();
        self.count = 0;
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.visited.fill(0);
            self.round = 1;
        }
    }
}
